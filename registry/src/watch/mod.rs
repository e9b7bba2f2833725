//! Subscriptions: cursors into the log with a filter. There is no queue per reader; one that falls behind the
//! ring reads the index and gets each changed key once.

mod apps;
mod candidates;
mod choice;
mod frame;
mod horizon;
mod interest;
mod interests;
mod lane;
mod pool;
mod pools;
mod reader;
mod room;
mod snapshot;
mod subscription;
mod tally;
mod vector;
mod view;

pub use apps::{AppDigest, AppNames};
pub use choice::{Best, By, Choice, Subset};
pub use frame::Frame;
pub(crate) use horizon::Horizon;
pub(crate) use interests::Interests;
pub use lane::{Gauges, Lane, LaneWish};
pub(crate) use pools::Pools;
pub use reader::Reader;
pub use subscription::{Batch, Start, Subscription, TakesLong};
pub use view::View;
