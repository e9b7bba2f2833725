//! A lease against a server that notes what it is asked.

use std::time::Duration;

use heureka_model::{Instance, Report};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;
use crate::servers::Servers;
use crate::testing::{Call, Desk, REPORTS, key, refusal};
use crate::{Client, Lease, Settings};

/// Interval that the desk tells.
const INTERVAL: Duration = Duration::from_secs(30);

async fn lease(desk: &Desk) -> Lease {
    let client = Client::over(Settings::default(), vec![desk.server()]).unwrap();
    client.register(Instance::new(key("a"))).await.unwrap()
}

/// Moves the clock on while nothing happens.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Time between a call and the one before.
fn gap(desk: &Desk, call: usize) -> Duration {
    let calls = desk.calls();
    calls[call].0 - calls[call - 1].0
}

fn registers(desk: &Desk) -> Vec<v1::RegisterRequest> {
    let calls = desk.calls().into_iter();
    let register = |(_, call)| if let Call::Register(request) = call { Some(*request) } else { None };
    calls.filter_map(register).collect()
}

fn draining(wait: Duration) -> tonic::Status {
    let mut details = ErrorDetails::with_error_info("DRAINING", "heureka", []);
    details.set_retry_info(Some(wait));
    tonic::Status::with_error_details(Code::Unavailable, "leaving", details)
}

/// A client of two servers that calls the first one first.
fn client_of(first: &Desk, second: &Desk) -> Client<impl Transport + use<>> {
    let servers = Servers::beginning_at(0, vec![first.server(), second.server()]);
    Client::of(Calls::new(Settings::default(), servers))
}

