//! What runs in the processes that serve. Each prints its address and the number of the process that answers there,
//! and ends when standard input closes, which it does when the bench is gone.

use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{Clock, Now};
use heureka_registry::Seeds;
use heureka_server::args::Args;
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::{self, LineBudget};
use heureka_server::{Server, World, listen};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::limit;
use super::peers::{self, Peer};
use crate::report;

/// First argument of a process that serves.
pub(crate) const ROLE: &str = "serve";

/// Word behind it for one that takes the arguments and variables of the binary, and ends when it is killed.
pub(crate) const NODE: &str = "node";

/// Serves until standard input closes.
pub(crate) fn run(role: &[OsString]) -> ExitCode {
    let served = match role {
        [name] if name == "heureka" => heureka(None),
        [name, folder] if name == "heureka" => heureka(folder.to_str()),
        [name] if name == "limit" => limit(),
        [name, path] if name == "binary" => binary(path),
        [name, ..] if name == NODE => node(role),
        [name, program] => match Peer::named(name) {
            Some(peer) => peers::run(peer, program),
            None => Err(io::Error::other("no such role")),
        },
        _ => Err(io::Error::other("no such role")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&format!("cannot serve: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves in this process as long as the value lives.
fn inside(start: impl AsyncFnOnce(TcpListener) -> io::Result<()>) -> io::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        start(listener).await?;
        report::address(address, std::process::id());
        io::Result::Ok(())
    })?;
    Ok(runtime)
}

/// The server as its binary has it, but for its clock, perhaps with a store in a folder. Each line of standard input is
/// a number of seconds to skip.
fn heureka(folder: Option<&str>) -> io::Result<()> {
    let clock = Arc::new(Skipping { clock: SystemClock::new(), skipped: AtomicU64::new(0) });
    let _serving = inside(async |listener| {
        let mut config = Config::load(&Sources::default()).map_err(io::Error::other)?;
        config.server.data_dir = folder.unwrap_or_default().to_owned();
        let lines = LineBudget::new(config.log.max_lines_per_second);
        let seeds = Seeds { boot: rand::random_range(1..=u64::MAX), hash: rand::random(), shuffle: 3 };
        let world = World { clock: clock.clone(), seeds, lines };
        Server::new(config, world).start(vec![listener]).await.map_err(io::Error::other)?;
        Ok(())
    })?;
    wait(|seconds| {
        clock.skipped.fetch_add(seconds, Ordering::Relaxed);
    })
}

/// A clock that may be moved on.
struct Skipping {
    clock: SystemClock,
    /// Seconds.
    skipped: AtomicU64,
}

impl Clock for Skipping {
    fn now(&self) -> Now {
        let Now { mono, wall } = self.clock.now();
        let skipped = Duration::from_secs(self.skipped.load(Ordering::Relaxed));
        Now { mono: mono.plus(skipped), wall: wall.plus(skipped) }
    }
}

/// The server as its binary has it. `role` stands for the name of the program.
fn node(role: &[OsString]) -> io::Result<()> {
    let args = Args::read(role.iter().cloned()).map_err(io::Error::other)?;
    let sources = args.sources(std::env::vars_os().collect());
    let config = Config::load(&sources).map_err(io::Error::other)?;
    let lines = LineBudget::new(config.log.max_lines_per_second);
    telemetry::install(&config.log, lines.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listen::bind(config.server.listen).map_err(io::Error::other)?;
        let seeds =
            Seeds { boot: rand::random_range(1..=u64::MAX), hash: rand::random(), shuffle: rand::random() };
        let world = World { clock: Arc::new(SystemClock::new()), seeds, lines };
        let running = Server::new(config, world).start(vec![listener]).await.map_err(io::Error::other)?;
        running.addresses().iter().for_each(|address| report::listening(*address));
        std::future::pending().await
    })
}

fn limit() -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let _serving = inside(async |listener| {
        tokio::spawn(limit::serve(listener));
        Ok(())
    })?;
    wait(|_| {})
}

/// A server of another build, which knows nothing of this one's standard input.
fn binary(path: &OsString) -> io::Result<()> {
    let mut server = Command::new(path)
        .args(["--listen", "127.0.0.1:0", "--log", "warn"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let told = tell_of(&mut server).and_then(|()| wait(|_| {}));
    until_told_to_end(&mut server, told)
}

/// Ends a server that ran as long as it was to, and tells when it did not.
pub(super) fn until_told_to_end(server: &mut std::process::Child, told: io::Result<()>) -> io::Result<()> {
    let ended = server.try_wait()?;
    // One that ended by itself cannot be ended.
    let _ = server.kill();
    server.wait()?;
    match ended {
        Some(status) => Err(io::Error::other(format!("it ended by itself ({status})"))),
        None => told,
    }
}

fn tell_of(server: &mut std::process::Child) -> io::Result<()> {
    let mut line = String::new();
    if let Some(output) = &mut server.stdout {
        io::BufReader::new(output).read_line(&mut line)?;
    }
    let address: Option<SocketAddr> = line.split_whitespace().last().and_then(|last| last.parse().ok());
    let address = address.ok_or_else(|| io::Error::other("it does not say where it listens"))?;
    report::address(address, server.id());
    Ok(())
}

/// Waits until standard input closes, and tells of each number that stands there in a line.
pub(super) fn wait(told: impl Fn(u64)) -> io::Result<()> {
    for line in io::stdin().lines() {
        line?.parse().into_iter().for_each(&told);
    }
    Ok(())
}
