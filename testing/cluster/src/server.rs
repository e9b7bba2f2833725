//! One server: the real binary on a free port of 127.0.0.1, gone with the value that stands for it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use crate::rest::Rest;

/// Longest time from the start to the line that tells the address.
const START: Duration = Duration::from_secs(20);
/// Kills the server unless told that it has ended: this program may be killed itself.
const GUARD: &str = r#"read -r word || kill -s KILL "$0" 2>/dev/null"#;
/// The window of HTTP/2 that nobody has widened.
const WINDOW: u32 = 65_535;
/// Lines of its complaints that are kept for a message, the latest.
const COMPLAINTS: usize = 64;
/// How often it is looked at whether a process has ended.
const GLANCE: Duration = Duration::from_millis(5);

/// A server that can be started, any number of times.
#[derive(Clone, Debug)]
pub struct Program {
    binary: PathBuf,
    leading: Vec<OsString>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    guard: Guard,
    complaints: Complaints,
    /// Where it listens.
    pub address: SocketAddr,
    /// One caller of it.
    pub rest: Rest,
}

/// The process that outlives this one for the moment it takes to end the server.
#[derive(Debug)]
struct Guard {
    child: Child,
    word: Option<ChildStdin>,
}

/// What a server said on standard error.
#[derive(Debug)]
struct Complaints {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    /// The binary `heureka`, or one that behaves alike after the arguments of [`Self::leading`].
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), leading: Vec::new() }
    }

    /// With an argument that goes before all others.
    #[must_use]
    pub fn leading(mut self, argument: impl Into<OsString>) -> Self {
        self.leading.push(argument.into());
        self
    }

    /// Starts a server with these settings, such as `("preservation.mode", "off")`.
    ///
    /// # Errors
    /// It does not start; what it said stands in the message.
    pub async fn start(&self, settings: &[(&str, &str)]) -> anyhow::Result<Server> {
        self.start_with(&[], settings).await
    }

    /// As [`Self::start`], with further arguments.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(
        &self,
        arguments: &[String],
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        let mut command = Command::new(&self.binary);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEUREKA_"))
        {
            command.env_remove(name);
        }
        command.args(&self.leading).args(["--listen", "127.0.0.1:0", "--log", "warn"]).args(arguments);
        command.envs(settings.iter().map(|(key, value)| (variable(key), value)));
        let started = tokio::task::spawn_blocking(move || Server::spawn(command)).await?;
        started.with_context(|| format!("cannot start {}", self.binary.display()))
    }
}

impl Server {
    fn spawn(mut command: Command) -> anyhow::Result<Self> {
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // Without its guard it must not stay.
        let guard = Guard::of(&child).inspect_err(|_| drop((child.kill(), child.wait())))?;
        let told = lines(child.stdout.take());
        let complaints = Complaints::read(child.stderr.take());
        let address = told.recv_timeout(START).ok().and_then(|line| address(&line));
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let (told, address) = (address.is_some(), address.unwrap_or(unknown));
        let mut server = Self { child, guard, complaints, address, rest: Rest::new(address) };
        if told {
            return Ok(server);
        }
        server.end();
        bail!("it told no address; its complaints: {:?}", server.complaints.all().join(" "))
    }

    /// A gRPC connection of its own.
    ///
    /// # Errors
    /// There is none to be had.
    pub async fn channel(&self) -> anyhow::Result<Channel> {
        connect(self.address).await
    }

    /// Number of its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `STOP`.
    ///
    /// # Errors
    /// The process is gone.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status()?;
        ensure!(sent.success(), "cannot send {name}");
        Ok(())
    }

    /// Kills it at once, without a further process in between; it may take a moment to be gone.
    ///
    /// # Errors
    /// The process is gone.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the server")
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It did not within that time.
    pub async fn ended(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.guard.dismiss();
                return Ok(status);
            }
            ensure!(begun.elapsed() <= within, "it has not ended within {} s", within.as_secs());
            sleep(GLANCE).await;
        }
    }

    /// The latest lines of its standard error.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.lines()
    }

    /// Processor time that the process has used; nothing on a system without `/proc`.
    #[must_use]
    pub fn processor_time(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        processor_time(&text)
    }

    fn end(&mut self) {
        // A process that has ended already is no reason to complain.
        let _ = self.child.kill();
        self.guard.dismiss();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
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

impl Complaints {
    fn read(source: Option<impl std::io::Read + Send + 'static>) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::with_capacity(COMPLAINTS)));
        let kept = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            let read = source.into_iter().flat_map(|source| BufReader::new(source).lines());
            for line in read.map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == COMPLAINTS {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
        Self { lines, reader: Some(reader) }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Those of a process that has ended.
    fn all(&mut self) -> Vec<String> {
        // A reader that broke off has kept what it read.
        let _ = self.reader.take().map(JoinHandle::join);
        self.lines()
    }
}

/// A gRPC connection to a server.
///
/// # Errors
/// There is none to be had.
pub async fn connect(address: SocketAddr) -> anyhow::Result<Channel> {
    endpoint(address)?.connect().await.with_context(|| format!("cannot connect to {address}"))
}

/// A gRPC connection that lets in no more unread data than the protocol grants by itself.
///
/// # Errors
/// There is none to be had.
pub async fn connect_narrow(address: SocketAddr) -> anyhow::Result<Channel> {
    let endpoint =
        endpoint(address)?.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    endpoint.connect().await.with_context(|| format!("cannot connect to {address}"))
}

fn endpoint(address: SocketAddr) -> anyhow::Result<Endpoint> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?.connect_timeout(Duration::from_secs(5)))
}

/// Lines as they come; what nobody takes is dropped.
fn lines(source: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
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
        let told = format!("{:#}", Program::new("/nowhere/heureka").start(&[]).await.unwrap_err());
        assert!(told.starts_with("cannot start /nowhere/heureka: "), "{told}");
        let told = format!("{:#}", Program::new("false").start(&[]).await.unwrap_err());
        assert!(told.contains("it told no address"), "{told}");
        let speaks = Program::new("sh").leading("-c").leading("echo no port >&2");
        let told = format!("{:#}", speaks.start(&[]).await.unwrap_err());
        assert!(told.contains("no port"), "{told}");
    }
}
