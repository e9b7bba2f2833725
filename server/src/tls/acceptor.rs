//! The side that is called.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::{InvalidMessage, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Bytes that wait in a connection for its socket. A client that reads slowly may lose them when its time to rest is
/// over, since the system, unlike a process, goes on sending after a close; so it is not much.
const WAITING: usize = 16 << 10;

/// A connection over TLS; in a box, since most of a server's connections are plain and pay for the larger kind.
pub(crate) type Secure<S> = Box<TlsStream<S>>;

/// The certificate in force.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<RwLock<TlsAcceptor>>);

impl Acceptor {
    pub(super) fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(config.into())))
    }

    /// From now on connections begin with this one.
    pub(super) fn renew(&self, config: Arc<ServerConfig>) {
        *self.0.write() = config.into();
    }

    /// Shakes hands; the caller limits the time.
    ///
    /// # Errors
    /// Those of the socket, and whatever a client does not agree with or says that is no TLS.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, socket: S) -> io::Result<Secure<S>> {
        let acceptor = self.0.read().clone();
        let shaken = acceptor.accept_with(socket, |connection| connection.set_buffer_limit(Some(WAITING)));
        shaken.await.map(Box::new)
    }
}

/// Why there was no handshake.
pub(crate) fn reason(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it does not speak TLS".to_owned()
        }
        _ => error.to_string(),
    }
}
