//! A file with one peer per line.

use std::path::{Path, PathBuf};

use crate::config::PeerAddress;

/// Bytes of the file; far more than any cluster has peers.
const MAX: u64 = 1 << 20;

/// A file of peers and what it last said.
pub(super) struct PeerFile {
    path: PathBuf,
    peers: Vec<PeerAddress>,
    /// Text in force, and a newer one that has to be met twice: a file may be met while it is written.
    text: Option<String>,
    newer: Option<String>,
    /// A problem that was told.
    problem: String,
}

impl PeerFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, peers: Vec::new(), text: None, newer: None, problem: String::new() }
    }

    /// What it last said.
    pub(super) fn peers(&self) -> &[PeerAddress] {
        &self.peers
    }

    /// Reads it again. Anything wrong with it is told once and leaves the peers as they were.
    pub(super) async fn look(&mut self) {
        let text = match text(&self.path).await {
            Ok(text) => text,
            Err(problem) => return self.complain(problem),
        };
        if self.text.as_ref() == Some(&text) {
            self.newer = None;
            return;
        }
        let settled = self.text.is_none() || self.newer.as_ref() == Some(&text);
        if !settled {
            self.newer = Some(text);
            return;
        }
        match read(&text) {
            Ok(peers) => self.take(peers, text),
            Err(problem) => self.complain(problem),
        }
    }

    fn take(&mut self, peers: Vec<PeerAddress>, text: String) {
        self.peers = peers;
        self.text = Some(text);
        self.newer = None;
        self.problem.clear();
    }

    fn complain(&mut self, problem: String) {
        if self.problem != problem {
            let file = self.path.display();
            tracing::warn!(%file, %problem, "cannot use the file of peers, they stay as they were");
            self.problem = problem;
        }
    }
}

/// What stands in a file that ends: reading a pipe or a device may last for ever.
async fn text(path: &Path) -> Result<String, String> {
    let told = tokio::fs::metadata(path).await.map_err(|error| error.to_string())?;
    if !told.is_file() {
        return Err("is no regular file".to_owned());
    }
    if told.len() > MAX {
        return Err(format!("has {} bytes, more than the limit of {MAX}", told.len()));
    }
    tokio::fs::read_to_string(path).await.map_err(|error| error.to_string())
}

fn read(text: &str) -> Result<Vec<PeerAddress>, String> {
    let mut peers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        if !said.is_empty() {
            peers.push(PeerAddress::read(said).map_err(|expected| format!("line {number}: {expected}"))?);
        }
    }
    if peers.is_empty() { Err("it names no peer".to_owned()) } else { Ok(peers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn says(file: &mut PeerFile) -> Vec<String> {
        file.look().await;
        file.peers().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_file_in_force_gives_way_to_one_that_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers");
        let mut file = PeerFile::new(path.clone());
        assert!(says(&mut file).await.is_empty() && !file.problem.is_empty(), "it is missing");
        std::fs::write(&path, "# ours\nb:1 # second\n\n c:2\n").unwrap();
        assert_eq!(says(&mut file).await, ["b:1", "c:2"]);
        assert!(file.problem.is_empty());
        for wrong in ["", "# nobody\n", "b:1\nc 2\n"] {
            std::fs::write(&path, wrong).unwrap();
            says(&mut file).await;
            assert_eq!(says(&mut file).await, ["b:1", "c:2"], "{wrong:?}");
        }
        assert!(file.problem.starts_with("line 2: expected"), "{}", file.problem);
        std::fs::write(&path, "d:3").unwrap();
        assert_eq!(says(&mut file).await, ["b:1", "c:2"], "it may still be written");
        assert_eq!(says(&mut file).await, ["d:3"]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(says(&mut file).await, ["d:3"]);
    }
    #[tokio::test]
    async fn what_is_no_file_of_some_size_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers");
        std::fs::write(&path, "b:1").unwrap();
        let mut file = PeerFile::new(path.clone());
        assert_eq!(says(&mut file).await, ["b:1"]);
        std::fs::write(&path, "c:2\n".repeat(1 << 18) + "#").unwrap();
        says(&mut file).await;
        assert_eq!(says(&mut file).await, ["b:1"]);
        assert!(file.problem.contains("more than the limit"), "{}", file.problem);
        for other in [folder.path(), Path::new("/dev/zero")] {
            let mut file = PeerFile::new(other.to_owned());
            assert!(says(&mut file).await.is_empty());
            assert_eq!(file.problem, "is no regular file");
        }
    }
}
