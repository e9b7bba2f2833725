//! Checks which package may import which.
