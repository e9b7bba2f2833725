//! Measures servers over loopback, two of them side by side: heureka and its limit, or two builds of heureka. The
//! servers are processes of their own; this one asks.

mod audience;
mod frames;
mod h1;
mod h2;
mod held;
mod load;
mod requests;
mod rows;
mod sample;

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::report;
use crate::server::{Program, Served};
use load::{Extent, Load};
use requests::{Operation, Population};
use rows::What;

pub(crate) use audience::{Audience, Way};
pub(crate) use h2::framed;
pub(crate) use rows::{ROWS, Row, Unit, named};
pub(crate) use sample::Sample;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Of one measurement of a load.
    pub(crate) time: Duration,
    /// Of the load before it.
    pub(crate) warm: Duration,
    /// Times that each server has its turn.
    pub(crate) turns: usize,
    /// Changes in a turn.
    pub(crate) changes: usize,
    /// Instances that loads are about, full batches of them.
    pub(crate) instances: usize,
    /// Most connections that have several watches, and most watches of each.
    pub(crate) shared: usize,
    /// Connections that rest.
    pub(crate) connections: usize,
    /// Time in which a server comes to rest.
    pub(crate) rest: Duration,
    /// Fresh processes of each server, for what they hold.
    pub(crate) fresh: usize,
}

/// What was measured of both sides, turn by turn.
type Samples = io::Result<Vec<[Sample; 2]>>;

/// Changes before those that are measured.
const WARMING: usize = 5;

/// A delta tells of the last three minutes. More than those pass, then there are about ten changes for each of their
/// seconds, in full batches.
const DELTA: (Duration, usize) = (Duration::from_mins(4), 1750);

/// More than the time between two ticks, at which a server sees that time passed.
const TICK: Duration = Duration::from_millis(1500);

/// A driver of servers.
pub(crate) struct Bench {
    runtime: Runtime,
    local: LocalSet,
    pace: Pace,
}

/// Prints these rows of heureka beside its limit.
///
/// # Errors
/// A server that does not start or dies, a connection that breaks, a call that fails.
pub(crate) fn run(rows: &[Row], pace: Pace) -> io::Result<()> {
    let bench = Bench::new(pace)?;
    report::part("servers, driver and server share the machine: heureka / limit = ratio");
    for row in rows {
        report::row(row, &bench.measure(row, &[Program::Heureka, Program::Limit])?);
    }
    Ok(())
}

impl Pace {
    /// Enough for a figure.
    pub(crate) const FULL: Self = Self {
        time: Duration::from_millis(1500),
        warm: Duration::from_millis(500),
        turns: 3,
        changes: 60,
        instances: 10_000,
        shared: 100,
        connections: 4000,
        rest: Duration::from_millis(500),
        fresh: 1,
    };

    /// Enough to see that everything runs; its figures mean nothing.
    pub(crate) const TINY: Self = Self {
        time: Duration::from_millis(20),
        warm: Duration::ZERO,
        turns: 1,
        changes: 2,
        instances: 250,
        shared: 5,
        connections: 20,
        rest: Duration::from_millis(20),
        fresh: 1,
    };

    /// More where each takes less time.
    fn changes_to(&self, watchers: usize) -> usize {
        let changes = match watchers {
            ..=100 => self.changes * 8,
            101..=1000 => self.changes,
            _ => self.changes / 4,
        };
        changes.max(1)
    }
}

