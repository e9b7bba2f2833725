//! The cursor into the log, and the batches that follow it.

use std::path::PathBuf;
use std::time::Duration;

use heureka_model::{Mono, Now};
use heureka_registry::replication::Scope;

use super::file::{File, Header, Row, Unusable};
use super::load::put_aside;
use super::{Deps, row};

/// Bytes of rows in one batch, roughly.
const BATCH: usize = 8 << 20;

/// The header is written at least so often, since the age of the file is judged by it.
const STAMP: Duration = Duration::from_mins(1);

/// Time between two looks at removals that are not remembered any more.
const SWEEP: Duration = Duration::from_mins(10);

/// Time after a failure until the file is opened again.
const RETRY: Duration = Duration::from_secs(10);

/// Time between two lines about failures.
const COMPLAINT: Duration = Duration::from_mins(1);

/// Writes what changed since it last wrote.
pub(super) struct Writer {
    deps: Deps,
    path: PathBuf,
    /// Nothing after a failure, until the file is opened again.
    file: Option<File>,
    /// Revision up to which the file is written.
    cursor: u64,
    /// The rows in the file are of the log that the cursor is of.
    continues: bool,
    stamped: Option<Mono>,
    swept: Mono,
    retry: Mono,
    complained: Option<Mono>,
}

/// Rows for one transaction.
#[derive(Default)]
struct Batch {
    rows: Vec<(Vec<u8>, Row)>,
    position: u64,
    at_head: bool,
}

impl Writer {
    /// Follows the log after revision `from`; when that is 0, what stands in the file is dropped first.
    pub(super) fn new(deps: Deps, path: PathBuf, file: Option<File>, from: u64) -> Self {
        let now = deps.clock.now().mono;
        Self {
            deps,
            path,
            file,
            cursor: from,
            continues: from > 0,
            stamped: None,
            swept: now,
            retry: now,
            complained: None,
        }
    }

    /// Writes what there is to write. Blocks; a failure is counted and the file tried again later, `last` or not.
    pub(super) fn step(&mut self, last: bool) {
        let now = self.deps.clock.now();
        let outcome = self.reopen(last, now).and_then(|()| self.follow(last, now));
        if let Err(error) = outcome {
            self.failed(&error, now);
        }
    }

    /// Opens the file again after a failure.
    fn reopen(&mut self, last: bool, now: Now) -> Result<(), Unusable> {
        if self.file.is_some() || (now.mono < self.retry && !last) {
            return Ok(());
        }
        let file = File::open(&self.path)?;
        let header = file.header()?;
        self.continues = header
            .is_some_and(|header| header.boot == self.deps.registry.boot() && header.revision == self.cursor);
        self.file = Some(file);
        Ok(())
    }

    fn follow(&mut self, last: bool, now: Now) -> Result<(), Unusable> {
        let Some(file) = &self.file else { return Ok(()) };
        if !self.continues {
            self.cursor = 0;
            file.clear(&self.header(0, now))?;
            self.continues = true;
        }
        if now.mono.since(self.swept) >= SWEEP {
            self.sweep(now)?;
            self.swept = now.mono;
        }
        loop {
            let batch = self.batch(now);
            let due = last || self.stamped.is_none_or(|stamped| now.mono.since(stamped) >= STAMP);
            if batch.rows.is_empty() && !due {
                return Ok(());
            }
            self.write(&batch.rows, batch.position, now)?;
            if batch.at_head {
                return Ok(());
            }
        }
    }

    fn batch(&self, now: Now) -> Batch {
        let mut batch = Batch { position: self.cursor, ..Batch::default() };
        let mut bytes = 0;
        while !batch.at_head && bytes < BATCH {
            let changes = self.deps.registry.changes(batch.position, Scope::All, now);
            (batch.position, batch.at_head) = (changes.position, changes.at_head);
            for (_, known) in changes.records {
                let (key, row) = row::encode(known);
                bytes += key.len() + row.len();
                batch.rows.push((key, row));
            }
        }
        batch
    }

    /// Drops removals that the registry does not remember any more; the log does not tell of their end.
    fn sweep(&mut self, now: Now) -> Result<(), Unusable> {
        let Some(file) = &self.file else { return Ok(()) };
        let registry = &self.deps.registry;
        let forgotten =
            |bytes: &Vec<u8>| row::key(bytes).is_none_or(|key| registry.export(key.as_ref(), now).is_none());
        let keys = file.removed()?.into_iter().filter(forgotten);
        let rows: Vec<_> = keys.map(|key| (key, Row::Forgotten)).collect();
        if rows.is_empty() { Ok(()) } else { self.write(&rows, self.cursor, now) }
    }

    fn write(&mut self, rows: &[(Vec<u8>, Row)], position: u64, now: Now) -> Result<(), Unusable> {
        let Some(file) = &self.file else { return Ok(()) };
        let count = file.write(rows, &self.header(position, now))?;
        self.cursor = position;
        self.stamped = Some(now.mono);
        self.deps.figures.wrote(count, rows.len() as u64, position, now.wall);
        Ok(())
    }

    fn header(&self, revision: u64, now: Now) -> Header {
        Header {
            cluster: self.deps.cluster.clone(),
            boot: self.deps.registry.boot(),
            revision,
            clock: self.deps.registry.clock(),
            written: now.wall.0,
            count: 0,
        }
    }

    /// The file is closed: after a failure the library writes no more to it.
    fn failed(&mut self, error: &Unusable, now: Now) {
        self.file = None;
        self.retry = now.mono.plus(RETRY);
        self.deps.figures.failed(error.to_string(), now.wall);
        if let Unusable::Damaged(reason) = error {
            put_aside(&self.deps, &self.path, reason);
        }
        if self.complained.is_none_or(|last| now.mono.since(last) >= COMPLAINT) {
            self.complained = Some(now.mono);
            tracing::warn!(%error, "the store cannot be written, it is tried again");
        }
    }
}
