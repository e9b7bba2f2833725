//! From facts to settings: property by property, after those that make a setting together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ImportError;
use super::facts::{Facts, Said};
use super::forms::{self, Refusal};
use super::ledger::{Ledger, Told};
use super::parts::{PORT, part, plain, port};
use super::peers;
use super::statement::shown;
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
    tell_defaults(facts, &mut ledger);
    Ok(ledger)
}

/// Where the server runs, the environment may say something else.
fn tell_defaults(facts: &Facts, ledger: &mut Ledger) {
    for told in ledger.carried.iter_mut().flat_map(|carried| &mut carried.from) {
        let names: Vec<_> =
            facts.defaulted(&told.name).iter().map(|name| format!("${{{}}}", shown(name))).collect();
        if !names.is_empty() {
            told.reason = format!("by default, since no file says {}", names.join(", "));
        }
    }
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

fn address(text: &str) -> Result<IpAddr, Refusal> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| Refusal::NoPlace("server.listen takes an IP address, not a name".into()))
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
