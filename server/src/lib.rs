//! The registry's process.
mod grpc;
