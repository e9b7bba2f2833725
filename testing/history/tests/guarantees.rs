//! One broken stream for each guarantee, and streams that are right although they look odd.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use bytes::Bytes;
use heureka_history::{Guarantee, Recording, Step, Unreadable, What, check, judge};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::{RemovalReason, SnapshotMode, StartMode};

use support::*;

const FULL: SnapshotMode = SnapshotMode::Full;
const RESUME: SnapshotMode = SnapshotMode::Resume;
const NONE: SnapshotMode = SnapshotMode::None;

/// A stream that began with `a` and `b` at revision 2.
fn begun() -> Vec<What> {
    vec![
        follow(),
        begin(FULL, 2),
        batch(2, vec![put("a", 1), put("b", 1)]),
        end(2, of(&[("a", 1), ("b", 1)])),
    ]
}

fn after_begun(steps: impl IntoIterator<Item = What>) -> Recording {
    recording(begun().into_iter().chain(steps))
}

/// Exactly this guarantee is broken, once, in this line.
#[track_caller]
fn assert_broken(recording: &Recording, guarantee: Guarantee, line: usize) {
    let broken = check(recording);
    let named: Vec<_> = broken.iter().map(|broken| (broken.guarantee, broken.line)).collect();
    assert_eq!(named, [(guarantee, line)], "{broken:#?}");
    let again = Recording::parse(&recording.to_lines()).unwrap();
    assert_eq!(check(&again), broken);
}

#[track_caller]
fn assert_kept(recording: &Recording) {
    assert_eq!(check(recording), []);
}

fn selecting(selector: v1::InstanceSelector) -> v1::WatchSpec {
    v1::WatchSpec { selectors: vec![selector], ..v1::WatchSpec::default() }
}

fn app(name: &str) -> v1::InstanceSelector {
    v1::InstanceSelector { apps: vec![name.into()], ..v1::InstanceSelector::default() }
}

fn with(status: v1::InstanceStatus) -> v1::InstanceSelector {
    v1::InstanceSelector { statuses: vec![status.into()], ..v1::InstanceSelector::default() }
}

#[test]
fn a_history_with_everything_in_it_is_kept() {
    let history = after_begun([
        wrote("a", 1, 1),
        wrote("b", 1, 2),
        wrote("a", 2, 3),
        batch(4, vec![put("a", 2), put("c", 1)]),
        mark(4, of(&[("a", 2), ("b", 1), ("c", 1)])),
        message(Event::Notice(v1::Notice::default())),
        removed("b", 2, 5),
        batch(5, vec![cancelled("b", 2)]),
        closed("UNAVAILABLE"),
        wrote("a", 3, 6),
        // What was heard after the token comes again.
        resume(4),
        begin(RESUME, 6),
        batch(6, vec![cancelled("b", 2), put("a", 3)]),
        end(6, of(&[("a", 3), ("c", 1)])),
        What::Rested(page(6, &[("a", 3), ("c", 1)])),
        away(token(6)),
        closed("OK"),
        // Another life of the server knows nothing of it.
        resume(6),
        begin_of(8, FULL, 0),
        end(0, of(&[])),
    ]);
    assert_kept(&history);
    let counts = judge(&history).counts;
    assert_eq!((counts.streams, counts.messages, counts.changes), (3, 13, 7));
    assert_eq!((counts.writes, counts.digests), (5, 5));
}

#[test]
fn ordered_revisions_never_decrease() {
    let history = after_begun([
        batch(5, vec![put("c", 1)]),
        batch(4, vec![put("d", 1)]),
        mark(5, of(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)])),
    ]);
    assert_broken(&history, Guarantee::Ordered, 6);
}

#[test]
fn ordered_versions_of_a_key_increase_within_a_stream() {
    let history = after_begun([
        batch(3, vec![put("a", 3)]),
        batch(4, vec![put("a", 2)]),
        mark(4, of(&[("a", 3), ("b", 1)])),
    ]);
    assert_broken(&history, Guarantee::Ordered, 6);
}

