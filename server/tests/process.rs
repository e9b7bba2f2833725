//! The real binary: its one line, its errors, its signals. The environment's own `HEUREKA_*` are kept away.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

#[path = "support/authority.rs"]
mod authority;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Output, Stdio};

use authority::{Authority, Files, der};

fn heureka(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heureka"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEUREKA_") {
            command.env_remove(name);
        }
    }
    command
}

fn run(arguments: &[&str]) -> (Output, String, String) {
    let output = heureka(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (told, complained) = (text(&output.stdout), text(&output.stderr));
    (output, told, complained)
}

/// A process that is killed when the test ends, however it ends.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::spawn(heureka(&[&["--listen", "127.0.0.1:0"], arguments].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.strip_prefix("heureka listening on ").and_then(|rest| rest.trim_end().parse().ok());
        Self { child, address: address.unwrap_or_else(|| panic!("unexpected line {line:?}")) }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    fn ask(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(self.address).unwrap();
        write!(socket, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_bound_address_is_the_only_line_on_standard_output() {
    let mut server = Server::start(&[]);
    assert_ne!(server.address.port(), 0);
    assert!(server.ask("/health/ready").starts_with("HTTP/1.1 200"));
    assert!(server.ask("/eureka/apps").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success());
    let mut rest = String::new();
    server.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn an_interrupt_ends_it_as_well() {
    let mut server = Server::start(&[]);
    server.signal("INT");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_a_drain_at_once() {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "[drain]\nnotice = '1h'").unwrap();
    let mut server = Server::start(&["--config", config.path().to_str().unwrap()]);
    server.signal("TERM");
    while !server.ask("/health/ready").starts_with("HTTP/1.1 503") {
        std::thread::yield_now();
    }
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_busy_port_is_an_error_that_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (output, told, complained) = run(&["--listen", &address]);
    assert_eq!((output.status.code(), told.as_str()), (Some(1), ""));
    assert!(complained.contains("--listen") && complained.contains(&address), "{complained}");
    assert_eq!(complained.matches("in use").count(), 1, "{complained}");
    assert!(complained.starts_with("heureka: cannot listen on ") && complained.lines().count() == 1);
}

#[test]
fn wrong_settings_end_the_start_with_all_their_names() {
    let output = heureka(&["--zone", "a b"]).env("HEUREKA_LEASE__NOTHING", "1").output().unwrap();
    let complained = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complained.contains("HEUREKA_LEASE__NOTHING") && complained.contains("lease.nothing"),
        "{complained}"
    );
    for (name, value) in [("HEUREKA_SERVER__ZONE", b"a\xff"), ("HEUREKA_PEER__TRUSTED", b"\xff1")] {
        let output = heureka(&[]).env(name, OsStr::from_bytes(value)).output().unwrap();
        let complained = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(complained.contains(name) && complained.contains("is not valid UTF-8"), "{complained}");
    }
    let (output, _, complained) = run(&["--zone", "a b"]);
    assert!(!output.status.success() && complained.contains("server.zone (--zone)"), "{complained}");
    let (output, _, complained) = run(&["--peer", "10.0.0.1:x"]);
    assert!(!output.status.success() && complained.contains("peer.list (--peer)"), "{complained}");
    let (output, _, complained) = run(&["--nonsense"]);
    assert!(!output.status.success() && complained.contains("--nonsense"), "{complained}");
}

#[test]
fn the_effective_configuration_and_the_version_can_be_asked() {
    let (output, told, _) = run(&["--print-config", "--zone", "z1"]);
    assert!(output.status.success());
    let printed: toml::Table = told.parse().unwrap();
    assert_eq!(printed["server"]["zone"].as_str(), Some("z1"));
    let (_, told, _) = run(&["--version"]);
    assert_eq!(told, format!("heureka {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_process_killed_at_any_moment_starts_again_with_what_it_stored() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let mut server = Server::start(&arguments);
    let body = r#"{"instance":{"instanceId":"a","hostName":"h","app":"WEB","ipAddr":"10.0.0.1",
        "status":"UP","dataCenterInfo":{"name":"MyOwn"}}}"#;
    let (head, length) = ("POST /eureka/apps/WEB HTTP/1.1\r\nhost: x\r\nconnection: close", body.len());
    let head = format!("{head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    while !server.ask("/metrics").contains("\nheureka_store_rows 1\n") {
        std::thread::yield_now();
    }
    server.signal("KILL");
    server.child.wait().unwrap();
    for _ in 0..3 {
        let mut server = Server::start(&arguments);
        assert!(server.ask("/eureka/apps/WEB/a").starts_with("HTTP/1.1 200"));
        server.signal("KILL");
        server.child.wait().unwrap();
    }
}

#[test]
fn a_hangup_has_certificates_read_again_and_ends_nothing() {
    let authority = Authority::new();
    let (first, second) = (authority.issue(), authority.issue());
    let files = Files::new(&authority, &first);
    let mut command = heureka(&["--listen", "127.0.0.1:0"]);
    command.env("HEUREKA_TLS__CERTIFICATE", files.certificate()).env("HEUREKA_TLS__KEY", files.key());
    let server = Server::spawn(command);
    let shown = || {
        let name = rustls::pki_types::ServerName::from(server.address.ip());
        let mut client = rustls::ClientConnection::new(authority.believed(&[]), name).unwrap();
        let mut socket = TcpStream::connect(server.address).unwrap();
        while client.is_handshaking() {
            client.complete_io(&mut socket).unwrap();
        }
        client.peer_certificates().unwrap()[0].to_vec()
    };
    assert_eq!(shown(), der(&first.certificate).to_vec());
    files.write(&second);
    server.signal("HUP");
    while shown() != der(&second.certificate).to_vec() {}
}

#[test]
fn half_of_a_certificate_ends_the_start_with_the_setting_that_is_missing() {
    for (set, missing) in [("CERTIFICATE", "tls.key"), ("KEY", "tls.certificate")] {
        let output = heureka(&[]).env(format!("HEUREKA_TLS__{set}"), "/x.pem").output().unwrap();
        let complained = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && complained.contains(&format!("{missing} (default): is missing")));
    }
}
