//! Judges recorded watch streams by what a watcher may rely on, and names the guarantee that one breaks.
//!
//! The guarantees are those of `docs/watch-contract.md`, see [`Guarantee`]. A recording needs no server and no
//! clock: it holds the messages as they arrived, and beside them what the recording program did itself. So
//! programs in any language can be judged, and every test of watches can say more than "the set was right in the
//! end".
//!
//! # Format
//!
//! One step is one line of JSON with one of the following members, and with `watcher`, the name of the watcher it
//! belongs to, where a file has several. A watcher is a client that takes what it holds from one stream to the
//! next; it has one stream at a time. A subscription of a WatchMany call is a watcher of its own, and recorded as if its
//! events had come over a stream of its own: the goodbye of the call is the goodbye of each. Messages are the bytes of the protocol in standard base64 with padding.
//!
//! | member | content |
//! |---|---|
//! | `open` | `{"spec": WatchSpec, "server": text for people}`: a Watch call was made |
//! | `message` | `WatchResponse` as it arrived |
//! | `closed` | `{"code": "OK"}`: the call ended; CANCELLED when the client let go of it |
//! | `wrote` | `{"call": "Register", "request": …, "response": …}`: a write of the program's own was acknowledged |
//! | `forgot` | `InstanceKey`: nothing is expected any more of what was written to it before |
//! | `listed` | `{"request": …, "response": …}` of ListInstances, before a watch from its token |
//! | `rested` | the same, taken while nothing changed, until the watcher hears its next mark |
//! | `shows` | `Change`: the client's own set changed so; REMOVED, when a removal was told, with the version that was held |
//! | `held` | `{"count": 3, "hash": "16 hexadecimal digits"}`: the client's own digest of what it holds after a mark |
//!
//! ```text
//! {"open":{"spec":"","server":"127.0.0.1:8761"}}
//! {"message":"CgYKBAoAEAE="}
//! {"closed":{"code":"UNAVAILABLE"}}
//! ```
//!
//! A key of a `wrote` step is expected to live until the program removes it or says `forgot`: a recording program
//! writes keys that nobody else writes, and keeps them alive.
//!
//! # What is not judged
//!
//! Time: whether a change or a token came soon enough. Tokens of no use because removals were forgotten: a FULL
//! start is always taken as right where FOLLOW asked. Sets whose beginning the recording does not hold.

mod changes;
mod court;
mod facts;
mod guarantee;
mod heard;
mod judge;
mod line;
mod lists;
mod many;
mod marks;
mod recording;
mod set;
mod stream;
mod tap;
mod unreadable;
mod watcher;
mod wrote;

pub use guarantee::{Broken, Guarantee};
pub use judge::{Verdict, check, judge};
pub use recording::{Counts, Page, Recording, Step, What};
pub use tap::{Recorder, Tap, TapBody};
pub use unreadable::Unreadable;
pub use wrote::Wrote;
