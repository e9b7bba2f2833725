//! Opening the port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::config::LimitsConfig;

/// Connections that the kernel holds until they are accepted: a fleet that reconnects at once fits in.
const BACKLOG: i32 = 4096;

/// Files kept for everything but connections.
const RESERVED_FILES: u64 = 512;

/// Where the limit of open files is unknown.
const ASSUMED_FILES: u64 = 4096;

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}; choose another address with --listen", reason(.source))]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Opens a listener; `[::]` takes IPv4 too, and becomes `0.0.0.0` on a machine without IPv6.
/// # Errors
/// The address is taken, not of this machine, or not permitted.
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    match open(address) {
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && lacks_ipv6(&error) => {
            tracing::warn!(%error, "this machine has no IPv6, listening on IPv4 only");
            let address = (Ipv4Addr::UNSPECIFIED, address.port()).into();
            open(address).map_err(|source| BindError { address, source })
        }
        opened => opened.map_err(|source| BindError { address, source }),
    }
}

/// Connections that may be open at once. Raises the process's soft limit of files to the hard one.
#[must_use]
pub fn connections_max(limits: &LimitsConfig) -> usize {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(ASSUMED_FILES);
    let possible = files.saturating_sub(RESERVED_FILES).max(1);
    let wanted = if limits.connections == 0 { possible } else { possible.min(limits.connections.into()) };
    usize::try_from(wanted).unwrap_or(usize::MAX).min(tokio::sync::Semaphore::MAX_PERMITS)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for the old process's closed connections.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn lacks_ipv6(error: &io::Error) -> bool {
    // What Linux answers where the kernel or the machine has IPv6 switched off.
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is in use".into(),
        io::ErrorKind::PermissionDenied => "not permitted".into(),
        _ => error.to_string(),
    }
}
