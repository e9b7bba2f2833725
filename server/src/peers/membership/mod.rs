//! Who the peers are: names from the configuration and a file, and what they mean today.
//!
//! A name that cannot be looked up, or that means nothing at the moment, keeps its last addresses: name servers
//! fail more often than whole clusters move.

mod dns;
mod file;
mod srv;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::config::{PeerAddress, PeerConfig};
use file::PeerFile;

/// Time between two looks at the file, and at names that never meant anything yet.
const POLL: Duration = Duration::from_secs(1);
/// Longest time that a look-up may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Least time between two look-ups that were asked for out of turn.
const OUT_OF_TURN: Duration = Duration::from_secs(1);

/// The peers and their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(BTreeMap<PeerAddress, BTreeSet<SocketAddr>>);

/// Looks up what a name means.
pub(crate) type Resolve =
    Arc<dyn Fn(PeerAddress) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Keeps the members up to date.
pub(crate) struct Membership {
    fixed: Vec<PeerAddress>,
    file: Option<PeerFile>,
    refresh: Duration,
    resolve: Resolve,
    /// Names whose last look-up failed, which was told.
    failing: BTreeSet<PeerAddress>,
    members: watch::Sender<Arc<Members>>,
    out_of_turn: Arc<Notify>,
}

impl Members {
    /// Every address, once.
    pub(crate) fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.0.values().flatten().copied().collect()
    }

    /// Every address, once, with the name that a certificate has to bear there; nothing where it is called without
    /// TLS, which a name that asks for it rules out.
    pub(crate) fn places(&self) -> BTreeMap<SocketAddr, Option<String>> {
        let mut places: BTreeMap<SocketAddr, Option<String>> = BTreeMap::new();
        for (name, addresses) in &self.0 {
            for address in addresses {
                let certified = places.entry(*address).or_default();
                if certified.is_none() {
                    *certified = name.certified().map(str::to_owned);
                }
            }
        }
        places
    }

    /// Every address without its port.
    pub(crate) fn hosts(&self) -> BTreeSet<IpAddr> {
        self.0.values().flatten().map(|address| address.ip().to_canonical()).collect()
    }

    /// Each name with its addresses.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&PeerAddress, &BTreeSet<SocketAddr>)> {
        self.0.iter()
    }
}

impl Membership {
    /// The members that the configuration names. `out_of_turn` asks for a look-up before its time.
    pub(crate) fn new(
        config: &PeerConfig,
        resolve: Resolve,
        members: watch::Sender<Arc<Members>>,
        out_of_turn: Arc<Notify>,
    ) -> Self {
        let file = (!config.file.is_empty()).then(|| PeerFile::new(PathBuf::from(&config.file)));
        let (fixed, refresh) = (config.list.clone(), config.refresh);
        Self { fixed, file, refresh, resolve, failing: BTreeSet::new(), members, out_of_turn }
    }

