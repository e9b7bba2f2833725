//! Measures servers over loopback, two of them side by side: heureka and its limit, or two builds of heureka. The
//! servers are processes of their own; this one asks.

mod audience;
mod chunks;
mod crowd;
mod etcd;
pub(crate) mod eureka;
mod frames;
mod h1;
mod h2;
mod heard;
mod held;
mod herd;
mod load;
mod nacos;
mod requests;
mod rolling;
mod rows;
mod sample;
mod stopped;
mod tongue;

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::machine;
use crate::report;
use crate::server::{Peer, Program, Served};
use load::{Extent, Load};
use requests::{Operation, Population};
use rows::What;
use tongue::{Interest, Tongue};

pub(crate) use audience::{Audience, Layout, Way};
pub(crate) use h2::framed;
pub(crate) use rows::{ROWS, Row, Unit, named};
pub(crate) use sample::{Extra, Sample};

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
    /// Most connections that have one.
    pub(crate) single: usize,
    /// Changes to watchers that hear of one now and then, and the time between two.
    pub(crate) steady: (usize, Duration),
    /// Instances of the application that they watch, and of the one that is restarted.
    pub(crate) large: (usize, usize),
    /// Connections that rest.
    pub(crate) connections: usize,
    /// Time in which a server comes to rest.
    pub(crate) rest: Duration,
    /// Fresh processes of each server, for what they hold.
    pub(crate) fresh: usize,
}

/// What was measured of each program, turn by turn.
pub(crate) type Turns = Vec<Vec<Sample>>;

/// More connections than this are not kept open to several servers at once.
const MANY: usize = 1000;

/// Files of this process and of a server that are no connections of the measurement.
const OTHER_FILES: u64 = 600;

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

