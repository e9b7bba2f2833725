//! Many subscriptions against servers that follow a script.

use std::collections::BTreeMap;
use std::time::Duration;

use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Wire;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};

use super::*;
use crate::servers::Servers;
use crate::testing::{ManyScript, Told, begin, end, event_of, put};
use crate::{InstanceSelector, Settings};

fn many(scripts: &[&ManyScript]) -> WatchMany {
    let transports = scripts.iter().map(|script| script.server()).collect();
    WatchMany::new(Arc::new(Calls::new(Settings::default(), Servers::beginning_at(0, transports))))
}

fn web(app: &str) -> Vec<InstanceSelector> {
    vec![InstanceSelector { apps: vec![app.to_owned()], ..Default::default() }]
}

fn follow<const N: usize>(many: &WatchMany, apps: [&str; N]) {
    for app in apps {
        many.subscribe(web(app));
    }
}

/// What the next events are, each with the number of its subscription.
async fn hear(many: &mut WatchMany, number: usize) -> Vec<(u64, String)> {
    let told = many.take(number).map(|(id, event)| {
        let told = match event {
            Ok(Event::Added(live)) => live.instance.key.id.clone(),
            Ok(Event::Synced { instances }) => format!("synced {instances}"),
            Ok(other) => format!("{other:?}"),
            Err(Error::Refused { reason, .. }) => reason,
            Err(other) => other.to_string(),
        };
        (id.0, told)
    });
    timeout(Duration::from_hours(1), told.collect()).await.unwrap()
}

fn told(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(id, told)| (*id, (*told).to_owned())).collect()
}

fn full(ids: &[&str], token: &'static str) -> Told {
    let puts = ids.iter().map(|id| put(id));
    let all = [begin(v1::SnapshotMode::Full)].into_iter().chain(puts).chain([end(token)]);
    Told::Events(all.map(event_of).collect())
}

fn resumed(ids: &[&str], token: &'static str) -> Told {
    let puts = ids.iter().map(|id| put(id));
    let all = [begin(v1::SnapshotMode::Resume)].into_iter().chain(puts).chain([end(token)]);
    Told::Events(all.map(event_of).collect())
}

fn closed(code: Code, reason: &str) -> Told {
    Told::Closed(v1::ItemStatus { code: code.into(), reason: reason.into(), ..Default::default() })
}

