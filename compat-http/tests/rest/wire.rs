//! A real connection: what only shows in the bytes.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Draft, Server};

async fn connected(server: &Server) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TowerToHyperService::new(server.router());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await
            .unwrap();
    });
    TcpStream::connect(address).await.unwrap()
}

/// Sends a request and reads head and body of the answer, whose length must be told.
async fn exchange(stream: &mut TcpStream, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.unwrap()));
    }
    let head = head.to_ascii_lowercase();
    let told = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; told.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn one_connection_serves_all_that_clients_do_on_it() {
    let server = Server::new();
    let mut stream = connected(&server).await;
    let body = Draft::new("TCP", "t1", "UP", 1).json();
    let chunked = format!(
        "POST /eureka/apps/TCP HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let (head, _) = exchange(&mut stream, &chunked).await;
    assert!(head.starts_with("http/1.1 204 "), "{head}");
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    let upgrade = "PUT /eureka/apps/TCP/t1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let (head, body) = exchange(&mut stream, upgrade).await;
    assert!(head.starts_with("http/1.1 200 ") && head.contains("content-length: 0"), "{head}");
    assert!(body.is_empty() && !head.contains("content-type"), "{head}");
    let (head, _) = exchange(&mut stream, "PUT /eureka/apps/NOPE/t1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(head.starts_with("http/1.1 404 ") && head.contains("content-length: 0"), "{head}");
    let (head, list) = exchange(&mut stream, "GET /apps HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(
        head.contains("content-type: application/xml") && list.contains("<instanceId>t1"),
        "{head}{list}"
    );
    let (head, _) = exchange(&mut stream, "DELETE /v2/apps/TCP/t1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(head.starts_with("http/1.1 200 "), "{head}");
}

/// What clients put into their requests without a need of it.
#[tokio::test]
async fn headers_that_clients_send_unasked_change_nothing_and_keep_the_connection() {
    let server = Server::new();
    server.register(&Draft::new("TCP", "t1", "UP", 1)).await;
    let mut stream = connected(&server).await;
    for (client, headers) in [
        (
            "Apache HttpClient",
            "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\nUser-Agent: Apache-HttpClient/5.4\r\n",
        ),
        (
            "JDK",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        ),
        ("Spring", "Content-Type: application/json\r\nContent-Length: 0\r\nConnection: keep-alive\r\n"),
        ("Jersey 3", "Content-Type: application/json\r\nContent-Length: 2\r\nUser-Agent: Jersey/3.0.5\r\n"),
        ("Steeltoe", "X-Discovery-AllowRedirect: false\r\nAccept: application/json\r\n"),
        (
            "Netflix",
            "DiscoveryIdentity-Name: DefaultClient\r\nDiscoveryIdentity-Version: 1.4\r\nDiscoveryIdentity-Id: ::1\r\n",
        ),
        ("ArthurHlt", "Content-Type: application/json\r\n"),
        ("nobody", ""),
    ] {
        let body = if headers.contains("Length: 2") { "{}" } else { "" };
        let request = format!("PUT /eureka/apps/TCP/t1?status=UP HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}");
        let (head, body) = exchange(&mut stream, &request).await;
        assert!(head.starts_with("http/1.1 200 ") && head.contains("content-length: 0"), "{client}: {head}");
        assert!(body.is_empty() && !head.contains("connection: close"), "{client}: {head}");
    }
}

/// The Python client names neither itself nor a format, and wants the connection closed.
#[tokio::test]
async fn a_connection_ends_when_the_client_says_so() {
    let server = Server::new();
    server.register(&Draft::new("TCP", "t1", "UP", 1)).await;
    let mut stream = connected(&server).await;
    let request =
        "GET /eureka/apps/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: identity\r\n\r\n";
    let (head, body) = exchange(&mut stream, request).await;
    assert!(head.contains("connection: close") && head.contains("content-type: application/xml"), "{head}");
    assert!(body.contains("<instanceId>t1"), "{body}");
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_gets_it() {
    let server = Server::new();
    let mut stream = connected(&server).await;
    let body = Draft::new("TCP", "t1", "UP", 1).json();
    let head = format!(
        "POST /eureka/apps/TCP HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    assert!(exchange(&mut stream, &head).await.0.starts_with("http/1.1 100 "));
    assert!(exchange(&mut stream, &body).await.0.starts_with("http/1.1 204 "));
}

/// Armeria opens with the preface of HTTP/2 at once.
#[tokio::test]
async fn http_2_by_prior_knowledge_is_served_where_http_1_is() {
    let server = Server::new();
    let stream = TokioIo::new(connected(&server).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let json = Draft::new("TCP", "t1", "UP", 1).json();
    for (method, path, body, code) in [
        ("POST", "/eureka/apps/TCP", json.as_str(), 204),
        ("PUT", "/eureka/apps/TCP/t1", "", 200),
        ("GET", "/eureka/apps", "", 200),
        ("PUT", "/eureka/apps/TCP/t2", "", 404),
        ("DELETE", "/eureka/apps/TCP/t1", "", 200),
    ] {
        let request = Request::builder().method(method).uri(format!("http://x{path}"));
        let request = request.header("content-type", "application/json").header("accept", "application/json");
        let answer = sender.send_request(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), code, "{method} {path}");
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text.starts_with(b"{"), method == "GET", "{method} {path}");
    }
}
