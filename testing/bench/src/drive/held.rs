//! What a server holds for connections and watches that rest.

use std::io;

use super::Bench;
use super::audience::{Audience, Way};
use super::sample::Sample;
use crate::machine;
use crate::server::Program;

/// Files of this process and of a server that are no connections of the measurement.
const OTHER_FILES: u64 = 600;

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
    let growth = grown(bench, program, connections, 1)?;
    let count = connections as f64;
    Ok(Sample { figure: growth.rest / count, after: Some(growth.after / count), ..Sample::default() })
}

/// Bytes for each further watch of a connection: what `shared` connections with as many watches each grow by beyond
/// as many connections with one.
///
/// # Errors
/// A server that does not start, fewer files than connections, a connection that breaks.
pub(super) fn per_stream(bench: &Bench, program: &Program, shared: usize) -> io::Result<Sample> {
    let one = grown(bench, program, shared, 1)?;
    let many = grown(bench, program, shared, shared)?;
    let count = (shared * (shared - 1)) as f64;
    let after = (many.after - one.after) / count;
    Ok(Sample { figure: (many.rest - one.rest) / count, after: Some(after), ..Sample::default() })
}

fn grown(bench: &Bench, program: &Program, connections: usize, streams: usize) -> io::Result<Growth> {
    machine::need_files(connections as u64 + OTHER_FILES)?;
    let mut served = program.start()?;
    let measured = bench.block_on(async {
        // What a server loads and keeps once is none of the watchers'.
        Audience::open(served.address, 1, 1, Way::Each).await?.tell(|| served.cpu(), CHANGES).await?;
        tokio::time::sleep(bench.pace.rest).await;
        let before = served.resident()?;
        let mut audience = Audience::open(served.address, connections, streams, Way::Each).await?;
        tokio::time::sleep(bench.pace.rest).await;
        let rest = served.resident()? - before;
        audience.tell(|| served.cpu(), CHANGES).await?;
        Ok(Growth { rest, after: served.resident()? - before })
    });
    measured.map_err(|error| served.explain(&error))
}
