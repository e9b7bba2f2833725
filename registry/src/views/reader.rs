//! What a watch reads: the log, or a choice of what is there.

use heureka_model::{InstanceKey, Now, SetDigest};
use tokio::sync::watch;

use super::View;
use crate::Registry;
use crate::watch::{Batch, Place, Subscription, TakesLong};

/// A subscription of either kind.
#[derive(Debug)]
pub enum Reader {
    /// To the log.
    Log(Subscription),
    /// To a choice.
    View(Box<View>),
}

impl Reader {
    /// As [`Subscription::poll`].
    pub fn poll(&mut self, registry: &Registry, max: usize, now: Now) -> Batch {
        match self {
            Self::Log(subscription) => subscription.poll(registry, max, now),
            Self::View(view) => view.poll(registry, max, now),
        }
    }

    /// As [`Subscription::changes`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        match self {
            Self::Log(subscription) => subscription.changes(),
            Self::View(view) => view.changes(),
        }
    }

    /// Wakes for reports, where they decide what is held.
    #[must_use]
    pub fn news(&self) -> Option<watch::Receiver<u64>> {
        match self {
            Self::Log(_) => None,
            Self::View(view) => view.news(),
        }
    }

    /// As [`Subscription::pass`].
    pub fn pass(&mut self, registry: &Registry) -> u64 {
        match self {
            Self::Log(subscription) => subscription.pass(registry),
            Self::View(view) => view.pass(registry),
        }
    }

    /// Revision up to which everything was told.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            Self::Log(subscription) => subscription.position(),
            Self::View(view) => view.position(),
        }
    }

    /// As [`Subscription::place`]; nothing for a choice, which is made for each reader by itself.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Log(subscription) => Some(subscription.place()),
            Self::View(_) => None,
        }
    }

    /// As [`Subscription::digest`].
    pub fn digest(&mut self, registry: &Registry) -> Option<SetDigest> {
        match self {
            Self::Log(subscription) => subscription.digest(registry),
            Self::View(view) => view.digest(),
        }
    }

    /// As [`Subscription::digest_at_hand`].
    ///
    /// # Errors
    /// As there.
    pub fn digest_at_hand(&mut self, registry: &Registry) -> Result<Option<SetDigest>, TakesLong> {
        match self {
            Self::Log(subscription) => subscription.digest_at_hand(registry),
            Self::View(view) => Ok(view.digest()),
        }
    }

    /// As [`Subscription::is_lost`].
    #[must_use]
    pub fn is_lost(&self, registry: &Registry) -> bool {
        match self {
            Self::Log(subscription) => subscription.is_lost(registry),
            Self::View(view) => view.is_lost(),
        }
    }

    /// Whether a view told of this instance; nothing when the selection alone decides.
    pub(crate) fn holds(&self, key: &InstanceKey) -> Option<bool> {
        match self {
            Self::Log(_) => None,
            Self::View(view) => Some(view.holds(key)),
        }
    }
}

impl From<Subscription> for Reader {
    fn from(subscription: Subscription) -> Self {
        Self::Log(subscription)
    }
}

impl From<Box<View>> for Reader {
    fn from(view: Box<View>) -> Self {
        Self::View(view)
    }
}
