//! Connections to these servers.

use std::io;

use tokio::net::TcpStream;

use crate::peers::Socket;
use crate::tls::{Alpn, Connector};

/// Opens one, over TLS where the server `is_secure`; the caller limits the time.
pub(super) async fn open(
    (host, port): (&str, u16),
    is_secure: bool,
    alpn: Alpn,
    tls: &Connector,
) -> io::Result<Box<dyn Socket>> {
    let socket = TcpStream::connect((host, port)).await?;
    // Requests are written whole; without it they are only slower.
    let _ = socket.set_nodelay(true);
    if !is_secure {
        return Ok(Box::new(socket));
    }
    Ok(Box::new(tls.connect(host, alpn, socket).await?))
}
