//! The real thing on a simulated network: three servers with everything that they have, the Rust client's leases and
//! watches, and owners that speak HTTP/1.1, over `turmoil`, in virtual time and with faults as a seed says.
//!
//! It is a package of its own because `testing/sim` is free of runtimes and wires, and as fast as that makes it. What
//! only the code around the core can get wrong is looked for here: streams, time-outs, pings, resets, reconnects,
//! resumed watches, drains, and the client's own rules.
//!
//! ```text
//! seed ──> plan: faults, owners, watchers ──> world: turmoil's steps ──> observe: every server, ten times a second
//!                                               │ server, native, eureka, watcher, scout
//!                                               └──> judge: servers, owners' ledger, watchers' views and streams;
//!                                                    sights: reports, readings and views of a choice
//! ```
//!
//! A seed says what is done and what goes wrong, and when. It does not say everything: runtimes, maps and the client
//! draw numbers of their own, so that a seed that fails may need several runs to fail again. A failure is reported
//! from the run in which it was seen.

mod ages;
mod bugs;
mod cache;
mod campaign;
mod eureka;
mod flock;
mod judge;
mod ledger;
mod native;
mod net;
mod observe;
mod panics;
pub mod plan;
mod prober;
mod scout;
mod server;
mod sights;
mod watcher;
mod world;

pub use ages::{Ages, ages};
pub use bugs::{arm, bugs, disarm, name_of};
pub use campaign::{Campaign, Failure, Tally};
pub use ledger::Breach;
pub use plan::Plan;
pub use world::{Outcome, run};
