//! What runs in the processes that serve. Each prints its address and the number of the process that answers there,
//! and ends when standard input closes, which it does when the bench is gone.

use std::ffi::OsString;
use std::io::{self, BufRead as _, Read as _};
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use heureka_registry::Seeds;
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Server, World};
use tokio::net::TcpListener;

use super::limit;
use crate::report;

/// First argument of a process that serves.
pub(crate) const ROLE: &str = "serve";

/// Serves until standard input closes.
pub(crate) fn run(role: &[OsString]) -> ExitCode {
    let served = match role {
        [name] if name == "heureka" => inside(heureka),
        [name] if name == "limit" => inside(limit),
        [name, path] if name == "binary" => binary(path),
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

/// Serves in this process.
fn inside(start: impl AsyncFnOnce(TcpListener) -> io::Result<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        report::address(listener.local_addr()?, std::process::id());
        start(listener).await
    })?;
    wait()
}

/// The server as its binary has it.
async fn heureka(listener: TcpListener) -> io::Result<()> {
    let config = Config::load(&Sources::default()).map_err(io::Error::other)?;
    let lines = LineBudget::new(config.log.max_lines_per_second);
    let seeds = Seeds { boot: 1, hash: rand::random(), shuffle: 3 };
    let world = World { clock: Arc::new(SystemClock::new()), seeds, lines };
    Server::new(config, world).start(vec![listener]).await.map_err(io::Error::other)?;
    Ok(())
}

async fn limit(listener: TcpListener) -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    tokio::spawn(limit::serve(listener));
    Ok(())
}

/// A server of another build, which knows nothing of this one's standard input.
fn binary(path: &OsString) -> io::Result<()> {
    let mut server = Command::new(path)
        .args(["--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let told = tell_of(&mut server).and_then(|()| wait());
    // One that ended by itself cannot be ended.
    let _ = server.kill();
    server.wait()?;
    told
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

fn wait() -> io::Result<()> {
    io::stdin().read_to_end(&mut Vec::new()).map(|_| ())
}
