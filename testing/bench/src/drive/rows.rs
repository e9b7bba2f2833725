//! The rows of the table.

use super::audience::Way;
use super::requests::Operation;

/// A row: what is measured of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What was asked for, as the table shows it.
    pub(crate) asked: &'static str,
    pub(super) what: What,
}

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Operations in a second; `busy` while ten instances change in each.
    Load { operation: Operation, busy: bool },
    /// Time until the last watcher has a change.
    Change { connections: usize, watchers: usize, way: Way },
    /// Memory of a connection that rests.
    Connection,
    /// Memory of one more watch on a connection.
    Stream,
}

/// What the figure of a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Seconds,
    Bytes,
}

impl Row {
    pub(crate) fn unit(&self) -> Unit {
        match self.what {
            What::Load { .. } => Unit::PerSecond,
            What::Change { .. } => Unit::Seconds,
            What::Connection | What::Stream => Unit::Bytes,
        }
    }
}

impl Unit {
    /// How many times better `new` is than `old`; below 1 it is worse.
    pub(crate) fn gain(self, old: f64, new: f64) -> f64 {
        if self == Self::PerSecond { new / old } else { old / new }
    }
}

const fn load(name: &'static str, operation: Operation, asked: &'static str) -> Row {
    Row { name, asked, what: What::Load { operation, busy: false } }
}

const fn busy(name: &'static str, operation: Operation) -> Row {
    Row { name, asked: "", what: What::Load { operation, busy: true } }
}

const fn change(name: &'static str, connections: usize, watchers: usize, asked: &'static str) -> Row {
    Row { name, asked, what: What::Change { connections, watchers, way: Way::Each } }
}

const fn together(name: &'static str, connections: usize, watchers: usize, asked: &'static str) -> Row {
    Row { name, asked, what: What::Change { connections, watchers, way: Way::Together } }
}

/// Every row, in the order of the table.
pub(crate) const ROWS: [Row; 21] = [
    load("gRPC register, changed", Operation::GrpcRegister, "ratio >= 0.75"),
    load("gRPC batched register, changed, 250 at once", Operation::BatchRegister, ">= 250k/s"),
    load("gRPC renew", Operation::GrpcRenew, "ratio >= 0.85"),
    load("gRPC batched renew by id, 1000 at once", Operation::BatchRenew, ">= 3M/s"),
    load("gRPC get one app of ten", Operation::GrpcApp, "ratio >= 0.85"),
    load("gRPC first page of all (10000)", Operation::GrpcPage, ""),
    load("REST register, changed, JSON", Operation::RestRegister, "ratio >= 0.65"),
    load("REST renew", Operation::RestRenew, "ratio >= 0.80"),
    load("REST get one app of ten, JSON, gzip", Operation::RestApp { gzip: true }, "ratio >= 0.85"),
    load("REST get one app of ten, JSON, plain", Operation::RestApp { gzip: false }, "ratio >= 0.85"),
    load("REST full fetch (10000), JSON, gzip, quiet", Operation::RestAll, ""),
    busy("REST full fetch (10000), JSON, gzip, 10 changes/s", Operation::RestAll),
    load("REST delta fetch (1750 changes), JSON, gzip, quiet", Operation::RestDelta, ""),
    busy("REST delta fetch (1750 changes), JSON, gzip, 10 changes/s", Operation::RestDelta),
    change("change to one watcher", 1, 1, "<= 0.40 ms; p99 <= 1.0"),
    change("change to the last of 100 watchers, 10 x 10", 10, 10, ""),
    change("change to the last of 1000 watchers, 100 x 10", 100, 10, "<= 7 ms"),
    change("change to the last of 10000 watchers, 100 x 100", 100, 100, "<= 45 ms"),
    together("change to the last of 10000 watchers, 100 streams of 100", 100, 100, "<= 10 ms"),
    Row { name: "memory of an idle connection, one watch each", asked: "<= 28 KiB", what: What::Connection },
    Row { name: "memory of each further watch, 100 x 100", asked: "<= 4.5 KiB", what: What::Stream },
];

/// The rows whose names hold every one of these words, whatever their case.
pub(crate) fn named<W: AsRef<str>>(words: &[W]) -> Vec<Row> {
    let words: Vec<String> = words.iter().map(|word| word.as_ref().to_lowercase()).collect();
    let is_meant = |row: &Row| words.iter().all(|word| row.name.to_lowercase().contains(word));
    ROWS.into_iter().filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_rows() {
        assert_eq!(named::<&str>(&[]).len(), ROWS.len());
        assert_eq!(named(&["rest", "RENEW"]).len(), 1);
        assert_eq!(named(&["get one app"]).len(), 3);
        assert!(named(&["get", "batched"]).is_empty());
    }

    #[test]
    fn more_is_better_only_of_a_rate() {
        assert_eq!(Unit::PerSecond.gain(100.0, 50.0), 0.5);
        assert_eq!(Unit::Seconds.gain(100.0, 50.0), 2.0);
        assert_eq!(Unit::Bytes.gain(50.0, 100.0), 0.5);
    }
}
