//! What calls go over.

use std::net::Ipv6Addr;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http::{HeaderValue, Request, header};
use tonic::codegen::{Body as HttpBody, Bytes, Service, StdError};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead connection is found within this and the next.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Carries gRPC to one server. A name for a set of bounds: a [`Channel`] is one, and so is a service in the same
/// process or a layer around either.
pub trait Transport:
    GrpcService<
        Body,
        ResponseBody: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
        Error: Into<StdError>,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Transport for T where
    T: GrpcService<
            Body,
            ResponseBody: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
            Error: Into<StdError>,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// A connection to one server that says with each call who calls, where its address names somebody.
#[derive(Clone, Debug)]
pub struct Line {
    channel: Channel,
    /// Marked as sensitive, so no text shows it.
    authorization: Option<HeaderValue>,
}

impl Line {
    /// A connection that is opened by its first call, and again whenever it is lost. Pings find a dead one even when
    /// nothing is sent.
    /// Over TLS a server is believed by these certificates.
    pub(crate) fn to(address: &str, ca: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(shown(address));
        let (place, user) = apart(address);
        let authorization = user.map(|user| authorization(&user).ok_or_else(wrong)).transpose()?;
        let uri = place.parse().ok().filter(is_server).ok_or_else(wrong)?;
        let endpoint = secured(endpoint(uri), ca).ok_or_else(|| Error::Authority(shown(address)))?;
        Ok(Self { channel: endpoint.connect_lazy(), authorization })
    }
}

impl Service<Request<Body>> for Line {
    type Response = <Channel as Service<Request<Body>>>::Response;
    type Error = <Channel as Service<Request<Body>>>::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        }
        Service::call(&mut self.channel, request)
    }
}

/// An address without its credentials, and these: `http://user:password@host:port`.
fn apart(address: &str) -> (String, Option<String>) {
    let parts = address.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (user, _) = rest[..end].rsplit_once('@')?;
        Some((format!("{scheme}://{}", &rest[user.len() + 1..]), user.to_owned()))
    });
    parts.map_or_else(|| (address.to_owned(), None), |(place, user)| (place, Some(user)))
}

/// An address as people may see it.
fn shown(address: &str) -> String {
    match apart(address) {
        (place, Some(_)) => place.replacen("://", "://***@", 1),
        (place, None) => place,
    }
}

/// What HTTP Basic says for `user:password`, both escaped with `%`.
fn authorization(user: &str) -> Option<HeaderValue> {
    let (name, password) = user.split_once(':')?;
    let decode = |text| percent_decode_str(text).decode_utf8().ok().filter(|text| !text.is_empty());
    let said = STANDARD.encode(format!("{}:{}", decode(name)?, decode(password)?));
    let mut value = HeaderValue::try_from(format!("Basic {said}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn endpoint(uri: Uri) -> Endpoint {
    Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
}

/// The same over TLS, where its address asks for that; nothing when `ca` holds nobody to believe.
#[cfg(feature = "tls")]
fn secured(endpoint: Endpoint, ca: &str) -> Option<Endpoint> {
    use tonic::transport::{Certificate, ClientTlsConfig};

    if endpoint.uri().scheme_str() != Some("https") {
        return Some(endpoint);
    }
    if !ca.contains("-----BEGIN CERTIFICATE-----") {
        return None;
    }
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).timeout(CONNECT_TIMEOUT);
    // An IPv6 address has brackets in an address and none in a certificate.
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    endpoint.tls_config(tls.domain_name(host)).ok()
}

/// Without the feature no address that asks for TLS comes so far.
#[cfg(not(feature = "tls"))]
fn secured(endpoint: Endpoint, _ca: &str) -> Option<Endpoint> {
    Some(endpoint)
}

/// Whether it is `http://host[:port]`, or `https` where TLS is built in. Anything more would be ignored, or called
/// without the encryption it asks for.
fn is_server(uri: &Uri) -> bool {
    let schemes: &[_] = if cfg!(feature = "tls") { &["http", "https"] } else { &["http"] };
    let Some(authority) = uri.authority() else {
        return false;
    };
    let host = authority.host();
    let whole = match authority.port_u16() {
        Some(port) => port > 0 && authority.as_str() == format!("{host}:{port}"),
        None => authority.as_str() == host,
    };
    whole
        && is_host(host)
        && uri.scheme_str().is_some_and(|scheme| schemes.contains(&scheme))
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::wanted;

    #[tokio::test]
    async fn only_a_plain_address_of_a_server_is_taken() {
        for address in
            ["http://a", "http://a:8761", "HTTP://a_b.c-d:1/", "http://127.0.0.1:80", "http://[::1]:80"]
        {
            assert!(Line::to(address, "").is_ok(), "{address}");
        }
        let wrong = [
            "",
            "a",
            "a:8761",
            "127.0.0.1:8761",
            "/a",
            "http://",
            "http://:80",
            " http://a",
            "http://a:",
            "http://a:0",
            "http://a:70000",
            "http://u@a:80",
            "http://a/eureka",
            "http://a//",
            "http://a?x",
            "http://a,b",
            "http://[a]",
            "http://a:80,http://b:80",
            "ftp://a:80",
            "https://a:80/eureka",
            "h2c://a",
        ];
        for address in wrong {
            assert_eq!(Line::to(address, "").err(), Some(Error::Address(shown(address))));
        }
    }

    #[tokio::test]
    async fn who_calls_stands_in_the_address_and_in_no_text() {
        let line = Line::to("http://admin:p%40ss%3Aw%25rd!%C3%A9@host:8761/", "").unwrap();
        let said = STANDARD.encode("admin:p@ss:w%rd!é");
        assert_eq!(line.authorization.as_ref().unwrap(), &format!("Basic {said}"));
        assert!(!format!("{line:?}").contains(&said));
        for wrong in [
            "http://u:secret@host:0",
            "http://:secret@h",
            "http://u:%FF@h",
            "https://u:secret@h",
            "https://u:secret@h/x",
            "http://u:@h",
        ] {
            let refusal = Line::to(wrong, "").unwrap_err().to_string();
            assert!(refusal.contains("://***@h") && !refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn a_wrong_address_is_told_with_what_is_wanted() {
        let told = |address: &str| Error::Address(address.to_owned()).to_string();
        assert_eq!(
            told("a:8761"),
            "`a:8761` is no address of a server: http://host:port without a path is wanted"
        );
        let https = ["HTTPS://a/x", "https://a"];
        assert!(https.iter().all(|address| wanted(address, false).contains("feature tls")));
        assert!(https.iter().all(|address| wanted(address, true).starts_with("https://host:port")));
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn over_tls_nobody_is_believed_without_a_certificate() {
        for ca in ["", "nonsense", "-----BEGIN PRIVATE KEY-----"] {
            let refusal = Line::to("https://a:8761", ca).unwrap_err();
            assert_eq!(refusal, Error::Authority("https://a:8761".into()), "{ca}");
        }
        assert!(Line::to("http://a:8761", "nonsense").is_ok(), "nobody is to be believed");
    }
}
