//! The stream against servers that follow a script.

use bytes::Bytes;
use heureka_proto::v1::watch_event::Event as Wire;
use tokio_stream::StreamExt as _;
use tonic::Code;

use super::*;
use crate::servers::Servers;
use crate::testing::{Script, begin, bookmark, change, end, item, put, refusal};

fn events(script: &Script) -> Watch {
    events_of(&[script])
}

/// A watch that begins with the first of several servers.
fn events_of(scripts: &[&Script]) -> Watch {
    let transports = scripts.iter().map(|script| script.server()).collect();
    let calls = Calls::new(Settings::default(), Servers::beginning_at(0, transports));
    Watch::new(Arc::new(calls), WatchOptions::default())
}

/// Ids of the added instances, and the sizes of the set when it was complete.
async fn hear(events: &mut Watch, number: usize) -> Vec<String> {
    let told = events.take(number).map(|event| match event.unwrap() {
        Event::Added(registration) => registration.instance.key.id.clone(),
        Event::Synced { instances } => instances.to_string(),
        other => format!("{other:?}"),
    });
    timeout(Duration::from_hours(1), told.collect()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_resumed_by_its_token() {
    let script = Script::new(vec![
        Err(Status::unavailable("starting")),
        Ok((vec![begin(v1::SnapshotMode::Full), put("a"), end("one"), Err(Status::unknown("cut"))], true)),
        Ok((vec![begin(v1::SnapshotMode::Resume), put("b"), end("two")], false)),
        Ok((vec![begin(v1::SnapshotMode::Resume), end("three")], true)),
    ]);
    assert_eq!(hear(&mut events(&script), 5).await, ["a", "1", "b", "2", "2"]);
    assert_eq!(script.tokens(), ["", "", "one", "two"]);
}

fn full(token: &'static str) -> Vec<Result<v1::WatchResponse, Status>> {
    vec![begin(v1::SnapshotMode::Full), end(token)]
}

fn goodbye(reason: v1::GoAwayReason) -> Result<v1::WatchResponse, Status> {
    let resume_token = Bytes::from_static(b"moved");
    item(Wire::GoAway(v1::GoAway { reason: reason.into(), resume_token, ..Default::default() }))
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up_for_another_server_within_twenty_seconds() {
    let silent = Script::new(vec![Ok((full("one"), true))]);
    let other = Script::new(vec![Ok((full("two"), true))]);
    let start = Instant::now();
    assert_eq!(hear(&mut events_of(&[&silent, &other]), 2).await, ["0", "0"]);
    let waited = start.elapsed().as_secs();
    assert!((15..20).contains(&waited), "{waited} s");
    assert_eq!((silent.tokens(), other.tokens()), (vec![String::new()], vec!["one".into()]));
    let asked = silent.specs()[0].bookmark_interval.unwrap();
    assert_eq!((asked.seconds, asked.nanos), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_stream_alive() {
    let marks = (0..3).map(|_| bookmark("later"));
    let script = Script::new(vec![Ok((full("one").into_iter().chain(marks).collect(), false))]);
    let mut watcher = events(&script);
    assert_eq!(hear(&mut watcher, 1).await, ["0"]);
    assert!(timeout(Duration::from_secs(14), watcher.next()).await.is_err());
    assert_eq!(script.tokens(), ["", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_left_and_the_choice_sticks() {
    let gone = Script::new(vec![Err(Status::unavailable("refused"))]);
    let other =
        Script::new(vec![Ok((full("one"), false)), Ok((full("two"), false)), Ok((full("three"), true))]);
    assert_eq!(hear(&mut events_of(&[&gone, &other]), 3).await, ["0", "0", "0"]);
    assert_eq!((gone.tokens().len(), other.tokens().len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_answer_and_moves_nothing() {
    let first = Script::new(vec![
        Err(refusal(Code::NotFound, "ODD")),
        Err(refusal(Code::FailedPrecondition, "ODD")),
        Ok((full("one"), true)),
    ]);
    let other = Script::default();
    assert_eq!(hear(&mut events_of(&[&first, &other]), 1).await, ["0"]);
    assert_eq!((first.tokens().len(), other.tokens().len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_is_left_with_its_token() {
    let mut said = full("one");
    said.push(goodbye(v1::GoAwayReason::Draining));
    let (leaving, other) = (Script::new(vec![Ok((said, true))]), Script::new(vec![Ok((full("two"), true))]));
    assert_eq!(hear(&mut events_of(&[&leaving, &other]), 2).await, ["0", "0"]);
    assert_eq!((leaving.tokens().len(), other.tokens()), (1, vec!["moved".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_its_age_is_opened_anew_with_its_token_on_any_server() {
    let aged = || Ok(([full("one"), vec![goodbye(v1::GoAwayReason::MaxAge)]].concat(), true));
    let scripts: Vec<_> = (0..2).map(|_| Script::new((0..40).map(|_| aged()).collect())).collect();
    assert_eq!(hear(&mut events_of(&[&scripts[0], &scripts[1]]), 40).await, ["0"; 40]);
    let tokens: Vec<_> = scripts.iter().flat_map(Script::tokens).collect();
    assert_eq!(tokens.iter().filter(|token| *token != "moved").count(), 1, "{tokens:?}");
    // The same one forty times in a row is less likely than a fault of the machine.
    assert!(scripts.iter().all(|script| !script.tokens().is_empty()), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bare_refusal_leaves_the_server_and_ends_no_watch() {
    for code in [Code::Unimplemented, Code::PermissionDenied, Code::Unauthenticated] {
        let odd = Script::new(vec![Err(Status::new(code, "of a proxy"))]);
        let other = Script::new(vec![Ok((full("one"), true))]);
        assert_eq!(hear(&mut events_of(&[&odd, &other]), 1).await, ["0"]);
        let alone = Script::new(vec![Err(Status::new(code, "of a proxy")), Ok((full("one"), true))]);
        assert_eq!(hear(&mut events(&alone), 1).await, ["0"]);
        let own = Script::new(vec![Err(refusal(code, "NO_RIGHTS"))]);
        assert!(events(&own).next().await.unwrap().unwrap_err().is("NO_RIGHTS"));
    }
}

/// Two changes, the second of which has no key.
fn half_broken() -> Result<v1::WatchResponse, Status> {
    let broken = v1::Change { key: None, ..change("b", 1, true) };
    let changes = vec![change("a", 1, true), broken];
    item(Wire::Changes(v1::ChangeBatch { changes, revision: 1, commit_time: None }))
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_read_leaves_the_server_and_ends_no_watch() {
    let broken = || Ok((full("one").into_iter().chain([half_broken()]).collect(), true));
    let (odd, other) = (Script::new(vec![broken()]), Script::new(vec![Ok((full("two"), true))]));
    assert_eq!(hear(&mut events_of(&[&odd, &other]), 2).await, ["0", "a"]);
    let mut watch = events_of(&[&Script::new(vec![broken()]), &other]);
    assert_eq!(other.tokens().len(), 0);
    assert_eq!(hear(&mut watch, 3).await[..2], ["0", "a"]);
    assert_eq!(other.tokens(), ["one"]);
    let alone = Script::new(vec![broken(), Ok((full("two"), true))]);
    hear(&mut events(&alone), 3).await;
    assert_eq!(alone.tokens(), ["", "one"]);
}

/// How many streams are opened within ten minutes of a server that does the same on each of them.
async fn streams_in_ten_minutes(scene: impl Fn() -> Vec<Result<v1::WatchResponse, Status>>) -> usize {
    let script = Script::new((0..2000).map(|_| Ok((scene(), false))).collect());
    let mut watcher = events(&script);
    let forever = async { while watcher.next().await.is_some() {} };
    assert!(timeout(Duration::from_mins(10), forever).await.is_err());
    script.tokens().len()
}

fn wrong(token: &'static str, mark: fn(Bytes, v1::SetDigest) -> Wire) -> Result<v1::WatchResponse, Status> {
    let digest = v1::SetDigest { algorithm: 1, hash: 7, ..Default::default() };
    item(mark(Bytes::from_static(token.as_bytes()), digest))
}

#[tokio::test(start_paused = true)]
async fn no_way_to_end_a_stream_makes_a_watch_call_without_pause() {
    let contradicted = || {
        let end = |resume_token, digest| {
            Wire::SnapshotEnd(v1::SnapshotEnd { resume_token, revision: 1, digest: Some(digest) })
        };
        let mark = |resume_token, digest| {
            Wire::Bookmark(v1::Bookmark { resume_token, revision: 1, digest: Some(digest) })
        };
        vec![begin(v1::SnapshotMode::Full), wrong("one", end), wrong("two", mark)]
    };
    let sent_away = |reason| [full("one"), vec![goodbye(reason)]].concat();
    // Sixty waits of 15 s on average would already be too many.
    let table = [
        ("closed", streams_in_ten_minutes(|| full("one")).await),
        ("marked and closed", streams_in_ten_minutes(|| [full("one"), vec![bookmark("two")]].concat()).await),
        ("nothing told", streams_in_ten_minutes(Vec::new).await),
        ("contradicted", streams_in_ten_minutes(contradicted).await),
        ("sent away", streams_in_ten_minutes(|| sent_away(v1::GoAwayReason::Draining)).await),
        ("unreadable", streams_in_ten_minutes(|| [full("one"), vec![half_broken()]].concat()).await),
        ("aged", streams_in_ten_minutes(|| sent_away(v1::GoAwayReason::MaxAge)).await),
    ];
    for (case, streams) in table {
        assert!((10..100).contains(&streams), "{case}: {streams} streams");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_lived_for_a_bookmark_makes_the_next_wait_short() {
    let script = Script::default();
    let calls = Calls::new(Settings::default(), Servers::beginning_at(0, vec![script.server()]));
    let mut watcher = Watcher::new(Arc::new(calls), WatchOptions::default(), View::default());
    let (pick, _) = watcher.calls.servers.pick();
    let interval = watcher.calls.settings.bookmark_interval;
    let bound = |watcher: &mut Watcher<_>| watcher.backoff.next(1.0).as_millis();
    assert_eq!([bound(&mut watcher), bound(&mut watcher)], [100, 200]);
    watcher.settled(pick);
    assert_eq!(bound(&mut watcher), 400);
    tokio::time::advance(interval).await;
    watcher.settled(pick);
    assert_eq!(bound(&mut watcher), 100);
}

#[tokio::test(start_paused = true)]
async fn a_jitter_of_a_year_is_one_of_minutes() {
    let mut watcher = {
        let calls =
            Calls::new(Settings::default(), Servers::beginning_at(0, vec![Script::default().server()]));
        Watcher::new(Arc::new(calls), WatchOptions::default(), View::default())
    };
    watcher.part(Duration::from_hours(8760));
    assert!(watcher.wait <= LONGEST_TOLD, "{:?}", watcher.wait);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_dropped() {
    let script = Script::new(vec![
        Ok((vec![begin(v1::SnapshotMode::Full), end("bad")], false)),
        Err(refusal(Code::InvalidArgument, "INVALID_RESUME_TOKEN")),
        Ok((vec![begin(v1::SnapshotMode::Full), end("good")], true)),
    ]);
    assert_eq!(hear(&mut events(&script), 2).await, ["0", "0"]);
    assert_eq!(script.tokens(), ["", "bad", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_caller_ends_the_stream() {
    let script = Script::new(vec![Err(refusal(Code::InvalidArgument, "INVALID_SELECTOR"))]);
    let mut events = events(&script);
    assert!(events.next().await.unwrap().unwrap_err().is("INVALID_SELECTOR"));
    assert!(events.next().await.is_none());
    assert_eq!(script.tokens().len(), 1);
}
