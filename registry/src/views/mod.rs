//! Subscriptions to a choice of what is there: those that fit by their numbers, the best, or a client's own part. They
//! read the log by a subscription below and the readings beside it, and tell the difference to what they told before.

mod candidates;
mod choice;
mod pool;
mod pools;
mod reader;
mod view;

pub use choice::{Best, By, Choice, Subset};
pub(crate) use pools::Pools;
pub use reader::Reader;
pub use view::View;
