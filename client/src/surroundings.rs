//! What a client takes from where it runs: chance and the wall clock. Nothing else of the client reads either.
//!
//! With the feature `simulation` both can be a simulation's, so that the same seed tells the same story.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heureka_model::Wall;
use rand::distr::{Distribution, StandardUniform};

#[cfg(feature = "simulation")]
pub use simulated::simulate;

/// Whatever it may be: for numbers any of them, for shares one from 0 to below 1.
pub(crate) fn chance<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    #[cfg(feature = "simulation")]
    if let Some(drawn) = simulated::chance() {
        return drawn;
    }
    rand::random()
}

/// The wall clock; before 1970 it reads as 1970. It only helps to order this process's writes among those of its
/// earlier lives, so it may be wrong.
#[expect(clippy::disallowed_methods, reason = "a client has no caller that would pass time down")]
pub(crate) fn wall() -> Wall {
    #[cfg(feature = "simulation")]
    if let Some(wall) = simulated::wall() {
        return wall;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Wall::default().plus(since)
}

#[cfg(feature = "simulation")]
mod simulated {
    use std::cell::RefCell;

    use heureka_model::Wall;
    use rand::distr::{Distribution, StandardUniform};
    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};

    thread_local! {
        static SURROUNDINGS: RefCell<Option<Surroundings>> = const { RefCell::new(None) };
    }

    struct Surroundings {
        dice: SmallRng,
        wall: Box<dyn Fn() -> Wall>,
    }

    /// From now on all clients of this thread draw from `seed` and read this clock.
    pub fn simulate(seed: u64, wall: impl Fn() -> Wall + 'static) {
        let surroundings = Surroundings { dice: SmallRng::seed_from_u64(seed), wall: Box::new(wall) };
        SURROUNDINGS.set(Some(surroundings));
    }

    pub(super) fn chance<T>() -> Option<T>
    where
        StandardUniform: Distribution<T>,
    {
        SURROUNDINGS.with_borrow_mut(|around| around.as_mut().map(|around| around.dice.random()))
    }

    pub(super) fn wall() -> Option<Wall> {
        SURROUNDINGS.with_borrow(|around| around.as_ref().map(|around| (around.wall)()))
    }
}
