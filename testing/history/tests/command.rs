//! The command: what it prints and with which code it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use heureka_history::What;
use heureka_proto::v1::SnapshotMode;

use support::*;

/// Code and output for files with these contents.
fn judged(contents: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = |(number, text)| {
        let path = folder.path().join(format!("{number}.jsonl"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let files: Vec<_> = contents.iter().enumerate().map(file).collect();
    command(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

fn command(files: &[&Path]) -> (i32, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_heureka-history")).args(files).output().unwrap();
    let told = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8(told).unwrap())
}

fn lines(steps: impl IntoIterator<Item = What>) -> String {
    recording(steps).to_lines()
}

fn kept() -> String {
    lines([follow(), begin(SnapshotMode::Full, 1), batch(1, vec![put("a", 1)]), end(1, of(&[("a", 1)]))])
}

fn broken() -> String {
    lines([follow(), begin(SnapshotMode::Full, 1), end(1, of(&[("a", 1)]))])
}

#[test]
fn a_kept_recording_is_counted() {
    let (code, told) = judged(&[&kept()]);
    assert_eq!(code, 0, "{told}");
    assert!(
        told.contains("0.jsonl: 1 streams, 3 messages, 1 changes, 1 digests, 0 writes, 0 breaches\n"),
        "{told}"
    );
}

#[test]
fn a_breach_is_told_and_ends_with_one() {
    let (code, told) = judged(&[&kept(), &broken()]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("1.jsonl: line 3: not view equality: expected 1 instances, hash "), "{told}");
}

#[test]
fn what_cannot_be_judged_ends_with_two() {
    for text in ["", "{\"open\":{\"spec\":\"\"}}\n", "no json"] {
        let (code, told) = judged(&[&kept(), &broken(), text]);
        assert_eq!(code, 2, "{told}");
    }
    assert_eq!(command(&[]).0, 2);
    assert_eq!(command(&[Path::new("/nowhere")]).0, 2);
}

#[test]
fn messages_that_say_nothing_are_no_recording() {
    let begun = lines([follow(), begin(SnapshotMode::Full, 1)]);
    let nothing = lines([follow(), What::Message(bytes::Bytes::new())]);
    for text in [begun, nothing] {
        let (code, told) = judged(&[&text]);
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("0.jsonl: no change and no mark to judge\n"), "{told}");
    }
}
