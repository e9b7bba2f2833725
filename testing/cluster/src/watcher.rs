//! A watcher written against the contract alone: it holds what the stream tells it and checks every digest.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use heureka_model::{InstanceKey, SetDigest, Status, Version, instance_hash};
use heureka_proto::convert::status;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_event::Event as Wire;
use prost::Message as _;
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;
use tonic::transport::Channel;

/// Longest silence; the server is asked for a token each second or so.
const SILENCE: Duration = Duration::from_secs(30);

/// An open watch and what it holds.
#[derive(Debug)]
pub struct Watcher {
    stream: Streaming<v1::WatchResponse>,
    /// What it holds.
    pub view: View,
}

/// What a watcher holds and has heard.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Instances.
    pub held: HashMap<InstanceKey, Held>,
    building: Option<HashMap<InstanceKey, Held>>,
    /// Token to resume with.
    pub token: Bytes,
    /// Revision of the last mark.
    pub revision: u64,
    /// Snapshots of the whole set that were begun.
    pub resets: u32,
    /// Changes that were news.
    pub changes: u64,
    /// Bookmarks that came.
    pub bookmarks: u32,
    /// Digests that were compared.
    pub compared: u32,
    /// Bytes of the largest message.
    pub largest_message: usize,
    /// Instances that were removed, in that order.
    pub removals: Vec<(InstanceKey, v1::RemovalReason)>,
}

/// An instance as it was last heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Version that was told.
    pub version: Version,
    /// Status as readers see it.
    pub status: Status,
    /// The whole instance.
    pub instance: v1::Instance,
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A snapshot begins.
    Begin(v1::SnapshotMode),
    /// Changes.
    Changes,
    /// A snapshot is complete.
    End,
    /// A bookmark.
    Bookmark,
    /// A farewell or a notice.
    Other,
}

/// A subscription to one application, or to all of the default namespace.
#[must_use]
pub fn spec(app: Option<&str>, bookmarks: Duration) -> v1::WatchSpec {
    let selector = app.map(|app| v1::InstanceSelector { apps: vec![app.to_owned()], ..Default::default() });
    v1::WatchSpec {
        selectors: selector.into_iter().collect(),
        bookmark_interval: prost_types::Duration::try_from(bookmarks).ok(),
        ..Default::default()
    }
}

/// Opens a stream as a stock client does, without any option of size.
///
/// # Errors
/// It is refused.
pub async fn open(channel: &Channel, spec: v1::WatchSpec) -> anyhow::Result<Streaming<v1::WatchResponse>> {
    let request = v1::WatchRequest { spec: Some(spec), client_name: "heureka-cluster".to_owned() };
    Ok(DiscoveryServiceClient::new(channel.clone()).watch(request).await?.into_inner())
}

impl Watcher {
    /// A new watch with nothing held.
    ///
    /// # Errors
    /// It is refused.
    pub async fn open(channel: &Channel, spec: v1::WatchSpec) -> anyhow::Result<Self> {
        Self::resume(channel, spec, View::default()).await
    }

    /// A watch that goes on where the view stopped.
    ///
    /// # Errors
    /// It is refused.
    pub async fn resume(channel: &Channel, mut spec: v1::WatchSpec, mut view: View) -> anyhow::Result<Self> {
        spec.resume_token.clone_from(&view.token);
        view.building = None;
        Ok(Self { stream: open(channel, spec).await?, view })
    }

    /// The next message, taken in.
    ///
    /// # Errors
    /// The stream ended, was silent, or broke the contract.
    pub async fn next(&mut self) -> anyhow::Result<Heard> {
        let deadline = Instant::now() + SILENCE;
        let message = timeout_at(deadline, self.stream.message()).await.context("30 s of silence")??;
        self.view.take(&message.context("the stream ended")?)
    }

