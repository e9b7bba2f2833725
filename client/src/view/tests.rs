//! Messages and what they make of the set.

use super::*;
use crate::testing::{change, key, registered, registration, told_by};

fn put(id: &str, owner: u64) -> v1::Change {
    change(id, owner, true)
}

fn remove(id: &str, owner: u64) -> v1::Change {
    change(id, owner, false)
}

fn begin(mode: v1::SnapshotMode) -> Wire {
    Wire::SnapshotBegin(v1::SnapshotBegin { mode: mode.into(), ..Default::default() })
}

fn changes(changes: Vec<v1::Change>) -> Wire {
    Wire::Changes(v1::ChangeBatch { changes, revision: 1, commit_time: None })
}

fn end(digest: Option<v1::SetDigest>) -> Wire {
    Wire::SnapshotEnd(v1::SnapshotEnd { resume_token: Bytes::from_static(b"t"), revision: 1, digest })
}

fn take(view: &mut View, messages: Vec<Wire>) -> Vec<Event> {
    let mut events = VecDeque::new();
    for message in messages {
        view.take(message, &mut events, Instant::now()).unwrap();
    }
    events.into()
}

fn snapshot(view: &mut View, set: Vec<v1::Change>) -> Vec<Event> {
    take(view, vec![begin(v1::SnapshotMode::Full), changes(set), end(None)])
}

#[test]
fn nothing_is_told_before_a_snapshot_is_complete() {
    let mut view = View::default();
    assert_eq!(take(&mut view, vec![begin(v1::SnapshotMode::Full), changes(vec![put("a", 1)])]), []);
    let told = take(&mut view, vec![end(None)]);
    assert_eq!(told, [Event::Added(registration("a", 1)), Event::Synced { instances: 1 }]);
}

#[test]
fn a_second_snapshot_is_told_as_its_difference() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1), put("b", 1), put("c", 1)]);
    let told = snapshot(&mut view, vec![put("b", 1), put("c", 2)]);
    assert_eq!(
        told,
        [
            Event::Removed { last: registration("a", 1), reason: None },
            Event::Modified(registration("c", 2)),
            Event::Synced { instances: 2 },
        ]
    );
}

#[test]
fn nothing_older_is_applied() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 5)]);
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 4), remove("a", 4), put("a", 5)])]), []);
    assert_eq!(snapshot(&mut view, vec![put("a", 3)]), [Event::Synced { instances: 1 }]);
    assert!(!view.held.is_ahead(&registration("a", 5).instance.key, registration("a", 5).version));
    assert!(view.held.is_ahead(&registration("a", 4).instance.key, registration("a", 4).version));
}

#[test]
fn changes_are_named_by_what_the_client_holds() {
    let mut view = View::default();
    snapshot(&mut view, vec![]);
    let told = take(
        &mut view,
        vec![
            begin(v1::SnapshotMode::Resume),
            changes(vec![put("a", 1), put("a", 2), remove("a", 3), remove("never", 1)]),
            end(None),
        ],
    );
    assert_eq!(
        told,
        [
            Event::Added(registration("a", 1)),
            Event::Modified(registration("a", 2)),
            Event::Removed { last: registration("a", 2), reason: Some(RemovalReason::Expired) },
            Event::Synced { instances: 0 },
        ]
    );
}

#[test]
fn two_digests_in_a_row_that_differ_fetch_the_set_anew() {
    let mut view = View::default();
    let mut events = VecDeque::new();
    take(&mut view, vec![begin(v1::SnapshotMode::Full), changes(vec![put("a", 1)])]);
    let right = {
        let mut other = View::default();
        snapshot(&mut other, vec![put("a", 1)]);
        other.digest()
    };
    let wrong = v1::SetDigest { hash: 1, ..right.clone() };
    let mut settle = |digest: &v1::SetDigest| {
        let message = end(Some(digest.clone()));
        let next = view.take(message, &mut events, Instant::now()).unwrap();
        (next, view.token().is_empty())
    };
    assert_eq!(settle(&wrong), (Next::Read, false));
    assert_eq!(settle(&right), (Next::Settled, false));
    assert_eq!(settle(&wrong), (Next::Read, false));
    assert_eq!(settle(&wrong), (Next::Reconnect(Duration::ZERO), true));
}

