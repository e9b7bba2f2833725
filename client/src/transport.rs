//! What calls go over.

use std::net::Ipv6Addr;
use std::time::Duration;

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
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

/// A connection that is opened by its first call, and again whenever it is lost. Pings find a dead one even when
/// nothing is sent.
pub(crate) fn lazy_channel(address: &str) -> Result<Channel, Error> {
    let uri = address.parse().ok().filter(is_plain).ok_or_else(|| Error::Address(address.to_owned()))?;
    let endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_lazy())
}

/// Whether it is `http://host[:port]`. Anything more would be ignored, or called without the encryption it asks for.
fn is_plain(uri: &Uri) -> bool {
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
        && uri.scheme_str() == Some("http")
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

    #[tokio::test]
    async fn only_a_plain_address_of_a_server_is_taken() {
        for address in
            ["http://a", "http://a:8761", "HTTP://a_b.c-d:1/", "http://127.0.0.1:80", "http://[::1]:80"]
        {
            assert!(lazy_channel(address).is_ok(), "{address}");
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
            "https://a:80",
            "h2c://a",
        ];
        for address in wrong {
            assert_eq!(lazy_channel(address).err(), Some(Error::Address(address.to_owned())));
        }
    }

    #[test]
    fn a_wrong_address_is_told_with_what_is_wanted() {
        let told = |address: &str| Error::Address(address.to_owned()).to_string();
        assert_eq!(
            told("a:8761"),
            "`a:8761` is no address of a server: http://host:port without a path is wanted"
        );
        assert_eq!(told("HTTPS://a"), "`HTTPS://a` is no address of a server: TLS is not built in yet");
    }
}