#[test]
fn ordered_events_follow_the_grammar() {
    let digest = || of(&[("a", 1), ("b", 1)]);
    let late = || batch(3, vec![put("c", 1)]);
    assert_broken(&recording([follow(), end(2, None)]), Guarantee::Ordered, 2);
    assert_broken(&recording([follow(), late()]), Guarantee::Ordered, 2);
    assert_broken(&recording([follow(), begin(FULL, 0), mark(0, None)]), Guarantee::Ordered, 3);
    assert_broken(&after_begun([end(2, digest())]), Guarantee::Ordered, 5);
    assert_broken(&after_begun([away(token(2)), late()]), Guarantee::Ordered, 6);
    assert_broken(&after_begun([closed("OK")]), Guarantee::Ordered, 5);
    assert_broken(&after_begun([mark(1, digest())]), Guarantee::Ordered, 5);
    let live = recording([start(StartMode::LiveOnly), begin(NONE, 2), late()]);
    assert_broken(&live, Guarantee::Ordered, 3);
    let once = [start(StartMode::SnapshotOnly), begin(FULL, 0), end(0, of(&[])), mark(0, of(&[]))];
    assert_broken(&recording(once), Guarantee::Ordered, 4);
    assert_broken(&after_begun([begin_of(8, FULL, 2)]), Guarantee::Ordered, 5);
}

#[test]
fn unique_a_version_of_a_key_is_told_once() {
    let again = || batch(3, vec![put("a", 2)]);
    let digest = || of(&[("a", 2), ("b", 1)]);
    assert_broken(&after_begun([again(), again(), mark(3, digest())]), Guarantee::Unique, 6);
    assert_broken(&after_begun([batch(3, vec![put("a", 1)])]), Guarantee::Unique, 5);
    let twice = after_begun([batch(4, vec![put("a", 2), put("a", 3)]), mark(4, of(&[("a", 3), ("b", 1)]))]);
    assert_broken(&twice, Guarantee::Unique, 5);
}

#[test]
fn unique_what_is_held_is_not_told_again_on_the_live_part_of_a_resumed_stream() {
    let history = after_begun([
        closed("CANCELLED"),
        resume(2),
        begin(RESUME, 2),
        end(2, of(&[("a", 1), ("b", 1)])),
        batch(3, vec![put("b", 1)]),
    ]);
    assert_broken(&history, Guarantee::Unique, 9);
}

#[test]
fn reliable_an_acknowledged_write_is_told_before_a_mark_that_covers_it() {
    // The server's own digest lacks it too, so that only the writer knows.
    let history = after_begun([
        wrote("c", 1, 3),
        batch(4, vec![put("a", 2)]),
        mark(4, of(&[("a", 2), ("b", 1)])),
        mark(4, of(&[("a", 2), ("b", 1)])),
    ]);
    assert_broken(&history, Guarantee::Reliable, 7);
    let older = after_begun([wrote("a", 2, 3), mark(3, of(&[("a", 1), ("b", 1)]))]);
    assert_broken(&older, Guarantee::Reliable, 6);
    let removal = after_begun([removed("a", 2, 3), mark(3, None), closed("UNAVAILABLE")]);
    assert_broken(&removal, Guarantee::Reliable, 6);
}

#[test]
fn reliable_a_write_that_left_the_selection_is_told_too() {
    let mut down = instance("a", 2);
    down.status = v1::InstanceStatus::Down.into();
    down.reported_status = down.status;
    let history = recording([
        open(selecting(with(v1::InstanceStatus::Up))),
        begin(FULL, 1),
        batch(1, vec![put("a", 1)]),
        end(1, of(&[("a", 1)])),
        wrote_by(BOOT, down, 2),
        mark(2, None),
        closed("CANCELLED"),
    ]);
    assert_broken(&history, Guarantee::Reliable, 6);
}

#[test]
fn reliable_only_the_newest_state_has_to_be_told() {
    let coalesced = after_begun([
        wrote("a", 2, 3),
        mark(3, None),
        wrote("a", 3, 4),
        batch(4, vec![put("a", 3)]),
        mark(4, of(&[("a", 3), ("b", 1)])),
    ]);
    assert_kept(&coalesced);
    let elsewhere = [open(selecting(app("db"))), begin(FULL, 3), wrote("a", 1, 2), end(3, of(&[]))];
    assert_kept(&recording(elsewhere));
    let lapsed = [wrote("a", 1, 1), forgot("a"), follow(), begin(FULL, 2), end(2, of(&[]))];
    assert_kept(&recording(lapsed));
    let other_life = [follow(), begin_of(8, FULL, 5), wrote("a", 1, 2), end(5, of(&[]))];
    assert_kept(&recording(other_life));
}