/// Says twice that the server holds this. What the second mark asks for.
fn insist(view: &mut View, set: &[v1::Change]) -> Next {
    let digest = Some(digest_of(set.to_vec()));
    let mut say = || {
        let resume_token = Bytes::from_static(b"b");
        let mark = v1::Bookmark { resume_token, revision: 1, digest: digest.clone() };
        view.take(Wire::Bookmark(mark), &mut VecDeque::new(), Instant::now()).unwrap()
    };
    say();
    say()
}

fn holds(view: &View, id: &str, owner: u64) -> bool {
    view.held.get(&key(id)).is_some_and(|held| held.version == registration(id, owner).version)
}

fn take_at(view: &mut View, messages: Vec<Wire>, now: Instant) -> Vec<Event> {
    let mut events = VecDeque::new();
    for message in messages {
        view.take(message, &mut events, now).unwrap();
    }
    events.into()
}

#[test]
fn what_a_server_that_lags_tells_is_compared_and_not_taken() {
    for hold in [Duration::ZERO, HOLD] {
        let (mut view, behind) = (View::holding(hold), vec![put("a", 3), put("b", 1)]);
        take(&mut view, whole(1, vec![put("a", 5), put("b", 1)]));
        assert_eq!(take(&mut view, whole(2, behind.clone())), [Event::Synced { instances: 2 }]);
        assert_eq!(insist(&mut view, &behind), Next::Settled, "what was told adds up");
        assert!(holds(&view, "a", 5));
        // It follows.
        assert_eq!(take(&mut view, vec![changes(vec![put("a", 5)])]), []);
        assert_eq!(insist(&mut view, &[put("a", 5), put("b", 1)]), Next::Settled);
    }
}

#[test]
fn what_a_server_removed_before_it_was_changed_elsewhere_stays() {
    let mut view = View::default();
    take(&mut view, whole(1, vec![put("a", 5)]));
    take(&mut view, vec![begin(v1::SnapshotMode::Resume), changes(vec![remove("a", 4)]), end(None)]);
    assert!(holds(&view, "a", 5));
    assert_eq!(insist(&mut view, &[]), Next::Settled);
    assert_eq!(view.known(), []);
}

#[test]
fn a_removed_instance_is_not_brought_back_by_a_server_that_lags() {
    let (mut view, behind) = (View::default(), vec![put("a", 5)]);
    take(&mut view, whole(1, behind.clone()));
    take(&mut view, vec![changes(vec![remove("a", 6)])]);
    let resume = || vec![begin(v1::SnapshotMode::Resume), changes(behind.clone()), end(None)];
    for messages in [whole(2, behind.clone()), resume()] {
        assert_eq!(take(&mut view, messages), [Event::Synced { instances: 0 }]);
        assert_eq!(insist(&mut view, &behind), Next::Settled);
    }
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 7)])]), [Event::Added(registration("a", 7))]);
}

