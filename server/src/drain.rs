//! The end: not ready, clients told, requests finished, peers told all, out.
//!
//! Moments follow each other. *Announced*: readiness and gRPC health are off, everything else goes on, so that a
//! load balancer has time to notice. *Asked*: nothing is accepted any more, every watch is told to go elsewhere
//! with its token and every connection to end after its requests; those of HTTP/2 one after the other, so that
//! not all clients arrive elsewhere at once. *Parted*: no client is left and a peer took in what was written last,
//! so streams between servers may end too. *Over*: the grace has passed, whatever is still open is cut, since an
//! open stream would hold the process for ever.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::DrainConfig;

/// Connections that are told to go within a second when there are few; many are told faster.
const LEAST_PER_SECOND: u32 = 100;

/// Time that streams between servers have to end once they may.
const PARTING: Duration = Duration::from_secs(1);

/// The end of a server, shared by everything that has to take part in it.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    announced: CancellationToken,
    asked: CancellationToken,
    parted: CancellationToken,
    over: CancellationToken,
    connections: TaskTracker,
    /// Connections that are not another server's.
    clients: watch::Sender<i64>,
}

/// The end of one connection, for its age or with the server's. A stream that would outlive it says goodbye and
/// ends when it is told.
#[derive(Clone, Debug)]
pub struct Leaving(CancellationToken);

/// A change of the number of clients that lasts as long as this is held.
#[derive(Debug)]
#[must_use = "the number is as before when this is dropped"]
pub struct Counted {
    clients: watch::Sender<i64>,
    by: i64,
}

/// An operator's wish that the server leaves.
#[derive(Clone, Debug, Default)]
pub struct Request(watch::Sender<Option<Asked>>);

/// What an operator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    grace: Option<Duration>,
}

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

    /// Tells when the server is asked to end.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Waits until the server is asked to end.
    pub async fn asked(&self) {
        self.asked.cancelled().await;
    }

    /// Waits until streams between servers may end.
    pub async fn parted(&self) {
        self.parted.cancelled().await;
    }

    /// Waits until the grace has passed.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// The end of a new connection that goes at once when the server does.
    #[must_use]
    pub fn leaving(&self) -> Leaving {
        Leaving(self.asked.child_token())
    }

    /// The end of a new connection that waits for its turn.
    #[must_use]
    pub fn leaving_in_turn(&self) -> Leaving {
        Leaving(CancellationToken::new())
    }

    /// Waits for the turn to go: `share`, from 0 to 1, of the time over which connections leave.
    pub async fn turn(&self, times: &DrainConfig, share: f64) {
        self.asked().await;
        let clients = u32::try_from(*self.clients.borrow()).unwrap_or_default();
        tokio::time::sleep(spread(times, clients).mul_f64(share)).await;
    }

    /// Runs something that the end waits for.
    pub fn track(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let counted = self.count(1);
        self.connections.spawn(async move {
            connection.await;
            drop(counted);
        });
    }

    /// The caller's connection is another server's: it is not waited for with those of clients.
    pub fn no_client(&self) -> Counted {
        self.count(-1)
    }

    /// Ends the server: `farewell` runs when no client is left, at most for `times.peer_wait`.
    pub async fn drain(&self, times: &DrainConfig, farewell: impl Future<Output = ()>) -> Drained {
        self.announced.cancel();
        tokio::time::sleep(times.notice).await;
        self.asked.cancel();
        self.connections.close();
        let clean = tokio::time::timeout(times.grace, self.no_clients()).await.is_ok();
        // Late is better than never, and never is no reason to stay.
        let _ = tokio::time::timeout(times.peer_wait, farewell).await;
        self.parted.cancel();
        if clean {
            // Whoever does not end by now is cut like anybody else.
            let _ = tokio::time::timeout(PARTING, self.connections.wait()).await;
        }
        self.over.cancel();
        self.connections.wait().await;
        if clean { Drained::Clean } else { Drained::Cut }
    }

    async fn no_clients(&self) {
        // Fails only without a sender, and this is one.
        let _ = self.clients.subscribe().wait_for(|clients| *clients <= 0).await;
    }

    fn count(&self, by: i64) -> Counted {
        self.clients.send_modify(|clients| *clients += by);
        Counted { clients: self.clients.clone(), by }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.clients.send_modify(|clients| *clients -= self.by);
    }
}