#[test]
fn atomic_a_version_has_one_content() {
    let mut other = instance("a", 2);
    other.metadata.insert("zone".into(), "elsewhere".into());
    let history = after_begun([
        batch(3, vec![put("a", 2)]),
        mark(3, of(&[("a", 2), ("b", 1)])),
        closed("CANCELLED"),
        follow(),
        begin(FULL, 3),
        batch(3, vec![told(other), put("b", 1)]),
        end(3, of(&[("a", 2), ("b", 1)])),
    ]);
    assert_broken(&history, Guarantee::Atomic, 10);
}

#[test]
fn atomic_a_change_is_whole_and_agrees_with_itself() {
    let broken: [fn(&mut v1::Change); 8] = [
        |change| change.key = None,
        |change| change.version = None,
        |change| change.instance = None,
        |change| change.r#type = 0,
        |change| change.removal_reason = RemovalReason::Expired.into(),
        |change| change.version = Some(version(9)),
        |change| change.key = Some(key("z")),
        |change| *change = v1::Change { instance: Some(instance("c", 2)), ..cancelled("c", 2) },
    ];
    for spoil in broken {
        let mut change = put("c", 1);
        spoil(&mut change);
        let history = after_begun([batch(3, vec![change]), mark(3, of(&[("a", 1), ("b", 1), ("c", 1)]))]);
        assert_broken(&history, Guarantee::Atomic, 5);
    }
    assert_broken(&after_begun([What::Message(Bytes::from_static(b"\x0a\x7f"))]), Guarantee::Atomic, 5);
}

