//! A region of ours, followed by a watch of the native contract.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Clock, InstanceKey, Now, Registration, Selector, Selectors};
use heureka_proto::convert::wire_duration;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::{Change, SnapshotMode, WatchRequest, WatchSpec};
use heureka_registry::{Claim, Origin, RegisterMode, Registry, SetOverride};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tower::service_fn;

use super::health::Health;
use super::socket::open;
use crate::config::WatchUrl;
use crate::peers::deepest;
use crate::tls::{Alpn, Connector};

/// A server says something at least this often.
const BOOKMARKS: Duration = Duration::from_secs(3);
/// One that is silent for three times that is gone.
const SILENCE: Duration = Duration::from_secs(9);
/// Far above the 64 KiB that a message has unless one change is larger.
const MESSAGE_MAX: usize = 4 << 20;
/// Cause of all changes in a copy.
const THERE: Origin = Origin::Peer;

/// Keys of a snapshot that is under way.
type Snapshot = Option<HashSet<InstanceKey>>;

/// A server of such a region.
pub(super) struct Watched {
    url: WatchUrl,
    tls: Connector,
    /// Longest time until a connection is open.
    patience: Duration,
}

impl Watched {
    pub(super) fn new(url: WatchUrl, tls: Connector, patience: Duration) -> Self {
        Self { url, tls, patience }
    }

    /// Follows the server until it fails; why it did, and whether it answered before.
    pub(super) async fn follow(
        &self,
        health: &Health,
        core: &Registry,
        clock: &Arc<dyn Clock>,
    ) -> (String, bool) {
        let mut snapshot = None;
        let mut answered = false;
        let mut stream = match timeout(self.patience * 2, self.open()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(reason)) => return (reason, false),
            Err(_) => return ("not reached in time".into(), false),
        };
        loop {
            let event = match timeout(SILENCE, stream.message()).await {
                Ok(Ok(Some(message))) => message.event.and_then(|event| event.event),
                Ok(Ok(None)) => return ("the watch ended".into(), answered),
                Ok(Err(status)) => return (format!("the watch ended: {}", status.message()), answered),
                Err(_) => return ("the watch is silent".into(), answered),
            };
            let now = clock.now();
            if let Some(Event::GoAway(_)) = event {
                return ("the server leaves".into(), answered);
            }
            if take(event, &mut snapshot, core, now) {
                answered = true;
                health.copied();
            }
            health.succeeded(now);
        }
    }

    async fn open(&self) -> Result<tonic::Streaming<heureka_proto::v1::WatchResponse>, String> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.url.authority()));
        let endpoint = endpoint.map_err(|error| error.to_string())?.connect_timeout(self.patience);
        let (url, tls) = (self.url.clone(), self.tls.clone());
        let connector = service_fn(move |_| {
            let (url, tls) = (url.clone(), tls.clone());
            async move { open((&url.host, url.port), url.is_secure, Alpn::H2, &tls).await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| format!("not reached: {}", deepest(&error)))?;
        let mut client = DiscoveryServiceClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
        let spec = WatchSpec { bookmark_interval: Some(wire_duration(BOOKMARKS)), ..WatchSpec::default() };
        let request = WatchRequest { spec: Some(spec), client_name: "region".into() };
        let watch =
            client.watch(request).await.map_err(|status| format!("no watch: {}", status.message()))?;
        Ok(watch.into_inner())
    }
}

/// True when the copy is whole from now on.
fn take(event: Option<Event>, snapshot: &mut Snapshot, core: &Registry, now: Now) -> bool {
    match event {
        Some(Event::SnapshotBegin(begin)) => {
            *snapshot = (begin.mode() == SnapshotMode::Full).then(HashSet::new);
            false
        }
        Some(Event::Changes(batch)) => {
            batch.changes.into_iter().for_each(|change| apply(change, snapshot, core, now));
            false
        }
        Some(Event::SnapshotEnd(_)) => {
            if let Some(told) = snapshot.take() {
                drop_untold(&told, core, now);
            }
            true
        }
        _ => false,
    }
}

/// A change that cannot be read is left out; the next snapshot tells the instance again.
fn apply(change: Change, snapshot: &mut Snapshot, core: &Registry, now: Now) {
    let Some(key) = change.key.map(InstanceKey::from) else { return };
    match change.instance.map(Registration::try_from) {
        None => remove(&key, core, now),
        Some(Ok(told)) => {
            if let Some(keys) = snapshot {
                keys.insert(key);
            }
            put(&told, core, now);
        }
        Some(Err(error)) => tracing::debug!(%key, %error, "an instance of another region cannot be read"),
    }
}

/// The copy has versions of its own: only its content is read.
fn put(told: &Registration, core: &Registry, now: Now) {
    let key = told.instance.key.as_ref();
    if core.register(&told.instance, Claim::Next, RegisterMode::Upsert, &THERE, now).is_err() {
        tracing::debug!(%key, "an instance of another region finds no room");
        return;
    }
    let set = told.override_status();
    let held = core.get(key, now).and_then(|held| held.override_status());
    if set == held {
        return;
    }
    let written = match set {
        Some(status) => {
            core.set_override(key, SetOverride { status, ttl: None, drain: told.overlay.drain }, &THERE, now)
        }
        None => core.clear_override(key, None, &THERE, now),
    };
    // It was put there just now, by the only writer.
    drop(written);
}

fn remove(key: &InstanceKey, core: &Registry, now: Now) {
    if core.get(key.as_ref(), now).is_some() {
        // As above.
        let _ = core.cancel(key.as_ref(), Claim::Next, &THERE, now);
    }
}

/// What the snapshot did not tell is gone.
fn drop_untold(told: &HashSet<InstanceKey>, core: &Registry, now: Now) {
    let all = Selectors::new(vec![Selector::default()]);
    let held = core.page(&all, None, usize::MAX - 1, now).instances;
    for one in held.iter().filter(|one| !told.contains(&one.instance.key)) {
        remove(&one.instance.key, core, now);
    }
}
