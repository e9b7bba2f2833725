//! `docs/eureka-compat.md` says what is so: its quirks are decided and pinned, its deviations shown by a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::deviations;

const PAGE: &str = include_str!("../../../docs/eureka-compat.md");
const ALLOWED: &str = include_str!("../../../testing/conformance/java-server/allowed.py");
const QUIRKS: usize = 67;

/// Rows of a table below a heading line.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let table = PAGE.split_once(heading).unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Numbers of the deviations that the page lists.
fn listed() -> BTreeSet<u32> {
    let rows = rows("| no. | the original | Heureka | why |");
    let numbers = rows.iter().map(|row| row[0].strip_prefix('D').unwrap().parse().unwrap());
    let listed: BTreeSet<u32> = numbers.collect();
    assert_eq!(listed.len(), rows.len(), "a number stands twice");
    listed
}

/// Sources of the workspace: by what a test in them may be named, and their text.
fn sources(folder: &Path, found: &mut Vec<(Vec<String>, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if let Some(stem) = name.strip_suffix(".rs") {
            let folder = folder.file_name().unwrap().to_string_lossy().into_owned();
            found.push((vec![stem.to_owned(), folder], fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_quirk_is_decided_once_with_a_reason_and_what_pins_it() {
    let rows = rows("| no. | the original | decision | here | pinned by |");
    assert_eq!(rows.len(), QUIRKS);
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut all);
    let listed = listed();
    for (place, row) in rows.iter().enumerate() {
        let [number, original, decision, here, pins] = row[..] else { panic!("{row:?}") };
        assert_eq!(number.parse(), Ok(place + 1));
        assert!(["keep", "fix", "switch"].contains(&decision), "{row:?}");
        assert!(!original.is_empty() && !here.is_empty() && !pins.is_empty(), "{row:?}");
        for pin in pins.split(", ") {
            if let Some(number) = pin.strip_prefix('D') {
                assert!(listed.contains(&number.parse().unwrap()), "quirk {place}: {pin}");
                continue;
            }
            let (module, name) = pin.trim_matches('`').rsplit_once("::").unwrap();
            let function = format!("fn {name}(");
            let exists = all
                .iter()
                .any(|(names, text)| names.iter().any(|one| one == module) && text.contains(&function));
            assert!(exists, "quirk {}: {pin} does not exist", place + 1);
        }
    }
}

#[test]
fn every_deviation_is_shown_by_recorded_exchanges_or_beside_genuine_servers() {
    let beside: BTreeSet<u32> = ALLOWED
        .split("@entry(\"D")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    let shown: BTreeSet<u32> = deviations::numbers().chain(beside).collect();
    assert_eq!(shown, listed());
}
