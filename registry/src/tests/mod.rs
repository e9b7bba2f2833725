//! Scenarios of the core on a clock that tests move by hand.

mod leases;
mod support;
mod writes;
