//! Lines for people.

use std::io::{self, Write as _};

/// One line on standard output; a closed pipe is nobody's fault.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// One line on standard error.
pub(crate) fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "heureka-cluster: {line}");
}
