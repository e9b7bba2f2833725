//! A fault that tests plant on purpose, to see that it is found: whatever a server tells is shown, older or not.
//!
//! Without the feature `seeded-bugs` it cannot be planted and [`shows_older`] is a constant.

#[cfg(feature = "seeded-bugs")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "seeded-bugs")]
static PLANTED: AtomicBool = AtomicBool::new(false);

/// Plants the fault in the whole process, or takes it away.
#[cfg(feature = "seeded-bugs")]
pub fn plant(is_on: bool) {
    PLANTED.store(is_on, Ordering::Relaxed);
}

/// Whether it is planted.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn shows_older() -> bool {
    PLANTED.load(Ordering::Relaxed)
}

/// Whether it is planted: it cannot be.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn shows_older() -> bool {
    false
}
