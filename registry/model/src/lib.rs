//! The vocabulary that client, server and both wires share.
//!
//! Plain values and the rules that need nothing else: what an instance is, how versions compare, which
//! instances a selector matches, how a set of instances is fingerprinted. No clocks, no sockets, no wire
//! formats; those crates translate into these types at their edge, so that inside every value is valid.

mod change;
mod digest;
mod instance;
mod invalid;
mod key;
mod lease;
mod limits;
mod numbers;
mod registration;
mod report;
mod selector;
mod status;
mod time;
mod version;

pub use change::{Action, Change, ChangeKind, RemovalReason};
pub use digest::{BucketSums, KeyHasher, SetDigest, affinity, instance_hash};
pub use instance::{Capacity, DataCenter, Instance, Legacy, Locality, Metadata, NamedPort, Port, Urls};
pub use invalid::{Invalid, Problem};
pub use key::{InstanceKey, KeyRef, canonical_app, same_text};
pub use lease::{LEASE_MAX, LEASE_MIN, LeaseTerms, LeaseTimes};
pub use limits::Limits;
pub use numbers::{Finite, GaugeRange, Numbers};
pub use registration::{DrainPlan, Overlay, Registration, StatusOverride};
pub use report::{Reading, Report};
pub use selector::{Addresses, LabelOperator, LabelRequirement, Number, Selector, Selectors};
pub use status::{Status, StatusCounts, effective_status};
pub use time::{Clock, Mono, Now, Wall};
pub use version::{Stamp, Version};
