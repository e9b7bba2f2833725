//! Two servers in processes of their own: heureka as it is, and the limit of its libraries.

mod limit;

use std::io::{self, BufRead as _, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;

use heureka_registry::Seeds;
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Server, World};
use tokio::net::TcpListener;

use crate::report;

/// First argument of a process that serves.
pub(crate) const ROLE: &str = "serve";

/// What a process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Heureka,
    Limit,
}

/// A server in a child process. It ends with this value, or with this process.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    child: Child,
    /// The child reads until this closes.
    input: Option<ChildStdin>,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Heureka => "heureka",
            Self::Limit => "limit",
        }
    }
}

impl Served {
    /// Starts a server and waits until it listens.
    pub(crate) fn start(role: Role) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([ROLE, role.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            io::BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().parse().map_err(|_| io::Error::other("the server did not start"))?;
        Ok(Self { address, child, input })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.input.take());
        // Nothing is left to do when it cannot be waited for.
        let _ = self.child.wait();
    }
}

/// Serves until standard input closes.
pub(crate) fn run(role: &[&str]) -> ExitCode {
    let role = match role {
        ["heureka"] => Role::Heureka,
        ["limit"] => Role::Limit,
        _ => return ExitCode::FAILURE,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime.map(|runtime| {
        let started = runtime.block_on(start(role));
        let waited = io::stdin().read_to_end(&mut Vec::new());
        started.and(waited.map(|_| ()))
    });
    if matches!(served, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn start(role: Role) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    report::address(listener.local_addr()?);
    match role {
        Role::Limit => drop(tokio::spawn(limit::serve(listener))),
        Role::Heureka => {
            let config = Config::load(&Sources::default()).map_err(io::Error::other)?;
            let lines = LineBudget::new(config.log.max_lines_per_second);
            let seeds = Seeds { boot: 1, hash: rand::random(), shuffle: 3 };
            let world = World { clock: Arc::new(SystemClock::new()), seeds, lines };
            Server::new(config, world).start(vec![listener]).await.map_err(io::Error::other)?;
        }
    }
    Ok(())
}