impl Bench {
    /// # Errors
    /// A runtime that does not start.
    pub(crate) fn new(pace: Pace) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, local: LocalSet::new(), pace })
    }

    /// Measures a row of two programs in turns, since the machine changes with time.
    ///
    /// # Errors
    /// A server that does not start or dies, a connection that breaks, a call that fails.
    pub(crate) fn measure(&self, row: &Row, programs: &[Program; 2]) -> Samples {
        let measured = match row.what {
            What::Load { operation, busy } => self.loads(operation, busy, programs),
            What::Change { connections, watchers, way } => self.changes(connections, watchers, way, programs),
            What::Connection => {
                self.held(programs, |program| held::per_connection(self, program, self.pace.connections))
            }
            What::Stream => self.held(programs, |program| held::per_stream(self, program, self.pace.shared)),
        };
        measured.map_err(|error| io::Error::other(format!("{}: {error}", row.name)))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, future)
    }

    fn loads(&self, operation: Operation, busy: bool, programs: &[Program; 2]) -> Samples {
        let population = Population { instances: self.pace.instances, per_app: operation.per_app() };
        let load = Load::new(operation, population, busy);
        let mut sides = started(programs)?;
        for side in &mut sides {
            self.prepare(side, &load)?;
        }
        if operation.is_read() && programs[1] == Program::Limit {
            let answer = load.answer(self, sides[0].address)?;
            self.block_on(load::teach(sides[1].address, answer))?;
        }
        for side in &mut sides {
            load.answer(self, side.address).map_err(|error| side.explain(&error))?;
            for extent in [Extent::Once, Extent::For(self.pace.warm)] {
                load.run(self, side, extent).map_err(|error| side.explain(&error))?;
            }
        }
        let extent = Extent::For(self.pace.time);
        in_turns(self.pace.turns, &mut sides, |_, side| load.run(self, side, extent))
    }

    /// Registers what is asked for.
    fn prepare(&self, served: &mut Served, load: &Load) -> io::Result<()> {
        let Some(before) = load.operation.before() else { return Ok(()) };
        let registrations = Load::registrations(before, load.population, 0);
        registrations.run(self, served, Extent::Once).map_err(|error| served.explain(&error))?;
        if load.operation == Operation::RestDelta { self.let_pass(served, load.population) } else { Ok(()) }
    }

    /// Lets what is registered grow older than a delta, and changes some of it.
    fn let_pass(&self, served: &mut Served, population: Population) -> io::Result<()> {
        if served.skip(DELTA.0)? {
            self.block_on(async { tokio::time::sleep(TICK).await });
        }
        let instances = population.instances.min(DELTA.1);
        let changes =
            Load::registrations(Operation::BatchRegister, Population { instances, ..population }, 1);
        changes.run(self, served, Extent::Once).map(|_| ()).map_err(|error| served.explain(&error))
    }

    fn changes(&self, connections: usize, watchers: usize, way: Way, programs: &[Program; 2]) -> Samples {
        let (connections, watchers) = (connections.min(self.pace.shared), watchers.min(self.pace.shared));
        let changes = self.pace.changes_to(connections * watchers);
        let mut sides = started(programs)?;
        let open = |side: &Served| self.block_on(Audience::open(side.address, connections, watchers, way));
        let mut audiences = [open(&sides[0])?, open(&sides[1])?];
        in_turns(1, &mut sides, |n, side| {
            self.block_on(audiences[n].tell(|| side.cpu(), WARMING.min(changes)))
        })?;
        in_turns(self.pace.turns, &mut sides, |n, side| {
            self.block_on(audiences[n].tell(|| side.cpu(), changes))
        })
    }

    fn held(&self, programs: &[Program; 2], measure: impl Fn(&Program) -> io::Result<Sample>) -> Samples {
        (0..self.pace.fresh).map(|_| Ok([measure(&programs[0])?, measure(&programs[1])?])).collect()
    }
}

fn started(programs: &[Program; 2]) -> io::Result<[Served; 2]> {
    Ok([programs[0].start()?, programs[1].start()?])
}

/// Measures both sides so many times, one after the other.
fn in_turns(
    turns: usize,
    sides: &mut [Served; 2],
    mut measure: impl FnMut(usize, &Served) -> io::Result<Sample>,
) -> Samples {
    let mut one = |n: usize| measure(n, &sides[n]).map_err(|error| sides[n].explain(&error));
    (0..turns).map(|_| Ok([one(0)?, one(1)?])).collect()
}
