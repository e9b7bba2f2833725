//! What applications import: be found, find others, hear of every change.
//!
//! * [`Client::register`] keeps an instance registered as long as its [`Lease`] lives.
//! * [`Client::cache`] keeps the instances of others at hand: look-ups without waiting, picks in turn.
//! * [`Client::watch`] tells every change as a stream, [`Client::watch_many`] those of many sets that come and go.
//!
//! All of them outlive restarts of servers and cut connections; what an application has to handle are its own
//! mistakes. The rules behind are those of `docs/watch-contract.md` and `docs/errors.md`; `docs/client.md` tells
//! what this crate guarantees.
//!
//! ```no_run
//! use heureka_client::model::{Instance, InstanceKey, Port};
//!
//! # async fn example() -> Result<(), heureka_client::Error> {
//! let client = heureka_client::Client::connect(["http://a:8761", "http://b:8761"])?;
//!
//! let key = InstanceKey { namespace: String::new(), app: "BILLING".into(), id: "n7:billing:9100".into() };
//! let port = Some(Port { number: 9100, enabled: true });
//! let lease = client.register(Instance { host_name: "n7.lan".into(), port, ..Instance::new(key) }).await?;
//!
//! let cache = client.cache(Vec::new());
//! cache.ready().await?;
//! println!("calling {}", cache.pick("INVOICES")?);
//!
//! lease.cancel().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What this crate does not do: carry the application's own calls, weigh instances or zones against each other,
//! look up its servers anywhere, or keep a cache on disk.

mod backoff;
mod cache;
mod calls;
mod client;
mod endpoint;
mod error;
mod guard;
mod keeper;
mod lease;
mod many;
mod options;
#[cfg(not(feature = "seeded-bugs"))]
mod seeded;
#[cfg(feature = "seeded-bugs")]
pub mod seeded;
mod servers;
mod set;
mod settings;
#[cfg(not(feature = "simulation"))]
mod surroundings;
#[cfg(feature = "simulation")]
pub mod surroundings;
#[cfg(test)]
mod testing;
mod transport;
mod view;
mod watch;
mod writer;

pub use cache::{AppName, Cache, Changes};
pub use client::Client;
pub use endpoint::Endpoint;
pub use error::Error;
pub use heureka_model as model;
pub use heureka_proto::v1::{InstanceSelector, LabelOperator, LabelRequirement};
pub use lease::{Lease, LeaseState};
pub use many::{SubscriptionId, Subscriptions, WatchMany};
pub use options::{Best, BestBy, GaugeRequirement, ReadingsSpec, Subset, WatchOptions};
pub use settings::Settings;
pub use tokio_stream;
pub use transport::{Line, Transport};
pub use view::Event;
pub use watch::Watch;
