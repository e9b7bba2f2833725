//! What a run consists of, worked out from its seed before it begins: servers, clients, faults, and when.
//!
//! A plan is plain data, so that a failing one can be made smaller by taking parts away. Nothing that is left
//! changes by that: whatever happens by chance during the run is drawn from a generator of its own.

mod clients;
mod faults;
mod temper;

pub use clients::{Act, ClientPlan, Kind, Operation, Operator};
pub use faults::{Fault, Hostility};
pub use temper::{Shape, Temper};

use heureka_registry::PreservationMode;

use crate::rng::Rng;

/// Something at a time in milliseconds since the begin.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// When.
    pub at: u64,
    /// What.
    pub what: T,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed it comes from; the generators of the run come from it too.
    pub seed: u64,
    /// Its kind.
    pub temper: Temper,
    /// Sizes and lengths.
    pub shape: Shape,
    /// Self-preservation of every server.
    pub preservation: PreservationMode,
    /// Wall clock of each server against true time at the begin, in milliseconds.
    pub skews: Vec<i64>,
    /// Pairs of servers that never have a stream, the lower number first.
    pub apart: Vec<(usize, usize)>,
    /// What goes wrong.
    pub faults: Vec<At<Fault>>,
    /// Who registers.
    pub clients: Vec<ClientPlan>,
    /// What operators do.
    pub operations: Vec<At<Operation>>,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self::with(seed, Temper::of(&mut Rng::fork(seed, 1)))
    }

    /// The plan of a seed with a given temper.
    #[must_use]
    pub fn with(seed: u64, temper: Temper) -> Self {
        let mut rng = Rng::fork(seed, 2);
        let shape = Shape::of(temper, &mut rng);
        let skew = shape.skew_ms;
        let mut plan = Self {
            seed,
            temper,
            preservation: temper.preservation(&mut rng),
            skews: (0..shape.nodes).map(|_| rng.around(skew)).collect(),
            apart: apart(temper, shape.nodes, &mut rng),
            faults: Vec::new(),
            clients: Vec::new(),
            operations: Vec::new(),
            shape,
        };
        plan.faults = faults::of(&plan, &mut Rng::fork(seed, 3));
        plan.clients = clients::of(&plan, &mut Rng::fork(seed, 4));
        plan.operations = clients::operations(&plan, &mut Rng::fork(seed, 5));
        plan
    }

    /// Whether two servers may have a stream at all.
    #[must_use]
    pub fn together(&self, one: usize, other: usize) -> bool {
        !self.apart.contains(&(one.min(other), one.max(other)))
    }

    /// Whether every wall clock stays so close to every other that stamps can be compared.
    #[must_use]
    pub fn has_tame_clocks(&self) -> bool {
        let stepped = self.faults.iter().any(|fault| fault.what.steps_a_clock());
        !stepped && self.shape.skew_ms <= 10_000 && self.shape.client_skew_ms <= 10_000
    }
}

/// A missing link now and then, as long as everybody still reaches everybody by way of others.
fn apart(temper: Temper, nodes: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    if nodes < 3 || !temper.is_rough() || !rng.chance(150) {
        return Vec::new();
    }
    let one = rng.index(nodes);
    let other = (one + 1 + rng.index(nodes - 1)) % nodes;
    vec![(one.min(other), one.max(other))]
}
