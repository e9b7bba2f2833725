//! Checks which package may import which. The rule itself is the test in `tests/arrows.rs`; there is nothing to
//! call here.
