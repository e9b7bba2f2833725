//! What both are asked.

use crate::drive::requests::Operation;

/// A row: what is measured of ours and of the original.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(super) name: &'static str,
    /// What was asked for, as the table shows it.
    pub(super) asked: &'static str,
    pub(super) what: What,
}

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// What processes hold that registered instances and nothing else.
    Fresh(Size),
    /// Requests in a second of so many instances; `busy` while ten of them change in each.
    Load { operation: Operation, busy: bool, size: Size },
    /// How long after its answer a change stands in what a client polls.
    Visible,
    /// What both hold after all that was asked.
    Loaded,
}

/// How many instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Few,
    Many,
}

impl What {
    /// Whether it is about processes that nobody loaded, and the one with all caches among them.
    pub(super) fn needs_fresh(self) -> bool {
        matches!(self, Self::Fresh(_) | Self::Visible)
    }

    /// Whether it is about processes whose code was made fast.
    pub(super) fn needs_warm(self) -> bool {
        !matches!(self, Self::Fresh(_))
    }
}

const fn load(name: &'static str, operation: Operation, size: Size, asked: &'static str) -> Row {
    Row { name, asked, what: What::Load { operation, busy: false, size } }
}

const fn busy(name: &'static str, operation: Operation, size: Size, asked: &'static str) -> Row {
    Row { name, asked, what: What::Load { operation, busy: true, size } }
}

const fn other(name: &'static str, what: What, asked: &'static str) -> Row {
    Row { name, asked, what }
}

/// One application. The original never compresses it.
pub(super) const APP: Operation = Operation::RestApp { gzip: false };

/// Every row, in the order in which they are measured. By the time of the delta the original's tells no longer of the
/// registrations.
const ROWS: [Row; 13] = [
    other("memory, 1000 instances, fresh", What::Fresh(Size::Few), "<= 0.10"),
    other("memory, 10000 instances, fresh", What::Fresh(Size::Many), "<= 0.10"),
    load("full fetch (1000), JSON, gzip, quiet", Operation::RestAll, Size::Few, ""),
    busy("full fetch (1000), JSON, gzip, 10 changes/s", Operation::RestAll, Size::Few, ""),
    load("register, changed, JSON", Operation::RestRegister, Size::Many, ">= 3.5; CPU <= 1/6"),
    load("renew", Operation::RestRenew, Size::Many, ">= 8; CPU <= 1/7"),
    load("get one app of a hundred, JSON", APP, Size::Many, ""),
    load("full fetch (10000), JSON, gzip, quiet", Operation::RestAll, Size::Many, ">= 3"),
    load("delta fetch (1000 changes), JSON, gzip, quiet", Operation::RestDelta, Size::Many, ""),
    busy("delta fetch (1000 changes), JSON, gzip, 10 changes/s", Operation::RestDelta, Size::Many, ""),
    busy(
        "full fetch (10000), JSON, gzip, 10 changes/s",
        Operation::RestAll,
        Size::Many,
        ">= 8; p99 <= 20 ms",
    ),
    other("change visible to a client that polls", What::Visible, "in one poll"),
    other("memory, 10000 instances, after all this", What::Loaded, "<= 0.10"),
];

/// The rows whose names hold every one of these words, whatever their case.
pub(crate) fn named<W: AsRef<str>>(words: &[W]) -> Vec<Row> {
    let words: Vec<String> = words.iter().map(|word| word.as_ref().to_lowercase()).collect();
    let is_meant = |row: &Row| words.iter().all(|word| row.name.to_lowercase().contains(word));
    ROWS.into_iter().filter(is_meant).collect()
}