#[tokio::test(start_paused = true)]
async fn each_subscription_tells_its_own_set_and_goes_on_from_its_own_token() {
    let script = ManyScript::default();
    script.stream([("A", full(&["a"], "a1")), ("B", full(&["b"], "b1"))], Some(Status::unavailable("cut")));
    script.stream([("A", resumed(&["d"], "a2")), ("B", resumed(&[], "b2"))], None);
    let mut many = many(&[&script]);
    assert_eq!([many.subscribe(web("A")).0, many.subscribe(web("B")).0], [1, 2]);
    let first = told(&[(1, "a"), (1, "synced 1"), (2, "b"), (2, "synced 1")]);
    assert_eq!(hear(&mut many, 4).await, first);
    assert_eq!(hear(&mut many, 3).await, told(&[(1, "d"), (1, "synced 2"), (2, "synced 1")]));
    let tokens = script.tokens();
    let expected = [("A", ""), ("B", ""), ("A", "a1"), ("B", "b1")];
    assert_eq!(tokens, expected.map(|(app, token)| (app.to_owned(), token.to_owned())));
    assert_eq!(script.streams(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_for_good_ends_alone() {
    let script = ManyScript::default();
    let refused = closed(Code::InvalidArgument, "INVALID_SELECTOR");
    script.stream([("A", full(&["a"], "a1")), ("B", refused), ("C", full(&[], "c1"))], None);
    let mut many = many(&[&script]);
    follow(&many, ["A", "B", "C"]);
    let expected = told(&[(1, "a"), (1, "synced 1"), (2, "INVALID_SELECTOR"), (3, "synced 0")]);
    assert_eq!(hear(&mut many, 4).await, expected);
    assert!(timeout(Duration::from_secs(10), many.next()).await.is_err(), "it ends once");
    assert_eq!(script.streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_for_now_comes_again_without_the_others() {
    let script = ManyScript::default();
    script.stream([("A", full(&[], "a1")), ("B", closed(Code::ResourceExhausted, "TOO_MANY_WATCHES"))], None);
    script.later("B", full(&["b"], "b1"));
    let mut many = many(&[&script]);
    follow(&many, ["A", "B"]);
    assert_eq!(hear(&mut many, 3).await, told(&[(1, "synced 0"), (2, "b"), (2, "synced 1")]));
    assert_eq!(script.streams(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_dropped_for_its_own_subscription() {
    let script = ManyScript::default();
    script.stream([("A", full(&[], "bad")), ("B", full(&[], "good"))], Some(Status::unavailable("cut")));
    script.stream(
        [("A", closed(Code::InvalidArgument, "INVALID_RESUME_TOKEN")), ("B", resumed(&[], "b2"))],
        None,
    );
    script.later("A", full(&["a"], "a2"));
    let mut many = many(&[&script]);
    follow(&many, ["A", "B"]);
    hear(&mut many, 2).await;
    assert_eq!(hear(&mut many, 3).await, told(&[(2, "synced 0"), (1, "a"), (1, "synced 1")]));
    let tokens: Vec<_> = script.tokens().into_iter().map(|(_, token)| token).collect();
    assert_eq!(tokens, ["", "", "bad", "good", ""]);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_come_and_go_while_the_stream_runs() {
    let script = ManyScript::default();
    script.stream([("A", full(&["a"], "a1"))], None);
    script.later("B", full(&["b"], "b1"));
    let mut many = many(&[&script]);
    let subscriptions = many.subscriptions();
    let first = subscriptions.subscribe(web("A"));
    assert_eq!(hear(&mut many, 2).await, told(&[(1, "a"), (1, "synced 1")]));
    subscriptions.subscribe(web("B"));
    assert_eq!(hear(&mut many, 1).await, told(&[(2, "b")]));
    subscriptions.unsubscribe(first);
    assert_eq!(hear(&mut many, 1).await, told(&[(2, "synced 1")]));
    script.told_to("A", put("late"));
    script.told_to("B", put("d"));
    assert_eq!(hear(&mut many, 1).await, told(&[(2, "d")]), "nothing of what was let go of");
    assert!(timeout(Duration::from_secs(1), many.next()).await.is_err());
    assert_eq!(script.ended(), [1]);
}

#[tokio::test(start_paused = true)]
async fn all_of_them_leave_a_server_that_leaves() {
    let (leaving, other) = (ManyScript::default(), ManyScript::default());
    leaving.stream([("A", full(&[], "a1")), ("B", full(&[], "b1"))], None);
    other.stream([("A", resumed(&[], "a2")), ("B", resumed(&[], "b2"))], None);
    let mut many = many(&[&leaving, &other]);
    follow(&many, ["A", "B"]);
    hear(&mut many, 2).await;
    leaving.say_goodbye(v1::GoAwayReason::Draining);
    assert_eq!(hear(&mut many, 2).await, told(&[(1, "synced 0"), (2, "synced 0")]));
    let tokens: BTreeMap<_, _> = other.tokens().into_iter().collect();
    assert_eq!(tokens, BTreeMap::from([("A".into(), "a1".into()), ("B".into(), "b1".into())]));
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up_for_another_server_and_one_without_subscriptions_is_not_silent() {
    let (silent, other) = (ManyScript::default(), ManyScript::default());
    silent.stream([("A", full(&[], "a1"))], None);
    other.stream([("A", resumed(&[], "a2"))], None);
    let mut many = many(&[&silent, &other]);
    assert!(timeout(Duration::from_hours(1), many.next()).await.is_err());
    assert_eq!((silent.streams(), other.streams()), (0, 0), "nobody is called for nothing");
    many.subscribe(web("A"));
    assert_eq!(hear(&mut many, 2).await, told(&[(1, "synced 0"), (1, "synced 0")]));
    assert_eq!((silent.streams(), other.streams()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_read_leaves_the_server() {
    let (odd, other) = (ManyScript::default(), ManyScript::default());
    odd.stream([("A", full(&[], "a1"))], None);
    other.stream([("A", resumed(&[], "a2"))], None);
    let mut many = many(&[&odd, &other]);
    many.subscribe(web("A"));
    hear(&mut many, 1).await;
    let broken = v1::Change { r#type: v1::ChangeType::Added.into(), ..Default::default() };
    let changes = v1::ChangeBatch { changes: vec![broken], revision: 1, commit_time: None };
    odd.told_to("A", crate::testing::item(Wire::Changes(changes)));
    assert_eq!(hear(&mut many, 1).await, told(&[(1, "synced 0")]));
    assert_eq!(other.tokens(), [("A".to_owned(), "a1".to_owned())]);
}
