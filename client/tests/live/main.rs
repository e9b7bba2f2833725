//! The client against real servers in this process, on free ports of the loopback address.
//!
//! Leases and signs of life are as short as a server allows, a second; every wait is for an event.

#![expect(clippy::unwrap_used, reason = "a test fails by them")]
#![allow(unreachable_pub, clippy::allow_attributes, reason = "a test has no public side")]

mod auth;
#[path = "../../../server/tests/support/authority.rs"]
mod authority;
mod cache;
mod failover;
mod lease;
mod support;
mod tls;
mod watch;
