//! The file: rows by key, and a header that says whose they are and from when.
//!
//! Nothing here knows what a row means. A file that cannot be trusted is an error with a reason, and never a panic
//! of the library that reads it.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    StorageBackend, TableDefinition,
};

/// Version of the rows and the header. A file of another one is set aside.
pub(super) const FORMAT: u64 = 1;

/// Pages that the library keeps in memory; the rows are read once and then only written.
const CACHE: usize = 16 << 20;

const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const TEXTS: TableDefinition<'_, &str, &str> = TableDefinition::new("texts");
const LIVE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("live");
const REMOVED: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("removed");

/// An open file, locked against other processes.
pub(super) struct File(Database);

/// Whose rows they are, and from when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Name of the cluster.
    pub(super) cluster: String,
    /// Life of the server that wrote.
    pub(super) boot: u64,
    /// Revision of its log up to which it wrote.
    pub(super) revision: u64,
    /// Highest hybrid logical clock that it knew.
    pub(super) clock: u64,
    /// Wall clock at the last write, in milliseconds.
    pub(super) written: u64,
    /// Rows in the file.
    pub(super) count: u64,
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// A live instance.
    Live(Vec<u8>),
    /// A removal that is remembered.
    Removed(Vec<u8>),
    /// Nothing is known of the key any more.
    Forgotten,
}

impl Row {
    /// Bytes of the row.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Live(value) | Self::Removed(value) => value.len(),
            Self::Forgotten => 0,
        }
    }
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// It is no file of ours to touch.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Its content cannot be trusted.
    #[error("{0}")]
    Damaged(String),
    /// The system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

type Outcome<T> = Result<T, Unusable>;

