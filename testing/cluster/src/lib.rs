//! Servers as processes, alone or as a cluster, and what stands around them: wires that can be cut and slowed,
//! callers of both surfaces, watchers that check what they are told.
//!
//! The program of this package breaks a cluster of three on purpose and tells what its clients saw. The cases from
//! the field and the figures of a cluster use the same parts.

pub mod audience;
pub mod checks;
pub mod clock;
pub mod cluster;
pub mod draft;
pub mod figures;
pub mod fleet;
pub mod ledger;
pub mod native;
pub mod rest;
pub mod server;
pub mod watcher;
pub mod wire;
