//! Registries of others, where they are installed: started as they come, on free ports, with their data in memory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::child::{until_told_to_end, wait};
use crate::report;

/// A registry of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Etcd,
    Nacos,
    /// The genuine server of Spring's, without the cache that makes its lists old.
    Eureka,
    /// The same with all its caches as they come.
    CachedEureka,
}

/// Looks at a server that starts, and how long each is waited for.
const LOOKS: (u32, Duration) = (9000, Duration::from_millis(20));

/// What a delta of the original tells of, in milliseconds: less than its three minutes, which a run has no time for.
const DELTA: &str = "30000";

impl Peer {
    /// Every one.
    const ALL: [Self; 4] = [Self::Etcd, Self::Nacos, Self::Eureka, Self::CachedEureka];

    /// Name of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Nacos => "rnacos",
            Self::Eureka => "eureka",
            Self::CachedEureka => "cached-eureka",
        }
    }

    /// What has to be done to have it.
    pub(crate) fn installation(self) -> &'static str {
        match self {
            Self::Etcd => {
                "apt-get install etcd-server, or download its package and dpkg-deb -x FILE target/peers"
            }
            Self::Nacos => "cargo install --locked --root target/peers rnacos@0.8.8",
            Self::Eureka | Self::CachedEureka => {
                "mvn -q -f testing/conformance/eureka/pom.xml \
                 -Dbuild.folder=\"$PWD/target/conformance/eureka-5.0.3\" package"
            }
        }
    }

    /// Its program: on the path, or in `peers` beside the folder that this one was built into. The original is where
    /// the run against real clients puts it, beside that folder as well.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let built = std::env::current_exe().ok()?;
        let beside = built.parent()?.parent()?;
        if self.is_eureka() {
            let jar = beside.join("conformance/eureka-5.0.3/eureka.jar");
            return jar.is_file().then_some(jar);
        }
        let ours = ["peers/usr/bin", "peers/bin"].map(|folder| beside.join(folder).join(self.name()));
        on_path(self.name()).or_else(|| ours.into_iter().find(|program| program.is_file()))
    }

    /// Whether it is the original, which a virtual machine runs.
    pub(crate) fn is_eureka(self) -> bool {
        matches!(self, Self::Eureka | Self::CachedEureka)
    }

    /// The one with this name.
    pub(super) fn named(name: &OsString) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| name == peer.name())
    }
}

/// A program that the system finds by its name.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
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
    let mut listens = |address| answers(address, &mut server);
    let told = listens(addresses.watches).and_then(|()| listens(addresses.writes)).and_then(|()| {
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
    let mut command = Command::new(if peer.is_eureka() { OsStr::new("java") } else { program });
    match peer {
        Peer::Eureka | Peer::CachedEureka => {
            // What it needs beside its jar goes with the folder.
            command.arg(format!("-Djava.io.tmpdir={}", folder.display())).current_dir(folder);
            command.args(["-Xmx2g", "-XX:-UsePerfData", "-jar"]).arg(program);
            command.args(eureka(writes, peer == Peer::CachedEureka));
        }
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

/// The properties of the original: alone, silent, and as fast as it can be.
fn eureka(address: SocketAddr, is_cached: bool) -> impl Iterator<Item = String> {
    [
        ("server.address", address.ip().to_string()),
        ("server.port", address.port().to_string()),
        ("server.tomcat.max-keep-alive-requests", "-1".to_owned()),
        ("spring.main.banner-mode", "off".to_owned()),
        ("logging.level.root", "off".to_owned()),
        ("eureka.client.register-with-eureka", "false".to_owned()),
        ("eureka.client.fetch-registry", "false".to_owned()),
        ("eureka.server.wait-time-in-ms-when-sync-empty", "0".to_owned()),
        ("eureka.server.use-read-only-response-cache", is_cached.to_string()),
        ("eureka.server.retention-time-in-m-s-in-delta-queue", DELTA.to_owned()),
        ("eureka.server.delta-retention-timer-interval-in-ms", "1000".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| format!("--{name}={value}"))
}

/// An address that nobody has at the moment: none of these programs tells which one it took.
fn free() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

#[expect(clippy::disallowed_methods, reason = "programs of others do not say when they listen")]
fn answers(address: SocketAddr, server: &mut Child) -> io::Result<()> {
    for _ in 0..LOOKS.0 {
        if TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        if server.try_wait()?.is_some() {
            break;
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
