//! A server: the whole of the product, with the simulated network and virtual time in the place of the machine's.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Clock, Mono, Now, Wall};
use heureka_registry::Seeds;
use heureka_server::config::{Config, DrainConfig, PeerAddress, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ledger::{Book, now};
use crate::net::{self, PORT, Port};
use crate::plan::{Machine, Plan, SERVERS};

/// True time at the begin of every run, in milliseconds since the epoch.
pub(crate) const WALL: u64 = 1_800_000_000_000;

/// Leaves within the time that the plan gives it.
const DRAIN: DrainConfig = DrainConfig {
    notice: Duration::from_secs(1),
    grace: Duration::from_secs(6),
    spread: Duration::from_secs(2),
    peer_wait: Duration::from_secs(3),
};

/// What is seen of a server from outside; shared with the driver.
pub(crate) type Slot = Rc<RefCell<Seat>>;

/// A server's place, whichever life of it sits there.
#[derive(Default)]
pub(crate) struct Seat {
    pub(crate) life: Option<Life>,
    lives: u64,
}

/// A server from its start to its end.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) running: Rc<Running>,
    /// When it began, in virtual milliseconds.
    began: u64,
    skew: i64,
    leave: Rc<Notify>,
}

/// Virtual time, with a wall clock that is wrong by a fixed amount.
#[derive(Debug)]
struct VirtualClock {
    start: Instant,
    wall: u64,
}

impl Clock for VirtualClock {
    fn now(&self) -> Now {
        let mono = Mono::default().plus(self.start.elapsed());
        Now { mono, wall: Wall(self.wall + mono.0) }
    }
}

impl Life {
    /// What the server's clock says at this virtual time.
    pub(crate) fn now(&self, at: u64) -> Now {
        let mono = at.saturating_sub(self.began);
        Now { mono: Mono(mono), wall: Wall(wall(self.began, self.skew) + mono) }
    }

    /// The virtual time at which its wall clock said this.
    pub(crate) fn at(&self, wall: Wall) -> u64 {
        wall.0.saturating_sub(WALL.saturating_add_signed(self.skew))
    }

    pub(crate) fn boot(&self) -> u64 {
        self.running.core().boot()
    }

    pub(crate) fn serves_readers(&self) -> bool {
        self.running.life().serves_readers()
    }

    /// Asks it to take its leave.
    pub(crate) fn leave(&self) {
        self.leave.notify_one();
    }
}

/// Runs a server until it is asked to leave.
pub(crate) async fn serve(plan: Rc<Plan>, number: usize, slot: Slot, book: Book) -> turmoil::Result {
    let (began, skew) = (now(), plan.skews[number]);
    slot.borrow_mut().lives += 1;
    let boot = (plan.seed << 8 | number as u64) << 8 | slot.borrow().lives;
    let clock = Arc::new(VirtualClock { start: Instant::now(), wall: wall(began, skew) });
    let seeds = Seeds { boot, hash: plan.seed, shuffle: boot };
    let world = World { clock, seeds, lines: LineBudget::new(100) };
    let server = Server::new(config(&plan, number)?, world).dial(net::dial());
    let running = Rc::new(server.start(vec![Port::open().await?]).await?);
    let leave = Rc::new(Notify::new());
    slot.borrow_mut().life = Some(Life { running: running.clone(), began, skew, leave: leave.clone() });
    book.borrow_mut().note(began, None, format!("n{number} starts, boot {boot:x}"));
    leave.notified().await;
    let drained = running.drain().await;
    slot.borrow_mut().life = None;
    book.borrow_mut().note(now(), None, format!("n{number} has left: {drained:?}"));
    Ok(())
}

/// Runs a server whose connections end at an age, until the machine does.
pub(crate) async fn stand(seed: u64, number: usize, life: u64, age: Duration) -> turmoil::Result {
    let clock = Arc::new(VirtualClock { start: Instant::now(), wall: wall(now(), 0) });
    let boot = (seed << 8 | number as u64) << 8 | life;
    let world =
        World { clock, seeds: Seeds { boot, hash: seed, shuffle: boot }, lines: LineBudget::new(100) };
    let mut config = common(number)?;
    config.limits.connection_age = age;
    let server = Server::new(config, world).dial(net::dial());
    let _running = server.start(vec![Port::open().await?]).await?;
    std::future::pending().await
}

fn common(number: usize) -> turmoil::Result<Config> {
    let mut config = Config::load(&Sources::default())?;
    config.server.node_id = format!("n{number}");
    config.peer.list = (0..SERVERS).map(peer).collect();
    Ok(config)
}

fn config(plan: &Plan, number: usize) -> turmoil::Result<Config> {
    let mut config = common(number)?;
    config.preservation.mode = plan.preservation;
    config.drain = DRAIN;
    if plan.has_blackout() {
        // So that watchers see a set that nobody has come back to yet.
        config.startup.peer_wait = Duration::from_millis(300);
    }
    Ok(config)
}

fn peer(number: usize) -> PeerAddress {
    PeerAddress::Host { host: Machine::Server(number).address().to_string(), port: PORT, is_secure: false }
}

fn wall(began: u64, skew: i64) -> u64 {
    (WALL + began).saturating_add_signed(skew)
}
