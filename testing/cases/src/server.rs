//! A server of its own for a case: the real binary on a free port of 127.0.0.1, gone with the case.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tonic::transport::{Channel, Endpoint};

use crate::case::Bench;
use crate::rest::Rest;

/// Longest time from the start to the line that tells the address.
const START: Duration = Duration::from_secs(20);
/// Kills the server unless told that it has ended: this program may be killed itself.
const GUARD: &str = r#"read -r word || kill -s KILL "$0" 2>/dev/null"#;
/// The window of HTTP/2 that nobody has widened.
const WINDOW: u32 = 65_535;
/// Lines of its complaints that are kept for a message.
const COMPLAINTS: usize = 64;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    guard: Guard,
    pub(crate) address: SocketAddr,
    /// One caller of it.
    pub(crate) rest: Rest,
}

/// The process that outlives this one for the moment it takes to end the server.
#[derive(Debug)]
struct Guard {
    child: Child,
    word: Option<ChildStdin>,
}

impl Bench {
    /// Starts a server with these settings, such as `("preservation.mode", "off")`.
    ///
    /// # Errors
    /// It does not start; what it said stands in the message.
    pub(crate) async fn start(&self, settings: &[(&str, &str)]) -> anyhow::Result<Server> {
        let mut command = Command::new(&self.binary);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEUREKA_"))
        {
            command.env_remove(name);
        }
        command.envs(settings.iter().map(|(key, value)| (variable(key), value)));
        let started = tokio::task::spawn_blocking(move || Server::spawn(command)).await?;
        started.with_context(|| format!("cannot start {}", self.binary.display()))
    }
}

impl Server {
    fn spawn(mut command: Command) -> anyhow::Result<Self> {
        command.args(["--listen", "127.0.0.1:0", "--log", "warn"]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // Without its guard it must not stay.
        let guard = Guard::of(&child).inspect_err(|_| drop((child.kill(), child.wait())))?;
        let told = lines(child.stdout.take());
        let complained = lines(child.stderr.take());
        let address = told.recv_timeout(START).ok().and_then(|line| address(&line));
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let (told, address) = (address.is_some(), address.unwrap_or(unknown));
        let server = Self { child, guard, address, rest: Rest::new(address) };
        if told {
            return Ok(server);
        }
        // Ends it, so that its complaints have an end.
        drop(server);
        let complaints: Vec<String> = complained.iter().collect();
        bail!("it told no address; its complaints: {:?}", complaints.join(" "))
    }

    /// A gRPC connection of its own.
    ///
    /// # Errors
    /// There is none to be had.
    pub(crate) async fn channel(&self) -> anyhow::Result<Channel> {
        connect(self.address).await
    }

    /// Sends a signal, such as `STOP`.
    ///
    /// # Errors
    /// The process is gone.
    pub(crate) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status()?;
        ensure!(sent.success(), "cannot send {name}");
        Ok(())
    }

    /// Processor time that the process has used; nothing on a system without `/proc`.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        processor_time(&text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended already is no reason to complain.
        let _ = self.child.kill();
        self.guard.dismiss();
        let _ = self.child.wait();
    }
}

impl Guard {
    fn of(child: &Child) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, &child.id().to_string()]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start sh")?;
        let word = child.stdin.take();
        Ok(Self { child, word })
    }

    /// To be called while the server's number is still its own.
    fn dismiss(&mut self) {
        if let Some(mut word) = self.word.take() {
            let _ = word.write_all(b"ended\n");
        }
        let _ = self.child.wait();
    }
}

/// A gRPC connection to a server.
///
/// # Errors
/// There is none to be had.
pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<Channel> {
    endpoint(address)?.connect().await.with_context(|| format!("cannot connect to {address}"))
}

/// A gRPC connection that lets in no more unread data than the protocol grants by itself.
///
/// # Errors
/// There is none to be had.
pub(crate) async fn connect_narrow(address: SocketAddr) -> anyhow::Result<Channel> {
    let endpoint =
        endpoint(address)?.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    endpoint.connect().await.with_context(|| format!("cannot connect to {address}"))
}

fn endpoint(address: SocketAddr) -> anyhow::Result<Endpoint> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?.connect_timeout(Duration::from_secs(5)))
}

/// Lines as they come; what nobody takes is dropped.
fn lines(source: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(COMPLAINTS);
    std::thread::spawn(move || {
        for line in source.into_iter().flat_map(|source| BufReader::new(source).lines()).map_while(Result::ok)
        {
            let _ = sender.try_send(line);
        }
    });
    receiver
}

fn address(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("heureka listening on ")?.trim_end().parse().ok()
}

/// `section.key` as the environment names it.
fn variable(key: &str) -> String {
    format!("HEUREKA_{}", key.replace('.', "__").to_uppercase())
}

/// User and system time in `/proc/…/stat`, which counts hundredths of a second.
fn processor_time(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_as_the_environment_names_them() {
        assert_eq!(variable("preservation.max_hold"), "HEUREKA_PRESERVATION__MAX_HOLD");
    }

    #[test]
    fn the_address_is_the_last_field_of_the_line() {
        let told = address("heureka listening on 127.0.0.1:43211\n");
        assert_eq!(told, Some(SocketAddr::from(([127, 0, 0, 1], 43211))));
        assert_eq!(address("something else"), None);
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 1 1 1";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(2)));
    }

    #[tokio::test]
    async fn what_does_not_start_is_told_with_its_own_words() {
        let bench = |binary: &str| Bench { binary: binary.into(), full: false };
        let told = format!("{:#}", bench("/nowhere/heureka").start(&[]).await.unwrap_err());
        assert!(told.starts_with("cannot start /nowhere/heureka: "), "{told}");
        let told = format!("{:#}", bench("false").start(&[]).await.unwrap_err());
        assert!(told.contains("it told no address"), "{told}");
    }
}
