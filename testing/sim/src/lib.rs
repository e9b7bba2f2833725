//! A whole cluster of the core in one thread: servers, streams, clients and operators on one clock that is moved
//! from event to event, with everything that can go wrong going wrong as a seed says.
//!
//! Nothing here waits, opens a socket or reads a clock, so ten minutes of a cluster take milliseconds, and a seed
//! always gives the same run. The core is the product's, called through its public functions; streams carry its
//! frames as values. What it does not show, by that: sockets, encoding, threads, the server around the core.
//!
//! ```text
//! seed ──> plan: faults, clients, operators ──> world: events in order ──> monitors: what must never happen
//!                                                 │ registry, replicator, links of every server
//! ```
//!
//! What the core cannot show of who is believed to be a peer is asked of the REST edge ([`edge()`]).

mod bugs;
mod campaign;
mod client;
mod edge;
mod minimise;
mod monitors;
mod net;
mod observe;
pub mod plan;
mod report;
mod rng;
mod trace;
mod world;

pub use bugs::{arm, bugs, disarm, name_of};
pub use campaign::{Campaign, Failure, Tally, judge, regressions};
pub use edge::edge;
pub use minimise::minimise;
pub use monitors::{Findings, Violation};
pub use plan::{Plan, Temper};
pub use report::{Report, explain};
pub use trace::Trace;
pub use world::{Outcome, run};

/// True time at the begin of every run, in milliseconds since the epoch.
pub(crate) const WALL: u64 = 1_800_000_000_000;
