//! The program as a whole: that every row still runs, and what it says when it cannot.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};

const BENCH: &str = env!("CARGO_BIN_EXE_heureka-bench");

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

#[test]
fn arguments_that_are_not_understood_get_the_usage() {
    assert_fails(&["sever"], "sever is unknown\nusage: heureka-bench");
    assert_fails(&["server", "no", "such", "row"], "no row has the words no such row");
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
