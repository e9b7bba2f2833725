//! Prints what the registry does in a second and what it holds, beside the limit of its libraries. Never a verdict,
//! since figures depend on the machine: a target stands beside each and a reader judges. Two builds of the server
//! measured side by side are another matter; there it says whether one is worse. See `docs/benchmarks.md`.

mod args;
mod cluster;
mod compare;
mod core;
mod drive;
mod instances;
mod machine;
mod memory;
mod report;
mod server;
mod watch;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use args::Command;
use cluster::Scale;
use drive::{Pace, ROWS, eureka};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((first, case)) if first == memory::CASE => return memory::run_case(case),
        Some((first, role)) if first == server::ROLE => return server::run(role),
        _ => {}
    }
    let done = args::parse(&arguments).map(run);
    match done {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(error)) => fail(&format!("not everything could be measured: {error}")),
        Err(problem) => fail(&format!("{problem}\n{}", args::USAGE)),
    }
}

fn fail(problem: &str) -> ExitCode {
    report::complain(problem);
    ExitCode::FAILURE
}

/// Whether what was asked to be compared is as good as before; always, when nothing was.
fn run(command: Command) -> io::Result<bool> {
    if !matches!(command, Command::Smoke | Command::Compare { .. } | Command::Eureka { smoke: true, .. }) {
        report::machine();
    }
    match command {
        Command::Everything => {
            core::run(args::INSTANCES);
            memory::run();
            drive::run(&ROWS, Pace::FULL)?;
        }
        Command::Core(count) => core::run(count),
        Command::Memory => memory::run(),
        Command::Server(words) => drive::run(&drive::named(&words), Pace::FULL)?,
        Command::Compare { old, new, words } => return compare::run(old, new, &drive::named(&words)),
        Command::Eureka { words, smoke } => {
            let scale = if smoke { eureka::Scale::TINY } else { eureka::Scale::FULL };
            eureka::run(&eureka::named(&words), scale)?;
        }
        Command::Cluster { parts, quick } => {
            cluster::run(&parts, if quick { Scale::QUICK } else { Scale::FULL })?;
        }
        Command::Smoke => {
            drive::run(&ROWS, Pace::TINY)?;
            cluster::run(&cluster::SHORT, Scale::TINY)?;
        }
    }
    Ok(true)
}
