//! The names people know: every property of a Eureka server, what it becomes here, or why it has no place.
//!
//! The importer goes by these rows and the documentation is printed from them.

mod client;
mod server;
mod spring;

use super::forms::Form;
use super::statement::Name;

/// Properties with one fate.
pub(super) struct Row {
    /// Names with Spring, in kebab form. `*` stands for one part, at the end for the rest.
    pub(super) spring: &'static [&'static str],
    /// Names with Netflix's own server.
    pub(super) netflix: &'static [&'static str],
    pub(super) fate: Fate,
    /// What to know about it, or why it has no place.
    pub(super) note: &'static str,
}

/// What becomes of a property.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    /// This setting, by this form.
    Becomes(&'static str, Form),
    /// Part of what makes this setting.
    Part(&'static str),
    /// Read to understand other properties.
    Read,
    /// Nothing.
    Nothing,
    /// Nothing, since it is a secret: what to set instead.
    Secret,
}

/// Note about the user of Spring's security.
pub(super) const CREDENTIALS: &str =
    "set `HEUREKA_AUTH__USERS=name:password` instead; without it everybody is served";

type Names = &'static [&'static str];

const fn becomes(spring: Names, netflix: Names, key: &'static str, form: Form, note: &'static str) -> Row {
    Row { spring, netflix, fate: Fate::Becomes(key, form), note }
}

const fn part(spring: Names, netflix: Names, key: &'static str, note: &'static str) -> Row {
    Row { spring, netflix, fate: Fate::Part(key), note }
}

const fn read(spring: Names, netflix: Names, note: &'static str) -> Row {
    Row { spring, netflix, fate: Fate::Read, note }
}

const fn nothing(spring: Names, netflix: Names, note: &'static str) -> Row {
    Row { spring, netflix, fate: Fate::Nothing, note }
}

const fn secret(spring: Names, netflix: Names, note: &'static str) -> Row {
    Row { spring, netflix, fate: Fate::Secret, note }
}

/// Rows under their headings.
pub(super) const GROUPS: &[(&str, &[Row])] = &[
    ("The server", server::ROWS),
    ("The server as a client of others", client::ROWS),
    ("Spring Boot", spring::ROWS),
];

pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|(_, rows)| *rows)
}

/// The row of a property: of several that fit, the one with the most parts of its own.
pub(super) fn find(name: &Name) -> Option<&'static Row> {
    let names = |row: &'static Row| row.spring.iter().chain(row.netflix).map(move |pattern| (pattern, row));
    let fitting = rows().flat_map(names).filter(|(pattern, _)| fits(pattern, name));
    fitting.max_by_key(|(pattern, _)| own_parts(pattern)).map(|(_, row)| row)
}

fn own_parts(pattern: &str) -> usize {
    pattern.split('.').filter(|part| *part != "*").count()
}

/// A name is one of a pattern's.
pub(super) fn fits(pattern: &str, name: &Name) -> bool {
    let (own, _) = Name::parse(pattern);
    let parts: Vec<_> = name.canonical.split('.').collect();
    let open = own.elements.last().is_some_and(|part| part == "*");
    let enough = if open { parts.len() >= own.elements.len() } else { parts.len() == own.elements.len() };
    enough && own.canonical.split('.').zip(parts).all(|(own, part)| own == "*" || own == part)
}

/// A name in the form of an environment variable, `EUREKA_SERVER_ENABLESELFPRESERVATION`, by its parts.
pub(super) fn from_variable(written: &str) -> Option<Vec<String>> {
    let shaped = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !written.contains('_') || !written.chars().all(shaped) {
        return None;
    }
    let said = letters(written);
    let patterns = rows().flat_map(|row| row.spring).filter_map(|pattern| match pattern.strip_suffix(".*") {
        Some(map) => said.strip_prefix(&letters(map)).filter(|key| !key.is_empty()).map(|key| (map, key)),
        None => (letters(pattern) == said && !pattern.contains('*')).then_some((*pattern, "")),
    });
    let (pattern, key) = patterns.max_by_key(|(pattern, key)| (key.is_empty(), pattern.len()))?;
    let parts = pattern.split('.').map(str::to_owned);
    let key = if key == "defaultzone" { "defaultZone" } else { key };
    Some(parts.chain((!key.is_empty()).then(|| key.to_owned())).collect())
}

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::config::Config;
    use super::*;

    fn note(name: &str) -> &'static str {
        find(&Name::parse(name).0).map_or("", |row| row.note)
    }

    #[test]
    fn names_stand_once_and_settings_exist() {
        let names: Vec<_> = rows().flat_map(|row| row.spring.iter().chain(row.netflix)).collect();
        let canonical: BTreeSet<_> = names.iter().map(|name| Name::parse(name).0.canonical).collect();
        assert_eq!(canonical.len(), names.len());
        let keys: BTreeSet<_> = Config::keys().collect();
        for row in rows() {
            if let Fate::Becomes(key, _) | Fate::Part(key) = row.fate {
                assert!(keys.contains(key), "{key}");
            }
            assert!(!row.note.is_empty() || matches!(row.fate, Fate::Becomes(..)), "{:?}", row.spring);
            assert!(!row.note.contains(['|', '\n']) && !row.note.ends_with('.'), "{}", row.note);
        }
    }

    #[test]
    fn the_nearest_row_counts() {
        assert_eq!(note("eureka.instance.metadata-map.zone"), note("eureka.instance.metadataMap.ZONE"));
        assert_ne!(note("eureka.instance.metadata-map.zone"), note("eureka.instance.metadata-map.colour"));
        assert_ne!(note("eureka.server.myUrl"), note("eureka.server.my-sister"));
        assert_eq!(note("totally.unknown"), "");
    }

    #[test]
    fn variables_find_their_properties() {
        for (variable, name) in [
            ("EUREKA_SERVER_ENABLESELFPRESERVATION", "eureka.server.enable-self-preservation"),
            ("EUREKA_SERVER_ENABLE_SELF_PRESERVATION", "eureka.server.enable-self-preservation"),
            ("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", "eureka.client.service-url.defaultZone"),
            ("EUREKA_CLIENT_SERVICE_URL_EAST", "eureka.client.service-url.east"),
            ("SERVER_PORT", "server.port"),
            ("SPRING_PROFILES_ACTIVE", "spring.profiles.active"),
        ] {
            assert_eq!(from_variable(variable).unwrap().join("."), name);
        }
        for name in ["SERVERPORT", "server_port", "SOMETHING_ELSE", "_"] {
            assert_eq!(from_variable(name), None, "{name}");
        }
    }
}
