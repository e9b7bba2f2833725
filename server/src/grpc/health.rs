//! What `grpc.health.v1` says: the process lives as long as it answers; each service serves as its state allows.

use std::sync::Arc;

use heureka_proto::peer::v1::replication_service_server;
use heureka_proto::served;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::life::{Life, State};

/// What load balancers hear.
#[derive(Clone, Debug)]
pub(crate) struct Health(HealthReporter);

/// A service by name, and the states in which it serves.
type Service = (&'static str, fn(State) -> bool);

/// Writes are taken from the start on. A stream between servers goes on while clients leave.
const SERVICES: [Service; 3] = [
    (served::registry_service_server::SERVICE_NAME, |state| matches!(state, State::Syncing | State::Ready)),
    (served::discovery_service_server::SERVICE_NAME, |state| state == State::Ready),
    (replication_service_server::SERVICE_NAME, |state| {
        matches!(state, State::Syncing | State::Ready | State::Draining)
    }),
];

impl Health {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self(reporter)
    }

    /// Says what holds in this state.
    pub(crate) async fn set(&self, state: State) {
        for (name, serves) in SERVICES {
            let status = if serves(state) { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.0.set_service_status(name, status).await;
        }
    }

    /// Says what holds from state to state, until the server has stopped.
    pub(crate) async fn follow(self, life: Arc<Life>) {
        let mut states = life.states();
        loop {
            let state = *states.borrow_and_update();
            self.set(state).await;
            if state == State::Stopped || states.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_taken_before_readers_are_answered() {
        let serving = |state| SERVICES.map(|(_, serves)| serves(state));
        assert_eq!(serving(State::Starting), [false, false, false]);
        assert_eq!(serving(State::Syncing), [true, false, true]);
        assert_eq!(serving(State::Ready), [true, true, true]);
        assert_eq!(serving(State::Draining), [false, false, true]);
        assert_eq!(serving(State::Stopped), [false, false, false]);
    }
}
