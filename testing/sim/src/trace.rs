//! What is kept of a run for whoever must explain it. Kept only when asked for, since most runs need no explanation.

use std::collections::VecDeque;

use heureka_model::InstanceKey;
use heureka_registry::replication::{Frame, Outgoing};

use crate::monitors::Served;
use crate::observe::{Seen, Transition};

/// Lines kept.
const LINES: usize = 200_000;

/// What happened, in lines.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Option<VecDeque<Line>>,
}

#[derive(Clone, Debug)]
struct Line {
    at: u64,
    /// The key it is about, when it is about one.
    key: Option<usize>,
    text: String,
}

impl Trace {
    /// Keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { lines: None }
    }

    /// Keeps everything, as far as there is room.
    #[must_use]
    pub fn on() -> Self {
        Self { lines: Some(VecDeque::new()) }
    }

    /// The lines that tell of a key or of none, each with its time, oldest first; all lines without a key.
    pub fn lines(&self, key: Option<usize>) -> impl Iterator<Item = String> + '_ {
        let wanted = move |line: &&Line| key.is_none() || line.key.is_none() || line.key == key;
        let lines = self.lines.iter().flatten().filter(wanted);
        lines.map(|line| format!("{:>9.3} {}", line.at as f64 / 1_000.0, line.text))
    }

    pub(crate) fn note(&mut self, at: u64, text: impl FnOnce() -> String) {
        self.push(at, None, text);
    }

    pub(crate) fn transition(&mut self, change: &Transition) {
        let text = || {
            let Transition { node, key, after, by, .. } = change;
            let overlay = after.overlay.status.map(|set| set.status);
            format!(
                "n{node} k{key} {:?} owner {} written {}:{:x} content {}/{} {} override {overlay:?} at {}:{:x} by {by:?}",
                after.life,
                after.owner,
                after.written.clock,
                after.written.boot & 0xffff,
                after.process,
                after.content,
                after.status.as_str(),
                after.overlay_stamp.clock,
                after.overlay_stamp.boot & 0xffff,
            )
        };
        self.push(change.at, Some(change.key), text);
    }

    pub(crate) fn served(&mut self, at: u64, served: &Served<'_>) {
        let text = || {
            let Served { node, key, request, answer, .. } = served;
            let verb = match &request.verb {
                crate::client::Verb::Register(_, claim) => format!("register {claim:?}"),
                crate::client::Verb::Renew(beat) => format!("renew {beat:?}"),
                crate::client::Verb::Cancel(claim) => format!("cancel {claim:?}"),
            };
            let late = at - request.sent;
            format!(
                "n{node} k{key} request {} of {}/{} sent {late} ms ago: {verb} -> {answer:?}",
                request.id, request.process, request.content
            )
        };
        self.push(at, Some(served.key), text);
    }

    pub(crate) fn frame(&mut self, at: u64, from: usize, to: usize, frame: &Frame) {
        if !matches!(frame, Frame::State(_) | Frame::Ack(_)) {
            self.push(at, None, || format!("n{from} -> n{to} {}", brief(frame)));
        }
    }

    fn push(&mut self, at: u64, key: Option<usize>, text: impl FnOnce() -> String) {
        let Some(lines) = &mut self.lines else { return };
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(Line { at, key, text: text() });
    }
}

/// A frame in one line.
fn brief(frame: &Frame) -> String {
    match frame {
        Frame::Records(records) => {
            let items: Vec<String> = records.records.iter().map(brief_record).collect();
            let complete = if records.complete { " complete" } else { "" };
            format!("records [{}] to {}{complete}", items.join(", "), records.revision)
        }
        Frame::Renewals(renewals) => {
            let ages: Vec<String> = renewals
                .beats
                .iter()
                .map(|beat| format!("{}:{}", beat.handle, beat.age.as_millis()))
                .collect();
            let bound: Vec<String> =
                renewals.bindings.iter().map(|bound| format!("{}={}", bound.handle, bound.key)).collect();
            format!("renewals [{}] {}", ages.join(" "), bound.join(" "))
        }
        Frame::Hello(hello) => {
            format!("hello {:x} {:?} ready {}", hello.boot & 0xffff, hello.applied, hello.ready)
        }
        Frame::Want(keys) => format!("want {}", names(keys)),
        Frame::Probe(keys) => format!("probe {}", names(keys)),
        Frame::Reports(reports) => format!("reports {}", reports.len()),
        Frame::Groups(groups) => format!("groups {}", groups.len()),
        Frame::Buckets(buckets) => format!("buckets {}", buckets.len()),
        Frame::Summary(summary) => format!("summary of {} reply {}", summary.buckets.len(), summary.reply),
        Frame::Pull
        | Frame::State(_)
        | Frame::Ack(_)
        | Frame::Drain
        | Frame::Inspect(_)
        | Frame::Versions(_) => format!("{frame:?}"),
    }
}

fn brief_record(record: &Outgoing) -> String {
    let seen = Seen::of(&record.state);
    let written = seen.written;
    format!(
        "{} {:?} {} {}:{:x} age {}{}",
        record.state.key,
        seen.life,
        seen.owner,
        written.clock,
        written.boot & 0xffff,
        record.age.as_millis(),
        if record.beaten { " beaten" } else { "" }
    )
}

fn names(keys: &[InstanceKey]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
