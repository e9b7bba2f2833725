//! The readers of XML: the Python client, and those in Go that monitoring is built on, Prometheus and ArthurHlt's.

use super::Seen;
use crate::documents::Element;

/// The Python client: every number there and whole, every attribute there. Anything else loses the whole answer.
pub(crate) fn read_as_python(text: &str) -> Result<Seen, String> {
    let root = root(text)?;
    number(&root, "versions__delta")?;
    let mut seen = Seen::new();
    for one in root.instances() {
        for port in ["port", "securePort"] {
            number(one, port)?;
            attribute(child(one, port)?, "enabled")?;
        }
        attribute(child(one, "dataCenterInfo")?, "class")?;
        for member in ["countryId", "lastUpdatedTimestamp", "lastDirtyTimestamp"] {
            number(one, member)?;
        }
        let lease = child(one, "leaseInfo")?;
        for member in &lease.children {
            number(lease, &member.name)?;
        }
        child(one, "metadata")?.children.iter().try_for_each(|entry| plain_name(&entry.name))?;
        seen.insert(key(one)?);
    }
    Ok(seen)
}

/// Prometheus' discovery and ArthurHlt's client: ports and flags typed, metadata taken as they stand in the text.
pub(crate) fn read_as_prometheus(text: &str) -> Result<Seen, String> {
    let root = root(text)?;
    let mut seen = Seen::new();
    for one in root.instances() {
        for port in ["port", "securePort"] {
            let port = child(one, port)?;
            port.text.parse::<u16>().map_err(|error| format!("port: {error}"))?;
            flag(attribute(port, "enabled")?)?;
        }
        flag(&child(one, "isCoordinatingDiscoveryServer")?.text)?;
        for member in ["hostName", "ipAddr", "status"] {
            if child(one, member)?.text.is_empty() {
                return Err(format!("{member} is empty"));
            }
        }
        let entries = &child(one, "metadata")?.children;
        entries.iter().try_for_each(|entry| plain_name(&entry.name))?;
        if entries.iter().any(|entry| !entry.children.is_empty()) {
            return Err("nested metadata".to_owned());
        }
        seen.insert(key(one)?);
    }
    Ok(seen)
}

fn root(text: &str) -> Result<Element, String> {
    let root = Element::parse(text)?;
    if root.name == "applications" { Ok(root) } else { Err(format!("root {}", root.name)) }
}

fn key(one: &Element) -> Result<(String, String), String> {
    Ok((child(one, "app")?.text.clone(), child(one, "instanceId")?.text.clone()))
}

fn child<'a>(of: &'a Element, name: &str) -> Result<&'a Element, String> {
    of.child(name).ok_or_else(|| format!("no {name}"))
}

fn number(of: &Element, name: &str) -> Result<i64, String> {
    child(of, name)?.text.parse().map_err(|error| format!("{name}: {error}"))
}

fn attribute<'a>(of: &'a Element, name: &str) -> Result<&'a str, String> {
    of.attribute(name).ok_or_else(|| format!("{}: no {name}", of.name))
}

fn flag(text: &str) -> Result<(), String> {
    if ["true", "false"].contains(&text) { Ok(()) } else { Err(format!("{text:?} is no flag")) }
}

/// A name without a colon that no parser refuses.
fn plain_name(name: &str) -> Result<(), String> {
    let starts = |c: char| c.is_alphabetic() || c == '_';
    let plain =
        name.chars().next().is_some_and(starts) && !name.contains([':', ' ', '<', '&', '/', '$', '@']);
    if plain { Ok(()) } else { Err(format!("{name:?} is no name")) }
}
