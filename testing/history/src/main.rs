//! `heureka-history FILE…` judges recordings: exit 1 when one breaks a guarantee, 2 when one cannot be judged.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's report")]

use std::path::Path;
use std::process::ExitCode;

use heureka_history::{Recording, Verdict, judge};

const BROKEN: u8 = 1;
const UNJUDGED: u8 = 2;

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: heureka-history FILE…");
        return UNJUDGED.into();
    }
    files.iter().map(|file| report(Path::new(file))).max().unwrap_or(UNJUDGED).into()
}

/// Prints what became of a file; its exit code.
fn report(file: &Path) -> u8 {
    let name = file.display();
    match read(file) {
        Ok(Verdict { counts, broken }) => {
            println!(
                "{name}: {} streams, {} messages, {} changes, {} digests, {} writes, {} breaches",
                counts.streams,
                counts.messages,
                counts.changes,
                counts.digests,
                counts.writes,
                broken.len()
            );
            broken.iter().for_each(|broken| println!("{name}: {broken}"));
            if broken.is_empty() { 0 } else { BROKEN }
        }
        Err(problem) => {
            eprintln!("{name}: {problem}");
            UNJUDGED
        }
    }
}

fn read(file: &Path) -> Result<Verdict, String> {
    let text = std::fs::read_to_string(file).map_err(|problem| problem.to_string())?;
    let recording = Recording::parse(&text).map_err(|problem| problem.to_string())?;
    if recording.is_empty() {
        return Err("no change and no mark to judge".to_owned());
    }
    Ok(judge(&recording))
}
