//! A real connection: what only shows in the bytes.

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
