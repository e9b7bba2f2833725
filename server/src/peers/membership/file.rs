//! A file with one peer per line.

use std::path::PathBuf;

use crate::config::PeerAddress;
use crate::files::{Files, Found};

/// A file of peers and what it last said.
pub(super) struct PeerFile {
    file: Files,
    peers: Vec<PeerAddress>,
}

impl PeerFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { file: Files::new(vec![("peer.file", path)]), peers: Vec::new() }
    }

    /// What it last said.
    pub(super) fn peers(&self) -> &[PeerAddress] {
        &self.peers
    }

    /// Reads it again. Anything wrong with it is told once and leaves the peers as they were.
    pub(super) async fn look(&mut self) {
        match self.file.look(false, |contents| read(&contents.concat())).await {
            Found::Same => {}
            Found::New(peers) => self.peers = peers,
            Found::Wrong(problem) => {
                tracing::warn!(%problem, "cannot use the file of peers, they stay as they were");
            }
        }
    }
}

fn read(text: &[u8]) -> Result<Vec<PeerAddress>, String> {
    let text = str::from_utf8(text).map_err(|_| "peer.file: it is not valid UTF-8".to_owned())?;
    let mut peers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        if !said.is_empty() {
            peers.push(
                PeerAddress::read(said)
                    .map_err(|expected| format!("peer.file: line {number}: {expected}"))?,
            );
        }
    }
    if peers.is_empty() { Err("peer.file: it names no peer".to_owned()) } else { Ok(peers) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        assert!(says(&mut file).await.is_empty() && !file.file.problem().is_empty(), "it is missing");
        std::fs::write(&path, "# ours\nb:1 # second\n\n c:2\n").unwrap();
        assert_eq!(says(&mut file).await, ["b:1", "c:2"]);
        assert!(file.file.problem().is_empty());
        for wrong in ["", "# nobody\n", "b:1\nc 2\n"] {
            std::fs::write(&path, wrong).unwrap();
            says(&mut file).await;
            assert_eq!(says(&mut file).await, ["b:1", "c:2"], "{wrong:?}");
        }
        assert!(file.file.problem().starts_with("peer.file: line 2: expected"), "{}", file.file.problem());
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
        assert!(file.file.problem().contains("more than the limit"), "{}", file.file.problem());
        for other in [folder.path(), Path::new("/dev/zero")] {
            let mut file = PeerFile::new(other.to_owned());
            assert!(says(&mut file).await.is_empty());
            let problem = file.file.problem();
            assert!(problem.ends_with("is no regular file"), "{problem}");
        }
    }
}
