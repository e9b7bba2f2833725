//! Reports, and readings beside the changes of a watch.

use super::watch::{Client, Watch, begin, brief as watched, event, following, open, watch};
use super::*;
use v1::watch_event::Event;
use v1::{ChangeType, StartMode};

fn report(app: &str, id: &str, slots: Option<i64>, load: Option<f64>) -> v1::ReportRequest {
    v1::ReportRequest {
        key: Some(key(app, id)),
        available: slots.map(|slots| ("slots".to_owned(), slots)).into_iter().collect(),
        gauges: load.map(|load| ("load".to_owned(), load)).into_iter().collect(),
    }
}

impl Server {
    async fn report(&self, request: v1::ReportRequest) -> Result<Duration, Status> {
        let response = self.writer().report(request).await?.into_inner();
        Ok(response.min_interval.unwrap().try_into().unwrap())
    }

    /// An instance with a lease that ends long after the test.
    async fn lasting(&self, app: &str, id: &str, slots: i64) {
        let capacity = v1::Capacity { total: [("slots".to_owned(), slots)].into(), ..Default::default() };
        let lease = Some(v1::Lease { duration: Some(seconds(3600)), ..Default::default() });
        self.register(v1::Instance { capacity: Some(capacity), lease, ..instance(app, id) }).await;
    }
}

fn with_readings(spec: v1::WatchSpec) -> v1::WatchSpec {
    v1::WatchSpec { readings: Some(v1::ReadingsSpec::default()), ..spec }
}