impl File {
    /// Opens a file, or makes an empty one that only its owner can read. Every page is checked.
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        let file = open_own(path)?;
        Self::over(FileBackend::new(file).map_err(damaged_or_held(path))?).map_err(|error| match error {
            Unusable::Refused { reason, .. } => Unusable::Refused { path: path.to_owned(), reason },
            other => other,
        })
    }

    /// The same over any storage.
    pub(super) fn over(backend: impl StorageBackend) -> Outcome<Self> {
        guarded(move || {
            let mut builder = Database::builder();
            builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
            builder.create_with_backend(backend).map(Self).map_err(damaged_or_held(Path::new("")))
        })
    }

    /// The header; nothing in a file that was never written.
    pub(super) fn header(&self) -> Outcome<Option<Header>> {
        guarded(|| {
            let reading = self.0.begin_read().map_err(damaged)?;
            if reading.list_tables().map_err(damaged)?.next().is_none() {
                return Ok(None);
            }
            let numbers = reading.open_table(NUMBERS).map_err(damaged)?;
            let number = |name: &str| match numbers.get(name).map_err(damaged)? {
                Some(number) => Ok(number.value()),
                None => Err(Unusable::Damaged(format!("the header lacks {name}"))),
            };
            let format = number("format")?;
            if format != FORMAT {
                return Err(Unusable::Damaged(format!("format {format} is not {FORMAT}")));
            }
            let texts = reading.open_table(TEXTS).map_err(damaged)?;
            let cluster = texts.get("cluster").map_err(damaged)?;
            let header = Header {
                cluster: cluster.map(|text| text.value().to_owned()).unwrap_or_default(),
                boot: number("boot")?,
                revision: number("revision")?,
                clock: number("clock")?,
                written: number("written")?,
                count: number("count")?,
            };
            let live = reading.open_table(LIVE).map_err(damaged)?.len().map_err(damaged)?;
            let removed = reading.open_table(REMOVED).map_err(damaged)?.len().map_err(damaged)?;
            if live + removed != header.count {
                return Err(Unusable::Damaged("the header counts other rows".into()));
            }
            Ok(Some(header))
        })
    }

    /// Shows every row, removals first.
    pub(super) fn rows(&self, mut visit: impl FnMut(&[u8])) -> Outcome<()> {
        guarded(|| {
            let reading = self.0.begin_read().map_err(damaged)?;
            for table in [REMOVED, LIVE] {
                for row in reading.open_table(table).map_err(damaged)?.iter().map_err(damaged)? {
                    visit(row.map_err(damaged)?.1.value());
                }
            }
            Ok(())
        })
    }

    /// Keys of the removals that are remembered.
    pub(super) fn removed(&self) -> Outcome<Vec<Vec<u8>>> {
        guarded(|| {
            let table = self.0.begin_read().map_err(damaged)?.open_table(REMOVED).map_err(damaged)?;
            let rows = table.iter().map_err(damaged)?;
            rows.map(|row| Ok(row.map_err(damaged)?.0.value().to_owned())).collect()
        })
    }

    /// Writes rows and the header, all or nothing; the number of rows then.
    pub(super) fn write(&self, rows: &[(Vec<u8>, Row)], header: &Header) -> Outcome<u64> {
        self.transaction(header, |live, removed| {
            for (key, row) in rows {
                let key = key.as_slice();
                match row {
                    Row::Live(value) => {
                        removed.remove(key)?;
                        live.insert(key, value.as_slice())?;
                    }
                    Row::Removed(value) => {
                        live.remove(key)?;
                        removed.insert(key, value.as_slice())?;
                    }
                    Row::Forgotten => {
                        live.remove(key)?;
                        removed.remove(key)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Drops every row.
    pub(super) fn clear(&self, header: &Header) -> Outcome<u64> {
        self.transaction(header, |live, removed| {
            live.retain(|_, _| false)?;
            removed.retain(|_, _| false)
        })
    }

    fn transaction(
        &self,
        header: &Header,
        change: impl FnOnce(&mut Table<'_>, &mut Table<'_>) -> Result<(), redb::StorageError>,
    ) -> Outcome<u64> {
        guarded(|| {
            let writing = self.0.begin_write().map_err(damaged)?;
            let (mut live, mut removed) =
                (writing.open_table(LIVE).map_err(damaged)?, writing.open_table(REMOVED).map_err(damaged)?);
            change(&mut live, &mut removed).map_err(damaged)?;
            let count = live.len().map_err(damaged)? + removed.len().map_err(damaged)?;
            drop((live, removed));
            let numbers = [
                ("format", FORMAT),
                ("boot", header.boot),
                ("revision", header.revision),
                ("clock", header.clock),
                ("written", header.written),
                ("count", count),
            ];
            let mut table = writing.open_table(NUMBERS).map_err(damaged)?;
            for (name, number) in numbers {
                table.insert(name, number).map_err(damaged)?;
            }
            drop(table);
            let mut table = writing.open_table(TEXTS).map_err(damaged)?;
            table.insert("cluster", header.cluster.as_str()).map_err(damaged)?;
            drop(table);
            writing.commit().map_err(damaged)?;
            Ok(count)
        })
    }
}

type Table<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

/// Where a file goes that cannot be used: the last one is kept, for whoever wants to know what happened.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".set-aside");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Opens a regular file under exactly this name: whoever can make links in the folder must not choose what the
/// server writes to.
fn open_own(path: &Path) -> Outcome<fs::File> {
    let refused = |reason: &str| Unusable::Refused { path: path.to_owned(), reason: reason.to_owned() };
    let before = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => return Err(refused("is a symbolic link")),
        Ok(found) if !found.is_file() => return Err(refused("is no regular file")),
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600).create_new(before.is_none());
    let file = options.open(path)?;
    let opened = file.metadata()?;
    if before.is_some_and(|before| (before.dev(), before.ino()) != (opened.dev(), opened.ino())) {
        return Err(refused("was replaced while it was opened"));
    }
    if opened.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// A library that panics over a damaged file has found that it is damaged.
fn guarded<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let panicked = |_| Err(Unusable::Damaged("reading it failed in a way that was not foreseen".into()));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}

fn damaged(error: impl Into<redb::Error>) -> Unusable {
    match error.into() {
        // What the library says of a file that is not one of its own, or too short.
        redb::Error::Io(error) if is_content(&error) => Unusable::Damaged(error.to_string()),
        redb::Error::Io(error) => Unusable::System(error),
        error => Unusable::Damaged(error.to_string()),
    }
}

fn is_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn damaged_or_held(path: &Path) -> impl FnOnce(DatabaseError) -> Unusable {
    let path = path.to_owned();
    move |error| match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            Unusable::Refused { path, reason: "another process uses it".into() }
        }
        error => damaged(error),
    }
}
