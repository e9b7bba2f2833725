//! The start: what is in the folder, and how much of it is believed.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use heureka_model::{Now, Wall};

use super::file::{self, File, Header, Unusable};
use super::row;
use super::writer::Writer;
use super::{Deps, FILE, Opened, StoreError};

/// An older file says only how far the clock had come.
const MAX_AGE: Duration = Duration::from_mins(10);

/// How far a file may lie in the future, for clocks that were set back a little.
const AHEAD: Duration = Duration::from_mins(1);

/// What became of a file.
enum Found {
    /// There was none.
    Nothing(File),
    /// Its rows were taken in.
    Taken(File),
    /// It is ours and too old.
    Old(File),
}

/// Looks at the folder and takes in what is believed. Blocks.
pub(super) fn load(deps: Deps) -> Result<Opened, StoreError> {
    let path = folder(&deps.folder)?.join(FILE);
    let now = deps.clock.now();
    let (file, warm) = match find(&deps, &path, now) {
        Ok(Found::Taken(file)) => (Some(file), true),
        Ok(Found::Nothing(file) | Found::Old(file)) => (Some(file), false),
        Err(Unusable::Refused { path, reason }) => {
            return Err(StoreError(format!("{}: {reason}", path.display())));
        }
        Err(Unusable::Damaged(reason)) => {
            put_aside(&deps, &path, &reason);
            (File::open(&path).ok(), false)
        }
        Err(Unusable::System(error)) => {
            tracing::warn!(%error, "the store cannot be opened, it is tried again");
            (None, false)
        }
    };
    let from = if warm { deps.registry.head() } else { 0 };
    Ok(Opened { warm, writer: Writer::new(deps, path, file, from) })
}

/// Sets a file aside that cannot be used.
pub(super) fn put_aside(deps: &Deps, path: &Path, reason: &str) {
    deps.figures.put_aside();
    match file::set_aside(path) {
        Ok(aside) => {
            tracing::warn!(reason, aside = %aside.display(), "the store cannot be used and was set aside");
        }
        Err(error) => tracing::warn!(reason, %error, "the store cannot be used, nor set aside"),
    }
}

fn folder(folder: &Path) -> Result<&Path, StoreError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| StoreError(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}

fn find(deps: &Deps, path: &Path, now: Now) -> Result<Found, Unusable> {
    let file = File::open(path)?;
    let Some(header) = file.header()? else { return Ok(Found::Nothing(file)) };
    if header.cluster != deps.cluster {
        return Err(Unusable::Damaged(format!("it is of cluster {:?}", header.cluster)));
    }
    // All of it is read before any of it is believed.
    file.rows(|_| {})?;
    deps.registry.restore_clock(header.clock, now);
    if !is_recent(&header, now) {
        tracing::info!(written = header.written, "the store is too old, its rows are not taken");
        return Ok(Found::Old(file));
    }
    take(deps, &file, &header, now)?;
    Ok(Found::Taken(file))
}

fn is_recent(header: &Header, now: Now) -> bool {
    let written = Wall(header.written);
    written <= now.wall.plus(AHEAD) && now.wall <= written.plus(MAX_AGE)
}

fn take(deps: &Deps, file: &File, header: &Header, now: Now) -> Result<(), Unusable> {
    let limits = &deps.registry.config().limits;
    let mut skipped = 0;
    file.rows(|bytes| {
        let restored = row::decode(bytes, limits).map(|state| deps.registry.restore(state, now));
        skipped += u64::from(!matches!(restored, Some(Ok(_))));
    })?;
    deps.figures.skip(skipped);
    deps.figures.loaded(header.count, deps.registry.head());
    tracing::info!(rows = header.count, skipped, written = header.written, "the store was loaded");
    Ok(())
}
