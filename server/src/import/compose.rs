//! From facts to settings: property by property, after those that make a setting together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ImportError;
use super::facts::{Facts, Said};
use super::forms::{self, Refusal};
use super::ledger::{Ledger, Told};
use super::peers;
use super::table::{self, Fate, Row};
use crate::config::DEFAULT_PORT;

/// Settles every property.
pub(super) fn settle(facts: &Facts) -> Result<Ledger, ImportError> {
    let mut ledger = Ledger::default();
    listen(facts, &mut ledger)?;
    hold(facts, &mut ledger)?;
    zone(facts, &mut ledger)?;
    peers::peers(facts, &mut ledger)?;
    peers::regions(facts, &mut ledger)?;
    let mut all: Vec<_> = facts.iter().map(|(_, said)| said).collect();
    all.sort_by(|a, b| a.first().place.cmp(&b.first().place));
    for said in all {
        property(facts, &mut ledger, said)?;
    }
    Ok(ledger)
}

fn property(facts: &Facts, ledger: &mut Ledger, said: &Said) -> Result<(), ImportError> {
    let line = said.first().place.line;
    let reason = format!("is said at line {line} in the spelling that counts");
    ledger.left.extend(said.others.iter().map(|other| Told::of(other, &*reason)));
    if ledger.is_done(said) {
        return Ok(());
    }
    let Some(row) = table::find(&said.first().name) else {
        ledger.leave(said, "is no property of a Eureka server that is known here");
        return Ok(());
    };
    by_row(facts, ledger, said, row)
}

fn by_row(facts: &Facts, ledger: &mut Ledger, said: &Said, row: &Row) -> Result<(), ImportError> {
    match row.fate {
        Fate::Nothing => ledger.leave(said, row.note),
        Fate::Part(_) | Fate::Read => {
            if ledger.text(facts, said)?.is_some() {
                ledger.read(said, row.note);
            }
        }
        Fate::Secret => {
            if row.note == table::CREDENTIALS {
                ledger.warnings.insert(OPEN);
            }
            ledger.leave(said, format!("is never printed; {}", row.note));
        }
        Fate::Becomes(key, form) => {
            let Some(text) = ledger.text(facts, said)? else { return Ok(()) };
            if let Some(value) = ledger.formed(said, form(&text))? {
                ledger.carry(key, value, &[said], Vec::new());
            }
        }
    }
    Ok(())
}

const OPEN: &str = "the file asks for a password, what is printed serves everybody until \
                    HEUREKA_AUTH__USERS=name:password is set";

/// The first of these names that is said.
pub(super) fn first<'a>(facts: &'a Facts, names: &[&str]) -> Option<&'a Said> {
    names.iter().find_map(|name| facts.said(name))
}

/// Whether one of these names says so; nothing when none does, or when no file says all of it.
pub(super) fn truth(facts: &Facts, names: &[&str]) -> Result<Option<bool>, ImportError> {
    let Some(said) = first(facts, names) else { return Ok(None) };
    let mut aside = Ledger::default();
    let Some(text) = aside.text(facts, said)? else { return Ok(None) };
    aside.formed(said, forms::truth(&text))
}

/// A text for other properties to go by; nothing when it is not said, or not whole.
pub(super) fn plain(facts: &Facts, names: &[&str]) -> Result<Option<String>, ImportError> {
    let Some(said) = first(facts, names) else { return Ok(None) };
    let text = Ledger::default().text(facts, said)?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Address and port: each from the file, or as they are here.
fn listen(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    let address = part(facts, ledger, &["server.address"], address)?;
    let port = part(facts, ledger, PORT, port)?;
    let from: Vec<_> =
        [port.map(|(_, said)| said), address.map(|(_, said)| said)].into_iter().flatten().collect();
    if from.is_empty() {
        return Ok(());
    }
    let port = port.map_or(DEFAULT_PORT, |(port, _)| port);
    let address = address.map_or(Ipv6Addr::UNSPECIFIED.into(), |(address, _)| address);
    let value = SocketAddr::new(address, port).to_string();
    ledger.carry("server.listen", value.into(), &from, Vec::new());
    Ok(())
}

const PORT: &[&str] = &["server.port", "eureka.port"];

type Part<'a, T> = Option<(T, &'a Said)>;

fn part<'a, T>(
    facts: &'a Facts,
    ledger: &mut Ledger,
    names: &[&str],
    form: fn(&str) -> Result<T, Refusal>,
) -> Result<Part<'a, T>, ImportError> {
    let Some(said) = first(facts, names) else { return Ok(None) };
    let Some(text) = ledger.text(facts, said)? else { return Ok(None) };
    Ok(ledger.formed(said, form(&text))?.map(|value| (value, said)))
}

fn address(text: &str) -> Result<IpAddr, Refusal> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| Refusal::NoPlace("server.listen takes an IP address, not a name".into()))
}

fn port(text: &str) -> Result<u16, Refusal> {
    match forms::integer(text)? {
        -1 => Err(Refusal::NoPlace("-1 turns HTTP off, which is all there is".into())),
        port => u16::try_from(port).map_err(|_| Refusal::Unusable("expected a port between 0 and 65535")),
    }
}

/// The port that the file gives the server, when it does.
pub(super) fn own_port(facts: &Facts) -> Result<Option<u16>, ImportError> {
    Ok(part(facts, &mut Ledger::default(), PORT, port)?.map(|(port, _)| port).filter(|port| *port != 0))
}

/// Spring's server waits for nobody while its count of clients at the start is not 0.
fn hold(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    const SPRING: &str = "eureka.server.wait-time-in-ms-when-sync-empty";
    const OPEN: [&str; 2] = [
        "eureka.instance.registry.default-open-for-traffic-count",
        "eureka.server.default-open-for-traffic-count",
    ];
    let Some((value, said)) =
        part(facts, ledger, &[SPRING, "eureka.waitTimeInMsWhenSyncEmpty"], forms::millis)?
    else {
        return Ok(());
    };
    let idle = value.as_str() == Some("0s");
    let springs = table::fits(SPRING, &said.first().name);
    if springs && !idle && plain(facts, &OPEN)?.as_deref() != Some("0") {
        let reason = "Spring's server does not wait either unless default-open-for-traffic-count is 0; see startup.hold";
        ledger.leave(said, reason);
    } else {
        ledger.carry("startup.hold", value, &[said], Vec::new());
    }
    Ok(())
}

/// The zone of the metadata, or else the first of the region.
fn zone(facts: &Facts, ledger: &mut Ledger) -> Result<(), ImportError> {
    let named = ["eureka.instance.metadata-map.zone", "eureka.metadata.zone"];
    if let Some((value, said)) = part(facts, ledger, &named, forms::word)? {
        ledger.carry("server.zone", value, &[said], Vec::new());
    } else if let Some((zones, said)) = peers::zones(facts)?
        && let Some(zone) = zones.first()
    {
        ledger.carry("server.zone", zone.as_str().into(), &[said], Vec::new());
    }
    Ok(())
}
