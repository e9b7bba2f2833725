//! The pages that say which test holds what: each test, fault, guarantee and case that they name exists.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use heureka_history::Guarantee;
use heureka_registry::seeded::Bug;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// Every source of the workspace: names that tests in it go by, and its text.
fn sources() -> Vec<(Vec<String>, String)> {
    let mut sources = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if let Some(stem) = name.strip_suffix(".rs") {
                let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
                sources.push((vec![stem.to_owned(), folder], fs::read_to_string(path).unwrap()));
            }
        }
    }
    sources
}

/// What stands in backticks and looks like a test: a module and a sentence.
fn named(text: &str) -> BTreeSet<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let tests = quoted.filter_map(|quoted| quoted.rsplit_once("::"));
    let is_sentence = |name: &str| name.matches('_').count() > 2;
    let last = |path: &str| path.rsplit("::").next().unwrap_or(path).to_owned();
    tests.filter(|(_, name)| is_sentence(name)).map(|(path, name)| (last(path), name.to_owned())).collect()
}

#[test]
fn every_test_that_a_page_names_exists() {
    let sources = sources();
    let mut count = 0;
    for page in [page("watch-contract.md"), page("testing.md")] {
        for (module, name) in named(&page) {
            let function = format!("fn {name}(");
            let exists =
                sources.iter().any(|(names, text)| names.contains(&module) && text.contains(&function));
            assert!(exists, "{module}::{name} is named and does not exist");
            count += 1;
        }
    }
    assert!(count > 60, "only {count} are named");
}

/// Rows of a table below a heading line.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let table = page.split_once(heading).unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_guarantee_has_tests_and_was_seen_to_be_broken() {
    let page = page("watch-contract.md");
    let heading = "| name | held by | broken stream that is found | planted fault that is found |";
    let rows = rows(&page, heading);
    let names: Vec<_> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, Guarantee::ALL.map(Guarantee::name));
    for row in rows {
        assert!(!named(row[1]).is_empty() && !named(row[2]).is_empty(), "{row:?}");
        assert!(row[3].split(", ").all(|fault| known_faults().contains(fault)), "{row:?}");
    }
}

fn known_faults() -> BTreeSet<String> {
    Bug::OF_WATCHES.iter().map(|bug| format!("{} {bug:?}", *bug as u8)).collect()
}

#[test]
fn every_fault_of_watches_is_listed_once() {
    let page = page("testing.md");
    let rows = rows(&page, "| fault | what is wrong | first found as | seeds |");
    let listed: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), known_faults());
    assert_eq!(listed.len(), known_faults().len());
}

#[test]
fn every_case_that_the_museum_names_exists() {
    let page = page("testing.md");
    let museum = page.split_once("## A museum of faults").unwrap().1.split("\n## ").next().unwrap();
    let cases: BTreeSet<_> = museum.split("case F").skip(1).map(|rest| &rest[..2]).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let wanted = format!("(\"F{case}\"");
        assert!(sources().iter().any(|(_, text)| text.contains(&wanted)), "F{case}");
    }
}
