//! Who is served when credentials are configured, on every surface of the one port.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heureka_server::config::{PeerAddress, Token, User};
use heureka_server::{Running, Server, listen};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use support::*;

const USER: &str = "admin:p%40ss%3Aw%25rd!%C3%A9";

async fn guarded() -> (Running, SocketAddr) {
    let mut config = config();
    config.auth.users = vec![User::read(USER).unwrap()];
    config.auth.tokens = vec![Token::read("t0ken").unwrap()];
    start(config, Router::new()).await
}

fn right() -> String {
    format!("Basic {}", STANDARD.encode("admin:p@ss:w%rd!é"))
}

async fn ask(address: SocketAddr, method: &Method, path: &str, said: Option<&str>) -> Response<Incoming> {
    let mut request = Request::builder().method(method).uri(path).header("host", "test");
    if let Some(said) = said {
        request = request.header("authorization", said);
    }
    let body = if *method == Method::POST { Body::from(vec![b'{'; 200_000]) } else { Body::empty() };
    let request = request.header("content-type", "application/json").body(body).unwrap();
    h1(address).await.send_request(request).await.unwrap()
}

#[tokio::test]
async fn every_verb_and_path_is_turned_away_without_credentials_and_served_with_them() {
    let (_running, address) = guarded().await;
    let wrong = format!("Basic {}", STANDARD.encode("admin:p@ss:w%rd!"));
    let table = [
        (Method::GET, "/eureka/apps", 200),
        (Method::HEAD, "/eureka/apps", 200),
        (Method::OPTIONS, "/eureka/apps", 200),
        (Method::POST, "/eureka/apps/A", 400),
        (Method::PUT, "/eureka/apps/A/1", 404),
        (Method::DELETE, "/eureka/apps/A/1", 404),
        (Method::POST, "/eureka/peerreplication/batch", 403),
        (Method::GET, "/metrics", 200),
        (Method::GET, "/health/eureka", 200),
        (Method::GET, "/", 200),
        (Method::GET, "/page/main.js", 200),
        (Method::GET, "/v1/server", 200),
        (Method::GET, "/v1/events", 200),
        (Method::GET, "/v1/instance?app=A&id=b", 200),
        (Method::GET, "/no/such/path", 404),
    ];
    for (method, path, code) in table {
        for said in [None, Some(&*wrong), Some("Bearer other"), Some("nonsense")] {
            let answer = ask(address, &method, path, said).await;
            assert_eq!(answer.status(), 401, "{method} {path} {said:?}");
            assert!(answer.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic realm="));
            assert!(
                !answer.headers().contains_key("set-cookie") && !answer.headers().contains_key("location")
            );
            assert_eq!(text(answer).await, "");
        }
        for said in [&*right(), "Bearer t0ken"] {
            let answer = ask(address, &method, path, Some(said)).await;
            assert!(
                answer.status() == code || code == 200 && answer.status() == 204,
                "{method} {path} {}",
                answer.status()
            );
        }
    }
    let refused = "heureka_http_refused_total{reason=\"credentials\"}";
    let page = text(ask(address, &Method::GET, "/metrics", Some(&right())).await).await;
    assert!(page.contains(refused), "{refused} is missing");
}

#[tokio::test]
async fn probes_are_open_until_they_are_closed() {
    let (_running, address) = guarded().await;
    assert_eq!(fetch(address, "/health/live").await.0, 200);
    assert_eq!(fetch(address, "/health/ready").await.0, 200);
    let health = h2(address).await.send_request(grpc(address, "/grpc.health.v1.Health/Check")).await.unwrap();
    assert_eq!((health.status().as_u16(), health.headers().get("grpc-status")), (200, None));
    let mut closed = config();
    closed.auth.users = vec![User::read(USER).unwrap()];
    closed.auth.open_health = false;
    let (_other, address) = start(closed, Router::new()).await;
    assert_eq!(fetch(address, "/health/live").await.0, 401);
}

#[tokio::test]
async fn grpc_is_told_in_its_own_language() {
    let (_running, address) = guarded().await;
    let path = "/heureka.registry.v1.DiscoveryService/ListApplications";
    let refused = h2(address).await.send_request(grpc(address, path)).await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["grpc-status"]), (200, &"16".parse().unwrap()));
    assert!(!refused.headers().contains_key("www-authenticate"));
    let mut request = grpc(address, path);
    request.headers_mut().insert("authorization", "Bearer t0ken".parse().unwrap());
    let served = h2(address).await.send_request(request).await.unwrap();
    assert_eq!(served.headers().get("grpc-status"), None);
}

#[tokio::test]
async fn servers_of_one_cluster_let_each_other_in() {
    let listeners =
        [listen::bind(config().server.listen).unwrap(), listen::bind(config().server.listen).unwrap()];
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let mut nodes = Vec::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        let mut config = config();
        config.server.node_id = format!("n{number}");
        config.auth.users = vec![User::read(USER).unwrap()];
        config.peer.list =
            addresses.iter().map(|peer| PeerAddress::read(&peer.to_string()).unwrap()).collect();
        config.startup.peer_wait = Duration::from_millis(1);
        nodes.push(Server::new(config, world_of(number as u64 + 1)).start(vec![listener]).await.unwrap());
    }
    let connected = || nodes.iter().all(|node| node.peers().connected().len() == 1);
    tokio::time::timeout(Duration::from_secs(60), async {
        while !connected() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
}
