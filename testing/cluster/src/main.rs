//! Breaks a cluster of real servers on purpose and tells what its clients saw. Exit code 1 when a promise was broken.
//! Times are printed for people and never judged, but for those within which servers must agree again.

mod arguments;
mod kills;
mod report;
mod rolling;
mod smoke;
mod trial;

use std::process::ExitCode;

use arguments::{Arguments, Command, USAGE};
use heureka_cluster::figures::seconds;
use heureka_cluster::server::Program;
use report::{complain, say};
use tokio::time::Instant;

/// Kills when no number is given.
const KILLS: usize = 1000;
/// Rounds of restarts when no number is given.
const ROUNDS: usize = 20;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            complain(format_args!("{wrong}\n{USAGE}"));
            return ExitCode::FAILURE;
        }
    };
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => {
            complain(format_args!("cannot start the runtime: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> ExitCode {
    let program = Program::new(&arguments.server);
    let begun = Instant::now();
    let recording = arguments.recording.as_deref();
    let broken = match arguments.command {
        Command::Smoke => smoke::run(&program, recording).await,
        Command::Kills => kills::run(&program, arguments.count.unwrap_or(KILLS)).await,
        Command::Rolling => rolling::run(&program, arguments.count.unwrap_or(ROUNDS), recording).await,
    };
    match broken {
        Ok(0) => {
            say(format_args!("every promise was kept, in {}", seconds(begun.elapsed())));
            ExitCode::SUCCESS
        }
        Ok(broken) => {
            complain(format_args!("{broken} promises were broken, in {}", seconds(begun.elapsed())));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