/// Prints these rows of heureka beside its limit, and beside those of others that are installed.
///
/// # Errors
/// A server that does not start or dies, a connection that breaks, a call that fails.
pub(crate) fn run(rows: &[Row], pace: Pace) -> io::Result<()> {
    let bench = Bench::new(pace)?;
    report::part("servers, driver and server share the machine: heureka / limit = ratio");
    for row in rows {
        let mut programs = vec![Program::Heureka];
        programs.extend(row.has_limit().then_some(Program::Limit));
        let (found, missing): (Vec<_>, Vec<_>) = row
            .peers()
            .iter()
            .map(|peer| (*peer, peer.program()))
            .partition(|(_, program)| program.is_some());
        let beside = |(peer, program): (Peer, Option<_>)| Some(Program::Peer(peer, program?));
        programs.extend(found.into_iter().filter_map(beside));
        let turns = match bench.measure(row, &programs) {
            // One of others that gives up takes nothing from ours.
            Err(error) if programs.iter().any(Program::is_peer) => {
                report::complain(&error.to_string());
                programs.retain(|program| !program.is_peer());
                bench.measure(row, &programs)?
            }
            measured => measured?,
        };
        report::row(row, &programs, &turns);
        missing.iter().for_each(|(peer, _)| report::missing(*peer));
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
        single: 9900,
        steady: (15, Duration::from_secs(1)),
        large: (2000, 20_000),
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
        single: 20,
        steady: (3, Duration::from_millis(20)),
        large: (250, 500),
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

    /// Measures a row of several programs in turns, since the machine changes with time.
    ///
    /// # Errors
    /// A server that does not start or dies, a connection that breaks, a call that fails.
    pub(crate) fn measure(&self, row: &Row, programs: &[Program]) -> io::Result<Turns> {
        let measured = match row.what {
            What::Load { operation, busy } => self.loads(operation, busy, programs),
            What::Change(layout) => self.changes(layout, programs),
            What::Steady(layout) => self.steady(layout, programs),
            What::Connection => {
                self.alone(programs, |program| held::per_connection(self, program, self.pace.connections))
            }
            What::Further(way) => self.alone(programs, |program| held::per_watch(self, program, way)),
            What::Rolling => self.alone(programs, |program| rolling::measure(self, program)),
            What::Herd => self.alone(programs, |_| herd::measure(self)),
            What::Beside => self.alone(programs, |program| stopped::others(self, program)),
            What::Stopped => self.alone(programs, |program| stopped::memory(self, program)),
        };
        measured.map_err(|error| io::Error::other(format!("{}: {error}", row.name)))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, future)
    }

    fn loads(&self, operation: Operation, busy: bool, programs: &[Program]) -> io::Result<Turns> {
        let population = Population::of(self.pace.instances, operation.per_app());
        let load = Load::new(operation, population, busy);
        let loads: Vec<Load> = programs.iter().map(|program| load.told_by(tongue(program))).collect();
        let mut sides = started(programs)?;
        for (side, load) in sides.iter_mut().zip(&loads) {
            self.prepare(side, load)?;
        }
        if operation.is_read() && programs.get(1) == Some(&Program::Limit) {
            let answer = load.answer(self, sides[0].writes)?;
            self.block_on(load::teach(sides[1].address, answer))?;
        }
        for (side, load) in sides.iter_mut().zip(&loads) {
            load.answer(self, side.writes).map_err(|error| side.explain(&error))?;
            for extent in [Extent::Once, Extent::For(self.pace.warm)] {
                load.run(self, side, extent).map_err(|error| side.explain(&error))?;
            }
        }
        let extent = Extent::For(self.pace.time);
        in_turns(self.pace.turns, &mut sides, |n, side| loads[n].run(self, side, extent))
    }

    /// Registers what is asked for.
    fn prepare(&self, served: &mut Served, load: &Load) -> io::Result<()> {
        let Some(before) = load.before() else { return Ok(()) };
        let registrations = Load::registrations(before, load.population, 0).told_by(load.tongue);
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

    fn changes(&self, layout: Layout, programs: &[Program]) -> io::Result<Turns> {
        let layout = self.fitted(layout);
        let changes = self.pace.changes_to(layout.all());
        if layout.connections > MANY {
            let tell = |served: &Served, audience: &mut Audience| {
                self.block_on(audience.tell(|| served.cpu(), WARMING.min(changes)))?;
                self.block_on(audience.tell(|| served.cpu(), changes))
            };
            let nothing = |_: &Served, _| Ok(());
            let turn = |_| self.each(programs, layout, Interest::Everything, nothing, tell);
            return (0..self.pace.turns).map(turn).collect();
        }
        let mut sides = started(programs)?;
        let open = |(side, program): (&Served, &Program)| {
            self.block_on(Audience::open(side.ends(), tongue(program), layout, Interest::Everything))
        };
        let mut audiences = sides.iter().zip(programs).map(open).collect::<io::Result<Vec<_>>>()?;
        in_turns(1, &mut sides, |n, side| {
            self.block_on(audiences[n].tell(|| side.cpu(), WARMING.min(changes)))
        })?;
        in_turns(self.pace.turns, &mut sides, |n, side| {
            self.block_on(audiences[n].tell(|| side.cpu(), changes))
        })
    }

    fn steady(&self, layout: Layout, programs: &[Program]) -> io::Result<Turns> {
        let (changes, every) = self.pace.steady;
        let instances = self.pace.large.0;
        let population = Population::of(instances, instances);
        // A registry of others holds nothing but what changes, and is no slower for that.
        let prepare = |served: &Served, tongue: Tongue| match tongue {
            Tongue::Heureka => {
                Load::registrations(Operation::BatchRegister, population, 0).run(
                    self,
                    served,
                    Extent::Once,
                )?;
                Ok(())
            }
            Tongue::Etcd | Tongue::Nacos => Ok(()),
        };
        let layout = self.fitted(layout);
        let tell = |served: &Served, audience: &mut Audience| {
            self.block_on(audience.keep_telling(|| served.cpu(), changes, every, instances))
        };
        let turn = |_| self.each(programs, layout, Interest::FirstApp, prepare, tell);
        (0..self.pace.fresh).map(turn).collect()
    }

    /// Measures one program after the other, each with a fresh process and watchers that end with it.
    fn each(
        &self,
        programs: &[Program],
        layout: Layout,
        interest: Interest,
        prepare: impl Fn(&Served, Tongue) -> io::Result<()>,
        measure: impl Fn(&Served, &mut Audience) -> io::Result<Sample>,
    ) -> io::Result<Vec<Sample>> {
        machine::need_files(layout.connections as u64 + OTHER_FILES)?;
        let one = |program: &Program| {
            let mut served = program.start()?;
            let tongue = tongue(program);
            let opened = prepare(&served, tongue)
                .and_then(|()| self.block_on(Audience::open(served.ends(), tongue, layout, interest)));
            let measured = opened.and_then(|mut audience| measure(&served, &mut audience));
            measured.map_err(|error| served.explain(&error))
        };
        programs.iter().map(one).collect()
    }

    /// As much of a layout as this pace allows.
    fn fitted(&self, layout: Layout) -> Layout {
        let connections = if layout.watchers == 1 { self.pace.single } else { self.pace.shared };
        layout.at_most(connections, self.pace.shared)
    }

    fn alone(
        &self,
        programs: &[Program],
        measure: impl Fn(&Program) -> io::Result<Sample>,
    ) -> io::Result<Turns> {
        (0..self.pace.fresh).map(|_| programs.iter().map(&measure).collect()).collect()
    }
}

/// What a server understands.
fn tongue(program: &Program) -> Tongue {
    match program {
        Program::Peer(Peer::Etcd, _) => Tongue::Etcd,
        Program::Peer(Peer::Nacos, _) => Tongue::Nacos,
        Program::Heureka | Program::Kept(_) | Program::Limit | Program::Binary(_) => Tongue::Heureka,
        // It has REST alone, which ours speaks as well.
        Program::Peer(Peer::Eureka | Peer::CachedEureka, _) => Tongue::Heureka,
    }
}

fn started(programs: &[Program]) -> io::Result<Vec<Served>> {
    programs.iter().map(Program::start).collect()
}

/// Measures all sides so many times, one after the other.
fn in_turns(
    turns: usize,
    sides: &mut [Served],
    mut measure: impl FnMut(usize, &Served) -> io::Result<Sample>,
) -> io::Result<Turns> {
    let all = 0..sides.len();
    let mut one = |n: usize| measure(n, &sides[n]).map_err(|error| sides[n].explain(&error));
    (0..turns).map(|_| all.clone().map(&mut one).collect()).collect()
}
