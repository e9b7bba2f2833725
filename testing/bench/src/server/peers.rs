//! Registries of others, where they are installed: started as they come, on free ports, with their data in memory.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::child::{until_told_to_end, wait};
use crate::report;

/// A registry of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Etcd,
    Nacos,
}

/// Looks at a server that starts, and how long each is waited for.
const LOOKS: (u32, Duration) = (1500, Duration::from_millis(20));

impl Peer {
    /// Every one.
    pub(crate) const ALL: [Self; 2] = [Self::Etcd, Self::Nacos];

    /// Name of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Nacos => "rnacos",
        }
    }

    /// What has to be done to have it.
    pub(crate) fn installation(self) -> &'static str {
        match self {
            Self::Etcd => {
                "apt-get install etcd-server, or download its package and dpkg-deb -x FILE target/peers"
            }
            Self::Nacos => "cargo install --locked --root target/peers rnacos@0.8.8",
        }
    }

    /// Its program: on the path, or in `peers` beside the folder that this one was built into.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let built = std::env::current_exe().ok()?;
        let beside = built.parent()?.parent()?.join("peers");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path);
        let ours = ["usr/bin", "bin"].map(|folder| beside.join(folder));
        folders.chain(ours).map(|folder| folder.join(self.name())).find(|program| program.is_file())
    }

    /// The one with this name.
    pub(super) fn named(name: &OsString) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| name == peer.name())
    }
}

/// Serves with a program of this kind until standard input closes.
pub(super) fn run(peer: Peer, program: &OsString) -> io::Result<()> {
    let folder = Folder::new(peer)?;
    let addresses = Addresses::new(peer)?;
    let mut server = command(peer, program, addresses, &folder.0)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let told = answers(addresses.watches).and_then(|()| answers(addresses.writes)).and_then(|()| {
        report::addresses(addresses.watches, server.id(), addresses.writes);
        wait(|_| {})
    });
    until_told_to_end(&mut server, told)
}

/// Where it is watched and where it takes writes.
#[derive(Clone, Copy)]
struct Addresses {
    watches: SocketAddr,
    writes: SocketAddr,
}

impl Addresses {
    fn new(peer: Peer) -> io::Result<Self> {
        let watches = free()?;
        Ok(Self { watches, writes: if peer == Peer::Nacos { free()? } else { watches } })
    }
}

fn command(peer: Peer, program: &OsString, addresses: Addresses, folder: &Path) -> io::Result<Command> {
    let Addresses { watches, writes } = addresses;
    let mut command = Command::new(program);
    match peer {
        Peer::Nacos => {
            // Nobody sends beats where changes are measured, and what lapses meanwhile would be told, too.
            let lease = "86400";
            command.env("RNACOS_NAMING_HEALTH_TIMEOUT_SECOND", lease);
            command.env("RNACOS_NAMING_INSTANCE_TIMEOUT_SECOND", lease);
            command.env("RNACOS_DATA_DIR", folder).current_dir(folder);
            command.env("RNACOS_HTTP_PORT", writes.port().to_string());
            command.env("RNACOS_GRPC_PORT", watches.port().to_string());
            command.env("RNACOS_HTTP_CONSOLE_PORT", free()?.port().to_string());
            command.env("RNACOS_SDK_HOST", "127.0.0.1");
        }
        Peer::Etcd => {
            let (clients, peers) = (format!("http://{watches}"), format!("http://{}", free()?));
            command.arg("--data-dir").arg(folder);
            command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            command.args(["--initial-cluster", &format!("default={peers}")]);
        }
    }
    Ok(command)
}

/// An address that nobody has at the moment: none of these programs tells which one it took.
fn free() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

#[expect(clippy::disallowed_methods, reason = "programs of others do not say when they listen")]
fn answers(address: SocketAddr) -> io::Result<()> {
    for _ in 0..LOOKS.0 {
        if TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        thread::sleep(LOOKS.1);
    }
    Err(io::Error::other("it does not listen"))
}

/// A folder that goes with the value; in memory where there is such a place.
struct Folder(PathBuf);

impl Folder {
    fn new(peer: Peer) -> io::Result<Self> {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = root.join(format!("heureka-bench-{}-{}", peer.name(), std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is left to whoever looks after the machine.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
