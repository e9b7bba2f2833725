//! What a caller can send that is no valid message, and the standard services.

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use heureka_proto::served;
use http::{Request, Response, StatusCode};
use proptest::prelude::*;
use prost::Message as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceExt as _;

use super::*;
use crate::grpc::unknown_method;
use crate::life::State;

const REGISTRY: &str = "heureka.registry.v1.RegistryService";
const DISCOVERY: &str = "heureka.registry.v1.DiscoveryService";

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

fn request(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path)
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body.into())
        .unwrap()
}

async fn send(server: &Server, request: Request<Body>) -> Response<Body> {
    server.grpc.router.clone().oneshot(request).await.unwrap()
}

/// The status of an answer without a message.
#[track_caller]
fn status(response: &Response<Body>) -> Status {
    assert_eq!(response.status(), StatusCode::OK);
    Status::from_header_map(response.headers()).unwrap_or_else(|| Status::ok(""))
}

#[tokio::test(start_paused = true)]
async fn unreadable_messages_are_invalid_arguments() {
    let server = Server::start().await;
    let path = format!("/{REGISTRY}/Register");
    let wrong_type = [0x0a, 0x02, 0x10, 0x01, 0xff];
    let truncated = &framed(b"\x0a\x7f")[..6];
    let cut_short = [0, 0, 0, 0, 99, 1, 2];
    let bodies = [
        framed(&wrong_type),
        Bytes::copy_from_slice(truncated),
        Bytes::copy_from_slice(&cut_short),
        Bytes::new(),
    ];
    for body in bodies {
        let response = send(&server, request(&path, body)).await;
        let (code, reason, _) = refusal(&status(&response));
        assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "MALFORMED_MESSAGE"));
    }
    assert_eq!(server.registry.head(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_entry_of_a_batch_fails_alone() {
    let server = Server::start().await;
    let good = |id: &str| v1::RegisterRequest { instance: Some(instance("web", id)), ..Default::default() };
    let wrong_type = Bytes::from_static(&[0x0a, 0x02, 0x10, 0x01, 0xff]);
    let entries = [good("a").encode_to_vec().into(), wrong_type.clone(), good("b").encode_to_vec().into()];
    let batch = served::BatchRegisterRequest { requests: entries.to_vec() }.encode_to_vec();
    let batch = accepted(&server, "BatchRegister", &batch).await;
    let answer = v1::BatchRegisterResponse::decode(batch.as_slice()).unwrap();
    let reasons = answer.results.iter().map(|one| one.status.as_ref().unwrap().reason.as_str());
    assert_eq!(reasons.collect::<Vec<_>>(), ["", "MALFORMED_MESSAGE", ""]);
    assert_eq!(server.registry.stats().instances, 2);

    let beat = |id: &'static str| {
        let request = v1::RenewRequest { key: Some(key("web", id)), ..Default::default() };
        Bytes::from(request.encode_to_vec())
    };
    let no_text = Bytes::from_static(&[0x0a, 0x06, 0x12, 0x01, 0xff, 0x1a, 0x01, b'a']);
    let entries = [beat("a"), wrong_type, no_text, beat("b"), beat("nobody")];
    let batch = served::BatchRenewRequest { requests: entries.to_vec() }.encode_to_vec();
    let answer =
        v1::BatchRenewResponse::decode(accepted(&server, "BatchRenew", &batch).await.as_slice()).unwrap();
    let told = |one: &v1::BatchRenewFailure| {
        let status = one.status.clone().unwrap();
        (one.index, status.reason, status.field)
    };
    let told: Vec<_> = answer.failures.iter().map(told).collect();
    let expected =
        [(1, "MALFORMED_MESSAGE", ""), (2, "INVALID_REQUEST", "key.app"), (4, "LEASE_NOT_FOUND", "")];
    assert_eq!(told, expected.map(|(index, reason, field)| (index, reason.to_owned(), field.to_owned())));
}

/// The bytes of the answer to a call that succeeds.
async fn accepted(server: &Server, method: &str, message: &[u8]) -> Vec<u8> {
    let response = send(server, request(&format!("/{REGISTRY}/{method}"), framed(message))).await;
    assert_eq!(status(&response).code(), Code::Ok);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    body[5..].to_vec()
}

#[tokio::test(start_paused = true)]
async fn messages_have_a_size_and_batches_a_larger_one() {
    let server = Server::start().await;
    let two_mebibytes = v1::RegisterRequest {
        instance: Some(v1::Instance { app_group: "g".repeat(2 << 20), ..instance("web", "n1") }),
        ..Default::default()
    };
    let single = framed(&two_mebibytes.encode_to_vec());
    let response = send(&server, request(&format!("/{REGISTRY}/Register"), single)).await;
    let (code, reason, _) = refusal(&status(&response));
    assert_eq!((code, reason.as_str()), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"));

    let batch = |requests| v1::BatchRegisterRequest { requests };
    let answer =
        server.writer().batch_register(batch(vec![two_mebibytes.clone()])).await.unwrap().into_inner();
    assert_eq!(answer.results[0].status.as_ref().unwrap().field, "instance.app_group");
    let six = server.writer().batch_register(batch(vec![two_mebibytes; 3])).await;
    assert_refused(six, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");
}

#[tokio::test(start_paused = true)]
async fn lists_are_refused_before_they_are_built() {
    let server = Server::start().await;
    let two_million_items = [0x0a, 0x00].repeat((4 << 20) / 2 - 1);
    for method in ["BatchRegister", "BatchRenew"] {
        let path = format!("/{REGISTRY}/{method}");
        let response = send(&server, request(&path, framed(&two_million_items))).await;
        let status = status(&response);
        let expected = (Code::InvalidArgument, "TOO_MANY_ITEMS".to_owned(), "requests".to_owned());
        assert_eq!(refusal(&status), expected);
        assert_eq!(status.message(), "requests: has 2097151, more than the limit of 10000");
    }
    let selectors = [0x0a, 0x00].repeat(10_001);
    let response = send(&server, request(&format!("/{DISCOVERY}/ListInstances"), framed(&selectors))).await;
    assert_eq!(refusal(&status(&response)).2, "selectors");
    let spec = v1::WatchSpec { selectors: vec![Default::default(); 10_001], ..Default::default() };
    let watch = v1::WatchRequest { spec: Some(spec), ..Default::default() };
    let answer = server.reader().watch(watch).await;
    assert_refused(answer, Code::InvalidArgument, "TOO_MANY_ITEMS", "spec.selectors");
}

#[tokio::test(start_paused = true)]
async fn the_longest_batch_is_taken() {
    let server = Server::start().await;
    let request = |id| v1::RenewRequest { key: Some(key("web", &format!("{id}"))), ..Default::default() };
    let batch = |count| v1::BatchRenewRequest { requests: (0..count).map(request).collect() };
    let answer = server.writer().batch_renew(batch(10_000)).await.unwrap().into_inner();
    assert_eq!(answer.failures.len(), 10_000);
    let answer = server.writer().batch_renew(batch(10_001)).await;
    assert_refused(answer, Code::InvalidArgument, "TOO_MANY_ITEMS", "requests");
}

#[tokio::test(start_paused = true)]
async fn a_compressed_message_is_measured_inflated() {
    let server = Server::start().await;
    let gzip = tonic::codec::CompressionEncoding::Gzip;
    let register = |length| {
        let metadata = [("k".to_owned(), "v".repeat(length))].into();
        let instance = Some(v1::Instance { metadata, ..instance("web", "n1") });
        let mut client = server.writer().send_compressed(gzip);
        async move { client.register(v1::RegisterRequest { instance, ..Default::default() }).await }
    };
    assert!(register(1000).await.is_ok());
    assert_refused(register(64 << 20).await, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_arrive_ends_at_its_deadline() {
    let server = Server::start().await;
    let path = format!("/{REGISTRY}/Renew");
    let table = [(None, 5), (Some("2S"), 2), (Some("1H"), 30)];
    for (timeout, expected) in table {
        let never = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let mut request = request(&path, never);
        if let Some(timeout) = timeout {
            request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
        }
        let start = server.clock.now().mono;
        let response = send(&server, request).await;
        let (code, reason, _) = refusal(&status(&response));
        assert_eq!((code, reason.as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
        assert_eq!(server.clock.now().mono.since(start).as_secs(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_deadline_is_refused() {
    let server = Server::start().await;
    let mut request = request(&format!("/{REGISTRY}/Renew"), framed(b""));
    request.headers_mut().insert("grpc-timeout", "soon".parse().unwrap());
    let response = send(&server, request).await;
    assert_eq!(refusal(&status(&response)).2, "grpc-timeout");
}

#[tokio::test(start_paused = true)]
async fn unknown_methods_are_unimplemented_with_http_200() {
    let server = Server::start().await;
    let response = send(&server, request(&format!("/{REGISTRY}/Fly"), framed(b""))).await;
    assert_eq!(status(&response).code(), Code::Unimplemented);

    let response: Response<Body> = unknown_method(&request("/no.such.Service/Fly", framed(b""))).unwrap();
    assert_eq!(status(&response).code(), Code::Unimplemented);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let rest = Request::get("/eureka/fly").body(()).unwrap();
    assert!(unknown_method::<_, Body>(&rest).is_none());
}

#[tokio::test(start_paused = true)]
async fn browsers_reach_the_services_over_http_1() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let message = v1::GetInstanceRequest { key: Some(key("web", "n1")) }.encode_to_vec();
    let request = Request::post(format!("/{DISCOVERY}/GetInstance"))
        .version(http::Version::HTTP_11)
        .header("content-type", "application/grpc-web+proto")
        .body(Body::from(framed(&message)))
        .unwrap();
    let response = send(&server, request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto");
    let frames: Vec<Bytes> = response.into_body().into_data_stream().map(Result::unwrap).collect().await;
    let body = frames.concat();
    let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
    let answer = v1::GetInstanceResponse::decode(&body[5..5 + length]).unwrap();
    assert_eq!(answer.instance.unwrap().key, Some(key("WEB", "n1")));
    let trailers = String::from_utf8(body[5 + length + 5..].to_vec()).unwrap();
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test(start_paused = true)]
async fn health_follows_the_drain() {
    let server = Server::start().await;
    let check = |service: &str| {
        let request = HealthCheckRequest { service: service.into() };
        let mut client = HealthClient::new(server.grpc.router.clone());
        async move { client.check(request).await.map(|answer| answer.into_inner().status) }
    };
    const SERVING: i32 = 1;
    const NOT_SERVING: i32 = 2;
    for service in ["", REGISTRY, DISCOVERY] {
        assert_eq!(check(service).await.unwrap(), SERVING, "{service}");
    }
    assert_eq!(check("unknown").await.unwrap_err().code(), Code::NotFound);
    server.grpc.health.set(State::Draining).await;
    assert_eq!(check("").await.unwrap(), SERVING);
    assert_eq!(check(REGISTRY).await.unwrap(), NOT_SERVING);
    assert_eq!(check(DISCOVERY).await.unwrap(), NOT_SERVING);
    server.drain.cancel();
    assert_eq!(check(REGISTRY).await.unwrap(), NOT_SERVING);
}

#[tokio::test(start_paused = true)]
async fn reflection_lists_the_services_in_both_versions() {
    use tonic_reflection::pb::{v1 as current, v1alpha as former};
    let server = Server::start().await;
    let router = &server.grpc.router;

    let list = current::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = current::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut client = current::server_reflection_client::ServerReflectionClient::new(router.clone());
    let mut answers = client.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
    let answer = format!("{:?}", answers.message().await.unwrap());
    assert!(answer.contains("heureka.registry.admin.v1.AdminService"));
    assert!(answer.contains(REGISTRY) && answer.contains(DISCOVERY) && answer.contains("grpc.health.v1"));

    let symbol = former::server_reflection_request::MessageRequest::FileContainingSymbol(REGISTRY.into());
    let request = former::ServerReflectionRequest { host: String::new(), message_request: Some(symbol) };
    let mut client = former::server_reflection_client::ServerReflectionClient::new(router.clone());
    let mut answers = client.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
    let answer = format!("{:?}", answers.message().await.unwrap());
    assert!(answer.contains("FileDescriptorResponse"), "{answer}");
}

const METHODS: [(&str, &str); 12] = [
    (REGISTRY, "Register"),
    (REGISTRY, "BatchRegister"),
    (REGISTRY, "Renew"),
    (REGISTRY, "BatchRenew"),
    (REGISTRY, "Cancel"),
    (REGISTRY, "SetStatusOverride"),
    (REGISTRY, "ClearStatusOverride"),
    (REGISTRY, "UpdateMetadata"),
    (DISCOVERY, "GetInstance"),
    (DISCOVERY, "ListInstances"),
    (DISCOVERY, "ListApplications"),
    (DISCOVERY, "Watch"),
];

fn answer_to(body: &[u8], method: (&str, &str)) -> Status {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let server = Server::start().await;
        let path = format!("/{}/{}", method.0, method.1);
        let response = send(&server, request(&path, Bytes::copy_from_slice(body))).await;
        status(&response)
    })
}

fn is_documented(code: Code) -> bool {
    matches!(
        code,
        Code::Ok | Code::InvalidArgument | Code::NotFound | Code::Unimplemented | Code::ResourceExhausted
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_messages_get_a_documented_answer(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        for method in METHODS {
            let status = answer_to(&framed(&bytes), method);
            prop_assert!(is_documented(status.code()), "{method:?}: {status:?}");
        }
    }

    #[test]
    fn arbitrary_bodies_get_a_documented_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let status = answer_to(&bytes, METHODS[0]);
        prop_assert!(is_documented(status.code()), "{status:?}");
    }

    #[test]
    fn damaged_registrations_get_a_documented_answer(at: prop::sample::Index, flip in 1..=255_u8) {
        let metadata = [("k".to_owned(), "v".to_owned())].into();
        let lease = Some(v1::Lease { duration: Some(seconds(90)), ..Default::default() });
        let instance = Some(v1::Instance { metadata, lease, ..instance("web", "n1") });
        let writer = writer(1, 5, true);
        let mut message = v1::RegisterRequest { instance, writer, mode: 1 }.encode_to_vec();
        let at = at.index(message.len());
        message[at] ^= flip;
        let status = answer_to(&framed(&message), METHODS[0]);
        prop_assert!(is_documented(status.code()), "{status:?}");
    }
}