impl Request {
    /// Asks the server to leave; its clients get so long, or as long as configured. The first to ask is heard.
    pub fn ask(&self, grace: Option<Duration>) -> bool {
        self.0.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(Asked { grace });
            first
        })
    }

    /// Waits until somebody asks; the time that clients get, when it was said.
    pub async fn asked(&self) -> Option<Duration> {
        let mut asked = self.0.subscribe();
        match asked.wait_for(Option::is_some).await {
            Ok(asked) => asked.and_then(|asked| asked.grace),
            // Only without a sender, and this is one.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Time over which so many connections leave.
fn spread(times: &DrainConfig, clients: u32) -> Duration {
    let few = Duration::from_secs(1) * clients / LEAST_PER_SECOND;
    few.min(times.spread).min(times.grace / 2)
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

    const NOW: DrainConfig = DrainConfig {
        notice: Duration::ZERO,
        grace: Duration::from_secs(30),
        spread: Duration::from_secs(10),
        peer_wait: Duration::from_secs(5),
    };

    async fn nothing() {}

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_listens_ends_clean() {
        let ending = Ending::default();
        let leaving = ending.leaving();
        ending.track(async move { leaving.wait().await });
        assert_eq!(ending.drain(&NOW, nothing()).await, Drained::Clean);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_cut_after_the_grace() {
        let ending = Ending::default();
        let other = ending.clone();
        ending.track(async move { other.over().await });
        assert_eq!(ending.drain(&NOW, nothing()).await, Drained::Cut);
    }

    #[tokio::test]
    async fn the_end_of_one_connection_is_not_the_servers() {
        let ending = Ending::default();
        let (one, other) = (ending.leaving(), ending.leaving());
        one.tell();
        one.wait().await;
        assert!(!other.token().is_cancelled() && !ending.is_announced());
    }

    #[tokio::test(start_paused = true)]
    async fn peers_are_told_all_after_the_last_client_and_part_after_that() {
        let (ending, told) = (Ending::default(), std::sync::Arc::new(parking_lot::Mutex::new(Vec::new())));
        let (client, peer) = (ending.clone(), ending.clone());
        let (first, second, third) = (told.clone(), told.clone(), told.clone());
        ending.track(async move {
            client.turn(&NOW, 1.0).await;
            first.lock().push("client");
        });
        ending.track(async move {
            let _peer = peer.no_client();
            peer.parted().await;
            third.lock().push("peer");
        });
        tokio::task::yield_now().await;
        let farewell = async move { second.lock().push("told") };
        assert_eq!(ending.drain(&NOW, farewell).await, Drained::Clean);
        assert_eq!(*told.lock(), ["client", "told", "peer"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_in_holds_nobody_for_long() {
        let (ending, begun) = (Ending::default(), tokio::time::Instant::now());
        assert_eq!(ending.drain(&NOW, std::future::pending()).await, Drained::Clean);
        assert_eq!(begun.elapsed().as_secs(), NOW.peer_wait.as_secs());
    }

    #[test]
    fn few_connections_leave_soon_and_many_within_their_time() {
        let short = DrainConfig { grace: Duration::from_secs(4), ..NOW };
        let table =
            [(NOW, 0, 0), (NOW, 1, 10), (NOW, 500, 5_000), (NOW, 20_000, 10_000), (short, 900, 2_000)];
        for (times, clients, millis) in table {
            assert_eq!(spread(&times, clients), Duration::from_millis(millis), "{clients}");
        }
    }

    #[tokio::test]
    async fn the_first_wish_to_leave_is_heard() {
        let request = Request::default();
        assert!(request.ask(Some(Duration::from_secs(3))) && !request.ask(None));
        assert_eq!(request.asked().await, Some(Duration::from_secs(3)));
    }
}
