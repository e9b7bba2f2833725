//! What a watcher asks for.

use std::time::Duration;

use heureka_model::{Invalid, Problem, Selectors};
use heureka_proto::convert::duration;
use heureka_proto::v1::{StartMode, WatchSpec};
use heureka_registry::{Choice, LaneWish, View};

use super::opening::{Opening, Wish};
use super::wishes::Wishes;
use crate::grpc::core::Core;
use crate::grpc::lists::{bounded_size, set};
use crate::grpc::status::{Fault, Reason};

const DEFAULT_BATCH: usize = 256;
const MAX_BATCH: usize = 2000;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
const MAX_WINDOW: Duration = Duration::from_secs(5);
const MAX_CLIENT_NAME: usize = 256;
/// Names that `required_features` may hold, see `docs/watch-contract.md`.
const FEATURES: [&str; 9] =
    ["resume", "digest", "labels", "diff", "coalesce", "readings", "numbers", "best", "subset"];

/// A subscription.
pub(in crate::grpc) struct Spec {
    pub(super) selectors: Selectors,
    /// Fingerprint of the selectors.
    pub(super) fingerprint: u64,
    pub(super) start_mode: StartMode,
    pub(in crate::grpc) opening: Opening,
    /// For how long changes gather.
    pub(super) window: Duration,
    pub(super) max_batch: usize,
    pub(super) interval: Duration,
    /// Readings asked for.
    pub(super) readings: Option<Box<LaneWish>>,
    /// What is told of the selection, when that is not all of it.
    pub(super) view: Option<Box<View>>,
}

/// A subscription as asked for, before it is decided how its stream starts.
pub(super) struct Asked {
    spec: Spec,
    wish: Wish,
    choice: Option<Choice>,
}

/// What two watchers have in common of which one can go on for both.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Likeness {
    fingerprint: u64,
    start_mode: StartMode,
    window: Duration,
    max_batch: usize,
    interval: Duration,
}

impl Asked {
    pub(super) fn parse(mut spec: WatchSpec, core: &Core) -> Result<Self, Fault> {
        known_features(&spec.required_features)?;
        let start_mode = start_mode(spec.start_mode).map_err(Fault::request)?;
        let max_batch = bounded_size("spec.max_batch_size", spec.max_batch_size, DEFAULT_BATCH, MAX_BATCH);
        let interval = interval(spec.bookmark_interval.as_ref()).map_err(Fault::request)?;
        let window = window(spec.coalesce_window.as_ref()).map_err(Fault::request)?;
        let set = set(std::mem::take(&mut spec.selectors))
            .map_err(|invalid| Fault::invalid(Reason::InvalidSelector, invalid.within("spec")))?;
        let wishes = Wishes::read(&mut spec, start_mode, &set.selectors)?;
        let fingerprint = wishes.fingerprint(set.fingerprint);
        let wish = Wish::read(start_mode, &spec.resume_token, spec.known_digests, fingerprint, core)?;
        let spec = Spec {
            selectors: set.selectors,
            fingerprint,
            start_mode,
            opening: Opening::full(),
            window,
            max_batch: max_batch.map_err(Fault::request)?,
            interval,
            readings: wishes.readings.map(Box::new),
            view: None,
        };
        Ok(Self { spec, wish, choice: wishes.choice })
    }

    pub(super) fn likeness(&self) -> Likeness {
        let Spec { fingerprint, start_mode, window, max_batch, interval, .. } = self.spec;
        Likeness { fingerprint, start_mode, window, max_batch, interval }
    }

    /// Decides how the stream starts; this may take a while.
    pub(super) async fn decide(self, core: &Core) -> Result<Spec, Fault> {
        if let Some(choice) = self.choice {
            let view = View::new(&core.registry, self.spec.selectors.clone(), choice);
            let view = Some(Box::new(view.map_err(|_| crowded())?));
            return Ok(Spec { opening: Opening::full(), view, ..self.spec });
        }
        let opening = self.wish.decide(&self.spec.selectors, core).await?;
        Ok(Spec { opening, ..self.spec })
    }
}

fn crowded() -> Fault {
    Fault::new(Reason::TooManyWatches, "the views of this server choose among as many instances as they may")
}

fn known_features(names: &[String]) -> Result<(), Fault> {
    let Some(position) = names.iter().position(|name| !FEATURES.contains(&name.as_str())) else {
        return Ok(());
    };
    let field = format!("spec.required_features[{position}]");
    let invalid = Invalid::malformed(field, "this server has no such feature");
    Err(Fault::invalid(Reason::UnsupportedFeature, invalid))
}

fn start_mode(number: i32) -> Result<StartMode, Invalid> {
    match StartMode::try_from(number) {
        Ok(StartMode::Unspecified) => Ok(StartMode::Follow),
        Ok(mode) => Ok(mode),
        Err(_) => {
            Err(Invalid::new("spec.start_mode", Problem::OutOfRange { value: number.into(), min: 0, max: 4 }))
        }
    }
}

fn interval(sent: Option<&prost_types::Duration>) -> Result<Duration, Invalid> {
    const FIELD: &str = "spec.bookmark_interval";
    let interval = sent.map_or(Ok(DEFAULT_INTERVAL), |sent| duration(FIELD, sent))?;
    let fits = (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval);
    fits.then_some(interval).ok_or_else(|| Invalid::malformed(FIELD, "lies outside 1 s to 60 s"))
}

fn window(sent: Option<&prost_types::Duration>) -> Result<Duration, Invalid> {
    const FIELD: &str = "spec.coalesce_window";
    let window = sent.map_or(Ok(Duration::ZERO), |sent| duration(FIELD, sent))?;
    (window <= MAX_WINDOW)
        .then_some(window)
        .ok_or_else(|| Invalid::malformed(FIELD, "lies outside 0 s to 5 s"))
}

/// Checks the name that a client gives itself.
pub(super) fn client_name(field: &str, name: &str) -> Result<(), Fault> {
    let (limit, actual) = (MAX_CLIENT_NAME, name.len());
    if actual > limit {
        return Err(Fault::request(Invalid::new(field, Problem::TooLarge { limit, actual })));
    }
    Ok(())
}
