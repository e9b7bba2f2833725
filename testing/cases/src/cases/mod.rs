//! The cases by section. Numbers have gaps: they are those under which the reports were collected.

mod addresses;
mod clocks;
mod crowds;
mod deltas;
mod formats;
mod lifecycle;
mod moves;
mod overrides;
mod paths;
mod peers;
mod preservation;
mod registration;
mod replicas;
mod scale;
mod streams;
mod subscribers;

use crate::case::Case;

/// Every case in the order of its number.
pub(crate) fn all() -> Vec<Case> {
    let sections = [
        registration::CASES,
        formats::CASES,
        paths::CASES,
        lifecycle::CASES,
        preservation::CASES,
        clocks::CASES,
        deltas::CASES,
        overrides::CASES,
        replicas::CASES,
        peers::CASES,
        moves::CASES,
        streams::CASES,
        crowds::CASES,
        subscribers::CASES,
        addresses::CASES,
        scale::CASES,
    ];
    let mut cases: Vec<Case> = sections.into_iter().flatten().copied().collect();
    cases.sort_by_key(|case| case.id);
    cases
}