#[test]
fn what_servers_tell_for_ten_minutes_is_taken_older_or_not() {
    let (mut view, start) = (View::default(), Instant::now());
    take_at(&mut view, whole(1, vec![put("a", 5), put("b", 5), put("c", 5)]), start);
    take_at(&mut view, vec![changes(vec![remove("b", 6)])], start);
    let forgot = vec![put("a", 3), put("b", 4)];
    take_at(&mut view, vec![begin(v1::SnapshotMode::Resume)], start);
    take_at(&mut view, vec![changes(vec![put("a", 3), put("b", 4), remove("c", 4)]), end(None)], start);
    let say = |digest| {
        let resume_token = Bytes::from_static(b"b");
        vec![Wire::Bookmark(v1::Bookmark { resume_token, revision: 1, digest })]
    };
    let (almost, then) = (start + TRUSTED - Duration::from_millis(1), start + TRUSTED);
    assert_eq!(take_at(&mut view, say(Some(digest_of(forgot.clone()))), almost), []);
    let wrong = digest_of(vec![]);
    assert_eq!(
        take_at(&mut view, say(Some(wrong)), then),
        [],
        "but not from a server that contradicts itself"
    );
    let told = take_at(&mut view, say(Some(digest_of(forgot.clone()))), then);
    assert_eq!((told.len(), view.held.len()), (3, 2));
    assert!(holds(&view, "a", 3) && holds(&view, "b", 4));
    assert_eq!(insist(&mut view, &forgot), Next::Settled);
}

#[test]
fn a_set_that_differs_is_fetched_by_its_digests() {
    let mut view = View::default();
    assert_eq!(view.known(), []);
    take(&mut view, whole(1, vec![put("a", 5), put("b", 1)]));
    take(&mut view, whole(2, vec![put("a", 3), put("b", 1)]));
    let told = digest_of(vec![put("a", 3), put("b", 1)]);
    let expected = v1::SetDigest { status_counts: Vec::new(), ..told };
    let known = view.known();
    let names: Vec<_> = known.iter().map(|app| (app.namespace.as_str(), app.app.as_str())).collect();
    assert_eq!((names, known[0].digest.clone()), (vec![("", "WEB")], Some(expected)));
    assert_eq!(insist(&mut view, &[]), Next::Reconnect(Duration::ZERO));
    assert_eq!((view.token().len(), view.known()), (0, known));
}

#[test]
fn more_applications_than_are_worth_it_are_not_named() {
    let mut view = View::default();
    for number in 0..=known::MAX_DIGESTS {
        let key = InstanceKey { app: format!("A{number}"), ..key("a") };
        view.held.insert(registered(heureka_model::Instance::new(key), 1));
    }
    assert_eq!(view.known(), []);
    view.held.remove(&InstanceKey { app: "A0".into(), ..key("a") });
    assert_eq!(view.known().len(), known::MAX_DIGESTS);
}

/// A part that tells WEB whole.
fn differing(boot: u64, apps: &[&str]) -> Wire {
    let Wire::SnapshotBegin(begin) = told_by(boot) else { unreachable!("a snapshot begins so") };
    let named = |app: &&str| v1::AppDigest { app: (*app).to_owned(), ..Default::default() };
    let apps = apps.iter().map(named).collect();
    Wire::SnapshotBegin(v1::SnapshotBegin { mode: v1::SnapshotMode::Diff.into(), apps, ..begin })
}

#[test]
fn what_differs_replaces_the_named_applications_and_leaves_the_others() {
    let mut view = View::default();
    take(&mut view, whole(1, vec![put("a", 5), put("b", 1), put("c", 1)]));
    let other = registered(heureka_model::Instance::new(InstanceKey { app: "OTHER".into(), ..key("a") }), 1);
    view.held.insert(other.clone());
    let told =
        take(&mut view, vec![differing(2, &["WEB"]), changes(vec![put("a", 3), put("b", 2)]), end(None)]);
    let gone = Event::Removed { last: registration("c", 1), reason: None };
    assert_eq!(told, [gone, Event::Modified(registration("b", 2)), Event::Synced { instances: 3 }]);
    assert!(holds(&view, "a", 5), "it lags with that one");
    let told = take(&mut view, vec![differing(2, &["OTHER"]), changes(vec![put("b", 3)])]);
    assert_eq!(told, [Event::Modified(registration("b", 3))], "a change of an application that is not named");
    let told = take(&mut view, vec![end(None)]);
    assert_eq!(told, [Event::Removed { last: other, reason: None }, Event::Synced { instances: 2 }]);
}

