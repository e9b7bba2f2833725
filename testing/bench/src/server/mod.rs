//! Servers in processes of their own, which end with the bench.

mod child;
mod limit;
mod peers;

use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::machine;

pub(crate) use child::{NODE, ROLE, run};
pub(crate) use limit::ANSWER;
pub(crate) use peers::{Peer, on_path};

/// What a process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The server that this program was built with.
    Heureka,
    /// The same with a store in this folder.
    Kept(PathBuf),
    /// The limit of its libraries.
    Limit,
    /// A `heureka` of any build.
    Binary(PathBuf),
    /// A registry of others, by its program.
    Peer(Peer, PathBuf),
}

/// A server in a child process. It ends with this value, or with this process.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// Where changes are made; the same address but for few.
    pub(crate) writes: SocketAddr,
    /// The process that answers.
    process: u32,
    /// Whether its clock may be moved on.
    can_skip: bool,
    /// Whether its threads come and go while it serves.
    threads_end: bool,
    child: Child,
    /// The child reads until this closes.
    input: Option<ChildStdin>,
}

impl Program {
    /// What stands after [`ROLE`] on the command line of its process.
    fn role(&self) -> Vec<OsString> {
        match self {
            Self::Heureka => vec!["heureka".into()],
            Self::Kept(folder) => vec!["heureka".into(), folder.into()],
            Self::Limit => vec!["limit".into()],
            Self::Binary(path) => vec!["binary".into(), path.into()],
            Self::Peer(peer, program) => vec![peer.name().into(), program.into()],
        }
    }

    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// A program that does not start, or ends without saying where it listens.
    pub(crate) fn start(&self) -> io::Result<Served> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .args(self.role())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            io::BufReader::new(output).read_line(&mut line)?;
        }
        match announced(&line) {
            Some((address, process, writes)) => {
                let can_skip = *self == Self::Heureka;
                let threads_end = matches!(self, Self::Peer(peer, _) if peer.is_eureka());
                Ok(Served { address, writes, process, can_skip, threads_end, child, input })
            }
            None => {
                drop(input);
                child.wait()?;
                Err(io::Error::other(format!("{} did not start", self.name())))
            }
        }
    }

    /// Whether it is a registry of others.
    pub(crate) fn is_peer(&self) -> bool {
        matches!(self, Self::Peer(..))
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Heureka | Self::Kept(_) => "heureka".to_owned(),
            Self::Peer(peer, _) => peer.name().to_owned(),
            Self::Limit => "the limit".to_owned(),
            Self::Binary(path) => path.display().to_string(),
        }
    }
}

impl Served {
    /// Where it is watched and where it takes changes.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.address, self.writes)
    }

    /// Seconds that the server was on a processor so far.
    pub(crate) fn cpu(&self) -> f64 {
        if self.threads_end { machine::used_by_all(self.process) } else { machine::used_by(self.process) }
    }

    /// Bytes of memory that the server holds.
    ///
    /// # Errors
    /// A server that is gone, a system that does not tell.
    pub(crate) fn resident(&self) -> io::Result<f64> {
        let bytes = machine::resident_of(self.process);
        bytes.map(|bytes| bytes as f64).ok_or_else(|| io::Error::other("the system does not tell its memory"))
    }

    /// The same with its share of what it has in common with other processes.
    ///
    /// # Errors
    /// A server that is gone, a system that does not tell.
    pub(crate) fn proportional(&self) -> io::Result<f64> {
        let bytes = machine::proportional_of(self.process);
        bytes.map(|bytes| bytes as f64).ok_or_else(|| io::Error::other("the system does not tell its memory"))
    }

    /// Moves the clock of the server that this program was built with; any other goes by the machine's. Whether that
    /// was so.
    ///
    /// # Errors
    /// A server that is gone.
    pub(crate) fn skip(&mut self, time: Duration) -> io::Result<bool> {
        let Some(input) = self.input.as_mut().filter(|_| self.can_skip) else { return Ok(false) };
        writeln!(input, "{}", time.as_secs())?;
        Ok(true)
    }

    /// Ends the server as a crash does.
    ///
    /// # Errors
    /// A server that cannot be ended.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Ends the server and tells of a fault whether it came from its having ended by itself.
    pub(crate) fn explain(&mut self, error: &io::Error) -> io::Error {
        drop(self.input.take());
        match self.child.wait() {
            Ok(status) if !status.success() => {
                io::Error::other(format!("the server ended by itself ({status}): {error}"))
            }
            _ => io::Error::other(error.to_string()),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.input.take());
        // Nothing is left to do when it cannot be waited for.
        let _ = self.child.wait();
    }
}

/// Address and process of a child, and where changes are made, from its one line.
fn announced(line: &str) -> Option<(SocketAddr, u32, SocketAddr)> {
    let mut words = line.split_whitespace();
    let address = words.next()?.parse().ok()?;
    let process = words.next()?.parse().ok()?;
    let writes = words.next().map_or(Some(address), |word| word.parse().ok())?;
    Some((address, process, writes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_address_is_no_start() {
        let (one, other) = ("127.0.0.1:80".parse().unwrap(), "127.0.0.1:81".parse().unwrap());
        assert_eq!(announced("127.0.0.1:80 12\n"), Some((one, 12, one)));
        assert_eq!(announced("127.0.0.1:80 12 127.0.0.1:81\n"), Some((one, 12, other)));
        for line in ["", "127.0.0.1:80", "127.0.0.1 12", "heureka 12", "127.0.0.1:80 it", "127.0.0.1:80 12 x"]
        {
            assert_eq!(announced(line), None, "{line}");
        }
    }
}
