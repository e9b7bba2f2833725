//! Subscriptions: cursors into the log with a filter. There is no queue per reader; one that falls behind the
//! ring reads the index and gets each changed key once.

mod apps;
mod frame;
mod horizon;
mod interest;
mod interests;
mod room;
mod snapshot;
mod step;
mod subscription;
mod tally;
mod vector;

pub use apps::{AppDigest, Extent, ToldApps};
pub(crate) use frame::BYTES;
pub use frame::Frame;
pub(crate) use horizon::Horizon;
pub(crate) use interest::left;
pub(crate) use interests::Interests;
pub use subscription::{Batch, Place, Start, Subscription, TakesLong};