#[test]
fn of_an_application_in_parts_only_the_named_buckets_are_replaced() {
    let mut view = View::default();
    take(&mut view, whole(1, ["a", "b", "c", "d", "e"].map(|id| put(id, 1)).into()));
    let bucket = |id: &str| heureka_model::KeyHasher::new(key(id).as_ref()).bucket(2) as u32;
    let (told, kept): (Vec<_>, Vec<_>) =
        ["a", "b", "c", "d", "e"].into_iter().partition(|id| bucket(id) == 1);
    assert!(!told.is_empty() && !kept.is_empty());
    let part = v1::AppBuckets { app: "WEB".into(), bucket_count: 2, buckets: vec![1], ..Default::default() };
    let Wire::SnapshotBegin(begin) = differing(2, &[]) else { unreachable!("a snapshot begins so") };
    let begin = Wire::SnapshotBegin(v1::SnapshotBegin { parts: vec![part], ..begin });
    take(&mut view, vec![begin, changes(vec![put(told[0], 2), put(kept[0], 3)]), end(None)]);
    assert!(holds(&view, told[0], 2) && holds(&view, kept[0], 3), "of the others it is a change");
    assert_eq!(view.held.len(), 1 + kept.len());
}

#[test]
fn a_large_application_is_named_in_buckets_that_add_up_to_it() {
    let mut view = View::default();
    (0..500).for_each(|id| drop(view.held.insert(registration(&id.to_string(), 1))));
    let known = view.known();
    let sum = known[0].buckets.iter().fold(0_u64, |sum, bucket| sum.wrapping_add(*bucket));
    assert_eq!((known.len(), known[0].buckets.len(), sum), (1, 8, known[0].digest.as_ref().unwrap().hash));
    assert!(known[0].buckets.iter().all(|bucket| *bucket != 0), "the instances are spread");
}

#[test]
fn what_was_missing_from_a_snapshot_does_not_come_back_in_an_older_version() {
    let (mut view, older) = (View::default(), vec![put("a", 4)]);
    take(&mut view, whole(1, vec![put("a", 5)]));
    assert_eq!(take(&mut view, whole(2, vec![])).len(), 2);
    assert_eq!(take(&mut view, vec![changes(older.clone())]), []);
    assert_eq!(insist(&mut view, &older), Next::Settled);
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 5)])]), [Event::Added(registration("a", 5))]);
}

#[test]
fn what_a_server_that_lagged_had_removed_goes_when_the_next_tells_nothing_of_it() {
    let mut view = View::default();
    take(&mut view, whole(1, vec![put("a", 5), put("b", 1)]));
    take(&mut view, vec![begin(v1::SnapshotMode::Resume), changes(vec![remove("a", 4)]), end(None)]);
    assert!(holds(&view, "a", 5));
    // It removed the newer one meanwhile, and so it has what was told of the application.
    let told = take(&mut view, vec![differing(2, &[]), end(Some(digest_of(vec![put("b", 1)])))]);
    let gone = Event::Removed { last: registration("a", 5), reason: None };
    assert_eq!(told, [gone, Event::Synced { instances: 1 }]);
    assert_eq!(insist(&mut view, &[put("b", 1)]), Next::Settled);
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 5)])]), [Event::Added(registration("a", 5))]);
}

#[test]
fn what_differs_may_shrink_a_set_no_more_than_a_snapshot_may() {
    let mut view = guarded();
    assert_eq!(
        take(&mut view, vec![differing(2, &["WEB"]), changes(vec![put("a", 2)]), end(None)]),
        [Event::Modified(registration("a", 2))]
    );
    assert_eq!((view.withheld(), view.held.len()), (Some(3), 4));
    let told = vec![put("a", 2)];
    assert_eq!(insist(&mut view, &told), Next::Settled);
    assert_eq!(view.withheld(), Some(3), "another life has to wait");
}

