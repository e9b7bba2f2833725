//! Translation between wire and model, one file per noun.
//!
//! From the model to the wire nothing can fail. From the wire to the model everything is checked once, and a
//! fault names its field by the path in which it stands in the message. Sizes that an operator may set are not
//! checked here but by [`Instance::validate`](heureka_model::Instance::validate).

mod change;
mod digest;
mod instance;
mod key;
mod lease;
mod registration;
mod report;
mod selector;
mod status;
mod time;
mod version;

pub use change::removal_reason;
pub use key::BorrowedKey;
pub use selector::{MAX_SELECTOR_ENTRIES, MAX_SELECTOR_TEXT, MAX_SELECTOR_TEXTS, MAX_SELECTORS, selectors};
pub use status::{status, status_number};
pub use time::{duration, timestamp, wall, wire_duration};
