//! A client of the registry: register, renew, cancel, and watch.
//!
//! [`Client::watch`] is the part that is easy to get wrong, so it is the part that is done here: a stream of
//! changes that survives reconnects and restarts of the server, never goes back in time, and compares what it
//! holds with what the server says it should. The rules are those of `docs/watch-contract.md`.
//!
//! What this crate does not do: choose among several servers, balance calls over instances, renew in the
//! background, or keep a cache on disk.
//!
//! ```no_run
//! # async fn example() -> Result<(), heureka_client::Error> {
//! use futures_util::StreamExt as _;
//!
//! let client = heureka_client::Client::connect("http://127.0.0.1:8761")?;
//! let mut events = std::pin::pin!(client.watch(Vec::new()));
//! while let Some(event) = events.next().await {
//!     println!("{:?}", event?);
//! }
//! # Ok(())
//! # }
//! ```

mod backoff;
mod client;
mod clock;
mod error;
mod view;
mod watch;
mod writer;

pub use client::{Client, Registered, Renewed};
pub use error::Error;
pub use heureka_model as model;
pub use heureka_proto::v1::{InstanceSelector, LabelOperator, LabelRequirement};
pub use view::Event;
