//! The original beside ours: the genuine server of Spring's, asked the same over REST, in the same turns.

mod fresh;
mod poll;
mod rows;

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::load::{Extent, Load};
use super::requests::{self, Operation, Population};
use super::rows::Unit;
use super::sample::Sample;
use super::{Bench, DELTA, Pace, TICK, Turns, h1, in_turns, started};
use crate::instances::{PER_APP, Values};
use crate::machine;
use crate::report;
use crate::server::{Peer, Program, Served, on_path};
use crate::watch::timed;
use fresh::Fresh;
use rows::{Size, What};

pub(crate) use rows::{Row, named};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pace: Pace,
    /// For which the original is loaded in each way before anything is measured, so that its code is compiled.
    compiling: Duration,
    few: usize,
    many: usize,
    /// Instances that a delta tells of.
    changed: usize,
    /// Changes that are polled.
    polled: usize,
    /// The same of an original with all its caches, spread over the time in which they grow old, and the time between
    /// two.
    cached: (usize, Duration),
}

/// Ways in which the original is loaded before anything is measured, and whether instances change meanwhile.
const COMPILED: [(Operation, bool); 5] = [
    (Operation::RestRegister, false),
    (Operation::RestRenew, false),
    (rows::APP, false),
    (Operation::RestAll, true),
    (Operation::RestDelta, true),
];

/// What every instance has in a list, once.
const MEMBER: &str = "\"instanceId\":";

/// What answers with a success as soon as a server serves readers.
const READY: &str = "/eureka/apps";

/// Prints these rows.
///
/// # Errors
/// An original that is not here, a server that does not start or dies, a connection that breaks, a call that fails.
pub(crate) fn run(rows: &[Row], scale: Scale) -> io::Result<()> {
    let [original, cached] = [Peer::Eureka, Peer::CachedEureka].map(program);
    let (original, cached) = (original?, cached?);
    report::part("the original, asked the same: heureka / Spring Cloud Eureka 5.0.3 = ratio");
    let any = |needs: fn(What) -> bool| rows.iter().any(|row| needs(row.what));
    let fresh = any(What::needs_fresh).then(|| thread::spawn(move || fresh::measure(scale, &cached)));
    let both = any(What::needs_warm).then(|| Both::begin(scale, original)).transpose()?;
    let fresh = fresh.map(joined).transpose()?;
    let mut table = Table { both, fresh };
    rows.iter().try_for_each(|row| {
        table.print(row).map_err(|error| io::Error::other(format!("{}: {error}", row.name)))
    })
}

/// The original as a program, when everything that it needs is here.
fn program(peer: Peer) -> io::Result<Program> {
    let Some(jar) = peer.program() else {
        let made = peer.installation();
        return Err(io::Error::other(format!("conformance/eureka-5.0.3/eureka.jar not found: {made}")));
    };
    match on_path("java") {
        Some(_) => Ok(Program::Peer(peer, jar)),
        None => Err(io::Error::other("java not found: apt-get install openjdk-17-jre-headless")),
    }
}

fn joined(fresh: JoinHandle<io::Result<Fresh>>) -> io::Result<Fresh> {
    fresh.join().map_err(|_| io::Error::other("the fresh servers ended by a fault"))?
}

impl Scale {
    /// Enough for figures; less than four minutes.
    pub(crate) const FULL: Self = Self {
        pace: Pace { time: Duration::from_secs(2), warm: Duration::from_secs(1), ..Pace::FULL },
        compiling: Duration::from_secs(12),
        few: 1000,
        many: 10_000,
        changed: 1000,
        polled: 100,
        cached: (6, Duration::from_secs(5)),
    };

    /// Enough to see that everything runs.
    pub(crate) const TINY: Self = Self {
        pace: Pace::TINY,
        compiling: Duration::from_millis(20),
        few: 20,
        many: 50,
        changed: 10,
        polled: 2,
        cached: (2, Duration::from_millis(10)),
    };

    fn population(self, size: Size) -> Population {
        let instances = match size {
            Size::Few => self.few,
            Size::Many => self.many,
        };
        population(instances)
    }
}

/// So many instances, in applications of a hundred.
fn population(instances: usize) -> Population {
    Population { instances, per_app: PER_APP, values: Values::Words }
}

/// What rows are made of.
struct Table {
    both: Option<Both>,
    fresh: Option<Fresh>,
}

impl Table {
    fn print(&mut self, row: &Row) -> io::Result<()> {
        let (unit, turns) = match row.what {
            What::Fresh(size) => (Unit::Bytes, self.fresh()?.held(size).clone()),
            What::Load { operation, busy, size } => {
                (Unit::PerSecond, self.both()?.load(operation, busy, size)?)
            }
            What::Visible => (Unit::Seconds, self.both()?.visible()?),
            What::Loaded => (Unit::Bytes, self.both()?.held()?),
        };
        let cached = (row.what == What::Visible).then(|| self.fresh()).transpose()?.map(|fresh| &fresh.seen);
        report::original(row.name, unit, row.asked, &turns, cached);
        Ok(())
    }

    fn both(&mut self) -> io::Result<&mut Both> {
        self.both.as_mut().ok_or_else(not_started)
    }

