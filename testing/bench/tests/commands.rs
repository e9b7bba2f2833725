//! The program as a whole: that every row still runs, and what it says when it cannot.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const BENCH: &str = env!("CARGO_BIN_EXE_heureka-bench");

/// Tests that load servers take turns, so that none of these misses a deadline for another's sake.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(BENCH).args(arguments).output().expect("the bench is a program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_fails(arguments: &[&str], told: &str) {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let complaint = text(&output.stderr);
    assert!(complaint.contains(told), "{arguments:?}: {complaint}");
}

#[test]
fn every_server_row_runs() {
    let _turn = turn();
    let output = run(&["smoke"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for row in [
        "gRPC register, changed",
        "gRPC batched renew",
        "gRPC get one app",
        "REST renew",
        "REST full fetch",
        "REST delta fetch",
        "change to one watcher",
        "last of 1000 watchers",
        "a connection each",
        "one core at 1 change/s",
        "idle connection",
        "further watch",
        "rolling restart",
        "back without a whole set",
        "beside a stopped one",
        "stopped watcher",
    ] {
        assert!(table.contains(row), "{row} is missing:\n{table}");
    }
    for other in ["etcd", "rnacos"] {
        let told = [format!("{other}: "), format!("{other} not found: ")];
        assert!(told.iter().any(|told| table.contains(told)), "nothing is said of {other}:\n{table}");
    }
}

/// The program in a folder of its own, with a jar beside it when that is wanted, and with a `java` that does this.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, has_jar: bool, java: Option<&str>) -> Self {
        let place =
            Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())));
        place.fill(has_jar, java).expect("files can be written beside the program");
        place
    }

    fn fill(&self, has_jar: bool, java: Option<&str>) -> io::Result<()> {
        let jar = self.0.join("conformance/eureka-5.0.3");
        for folder in [&jar, &self.0.join("built"), &self.0.join("bin")] {
            fs::create_dir_all(folder)?;
        }
        if has_jar {
            fs::write(jar.join("eureka.jar"), "")?;
        }
        if let Some(java) = java {
            let program = self.0.join("bin/java");
            fs::write(&program, format!("#!/bin/sh\n{java}\n"))?;
            fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
        }
        let program = self.0.join("built/heureka-bench");
        fs::hard_link(BENCH, &program).or_else(|_| fs::copy(BENCH, &program).map(|_| ()))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.0.join("built/heureka-bench"));
        // Whatever is set where the tests run does not reach the server that stands for the original.
        command.args(arguments).env_clear().env("PATH", self.0.join("bin"));
        command.output().expect("the bench is a program")
    }

    #[track_caller]
    fn assert_fails(&self, told: &str) {
        let output = self.run(&["eureka", "--smoke"]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = text(&output.stderr);
        assert!(complaint.contains(told), "{complaint}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed now goes with the build.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A virtual machine that runs the bench's own server whatever the jar.
fn own_server() -> String {
    let port = "for word; do case $word in --server.port=*) port=${word#*=} ;; esac; done";
    format!("{port}\nexec '{BENCH}' serve node --listen 127.0.0.1:$port --log error")
}

#[test]
fn every_row_beside_an_original_runs() {
    let _turn = turn();
    let output = Place::new("rows", true, Some(&own_server())).run(&["eureka", "--smoke"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for row in [
        "memory, 1000 instances, fresh",
        "memory, 10000 instances, fresh",
        "full fetch (1000), JSON, gzip, quiet",
        "full fetch (1000), JSON, gzip, 10 changes/s",
        "register, changed, JSON",
        "renew",
        "get one app of a hundred",
        "full fetch (10000), JSON, gzip, quiet",
        "full fetch (10000), JSON, gzip, 10 changes/s",
        "delta fetch (1000 changes), JSON, gzip, quiet",
        "change visible to a client that polls",
        "the original with all its caches: ",
        "memory, 10000 instances, after all this",
    ] {
        assert!(table.contains(row), "{row} is missing:\n{table}");
    }
    assert!(table.contains("polls, at most 1 / 1"), "a change was not in the next poll:\n{table}");
    assert_eq!(table.matches("server CPU, ours / the original's = 1/").count(), 9, "{table}");
}

#[test]
fn an_original_that_is_not_here_is_told_with_what_makes_it() {
    Place::new("no-jar", false, Some("exit 0")).assert_fails("mvn -q -f testing/conformance/eureka/pom.xml");
    Place::new("no-java", true, None).assert_fails("java not found: apt-get install");
}

#[test]
fn an_original_that_ends_by_itself_is_told() {
    Place::new("dying", true, Some("exit 3")).assert_fails("eureka did not start");
}

#[test]
fn arguments_that_are_not_understood_get_the_usage() {
    assert_fails(&["sever"], "sever is unknown\nusage: heureka-bench");
    assert_fails(&["server", "no", "such", "row"], "no row has the words no such row");
    assert_fails(&["eureka", "--smoke", "moon"], "no row has the words moon");
    assert_fails(&["compare", "one"], "compare needs two heureka binaries");
}

#[test]
fn a_build_that_does_not_start_is_named() {
    assert_fails(&["compare", "/nowhere/heureka", "/nowhere/heureka"], "/nowhere/heureka did not start");
    assert_fails(&["compare", BENCH, BENCH, "renew"], "did not start");
}

#[test]
fn a_server_ends_with_whoever_started_it() {
    for role in ["heureka", "limit"] {
        let mut child = Command::new(BENCH)
            .args(["serve", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address: SocketAddr = line.split(' ').next().unwrap().parse().unwrap();
        TcpStream::connect(address).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "{role}");
        assert!(TcpStream::connect(address).is_err(), "{role} still listens");
    }
}