/// The next readings; what comes before them are changes and bookmarks.
async fn readings(watch: &mut Watch) -> Vec<v1::Reading> {
    loop {
        match event(watch).await {
            Event::Readings(told) => return told.readings,
            Event::Changes(_) | Event::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Slots and load by id.
fn brief(readings: &[v1::Reading]) -> Vec<(String, Option<i64>, Option<f64>)> {
    let one = |reading: &v1::Reading| {
        let id = reading.key.as_ref().unwrap().id.clone();
        (id, reading.available.get("slots").copied(), reading.gauges.get("load").copied())
    };
    readings.iter().map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn readings_of_the_set_come_after_its_end_and_then_whenever_they_change() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    server.lasting("web", "2", 8).await;
    server.lasting("other", "1", 8).await;
    for (app, id) in [("web", "1"), ("other", "1")] {
        server.report(report(app, id, Some(5), Some(0.5))).await.unwrap();
    }
    let mut watch = watch(&server, with_readings(following("web"))).await;
    Client::default().read(&mut watch).await;
    assert_eq!(brief(&readings(&mut watch).await), [("1".to_owned(), Some(5), Some(0.5))]);
    server.report(report("other", "1", Some(1), None)).await.unwrap();
    server.report(report("web", "2", Some(2), None)).await.unwrap();
    let told = readings(&mut watch).await;
    assert_eq!(brief(&told), [("2".to_owned(), Some(2), None)]);
    assert!(told[0].report_time.is_some() && !told[0].suspect);
    server.lasting("web", "3", 8).await;
    server.report(report("web", "3", None, Some(9.0))).await.unwrap();
    assert_eq!(brief(&readings(&mut watch).await), [("3".to_owned(), None, Some(9.0))]);
}

#[tokio::test(start_paused = true)]
async fn of_reports_in_a_row_the_last_is_told_when_the_interval_is_over() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    let mut watch = watch(&server, with_readings(following("web"))).await;
    Client::default().read(&mut watch).await;
    let begun = tokio::time::Instant::now();
    let interval = server.report(report("web", "1", Some(7), None)).await.unwrap();
    assert_eq!(interval, server.registry.config().report_interval);
    assert_eq!(brief(&readings(&mut watch).await)[0].1, Some(7));
    assert!(begun.elapsed() < interval / 2, "the first is told at once");
    for slots in [6, 5, 4] {
        server.report(report("web", "1", Some(slots), None)).await.unwrap();
    }
    let listed = server.reader().get_instance(v1::GetInstanceRequest { key: Some(key("web", "1")) }).await;
    let capacity = listed.unwrap().into_inner().instance.unwrap().capacity.unwrap();
    assert_eq!(capacity.available["slots"], 4, "whoever asks is told the newest");
    assert_eq!(brief(&readings(&mut watch).await)[0].1, Some(4));
    assert!(begun.elapsed() >= interval && begun.elapsed() < interval * 2);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_none_is_told_none() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    let mut watch = watch(&server, following("web")).await;
    Client::default().read(&mut watch).await;
    server.report(report("web", "1", Some(5), None)).await.unwrap();
    assert!(matches!(event(&mut watch).await, Event::Bookmark(_)));
}

#[tokio::test(start_paused = true)]
async fn only_what_was_asked_for_is_told() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    let mut both = report("web", "1", Some(5), Some(0.5));
    both.gauges.insert("queue".into(), 7.0);
    server.report(both).await.unwrap();
    let asking = |readings| v1::WatchSpec { readings: Some(readings), ..following("web") };
    let gauges = v1::ReadingsSpec { gauges: vec!["queue".into()], ..Default::default() };
    let mut watched = watch(&server, asking(gauges)).await;
    Client::default().read(&mut watched).await;
    let told = readings(&mut watched).await;
    assert_eq!((told[0].gauges.len(), told[0].gauges["queue"], told[0].available.len()), (1, 7.0, 0));
    let amounts = v1::ReadingsSpec { available: true, ..Default::default() };
    let mut watched = watch(&server, asking(amounts)).await;
    Client::default().read(&mut watched).await;
    let told = readings(&mut watched).await;
    assert_eq!((told[0].gauges.len(), told[0].available["slots"]), (0, 5));
}

#[tokio::test(start_paused = true)]
async fn who_is_overdue_is_told_and_when_that_is_over() {
    let server = Server::start().await;
    let lease =
        v1::Lease { renewal_interval: Some(seconds(2)), duration: Some(seconds(60)), ..Default::default() };
    server.register(v1::Instance { lease: Some(lease), ..instance("web", "1") }).await;
    let suspect = v1::ReadingsSpec { suspect: true, ..Default::default() };
    let mut watch = watch(&server, v1::WatchSpec { readings: Some(suspect), ..following("web") }).await;
    Client::default().read(&mut watch).await;
    server.pass(4).await;
    let told = readings(&mut watch).await;
    assert_eq!((told.len(), told[0].suspect, told[0].report_time.is_some()), (1, true, false));
    let renew = v1::RenewRequest { key: Some(key("web", "1")), ..Default::default() };
    server.writer().renew(renew).await.unwrap();
    server.pass(1).await;
    assert!(!readings(&mut watch).await[0].suspect);
}

#[tokio::test(start_paused = true)]
async fn a_reading_ends_with_its_instance_and_with_the_process_that_keeps_it() {
    let server = Server::start().await;
    let register = |incarnation| v1::RegisterRequest {
        instance: Some(instance("web", "1")),
        writer: writer(incarnation, u64::from(incarnation), true),
        ..Default::default()
    };
    server.writer().register(register(1)).await.unwrap();
    server.report(report("web", "1", Some(5), None)).await.unwrap();
    let mut watch = watch(&server, with_readings(following("web"))).await;
    Client::default().read(&mut watch).await;
    assert_eq!(brief(&readings(&mut watch).await)[0].1, Some(5));
    server.writer().register(register(2)).await.unwrap();
    let told = readings(&mut watch).await;
    assert_eq!((brief(&told)[0].1, told[0].report_time), (None, None), "nothing is known of the new one");
    let available = async || {
        let request = v1::GetInstanceRequest { key: Some(key("web", "1")) };
        let answer = server.reader().get_instance(request).await;
        answer
            .map(|answer| answer.into_inner().instance.unwrap().capacity.unwrap_or_default().available.len())
    };
    assert_eq!(available().await.unwrap(), 0);
    server.report(report("web", "1", Some(4), None)).await.unwrap();
    assert_eq!(available().await.unwrap(), 1);
    server.cancel("web", "1").await;
    assert_refused(available().await, Code::NotFound, "INSTANCE_NOT_FOUND", "");
    let late = server.report(report("web", "1", Some(3), None)).await;
    assert_refused(late, Code::NotFound, "LEASE_NOT_FOUND", "");
    server.register(instance("web", "1")).await;
    assert_eq!(available().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn unusable_reports_are_refused_by_field() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    let many = (0..65).map(|n| (n.to_string(), 1.0)).collect();
    let table = [
        ("key", v1::ReportRequest { key: None, ..report("web", "1", Some(1), None) }),
        ("available.slots", report("web", "1", Some(-1), None)),
        ("gauges.load", report("web", "1", None, Some(f64::NAN))),
        ("gauges.load", report("web", "1", None, Some(f64::INFINITY))),
        ("gauges", v1::ReportRequest { gauges: many, ..report("web", "1", None, None) }),
    ];
    for (field, request) in table {
        assert_refused(server.report(request).await, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
    let unknown = server.report(report("web", "none", Some(1), None)).await;
    assert_refused(unknown, Code::NotFound, "LEASE_NOT_FOUND", "");
}

#[tokio::test(start_paused = true)]
async fn a_list_tells_and_asks_for_what_is_free() {
    let server = Server::start().await;
    for id in ["1", "2", "3"] {
        server.lasting("web", id, 8).await;
    }
    let list = async |selector: v1::InstanceSelector| {
        let selectors = vec![v1::InstanceSelector { apps: vec!["web".into()], ..selector }];
        let request = v1::ListInstancesRequest { selectors, ..Default::default() };
        let instances = server.reader().list_instances(request).await.unwrap().into_inner().instances;
        let free = |instance: v1::Instance| instance.capacity.unwrap().available.get("slots").copied();
        instances.into_iter().map(free).collect::<Vec<_>>()
    };
    let everything = v1::InstanceSelector::default;
    assert_eq!(list(everything()).await, [None; 3]);
    server.report(report("web", "2", Some(3), Some(0.5))).await.unwrap();
    assert_eq!(list(everything()).await, [None, Some(3), None], "although the list was kept");
    let slots = |least| [("slots".to_owned(), least)].into();
    let free = |least| v1::InstanceSelector { min_available: slots(least), ..Default::default() };
    assert_eq!(list(free(3)).await, [None, Some(3), None]);
    assert_eq!(list(free(4)).await, [None, None]);
    assert_eq!(list(free(9)).await, []);
    let load = v1::GaugeRequirement { name: "load".into(), at_most: Some(0.5), at_least: None };
    assert_eq!(list(v1::InstanceSelector { gauges: vec![load], ..Default::default() }).await, [Some(3)]);
}

#[tokio::test(start_paused = true)]
async fn unusable_wishes_are_refused_by_field() {
    let server = Server::start().await;
    let readings = |readings| v1::WatchSpec { readings: Some(readings), ..Default::default() };
    let base = v1::ReadingsSpec::default;
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let once = v1::WatchSpec { start_mode: StartMode::SnapshotOnly.into(), ..readings(base()) };
    let many = vec!["x".to_owned(); 65];
    let table = [
        ("spec.readings", once),
        ("spec.readings.gauges[1]", readings(v1::ReadingsSpec { gauges: named(&["a", ""]), ..base() })),
        ("spec.readings.gauges", readings(v1::ReadingsSpec { gauges: many, ..base() })),
        (
            "spec.readings.gauges",
            readings(v1::ReadingsSpec { gauges: named(&["a"]), all_gauges: true, ..base() }),
        ),
    ];
    for (field, spec) in table {
        assert_refused(open(&server, spec).await, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
    let selecting = |selector| v1::WatchSpec { selectors: vec![selector], ..Default::default() };
    let negative =
        v1::InstanceSelector { min_available: [("slots".to_owned(), -1)].into(), ..Default::default() };
    let gauge = |name: &str, at_least| v1::GaugeRequirement { name: name.into(), at_least, at_most: None };
    let gauges = |gauge| v1::InstanceSelector { gauges: vec![gauge], ..Default::default() };
    let table = [
        ("spec.selectors[0].min_available.slots", negative),
        ("spec.selectors[0].gauges[0].name", gauges(gauge("", Some(1.0)))),
        ("spec.selectors[0].gauges[0].at_least", gauges(gauge("load", None))),
        ("spec.selectors[0].gauges[0].at_least", gauges(gauge("load", Some(f64::NAN)))),
    ];
    for (field, selector) in table {
        let refused = open(&server, selecting(selector)).await;
        assert_refused(refused, Code::InvalidArgument, "INVALID_SELECTOR", field);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_go_before_readings_and_do_not_hold_them_up_for_ever() {
    let server = Server::start().await;
    server.fill("web", 3000);
    let mut watch = watch(&server, with_readings(following("web"))).await;
    Client::default().read(&mut watch).await;
    for id in 0..1000 {
        server
            .registry
            .report(
                heureka_model::KeyRef { namespace: "", app: "WEB", id: &format!("{id:05}") },
                heureka_model::Report { available: [("slots".to_owned(), id)].into(), ..Default::default() },
                server.clock.now(),
            )
            .unwrap();
    }
    server.fill("web", 6000);
    let mut told = 0;
    let mut order = Vec::new();
    while told < 1000 {
        match event(&mut watch).await {
            Event::Readings(readings) => {
                assert!(readings.readings.len() <= 256);
                told += readings.readings.len();
                order.push('r');
            }
            Event::Changes(_) => order.push('c'),
            Event::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    let order: String = order.into_iter().collect();
    assert!(order.starts_with('c'), "{order}");
    assert!(order.contains("rc"), "readings do not wait for the last change: {order}");
    assert!(!order.trim_end_matches('r').contains("rr"), "and take turns with changes: {order}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_push_holds_readings_back_too() {
    let server = Server::start().await;
    server.lasting("web", "1", 8).await;
    let mut watch = watch(&server, with_readings(following("web"))).await;
    Client::default().read(&mut watch).await;
    let ttl = Some(seconds(30));
    let pause = heureka_proto::admin::v1::SetPushRequest { paused: true, ttl, reason: "quiet".into() };
    admin::operator(&server).set_push(pause).await.unwrap();
    server.report(report("web", "1", Some(5), None)).await.unwrap();
    assert!(matches!(event(&mut watch).await, Event::Bookmark(_)));
    assert_eq!(brief(&readings(&mut watch).await)[0].1, Some(5), "once it is over");
}

#[tokio::test(start_paused = true)]
async fn a_report_lets_an_instance_into_a_watched_set_and_out_of_it() {
    let server = Server::start().await;
    for (id, slots) in [("1", 2), ("2", 8)] {
        server.lasting("web", id, slots).await;
    }
    let selector = v1::InstanceSelector {
        min_available: [("slots".to_owned(), 4)].into(),
        ..following("web").selectors.remove(0)
    };
    let spec = v1::WatchSpec {
        selectors: vec![selector.clone()],
        required_features: vec!["numbers".into(), "readings".into()],
        ..with_readings(Default::default())
    };
    let mut live = watch(&server, spec.clone()).await;
    let mut client = Client::default();
    assert_eq!(client.read(&mut live).await, [(ChangeType::Added, "2".into())]);
    server.report(report("web", "1", Some(4), None)).await.unwrap();
    let Event::Changes(entered) = event(&mut live).await else { panic!("no changes") };
    assert_eq!(watched(&entered.changes), [(ChangeType::Added, "1".into())]);
    assert_eq!(brief(&readings(&mut live).await), [("1".to_owned(), Some(4), None)]);
    server.report(report("web", "2", Some(3), None)).await.unwrap();
    let Event::Changes(left) = event(&mut live).await else { panic!("no changes") };
    assert_eq!(watched(&left.changes), [(ChangeType::Removed, "2".into())]);
    assert_eq!(left.changes[0].removal_reason(), v1::RemovalReason::FilteredOut);
    entered.changes.into_iter().chain(left.changes).for_each(|change| client.apply(change));
    client.read(&mut live).await;
    assert_eq!(client.held.len(), 1);
    assert!(client.compared > 1, "bookmarks carry the digest of what the view holds");
    let again = v1::WatchSpec { resume_token: client.token.clone(), ..spec };
    let mut again = watch(&server, again).await;
    assert_eq!(begin(event(&mut again).await), v1::SnapshotMode::Full);
    let plain = v1::WatchSpec { resume_token: client.token.clone(), ..following("web") };
    let mut plain = watch(&server, plain).await;
    assert_eq!(begin(event(&mut plain).await), v1::SnapshotMode::Full, "of another selection");
}
