//! The one port over TLS: every protocol, new certificates while it runs, and clients that do not shake hands.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

#[path = "support/authority.rs"]
mod authority;
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, Files, der, text as path};
use axum::Router;
use axum::body::Body;
use axum::routing::post;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_server::config::{Config, EurekaUrl, PeerAddress, RegionUrl, User};
use heureka_server::{Running, Server, listen};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use support::{Raw, config, said_to, start, text, world_of};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use v1::watch_event::Event;

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server over TLS and who vouches for it.
struct Secure {
    running: Running,
    address: SocketAddr,
    authority: Authority,
    files: Files,
}

impl Secure {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let authority = Authority::new();
        let files = Files::new(&authority, &authority.issue());
        let mut config = secured(&files);
        change(&mut config);
        let echo = Router::new().route("/echo", post(async |body: String| body));
        let (running, address) = start(config, echo).await;
        Self { running, address, authority, files }
    }

    async fn connect(&self, alpn: &[&str]) -> TlsStream<TcpStream> {
        let connector = TlsConnector::from(self.authority.believed(alpn));
        let name = ServerName::from(self.address.ip());
        connector.connect(name, TcpStream::connect(self.address).await.unwrap()).await.unwrap()
    }

    /// The certificate that a new connection is shown.
    async fn shown(&self) -> Vec<u8> {
        self.connect(&[]).await.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    async fn ask(&self, request: Request<Body>) -> Response<Incoming> {
        let socket = TokioIo::new(self.connect(&["http/1.1"]).await);
        let (mut sender, connection) = http1::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    async fn fetch(&self, path: &str) -> (u16, String) {
        let answer = self.ask(get(path)).await;
        (answer.status().as_u16(), text(answer).await)
    }

    async fn metric(&self, series: &str) -> f64 {
        let (_, page) = self.fetch("/metrics").await;
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    async fn channel(&self) -> Channel {
        trusting(&self.authority, self.address).connect().await.unwrap()
    }
}

/// The defaults over TLS.
fn secured(files: &Files) -> Config {
    let mut config = config();
    config.tls.certificate = path(&files.certificate());
    config.tls.key = path(&files.key());
    config.tls.ca = path(&files.ca());
    config
}

/// A stock client that believes this authority.
fn trusting(authority: &Authority, address: SocketAddr) -> Endpoint {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
    Endpoint::from_shared(format!("https://{address}")).unwrap().tls_config(tls).unwrap()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "test").body(Body::empty()).unwrap()
}

fn instance(id: &str) -> v1::RegisterRequest {
    let key = Some(v1::InstanceKey { app: "WEB".into(), id: id.into(), ..Default::default() });
    let instance = Some(v1::Instance { key, ..Default::default() });
    v1::RegisterRequest { instance, ..Default::default() }
}

async fn watch(channel: Channel) -> tonic::Streaming<v1::WatchResponse> {
    let request = v1::WatchRequest { spec: Some(v1::WatchSpec::default()), client_name: String::new() };
    DiscoveryServiceClient::new(channel).watch(request).await.unwrap().into_inner()
}

/// Waits until a watch tells of an instance.
async fn tells(watch: &mut tonic::Streaming<v1::WatchResponse>, id: &str) {
    let telling = async {
        loop {
            let message = watch.message().await.unwrap().expect("the watch goes on");
            let Some(Event::Changes(batch)) = message.event.and_then(|event| event.event) else { continue };
            if batch.changes.iter().any(|change| change.key.as_ref().unwrap().id == id) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, telling).await.unwrap_or_else(|_| panic!("never told of {id}"));
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn a_stock_grpc_client_registers_and_watches() {
    let secure = Secure::start(|_| {}).await;
    let mut watch = watch(secure.channel().await).await;
    RegistryServiceClient::new(secure.channel().await).register(instance("1")).await.unwrap();
    tells(&mut watch, "1").await;
}

#[tokio::test]
async fn http_is_spoken_as_both_sides_agree() {
    let secure = Secure::start(|_| {}).await;
    for (offered, agreed) in [
        (&["http/1.1"][..], Some("http/1.1")),
        (&["h2", "http/1.1"], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["h2"], Some("h2")),
        (&[], None),
    ] {
        let socket = secure.connect(offered).await;
        let protocol =
            socket.get_ref().1.alpn_protocol().map(|word| String::from_utf8(word.to_vec()).unwrap());
        assert_eq!(protocol.as_deref(), agreed, "{offered:?}");
        let answer = if agreed == Some("h2") {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
            tokio::spawn(connection);
            let url = format!("https://{}/eureka/apps", secure.address);
            sender.send_request(Request::get(url).body(Body::empty()).unwrap()).await.unwrap()
        } else {
            let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(get("/eureka/apps")).await.unwrap()
        };
        assert_eq!(answer.status(), 200, "{offered:?}");
        assert!(text(answer).await.contains("<applications>"));
    }
    assert_eq!(secure.metric("heureka_connection_accepted_total{protocol=\"h2\"}").await, 3.0);
}

#[tokio::test]
async fn the_page_its_events_and_grpc_web_are_served() {
    let secure = Secure::start(|_| {}).await;
    let page = Request::get("/").header("host", "test").header("accept", "text/html");
    let page = secure.ask(page.body(Body::empty()).unwrap()).await;
    assert!(page.status() == 200 && text(page).await.contains("<html"));
    let mut events = secure.ask(get("/v1/events")).await.into_body();
    assert!(events.frame().await.unwrap().unwrap().is_data(), "the stream begins");
    let web = Request::post("/heureka.registry.v1.DiscoveryService/ListApplications").header("host", "test");
    let web = web.header("content-type", "application/grpc-web+proto").body(Body::from(vec![0; 5])).unwrap();
    let web = secure.ask(web).await;
    assert_eq!(web.status(), 200);
    let told = web.into_body().collect().await.unwrap().to_bytes();
    assert!(told.windows(13).any(|part| part == b"grpc-status:0"), "{told:?}");
}

#[tokio::test]
async fn large_bodies_arrive_whole_in_both_directions() {
    let secure = Secure::start(|_| {}).await;
    let large: String = (0..150_000).map(|number| char::from(b'a' + (number % 23) as u8)).collect();
    for _ in 0..3 {
        let request = Request::post("/echo").header("host", "test").body(Body::from(large.clone())).unwrap();
        assert!(text(secure.ask(request).await).await == large);
    }
}

#[tokio::test]
async fn who_is_not_vouched_for_is_refused_and_the_server_goes_on() {
    let secure = Secure::start(|_| {}).await;
    let failed = trusting(&Authority::new(), secure.address).connect().await.unwrap_err();
    assert!(format!("{failed:?}").contains("UnknownIssuer"), "{failed:?}");
    until("it is counted", async || {
        secure.metric("heureka_connection_closed_total{reason=\"tls\"}").await == 1.0
    })
    .await;
    assert_eq!(secure.fetch("/health/live").await.0, 200);
}

#[tokio::test]
async fn plain_http_is_closed_without_an_answer() {
    let secure = Secure::start(|_| {}).await;
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for plain in ["GET /eureka/apps HTTP/1.1\r\nhost: x\r\n\r\n", preface, "\0\0\0\0\0\0"] {
        let said = said_to(secure.address, plain).await;
        assert!(!said.contains("HTTP"), "{plain:?} got {said:?}");
    }
    until("they are counted", async || {
        secure.metric("heureka_connection_closed_total{reason=\"tls\"}").await == 3.0
    })
    .await;
}

#[tokio::test]
async fn clients_that_do_not_shake_hands_are_closed_in_time_and_hinder_nobody() {
    let secure = Secure::start(|config| config.limits.first_byte_timeout = Duration::from_secs(2)).await;
    let mut silent = Vec::new();
    for index in 0..200 {
        let mut raw = Raw::open(secure.address).await;
        // Nothing, or the beginning of a greeting that has 512 bytes.
        raw.send([&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"][index % 2]).await;
        silent.push(raw);
    }
    assert_eq!(secure.fetch("/health/live").await.0, 200);
    for mut raw in silent {
        assert_eq!(raw.rest().await, "");
    }
    until("they are counted", async || {
        secure.metric("heureka_connection_closed_total{reason=\"timeout\"}").await == 200.0
    })
    .await;
}

#[tokio::test]
async fn who_shook_hands_and_says_nothing_is_closed_in_time() {
    let secure = Secure::start(|config| config.limits.first_byte_timeout = Duration::from_secs(1)).await;
    let mut socket = secure.connect(&["h2"]).await;
    let mut rest = Vec::new();
    // However it ends: it does.
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_client_that_hangs_up_without_taking_leave_is_no_error() {
    let secure = Secure::start(|_| {}).await;
    let (mut sender, connection) = http1::handshake(TokioIo::new(secure.connect(&[]).await)).await.unwrap();
    let connection = tokio::spawn(connection.without_shutdown());
    assert_eq!(sender.send_request(get("/health/live")).await.unwrap().status(), 200);
    drop(sender);
    // The socket is closed under TLS.
    drop(connection.await.unwrap().unwrap().io.into_inner().into_inner().0);
    until("only who asks is left", async || secure.metric("heureka_connection_open").await == 1.0).await;
    assert_eq!(secure.metric("heureka_connection_closed_total{reason=\"error\"}").await, 0.0);
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_an_old_watch_goes_on() {
    let secure = Secure::start(|_| {}).await;
    let before = secure.shown().await;
    let mut watch = watch(secure.channel().await).await;
    let mut writer = RegistryServiceClient::new(secure.channel().await);
    writer.register(instance("1")).await.unwrap();
    tells(&mut watch, "1").await;
    let next = secure.authority.issue();
    secure.files.write(&next);
    secure.running.reload_certificates();
    until("the new one is shown", async || secure.shown().await == der(&next.certificate).to_vec()).await;
    assert_ne!(before, der(&next.certificate).to_vec());
    writer.register(instance("2")).await.unwrap();
    tells(&mut watch, "2").await;
    assert_eq!(secure.metric("heureka_tls_reloads_total{outcome=\"taken\"}").await, 1.0);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_leaves_the_last_and_is_told() {
    let secure = Secure::start(|_| {}).await;
    let before = secure.shown().await;
    std::fs::write(secure.files.key(), secure.authority.issue().key).unwrap();
    // Nobody rings: it is found by itself.
    let refused = "heureka_tls_reloads_total{outcome=\"refused\"}";
    until("it is counted", async || secure.metric(refused).await == 1.0).await;
    let (status, ready) = secure.fetch("/health/ready").await;
    assert!(status == 200 && ready.contains("tls.key: it is not the key"), "{status} {ready}");
    assert_eq!(secure.shown().await, before);
}

/// A setting of a configuration.
type Field = fn(&mut Config) -> &mut String;

#[tokio::test]
async fn files_that_cannot_be_used_end_the_start_with_the_setting_at_fault() {
    let authority = Authority::new();
    let files = Files::new(&authority, &authority.issue());
    let other = Files::new(&authority, &authority.issue());
    let missing = "/nonexistent/x.pem".to_owned();
    let table: [(Field, String, &str); 4] = [
        (|config| &mut config.tls.certificate, missing.clone(), "tls.certificate: /nonexistent/x.pem: "),
        (|config| &mut config.tls.key, missing.clone(), "tls.key: /nonexistent/x.pem: "),
        (|config| &mut config.tls.ca, missing, "tls.ca: /nonexistent/x.pem: "),
        (|config| &mut config.tls.key, path(&other.key()), "tls.key: it is not the key"),
    ];
    for (field, value, expected) in table {
        let mut config = secured(&files);
        *field(&mut config) = value;
        let listener = listen::bind(config.server.listen).unwrap();
        let told = Server::new(config, world_of(1)).start(vec![listener]).await.err().unwrap().to_string();
        assert!(told.starts_with(expected), "{told}");
    }
}

#[tokio::test]
async fn credentials_are_asked_for_over_tls_as_well() {
    let secure = Secure::start(|config| config.auth.users = vec![User::read("admin:pass").unwrap()]).await;
    assert_eq!(secure.fetch("/eureka/apps").await.0, 401);
    let mut request = get("/eureka/apps");
    request.headers_mut().insert("authorization", "Basic YWRtaW46cGFzcw==".parse().unwrap());
    assert_eq!(secure.ask(request).await.status(), 200);
    let mut client = RegistryServiceClient::new(secure.channel().await);
    assert_eq!(client.register(instance("1")).await.unwrap_err().code(), tonic::Code::Unauthenticated);
    let mut request = tonic::Request::new(instance("1"));
    request.metadata_mut().insert("authorization", "Basic YWRtaW46cGFzcw==".parse().unwrap());
    client.register(request).await.unwrap();
}

#[tokio::test]
async fn an_operator_is_not_answered_when_a_page_of_a_browser_may_have_asked() {
    let secure = Secure::start(|_| {}).await;
    let ask = async |kind: Option<&str>| {
        let socket = TokioIo::new(secure.connect(&["h2"]).await);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
        tokio::spawn(connection);
        let url =
            format!("https://{}/heureka.registry.admin.v1.AdminService/GetServerStatus", secure.address);
        let mut request = Request::post(url).header("te", "trailers");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let answer = sender.send_request(request.body(Body::from(vec![0; 5])).unwrap()).await.unwrap();
        answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    };
    assert_eq!(ask(Some("application/grpc")).await, None, "an answer has its status at its end");
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        assert_eq!(ask(kind).await.as_deref(), Some("7"), "{kind:?}");
    }
}

/// Two servers that know each other by these words before their addresses, with files of their own.
async fn pair(files: [&Files; 2], scheme: &str) -> [Running; 2] {
    let listeners = [(); 2].map(|()| listen::bind(config().server.listen).unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let mut nodes = Vec::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        let mut config = secured(files[number]);
        config.server.node_id = format!("n{number}");
        config.peer.list =
            addresses.iter().map(|peer| PeerAddress::read(&format!("{scheme}{peer}")).unwrap()).collect();
        config.startup.peer_wait = Duration::from_millis(1);
        nodes.push(Server::new(config, world_of(number as u64 + 1)).start(vec![listener]).await.unwrap());
    }
    nodes.try_into().unwrap_or_else(|_| panic!("there are two"))
}

#[tokio::test]
async fn servers_of_one_cluster_call_each_other_over_tls() {
    let authority = Authority::new();
    let files = Files::new(&authority, &authority.issue());
    let nodes = pair([&files, &files], "https://").await;
    until("both have a stream", async || nodes.iter().all(|node| node.peers().connected().len() == 1)).await;
}

#[tokio::test]
async fn servers_believe_only_whom_their_authority_vouches_for() {
    let (one, other) = (Authority::new(), Authority::new());
    let files = [Files::new(&one, &one.issue()), Files::new(&other, &other.issue())];
    let nodes = pair([&files[0], &files[1]], "https://").await;
    until("both say why", async || {
        nodes
            .iter()
            .all(|node| node.peers().unreached().iter().any(|(_, reason)| reason.contains("UnknownIssuer")))
    })
    .await;
    assert!(nodes.iter().all(|node| node.peers().connected().is_empty()));
}

#[tokio::test]
async fn one_that_believes_the_other_is_enough() {
    let (one, other) = (Authority::new(), Authority::new());
    let files = [Files::new(&one, &one.issue()), Files::new(&other, &other.issue())];
    std::fs::write(files[0].ca(), one.pem() + &other.pem()).unwrap();
    let nodes = pair([&files[0], &files[1]], "https://").await;
    until("there is a stream, and nothing is amiss", async || {
        let is_well = |node: &Running| node.peers().connected().len() == 1 && node.peers().amiss().is_empty();
        nodes.iter().all(is_well)
    })
    .await;
}

#[tokio::test]
async fn a_peer_is_called_over_tls_as_soon_as_its_file_says_so() {
    let authority = Authority::new();
    let files = Files::new(&authority, &authority.issue());
    let list = tempfile::NamedTempFile::new().unwrap();
    let secure = Secure::start(|config| config.peer.trusted = vec!["127.0.0.1".parse().unwrap()]).await;
    std::fs::write(list.path(), secure.address.to_string()).unwrap();
    std::fs::write(files.ca(), secure.authority.pem()).unwrap();
    let mut config = secured(&files);
    config.peer.file = path(list.path());
    let listener = listen::bind(config.server.listen).unwrap();
    let caller = Server::new(config, world_of(7)).start(vec![listener]).await.unwrap();
    until("it is not reached without", async || !caller.peers().unreached().is_empty()).await;
    std::fs::write(list.path(), format!("https://{}", secure.address)).unwrap();
    until("it is reached", async || caller.peers().connected().len() == 1).await;
    assert_eq!(caller.peers().attempts().len(), 1);
}

#[tokio::test]
async fn servers_of_the_other_kind_and_regions_are_called_over_tls() {
    let secure = Secure::start(|config| config.peer.trusted = vec!["127.0.0.1".parse().unwrap()]).await;
    RegistryServiceClient::new(secure.channel().await).register(instance("there")).await.unwrap();
    let mut config = config();
    config.tls.ca = path(&secure.files.ca());
    config.eureka.check_interval = Duration::from_millis(100);
    config.eureka.connect_timeout = Duration::from_secs(30);
    let url = |scheme: &str, rest: &str| format!("{scheme}://{}{rest}", secure.address);
    config.eureka.peers = vec![EurekaUrl::read(&url("https", "/eureka/")).unwrap()];
    let regions = [format!("lists={}", url("https", "/eureka/")), format!("watch={}", url("grpcs", ""))];
    config.eureka.regions = regions.iter().map(|region| RegionUrl::read(region).unwrap()).collect();
    let (_caller, address) = start(config, Router::new()).await;
    for path in ["/eureka/apps/WEB", "/eureka/apps?regions=lists", "/eureka/apps?regions=watch"] {
        until(path, async || support::fetch(address, path).await.1.contains("there")).await;
    }
}

/// Whether a plain connection pays for TLS is looked at where its parts are; here, that it is served as before.
#[tokio::test]
async fn a_server_that_only_calls_over_tls_is_itself_plain() {
    let authority = Authority::new();
    let files = Files::new(&authority, &authority.issue());
    let mut config = config();
    config.tls.ca = path(&files.ca());
    let (_running, address) = start(config, Router::new()).await;
    assert_eq!(support::fetch(address, "/health/live").await.0, 200);
    let refused = TlsConnector::from(Arc::clone(&authority.believed(&[])))
        .connect(ServerName::from(address.ip()), TcpStream::connect(address).await.unwrap())
        .await;
    assert!(refused.is_err());
}
