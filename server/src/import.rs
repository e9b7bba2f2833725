//! What the configuration of a Eureka server becomes here: properties and YAML files, Spring's and Netflix's, to TOML.
//!
//! ```text
//! bytes → documents of statements → those whose profiles are active → the last word about each property
//!       → settings, by the table of names → TOML, with what is not carried as comments
//! ```
//!
//! A file is read whole or not at all, and secrets are never told. What is printed loads: each value is tried on the
//! configuration before it is carried.

mod compose;
mod docs;
mod error;
mod facts;
mod forms;
mod ledger;
mod peers;
mod placeholders;
mod profiles;
mod properties;
mod render;
mod statement;
mod table;
mod yaml;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use error::ImportError;

use statement::{Document, shown};

/// What became of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// A configuration that loads, with comments about what it does not hold.
    pub toml: String,
    /// What a person should be told beside it, one line each.
    pub told: Vec<String>,
}

/// Reads files, of which the later win, and says what they are here. `profiles` stand for those that the files name as
/// active; none: the files' own.
/// # Errors
/// A file that cannot be read whole, with its line and the property.
pub fn import(files: &[PathBuf], profiles: &[String]) -> Result<Import, ImportError> {
    let mut documents = Vec::new();
    for path in files {
        documents.extend(read(path)?);
    }
    let chosen = profiles::choose(&documents, profiles)?;
    let mut ledger = compose::settle(&chosen.facts)?;
    ledger
        .left
        .extend(chosen.unused.iter().map(|(statement, reason)| ledger::Told::of(statement, &**reason)));
    let names: Vec<_> = files.iter().map(|path| shown(&path.to_string_lossy())).collect();
    let active: Vec<_> = chosen.profiles.iter().map(|profile| shown(profile)).collect();
    Ok(Import { toml: render::toml(&ledger, &names, &active), told: render::summary(&ledger) })
}

/// The table of properties and settings, in Markdown.
#[must_use]
pub fn reference() -> String {
    docs::render()
}

/// Size of a file; one that is larger is no configuration.
const LARGEST: u64 = 1 << 20;

fn read(path: &Path) -> Result<Vec<Document>, ImportError> {
    let name: Rc<str> = path.to_string_lossy().into();
    let wrong = |reason: String| ImportError::file(&name, reason);
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let parse = match &*ending {
        "properties" => properties::read,
        "yml" | "yaml" => yaml::read,
        _ => return Err(wrong("expected a name that ends in .properties, .yml or .yaml".into())),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrong(format!("cannot be opened: {error}")))?;
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong("is larger than 1 MiB".into()));
    }
    parse(&name, &bytes)
}
