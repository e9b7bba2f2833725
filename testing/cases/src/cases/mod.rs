//! The cases by section. Numbers have gaps: they are those under which the reports were collected.

mod addresses;
mod clocks;
mod crowds;
mod deltas;
mod formats;
mod lifecycle;
mod overrides;
mod paths;
mod preservation;
mod registration;
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
        CLUSTER,
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

/// What needs more than one server.
const CLUSTER: &[Case] = &[
    Case::not_yet("F47", "a cancel during a partition stays cancelled", "needs a cluster"),
    Case::not_yet("F50", "a peer that replicates is shown as available", "needs a cluster"),
    Case::not_yet("F51", "one slow peer slows nobody else", "needs a cluster"),
];
