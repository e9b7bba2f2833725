//! The core's log, slots, leases and watchers under a model checker.
//!
//! The modules `log`, `leases`, `watch` and `store::slots` are the core's own files, compiled a second time: what they
//! import from `crate::sync` are here the primitives of `loom`, which runs a test once for every order in which
//! its threads can meet (up to a bound on preemptions) and for every value that a relaxed load may see. What they
//! import from `crate::record` is a stand-in that carries a number instead of an instance.
//!
//! [`Ledger`] drives the log as the core's funnel does, [`Shard`] a lease as its index does, [`Registry`] and [`Reader`]
//! what watchers share. The tests are in
//! `tests/`; each of them states an invariant of `docs/watch-contract.md` or `docs/leases.md`.

#[expect(dead_code, reason = "the core's file; not all of it is driven here")]
#[path = "../../../registry/src/leases.rs"]
mod leases;
mod ledger;
#[expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the core's files; not all of them is driven here"
)]
#[path = "../../../registry/src/log/mod.rs"]
mod log;
mod record;
mod registry;
mod replication;
mod seeded;
mod shard;
mod store;
mod sync;
#[expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the core's files; not all of them is driven here"
)]
#[path = "../../../registry/src/watch/mod.rs"]
mod watch;

pub use ledger::{Ledger, Met, Pass};
pub use registry::{Reader, Registry, Told};
pub use shard::{Renewal, Shard};

/// Preemptions per execution. Bugs of concurrency need one or two; three leave room and still end in seconds.
const PREEMPTIONS: usize = 3;

/// Runs `test` in every order that its threads can meet in.
pub fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}
