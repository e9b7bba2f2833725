//! What a case is, and the line that it prints.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use heureka_cluster::cluster::Layout;
use heureka_cluster::server::{Program, Server};
use tokio::time::timeout;

/// What a case found: its figure, or what was expected and seen.
pub(crate) type Found = anyhow::Result<String>;

type Body = fn(Bench) -> Pin<Box<dyn Future<Output = Found> + Send>>;

/// Longest time for one case; beyond it something hangs.
const SHORT: Duration = Duration::from_secs(120);
const FULL: Duration = Duration::from_secs(45 * 60);

/// What every case gets.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) binary: PathBuf,
    pub(crate) full: bool,
}

/// One case from the field.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    body: Body,
}

/// How a case ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Pass(String),
    Fail(String),
}

impl Bench {
    /// Starts a server with these settings, such as `("preservation.mode", "off")`.
    ///
    /// # Errors
    /// It does not start; what it said stands in the message.
    pub(crate) async fn start(&self, settings: &[(&str, &str)]) -> anyhow::Result<Server> {
        Program::new(&self.binary).start(settings).await
    }

    /// So many servers that are each other's peers.
    pub(crate) fn cluster(&self, nodes: usize) -> Layout {
        Layout::new(&Program::new(&self.binary), nodes)
    }

    /// The first in a short run, the second in a full one.
    pub(crate) fn pick<T>(&self, short: T, full: T) -> T {
        if self.full { full } else { short }
    }

    /// Whole seconds, as with [`Self::pick`].
    pub(crate) fn seconds(&self, short: u64, full: u64) -> Duration {
        Duration::from_secs(self.pick(short, full))
    }
}

impl Case {
    pub(crate) const fn new(id: &'static str, title: &'static str, body: Body) -> Self {
        Self { id, title, body }
    }

    /// Runs it to its verdict. It has a task of its own, so that a panic in it is a verdict too.
    pub(crate) async fn run(&self, bench: Bench) -> Verdict {
        let (body, longest) = (self.body, bench.pick(SHORT, FULL));
        let task = tokio::spawn(async move { timeout(longest, body(bench)).await });
        match task.await {
            Ok(Ok(Ok(figure))) => Verdict::Pass(figure),
            Ok(Ok(Err(wrong))) => Verdict::Fail(format!("{wrong:#}")),
            Ok(Err(_)) => Verdict::Fail(format!("did not end within {} s", longest.as_secs())),
            Err(panicked) => Verdict::Fail(format!("broke off: {panicked}")),
        }
    }

    /// The line of a case that ended.
    pub(crate) fn line(&self, verdict: &Verdict) -> String {
        format!("{}  {verdict}  {}{}", self.id, self.title, verdict.detail())
    }
}

impl Verdict {
    fn detail(&self) -> String {
        match self {
            Self::Pass(figure) if figure.is_empty() => String::new(),
            Self::Pass(figure) => format!(" · {figure}"),
            Self::Fail(wrong) => format!(" · {wrong}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass(_) => "pass",
            Self::Fail(_) => "FAIL",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        Bench { binary: PathBuf::new(), full: false }
    }

    #[tokio::test]
    async fn every_ending_is_a_verdict() {
        let table: [(Case, Verdict); 3] = [
            (
                Case::new("F01", "t", |_| Box::pin(async { Ok("7 ms".to_owned()) })),
                Verdict::Pass("7 ms".to_owned()),
            ),
            (
                Case::new("F01", "t", |_| Box::pin(async { Err(anyhow::anyhow!("x")) })),
                Verdict::Fail("x".to_owned()),
            ),
            (
                Case::new("F01", "t", |_| Box::pin(std::future::pending())),
                Verdict::Fail("did not end within 120 s".to_owned()),
            ),
        ];
        tokio::time::pause();
        for (case, expected) in table {
            assert_eq!(case.run(bench()).await, expected);
        }
        let panics = Case::new("F01", "t", |_| Box::pin(async { panic!("on purpose") }));
        assert!(matches!(panics.run(bench()).await, Verdict::Fail(_)));
    }

    #[test]
    fn a_line_has_case_verdict_and_figure() {
        let case = Case::new("F66", "Basic auth", |_| Box::pin(std::future::pending()));
        assert_eq!(case.line(&Verdict::Pass(String::new())), "F66  pass  Basic auth");
        assert_eq!(case.line(&Verdict::Fail("200".into())), "F66  FAIL  Basic auth · 200");
    }
}
