//! The registry's process.
