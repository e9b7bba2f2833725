//! The TOML that is printed.

use std::fmt::Write as _;

use super::ledger::{Carried, Ledger, Told};
use crate::config::Config;

/// The settings in the order of the documentation, each with where it comes from; below, what is not carried.
pub(super) fn toml(ledger: &Ledger, files: &[String], profiles: &[String]) -> String {
    let mut page = head(ledger, files, profiles);
    let mut open = "";
    for key in Config::keys() {
        let Some(carried) = ledger.carried.iter().find(|carried| carried.key == key) else { continue };
        let (section, name) = key.split_once('.').expect("invariant: keys are section.key");
        if section != open {
            line(&mut page, &format!("\n[{section}]"));
            open = section;
        }
        setting(&mut page, name, carried);
    }
    block(&mut page, "Not carried", &ledger.left);
    block(&mut page, "Read to understand the others", &ledger.read);
    page
}

fn head(ledger: &Ledger, files: &[String], profiles: &[String]) -> String {
    let mut page = String::new();
    comment(&mut page, &format!("From {} by heureka --import-properties.", files.join(", ")));
    if !profiles.is_empty() {
        let note = "their own files, such as application-NAME.yml, count only when they are named, too";
        comment(&mut page, &format!("Active profiles: {}; {note}.", profiles.join(", ")));
    }
    for warning in &ledger.warnings {
        comment(&mut page, &format!("Mind: {warning}."));
    }
    if !ledger.carried.iter().any(|carried| carried.key == "server.listen") {
        comment(
            &mut page,
            "No port is carried: Heureka listens on 8761, where Spring would take 8080 by default.",
        );
    }
    page
}

fn setting(page: &mut String, name: &str, carried: &Carried) {
    for told in &carried.from {
        let reason = if told.reason.is_empty() { String::new() } else { format!(": {}", told.reason) };
        comment(page, &format!("{}, {}{reason}", told.place, told.name));
    }
    for remark in &carried.remarks {
        comment(page, remark);
    }
    line(page, &format!("{name} = {}", carried.value));
}

fn block(page: &mut String, heading: &str, all: &[Told]) {
    if all.is_empty() {
        return;
    }
    let mut all: Vec<_> = all.iter().collect();
    all.sort();
    all.dedup();
    line(page, "");
    comment(page, &format!("{heading}:"));
    for Told { place, name, reason } in all {
        comment(page, &format!("  {place}, {name}: {reason}"));
    }
}

/// One line, whatever it holds.
fn comment(page: &mut String, text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line(page, &format!("# {text}"));
}

fn line(page: &mut String, text: &str) {
    // A write to a String cannot fail.
    let _ = writeln!(page, "{text}");
}

/// What a person at a terminal is told beside what is printed.
pub(super) fn summary(ledger: &Ledger) -> Vec<String> {
    let (carried, left) = (ledger.carried.len(), ledger.left.len());
    let counts =
        format!("settings carried: {carried}; not carried, each with its reason in a comment: {left}");
    ledger.warnings.iter().map(|warning| (*warning).to_owned()).chain([counts]).collect()
}
