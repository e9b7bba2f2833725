//! Logs: one line per event on standard error, at most so many a second, without control characters.
//!
//! Whoever talks to the server decides what it writes about, so neither the number of lines nor their bytes
//! may be in the caller's hands. [`LineBudget`] drops lines beyond the ceiling and counts them;
//! [`LineBudget::refill`], called once a second, tells the count in one line of its own. The ceiling therefore
//! is `log.max_lines_per_second` plus one. Control characters, colours and line feeds in values come out
//! escaped, whatever recorded them.

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::config::{LogConfig, LogFormat};

/// Target of the lines that say what an operator did; they come from this machine and are never dropped.
pub const AUDIT: &str = "audit";

/// How many lines may still be written in this second.
#[derive(Clone, Debug)]
pub struct LineBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    per_second: u32,
    left: AtomicU32,
    dropped: AtomicU64,
    dropped_in_all: AtomicU64,
}

/// A subscriber that writes to `writer` as the settings say.
/// The settings were validated; a filter that does not parse means `info`.
pub fn subscriber<W>(config: &LogConfig, lines: LineBudget, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let info = || Targets::new().with_default(LevelFilter::INFO);
    let filter: Targets = config.filter.parse().unwrap_or_else(|_| info());
    let base = tracing_subscriber::registry().with(filter).with(lines);
    let format = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Plain(writer));
    match config.format {
        LogFormat::Text => Box::new(base.with(format)),
        LogFormat::Json => Box::new(base.with(format.json().flatten_event(true))),
    }
}

/// Makes the settings those of the whole process, panics included.
pub fn install(config: &LogConfig, lines: LineBudget) {
    if tracing::subscriber::set_global_default(subscriber(config, lines, io::stderr)).is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
}

/// A panic is a fault of ours; where it happened is told, what the values were is not.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "panicked");
}

impl LineBudget {
    /// A full budget.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let (left, dropped) = (AtomicU32::new(per_second), AtomicU64::new(0));
        Self(Arc::new(Budget { per_second, left, dropped, dropped_in_all: AtomicU64::new(0) }))
    }

    /// Starts the next second and tells how many lines the last one lost.
    pub fn refill(&self) {
        let dropped = self.0.dropped.swap(0, Ordering::Relaxed);
        self.0.left.store(self.0.per_second.saturating_add(u32::from(dropped > 0)), Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "log lines were dropped");
        }
    }

    /// Lines dropped since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped_in_all.load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        let taken =
            self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            self.0.dropped_in_all.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl<S: Subscriber> Layer<S> for LineBudget {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        event.metadata().target() == AUDIT || self.take()
    }
}

/// Escapes control characters on their way out.
struct Plain<W>(W);

struct PlainWriter<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for Plain<W> {
    type Writer = PlainWriter<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        PlainWriter(self.0.make_writer())
    }
}

impl<W: Write> Write for PlainWriter<W> {
    /// Writes one event, which the formatter hands over whole: only its last line feed is its own.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        match text.strip_suffix('\n') {
            Some(line) if line.chars().any(char::is_control) => {
                self.0.write_all(format!("{}\n", escape(line)).as_bytes())?;
            }
            _ => self.0.write_all(event)?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escape(line: &str) -> String {
    let mut plain = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, per_second: u32, run: impl FnOnce(&LineBudget)) -> Vec<String> {
        let page = Page::default();
        let config = LogConfig { format, max_lines_per_second: per_second, ..LogConfig::default() };
        let lines = LineBudget::new(per_second);
        let writer = page.clone();
        let subscriber = subscriber(&config, lines.clone(), move || writer.clone());
        tracing::subscriber::with_default(subscriber, || run(&lines));
        page.lines()
    }

    #[test]
    fn lines_beyond_the_ceiling_are_dropped_and_told() {
        let lines = logged(LogFormat::Text, 10, |budget| {
            for _ in 0..1000 {
                tracing::warn!("flood");
            }
            budget.refill();
            tracing::info!("after");
            assert_eq!(budget.dropped(), 990);
        });
        assert_eq!(lines.len(), 12);
        assert!(
            lines[10].contains("log lines were dropped") && lines[10].contains("dropped=990"),
            "{}",
            lines[10]
        );
        assert!(lines[11].contains("after"));
    }

    #[test]
    fn telling_the_loss_takes_no_line_from_the_next_second() {
        let lines = logged(LogFormat::Text, 5, |budget| {
            for _ in 0..10 {
                (0..50).for_each(|_| tracing::warn!("flood"));
                budget.refill();
            }
        });
        assert_eq!(lines.len(), 10 * (5 + 1));
    }

    #[test]
    fn what_the_filter_drops_costs_no_line() {
        let lines = logged(LogFormat::Text, 1, |_| {
            (0..100).for_each(|_| tracing::debug!("quiet"));
            tracing::info!("heard");
        });
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn values_cannot_forge_lines_or_colours() {
        let evil = "a\u{1b}[31mred\r\nERROR forged\u{7}\u{9b}";
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines =
                logged(format, 10, |_| tracing::warn!(app = %evil, id = evil, other = ?evil, "{evil}"));
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(!lines[0].chars().any(char::is_control), "{lines:?}");
        }
    }

    #[test]
    fn json_lines_are_json() {
        let lines = logged(LogFormat::Json, 10, |_| tracing::info!(app = "A\u{1b}B", "started"));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((line["message"].as_str(), line["app"].as_str()), (Some("started"), Some("A\u{1b}B")));
    }
}
