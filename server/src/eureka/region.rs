//! A copy of another region, read from one of its servers.
//!
//! Nothing goes there. While none of its servers answers, the copy stays as it is: instances leave it only when a server
//! of the region no longer lists them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::Regions;
use heureka_compat_http::peer::{DELTA_PATH, LIST_PATH, Mirror};
use heureka_model::Clock;
use heureka_registry::{Config, Registry, Removals, Seeds};

use super::health::Health;
use super::http::Client;
use crate::drain::Ending;

/// So many deltas are read between two whole lists.
const DELTAS: u32 = 10;

/// A copy and the registry that holds it.
pub(super) struct Region {
    core: Arc<Registry>,
    clock: Arc<dyn Clock>,
    /// In the order in which they are tried.
    servers: Vec<(Client, Health)>,
    interval: Duration,
    mirror: Mirror,
    /// Which server was read last, and deltas of it until the next whole list.
    current: usize,
    deltas_left: u32,
}

impl Region {
    /// A region without any instance yet.
    pub(super) fn new(
        servers: Vec<(Client, Health)>,
        seeds: Seeds,
        clock: Arc<dyn Clock>,
        interval: Duration,
    ) -> Self {
        let core = Arc::new(Registry::new(Config::default(), seeds, clock.now()));
        core.set_removals(Removals::Frozen);
        Self { core, clock, servers, interval, mirror: Mirror::default(), current: 0, deltas_left: 0 }
    }

    /// The registry that holds the copy.
    pub(super) fn core(&self) -> &Arc<Registry> {
        &self.core
    }

    /// Follows until the server is asked to end.
    pub(super) async fn run(mut self, ending: Ending) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let mut polls = tokio::time::interval(self.interval);
        polls.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ending.asked() => return,
                _ = seconds.tick() => self.core.tick(self.clock.now()),
                _ = polls.tick() => self.poll().await,
            }
        }
    }

    /// Reads the first server that answers: the one before, or from the first on. Another server's delta says nothing of
    /// what this copy holds, so that one is read whole.
    async fn poll(&mut self) {
        let whole = self.deltas_left == 0;
        if self.read(self.current, whole).await {
            return;
        }
        for server in 0..self.servers.len() {
            if self.read(server, true).await {
                return;
            }
        }
    }

    /// True when the server told what the copy holds now.
    async fn read(&mut self, server: usize, whole: bool) -> bool {
        match self.follow(server, whole).await {
            Ok(false) => true,
            Ok(true) => self.follow(server, true).await.is_ok(),
            Err(reason) => {
                self.servers[server].1.failed(reason, self.clock.now());
                self.deltas_left = 0;
                false
            }
        }
    }

    /// True when a delta was not enough.
    async fn follow(&mut self, server: usize, whole: bool) -> Result<bool, String> {
        let (client, health) = &mut self.servers[server];
        let read = client.get(if whole { LIST_PATH } else { DELTA_PATH }).await;
        let reply = read.map_err(|error| error.to_string())?;
        if reply.status != 200 {
            return Err(format!("its list is a {}", reply.status));
        }
        let now = self.clock.now();
        let followed = self.mirror.follow(&self.core, &reply.body, whole, now);
        let missed = followed.map_err(|error| format!("its list cannot be read: {error}"))?;
        health.succeeded(now);
        health.copied();
        health.measured(Default::default(), 0, client.sent);
        self.current = server;
        self.deltas_left = if whole { DELTAS } else { self.deltas_left.saturating_sub(1) };
        Ok(missed)
    }
}

/// The registries of all regions, for readers.
pub(super) fn readers(regions: &BTreeMap<String, Region>) -> Regions {
    Regions::new(regions.iter().map(|(name, region)| (name.clone(), region.core().clone())).collect())
}
