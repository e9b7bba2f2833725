//! Watches of a choice: the best, and a client's own part.

use std::collections::BTreeSet;

use v1::best::By;
use v1::{ChangeType, StartMode};

use super::watch::{Client, Watch, brief, event, following, open, watch};
use super::*;
use v1::watch_event::Event;

impl Server {
    async fn loaded(&self, app: &str, id: &str, load: f64) {
        let report = v1::ReportRequest {
            key: Some(key(app, id)),
            gauges: [("load".to_owned(), load)].into(),
            ..Default::default()
        };
        self.writer().report(report).await.unwrap();
    }

    async fn placed(&self, app: &str, id: &str, zone: &str) {
        let locality = Some(v1::Locality { zone: zone.into(), ..Default::default() });
        self.register(v1::Instance { locality, ..instance(app, id) }).await;
    }
}

fn least_loaded(limit: u32, hysteresis: f64) -> v1::Best {
    v1::Best { by: Some(By::Gauge("load".into())), ascending: true, limit, hysteresis }
}

fn part(key: &str, size: u32, zone: &str) -> v1::WatchSpec {
    let subset = Some(v1::Subset { key: key.into(), size, zone: zone.into() });
    v1::WatchSpec { subset, required_features: vec!["subset".into()], ..following("web") }
}

