//! Files that may change while the server runs.
//!
//! They are read again and again, not asked when they were written: what is put in place by a link or from a backup
//! may bear any time. Of what was read only a hash is kept, since it may be a secret.

use std::fmt;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};

use foldhash::quality::FixedState;

/// Bytes of a file; far more than any cluster has peers or any certificate has issuers.
const MAX: u64 = 1 << 20;

/// Files that are taken together.
pub(crate) struct Files {
    /// Each with the setting that names it.
    paths: Vec<(&'static str, PathBuf)>,
    /// What is in force, and what is newer and has to be met twice: a file may be met while it is written.
    taken: Option<u64>,
    newer: Option<u64>,
    /// What is wrong with them; empty while nothing is.
    problem: String,
}

/// What a look at files brought.
#[derive(Debug, PartialEq)]
pub(crate) enum Found<T> {
    /// Nothing that was not told before.
    Same,
    /// They changed.
    New(T),
    /// They cannot be used, told once; whatever was in force stays.
    Wrong(String),
}

impl Files {
    /// Files that were not read yet, each with the setting that names it.
    pub(crate) fn new(paths: Vec<(&'static str, PathBuf)>) -> Self {
        Self { paths, taken: None, newer: None, problem: String::new() }
    }

    /// What is wrong with them; empty while nothing is.
    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }

    /// Reads and takes them, as at a start.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) async fn first<T>(
        &mut self,
        read: impl FnOnce(&[Vec<u8>]) -> Result<T, String>,
    ) -> Result<T, String> {
        let contents = contents(&self.paths).await?;
        let understood = read(&contents)?;
        self.taken = Some(hash(&contents));
        Ok(understood)
    }

    /// Reads them again. What is new is understood by `read` once it was met twice in a row, or at once when nothing
    /// is in force or they are known to be `whole`.
    pub(crate) async fn look<T>(
        &mut self,
        whole: bool,
        read: impl FnOnce(&[Vec<u8>]) -> Result<T, String>,
    ) -> Found<T> {
        let contents = match contents(&self.paths).await {
            Ok(contents) => contents,
            Err(problem) => return self.wrong(problem),
        };
        let hash = hash(&contents);
        if self.taken == Some(hash) {
            self.newer = None;
            self.problem.clear();
            return Found::Same;
        }
        let met = self.newer.replace(hash) == Some(hash);
        if !(whole || met || self.taken.is_none()) {
            return Found::Same;
        }
        match read(&contents) {
            Ok(understood) => self.take(hash, understood),
            Err(problem) => self.wrong(problem),
        }
    }

    fn take<T>(&mut self, hash: u64, understood: T) -> Found<T> {
        self.taken = Some(hash);
        self.newer = None;
        self.problem.clear();
        Found::New(understood)
    }

    fn wrong<T>(&mut self, problem: String) -> Found<T> {
        if self.problem == problem {
            return Found::Same;
        }
        self.problem.clone_from(&problem);
        Found::Wrong(problem)
    }
}

/// Their paths.
impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut paths = self.paths.iter().map(|(_, path)| path.display());
        paths.next().iter().try_for_each(|first| first.fmt(f))?;
        paths.try_for_each(|path| write!(f, " {path}"))
    }
}

async fn contents(paths: &[(&'static str, PathBuf)]) -> Result<Vec<Vec<u8>>, String> {
    let mut contents = Vec::with_capacity(paths.len());
    for (setting, path) in paths {
        let read = content(path).await;
        contents.push(read.map_err(|problem| format!("{setting}: {}: {problem}", path.display()))?);
    }
    Ok(contents)
}

/// What stands in a file that ends: reading a pipe or a device may last for ever.
async fn content(path: &Path) -> Result<Vec<u8>, String> {
    let told = tokio::fs::metadata(path).await.map_err(|error| error.to_string())?;
    if !told.is_file() {
        return Err("is no regular file".to_owned());
    }
    if told.len() > MAX {
        return Err(format!("has {} bytes, more than the limit of {MAX}", told.len()));
    }
    tokio::fs::read(path).await.map_err(|error| error.to_string())
}

fn hash(contents: &[Vec<u8>]) -> u64 {
    FixedState::default().hash_one(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes texts that are not empty.
    async fn look(files: &mut Files, whole: bool) -> Found<String> {
        let read = |contents: &[Vec<u8>]| {
            let text = contents.concat();
            if text.is_empty() { Err("it is empty".into()) } else { Ok(String::from_utf8(text).unwrap()) }
        };
        files.look(whole, read).await
    }

    fn new(text: &str) -> Found<String> {
        Found::New(text.into())
    }

    #[tokio::test]
    async fn files_are_taken_together_once_they_were_met_twice() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let write = |place: usize, text: &str| std::fs::write(&paths[place], text).unwrap();
        let mut files = Files::new(vec![("one", paths[0].clone()), ("other", paths[1].clone())]);
        write(0, "a1");
        let Found::Wrong(problem) = look(&mut files, false).await else { panic!("one is missing") };
        assert!(problem.starts_with(&format!("other: {}: ", paths[1].display())), "{problem}");
        write(1, "b1");
        assert_eq!(look(&mut files, false).await, new("a1b1"), "nothing was in force");
        assert_eq!(look(&mut files, true).await, Found::Same);
        write(0, "a2");
        assert_eq!(look(&mut files, false).await, Found::Same, "the other may follow");
        write(1, "b2");
        assert_eq!(look(&mut files, false).await, Found::Same);
        assert_eq!(look(&mut files, false).await, new("a2b2"));
        write(1, "b3");
        assert_eq!(look(&mut files, true).await, new("a2b3"), "somebody said that it is whole");
    }

    #[tokio::test]
    async fn a_problem_is_told_once_and_over_when_the_files_are_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "a1").unwrap();
        let mut files = Files::new(vec![("one", path.clone())]);
        assert_eq!(look(&mut files, false).await, new("a1"));
        for _ in 0..2 {
            std::fs::write(&path, "").unwrap();
            assert_eq!(look(&mut files, true).await, Found::Wrong("it is empty".into()));
            assert_eq!(look(&mut files, true).await, Found::Same);
            assert_eq!(files.problem(), "it is empty");
            std::fs::write(&path, "a1").unwrap();
            assert_eq!(look(&mut files, false).await, Found::Same);
            assert_eq!(files.problem(), "");
        }
    }
}