    /// Reads until the initial part is over.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn settle(&mut self) -> anyhow::Result<()> {
        while self.next().await? != Heard::End {}
        Ok(())
    }

    /// Reads until the view is as wanted; how long that took.
    ///
    /// # Errors
    /// As [`Self::next`], or it did not become so.
    pub async fn until(
        &mut self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&View) -> bool,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while !wanted(&self.view) {
            let heard = timeout_at(begun + within, self.next()).await;
            heard.with_context(|| format!("{what}: not within {} s", within.as_secs()))??;
        }
        Ok(begun.elapsed())
    }

    /// Reads whatever comes for so long.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn listen(&mut self, duration: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + duration;
        while let Ok(heard) = timeout_at(end, self.next()).await {
            heard?;
        }
        Ok(())
    }
}

impl View {
    /// Takes a message in.
    ///
    /// # Errors
    /// It breaks the contract.
    pub fn take(&mut self, message: &v1::WatchResponse) -> anyhow::Result<Heard> {
        self.largest_message = self.largest_message.max(message.encoded_len());
        let event = message.event.as_ref().and_then(|event| event.event.as_ref());
        match event.context("a message without an event")? {
            Wire::SnapshotBegin(begin) => {
                let full = begin.mode() == v1::SnapshotMode::Full;
                self.resets += u32::from(full);
                self.building = full.then(HashMap::new);
                Ok(Heard::Begin(begin.mode()))
            }
            Wire::Changes(batch) => {
                batch.changes.iter().try_for_each(|change| self.apply(change))?;
                Ok(Heard::Changes)
            }
            Wire::SnapshotEnd(end) => {
                self.held = self.building.take().unwrap_or(std::mem::take(&mut self.held));
                self.mark(&end.resume_token, end.revision, end.digest.as_ref())?;
                Ok(Heard::End)
            }
            Wire::Bookmark(mark) => {
                self.bookmarks += 1;
                self.mark(&mark.resume_token, mark.revision, mark.digest.as_ref())?;
                Ok(Heard::Bookmark)
            }
            Wire::GoAway(_) | Wire::Notice(_) | Wire::Readings(_) => Ok(Heard::Other),
        }
    }

    fn apply(&mut self, change: &v1::Change) -> anyhow::Result<()> {
        let key = InstanceKey::from(change.key.clone().context("a change without a key")?);
        let version = Version::from(change.version.context("a change without a version")?);
        let set = self.building.as_mut().unwrap_or(&mut self.held);
        if set.get(&key).is_some_and(|held| held.version >= version) {
            return Ok(());
        }
        self.changes += 1;
        if change.r#type() == v1::ChangeType::Removed {
            self.removals.push((key.clone(), change.removal_reason()));
            set.remove(&key);
            return Ok(());
        }
        let instance = change.instance.clone().context("a change without an instance")?;
        let status = status("status", instance.status)?.context("an instance without a status")?;
        set.insert(key, Held { version, status, instance });
        Ok(())
    }

    fn mark(&mut self, token: &Bytes, revision: u64, digest: Option<&v1::SetDigest>) -> anyhow::Result<()> {
        ensure!(!token.is_empty(), "a mark without a token");
        self.token = token.clone();
        self.revision = revision;
        let Some(expected) = digest else { return Ok(()) };
        self.compared += 1;
        let own = self.digest();
        if own != *expected {
            bail!(
                "the server's digest differs from that of what was told: expected {expected:?}, saw {own:?}"
            );
        }
        Ok(())
    }

    /// Digest of what is held.
    #[must_use]
    pub fn digest(&self) -> v1::SetDigest {
        let mut digest = SetDigest::default();
        for (key, held) in &self.held {
            digest.add(instance_hash(key.as_ref(), &held.version), held.status);
        }
        digest.into()
    }

    /// An instance of the default namespace.
    #[must_use]
    pub fn get(&self, app: &str, id: &str) -> Option<&Held> {
        let key = InstanceKey { namespace: String::new(), app: app.into(), id: id.into() };
        self.held.get(&key)
    }

    /// Its status.
    #[must_use]
    pub fn status(&self, app: &str, id: &str) -> Option<Status> {
        self.get(app, id).map(|held| held.status)
    }
}
