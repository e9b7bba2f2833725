//! The end: not ready, clients told, requests finished, out.
//!
//! Three moments follow each other. *Announced*: readiness and gRPC health are off, everything else goes on, so
//! that a load balancer has time to notice. *Asked*: every watch is told to go elsewhere with its token, every
//! connection to end after its requests, and nothing is accepted any more. *Over*: the grace has passed,
//! whatever is still open is cut, since an open stream would hold the process for ever.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The end of a server, shared by everything that has to take part in it.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    announced: CancellationToken,
    asked: CancellationToken,
    over: CancellationToken,
    connections: TaskTracker,
}

/// The end of one connection, for its age or with the server's. A stream that would outlive it says goodbye and
/// ends when it is told.
#[derive(Clone, Debug)]
pub struct Leaving(CancellationToken);

/// Whether everything ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every request was answered.
    Clean,
    /// The grace passed and connections were cut.
    Cut,
}

impl Ending {
    /// The end is announced: not ready any more.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.announced.is_cancelled()
    }

    /// Does something as soon as the end is announced.
    pub fn announced(&self, then: impl Future<Output = ()> + Send + 'static) {
        let announced = self.announced.clone();
        tokio::spawn(async move {
            announced.cancelled().await;
            then.await;
        });
    }

    /// Tells when the server is asked to end.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Waits until the server is asked to end.
    pub async fn asked(&self) {
        self.asked.cancelled().await;
    }

    /// Waits until the grace has passed.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// The end of a new connection.
    #[must_use]
    pub fn leaving(&self) -> Leaving {
        Leaving(self.asked.child_token())
    }

    /// Runs something that the end waits for.
    pub fn track(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.connections.spawn(connection);
    }

    /// Ends the server: `notice` after the announcement, and then within `grace`.
    pub async fn drain(&self, notice: Duration, grace: Duration) -> Drained {
        self.announced.cancel();
        tokio::time::sleep(notice).await;
        self.asked.cancel();
        self.connections.close();
        let clean = tokio::time::timeout(grace, self.connections.wait()).await.is_ok();
        self.over.cancel();
        self.connections.wait().await;
        if clean { Drained::Clean } else { Drained::Cut }
    }
}

impl Leaving {
    /// Waits until the connection is to end.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }

    /// The token behind it.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.0
    }

    pub(crate) fn tell(&self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_listens_ends_clean() {
        let ending = Ending::default();
        let leaving = ending.leaving();
        ending.track(async move { leaving.wait().await });
        assert_eq!(ending.drain(Duration::ZERO, Duration::from_secs(30)).await, Drained::Clean);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_cut_after_the_grace() {
        let ending = Ending::default();
        let other = ending.clone();
        ending.track(async move { other.over().await });
        assert_eq!(ending.drain(Duration::ZERO, Duration::from_secs(30)).await, Drained::Cut);
    }

    #[tokio::test]
    async fn the_end_of_one_connection_is_not_the_servers() {
        let ending = Ending::default();
        let (one, other) = (ending.leaving(), ending.leaving());
        one.tell();
        one.wait().await;
        assert!(!other.token().is_cancelled() && !ending.is_announced());
    }
}
