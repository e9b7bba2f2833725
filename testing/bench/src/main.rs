//! Prints what the registry does in a second and what an instance takes. Never a verdict: figures depend on the
//! machine, so a target stands beside each and a reader judges. See `docs/benchmarks.md`.

mod core;
mod drive;
mod instances;
mod machine;
mod memory;
mod report;
mod server;
mod watch;

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Instances that the core is measured with.
const INSTANCES: usize = 1_000_000;

/// Fewer make the smallest measurement meaningless.
const FEWEST: usize = 50_000;

const USAGE: &str = "usage: heureka-bench [core [INSTANCES] | memory | server]
  nothing named: everything
  INSTANCES: 50000 or more, 1000000 when not given";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [memory::CASE, case @ ..] => return memory::run_case(case),
        [server::ROLE, role @ ..] => return server::run(role),
        _ => {}
    }
    match parse(&arguments) {
        Some(parts) => run(&parts),
        None => {
            report::complain(USAGE);
            ExitCode::FAILURE
        }
    }
}

/// What to measure.
struct Parts {
    core: Option<usize>,
    memory: bool,
    server: bool,
}

fn parse(arguments: &[&str]) -> Option<Parts> {
    let nothing = Parts { core: None, memory: false, server: false };
    match arguments {
        [] => Some(Parts { core: Some(INSTANCES), memory: true, server: true }),
        ["core"] => Some(Parts { core: Some(INSTANCES), ..nothing }),
        ["core", count] => {
            let count = count.parse().ok().filter(|count| *count >= FEWEST)?;
            Some(Parts { core: Some(count), ..nothing })
        }
        ["memory"] => Some(Parts { memory: true, ..nothing }),
        ["server"] => Some(Parts { server: true, ..nothing }),
        _ => None,
    }
}

fn run(parts: &Parts) -> ExitCode {
    report::machine();
    if let Some(count) = parts.core {
        core::run(count);
    }
    if parts.memory {
        memory::run();
    }
    if parts.server
        && let Err(error) = drive::run()
    {
        report::complain(&format!("the servers could not be measured: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
