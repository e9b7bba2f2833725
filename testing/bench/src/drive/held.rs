//! What a server holds for connections and watches that rest.

use std::io;

use super::audience::{Audience, Layout, Way};
use super::rows::Unit;
use super::sample::Sample;
use super::tongue::Interest;
use super::{Bench, OTHER_FILES, tongue};
use crate::machine;
use crate::server::Program;

/// Changes after which memory is looked at again.
const CHANGES: usize = 5;

/// Bytes that a fresh server grew by, at rest and after some changes.
struct Growth {
    rest: f64,
    after: f64,
}

/// Bytes for a connection with one watch.
///
/// # Errors
/// A server that does not start, fewer files than connections, a connection that breaks.
pub(super) fn per_connection(bench: &Bench, program: &Program, connections: usize) -> io::Result<Sample> {
    let growth = grown(bench, program, Layout { connections, watchers: 1, way: Way::Each })?;
    Ok(sample(growth.rest, growth.after, connections))
}

/// Bytes for each further watch of a connection: what a hundred connections with a hundred watches each grow by beyond
/// as many connections with one.
///
/// # Errors
/// A server that does not start, fewer files than connections, a connection that breaks.
pub(super) fn per_watch(bench: &Bench, program: &Program, way: Way) -> io::Result<Sample> {
    let shared = bench.pace.shared;
    let layout = Layout { connections: shared, watchers: shared, way };
    let one = grown(bench, program, Layout { watchers: 1, ..layout })?;
    let many = grown(bench, program, layout)?;
    Ok(sample(many.rest - one.rest, many.after - one.after, shared * (shared - 1)))
}

fn sample(rest: f64, after: f64, count: usize) -> Sample {
    let sample = Sample { figure: rest / count as f64, ..Sample::default() };
    sample.with("after some changes", after / count as f64, Unit::Bytes)
}

fn grown(bench: &Bench, program: &Program, layout: Layout) -> io::Result<Growth> {
    machine::need_files(layout.connections as u64 + OTHER_FILES)?;
    let mut served = program.start()?;
    let open = |layout| Audience::open(served.ends(), tongue(program), layout, Interest::Everything);
    let measured = bench.block_on(async {
        // What a server loads and keeps once is none of the watchers'.
        let first = Layout { connections: 1, watchers: 1, ..layout };
        open(first).await?.tell(|| served.cpu(), CHANGES).await?;
        tokio::time::sleep(bench.pace.rest).await;
        let before = served.resident()?;
        let mut audience = open(layout).await?;
        tokio::time::sleep(bench.pace.rest).await;
        let rest = served.resident()? - before;
        audience.tell(|| served.cpu(), CHANGES).await?;
        Ok(Growth { rest, after: served.resident()? - before })
    });
    measured.map_err(|error| served.explain(&error))
}