async fn told(watch: &mut Watch) -> Vec<(ChangeType, String)> {
    loop {
        match event(watch).await {
            Event::Changes(batch) => return brief(&batch.changes),
            Event::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_best_are_told_and_then_who_enters_and_who_leaves() {
    let server = Server::start().await;
    for (id, load) in [("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0)] {
        server.register(instance("web", id)).await;
        server.loaded("web", id, load).await;
    }
    let best = Some(least_loaded(2, 0.5));
    let spec = v1::WatchSpec { best, required_features: vec!["best".into()], ..following("web") };
    let mut watch = watch(&server, spec).await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    assert_eq!((client.ids(), client.compared), (vec!["1", "2"], 1));
    tokio::time::advance(Duration::from_secs(2)).await;
    server.loaded("web", "3", 1.9).await;
    server.loaded("web", "4", 0.1).await;
    let swapped = told(&mut watch).await;
    let swapped: BTreeSet<_> = swapped.iter().map(|(kind, id)| (kind.as_str_name(), id.as_str())).collect();
    assert_eq!(swapped, [("CHANGE_TYPE_ADDED", "4"), ("CHANGE_TYPE_REMOVED", "2")].into());
    server.cancel("web", "1").await;
    let swapped: BTreeSet<_> = told(&mut watch).await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(swapped, ["1".to_owned(), "3".to_owned()].into());
}

#[tokio::test(start_paused = true)]
async fn a_part_prefers_its_zone_and_loses_one_for_one() {
    let server = Server::start().await;
    for id in 0..10 {
        server.placed("web", &format!("near{id}"), "near").await;
        server.placed("web", &format!("far{id}"), "far").await;
    }
    let mut live = watch(&server, part("client-7", 4, "near")).await;
    let mut client = Client::default();
    client.read(&mut live).await;
    let first: Vec<String> = client.ids().into_iter().map(str::to_owned).collect();
    assert!(first.len() == 4 && first.iter().all(|id| id.starts_with("near")), "{first:?}");
    let mut again = Client::default();
    again.read(&mut watch(&server, part("client-7", 4, "near")).await).await;
    assert_eq!(again.ids(), client.ids(), "the same for the same client");
    server.cancel("web", &first[0]).await;
    let change = told(&mut live).await;
    let count = |kind| change.iter().filter(|(told, _)| *told == kind).count();
    assert_eq!((count(ChangeType::Removed), count(ChangeType::Added)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_large_view_comes_in_messages_of_the_usual_size_and_its_digest_agrees() {
    let server = Server::start().await;
    server.fill("web", 2500);
    let none = [("slots".to_owned(), 0)].into();
    let selector = v1::InstanceSelector { min_available: none, ..following("web").selectors.remove(0) };
    let spec = v1::WatchSpec { selectors: vec![selector], max_batch_size: 200, ..Default::default() };
    let mut live = watch(&server, spec.clone()).await;
    let mut client = Client::default();
    assert_eq!(client.read(&mut live).await.len(), 2500);
    assert_eq!(client.compared, 1);
    let once = v1::WatchSpec { start_mode: StartMode::SnapshotOnly.into(), ..spec };
    let mut once = watch(&server, once).await;
    assert_eq!(client.read(&mut once).await.len(), 2500);
    assert!(once.message().await.unwrap().is_none(), "and the stream ends");
    let heard: BTreeSet<_> = (0..3).map(|n| format!("{n:05}")).collect();
    for id in &heard {
        server.cancel("web", id).await;
    }
    let mut gone = BTreeSet::new();
    while gone.len() < 3 {
        gone.extend(told(&mut live).await.into_iter().map(|(_, id)| id));
    }
    assert_eq!(gone, heard);
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_choose_each_for_itself() {
    let server = Server::start().await;
    server.fill("web", 30);
    let request = |request| v1::WatchManyRequest { request: Some(request) };
    use v1::watch_many_request::Request;
    let subscribe = |subscription_id, spec| {
        request(Request::Subscribe(v1::Subscribe { subscription_id, spec: Some(spec) }))
    };
    let requests = vec![
        request(Request::Hello(v1::WatchHello::default())),
        subscribe(1, part("one", 5, "")),
        subscribe(2, part("two", 5, "")),
        subscribe(3, v1::WatchSpec { best: Some(least_loaded(0, 0.0)), ..following("web") }),
    ];
    let requests =
        futures_util::StreamExt::chain(futures_util::stream::iter(requests), futures_util::stream::pending());
    let mut stream = server.reader().watch_many(requests).await.unwrap().into_inner();
    let mut parts: [BTreeSet<String>; 2] = Default::default();
    let (mut ends, mut refused) = (0, None);
    while ends < 2 || refused.is_none() {
        let response = stream.message().await.unwrap().unwrap();
        match response.response.unwrap() {
            v1::watch_many_response::Response::Closed(status) => {
                refused = Some((response.subscription_id, status));
            }
            v1::watch_many_response::Response::Event(told) => match told.event.unwrap() {
                Event::Changes(batch) => {
                    let ids = brief(&batch.changes).into_iter().map(|(_, id)| id);
                    parts[response.subscription_id as usize - 1].extend(ids);
                }
                Event::SnapshotEnd(_) => ends += 1,
                _ => {}
            },
        }
    }
    let [one, two] = parts;
    assert!(one.len() == 5 && two.len() == 5 && one != two);
    let (id, status) = refused.unwrap();
    assert_eq!((id, status.field.as_str()), (3, "spec.best.limit"));
}

#[tokio::test(start_paused = true)]
async fn unusable_choices_are_refused_by_field() {
    let server = Server::start().await;
    let best = |best| v1::WatchSpec { best: Some(best), ..Default::default() };
    let subset = |key: &str, size| {
        let subset = Some(v1::Subset { key: key.into(), size, zone: String::new() });
        v1::WatchSpec { subset, ..Default::default() }
    };
    let starting = |mode: StartMode, spec| v1::WatchSpec { start_mode: mode.into(), ..spec };
    let named = |name: &str| v1::Best { by: Some(By::Available(name.into())), ..least_loaded(1, 0.0) };
    let table = [
        ("spec.best.by", best(v1::Best { by: None, ..least_loaded(1, 0.0) })),
        ("spec.best.available", best(named(""))),
        ("spec.best.available", best(named(&"x".repeat(257)))),
        ("spec.best.limit", best(least_loaded(0, 0.0))),
        ("spec.best.limit", best(least_loaded(1001, 0.0))),
        ("spec.best.hysteresis", best(least_loaded(1, -0.5))),
        ("spec.best.hysteresis", best(least_loaded(1, f64::NAN))),
        ("spec.subset.key", subset("", 1)),
        ("spec.subset.size", subset("c", 0)),
        ("spec.subset.size", subset("c", 1001)),
        ("spec.subset", v1::WatchSpec { best: Some(least_loaded(1, 0.0)), ..subset("c", 1) }),
        ("spec.start_mode", starting(StartMode::LiveOnly, subset("c", 1))),
        ("spec.start_mode", starting(StartMode::ResumeOnly, best(least_loaded(1, 0.0)))),
    ];
    for (field, spec) in table {
        assert_refused(open(&server, spec).await, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
}