fn unavailable() -> tonic::Status {
    tonic::Status::unavailable("refused")
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_a_little_before_it_is_due() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.arrived(5).await;
    assert_eq!(desk.names(), ["register", "renew", "renew", "renew", "renew"]);
    for call in 1..5 {
        assert!((INTERVAL.mul_f64(0.9)..=INTERVAL).contains(&gap(&desk, call)), "{:?}", gap(&desk, call));
    }
    let Call::Renew(renewal) = &desk.calls()[1].1 else { panic!("no renewal") };
    let writer = registers(&desk)[0].writer.clone().unwrap();
    assert_eq!(renewal.writer, Some(v1::Writer { first: false, ..writer }));
    assert_eq!(lease.state().terms.renewal_interval(), INTERVAL);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_registered_again_once_after_a_part_of_the_interval() {
    for reason in [(Code::NotFound, "LEASE_NOT_FOUND"), (Code::FailedPrecondition, "INSTANCE_OUTDATED")] {
        let desk = Desk::default();
        let lease = lease(&desk).await;
        desk.refuse([refusal(reason.0, reason.1)]);
        desk.arrived(2).await;
        let lost = lease.states().filter(|state| !state.is_registered).next().await.unwrap();
        assert!(lost.fault.unwrap().is(reason.1));
        desk.arrived(4).await;
        assert_eq!(desk.names(), ["register", "renew", "register", "renew"]);
        assert!(gap(&desk, 2) <= LONGEST_SPREAD, "{:?}", gap(&desk, 2));
        let writers: Vec<_> = registers(&desk).into_iter().map(|request| request.writer.unwrap()).collect();
        assert_eq!(writers[0].incarnation, writers[1].incarnation);
        assert!(writers[0].version < writers[1].version && writers[0].first && !writers[1].first);
        let state = lease.states().filter(|state| state.is_registered).next().await.unwrap();
        assert_eq!((state.version.owner, state.fault), (writers[1].version, None));
    }
}

#[tokio::test(start_paused = true)]
async fn registrations_of_a_fleet_that_was_lost_are_spread() {
    let desk = Desk::default();
    let mut fleet = Vec::new();
    for _ in 0..50 {
        fleet.push(lease(&desk).await);
    }
    desk.refuse((0..50).map(|_| refusal(Code::NotFound, "LEASE_NOT_FOUND")));
    desk.arrived(150).await;
    let calls = desk.calls();
    let again: Vec<_> = calls[50..].iter().filter(|(_, call)| call.name() == "register").collect();
    assert_eq!(again.len(), 50);
    let mut moments: Vec<_> = again.iter().map(|(at, _)| (*at - calls[0].0).as_millis()).collect();
    moments.dedup();
    assert!(moments.len() > 25, "{moments:?}");
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_waited_out_and_told() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.refuse((0..20).map(|_| unavailable()));
    desk.arrived(2).await;
    let failed = lease.states().filter(|state| state.fault.is_some()).next().await.unwrap();
    assert!(failed.is_registered && failed.fault.unwrap().is("Unavailable"));
    desk.arrived(22).await;
    assert!((2..22).all(|call| gap(&desk, call) <= INTERVAL));
    assert_eq!(registers(&desk).len(), 1);
    let healed = lease.states().filter(|state| state.fault.is_none()).next().await.unwrap();
    assert!(healed.confirmed > failed.confirmed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let desk = Desk::default();
    let mut details = ErrorDetails::with_error_info("TOO_MANY_INSTANCES", "heureka", []);
    details.set_retry_info(Some(Duration::from_secs(20)));
    desk.refuse([tonic::Status::with_error_details(Code::ResourceExhausted, "full", details)]);
    let _lease = lease(&desk).await;
    assert!(gap(&desk, 1) >= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_registration_waits_for_a_server_but_not_after_a_refusal() {
    let desk = Desk::default();
    desk.refuse([unavailable(), tonic::Status::unknown("cut"), tonic::Status::deadline_exceeded("late")]);
    lease(&desk).await;
    assert_eq!(desk.names(), ["register"; 4]);

    let desk = Desk::default();
    desk.refuse([refusal(Code::InvalidArgument, "INVALID_INSTANCE")]);
    let client = Client::over(Settings::default(), vec![desk.server()]).unwrap();
    let refused = client.register(Instance::new(key("a"))).await;
    assert!(refused.unwrap_err().is("INVALID_INSTANCE"));
    assert_eq!(desk.names(), ["register"]);
}

#[tokio::test(start_paused = true)]
async fn a_newer_version_of_another_writer_is_raised_above_once() {
    let desk = Desk::default();
    let stored = u64::MAX / 2;
    let metadata = [("stored_owner".to_owned(), stored.to_string())];
    let details = ErrorDetails::with_error_info("STALE_VERSION", "heureka", metadata);
    desk.refuse([tonic::Status::with_error_details(Code::Aborted, "stale", details)]);
    let lease = lease(&desk).await;
    assert_eq!(desk.names(), ["register"; 2]);
    assert_eq!(lease.state().version.owner, stored + 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_counts_as_a_late_copy_is_written_again() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    let stored = u64::MAX / 2;
    desk.store("a", stored);
    lease.set_status(Status::Down);
    lease.states().filter(|state| state.status == Status::Down).next().await.unwrap();
    assert_eq!(desk.names(), ["register"; 3]);
    assert_eq!(lease.state().version.owner, stored + 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_at_the_greatest_version_is_refused_and_harms_no_other() {
    for stored in [u64::MAX, u64::MAX - 1] {
        let desk = Desk::default();
        let client = Client::over(Settings::default(), vec![desk.server()]).unwrap();
        let other = client.register(Instance::new(key("b"))).await.unwrap();
        desk.store("a", stored);
        let registered = client.register(Instance::new(key("a"))).await;
        if stored == u64::MAX {
            let refused = registered.unwrap_err();
            assert_eq!(refused, Error::Version(key("a")));
            assert_eq!(
                refused.to_string(),
                "the version of WEB/a cannot be exceeded: it is 18446744073709551615"
            );
        } else {
            let lease = registered.unwrap();
            lease.set_status(Status::Down);
            let failed = lease.states().filter(|state| state.fault.is_some()).next().await.unwrap();
            assert_eq!((failed.status, failed.fault), (Status::Up, Some(Error::Version(key("a")))));
            assert_eq!(lease.cancel().await, Ok(true));
        }
        other.set_status(Status::Down);
        let told = other.states().filter(|state| state.status == Status::Down).next().await.unwrap();
        assert!(told.fault.is_none() && told.version.owner < u64::MAX / 2, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_overtaken_twice_is_told_and_tried_again() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    let metadata = [("stored_owner".to_owned(), (1_u64 << 60).to_string())];
    let details = ErrorDetails::with_error_info("STALE_VERSION", "heureka", metadata);
    desk.refuse([tonic::Status::with_error_details(Code::Aborted, "stale", details)]);
    desk.store("a", 1 << 62);
    lease.set_status(Status::Down);
    let failed = lease.states().filter(|state| state.fault.is_some()).next().await.unwrap();
    assert!(failed.status == Status::Up && failed.fault.unwrap().is("STALE_VERSION"));
    let told = lease.states().filter(|state| state.status == Status::Down).next().await.unwrap();
    assert_eq!((told.version.owner, told.fault), ((1 << 62) + 1, None));
    assert_eq!(desk.names(), ["register"; 4]);
}

#[tokio::test(start_paused = true)]
async fn the_newest_status_is_registered_and_those_before_are_skipped() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    for status in [Status::Down, Status::Starting, Status::OutOfService] {
        lease.set_status(status);
    }
    desk.arrived(3).await;
    assert_eq!(desk.names(), ["register", "register", "renew"]);
    assert_eq!(gap(&desk, 1), Duration::ZERO);
    let statuses: Vec<_> =
        registers(&desk).iter().map(|request| request.instance.as_ref().unwrap().status()).collect();
    assert_eq!(statuses, [v1::InstanceStatus::Up, v1::InstanceStatus::OutOfService]);
    lease.set_status(Status::OutOfService);
    desk.arrived(4).await;
    assert_eq!(desk.names()[3], "renew");
}

#[tokio::test(start_paused = true)]
async fn a_status_does_not_hurry_a_server_that_fails() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.refuse([draining(Duration::from_secs(10))]);
    desk.arrived(2).await;
    lease.states().filter(|state| state.fault.is_some()).next().await.unwrap();
    for status in [Status::Down, Status::Up, Status::Down] {
        lease.set_status(status);
        pass(Duration::from_secs(1)).await;
    }
    desk.arrived(3).await;
    assert_eq!(desk.names(), ["register", "renew", "register"]);
    assert!(gap(&desk, 2) >= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_an_hour_holds_nothing_up_while_another_answers() {
    let (leaving, healthy) = (Desk::default(), Desk::default());
    leaving.refuse([draining(Duration::from_hours(1))]);
    let start = Instant::now();
    let lease = client_of(&leaving, &healthy).register(Instance::new(key("a"))).await.unwrap();
    assert!(start.elapsed() <= Duration::from_millis(100));
    lease.set_status(Status::Down);
    healthy.arrived(2).await;
    assert_eq!((leaving.names(), healthy.names()), (vec!["register"], vec!["register"; 2]));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_its_server_leaving_goes_to_the_other_and_nobody_is_told() {
    for status in [draining(Duration::from_hours(1)), unavailable()] {
        let (leaving, healthy) = (Desk::default(), Desk::default());
        let lease = client_of(&leaving, &healthy).register(Instance::new(key("a"))).await.unwrap();
        leaving.refuse([status]);
        healthy.arrived(1).await;
        assert_eq!(healthy.calls()[0].0, leaving.calls()[1].0);
        lease.set_status(Status::Down);
        healthy.arrived(2).await;
        assert_eq!(
            (leaving.names(), healthy.names()),
            (vec!["register", "renew"], vec!["renew", "register"])
        );
        assert_eq!(lease.state().fault, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_tried_within_its_interval_even_when_all_servers_ask_for_an_hour() {
    let (one, other) = (Desk::default(), Desk::default());
    let _lease = client_of(&one, &other).register(Instance::new(key("a"))).await.unwrap();
    one.refuse((0..3).map(|_| draining(Duration::from_hours(1))));
    other.refuse((0..3).map(|_| draining(Duration::from_hours(1))));
    one.arrived(3).await;
    let mut moments: Vec<_> = one.calls().into_iter().chain(other.calls()).map(|(at, _)| at).collect();
    moments.sort();
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] <= INTERVAL), "{moments:?}");
}

#[tokio::test(start_paused = true)]
async fn a_status_whose_registration_was_not_answered_may_be_stored_so_the_next_is_registered() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.refuse([unavailable()]);
    lease.set_status(Status::Down);
    lease.states().filter(|state| state.fault.is_some()).next().await.unwrap();
    lease.set_status(Status::Up);
    desk.arrived(3).await;
    assert_eq!(desk.names(), ["register"; 3]);
    assert_eq!(registers(&desk)[2].instance.as_ref().unwrap().status(), v1::InstanceStatus::Up);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_calls_and_every_cancel_tells_the_same() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    assert_eq!(lease.cancel().await, Ok(true));
    lease.set_status(Status::Down);
    assert_eq!(lease.cancel().await, Ok(true));
    pass(Duration::from_hours(1)).await;
    assert_eq!(desk.names(), ["register", "cancel"]);
    assert!(!lease.state().is_registered);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_waits_for_the_call_under_way() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.hang();
    lease.set_status(Status::Down);
    desk.arrived(2).await;
    let refused = lease.cancel().await.unwrap_err();
    assert!(refused.is("DeadlineExceeded"));
    assert_eq!(desk.names(), ["register", "register", "cancel"]);
    assert_eq!(gap(&desk, 2), Settings::default().call_timeout);
    assert_eq!(lease.cancel().await, Err(refused));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_waits_one_call_even_for_a_write_that_is_repeated() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    desk.store("a", u64::MAX / 2);
    desk.delay(Duration::from_secs(4));
    lease.set_status(Status::Down);
    desk.arrived(2).await;
    assert_eq!(lease.cancel().await, Ok(true));
    assert_eq!(desk.names(), ["register", "register", "register", "cancel"]);
    assert_eq!(desk.calls()[3].0 - desk.calls()[1].0, Settings::default().call_timeout);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_never_later_than_the_terms_say() {
    let desk = Desk::default();
    desk.tell_next_renewal_in(Duration::from_hours(24 * 365 * 10_000));
    let _lease = lease(&desk).await;
    desk.arrived(4).await;
    assert_eq!(desk.names(), ["register", "renew", "renew", "renew"]);
    assert!((1..4).all(|call| gap(&desk, call) <= INTERVAL));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_nobody_waits_for_is_sent_all_the_same() {
    let desk = Desk::default();
    let lease = lease(&desk).await;
    assert!(tokio::time::timeout(Duration::ZERO, lease.cancel()).await.is_err());
    drop(lease);
    desk.arrived(2).await;
    assert_eq!(desk.names(), ["register", "cancel"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_goes_to_the_next_server_when_one_does_not_answer() {
    let desk = Desk::default();
    let client = Client::over(Settings::default(), vec![desk.server(), desk.server()]).unwrap();
    let lease = client.register(Instance::new(key("a"))).await.unwrap();
    desk.refuse([unavailable()]);
    assert_eq!(lease.cancel().await, Ok(true));
    assert_eq!(desk.names(), ["register", "cancel", "cancel"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_dropped_is_renewed_no_more_and_not_cancelled() {
    let desk = Desk::default();
    drop(lease(&desk).await);
    pass(Duration::from_hours(1)).await;
    assert_eq!(desk.names(), ["register"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_sent_once_and_elsewhere_where_a_server_cannot_answer() {
    let (first, second) = (Desk::default(), Desk::default());
    let client = client_of(&first, &second);
    let lease = client.register(Instance::new(key("a"))).await.unwrap();
    let report = || Report { available: [("slots".to_owned(), 3)].into(), ..Report::default() };
    assert_eq!(lease.report(report()).await, Ok(REPORTS));
    assert_eq!(first.names(), ["register", "report"]);
    let (_, Call::Report(sent)) = first.calls().pop().unwrap() else { panic!("no report") };
    assert_eq!((sent.key, sent.available["slots"]), (Some(key("a").into()), 3));
    first.refuse([unavailable()]);
    assert_eq!(lease.report(report()).await, Ok(REPORTS));
    assert_eq!(second.names(), ["report"]);
    second.refuse([refusal(Code::NotFound, "LEASE_NOT_FOUND")]);
    assert!(lease.report(report()).await.unwrap_err().is("LEASE_NOT_FOUND"), "an answer is an answer");
}
