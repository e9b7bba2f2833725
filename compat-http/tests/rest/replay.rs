//! Recorded exchanges with the genuine server, sent again to ours. What differs must be one of the numbered
//! deviations, and each of those must still be needed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;

use crate::deviations::{self, Difference};
use crate::documents::{self, Leaves};
use crate::support::{Answer, Server};

/// One recorded request and its answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: String,
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    /// The body's characters are bytes.
    #[serde(default)]
    latin1: bool,
    /// The body was sent compressed.
    #[serde(default)]
    gzip: bool,
    /// Absent where the original never answered.
    status: Option<u16>,
    #[serde(default)]
    answer_headers: BTreeMap<String, String>,
    #[serde(default)]
    answer: String,
    /// Places of clock readings.
    #[serde(default)]
    volatile: Vec<String>,
}

impl Step {
    fn bytes(&self) -> Vec<u8> {
        let plain: Vec<u8> = if self.latin1 {
            self.body.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
        } else {
            self.body.as_bytes().to_vec()
        };
        if !self.gzip {
            return plain;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap()
    }

    async fn send(&self, server: &Server) -> Answer {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        server.send(&self.method, &self.path, &headers, self.bytes()).await
    }
}

fn read(scenario: &str) -> Vec<Step> {
    let path = format!("{}/tests/fixtures/{scenario}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}"))).collect()
}

/// All scenarios, by the files that are there.
fn scenarios() -> BTreeSet<String> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
}

async fn differences_of(scenario: &str) -> Vec<Difference> {
    let server = Server::trusting();
    let mut found = Vec::new();
    for (place, step) in read(scenario).into_iter().enumerate() {
        server.step();
        let answer = step.send(&server).await;
        let mut note = |what: &str, theirs: String, ours: String| {
            found.push(Difference {
                scenario: scenario.to_owned(),
                step: format!("{} {}", place + 1, step.name),
                request: format!("{} {}", step.method, step.path),
                sent: step.body.clone(),
                what: what.to_owned(),
                theirs,
                ours,
            });
        };
        compare(&step, &answer, &mut note);
    }
    found
}

fn compare(step: &Step, answer: &Answer, note: &mut impl FnMut(&str, String, String)) {
    let ours = answer.status.as_u16();
    if step.status != Some(ours) {
        let theirs = step.status.map_or("no answer".into(), |status| status.to_string());
        return note("status", theirs, ours.to_string());
    }
    compare_headers(step, answer, note);
    if matches!(ours, 200 | 409) && step.method != "HEAD" {
        compare_documents(step, answer, note);
    } else if ours == 400 && step.answer != answer.text() {
        note("text", step.answer.clone(), answer.text().to_owned());
    }
}

fn compare_headers(step: &Step, answer: &Answer, note: &mut impl FnMut(&str, String, String)) {
    let theirs = |name: &str| step.answer_headers.get(name).cloned().unwrap_or_default();
    let ours = |name: &str| answer.header(name).unwrap_or_default().to_owned();
    if theirs("Content-Encoding") != ours("content-encoding") {
        note("Content-Encoding", theirs("Content-Encoding"), ours("content-encoding"));
    }
    if theirs("Content-Type") != ours("content-type") && step.method != "OPTIONS" {
        note("Content-Type", theirs("Content-Type"), ours("content-type"));
    }
    if verbs(&theirs("Allow")) != verbs(&ours("allow")) {
        note("Allow", theirs("Allow"), ours("allow"));
    }
}

/// The verbs of an `Allow` header, but `HEAD`, which the original names or not by the code.
fn verbs(allow: &str) -> BTreeSet<&str> {
    allow.split(',').map(str::trim).filter(|verb| !["", "HEAD"].contains(verb)).collect()
}

fn compare_documents(step: &Step, answer: &Answer, note: &mut impl FnMut(&str, String, String)) {
    if step.answer.is_empty() {
        if !answer.body.is_empty() {
            note("body", String::new(), String::from_utf8_lossy(&answer.body).into_owned());
        }
        return;
    }
    let (theirs, ours) = (leaves(step, &step.answer), leaves(step, &plain(answer)));
    let places: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    for place in places {
        let of = |leaves: &Leaves| leaves.get(place).cloned().unwrap_or_else(|| "absent".into());
        if of(&theirs) != of(&ours) {
            note(place, of(&theirs), of(&ours));
        }
    }
}

fn plain(answer: &Answer) -> String {
    if answer.header("content-encoding") != Some("gzip") {
        return answer.text().to_owned();
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(answer.body.as_slice()), &mut text).unwrap();
    text
}

fn leaves(step: &Step, text: &str) -> Leaves {
    let mut leaves = if text.starts_with('{') { documents::of_json(text) } else { documents::of_xml(text) };
    let clocks: BTreeSet<&str> =
        step.volatile.iter().filter_map(|place| place.rsplit(['/', '.']).next()).collect();
    for (place, value) in &mut leaves {
        let member = place.rsplit('/').next().unwrap_or_default();
        if clocks.contains(member) {
            *value = masked(value);
        }
    }
    leaves
}

/// A clock reading as its type and number of digits.
fn masked(value: &str) -> String {
    let digits = value.trim_matches('"');
    if digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.replace(digits, "<13 digits>");
    }
    value.to_owned()
}

#[tokio::test]
async fn every_recorded_exchange_is_answered_alike_but_for_the_listed_deviations() {
    let mut needed = BTreeSet::new();
    let mut unexplained = Vec::new();
    for scenario in scenarios() {
        for difference in differences_of(&scenario).await {
            let reasons: Vec<_> = deviations::covering(&difference).collect();
            needed.extend(&reasons);
            if reasons.is_empty() {
                unexplained.push(difference.to_string());
            }
        }
    }
    assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
    let idle: Vec<_> = deviations::numbers().filter(|number| !needed.contains(number)).collect();
    assert!(idle.is_empty(), "deviations that no exchange shows any more: {idle:?}");
}

#[test]
fn every_deviation_is_a_line_of_the_documentation() {
    let page = include_str!("../../../docs/eureka-compat.md");
    for number in deviations::numbers() {
        assert!(page.contains(&format!("| D{number} |")), "D{number} is missing in docs/eureka-compat.md");
    }
}