#[test]
fn a_digest_of_another_algorithm_compares_nothing() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1)]);
    let own = view.digest();
    let other = v1::SetDigest { algorithm: own.algorithm + 1, hash: !own.hash, ..own };
    for _ in 0..3 {
        let next = view.take(end(Some(other.clone())), &mut VecDeque::new(), Instant::now());
        assert_eq!((next, view.token().is_empty()), (Ok(Next::Settled), false));
    }
}

#[test]
fn statuses_that_are_not_known_are_not_compared() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1)]);
    let digest =
        v1::SetDigest { status_counts: vec![v1::StatusCount { status: 6, count: 1 }], ..view.digest() };
    for _ in 0..3 {
        let next = view.take(end(Some(digest.clone())), &mut VecDeque::new(), Instant::now());
        assert_eq!(next, Ok(Next::Settled));
    }
}

#[test]
fn a_goodbye_keeps_an_older_token_when_it_brings_none() {
    let mut view = View::default();
    snapshot(&mut view, vec![]);
    let jitter = Some(heureka_proto::convert::wire_duration(Duration::from_secs(5)));
    let away = |token: &'static [u8]| {
        let resume_token = Bytes::from_static(token);
        Wire::GoAway(v1::GoAway { reconnect_jitter: jitter, resume_token, ..Default::default() })
    };
    let mut events = VecDeque::new();
    assert_eq!(view.take(away(b""), &mut events, Instant::now()), Ok(Next::Leave(Duration::from_secs(5))));
    assert_eq!(view.token(), "t");
    view.take(away(b"u"), &mut events, Instant::now()).unwrap();
    assert_eq!(view.token(), "u");
}

#[test]
fn unreadable_changes_are_an_error_that_names_the_field() {
    let port = Some(v1::Port { number: 70_000, enabled: true });
    let broken_instance = v1::Instance { port, ..put("a", 1).instance.unwrap() };
    let table = [
        ("key", v1::Change { key: None, ..remove("a", 1) }),
        ("version", v1::Change { version: None, ..remove("a", 1) }),
        ("instance", v1::Change { instance: None, ..put("a", 1) }),
        ("instance.port.number", v1::Change { instance: Some(broken_instance), ..put("a", 1) }),
    ];
    for (field, broken) in table {
        let refused = View::default().take(changes(vec![broken]), &mut VecDeque::new(), Instant::now());
        assert_eq!(refused.unwrap_err().field, field);
    }
}

#[test]
fn a_removal_for_a_reason_of_a_later_server_is_a_removal() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1)]);
    let told = take(&mut view, vec![changes(vec![v1::Change { removal_reason: 99, ..remove("a", 2) }])]);
    assert_eq!(told, [Event::Removed { last: registration("a", 1), reason: None }]);
}

#[test]
fn a_change_of_a_later_type_is_its_instance_or_nothing() {
    let later = |change: v1::Change| v1::Change { r#type: 9, ..change };
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1)]);
    let told = take(&mut view, vec![changes(vec![later(remove("a", 2)), later(put("b", 1))])]);
    assert_eq!(told, [Event::Added(registration("b", 1))]);
    let bare = v1::Change { key: None, version: None, ..later(remove("a", 3)) };
    assert_eq!(take(&mut view, vec![changes(vec![bare])]), []);
}

