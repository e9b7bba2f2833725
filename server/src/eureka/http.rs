//! Requests to one server of Netflix's kind: one connection, one request at a time.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use heureka_compat_http::peer;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::socket::open;
use crate::config::{EurekaConfig, EurekaUrl};
use crate::tls::{Alpn, Connector};

/// Largest answer that is read, in bytes: the list of a large registry.
const ANSWER_MAX: usize = 512 << 20;

/// The way to one server.
pub(super) struct Client {
    url: EurekaUrl,
    tls: Connector,
    connect_timeout: Duration,
    read_timeout: Duration,
    connection: Option<Connection>,
    /// Requests sent.
    pub(super) sent: u64,
}

/// An answer, read to its end and decompressed.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("not reached: {0}")]
    Unreachable(io::Error),
    #[error("not reached in time")]
    ConnectTimeout,
    #[error("no answer in time")]
    ReadTimeout,
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    #[error("the answer has more than {ANSWER_MAX} bytes")]
    TooLarge,
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] peer::Unreadable),
    #[error("the address makes no request")]
    Request(#[from] http::Error),
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    used: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    pub(super) fn new(url: EurekaUrl, tls: &Connector, config: &EurekaConfig) -> Self {
        let EurekaConfig { connect_timeout, read_timeout, .. } = *config;
        Self { url, tls: tls.clone(), connect_timeout, read_timeout, connection: None, sent: 0 }
    }

    /// Reads a document below the address.
    pub(super) async fn get(&mut self, path: &str) -> Result<Reply, CallError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Sends a document in JSON below the address.
    pub(super) async fn post(&mut self, path: &str, body: Vec<u8>) -> Result<Reply, CallError> {
        self.call(Method::POST, path, body.into()).await
    }

    /// Every request may be sent twice: none says more when it is repeated.
    async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Reply, CallError> {
        loop {
            let mut connection = match self.connection.take().filter(|held| !held.sender.is_closed()) {
                Some(held) => held,
                None => self.connect().await?,
            };
            let request = self.request(&method, path, body.clone())?;
            self.sent += 1;
            let answered = timeout(self.read_timeout, connection.sender.send_request(request)).await;
            match answered.map_err(|_| CallError::ReadTimeout)? {
                Ok(response) => {
                    let reply = self.read(response).await?;
                    connection.used = true;
                    self.connection = Some(connection);
                    return Ok(reply);
                }
                // The server may have closed a connection that rested, just when it was used again.
                Err(_) if connection.used => {}
                Err(error) => return Err(CallError::Broken(error)),
            }
        }
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        let EurekaUrl { host, port, is_secure, .. } = &self.url;
        let opening = open((host, *port), *is_secure, Alpn::H1, &self.tls);
        let opened = timeout(self.connect_timeout, opening).await;
        let socket = opened.map_err(|_| CallError::ConnectTimeout)?.map_err(CallError::Unreachable)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(CallError::Broken)?;
        // How it ends is told by the request that it was for.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, task, used: false })
    }

    fn request(&self, method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.path))
            .header(header::HOST, self.url.authority())
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, "gzip")
            .header(header::USER_AGENT, concat!("heureka/", env!("CARGO_PKG_VERSION")))
            .header("DiscoveryIdentity-Name", "DefaultServer")
            .header("DiscoveryIdentity-Version", "1.0");
        if method == Method::POST {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(credentials) = &self.url.authorization {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        request.body(Full::new(body))
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Reply, CallError> {
        let status = response.status().as_u16();
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        let gzipped = encoding.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let mut incoming = response.into_body();
        let mut body = Vec::new();
        loop {
            let frame =
                timeout(self.read_timeout, incoming.frame()).await.map_err(|_| CallError::ReadTimeout)?;
            let Some(frame) = frame.transpose().map_err(CallError::Broken)? else { break };
            if let Some(data) = frame.data_ref() {
                body.extend_from_slice(data);
            }
            if body.len() > ANSWER_MAX {
                return Err(CallError::TooLarge);
            }
        }
        let body = if gzipped { peer::inflate(&body, ANSWER_MAX)? } else { body };
        Ok(Reply { status, body })
    }
}
