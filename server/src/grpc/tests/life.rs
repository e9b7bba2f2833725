//! A server that does not know everything yet.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::life::Seen;

/// A server with a peer that is not ready until told.
async fn syncing() -> (Server, Arc<AtomicBool>) {
    let ready = Arc::new(AtomicBool::new(false));
    let told = ready.clone();
    let mut cluster = Cluster::alone();
    cluster.seen = Arc::new(move || {
        let ready = told.load(Ordering::Relaxed);
        Seen { configured: true, reachable: true, ready, synced: ready }
    });
    let server = Server::among(cluster, WAITING).await;
    (server, ready)
}

const WAITING: Rules = Rules { hold: Duration::ZERO, peer_wait: Duration::from_hours(1) };

#[track_caller]
fn is_syncing<T: std::fmt::Debug>(answer: Result<T, Status>) {
    let status = answer.unwrap_err();
    assert_eq!(refusal(&status), (Code::Unavailable, "SYNCING".into(), String::new()));
    assert!(status.get_error_details().retry_info().is_some());
}

#[tokio::test(start_paused = true)]
async fn readers_are_refused_and_writers_served_until_a_ready_peer_told_everything() {
    let (server, ready) = syncing().await;
    let registered = server.register(instance("WEB", "a")).await;
    assert_eq!(registered.header.unwrap().mode(), v1::ServerMode::Syncing);
    let renewal = v1::RenewRequest { key: Some(key("WEB", "a")), ..Default::default() };
    server.writer().renew(renewal).await.unwrap();
    let get = v1::GetInstanceRequest { key: Some(key("WEB", "a")) };
    is_syncing(server.reader().get_instance(get.clone()).await);
    is_syncing(server.reader().list_instances(v1::ListInstancesRequest::default()).await);
    is_syncing(server.reader().list_applications(v1::ListApplicationsRequest::default()).await);
    is_syncing(server.reader().watch(v1::WatchRequest::default()).await);
    assert_eq!(server.grpc.watches.open(), 0);

    ready.store(true, Ordering::Relaxed);
    server.life.look();
    let found = server.reader().get_instance(get).await.unwrap().into_inner();
    assert_eq!(found.header.unwrap().mode(), v1::ServerMode::Normal);
    assert!(server.cancel("WEB", "a").await.existed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_before_it_was_ready_still_answers_no_reader() {
    let (server, ready) = syncing().await;
    server.life.drain();
    ready.store(true, Ordering::Relaxed);
    server.life.look();
    is_syncing(server.reader().watch(v1::WatchRequest::default()).await);
    let registered = server.register(instance("WEB", "a")).await;
    assert_eq!(registered.header.unwrap().mode(), v1::ServerMode::Draining);
}
