//! What `/metrics` shows: documented, bounded.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::collections::BTreeSet;

use axum::Router;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_server::metrics::SERIES_MAX;
use support::*;
use tonic::Code;
use tonic::transport::Channel;

fn series(page: &str) -> BTreeSet<String> {
    let samples = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

async fn page(address: std::net::SocketAddr) -> String {
    fetch(address, "/metrics").await.1
}

#[tokio::test]
async fn the_number_of_series_does_not_depend_on_who_talks() {
    let (_running, address) = start_plain().await;
    // The first answer is counted after it was rendered.
    page(address).await;
    let before = series(&page(address).await);
    for number in 0..50 {
        fetch(address, &format!("/eureka/apps/APP-{number}")).await;
        fetch(address, &format!("/{number}/{number}")).await;
        let method = format!("/some.Service{number}/Method");
        h2(address).await.send_request(grpc(address, &method)).await.unwrap();
    }
    let after = series(&page(address).await);
    let families = |all: &BTreeSet<String>| {
        all.iter().map(|name| name.split('{').next().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(families(&before), families(&after));
    assert!(after.len() <= SERIES_MAX, "{} series", after.len());
    assert!(!after.iter().any(|name| name.contains("APP-") || name.contains("some.Service")));
}

#[tokio::test]
async fn two_servers_in_one_process_count_apart() {
    let ((_one, first), (_other, second)) = (start_plain().await, start_plain().await);
    fetch(first, "/eureka/apps").await;
    let rest = "heureka_rest_requests_total{route=\"apps\",code=\"2xx\"}";
    assert_eq!((metric(first, rest).await, metric(second, rest).await), (Some(1.0), Some(0.0)));
}

#[tokio::test]
async fn reports_are_counted_by_what_becomes_of_them() {
    let (_running, address) = start_plain().await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut owner = RegistryServiceClient::new(channel);
    let key = || Some(v1::InstanceKey { app: "A".into(), id: "1".into(), ..Default::default() });
    let instance = Some(v1::Instance { key: key(), ..Default::default() });
    owner.register(v1::RegisterRequest { instance, ..Default::default() }).await.unwrap();
    let report = |slots| {
        let available = [("slots".to_owned(), slots)].into();
        v1::ReportRequest { key: key(), available, ..Default::default() }
    };
    owner.report(report(3)).await.unwrap();
    owner.report(report(2)).await.unwrap();
    assert_eq!(owner.report(report(-1)).await.unwrap_err().code(), Code::InvalidArgument);
    for outcome in ["accepted", "capped", "refused"] {
        let series = format!("heureka_reading_reports_total{{outcome=\"{outcome}\"}}");
        assert_eq!(metric(address, &series).await, Some(1.0), "{outcome}");
    }
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_one_exists() {
    let (_running, address) = start(config(), Router::new()).await;
    page(address).await;
    let page = page(address).await;
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let shown: BTreeSet<_> = types.filter_map(|line| line.split(' ').next()).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let documented: BTreeSet<_> =
        docs.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(shown, documented);
}