    fn fresh(&self) -> io::Result<&Fresh> {
        self.fresh.as_ref().ok_or_else(not_started)
    }
}

fn not_started() -> io::Error {
    io::Error::other("nothing was started for it")
}

/// Ours and the original, each with the same instances.
struct Both {
    bench: Bench,
    scale: Scale,
    /// Ours, then the original.
    sides: Vec<Served>,
    /// Instances of each.
    held: usize,
    /// Changes so far that a delta told of.
    changes: usize,
}

impl Both {
    /// Starts both, and loads the original until its code is compiled.
    fn begin(scale: Scale, original: Program) -> io::Result<Self> {
        let bench = Bench::new(scale.pace)?;
        let sides = started(&[Program::Heureka, original])?;
        let mut both = Self { bench, scale, sides, held: 0, changes: 0 };
        for n in 0..both.sides.len() {
            both.ask(n, |bench, side| bench.block_on(h1::ready(side.address, READY)))?;
        }
        both.register(Size::Few)?;
        for (operation, busy) in COMPILED {
            let load = Load::new(operation, scale.population(Size::Few), busy);
            both.ask(1, |bench, side| load.run(bench, side, Extent::For(scale.compiling)))?;
        }
        Ok(both)
    }

    fn load(&mut self, operation: Operation, busy: bool, size: Size) -> io::Result<Turns> {
        self.register(size)?;
        if operation == Operation::RestDelta {
            self.change()?;
        }
        let load = Load::new(operation, self.scale.population(size), busy);
        let mut lengths = Vec::new();
        for n in 0..self.sides.len() {
            lengths.push(self.ask(n, |bench, side| load.answer(bench, side.address))?.1.len() as f64);
            for extent in [Extent::Once, Extent::For(self.scale.pace.warm)] {
                self.ask(n, |bench, side| load.run(bench, side, extent))?;
            }
        }
        let Self { bench, scale, sides, .. } = self;
        in_turns(scale.pace.turns, sides, |n, side| {
            let sample = driven(|| load.run(bench, side, Extent::For(scale.pace.time)))?;
            Ok(if operation.is_read() { sample.with("answer", lengths[n], Unit::Bytes) } else { sample })
        })
    }

    fn visible(&mut self) -> io::Result<Turns> {
        self.register(Size::Few)?;
        let Scale { polled, .. } = self.scale;
        let population = self.scale.population(Size::Few);
        let Self { bench, sides, .. } = self;
        in_turns(1, sides, |_, side| bench.block_on(poll::one_by_one(side.address, population, polled)))
    }

    fn held(&mut self) -> io::Result<Turns> {
        self.register(Size::Many)?;
        in_turns(1, &mut self.sides, |_, side| fresh::held(side))
    }

    /// Registers as many at both, and looks whether they have them.
    fn register(&mut self, size: Size) -> io::Result<()> {
        let population = self.scale.population(size);
        if self.held >= population.instances {
            return Ok(());
        }
        for n in 0..self.sides.len() {
            let listed = self.ask(n, |bench, side| registered(bench, side, population))?;
            if listed != population.instances {
                let problem = format!("{listed} of {} instances are listed", population.instances);
                return Err(io::Error::other(problem));
            }
        }
        self.held = population.instances;
        Ok(())
    }

    /// Lets what is registered grow older than a delta, and changes some of it.
    fn change(&mut self) -> io::Result<()> {
        self.changes += 1;
        if self.sides[0].skip(DELTA.0)? {
            self.bench.block_on(async { tokio::time::sleep(TICK).await });
        }
        let changed = population(self.scale.changed);
        let changes = Load::registrations(Operation::RestRegister, changed, 2 * self.changes);
        for n in 0..self.sides.len() {
            self.ask(n, |bench, side| changes.run(bench, side, Extent::Once))?;
        }
        Ok(())
    }

    /// Asks one of both, and tells why where it ended by itself.
    fn ask<R>(&mut self, n: usize, ask: impl FnOnce(&Bench, &Served) -> io::Result<R>) -> io::Result<R> {
        let side = &mut self.sides[n];
        ask(&self.bench, side).map_err(|error| side.explain(&error))
    }
}

/// Registers these and reads the list; the number of instances in it, which are all of them unless it was kept.
fn registered(bench: &Bench, side: &Served, population: Population) -> io::Result<usize> {
    Load::registrations(Operation::RestRegister, population, 0).run(bench, side, Extent::Once)?;
    let mut list = Vec::new();
    bench.block_on(async {
        let mut connection = h1::Connection::open(side.address).await?;
        connection.call(&requests::get("", false), |part| list.extend_from_slice(part)).await
    })?;
    Ok(String::from_utf8_lossy(&list).matches(MEMBER).count())
}

/// The same with what the driver was on a processor for each request.
fn driven(load: impl FnOnce() -> io::Result<Sample>) -> io::Result<Sample> {
    let before = machine::used_by(std::process::id());
    let (seconds, sample) = timed(load);
    let used = machine::used_by(std::process::id()) - before;
    let sample = sample?;
    let each = used / (sample.figure * seconds);
    Ok(sample.with("driver CPU", each, Unit::Seconds))
}
