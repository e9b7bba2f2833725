//! The `heureka` binary: arguments, configuration, telemetry, run, drain.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use heureka_registry::Seeds;
use heureka_server::args::Args;
use heureka_server::clock::SystemClock;
use heureka_server::config::Config;
use heureka_server::drain::Drained;
use heureka_server::import;
use heureka_server::telemetry::{self, LineBudget};
use heureka_server::{Running, Server, World, listen};
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(told) => told.exit(),
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(io::stderr(), "heureka: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    if let (files @ [_, ..], profiles) = args.imports() {
        return print_import(files, profiles);
    }
    let print = args.print_config();
    let config = Config::load(&args.sources(std::env::vars_os().collect()))
        .context("the configuration cannot be used")?;
    if print {
        return io::stdout().write_all(config.to_toml().as_bytes()).context("cannot print the configuration");
    }
    let lines = LineBudget::new(config.log.max_lines_per_second);
    telemetry::install(&config.log, lines.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(config, lines));
    // A look-up of a name, or a disk, that does not answer holds nobody up: signals are not heard any more by now.
    runtime.shutdown_background();
    if outcome.is_ok() {
        tracing::info!("stopped");
    }
    outcome
}

/// The TOML on standard output, what a person should know on standard error.
fn print_import(files: &[PathBuf], profiles: &[String]) -> anyhow::Result<()> {
    let import = import::import(files, profiles).context("nothing is imported")?;
    io::stdout().write_all(import.toml.as_bytes()).context("cannot print the configuration")?;
    for line in import.told {
        // The configuration is printed already; nobody is left to tell when standard error is closed.
        let _ = writeln!(io::stderr(), "heureka: {line}");
    }
    Ok(())
}

async fn serve(config: Config, lines: LineBudget) -> anyhow::Result<()> {
    // Before the port is open, so that no early signal goes past them.
    let mut signals = Signals::new(config.tls.is_reloaded()).context("cannot listen for signals")?;
    let listener = listen::bind(config.server.listen)?;
    let world = World { clock: Arc::new(SystemClock::new()), seeds: seeds(), lines };
    let running = Server::new(config, world).start(vec![listener]).await.context("cannot start")?;
    announce(&running).context("cannot print the address")?;
    let grace = loop {
        tokio::select! {
            heard = signals.next() => match heard {
                Heard::End => break None,
                Heard::Reload => running.reload_certificates(),
            },
            grace = running.asked_to_drain() => break grace,
        }
    };
    tracing::info!("draining");
    let drain = async {
        match grace {
            Some(grace) => running.drain_within(grace).await,
            None => running.drain().await,
        }
    };
    tokio::select! {
        drained = drain => {
            tracing::info!(clean = drained == Drained::Clean, "drained");
            Ok(())
        }
        () = signals.end() => anyhow::bail!("a second signal cut the drain short"),
    }
}

/// The one line on standard output; its last field is the address.
fn announce(running: &Running) -> io::Result<()> {
    for address in running.addresses() {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
        writeln!(io::stdout(), "heureka listening on {address}")?;
    }
    io::stdout().flush()
}

fn seeds() -> Seeds {
    Seeds { boot: rand::random_range(1..=u64::MAX), hash: rand::random(), shuffle: rand::random() }
}

/// SIGTERM and SIGINT, and SIGHUP where there is something to read again; elsewhere that ends the process, as it does
/// when a terminal is closed.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Heard {
    End,
    Reload,
}

impl Signals {
    fn new(reloads: bool) -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let hangup = reloads.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { terminate, interrupt, hangup })
    }

    async fn next(&mut self) -> Heard {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Heard::End,
            _ = self.interrupt.recv() => Heard::End,
            _ = hangup => Heard::Reload,
        }
    }

    async fn end(&mut self) {
        while self.next().await == Heard::Reload {}
    }
}
