//! Properties that others go by: what they say, without carrying them.

use super::ImportError;
use super::facts::{Facts, Said};
use super::forms::{self, Refusal};
use super::ledger::Ledger;

/// Where the port of the server stands.
pub(super) const PORT: &[&str] = &["server.port", "eureka.port"];

/// A value, and where it was said.
pub(super) type Part<'a, T> = Option<(T, &'a Said)>;

/// The first of these names that is said, in its form; nothing when none is, or when it is said not to be carried.
pub(super) fn part<'a, T>(
    facts: &'a Facts,
    ledger: &mut Ledger,
    names: &[&str],
    form: fn(&str) -> Result<T, Refusal>,
) -> Result<Part<'a, T>, ImportError> {
    let Some(said) = first(facts, names) else { return Ok(None) };
    let Some(text) = ledger.text(facts, said)? else { return Ok(None) };
    Ok(ledger.formed(said, form(&text))?.map(|value| (value, said)))
}

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

/// A port; 0 is any that is free.
pub(super) fn port(text: &str) -> Result<u16, Refusal> {
    match forms::integer(text)? {
        -1 => Err(Refusal::NoPlace("-1 turns HTTP off, which is all there is".into())),
        port => u16::try_from(port).map_err(|_| Refusal::Unusable("expected a port between 0 and 65535")),
    }
}

/// The port that the file gives the server, when it does.
pub(super) fn own_port(facts: &Facts) -> Result<Option<u16>, ImportError> {
    Ok(part(facts, &mut Ledger::default(), PORT, port)?.map(|(port, _)| port).filter(|port| *port != 0))
}
