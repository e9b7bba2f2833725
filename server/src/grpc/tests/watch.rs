//! Watches: order, resume, filters, limits, ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use heureka_model::{InstanceKey, SetDigest, Version, instance_hash};
use heureka_proto::convert::{status, wire_duration};
use heureka_registry::Config;
use tokio::time::Instant;
use tonic::Streaming;
use v1::watch_event::Event;
use v1::{ChangeType, RemovalReason, SnapshotMode, StartMode};

use super::*;
use crate::grpc::Connection;
use crate::grpc::token::Resume;

pub(super) type Watch = Streaming<v1::WatchResponse>;

pub(super) async fn open(server: &Server, spec: v1::WatchSpec) -> Result<Watch, Status> {
    let request = v1::WatchRequest { spec: Some(spec), client_name: "test".into() };
    server.reader().watch(request).await.map(tonic::Response::into_inner)
}

pub(super) async fn watch(server: &Server, spec: v1::WatchSpec) -> Watch {
    open(server, spec).await.unwrap()
}

pub(super) async fn event(watch: &mut Watch) -> Event {
    watch.message().await.unwrap().expect("the stream goes on").event.unwrap().event.unwrap()
}

#[track_caller]
pub(super) fn begin(event: Event) -> SnapshotMode {
    let Event::SnapshotBegin(begin) = event else { panic!("not the begin: {event:?}") };
    assert!(begin.header.is_some());
    begin.mode()
}

#[track_caller]
fn end(event: Event) -> v1::SnapshotEnd {
    let Event::SnapshotEnd(end) = event else { panic!("not the end: {event:?}") };
    end
}

#[track_caller]
fn changes(event: Event) -> Vec<v1::Change> {
    let Event::Changes(batch) = event else { panic!("no changes: {event:?}") };
    assert!(batch.revision > 0 && batch.commit_time.is_some());
    batch.changes
}

#[track_caller]
fn bookmark(event: Event) -> v1::Bookmark {
    let Event::Bookmark(bookmark) = event else { panic!("no bookmark: {event:?}") };
    bookmark
}