#[test]
fn an_effective_status_of_a_later_server_reads_as_unknown() {
    use heureka_model::Status;
    let (up, out) = (1, 4);
    let table = [
        // Effective, reported, override; and what they read as.
        ((6, 6, 0), (Status::Unknown, None)),
        ((6, 0, 0), (Status::Unknown, None)),
        ((6, up, 0), (Status::Unknown, None)),
        ((6, up, 6), (Status::Unknown, Some(Status::Unknown))),
        ((-1, up, out), (Status::Unknown, Some(Status::Unknown))),
        ((out, 6, out), (Status::OutOfService, Some(Status::OutOfService))),
        ((up, 6, 0), (Status::Up, None)),
        ((out, up, 6), (Status::OutOfService, Some(Status::OutOfService))),
        ((0, 6, 0), (Status::Unknown, None)),
        ((up, up, 0), (Status::Up, None)),
    ];
    for ((status, reported_status, status_override), expected) in table {
        let instance = put("a", 1).instance.unwrap();
        let wire = v1::Instance { status, reported_status, status_override, ..instance };
        let mut view = View::default();
        take(&mut view, vec![changes(vec![v1::Change { instance: Some(wire), ..put("a", 1) }])]);
        let read = view.held.members().next().unwrap();
        let case = (status, reported_status, status_override);
        assert_eq!((read.status(), read.override_status()), expected, "{case:?}");
    }
}

const HOLD: Duration = Duration::from_mins(5);
const LEASE: Duration = Duration::from_secs(90);

/// A guarded view that the server of life 1 told of four instances.
fn guarded() -> View {
    let mut view = View::holding(HOLD);
    take(&mut view, whole(1, vec![put("a", 1), put("b", 1), put("c", 1), put("d", 1)]));
    view
}

fn whole(boot: u64, set: Vec<v1::Change>) -> Vec<Wire> {
    let digest = digest_of(set.clone());
    vec![told_by(boot), changes(set), end(Some(digest))]
}

fn digest_of(set: Vec<v1::Change>) -> v1::SetDigest {
    let mut other = View::default();
    snapshot(&mut other, set);
    other.digest()
}

fn bookmark(view: &View) -> Wire {
    let digest = Some(view.digest());
    Wire::Bookmark(v1::Bookmark { resume_token: Bytes::from_static(b"b"), revision: 1, digest })
}

fn mark(view: &mut View, now: Instant) -> usize {
    let (mark, mut events) = (bookmark(view), VecDeque::new());
    view.take(mark, &mut events, now).unwrap();
    events.len()
}

#[test]
fn a_shrinking_snapshot_of_the_server_that_told_the_set_waits_for_a_second_digest() {
    let mut view = guarded();
    let now = Instant::now();
    assert_eq!(take(&mut view, whole(1, vec![put("a", 1)])), []);
    assert_eq!((view.withheld(), view.held.len()), (Some(3), 4));
    assert_eq!(mark(&mut view, now), 3);
    assert_eq!((view.withheld(), view.held.len()), (None, 1));
}

#[test]
fn a_shrinking_snapshot_of_another_life_waits_for_the_leases_of_the_missing() {
    let (mut view, start) = (guarded(), Instant::now());
    take(&mut view, whole(2, vec![]));
    assert_eq!(mark(&mut view, start), 0);
    assert_eq!(mark(&mut view, start + LEASE / 2), 0);
    assert_eq!(mark(&mut view, start + LEASE * 2), 4);
}

#[test]
fn what_a_waiting_snapshot_holds_is_told_at_once() {
    let mut view = guarded();
    let mut told = take(&mut view, whole(2, vec![put("a", 2), put("e", 1)]));
    told.sort_by_key(|event| matches!(event, Event::Added(_)));
    assert_eq!(told, [Event::Modified(registration("a", 2)), Event::Added(registration("e", 1))]);
    assert_eq!((view.withheld(), view.held.len()), (Some(3), 5));
}

#[test]
fn a_set_that_comes_back_in_time_was_never_away() {
    let (mut view, start) = (guarded(), Instant::now());
    take(&mut view, whole(2, vec![]));
    let back = ["a", "b", "c", "d"].map(|id| put(id, 2));
    let told = take(&mut view, vec![changes(back.to_vec())]);
    assert!(told.iter().all(|event| matches!(event, Event::Modified(_))), "{told:?}");
    assert_eq!(view.withheld(), Some(0));
    assert_eq!(mark(&mut view, start), 0);
    assert_eq!((view.withheld(), view.held.len()), (None, 4));
}

