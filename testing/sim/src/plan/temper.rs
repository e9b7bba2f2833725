//! Kinds of runs, and how large each is.

use heureka_registry::PreservationMode;

use crate::rng::Rng;

/// What a run is about. Each promises something else, so each is judged by other rules beside the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Temper {
    /// Servers and network do as they should; clients come, change, crash and go.
    Calm,
    /// Faults too short to cost anybody a lease.
    Gentle,
    /// Anything.
    Rough,
    /// Removals are remembered for a shorter time than servers are apart.
    Outlast,
    /// Many go at once, and the memory of who went must end.
    ScaleIn,
    /// All signs of life are lost for a while, then some are dead.
    Blackout,
    /// Wall clocks that move in large steps, so that different writes get equal times.
    Coarse,
    /// Two thousand instances.
    Crowd,
}

/// Sizes and lengths of a run, times in milliseconds.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Servers.
    pub nodes: usize,
    /// Keys, one client each.
    pub clients: usize,
    /// Applications among which the keys are spread; every id stands in each.
    pub apps: usize,
    /// Renewal interval.
    pub interval: u64,
    /// Lease.
    pub lease: u64,
    /// How long a removal is remembered.
    pub tombstone_ttl: u64,
    /// Faults and writes begin before this.
    pub heal: u64,
    /// The run ends.
    pub end: u64,
    /// Longest way of a frame or a request.
    pub latency: u64,
    /// Requests of a thousand that are lost, arrive twice, arrive late.
    pub lost: u64,
    /// See `lost`.
    pub doubled: u64,
    /// See `lost`.
    pub late: u64,
    /// Wall clocks of servers lie so far apart.
    pub skew_ms: u64,
    /// Wall clocks of clients lie so far apart.
    pub client_skew_ms: u64,
    /// Wall clocks of servers show multiples of this.
    pub wall_grain: u64,
    /// Faults a minute.
    pub faults: u64,
    /// Acts of a client a minute.
    pub acts: u64,
    /// Acts of operators a minute.
    pub operations: u64,
}

impl Temper {
    /// All, in the order of their shares.
    pub const ALL: [Self; 8] = [
        Self::Rough,
        Self::Calm,
        Self::Gentle,
        Self::Coarse,
        Self::Outlast,
        Self::ScaleIn,
        Self::Crowd,
        Self::Blackout,
    ];

    /// Share of seeds in a thousand.
    fn share(self) -> u64 {
        match self {
            Self::Rough => 520,
            Self::Calm => 150,
            Self::Gentle => 140,
            Self::Coarse => 60,
            Self::Outlast => 60,
            Self::ScaleIn => 30,
            Self::Crowd => 20,
            Self::Blackout => 20,
        }
    }

    /// Draws one.
    pub fn of(rng: &mut Rng) -> Self {
        let mut left = rng.within(0, 999);
        for temper in Self::ALL {
            if left < temper.share() {
                return temper;
            }
            left -= temper.share();
        }
        Self::Rough
    }

    /// The temper of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|temper| format!("{temper:?}").eq_ignore_ascii_case(name))
    }

    /// Whether any fault may come at any time.
    #[must_use]
    pub fn is_rough(self) -> bool {
        matches!(self, Self::Rough | Self::Outlast | Self::Coarse | Self::Crowd)
    }

    /// Whether no fault takes so long that a lease could run out by it.
    #[must_use]
    pub fn spares_leases(self) -> bool {
        matches!(self, Self::Calm | Self::Gentle)
    }

    pub(super) fn preservation(self, rng: &mut Rng) -> PreservationMode {
        match self {
            Self::ScaleIn | Self::Blackout => PreservationMode::Budget,
            // Who holds lapsed leases on purpose is believed, also of what others have forgotten.
            Self::Calm | Self::Gentle | Self::Outlast => PreservationMode::Off,
            _ if rng.chance(500) => PreservationMode::Budget,
            _ => PreservationMode::Off,
        }
    }
}

impl Shape {
    pub(super) fn of(temper: Temper, rng: &mut Rng) -> Self {
        let common = Self {
            nodes: rng.pick(&[2, 2, 2, 3, 3, 3, 4, 5]),
            clients: rng.within(3, 10) as usize,
            apps: 2,
            interval: rng.pick(&[2_000, 3_000]),
            lease: 0,
            tombstone_ttl: 300_000,
            heal: rng.within(40_000, 70_000),
            end: 0,
            latency: rng.pick(&[2, 10, 50, 150, 300]),
            lost: rng.pick(&[0, 0, 20, 100]),
            doubled: rng.pick(&[0, 20, 100]),
            late: rng.pick(&[0, 20, 50]),
            skew_ms: rng.pick(&[0, 5_000, 300_000]),
            client_skew_ms: rng.pick(&[0, 5_000, 40_000]),
            wall_grain: 1,
            faults: rng.within(4, 20),
            acts: rng.within(1, 4),
            operations: rng.within(0, 8),
        };
        Self::special(temper, common, rng).rounded()
    }

    fn special(temper: Temper, common: Self, rng: &mut Rng) -> Self {
        match temper {
            Temper::Calm => Self { faults: 0, lost: 0, late: 0, ..common },
            Temper::Gentle => Self { faults: rng.within(2, 5), lost: 0, late: 0, lease: 20_000, ..common },
            Temper::Rough if rng.chance(15) => Self { nodes: 9, ..common },
            Temper::Rough => common,
            Temper::Outlast => {
                // What comes later than removals are remembered cannot be told from news.
                let tombstone_ttl = rng.within(20_000, 45_000);
                let heal = rng.within(90_000, 150_000);
                Self { tombstone_ttl, interval: 2_000, heal, doubled: 0, late: 0, ..common }
            }
            Temper::ScaleIn => Self {
                nodes: rng.pick(&[1, 2, 3]),
                clients: rng.within(20, 30) as usize,
                interval: 5_000,
                heal: 30_000,
                end: 330_000,
                lost: 0,
                doubled: 0,
                late: 0,
                faults: 0,
                acts: 0,
                operations: 0,
                ..common
            },
            Temper::Blackout => Self {
                nodes: rng.pick(&[2, 3]),
                clients: rng.within(10, 20) as usize,
                interval: 5_000,
                heal: 140_000,
                end: 440_000,
                lost: 0,
                late: 0,
                acts: 0,
                operations: 0,
                ..common
            },
            Temper::Coarse => Self {
                nodes: rng.pick(&[2, 3]),
                clients: rng.within(2, 4) as usize,
                skew_ms: 0,
                wall_grain: rng.pick(&[1_000, 5_000, 20_000]),
                operations: 60,
                ..common
            },
            Temper::Crowd => Self {
                nodes: 3,
                clients: 2_000,
                apps: 20,
                interval: 30_000,
                heal: 50_000,
                end: 75_000,
                acts: 0,
                lost: 0,
                ..common
            },
        }
    }

    /// Fills in what follows from the rest.
    fn rounded(mut self) -> Self {
        if self.lease == 0 {
            self.lease = 3 * self.interval;
        }
        if self.end == 0 {
            self.end = self.heal + 12_000 + self.lease + 2 * self.interval;
        }
        self
    }

    /// Longest time a client waits for an answer.
    #[must_use]
    pub fn patience(&self) -> u64 {
        1_000 + 2 * self.latency
    }
}
