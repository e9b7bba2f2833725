//! What applications import.
