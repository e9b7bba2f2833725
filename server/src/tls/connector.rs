//! The side that calls.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What is to be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpn {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

/// Whom this server believes; nobody, where `tls.ca` is not set.
#[derive(Clone, Default)]
pub(crate) struct Connector(Option<Arc<RwLock<TlsConnector>>>);

impl Connector {
    pub(super) fn new(config: Arc<ClientConfig>) -> Self {
        Self(Some(Arc::new(RwLock::new(config.into()))))
    }

    /// From now on these are believed.
    pub(super) fn renew(&self, config: Arc<ClientConfig>) {
        if let Self(Some(connector)) = self {
            *connector.write() = config.into();
        }
    }

    /// Shakes hands with a server whose certificate has to bear this name or address; the caller limits the time.
    ///
    /// # Errors
    /// The server is not believed, or does not speak what is asked for.
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &str,
        alpn: Alpn,
        socket: S,
    ) -> io::Result<TlsStream<S>> {
        let Self(Some(connector)) = self else {
            return Err(io::Error::other("tls.ca is not set, so no server is believed over https"));
        };
        let connector = connector.read().clone();
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        connector.with_alpn(vec![alpn.word().to_vec()]).connect(name, socket).await
    }
}

impl Alpn {
    fn word(self) -> &'static [u8] {
        match self {
            Self::H1 => b"http/1.1",
            Self::H2 => b"h2",
        }
    }
}
