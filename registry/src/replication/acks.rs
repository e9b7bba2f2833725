//! How far the peers have followed, for callers that answer only when a write is on two servers.

use tokio::sync::watch;

/// Positions of this server's log that peers acknowledged. Shared by reference.
#[derive(Debug)]
pub struct Acks(watch::Sender<Progress>);

/// What is known of the peers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Streams that are up.
    links: usize,
    /// Highest revision that one of them acknowledged.
    reached: u64,
}

impl Default for Acks {
    fn default() -> Self {
        Self(watch::Sender::new(Progress::default()))
    }
}

impl Acks {
    /// Whether there is a peer that could acknowledge.
    #[must_use]
    pub fn reachable(&self) -> bool {
        self.0.borrow().links > 0
    }

    /// Waits until a peer has taken in the log up to `revision`, or until there is none any more. True when it has.
    pub async fn reached(&self, revision: u64) -> bool {
        let mut progress = self.0.subscribe();
        let settled = progress.wait_for(|progress| progress.reached >= revision || progress.links == 0).await;
        settled.is_ok_and(|progress| progress.reached >= revision)
    }

    /// Highest revision that a peer acknowledged.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.0.borrow().reached
    }

    pub(crate) fn acknowledge(&self, revision: u64) {
        self.0.send_if_modified(|progress| {
            let further = revision > progress.reached;
            progress.reached = progress.reached.max(revision);
            further
        });
    }

    pub(crate) fn link_up(&self) {
        self.0.send_modify(|progress| progress.links += 1);
    }

    pub(crate) fn link_down(&self) {
        self.0.send_modify(|progress| progress.links = progress.links.saturating_sub(1));
    }
}
