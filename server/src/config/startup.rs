//! `[startup]`: how long readers wait for a server that has just started.

use std::time::Duration;

use super::Config;
use super::setting::{Finding, Setting, setting};
use crate::life::Rules;

/// `[startup]`.
#[derive(Clone, Debug, PartialEq)]
pub struct StartupConfig {
    /// Time in which readers are refused by a server that nobody told what was registered before.
    pub hold: Duration,
    /// Time in which a peer that is ready is waited for.
    pub peer_wait: Duration,
}

impl Default for StartupConfig {
    fn default() -> Self {
        Self { hold: Duration::ZERO, peer_wait: Duration::from_secs(10) }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("startup.hold", startup.hold: Duration, "Time after the start in which readers are refused while writes are taken, so that clients register before anybody sees a list. Does not apply once a peer or a recent store said what was registered before."),
    setting!("startup.peer_wait", startup.peer_wait: Duration, "How long a server with peers waits for one that is ready before it serves readers with what it has."),
];

const LONGEST: Duration = Duration::from_hours(1);

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let StartupConfig { hold, peer_wait } = config.startup;
    [
        Finding::unless(hold <= LONGEST, "startup.hold", "must be at most 1h"),
        Finding::unless(peer_wait <= LONGEST, "startup.peer_wait", "must be at most 1h"),
    ]
    .into_iter()
    .flatten()
}

impl Config {
    /// When readers are served after a start.
    #[must_use]
    pub fn life(&self) -> Rules {
        Rules { hold: self.startup.hold, peer_wait: self.startup.peer_wait }
    }
}