#[test]
fn what_is_removed_while_a_snapshot_waits_is_removed_at_once() {
    let mut view = guarded();
    take(&mut view, whole(2, vec![put("a", 1)]));
    let told = take(&mut view, vec![changes(vec![remove("a", 2), remove("b", 2), put("e", 1)])]);
    assert_eq!(told.len(), 3);
    assert_eq!((view.withheld(), view.held.len()), (Some(2), 3));
}

#[test]
fn a_snapshot_that_shrinks_less_is_taken_and_so_is_any_without_a_guard() {
    let mut view = guarded();
    take(&mut view, whole(2, vec![put("a", 1), put("b", 1)]));
    assert_eq!((view.withheld(), view.held.len()), (None, 2));
    let mut plain = View::default();
    take(&mut plain, whole(1, vec![put("a", 1)]));
    take(&mut plain, whole(2, vec![]));
    assert_eq!((plain.withheld(), plain.held.len()), (None, 0));
}

#[test]
fn a_further_snapshot_does_not_begin_the_wait_anew() {
    let (mut view, start) = (guarded(), Instant::now());
    take(&mut view, whole(2, vec![]));
    // Three of four are back: the fourth has its time all the same.
    take(&mut view, whole(3, vec![put("a", 1), put("b", 1), put("c", 1)]));
    assert_eq!((view.withheld(), mark(&mut view, start)), (Some(1), 0));
    assert_eq!(mark(&mut view, start + LEASE * 2), 1);
}

#[test]
fn a_server_that_is_not_ready_is_believed_when_it_says_it_is_or_at_the_end() {
    let unready = || vec![begin(v1::SnapshotMode::Full), end(Some(digest_of(vec![])))];
    let (mut view, start) = (guarded(), Instant::now());
    take(&mut view, unready());
    assert_eq!(mark(&mut view, start + HOLD / 2), 0);
    let Wire::SnapshotBegin(again) = told_by(0) else { unreachable!("a snapshot begins so") };
    let mode = v1::SnapshotMode::Resume.into();
    take(&mut view, vec![Wire::SnapshotBegin(v1::SnapshotBegin { mode, ..again })]);
    assert_eq!(mark(&mut view, start + HOLD / 2), 4);

    let mut view = guarded();
    take(&mut view, unready());
    assert_eq!(mark(&mut view, Instant::now() + HOLD), 4);
}

fn passed_over(id: &str, owner: u64) -> v1::Change {
    let reason = v1::RemovalReason::FilteredOut.into();
    v1::Change { removal_reason: reason, ..remove(id, owner) }
}

#[test]
fn what_a_choice_passes_over_may_come_back_as_it_was_but_not_older() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 2)]);
    let told = take(&mut view, vec![changes(vec![passed_over("a", 2)])]);
    let reason = Some(RemovalReason::FilteredOut);
    assert_eq!(told, [Event::Removed { last: registration("a", 2), reason }]);
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 1)])]), [], "a server that lags");
    assert_eq!(take(&mut view, vec![changes(vec![put("a", 2)])]), [Event::Added(registration("a", 2))]);
}

#[test]
fn readings_are_told_of_what_is_held() {
    let mut view = View::default();
    snapshot(&mut view, vec![put("a", 1)]);
    let reading = |id: &str| v1::Reading {
        key: Some(key(id).into()),
        gauges: [("load".to_owned(), 0.5)].into(),
        report_time: Some(heureka_proto::convert::timestamp(heureka_model::Wall(1000))),
        ..v1::Reading::default()
    };
    let readings = vec![reading("a"), reading("b")];
    let told = take(&mut view, vec![Wire::Readings(v1::Readings { readings })]);
    assert_eq!(told, [Event::Reading(Reading::try_from(reading("a")).unwrap())]);
}
