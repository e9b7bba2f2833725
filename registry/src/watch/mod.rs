//! Subscriptions: cursors into the log with a filter. There is no queue per reader; one that falls behind the
//! ring reads the index and gets each changed key once.

mod subscription;
mod tally;

pub use subscription::{Batch, Start, Subscription};
