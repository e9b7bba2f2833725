//! The heartbeat of the process: once a second the core lets time pass and the log gets its next lines.

use std::sync::Arc;
use std::time::Duration;

use heureka_model::Clock;
use tokio::time::{MissedTickBehavior, interval};

use crate::drain::Ending;
use crate::life::{Life, Preserving};
use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::telemetry::LineBudget;

/// Time between two ticks.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a tick moves.
pub(crate) struct Ticks {
    pub(crate) peers: Arc<Peers>,
    pub(crate) life: Arc<Life>,
    pub(crate) preserving: Arc<Preserving>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lines: LineBudget,
    pub(crate) metrics: Arc<Metrics>,
}

impl Ticks {
    /// Ticks until the grace of the end has passed: leases run while requests do.
    pub(crate) async fn run(self, ending: Ending) {
        let mut seconds = interval(INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = tokio::select! {
                due = seconds.tick() => due,
                () = ending.over() => return,
            };
            self.metrics.tick_lag.set(due.elapsed().as_secs_f64());
            let now = self.clock.now();
            let catching_up = !self.life.serves_readers();
            self.peers.replicator().registry().set_removals(self.preserving.removals(catching_up, now.mono));
            self.peers.tick(now);
            self.life.beat(now.mono);
            self.metrics.settle();
            self.lines.refill();
        }
    }
}
