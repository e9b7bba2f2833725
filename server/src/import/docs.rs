//! The table of names for the documentation.

use std::fmt::Write as _;

use super::table::{Fate, GROUPS, Row};

const HEAD: &str = "\
## The names people know

What the properties of a Eureka server become here, or why they have no place. `heureka --import-properties FILE` goes by
this table: it reads an `application.properties`, `application.yml` or `eureka-server.properties` and prints the TOML for
it, with every property that it does not carry and the reason as a comment. Names are read in every relaxed form;
`*` stands for any name.
";

/// The table, in Markdown.
pub(super) fn render() -> String {
    let mut page = HEAD.to_owned();
    for (heading, rows) in GROUPS {
        // A write to a String cannot fail.
        let _ = write!(
            page,
            "\n### {heading}\n\n| with Spring | with Netflix | here | note |\n|---|---|---|---|\n"
        );
        for row in *rows {
            let (spring, netflix) = (names(row.spring), names(row.netflix));
            let _ = writeln!(page, "| {spring} | {netflix} | {} | {} |", here(row), row.note);
        }
    }
    page
}

fn names(names: &[&str]) -> String {
    if names.is_empty() {
        return "–".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join("<br>")
}

fn here(row: &Row) -> String {
    match row.fate {
        Fate::Becomes(key, _) | Fate::Part(key) => format!("`{key}`"),
        Fate::Read => "is read".to_owned(),
        Fate::Nothing => "–".to_owned(),
        Fate::Secret => "– (never printed)".to_owned(),
    }
}
