//! Servers that nobody loads: what they hold, and when one with all the original's caches tells of a change.

use std::io;

use super::poll;
use super::rows::Size;
use super::{READY, Scale, registered};
use crate::drive::rows::Unit;
use crate::drive::sample::Sample;
use crate::drive::{Bench, Turns, h1};
use crate::instances::PER_APP;
use crate::server::{Program, Served};

/// What was found, ours first.
pub(super) struct Fresh {
    few: Turns,
    many: Turns,
    /// How long after its answer a change was polled of an original with all its caches.
    pub(super) seen: Sample,
}

impl Fresh {
    /// What they held with so many instances.
    pub(super) fn held(&self, size: Size) -> &Turns {
        match size {
            Size::Few => &self.few,
            Size::Many => &self.many,
        }
    }
}

/// Measures both, in a thread of its own: neither what is held nor what takes half a minute is disturbed by another
/// server that is made ready meanwhile.
///
/// # Errors
/// A server that does not start or dies, a connection that breaks, a call that fails.
pub(super) fn measure(scale: Scale, original: &Program) -> io::Result<Fresh> {
    let bench = Bench::new(scale.pace)?;
    let mut theirs = original.start()?;
    let found = seen(&bench, &theirs, scale).and_then(|seen| Ok((seen, grown(&bench, &theirs, scale)?)));
    let (seen, [few, many]) = found.map_err(|error| theirs.explain(&error))?;
    drop(theirs);
    let mut ours = Program::Heureka.start()?;
    let [ours_few, ours_many] = grown(&bench, &ours, scale).map_err(|error| ours.explain(&error))?;
    Ok(Fresh { few: vec![vec![ours_few, few]], many: vec![vec![ours_many, many]], seen })
}

/// With one application alone, since all of it is in the first deltas.
fn seen(bench: &Bench, served: &Served, scale: Scale) -> io::Result<Sample> {
    bench.block_on(h1::ready(served.address, READY))?;
    let population = super::population(PER_APP.min(scale.few));
    registered(bench, served, population)?;
    let (count, apart) = scale.cached;
    bench.block_on(poll::spread(served.address, population, count, apart))
}

fn grown(bench: &Bench, served: &Served, scale: Scale) -> io::Result<[Sample; 2]> {
    let with = |size| {
        registered(bench, served, scale.population(size))?;
        bench.block_on(async { tokio::time::sleep(scale.pace.rest).await });
        held(served)
    };
    Ok([with(Size::Few)?, with(Size::Many)?])
}

/// What a server holds now.
pub(super) fn held(served: &Served) -> io::Result<Sample> {
    let sample = Sample { figure: served.resident()?, ..Sample::default() };
    Ok(sample.with("PSS", served.proportional()?, Unit::Bytes))
}