    /// Keeps the members up to date for as long as it is polled.
    pub(crate) async fn run(mut self) {
        let out_of_turn = self.out_of_turn.clone();
        let mut polls = interval_at(Instant::now() + POLL, POLL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        // Nobody is a peer before it, so whoever calls in the first moment asks for one out of turn.
        self.look(true).await;
        loop {
            let asked = tokio::select! {
                _ = polls.tick() => false,
                () = out_of_turn.notified() => {
                    sleep_until(last + OUT_OF_TURN).await;
                    true
                }
            };
            let all = asked || last.elapsed() >= self.refresh;
            if all {
                last = Instant::now();
            }
            self.look(all).await;
        }
    }

    /// Looks once: at the file, and at what names mean; only at new ones unless `all`.
    async fn look(&mut self, all: bool) {
        if let Some(file) = &mut self.file {
            file.look().await;
        }
        let from_file = self.file.as_ref().map_or(&[][..], PeerFile::peers);
        let names: BTreeSet<_> = self.fixed.iter().chain(from_file).cloned().collect();
        let known = self.members.borrow().clone();
        let wanted = |name: &PeerAddress| all || known.0.get(name).is_none_or(BTreeSet::is_empty);
        let looked_up =
            join_all(names.iter().filter(|name| wanted(name)).map(|name| self.look_up(name))).await;
        let mut members: BTreeMap<_, _> = names
            .into_iter()
            .map(|name| {
                let addresses = known.0.get(&name).cloned().unwrap_or_default();
                (name, addresses)
            })
            .collect();
        for (name, outcome) in looked_up {
            if let Some(addresses) = self.judge(&name, outcome) {
                members.insert(name, addresses);
            }
        }
        self.failing.retain(|name| members.contains_key(name));
        self.publish(Members(members));
    }

    fn look_up(
        &self,
        name: &PeerAddress,
    ) -> impl Future<Output = (PeerAddress, io::Result<Vec<SocketAddr>>)> + use<> {
        let (name, looking) = (name.clone(), (self.resolve)(name.clone()));
        async move {
            let outcome = timeout(PATIENCE, looking).await;
            (name, outcome.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
        }
    }

    /// New addresses of a name, when there are any. A failure is told once, and so is its end.
    fn judge(
        &mut self,
        name: &PeerAddress,
        outcome: io::Result<Vec<SocketAddr>>,
    ) -> Option<BTreeSet<SocketAddr>> {
        let problem = match outcome {
            Ok(addresses) if !addresses.is_empty() => {
                if self.failing.remove(name) {
                    tracing::info!(peer = %name, "the peer's name means something again");
                }
                return Some(addresses.into_iter().collect());
            }
            Ok(_) => "it means nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.failing.insert(name.clone()) {
            tracing::warn!(peer = %name, %problem, "cannot look up a peer's name, its last addresses stay");
        }
        None
    }

    fn publish(&self, members: Members) {
        self.members.send_if_modified(|told| {
            let changed = **told != members;
            if changed {
                let addresses: Vec<_> = members.addresses().iter().map(ToString::to_string).collect();
                tracing::info!(addresses = addresses.join(" "), "peers");
                *told = Arc::new(members);
            }
            changed
        });
    }
}

/// What the system's resolver and name servers say.
pub(crate) fn system() -> Resolve {
    Arc::new(|name| Box::pin(look_up(name)))
}

async fn look_up(name: PeerAddress) -> io::Result<Vec<SocketAddr>> {
    let name = match name {
        PeerAddress::Host { host, port, .. } => return hosts(&host, port).await,
        PeerAddress::Srv { name, .. } => name,
    };
    let mut found = Vec::new();
    let mut failed = None;
    for target in srv::look_up(&name).await? {
        match hosts(&target.host, target.port).await {
            Ok(addresses) => found.extend(addresses),
            Err(error) => failed = Some(error),
        }
    }
    // A part of the answer would take the other peers out of the list.
    failed.map_or(Ok(found), Err)
}

async fn hosts(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use parking_lot::Mutex;

    use super::*;

    type Answers = Arc<Mutex<BTreeMap<String, io::Result<Vec<SocketAddr>>>>>;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn scripted(answers: &Answers) -> Resolve {
        let answers = answers.clone();
        Arc::new(move |name| {
            let answer = match answers.lock().get(&name.to_string()) {
                Some(Ok(addresses)) => Ok(addresses.clone()),
                Some(Err(error)) => Err(io::Error::new(error.kind(), "scripted")),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            Box::pin(std::future::ready(answer))
        })
    }

    fn membership(
        list: &[&str],
        file: &str,
        answers: &Answers,
    ) -> (Membership, watch::Receiver<Arc<Members>>) {
        let list = list.iter().map(|peer| PeerAddress::read(peer).unwrap()).collect();
        let config = PeerConfig { list, file: file.into(), ..PeerConfig::default() };
        let (sender, members) = watch::channel(Arc::default());
        (Membership::new(&config, scripted(answers), sender, Arc::default()), members)
    }

    fn shown(members: &watch::Receiver<Arc<Members>>) -> Vec<String> {
        members.borrow().addresses().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_failed_or_empty_look_up_keeps_the_last_addresses() {
        let answers = Answers::default();
        let (mut membership, members) = membership(&["b:1"], "", &answers);
        membership.look(true).await;
        assert!(shown(&members).is_empty());
        for (answer, expected) in [
            (Ok(vec![address("10.0.0.1:1"), address("10.0.0.2:1")]), vec!["10.0.0.1:1", "10.0.0.2:1"]),
            (Err(io::ErrorKind::TimedOut.into()), vec!["10.0.0.1:1", "10.0.0.2:1"]),
            (Ok(vec![]), vec!["10.0.0.1:1", "10.0.0.2:1"]),
            (Ok(vec![address("10.0.0.3:1")]), vec!["10.0.0.3:1"]),
        ] {
            answers.lock().insert("b:1".into(), answer);
            membership.look(true).await;
            assert_eq!(shown(&members), expected);
        }
    }

    #[tokio::test]
    async fn names_are_looked_up_again_in_their_turn_only() {
        let answers = Answers::default();
        let (mut membership, members) = membership(&["b:1", "c:1"], "", &answers);
        answers.lock().insert("b:1".into(), Ok(vec![address("10.0.0.1:1")]));
        membership.look(true).await;
        answers.lock().insert("b:1".into(), Ok(vec![address("10.0.0.9:1")]));
        answers.lock().insert("c:1".into(), Ok(vec![address("10.0.0.2:1")]));
        membership.look(false).await;
        assert_eq!(shown(&members), ["10.0.0.1:1", "10.0.0.2:1"], "c never meant anything");
        membership.look(true).await;
        assert_eq!(shown(&members), ["10.0.0.2:1", "10.0.0.9:1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_can_be_asked_for_out_of_turn() {
        let answers = Answers::default();
        answers.lock().insert("b:1".into(), Ok(vec![address("10.0.0.1:1")]));
        let (membership, mut members) = membership(&["b:1"], "", &answers);
        let out_of_turn = membership.out_of_turn.clone();
        tokio::spawn(membership.run());
        members.changed().await.unwrap();
        answers.lock().insert("b:1".into(), Ok(vec![address("10.0.0.2:1")]));
        let asked = Instant::now();
        out_of_turn.notify_one();
        members.changed().await.unwrap();
        assert!(shown(&members) == ["10.0.0.2:1"] && asked.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_look_up_waits_for_nobody() {
        // Enough for a choice between two that are ready to go wrong once.
        for _ in 0..64 {
            let answers = Answers::default();
            answers.lock().insert("b:1".into(), Ok(vec![address("10.0.0.1:1")]));
            let (membership, mut members) = membership(&["b:1"], "", &answers);
            membership.out_of_turn.notify_one();
            let begun = Instant::now();
            let running = tokio::spawn(membership.run());
            members.changed().await.unwrap();
            assert!(begun.elapsed() < OUT_OF_TURN);
            running.abort();
        }
    }

    #[tokio::test]
    async fn peers_come_and_go_with_the_file() {
        let answers = Answers::default();
        for name in ["b", "c"] {
            answers.lock().insert(
                format!("{name}:1"),
                Ok(vec![address(&format!("10.0.0.{}:1", name.len() + usize::from(name == "c")))]),
            );
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "b:1").unwrap();
        let (mut membership, members) = membership(&[], file.path().to_str().unwrap(), &answers);
        membership.look(true).await;
        assert_eq!(shown(&members), ["10.0.0.1:1"]);
        std::fs::write(file.path(), "c:1\n").unwrap();
        membership.look(false).await;
        membership.look(false).await;
        assert_eq!(shown(&members), ["10.0.0.2:1"]);
    }

    #[test]
    fn one_address_under_two_names_is_one() {
        let name = |text| PeerAddress::read(text).unwrap();
        let same = BTreeSet::from([address("[::ffff:10.0.0.1]:1"), address("10.0.0.2:1")]);
        let members = Members(BTreeMap::from([(name("a:1"), same.clone()), (name("b:1"), same)]));
        assert_eq!(members.addresses().len(), 2);
        assert!(members.places().values().all(Option::is_none));
        assert_eq!(
            members.hosts(),
            BTreeSet::from(["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()])
        );
    }

    #[test]
    fn an_address_is_called_over_tls_when_one_of_its_names_asks_for_it() {
        let name = |text| PeerAddress::read(text).unwrap();
        let (both, one) = (address("10.0.0.1:1"), address("10.0.0.2:1"));
        let members = Members(BTreeMap::from([
            (name("a:1"), BTreeSet::from([both, one])),
            (name("https://b:1"), BTreeSet::from([both])),
        ]));
        assert_eq!(members.places(), BTreeMap::from([(both, Some("b".to_owned())), (one, None)]));
    }
}
