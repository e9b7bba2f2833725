//! A tiny HTTP client and the calls of the Eureka surface.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::checks;
use crate::draft::Draft;

/// Longest time for one call.
const LIMIT: Duration = Duration::from_secs(60);

/// What asks for JSON.
pub const JSON: (&str, &str) = ("accept", "application/json");
/// What asks for XML.
pub const XML: (&str, &str) = ("accept", "application/xml");

/// One caller of a server; it keeps as many connections as it has calls at a time.
#[derive(Debug)]
pub struct Rest {
    address: SocketAddr,
    limit: Duration,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Code.
    pub status: u16,
    /// Names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// Bytes as they came.
    pub body: Bytes,
}

impl Rest {
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, limit: LIMIT, idle: Mutex::default() }
    }

    /// With another longest time for one call than 60 s.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// One call; the path goes out as it is given.
    ///
    /// # Errors
    /// No answer came.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let mut request =
            Request::builder().method(method).uri(path).header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into()))?;
        let answer = timeout(self.limit, self.exchange(request));
        let late = || format!("no answer within {} s", self.limit.as_secs());
        answer.await.with_context(late).flatten().with_context(|| format!("{method} {path}"))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let mut sender = self.sender().await?;
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        if sender.is_ready() {
            self.idle().push(sender);
        }
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(Answer { status: parts.status.as_u16(), headers, body })
    }

    async fn sender(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let idle = self.idle().pop();
        if let Some(sender) = idle.filter(SendRequest::is_ready) {
            return Ok(sender);
        }
        let stream = TcpStream::connect(self.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A read below `/eureka/apps` that asks for JSON.
    ///
    /// # Errors
    /// No answer came.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("GET", &format!("/eureka/apps{path}"), &[JSON], "").await
    }

    /// A read below `/eureka/apps` that asks for nothing.
    ///
    /// # Errors
    /// No answer came.
    pub async fn get_xml(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("GET", &format!("/eureka/apps{path}"), &[], "").await
    }

    /// The document below `/eureka/apps`.
    ///
    /// # Errors
    /// Another code than 200, or no JSON.
    pub async fn json(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.get(path).await?;
        checks::code(path, &answer, 200)?;
        serde_json::from_slice(&answer.body).with_context(|| format!("{path}: no JSON"))
    }

    /// The `instance` of a single read.
    ///
    /// # Errors
    /// As [`Self::json`].
    pub async fn instance(&self, app: &str, id: &str) -> anyhow::Result<Value> {
        Ok(self.json(&format!("/{app}/{}", encoded(id))).await?["instance"].take())
    }

    /// Status as readers see it; empty when the instance is not there.
    ///
    /// # Errors
    /// No answer came.
    pub async fn status(&self, app: &str, id: &str) -> anyhow::Result<String> {
        let answer = self.get(&format!("/{app}/{}", encoded(id))).await?;
        if answer.status == 404 {
            return Ok(String::new());
        }
        let document: Value = serde_json::from_slice(&answer.body)?;
        Ok(document["instance"]["status"].as_str().unwrap_or("absent").to_owned())
    }

    /// A registration in JSON.
    ///
    /// # Errors
    /// No answer came.
    pub async fn post(&self, app: &str, body: impl Into<Bytes>) -> anyhow::Result<Answer> {
        let headers = [("content-type", "application/json")];
        self.send("POST", &format!("/eureka/apps/{app}"), &headers, body).await
    }

    /// A registration as a peer hands it on.
    ///
    /// # Errors
    /// No answer came.
    pub async fn post_replicated(&self, app: &str, body: String) -> anyhow::Result<Answer> {
        let headers = [("content-type", "application/json"), ("x-netflix-discovery-replication", "true")];
        self.send("POST", &format!("/eureka/apps/{app}"), &headers, body).await
    }

    /// Registers.
    ///
    /// # Errors
    /// Another answer than a quiet 204.
    pub async fn register(&self, draft: &Draft) -> anyhow::Result<()> {
        let answer = self.post(&draft.app, draft.json()).await?;
        checks::quiet(format_args!("register {}/{}", draft.app, draft.id), &answer, 204)
    }

    /// A heartbeat; the query begins with a question mark.
    ///
    /// # Errors
    /// No answer came.
    pub async fn beat(&self, app: &str, id: &str, query: &str) -> anyhow::Result<Answer> {
        self.put(&format!("/{app}/{}{query}", encoded(id))).await
    }

    /// A write without a body below `/eureka/apps`.
    ///
    /// # Errors
    /// No answer came.
    pub async fn put(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("PUT", &format!("/eureka/apps{path}"), &[], "").await
    }

    /// A removal below `/eureka/apps`.
    ///
    /// # Errors
    /// No answer came.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("DELETE", &format!("/eureka/apps{path}"), &[], "").await
    }

    /// Calls below `/eureka/apps` in their order, each with the code it must have; all but `GET` must be quiet.
    ///
    /// # Errors
    /// The first that was answered otherwise.
    pub async fn calls(&self, table: &[(&str, &str, u16)]) -> anyhow::Result<()> {
        for (method, path, code) in table {
            let what = format!("{method} {path}");
            let answer = self.send(method, &format!("/eureka/apps{path}"), &[JSON], "").await?;
            match (*method, *code) {
                ("GET", _) | (_, 400) => checks::code(what, &answer, *code)?,
                _ => checks::quiet(what, &answer, *code)?,
            }
        }
        Ok(())
    }

    /// All four reads of an instance answer 200 in both formats.
    ///
    /// # Errors
    /// The first that does not.
    pub async fn readable(&self, app: &str, id: &str) -> anyhow::Result<()> {
        for path in [String::new(), format!("/{app}"), format!("/{app}/{}", encoded(id)), "/delta".to_owned()]
        {
            for accept in [JSON, XML] {
                let answer = self.send("GET", &format!("/eureka/apps{path}"), &[accept], "").await?;
                checks::code(format_args!("GET apps{path} {}", accept.1), &answer, 200)?;
            }
        }
        Ok(())
    }

    /// What `/metrics` says of a series, summed over its labels.
    ///
    /// # Errors
    /// No answer came.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let answer = self.send("GET", "/metrics", &[], "").await?;
        checks::code("metrics", &answer, 200)?;
        Ok(crate::figures::series(&answer.text(), name))
    }

    /// Memory of the server's process in bytes.
    ///
    /// # Errors
    /// No answer came, or the system does not tell.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    pub async fn resident(&self) -> anyhow::Result<u64> {
        let bytes = self.metric("heureka_process_resident_bytes").await? as u64;
        if bytes == 0 {
            bail!("the server does not tell its memory on this system");
        }
        Ok(bytes)
    }
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The beginning of the body, for messages.
    #[must_use]
    pub fn start(&self) -> String {
        self.text().chars().take(200).collect()
    }

    /// A header by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A path segment, encoded in full.
#[must_use]
pub fn encoded(segment: &str) -> String {
    utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string()
}
