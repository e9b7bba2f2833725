//! Scenarios of the core on a clock that tests move by hand, and proofs against naive models.

mod bounds;
mod convergence;
mod digests;
mod events;
mod failover;
mod lane;
mod laws;
mod leases;
mod model;
mod replication;
mod restore;
mod subscriptions;
mod support;
mod threads;
mod views;
mod writes;
