//! A copy of another region, taken from one of its servers.
//!
//! Nothing goes there. While none of its servers answers, the copy stays as it is: instances leave it only when a server
//! of the region says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::Regions;
use heureka_compat_http::peer::{DELTA_PATH, LIST_PATH, Mirror};
use heureka_model::Clock;
use heureka_registry::{Config, Registry, Removals, Seeds};

use super::health::Health;
use super::http::Client;
use super::watched::Watched;
use crate::drain::Ending;

/// So many deltas are read between two whole lists.
const DELTAS: u32 = 10;
/// Time between two tries when no server answers.
const RETRY: Duration = Duration::from_secs(1);

/// One server of a region.
pub(super) struct Source {
    pub(super) way: Way,
    pub(super) health: Health,
}

/// How it is read.
pub(super) enum Way {
    /// By its lists and deltas.
    Lists(Client),
    /// By a watch.
    Watch(Watched),
}

/// A copy and the registry that holds it.
pub(super) struct Region {
    core: Arc<Registry>,
    clock: Arc<dyn Clock>,
    /// In the order in which they are tried.
    sources: Vec<Source>,
    interval: Duration,
}

impl Region {
    /// A region without any instance yet.
    pub(super) fn new(sources: Vec<Source>, seeds: Seeds, clock: Arc<dyn Clock>, interval: Duration) -> Self {
        let core = Arc::new(Registry::new(Config::default(), seeds, clock.now()));
        core.set_removals(Removals::Frozen);
        Self { core, clock, sources, interval }
    }

    /// Follows until the server is asked to end.
    pub(super) async fn run(mut self, ending: Ending) {
        let (core, clock) = (self.core.clone(), self.clock.clone());
        let ticks = async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                core.tick(clock.now());
            }
        };
        tokio::select! {
            () = ending.asked() => {}
            () = ticks => {}
            () = self.follow() => {}
        }
    }

    /// Follows one server after the other, each for as long as it answers; after one that did, the first again.
    async fn follow(&mut self) {
        let mut next = 0;
        loop {
            let Source { way, health } = &mut self.sources[next];
            let (reason, answered) = match way {
                Way::Lists(client) => lists(client, health, &self.core, &self.clock, self.interval).await,
                Way::Watch(watched) => watched.follow(health, &self.core, &self.clock).await,
            };
            health.failed(reason, self.clock.now());
            next = if answered { 0 } else { (next + 1) % self.sources.len() };
            if answered || next == 0 {
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Reads a server's lists until it fails; why it did, and whether it answered before. The first list is whole, since
/// another server's delta says nothing of what the copy holds.
async fn lists(
    client: &mut Client,
    health: &Health,
    core: &Registry,
    clock: &Arc<dyn Clock>,
    interval: Duration,
) -> (String, bool) {
    let mut mirror = Mirror::default();
    let (mut deltas_left, mut answered) = (0, false);
    loop {
        let whole = deltas_left == 0;
        let missed = match read(client, &mut mirror, core, clock, whole).await {
            Ok(missed) => missed,
            Err(reason) => return (reason, answered),
        };
        answered = true;
        health.succeeded(clock.now());
        health.copied();
        health.measured(Default::default(), 0, client.sent);
        deltas_left = if whole { DELTAS } else { deltas_left - 1 };
        if missed {
            deltas_left = 0;
        } else {
            tokio::time::sleep(interval).await;
        }
    }
}

/// True when a delta was not enough.
async fn read(
    client: &mut Client,
    mirror: &mut Mirror,
    core: &Registry,
    clock: &Arc<dyn Clock>,
    whole: bool,
) -> Result<bool, String> {
    let read = client.get(if whole { LIST_PATH } else { DELTA_PATH }).await;
    let reply = read.map_err(|error| error.to_string())?;
    if reply.status != 200 {
        return Err(format!("its list is a {}", reply.status));
    }
    let now = clock.now();
    let followed = mirror.follow(core, &reply.body, whole, now);
    let missed = followed.map_err(|error| format!("its list cannot be read: {error}"))?;
    if whole {
        mirror.drop_others(core, now);
    }
    Ok(missed)
}

/// The registries of all regions, for readers.
pub(super) fn readers(regions: &BTreeMap<String, Region>) -> Regions {
    Regions::new(regions.iter().map(|(name, region)| (name.clone(), region.core.clone())).collect())
}
