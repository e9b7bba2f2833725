//! Opening the port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::config::LimitsConfig;

/// Connections that the kernel holds until they are accepted: a fleet that reconnects at once fits in.
const BACKLOG: i32 = 4096;

/// Files kept for everything but connections, or half of all where that is less.
const RESERVED_FILES: u64 = 512;

/// Room for fewer connections than this is worth a warning when the operator did not ask for it.
const FEW: u64 = 1024;

/// Where the limit of open files is unknown.
const ASSUMED_FILES: u64 = 4096;

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}; choose another address with --listen", reason(.cause))]
pub struct BindError {
    address: SocketAddr,
    /// Told in the message, so it is no source: a chain would tell it again.
    cause: io::Error,
}

/// Opens a listener; `[::]` takes IPv4 too, and becomes `0.0.0.0` on a machine without IPv6.
/// # Errors
/// The address is taken, not of this machine, or not permitted.
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    match open(address) {
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && lacks_ipv6(&error) => {
            tracing::warn!(%error, "this machine has no IPv6, listening on IPv4 only");
            let address = (Ipv4Addr::UNSPECIFIED, address.port()).into();
            open(address).map_err(|cause| BindError { address, cause })
        }
        opened => opened.map_err(|cause| BindError { address, cause }),
    }
}

/// Connections that may be open at once. Raises the process's soft limit of files to the hard one, and warns when
/// that leaves less room than was asked for, or little.
#[must_use]
pub fn connections_max(limits: &LimitsConfig) -> usize {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(ASSUMED_FILES);
    let (room, is_tight) = room(files, limits.connections.into());
    if is_tight {
        tracing::warn!(connections = room, files, "the limit of open files leaves room for few connections");
    }
    usize::try_from(room).unwrap_or(usize::MAX).min(tokio::sync::Semaphore::MAX_PERMITS)
}

/// Connections that so many files allow, and whether that is less than asked for; 0 asks for all.
fn room(files: u64, asked: u64) -> (u64, bool) {
    let possible = (files - RESERVED_FILES.min(files / 2)).max(1);
    if asked == 0 { (possible, possible < FEW) } else { (possible.min(asked), possible < asked) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_leave_half_of_them_and_a_warning() {
        let table = [
            (1_048_576, 0, (1_048_064, false)),
            (1_536, 0, (1_024, false)),
            (1_024, 0, (512, true)),
            (300, 0, (150, true)),
            (0, 0, (1, true)),
            (300, 100, (100, false)),
            (300, 200, (150, true)),
        ];
        for (files, asked, expected) in table {
            assert_eq!(room(files, asked), expected, "{files} files, {asked} asked for");
        }
    }
}
