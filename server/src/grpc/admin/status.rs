//! How the server is.

use heureka_model::{Selectors, SetDigest};
use heureka_proto::admin::v1;
use heureka_proto::convert::timestamp;
use heureka_registry::{PreservationMode, Registry, Removals, Start, Stats, Subscription};

use super::Admin;
use crate::life::State;
use crate::persist;

/// Attempts to find the registry at rest for the moment that a digest takes.
const ATTEMPTS: usize = 10;

impl Admin {
    pub(super) async fn status(&self) -> v1::GetServerStatusResponse {
        let (core, now) = (&self.core, self.core.now());
        let (registry, stats) = (&core.registry, core.registry.stats());
        let digest = digest(registry).await;
        let paused = core.push.paused(now.mono);
        let set = self.office.preserving.in_force(now.mono);
        let removals = self.office.preserving.removals(!core.life.serves_readers(), now.mono);
        let in_force = mode(removals, registry.config().preservation.mode);
        v1::GetServerStatusResponse {
            header: core.header(registry.head(), now),
            version: env!("CARGO_PKG_VERSION").into(),
            start_time: Some(timestamp(core.life.started())),
            digest: digest.map(Into::into),
            renewals_last_minute: stats.renewals_last_minute,
            renewal_threshold: threshold(&stats, registry.config().preservation.threshold),
            expiry_enabled: !stats.protecting && in_force != v1::SelfPreservationMode::Freeze,
            watchers: self.watches.open() as u64,
            held_removals: stats.held,
            state: state(core.life.state()).into(),
            self_preservation: in_force.into(),
            self_preservation_end_time: set.as_ref().map(|set| timestamp(set.until)),
            self_preservation_reason: set.map(|set| set.reason).unwrap_or_default(),
            store: self.office.store.as_deref().map(store),
            push_resume_time: paused.as_ref().map(|paused| timestamp(paused.until)),
            push_pause_reason: paused.map(|paused| paused.reason).unwrap_or_default(),
        }
    }
}

/// The digest of everything, if nothing changes while it is taken.
async fn digest(registry: &Registry) -> Option<SetDigest> {
    for _ in 0..ATTEMPTS {
        let start = Start::After(registry.head());
        let digest = Subscription::new(registry, Selectors::default(), start).digest(registry);
        if digest.is_some() {
            return digest;
        }
        tokio::task::yield_now().await;
    }
    None
}

fn threshold(stats: &Stats, share: f64) -> u64 {
    (stats.expected_per_minute * share) as u64
}

fn state(state: State) -> v1::ServerState {
    match state {
        State::Starting => v1::ServerState::Starting,
        State::Syncing => v1::ServerState::Syncing,
        State::Ready => v1::ServerState::Ready,
        State::Draining | State::Stopped => v1::ServerState::Draining,
    }
}

fn mode(removals: Removals, configured: PreservationMode) -> v1::SelfPreservationMode {
    let mode = match removals {
        Removals::Frozen => return v1::SelfPreservationMode::Freeze,
        Removals::As(mode) => mode,
        Removals::Configured => configured,
    };
    match mode {
        PreservationMode::Budget => v1::SelfPreservationMode::Budget,
        PreservationMode::Eureka => v1::SelfPreservationMode::Eureka,
        PreservationMode::Off => v1::SelfPreservationMode::Off,
    }
}

fn store(figures: &persist::Figures) -> v1::StoreStatus {
    let (written, failed) = (figures.last_write(), figures.last_error());
    v1::StoreStatus {
        rows: figures.rows(),
        revision: figures.revision(),
        last_write_time: written.map(timestamp),
        last_error_time: failed.as_ref().map(|failed| timestamp(failed.at)),
        last_error: failed.map(|failed| failed.error).unwrap_or_default(),
    }
}
