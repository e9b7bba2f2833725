//! Faults planted into servers and clients on purpose, to see that they are found.

use heureka_registry::seeded::{Bug, plant};

/// The faults that can be planted, by number.
#[must_use]
pub fn bugs() -> Vec<u8> {
    Bug::OF_WATCHES.into_iter().map(|bug| bug as u8).collect()
}

/// What a fault is, by its number.
#[must_use]
pub fn name_of(number: u8) -> Option<String> {
    find(number).map(|bug| format!("{bug:?}"))
}

/// Plants a fault in this whole process. False when this build cannot, or there is no such fault.
#[must_use]
pub fn arm(number: u8) -> bool {
    plant_everywhere(find(number))
}

/// Takes the planted fault away.
pub fn disarm() {
    plant_everywhere(None);
}

fn find(number: u8) -> Option<Bug> {
    Bug::OF_WATCHES.into_iter().find(|bug| *bug as u8 == number)
}

/// In servers and clients alike, which know nothing of each other. Whether there is one now.
fn plant_everywhere(bug: Option<Bug>) -> bool {
    #[cfg(feature = "seeded-bugs")]
    heureka_client::seeded::plant(bug == Some(Bug::OlderShown));
    plant(bug) && bug.is_some()
}

/// Servers that this thread starts from now on keep so many recent changes.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn shorten_ring(changes: Option<usize>) {
    heureka_registry::seeded::shorten_ring(changes);
}

/// Where no fault can be planted, servers keep as many recent changes as always.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) fn shorten_ring(_changes: Option<usize>) {}
