//! The rows of the table.

use super::audience::{Layout, Way};
use super::requests::Operation;
use crate::server::Peer;

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
    Change(Layout),
    /// Share of a processor while one of many instances changes each second.
    Steady(Layout),
    /// Memory of a connection that rests.
    Connection,
    /// Memory of one more watch on a connection, each on a stream of its own or all on one.
    Further(Way),
    /// Bytes to each watcher of an application whose instances are all replaced, in shares of what changed.
    Rolling,
    /// Share of watchers that a server which came back brings up to date without a whole set.
    Herd,
    /// How much later watchers hear of changes beside one that stopped reading.
    Beside,
    /// Memory of one that stopped reading.
    Stopped,
}

/// What the figure of a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Seconds,
    Bytes,
    /// Shares of a whole.
    Share,
    /// How many times something.
    Times,
    Count,
}

impl Row {
    pub(crate) fn unit(&self) -> Unit {
        match self.what {
            What::Load { .. } => Unit::PerSecond,
            What::Change(_) => Unit::Seconds,
            What::Connection | What::Further(_) | What::Stopped => Unit::Bytes,
            What::Steady(_) | What::Herd => Unit::Share,
            What::Rolling | What::Beside => Unit::Times,
        }
    }

    /// Whether the limit of the libraries can do the same.
    pub(super) fn has_limit(&self) -> bool {
        !matches!(self.what, What::Rolling | What::Herd | What::Beside | What::Stopped)
    }

    /// Whether it says anything of a build beside another: not what stands beside itself, nor what only this program's
    /// own server can be asked for.
    pub(crate) fn is_of_any_build(&self) -> bool {
        !matches!(self.what, What::Herd | What::Beside)
    }

    /// Registries of others that can do the same.
    pub(super) fn peers(&self) -> &'static [Peer] {
        match self.what {
            // One subscription of a service is all that a connection of it has.
            What::Change(Layout { watchers: 1, .. }) => &[Peer::Etcd, Peer::Nacos],
            What::Change(_) | What::Steady(_) => &[Peer::Etcd],
            What::Load {
                operation: Operation::RestRegister | Operation::RestRenew | Operation::RestApp { gzip: false },
                ..
            } => &[Peer::Nacos],
            _ => &[],
        }
    }

    /// Whether more is better.
    pub(crate) fn is_gain(&self) -> bool {
        matches!(self.what, What::Load { .. } | What::Herd)
    }

    /// How many times better `new` is than `old`; below 1 it is worse.
    pub(crate) fn gain(&self, old: f64, new: f64) -> f64 {
        if self.is_gain() { new / old } else { old / new }
    }
}

const fn load(name: &'static str, operation: Operation, asked: &'static str) -> Row {
    Row { name, asked, what: What::Load { operation, busy: false } }
}

const fn busy(name: &'static str, operation: Operation, asked: &'static str) -> Row {
    Row { name, asked, what: What::Load { operation, busy: true } }
}

const fn each(connections: usize, watchers: usize) -> Layout {
    Layout { connections, watchers, way: Way::Each }
}

const fn change(name: &'static str, layout: Layout, asked: &'static str) -> Row {
    Row { name, asked, what: What::Change(layout) }
}

const fn steady(name: &'static str, layout: Layout, asked: &'static str) -> Row {
    Row { name, asked, what: What::Steady(layout) }
}

const fn other(name: &'static str, what: What, asked: &'static str) -> Row {
    Row { name, asked, what }
}

/// A hundred streams of a hundred watchers.
const TOGETHER: Layout = Layout { connections: 100, watchers: 100, way: Way::Together };

/// Every row, in the order of the table.
pub(crate) const ROWS: [Row; 30] = [
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
    busy("REST full fetch (10000), JSON, gzip, 10 changes/s", Operation::RestAll, "p99 <= 20 ms"),
    load("REST delta fetch (1750 changes), JSON, gzip, quiet", Operation::RestDelta, ""),
    busy("REST delta fetch (1750 changes), JSON, gzip, 10 changes/s", Operation::RestDelta, ""),
    change("change to one watcher", each(1, 1), "<= 0.40 ms; p99 <= 1.0"),
    change("change to the last of 100 watchers, 10 x 10", each(10, 10), ""),
    change("change to the last of 1000 watchers, 100 x 10", each(100, 10), "<= 7 ms"),
    change("change to the last of 10000 watchers, 100 x 100", each(100, 100), "<= 45 ms"),
    change("change to the last of 10000 watchers, 100 streams of 100", TOGETHER, "<= 10 ms; all p99 <= 18"),
    change("change to the last of 9900 watchers, a connection each", each(9900, 1), "<= 100 ms"),
    steady("one core at 1 change/s, 10000 watchers, 100 streams of 100", TOGETHER, "<= 1 %"),
    steady("one core at 1 change/s, 10000 watchers, 100 x 100", each(100, 100), "<= 6.5 %"),
    steady("one core at 1 change/s, 9900 watchers, a connection each", each(9900, 1), "<= 14 %"),
    other("memory of an idle connection, one watch each", What::Connection, "<= 28 KiB"),
    other("memory of each further watch, 100 x 100", What::Further(Way::Each), "<= 4.5 KiB"),
    other("memory of each further watch, 100 streams of 100", What::Further(Way::Together), "<= 300 B"),
    other("rolling restart of 20000 to 1000 watchers, bytes / changed", What::Rolling, "<= 1.2"),
    other("restart under 9900 watchers: back without a whole set", What::Herd, ">= 99 %; renew p99 < 100 ms"),
    other("p99 of 10000 watchers beside a stopped one / without", What::Beside, "<= 1.05"),
    other("memory of a stopped watcher of 1000 instances", What::Stopped, "<= its interest"),
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
    fn more_is_better_only_of_some() {
        let gain = |name| named(&[name])[0].gain(100.0, 50.0);
        assert_eq!(gain("rest renew"), 0.5);
        assert_eq!(gain("back without"), 0.5);
        assert_eq!(gain("to one watcher"), 2.0);
        assert_eq!(gain("idle"), 2.0);
    }
}