#[test]
fn atomic_a_revision_is_in_one_message() {
    let digest = of(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let history = after_begun([batch(3, vec![put("c", 1)]), batch(3, vec![put("d", 1)]), mark(3, digest)]);
    assert_broken(&history, Guarantee::Atomic, 6);
}

#[test]
fn bounded_a_batch_is_as_small_as_asked_for() {
    let small = |count| v1::WatchSpec { max_batch_size: count, ..v1::WatchSpec::default() };
    let history = |spec| {
        let digest = of(&[("a", 1), ("b", 1)]);
        recording([open(spec), begin(FULL, 2), batch(2, vec![put("a", 1), put("b", 1)]), end(2, digest)])
    };
    assert_kept(&history(small(2)));
    assert_broken(&history(small(1)), Guarantee::Bounded, 3);
    let large = |id| {
        let mut large = instance(id, 1);
        large.metadata.insert("k".into(), "v".repeat(40 << 10));
        told(large)
    };
    let begun = || [follow(), begin(FULL, 2)];
    let history = recording(begun().into_iter().chain([batch(2, vec![large("a"), large("b")])]));
    assert_broken(&history, Guarantee::Bounded, 3);
    let alone = [batch(1, vec![large("a")]), batch(2, vec![large("b")])];
    assert_kept(&recording(begun().into_iter().chain(alone)));
}

#[test]
fn resumable_a_token_leads_to_what_was_missed() {
    let history = after_begun([
        closed("UNAVAILABLE"),
        resume(2),
        begin(RESUME, 4),
        batch(4, vec![put("c", 1)]),
        end(4, of(&[("a", 2), ("b", 1), ("c", 1)])),
        mark(4, of(&[("a", 2), ("b", 1), ("c", 1)])),
    ]);
    assert_broken(&history, Guarantee::Resumable, 9);
}

#[test]
fn resumable_a_start_is_as_asked_for_or_openly_a_whole_set() {
    let cut = || [closed("UNAVAILABLE"), resume(2)];
    let after_cut = |steps: Vec<What>| after_begun(cut().into_iter().chain(steps));
    assert_broken(&after_cut(vec![closed("OUT_OF_RANGE")]), Guarantee::Resumable, 7);
    assert_broken(&after_cut(vec![closed("INVALID_ARGUMENT")]), Guarantee::Resumable, 7);
    let replayed = vec![begin(RESUME, 3), batch(2, vec![put("b", 1)])];
    assert_broken(&after_cut(replayed), Guarantee::Resumable, 8);
    assert_broken(&recording([follow(), begin(RESUME, 2)]), Guarantee::Resumable, 2);
    assert_broken(&recording([follow(), begin(NONE, 2)]), Guarantee::Resumable, 2);
    assert_broken(&recording([start(StartMode::LiveOnly), begin(FULL, 2)]), Guarantee::Resumable, 2);
    let other = v1::WatchSpec { resume_token: token(2), ..selecting(app("web")) };
    let other = after_begun([closed("CANCELLED"), open(other), begin(RESUME, 2)]);
    assert_broken(&other, Guarantee::Resumable, 7);
    let spec = v1::WatchSpec { resume_token: token(2), ..v1::WatchSpec::default() };
    let only = v1::WatchSpec { start_mode: StartMode::ResumeOnly.into(), ..spec };
    let whole = after_begun([closed("CANCELLED"), open(only.clone()), begin(FULL, 2)]);
    assert_broken(&whole, Guarantee::Resumable, 7);
    assert_kept(&after_begun([closed("CANCELLED"), open(only), closed("OUT_OF_RANGE")]));
}

#[test]
fn resumable_another_server_tells_what_was_missed() {
    let moved = |steps: Vec<What>| {
        after_begun([closed("UNAVAILABLE"), resume(2), begin_of(8, RESUME, 9)].into_iter().chain(steps))
    };
    let level = of(&[("a", 2), ("b", 1)]);
    let listed = |set: &[(&str, u64)]| {
        let mut page = page(9, set);
        page.response.header = header(8, 9);
        What::Rested(page)
    };
    let told = || vec![batch(9, vec![put("a", 2)]), end(9, level.clone())];
    assert_kept(&moved([told(), vec![listed(&[("a", 2), ("b", 1)])]].concat()));
    // One that lags may lack what another told, until it follows.
    let lagging =
        vec![end(9, of(&[("a", 1)])), batch(10, vec![put("b", 1)]), mark(10, of(&[("a", 1), ("b", 1)]))];
    assert_kept(&moved(lagging));
    let silent = vec![end(9, level.clone()), listed(&[("a", 2), ("b", 1)])];
    assert_broken(&moved(silent), Guarantee::ViewEquality, 9);
    let late = [told(), vec![mark(9, of(&[("a", 3), ("b", 1)]))]].concat();
    assert_broken(&moved(late), Guarantee::ViewEquality, 10);
}

#[test]
fn resumable_what_differs_is_told_to_whoever_says_what_it_holds() {
    let digests = || vec![v1::AppDigest { app: "WEB".into(), ..v1::AppDigest::default() }];
    let telling = || open(v1::WatchSpec { known_digests: digests(), ..v1::WatchSpec::default() });
    let differs = |apps: Vec<v1::AppDigest>| {
        let (header, mode) = (header(8, 9), SnapshotMode::Diff.into());
        message(Event::SnapshotBegin(v1::SnapshotBegin { header, mode, apps, parts: Vec::new() }))
    };
    let moved = |steps: Vec<What>| after_begun([closed("UNAVAILABLE"), telling()].into_iter().chain(steps));
    let whole = |digest| vec![differs(digests()), batch(9, vec![put("a", 2)]), end(9, digest)];
    assert_kept(&moved(whole(of(&[("a", 2)]))));
    assert_broken(&moved(whole(of(&[("a", 2), ("b", 1)]))), Guarantee::ViewEquality, 9);
    let nothing = |digest| vec![differs(Vec::new()), end(9, digest)];
    assert_kept(&moved(nothing(of(&[("a", 1), ("b", 1)]))));
    assert_broken(&moved(nothing(of(&[("a", 1)]))), Guarantee::ViewEquality, 8);
    let unasked = after_begun([closed("UNAVAILABLE"), resume(2), differs(Vec::new())]);
    assert_broken(&unasked, Guarantee::Resumable, 7);
    // What the one that lags told before counts, where another had told something newer since the token.
    let behind = [
        batch(3, vec![put("a", 3)]),
        closed("UNAVAILABLE"),
        resume(2),
        begin_of(8, RESUME, 9),
        batch(9, vec![put("a", 2)]),
        closed("CANCELLED"),
        telling(),
        differs(Vec::new()),
        end(9, of(&[("a", 2), ("b", 1)])),
    ];
    assert_kept(&after_begun(behind));
}

#[test]
fn steady_what_a_client_shows_never_goes_back() {
    let shows = |id: &str, owner: u64, live: bool| What::Shows {
        key: key(id).into(),
        version: version(owner).into(),
        live,
    };
    let kept = [shows("a", 1, true), shows("a", 2, true), shows("a", 2, false), shows("a", 3, true)];
    assert_kept(&after_begun(kept));
    let older = [shows("a", 2, true), shows("b", 1, true), shows("a", 1, true)];
    assert_broken(&after_begun(older), Guarantee::Steady, 7);
    let back = [shows("a", 2, true), shows("a", 2, false), shows("a", 2, true)];
    assert_broken(&after_begun(back), Guarantee::Steady, 7);
}

#[test]
fn steady_a_removal_is_remembered_when_a_server_lags() {
    let history = |held: What| {
        after_begun([
            batch(3, vec![cancelled("b", 2)]),
            mark(3, of(&[("a", 1)])),
            closed("UNAVAILABLE"),
            resume(3),
            begin_of(8, FULL, 4),
            batch(4, vec![put("a", 1), put("b", 1)]),
            end(4, of(&[("a", 1), ("b", 1)])),
            held,
        ])
    };
    assert_kept(&history(held(&[("a", 1)])));
    assert_broken(&history(held(&[("a", 1), ("b", 1)])), Guarantee::ViewEquality, 12);
}

#[test]
fn resumable_marks_and_partings_carry_a_token() {
    let blank = v1::Bookmark { revision: 2, digest: of(&[("a", 1), ("b", 1)]), ..v1::Bookmark::default() };
    assert_broken(&after_begun([message(Event::Bookmark(blank))]), Guarantee::Resumable, 5);
    assert_broken(&after_begun([away(Bytes::new()), closed("OK")]), Guarantee::Resumable, 5);
    let torn = recording([follow(), begin(FULL, 2), batch(1, vec![put("a", 1)]), away(token(1))]);
    assert_broken(&torn, Guarantee::Resumable, 4);
    assert_kept(&recording([follow(), begin(FULL, 2), batch(1, vec![put("a", 1)]), away(Bytes::new())]));
}

#[test]
fn resumable_a_list_and_its_token_make_a_whole_set() {
    let listed = |set: &[(&str, u64)], last| {
        let list = What::Listed(page(2, set));
        recording([list, resume(2), begin(RESUME, 3), batch(3, vec![put("c", 1)]), end(3, of(last))])
    };
    assert_kept(&listed(&[("a", 1)], &[("a", 1), ("c", 1)]));
    assert_broken(&listed(&[("a", 1)], &[("a", 1), ("b", 1), ("c", 1)]), Guarantee::Resumable, 5);
}

#[test]
fn resumable_watchers_of_one_set_may_be_given_the_same_token() {
    let mut history = Recording::new();
    let mut step = |watcher: &str, what| {
        let watcher = watcher.to_owned();
        history.push(Step { watcher, what }).unwrap();
    };
    for watcher in ["one", "other"] {
        begun().into_iter().for_each(|what| step(watcher, what));
        step(watcher, closed("UNAVAILABLE"));
    }
    let resumed = || [resume(2), begin(RESUME, 3), batch(3, vec![put("a", 2)])];
    resumed().into_iter().for_each(|what| step("one", what));
    step("one", end(3, of(&[("a", 2), ("b", 1)])));
    resumed().into_iter().for_each(|what| step("other", what));
    step("other", end(3, of(&[("a", 2), ("b", 2)])));
    assert_broken(&history, Guarantee::Resumable, 18);
}

#[test]
fn bookmarkable_nothing_up_to_a_mark_comes_after_it() {
    let digest = || of(&[("a", 2), ("b", 1)]);
    let history = after_begun([mark(3, digest()), batch(3, vec![put("a", 2)]), mark(3, digest())]);
    assert_broken(&history, Guarantee::Bookmarkable, 6);
    let silent = after_begun([mark(3, None), batch(3, vec![put("a", 2)]), mark(3, digest())]);
    assert_broken(&silent, Guarantee::Bookmarkable, 6);
}

#[test]
fn bookmarkable_an_acknowledged_write_is_not_told_after_a_mark_that_covers_it() {
    let digest = of(&[("a", 2), ("b", 1), ("c", 1)]);
    let history = after_begun([
        wrote("a", 2, 3),
        mark(3, None),
        batch(4, vec![put("a", 2), put("c", 1)]),
        mark(4, digest),
    ]);
    assert_broken(&history, Guarantee::Bookmarkable, 6);
}

#[test]
fn filtered_only_what_the_selectors_cover_is_told() {
    let begun = |selector, change| {
        recording([open(selecting(selector)), begin(FULL, 0), end(0, of(&[])), batch(1, vec![change])])
    };
    assert_broken(&begun(app("db"), put("a", 1)), Guarantee::Filtered, 4);
    assert_broken(&begun(app("db"), cancelled("a", 1)), Guarantee::Filtered, 4);
    assert_broken(&begun(with(v1::InstanceStatus::Down), put("a", 1)), Guarantee::Filtered, 4);
    let out = || gone("a", 1, RemovalReason::FilteredOut);
    assert_broken(&begun(app("web"), out()), Guarantee::Filtered, 4);
    // A removal of what was never held is legal where the selectors leave it open.
    assert_kept(&begun(with(v1::InstanceStatus::Down), out()));
    assert_kept(&begun(app("web"), cancelled("z", 1)));
    let unusable = selecting(v1::InstanceSelector { apps: vec![String::new()], ..app("db") });
    assert_kept(&recording([open(unusable.clone()), closed("INVALID_ARGUMENT")]));
    assert_broken(&recording([open(unusable), begin(FULL, 0)]), Guarantee::Filtered, 2);
}

#[test]
fn monotone_no_stream_tells_an_older_version_than_another_of_that_server() {
    let newer = || [batch(3, vec![put("a", 3)]), mark(3, of(&[("a", 3), ("b", 1)])), closed("UNAVAILABLE")];
    let back = of(&[("a", 2), ("b", 1)]);
    let whole = [follow(), begin(FULL, 4), batch(4, vec![put("b", 1), put("a", 2)]), end(4, back.clone())];
    assert_broken(&after_begun(newer().into_iter().chain(whole)), Guarantee::Monotone, 11);
    let resumed = [resume(3), begin(RESUME, 4), batch(4, vec![put("a", 2)]), end(4, back)];
    assert_broken(&after_begun(newer().into_iter().chain(resumed)), Guarantee::Monotone, 11);
    let live = [resume(3), begin(RESUME, 3), end(3, of(&[("a", 3), ("b", 1)])), batch(4, vec![put("a", 2)])];
    assert_broken(&after_begun(newer().into_iter().chain(live)), Guarantee::Monotone, 11);
    // A server that lags tells what it has; the client keeps what is newer.
    let lagging = [
        resume(3),
        begin_of(8, FULL, 4),
        batch(4, vec![put("a", 2)]),
        end(4, of(&[("a", 2)])),
        held(&[("a", 3)]),
    ];
    assert_kept(&after_begun(newer().into_iter().chain(lagging)));
}

#[test]
fn monotone_a_replay_that_ends_where_it_was_is_legal() {
    let history = after_begun([
        batch(3, vec![put("a", 2)]),
        batch(4, vec![put("a", 3)]),
        closed("UNAVAILABLE"),
        resume(2),
        begin(RESUME, 4),
        batch(3, vec![put("a", 2)]),
        batch(4, vec![put("a", 3)]),
        end(4, of(&[("a", 3), ("b", 1)])),
    ]);
    assert_kept(&history);
}

fn held(set: &[(&str, u64)]) -> What {
    let digest = of(set).unwrap();
    What::Held { count: set.len() as u64, hash: digest.hash }
}

#[test]
fn view_equality_what_was_told_adds_up_to_the_digest() {
    let lost = after_begun([
        batch(4, vec![put("c", 1)]),
        mark(4, of(&[("a", 2), ("b", 1), ("c", 1)])),
        mark(4, of(&[("a", 2), ("b", 1), ("c", 1)])),
    ]);
    assert_broken(&lost, Guarantee::ViewEquality, 6);
    let mut miscounted = of(&[("a", 1), ("b", 1)]).unwrap();
    miscounted.status_counts[0].status = v1::InstanceStatus::Down.into();
    assert_broken(&after_begun([mark(2, Some(miscounted))]), Guarantee::ViewEquality, 5);
    let torn = recording([follow(), begin(FULL, 1), end(1, of(&[("a", 1)]))]);
    assert_broken(&torn, Guarantee::ViewEquality, 3);
    let live = recording([start(StartMode::LiveOnly), begin(NONE, 2), end(2, of(&[]))]);
    assert_broken(&live, Guarantee::ViewEquality, 3);
}

#[test]
fn view_equality_a_list_at_rest_is_what_was_told() {
    let wrong = || What::Rested(page(2, &[("a", 1), ("b", 2)]));
    assert_broken(&after_begun([wrong()]), Guarantee::ViewEquality, 5);
    let ahead = after_begun([
        batch(3, vec![put("a", 2)]),
        What::Rested(page(3, &[("a", 2)])),
        mark(3, of(&[("a", 2), ("b", 1)])),
    ]);
    assert_broken(&ahead, Guarantee::ViewEquality, 7);
}

#[test]
fn view_equality_the_client_holds_what_the_contract_leaves_it_with() {
    assert_kept(&after_begun([held(&[("a", 1), ("b", 1)])]));
    assert_broken(&after_begun([held(&[("a", 1)])]), Guarantee::ViewEquality, 5);
}

#[test]
fn a_whole_set_clears_what_was_spoiled() {
    let history = after_begun([
        mark(3, of(&[("a", 2), ("b", 1)])),
        begin(FULL, 3),
        batch(3, vec![put("a", 2), put("b", 1)]),
        end(3, of(&[("a", 2)])),
    ]);
    let lines: Vec<_> = check(&history).iter().map(|broken| (broken.guarantee, broken.line)).collect();
    assert_eq!(lines, [(Guarantee::ViewEquality, 5), (Guarantee::ViewEquality, 8)]);
}

#[test]
fn events_of_a_later_server_are_skipped() {
    let later = What::Message(Bytes::from_static(b"\x0a\x04\xfa\x01\x01\x00"));
    assert_kept(&after_begun([later]));
}

#[test]
fn a_report_names_guarantee_line_key_and_what_was_expected() {
    let history = after_begun([batch(3, vec![put("a", 1)])]);
    let told = check(&history)[0].to_string();
    assert_eq!(told, "line 5: not unique, WEB/a: expected a version once, saw version 1.1.7.0.0 again");
}

#[test]
fn what_cannot_be_judged_is_said_with_its_line() {
    let table = [
        ("{}", "line 1: says nothing but a watcher"),
        (r#"{"message":"AA==","closed":{"code":"OK"}}"#, "line 1: says more than one thing"),
        (r#"{"message":""}"#, r#"line 1: watcher "" has no open stream"#),
        (r#"{"open":{"spec":"%"}}"#, "line 1: open.spec: "),
        (r#"{"open":{"spec":"/w=="}}"#, "line 1: open.spec: "),
        (r#"{"what":1}"#, "line 1: unknown field `what`"),
        ("{\"open\":{\"spec\":\"\"}}\n\n", "line 2: "),
        (r#"{"wrote":{"call":"Renew","request":"","response":""}}"#, "line 1: wrote.call: \"Renew\" is none"),
        (
            r#"{"wrote":{"call":"Cancel","request":"","response":""}}"#,
            "line 1: wrote.response: header is miss",
        ),
        (r#"{"held":{"count":1,"hash":"x"}}"#, "line 1: held.hash: "),
    ];
    for (text, expected) in table {
        let fault: Unreadable = Recording::parse(text).unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{text}: {fault}");
    }
    assert!(Recording::parse("{\"open\":{\"spec\":\"\"}}").unwrap().is_empty());
}
