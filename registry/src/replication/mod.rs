//! Replication: what servers exchange about a key and how they agree on it.

mod merge;
mod state;

pub use merge::Merged;
pub use state::{Content, KeyState, OwnerState};
