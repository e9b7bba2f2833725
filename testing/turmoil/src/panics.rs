//! Panics in tasks of this thread: a runtime keeps them to itself.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Begins anew, and listens from the first call on.
pub(crate) fn forget() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            SEEN.with_borrow_mut(|seen| seen.push(panic.to_string()));
            tell(panic);
        }));
    });
    SEEN.with_borrow_mut(Vec::clear);
}

/// Panics of this thread since the last time.
pub(crate) fn seen() -> Vec<String> {
    SEEN.take()
}
