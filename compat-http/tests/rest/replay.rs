//! Recorded exchanges with the genuine server, sent again to ours. What differs must be one of the numbered
//! deviations, and each of those must still be needed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::Uri;
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
    headers: BTreeMap<String, Values>,
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

/// One value of a header, or several headers of that name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

impl Values {
    fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
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
        let pair = |(name, values): (&'_ String, &'_ Values)| {
            values.all().iter().map(|value| (name.clone(), value.clone())).collect::<Vec<_>>()
        };
        let headers: Vec<(String, String)> = self.headers.iter().flat_map(pair).collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        server.send(&self.method, &self.path, &headers, self.bytes()).await
    }
}

fn read(scenario: &str) -> Vec<Step> {
    let path = format!("{}/tests/fixtures/{scenario}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{path}: {error}")))
        .collect()
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
        if step.path.parse::<Uri>().is_err() {
            // The HTTP layer refuses such a request line before anybody here sees it.
            continue;
        }
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
    if !compare_headers(step, answer, note) {
        return;
    }
    if matches!(ours, 200 | 409) && step.method != "HEAD" {
        compare_documents(step, answer, note);
    } else if ours == 400 && step.answer != answer.text() {
        note("text", step.answer.clone(), answer.text().to_owned());
    }
}

/// Whether the bodies are of one format.
fn compare_headers(step: &Step, answer: &Answer, note: &mut impl FnMut(&str, String, String)) -> bool {
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
    answer.status == 400
        || step.answer.is_empty()
        || step.answer.starts_with('{') == plain(answer).starts_with('{')
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
    let ours = leaves(step, &plain(answer)).unwrap();
    let theirs = match leaves(step, &step.answer) {
        Ok(theirs) => theirs,
        Err(problem) => return note("document", problem, "well-formed".into()),
    };
    let (their_instances, our_instances) = (instances(&theirs), instances(&ours));
    for instance in their_instances.symmetric_difference(&our_instances) {
        let presence = |there: bool| if there { "present" } else { "absent" }.to_owned();
        note(
            instance,
            presence(their_instances.contains(instance)),
            presence(our_instances.contains(instance)),
        );
    }
    let shared: Vec<_> = their_instances.intersection(&our_instances).collect();
    let in_shared = |place: &String| instance_of(place).is_none_or(|instance| shared.contains(&&instance));
    let places: BTreeSet<&String> =
        theirs.keys().chain(ours.keys()).filter(|place| in_shared(place)).collect();
    for place in places {
        let of = |leaves: &Leaves| leaves.get(place).cloned().unwrap_or_else(|| "absent".into());
        if of(&theirs) != of(&ours) {
            note(place, of(&theirs), of(&ours));
        }
    }
}

/// The instances of a list, by application and id.
fn instances(leaves: &Leaves) -> BTreeSet<String> {
    leaves.keys().filter_map(|place| instance_of(place)).collect()
}

/// The instance of a list that a leaf belongs to.
fn instance_of(place: &str) -> Option<String> {
    let start = place.find("/instance[")?;
    let length = place[start..].find("]/")? + 1;
    Some(place[..start + length].to_owned())
}

fn plain(answer: &Answer) -> String {
    if answer.header("content-encoding") != Some("gzip") {
        return answer.text().to_owned();
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(answer.body.as_slice()), &mut text)
        .unwrap();
    text
}

/// Members that hold clock readings where the recording could not say which do.
const CLOCKS: [&str; 5] = [
    "lastUpdatedTimestamp",
    "lastDirtyTimestamp",
    "lastRenewalTimestamp",
    "registrationTimestamp",
    "serviceUpTimestamp",
];

fn leaves(step: &Step, text: &str) -> Result<Leaves, String> {
    let mut leaves = if text.starts_with('{') { documents::of_json(text) } else { documents::of_xml(text) }?;
    let mut clocks: BTreeSet<&str> =
        step.volatile.iter().filter_map(|place| place.rsplit(['/', '.']).next()).collect();
    if step.volatile.iter().any(|place| place.starts_with("(not well-formed)")) {
        clocks.extend(CLOCKS);
    }
    for (place, value) in &mut leaves {
        let member = place.rsplit('/').next().unwrap_or_default();
        if clocks.contains(member) {
            *value = masked(value);
        }
    }
    Ok(leaves)
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
    let mut needed: BTreeSet<u32> = BTreeSet::new();
    let mut unexplained = Vec::new();
    for scenario in scenarios() {
        for difference in differences_of(&scenario).await {
            let reasons: Vec<u32> = deviations::covering(&difference).collect();
            needed.extend(reasons.iter().copied());
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