pub(super) fn brief(changes: &[v1::Change]) -> Vec<(ChangeType, String)> {
    changes.iter().map(|change| (change.r#type(), change.key.as_ref().unwrap().id.clone())).collect()
}

pub(super) fn following(app: &str) -> v1::WatchSpec {
    let selectors = vec![v1::InstanceSelector { apps: vec![app.into()], ..Default::default() }];
    v1::WatchSpec { selectors, ..Default::default() }
}

pub(super) fn resuming(token: impl Into<bytes::Bytes>) -> v1::WatchSpec {
    v1::WatchSpec { resume_token: token.into(), ..Default::default() }
}

/// The documented client: applies only what is newer, swaps a whole snapshot in at its end.
#[derive(Default)]
pub(super) struct Client {
    pub(super) held: BTreeMap<(String, String), v1::Instance>,
    building: Option<BTreeMap<(String, String), v1::Instance>>,
    pub(super) token: bytes::Bytes,
    pub(super) compared: usize,
}

impl Client {
    /// Reads until the next token; what came before it.
    pub(super) async fn read(&mut self, watch: &mut Watch) -> Vec<(ChangeType, String)> {
        let mut heard = Vec::new();
        loop {
            match event(watch).await {
                Event::SnapshotBegin(begin) => {
                    self.building = match begin.mode() {
                        SnapshotMode::Full => Some(BTreeMap::new()),
                        SnapshotMode::Diff => Some(self.outside(&begin.apps)),
                        _ => None,
                    };
                }
                Event::Changes(batch) => {
                    heard.extend(brief(&batch.changes));
                    batch.changes.into_iter().for_each(|change| self.apply(change));
                }
                Event::SnapshotEnd(end) => {
                    if let Some(built) = self.building.take() {
                        self.held = built;
                    }
                    self.mark(end.resume_token, end.digest);
                    return heard;
                }
                Event::Bookmark(bookmark) => {
                    self.mark(bookmark.resume_token, bookmark.digest);
                    return heard;
                }
                Event::Notice(_) | Event::Readings(_) => {}
                Event::GoAway(away) => {
                    self.token = away.resume_token;
                    return heard;
                }
            }
        }
    }

    /// What is held of other applications than these.
    fn outside(&self, apps: &[v1::AppDigest]) -> BTreeMap<(String, String), v1::Instance> {
        let mut rest = self.held.clone();
        rest.retain(|(app, _), _| !apps.iter().any(|named| named.app == *app));
        rest
    }

    pub(super) fn apply(&mut self, change: v1::Change) {
        let key = change.key.clone().unwrap();
        let version = Version::from(change.version.unwrap());
        let set = self.building.as_mut().unwrap_or(&mut self.held);
        let key = (key.app, key.id);
        let held = set.get(&key).map(|held| Version::from(held.version.unwrap()));
        if held.is_some_and(|held| held > version) {
            return;
        }
        match change.instance {
            Some(instance) => drop(set.insert(key, instance)),
            None => drop(set.remove(&key)),
        }
    }

    fn mark(&mut self, token: bytes::Bytes, digest: Option<v1::SetDigest>) {
        self.token = token;
        if let Some(digest) = digest {
            assert_eq!(digest, self.digest());
            self.compared += 1;
        }
    }

    fn digest(&self) -> v1::SetDigest {
        let mut digest = SetDigest::default();
        for instance in self.held.values() {
            let key = InstanceKey::from(instance.key.clone().unwrap());
            let hash = instance_hash(key.as_ref(), &instance.version.unwrap().into());
            digest.add(hash, status("status", instance.status).unwrap().unwrap());
        }
        digest.into()
    }

    pub(super) fn ids(&self) -> Vec<&str> {
        self.held.keys().map(|(_, id)| id.as_str()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_is_there_and_then_every_change() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    server.register(instance("api", "n2")).await;
    let mut watch = watch(&server, v1::WatchSpec::default()).await;
    assert_eq!(begin(event(&mut watch).await), SnapshotMode::Full);
    let there = changes(event(&mut watch).await);
    assert_eq!(brief(&there), [(ChangeType::Added, "n1".into()), (ChangeType::Added, "n2".into())]);
    assert!(there.iter().all(|change| change.instance.is_some() && change.version.is_some()));
    let end = end(event(&mut watch).await);
    assert_eq!((end.revision, end.digest.unwrap().instance_count), (2, 2));

    server.register(instance("web", "n3")).await;
    assert_eq!(brief(&changes(event(&mut watch).await)), [(ChangeType::Added, "n3".into())]);
    server.register(v1::Instance { host_name: "h".into(), ..instance("web", "n3") }).await;
    let changed = changes(event(&mut watch).await);
    assert_eq!(brief(&changed), [(ChangeType::Modified, "n3".into())]);
    assert_eq!(changed[0].instance.as_ref().unwrap().host_name, "h");
    server.cancel("web", "n3").await;
    let removed = changes(event(&mut watch).await);
    assert_eq!(brief(&removed), [(ChangeType::Removed, "n3".into())]);
    assert_eq!(removed[0].removal_reason(), RemovalReason::Cancelled);
    assert!(removed[0].instance.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_told_as_expired() {
    let server = Server::start().await;
    let lease = Some(v1::Lease { duration: Some(seconds(5)), ..Default::default() });
    server.register(v1::Instance { lease, ..instance("web", "n1") }).await;
    let mut watch = watch(&server, v1::WatchSpec::default()).await;
    Client::default().read(&mut watch).await;
    server.pass(6).await;
    let removed = changes(event(&mut watch).await);
    assert_eq!(removed[0].removal_reason(), RemovalReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn renewals_are_silent_and_silence_is_filled_with_bookmarks() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let spec = v1::WatchSpec { bookmark_interval: Some(seconds(4)), ..Default::default() };
    let mut watch = watch(&server, spec).await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    for _ in 0..3 {
        let renew = v1::RenewRequest { key: Some(key("web", "n1")), ..Default::default() };
        server.writer().renew(renew).await.unwrap();
        let before = server.clock.now().mono;
        assert_eq!(client.read(&mut watch).await, []);
        let waited = server.clock.now().mono.since(before);
        assert!(waited > Duration::from_secs(3) && waited <= Duration::from_secs(4), "{waited:?}");
    }
    assert_eq!(client.compared, 4);
}

#[tokio::test(start_paused = true)]
async fn tokens_come_in_time_although_changes_never_pause() {
    let server = Server::start().await;
    let spec = v1::WatchSpec { bookmark_interval: Some(seconds(2)), ..Default::default() };
    let mut watch = watch(&server, spec).await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    let mut tokens = 0;
    for round in 0..60 {
        server.register(v1::Instance { host_name: round.to_string(), ..instance("web", "n1") }).await;
        tokio::time::advance(Duration::from_millis(100)).await;
        tokens += usize::from(matches!(event(&mut watch).await, Event::Bookmark(_)));
    }
    assert!(tokens >= 2, "{tokens} tokens in six seconds");
}

#[tokio::test(start_paused = true)]
async fn a_filtered_watch_hears_only_of_its_set() {
    let server = Server::start().await;
    let up = vec![v1::InstanceStatus::Up.into()];
    let selectors =
        vec![v1::InstanceSelector { apps: vec!["web".into()], statuses: up, ..Default::default() }];
    let mut watch = watch(&server, v1::WatchSpec { selectors, ..Default::default() }).await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    let down = |id| v1::Instance { status: v1::InstanceStatus::Down.into(), ..instance("web", id) };
    server.register(instance("api", "other")).await;
    server.register(down("n1")).await;
    server.register(instance("web", "n1")).await;
    assert_eq!(brief(&changes(event(&mut watch).await)), [(ChangeType::Added, "n1".into())]);
    server.register(down("n1")).await;
    let left = changes(event(&mut watch).await);
    assert_eq!(brief(&left), [(ChangeType::Removed, "n1".into())]);
    assert_eq!(left[0].removal_reason(), RemovalReason::FilteredOut);
    assert_eq!(client.read(&mut watch).await, []);
    assert_eq!(client.compared, 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_resumes_with_what_was_missed() {
    let server = Server::start().await;
    let mut client = Client::default();
    for id in ["a", "b", "c"] {
        server.register(instance("web", id)).await;
    }
    client.read(&mut watch(&server, v1::WatchSpec::default()).await).await;

    server.cancel("web", "a").await;
    server.register(v1::Instance { host_name: "h".into(), ..instance("web", "b") }).await;
    server.register(instance("web", "d")).await;
    let mut second = watch(&server, resuming(client.token.clone())).await;
    assert_eq!(begin(event(&mut second).await), SnapshotMode::Resume);
    let missed = client.read(&mut second).await;
    assert_eq!(missed.len(), 3, "{missed:?}");
    assert_eq!(client.ids(), ["b", "c", "d"]);
    assert_eq!(client.compared, 2);
    assert_eq!(server.grpc.watches.figures().resumed.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_followed_without_a_gap() {
    let server = Server::start().await;
    for id in ["a", "b"] {
        server.register(instance("web", id)).await;
    }
    let mut request = v1::ListInstancesRequest { page_size: 1, ..Default::default() };
    let first = server.reader().list_instances(request.clone()).await.unwrap().into_inner();
    server.register(instance("web", "0")).await;
    server.cancel("web", "a").await;
    request.page_token = first.next_page_token;
    let last = server.reader().list_instances(request).await.unwrap().into_inner();

    let mut client = Client::default();
    for listed in first.instances.into_iter().chain(last.instances) {
        let key = listed.key.clone().unwrap();
        client.held.insert((key.app, key.id), listed);
    }
    client.read(&mut watch(&server, resuming(last.resume_token)).await).await;
    assert_eq!(client.ids(), ["0", "b"]);
    assert_eq!(client.compared, 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_no_use_leads_to_a_snapshot_unless_that_was_ruled_out() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let mut client = Client::default();
    client.read(&mut watch(&server, v1::WatchSpec::default()).await).await;

    let other_selectors = v1::WatchSpec { resume_token: client.token.clone(), ..following("web") };
    assert_eq!(begin(event(&mut watch(&server, other_selectors).await).await), SnapshotMode::Full);

    let seeds = Seeds { boot: 78, ..SEEDS };
    let restarted = Server::with(Config::default(), Limits::default(), seeds, "blue").await;
    let follow = resuming(client.token.clone());
    assert_eq!(begin(event(&mut watch(&restarted, follow.clone()).await).await), SnapshotMode::Full);
    let resume_only = v1::WatchSpec { start_mode: StartMode::ResumeOnly.into(), ..follow };
    let answer = open(&restarted, resume_only.clone()).await;
    assert_refused(answer, Code::OutOfRange, "RESUME_TOKEN_EXPIRED", "");
    let without_token = v1::WatchSpec { resume_token: bytes::Bytes::new(), ..resume_only.clone() };
    assert_refused(open(&server, without_token).await, Code::OutOfRange, "RESUME_TOKEN_EXPIRED", "");
    assert_eq!(begin(event(&mut watch(&server, resume_only).await).await), SnapshotMode::Resume);
}

#[tokio::test(start_paused = true)]
async fn forged_tokens_are_refused() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let mut client = Client::default();
    client.read(&mut watch(&server, v1::WatchSpec::default()).await).await;
    let token = client.token.clone();
    let refused = |token: bytes::Bytes| {
        let server = &server;
        async move {
            let answer = open(server, resuming(token)).await;
            assert_refused(answer, Code::InvalidArgument, "INVALID_RESUME_TOKEN", "spec.resume_token");
        }
    };
    for length in 1..token.len() {
        refused(token.slice(..length)).await;
    }
    for position in 0..token.len() {
        let mut flipped = token.to_vec();
        flipped[position] ^= 1 << (position % 8);
        refused(flipped.into()).await;
    }
    refused(vec![0; 5000].into()).await;
    let beyond = Resume { spec: spec_of(&token), boot: 77, revision: 1000, vector: Vec::new() };
    refused(beyond.encode("blue")).await;
    let green = Server::with(Config::default(), Limits::default(), SEEDS, "green").await;
    let answer = open(&green, resuming(token)).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_RESUME_TOKEN", "spec.resume_token");
}

fn spec_of(token: &[u8]) -> u64 {
    Resume::decode(token, "blue").unwrap().spec
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_removal_makes_a_token_worthless() {
    let config = Config { tombstone_max: 1, ..Config::default() };
    let server = Server::with(config, Limits::default(), SEEDS, "blue").await;
    for id in ["a", "b", "c"] {
        server.register(instance("web", id)).await;
    }
    let mut client = Client::default();
    client.read(&mut watch(&server, v1::WatchSpec::default()).await).await;
    for id in ["a", "b"] {
        server.cancel("web", id).await;
    }
    server.pass(1).await;
    assert!(server.registry.floor() > 0, "a tombstone was forgotten");
    let mut second = watch(&server, resuming(client.token.clone())).await;
    client.read(&mut second).await;
    assert_eq!(client.ids(), ["c"]);
    assert_eq!(server.grpc.watches.figures().full.load(Ordering::Relaxed), 2);
    let resume_only = v1::WatchSpec { start_mode: StartMode::ResumeOnly.into(), ..resuming(client.token) };
    assert!(open(&server, resume_only).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reader_overtaken_by_forgetting_starts_again_in_band() {
    let config = Config { tombstone_max: 1, ..Config::default() };
    let server = Server::with(config, Limits::default(), SEEDS, "blue").await;
    for id in 0..200 {
        server.register(instance("web", &format!("{id:03}"))).await;
    }
    let resume_only = |token| v1::WatchSpec { start_mode: StartMode::ResumeOnly.into(), ..resuming(token) };
    let mut client = Client::default();
    let mut follower = watch(&server, v1::WatchSpec::default()).await;
    client.read(&mut follower).await;
    let mut strict = watch(&server, resume_only(client.token.clone())).await;
    begin(event(&mut strict).await);
    end(event(&mut strict).await);
    for round in 0..60 {
        for id in 0..200 {
            let host_name = round.to_string();
            server.register(v1::Instance { host_name, ..instance("web", &format!("{id:03}")) }).await;
        }
    }
    for id in 0..150 {
        server.cancel("web", &format!("{id:03}")).await;
    }
    server.pass(1).await;
    let heard = client.read(&mut follower).await;
    assert_eq!(client.ids().len(), 50, "{heard:?}");
    assert_eq!(server.grpc.watches.figures().restarted.load(Ordering::Relaxed), 1);
    let status = loop {
        match strict.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a stream that cannot go on ends with an error"),
            Err(status) => break status,
        }
    };
    assert_eq!(refusal(&status).1, "RESUME_TOKEN_EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_alone_ends_with_ok() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let spec = v1::WatchSpec { start_mode: StartMode::SnapshotOnly.into(), ..Default::default() };
    let mut watch = watch(&server, spec).await;
    assert_eq!(begin(event(&mut watch).await), SnapshotMode::Full);
    assert_eq!(changes(event(&mut watch).await).len(), 1);
    assert!(end(event(&mut watch).await).digest.is_some());
    assert!(watch.message().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_live_watch_tells_nothing_of_the_past() {
    let server = Server::start().await;
    server.register(instance("web", "old")).await;
    let spec = v1::WatchSpec { start_mode: StartMode::LiveOnly.into(), ..Default::default() };
    let mut watch = watch(&server, spec).await;
    assert_eq!(begin(event(&mut watch).await), SnapshotMode::None);
    let end = end(event(&mut watch).await);
    assert!(end.digest.is_none() && !end.resume_token.is_empty());
    server.register(instance("web", "new")).await;
    assert_eq!(brief(&changes(event(&mut watch).await)), [(ChangeType::Added, "new".into())]);
    assert!(bookmark(event(&mut watch).await).digest.is_none());
}

#[tokio::test(start_paused = true)]
async fn large_sets_come_in_bounded_messages_and_each_instance_once() {
    let server = Server::start().await;
    for id in 0..50 {
        // Every tenth is larger than a message otherwise is.
        let size = if id % 10 == 0 { 100 << 10 } else { 10 << 10 };
        let metadata = [("k".to_owned(), "v".repeat(size))].into();
        server.register(v1::Instance { metadata, ..instance("web", &id.to_string()) }).await;
    }
    let mut watch = watch(&server, v1::WatchSpec { max_batch_size: 7, ..Default::default() }).await;
    begin(event(&mut watch).await);
    let mut seen = Vec::new();
    while let Event::Changes(batch) = event(&mut watch).await {
        assert!(batch.changes.len() <= 7);
        assert!(batch.changes.len() == 1 || prost::Message::encoded_len(&batch) <= 64 << 10);
        seen.extend(brief(&batch.changes));
    }
    assert_eq!(seen.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_long_search_for_nothing_leaves_others_their_turn() {
    let server = Server::start().await;
    server.fill("WEB", 10_000);
    let mut watch = watch(&server, following("none")).await;
    begin(event(&mut watch).await);
    let turns = Arc::new(AtomicU64::new(0));
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    end(event(&mut watch).await);
    other.abort();
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 10_000 / 1024, "{turns} turns of another task while 10,000 keys were looked at");
}

#[tokio::test(start_paused = true)]
async fn tokens_come_in_time_although_a_change_always_waits_for_its_message() {
    let server = Server::start().await;
    // Two are read at a time, and one fits into a message.
    let large = |id: usize| {
        let metadata = [("k".to_owned(), "v".repeat(40 << 10))].into();
        v1::Instance { metadata, ..instance("web", &id.to_string()) }
    };
    let spec = v1::WatchSpec { bookmark_interval: Some(seconds(1)), ..Default::default() };
    let mut watch = watch(&server, spec).await;
    Client::default().read(&mut watch).await;
    for id in 0..20 {
        server.register(large(id)).await;
    }
    let mut tokens = Vec::new();
    let mut told = 0;
    while told < 20 {
        match event(&mut watch).await {
            Event::Changes(batch) => told = batch.revision,
            Event::Bookmark(bookmark) => {
                assert_eq!(bookmark.revision, told);
                tokens.push(told);
            }
            other => panic!("unexpected {other:?}"),
        }
        tokio::time::advance(Duration::from_millis(400)).await;
    }
    assert!(tokens.len() >= 5, "tokens at {tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_each_changed_key_with_its_newest_content() {
    let server = Server::start().await;
    let mut watch = watch(&server, v1::WatchSpec::default()).await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    for round in 0..10_000 {
        let id = (round % 10).to_string();
        server.register(v1::Instance { host_name: round.to_string(), ..instance("web", &id) }).await;
    }
    let heard = client.read(&mut watch).await;
    assert!(heard.len() < 10_000, "{} changes for ten keys", heard.len());
    for (position, instance) in client.held.values().enumerate() {
        assert_eq!(instance.host_name, (9990 + position).to_string());
    }
    assert_eq!(client.compared, 2);
}

#[tokio::test(start_paused = true)]
async fn self_preservation_is_announced() {
    let server = Server::start().await;
    let lease = || Some(v1::Lease { duration: Some(seconds(30)), ..Default::default() });
    for id in 0..100 {
        server.register(v1::Instance { lease: lease(), ..instance("web", &id.to_string()) }).await;
        let renew = v1::RenewRequest { key: Some(key("web", &id.to_string())), ..Default::default() };
        server.writer().renew(renew).await.unwrap();
    }
    let mut watch = watch(&server, v1::WatchSpec::default()).await;
    Client::default().read(&mut watch).await;
    server.pass(40).await;
    assert!(server.registry.protecting());
    loop {
        match event(&mut watch).await {
            Event::Notice(notice) => {
                assert_eq!(notice.kind(), v1::NoticeKind::SelfPreservationEntered);
                break;
            }
            Event::Changes(_) | Event::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    let response = server.cancel("web", "none").await;
    assert_eq!(response.header.unwrap().mode(), v1::ServerMode::SelfPreservation);
}

#[tokio::test(start_paused = true)]
async fn a_leaving_server_says_goodbye_with_a_token() {
    let server = Server::start().await;
    for id in ["a", "b", "c"] {
        // Larger than what is encoded ahead of the reader.
        let metadata = [("k".to_owned(), "v".repeat(100 << 10))].into();
        server.register(v1::Instance { metadata, ..instance("web", id) }).await;
    }
    let spec = v1::WatchSpec { max_batch_size: 1, ..Default::default() };
    let mut follower = watch(&server, spec.clone()).await;
    let mut early = watch(&server, spec).await;
    let mut client = Client::default();
    client.read(&mut follower).await;
    begin(event(&mut early).await);
    changes(event(&mut early).await);
    server.drain.cancel();
    let Event::GoAway(away) = event(&mut follower).await else { panic!("the server is leaving") };
    assert_eq!(away.reason(), v1::GoAwayReason::Draining);
    assert!(away.reconnect_jitter.is_some());
    assert_eq!(Resume::decode(&away.resume_token, "blue").unwrap().revision, 3);
    assert!(follower.message().await.unwrap().is_none());
    let Event::GoAway(away) = event(&mut early).await else { panic!("the server is leaving") };
    assert!(away.resume_token.is_empty(), "a client without a whole snapshot cannot resume");

    let status = open(&server, v1::WatchSpec::default()).await.unwrap_err();
    assert_eq!(refusal(&status), (Code::Unavailable, "DRAINING".into(), String::new()));
    let header = server.register(instance("web", "n2")).await.header.unwrap();
    assert_eq!(header.mode(), v1::ServerMode::Draining);
}

async fn open_on(server: &Server, connection: &Connection) -> Result<Watch, Status> {
    let mut request = tonic::Request::new(v1::WatchRequest::default());
    request.extensions_mut().insert(connection.clone());
    server.reader().watch(request).await.map(tonic::Response::into_inner)
}

fn connection(leaving: CancellationToken, watches: usize) -> Connection {
    Connection::new(IpAddr::V4(Ipv4Addr::LOCALHOST), leaving, watches)
}

#[tokio::test(start_paused = true)]
async fn a_connection_at_its_age_takes_its_watches_along() {
    let server = Server::start().await;
    let leaving = CancellationToken::new();
    let mut watch = open_on(&server, &connection(leaving.clone(), 10)).await.unwrap();
    Client::default().read(&mut watch).await;
    leaving.cancel();
    let Event::GoAway(away) = event(&mut watch).await else { panic!("the connection ends") };
    assert_eq!(away.reason(), v1::GoAwayReason::MaxAge);
}

#[tokio::test(start_paused = true)]
async fn watches_are_limited_and_a_dropped_one_makes_room_at_once() {
    let limits = Limits { watches: 3, ..Limits::default() };
    let server = Server::with(Config::default(), limits, SEEDS, "blue").await;
    let connection = connection(CancellationToken::new(), 2);
    let first = open_on(&server, &connection).await.unwrap();
    let second = open_on(&server, &connection).await.unwrap();
    let third = open_on(&server, &connection).await;
    assert_refused(third, Code::ResourceExhausted, "TOO_MANY_WATCHES", "");
    let elsewhere = watch(&server, v1::WatchSpec::default()).await;
    assert_eq!(server.grpc.watches.open(), 3);
    let fourth = open(&server, v1::WatchSpec::default()).await;
    assert_refused(fourth, Code::ResourceExhausted, "TOO_MANY_WATCHES", "");
    drop((first, second, elsewhere));
    assert_eq!(server.grpc.watches.open(), 0);
    assert!(open_on(&server, &connection).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_for_ten_minutes_is_let_go() {
    let server = Server::start().await;
    let mut watch = watch(&server, v1::WatchSpec::default()).await;
    Client::default().read(&mut watch).await;
    tokio::time::advance(Duration::from_secs(599)).await;
    bookmark(event(&mut watch).await);
    tokio::time::advance(Duration::from_secs(601)).await;
    let status = watch.message().await.unwrap_err();
    assert_eq!(refusal(&status), (Code::Unavailable, "STALLED".into(), String::new()));
    assert_eq!(server.grpc.watches.figures().stalled.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_a_watch_is_named() {
    let server = Server::start().await;
    let base = v1::WatchSpec::default;
    let label = v1::LabelRequirement { key: "k".into(), operator: 1, values: vec![] };
    let labels = vec![v1::InstanceSelector { labels: vec![label], ..Default::default() }];
    let snapshot = StartMode::SnapshotOnly.into();
    let token = Resume { spec: 0, boot: 77, revision: 0, vector: Vec::new() }.encode("blue");
    let known = vec![v1::AppDigest { app: "web".into(), ..Default::default() }];
    let resume_only = StartMode::ResumeOnly.into();
    let request = "INVALID_REQUEST";
    let table = [
        (
            v1::WatchSpec { selectors: labels, ..base() },
            "INVALID_SELECTOR",
            "spec.selectors[0].labels[0].values",
        ),
        (v1::WatchSpec { start_mode: 5, ..base() }, request, "spec.start_mode"),
        (v1::WatchSpec { max_batch_size: -1, ..base() }, request, "spec.max_batch_size"),
        (v1::WatchSpec { bookmark_interval: Some(seconds(0)), ..base() }, request, "spec.bookmark_interval"),
        (v1::WatchSpec { bookmark_interval: Some(seconds(61)), ..base() }, request, "spec.bookmark_interval"),
        (v1::WatchSpec { bookmark_interval: Some(seconds(-1)), ..base() }, request, "spec.bookmark_interval"),
        (v1::WatchSpec { start_mode: snapshot, resume_token: token, ..base() }, request, "spec.resume_token"),
        (
            v1::WatchSpec { start_mode: resume_only, known_digests: known, ..base() },
            request,
            "spec.known_digests",
        ),
        (
            v1::WatchSpec { known_digests: vec![v1::AppDigest::default(); 10_001], ..base() },
            "TOO_MANY_ITEMS",
            "spec.known_digests",
        ),
        (
            v1::WatchSpec { coalesce_window: Some(wire_duration(Duration::from_millis(5001))), ..base() },
            "INVALID_REQUEST",
            "spec.coalesce_window",
        ),
        (
            v1::WatchSpec {
                coalesce_window: Some(prost_types::Duration { seconds: 0, nanos: -1 }),
                ..base()
            },
            "INVALID_REQUEST",
            "spec.coalesce_window",
        ),
        (
            v1::WatchSpec { required_features: vec!["resume".into(), "telepathy".into()], ..base() },
            "UNSUPPORTED_FEATURE",
            "spec.required_features[1]",
        ),
    ];
    for (spec, reason, field) in table {
        assert_refused(open(&server, spec).await, Code::InvalidArgument, reason, field);
    }
    let request = v1::WatchRequest { spec: None, client_name: "c".repeat(257) };
    let answer = server.reader().watch(request).await;
    assert_refused(answer, Code::InvalidArgument, "INVALID_REQUEST", "client_name");
    assert_eq!(server.grpc.watches.open(), 0);
}

fn gathering(app: &str, millis: u64) -> v1::WatchSpec {
    v1::WatchSpec { coalesce_window: Some(wire_duration(Duration::from_millis(millis))), ..following(app) }
}

#[tokio::test(start_paused = true)]
async fn changes_gather_for_as_long_as_the_client_asked() {
    let server = Server::start().await;
    let mut at_once = watch(&server, following("web")).await;
    let mut later = watch(&server, gathering("web", 500)).await;
    for watch in [&mut at_once, &mut later] {
        begin(event(watch).await);
        end(event(watch).await);
    }
    let begun = Instant::now();
    let writes = async {
        for group in ["one", "two", "three"] {
            for id in ["w1", "w2"] {
                server.register(v1::Instance { app_group: group.into(), ..instance("web", id) }).await;
            }
            assert!(!changes(event(&mut at_once).await).is_empty());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        server.register(instance("web", "gone")).await;
        server.cancel("web", "gone").await;
    };
    let (told, ()) = tokio::join!(event(&mut later), writes);
    let told = changes(told);
    assert_eq!(brief(&told), [(ChangeType::Added, "w1".into()), (ChangeType::Added, "w2".into())]);
    let groups: Vec<_> = told.iter().map(|change| &*change.instance.as_ref().unwrap().app_group).collect();
    assert_eq!(groups, ["three", "three"]);
    assert_eq!(begun.elapsed().as_millis(), 500, "counted from the first");
    let begun = Instant::now();
    server.register(instance("web", "w3")).await;
    assert_eq!(brief(&changes(event(&mut later).await)), [(ChangeType::Added, "w3".into())]);
    assert_eq!(begun.elapsed().as_millis(), 500, "and anew for the next");
}

#[tokio::test(start_paused = true)]
async fn tokens_and_the_goodbye_do_not_wait_for_changes_to_gather() {
    let server = Server::start().await;
    let interval = Some(wire_duration(Duration::from_secs(1)));
    let spec = v1::WatchSpec { bookmark_interval: interval, ..gathering("web", 5000) };
    let mut watch = watch(&server, spec).await;
    begin(event(&mut watch).await);
    end(event(&mut watch).await);
    server.register(instance("web", "w1")).await;
    let begun = Instant::now();
    for _ in 0..4 {
        let digest = bookmark(event(&mut watch).await).digest;
        assert!(digest.is_none_or(|digest| digest.instance_count == 0), "the change was not told");
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    server.drain.cancel();
    let Event::GoAway(goodbye) = event(&mut watch).await else { panic!("the goodbye comes at once") };
    assert!(!goodbye.resume_token.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_begins_with_a_whole_set_while_too_many_wait_for_theirs() {
    let limits = Limits { waiting: 0, ..Limits::default() };
    let server = Server::with(Config::default(), limits, SEEDS, "blue").await;
    let web = following("web");
    let once = v1::WatchSpec { start_mode: StartMode::SnapshotOnly.into(), ..web.clone() };
    for spec in [web.clone(), once] {
        let refused = open(&server, spec).await.unwrap_err();
        assert_eq!((refused.code(), refusal(&refused).1), (Code::Unavailable, "OVERLOADED".into()));
        assert!(refused.get_error_details().retry_info().is_some());
    }
    let live = v1::WatchSpec { start_mode: StartMode::LiveOnly.into(), ..web.clone() };
    let mut live = watch(&server, live).await;
    begin(event(&mut live).await);
    let token = end(event(&mut live).await).resume_token;
    let resumed = v1::WatchSpec { resume_token: token, ..web.clone() };
    assert_eq!(begin(event(&mut watch(&server, resumed).await).await), SnapshotMode::Resume);
    let known = vec![v1::AppDigest { app: "web".into(), ..Default::default() }];
    let differing = v1::WatchSpec { known_digests: known, ..web };
    assert_eq!(begin(event(&mut watch(&server, differing).await).await), SnapshotMode::Diff);
}
