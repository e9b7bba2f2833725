//! What a watcher asks for beyond a selection: readings, and a choice of what is there.

use std::collections::BTreeSet;

use heureka_model::{Finite, Invalid, Problem, Selectors};
use heureka_proto::v1::{self, StartMode, best};
use heureka_registry::{Best, By, Choice, Gauges, LaneWish, Subset};
use prost::Message as _;

use crate::grpc::status::Fault;
use crate::grpc::token::fingerprint;

/// Instances of a choice.
const MAX_CHOSEN: u32 = 1000;
/// Gauges asked for by name.
const MAX_GAUGES: usize = 64;
/// Bytes of a name of a number or of a client's key.
const MAX_NAME: usize = 256;
/// Bytes of a zone.
const MAX_ZONE: usize = 1024;

/// What is asked for beyond a selection.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Readings, if any.
    pub(super) readings: Option<LaneWish>,
    /// What is chosen; nothing when the log alone decides.
    pub(super) choice: Option<Choice>,
    /// What tells this choice from others of the same selection.
    choice_bytes: Vec<u8>,
}

impl Wishes {
    /// Reads the fields of `spec` that ask for it.
    pub(super) fn read(
        spec: &mut v1::WatchSpec,
        start_mode: StartMode,
        selectors: &Selectors,
    ) -> Result<Self, Fault> {
        let (readings, best, subset) = (spec.readings.take(), spec.best.take(), spec.subset.take());
        let mut choice_bytes = best.as_ref().map(v1::Best::encode_to_vec).unwrap_or_default();
        choice_bytes.extend(subset.iter().flat_map(v1::Subset::encode_to_vec));
        let choice = choice(best, subset, selectors.has_numbers()).map_err(Fault::request)?;
        if choice.is_some() && matches!(start_mode, StartMode::ResumeOnly | StartMode::LiveOnly) {
            let problem =
                "does not go with best, subset or conditions on numbers, which begin with a whole set";
            return Err(Fault::request(Invalid::malformed("spec.start_mode", problem)));
        }
        if readings.is_some() && start_mode == StartMode::SnapshotOnly {
            let problem = "does not go with SNAPSHOT_ONLY, whose stream ends before the first";
            return Err(Fault::request(Invalid::malformed("spec.readings", problem)));
        }
        let readings = readings.map(wish).transpose().map_err(Fault::request)?;
        Ok(Self { readings, choice, choice_bytes })
    }

    /// What tokens remember of a selection and this choice of it.
    pub(super) fn fingerprint(&self, selectors: u64) -> u64 {
        match self.choice_bytes.as_slice() {
            [] => selectors,
            chosen => fingerprint(&[&selectors.to_le_bytes(), chosen].concat()),
        }
    }
}

fn choice(
    sent: Option<v1::Best>,
    subset: Option<v1::Subset>,
    has_numbers: bool,
) -> Result<Option<Choice>, Invalid> {
    match (sent, subset) {
        (Some(_), Some(_)) => Err(Invalid::malformed("spec.subset", "does not go with best")),
        (Some(sent), None) => best_of(sent).map(|best| Some(Choice::Best(best))),
        (None, Some(subset)) => part(subset).map(|subset| Some(Choice::Subset(subset))),
        (None, None) => Ok(has_numbers.then_some(Choice::All)),
    }
}

fn best_of(sent: v1::Best) -> Result<Best, Invalid> {
    let by = match sent.by {
        None => return Err(Invalid::missing("spec.best.by")),
        Some(best::By::Gauge(name)) => By::Gauge(named("spec.best.gauge", name)?),
        Some(best::By::Available(name)) => By::Available(named("spec.best.available", name)?),
    };
    let hysteresis = Finite::new(sent.hysteresis).filter(|least| least.value() >= 0.0);
    let hysteresis = hysteresis
        .ok_or_else(|| Invalid::malformed("spec.best.hysteresis", "is no finite number of at least 0"))?;
    let limit = chosen("spec.best.limit", sent.limit)?;
    Ok(Best { by, ascending: sent.ascending, limit, hysteresis })
}

fn part(sent: v1::Subset) -> Result<Subset, Invalid> {
    Ok(Subset {
        key: named("spec.subset.key", sent.key)?,
        size: chosen("spec.subset.size", sent.size)?,
        zone: at_most("spec.subset.zone", sent.zone, MAX_ZONE)?,
    })
}

fn chosen(field: &str, sent: u32) -> Result<usize, Invalid> {
    if sent == 0 {
        return Err(Invalid::missing(field));
    }
    if sent > MAX_CHOSEN {
        let (value, max) = (sent.into(), MAX_CHOSEN.into());
        return Err(Invalid::new(field, Problem::OutOfRange { value, min: 1, max }));
    }
    Ok(sent as usize)
}

fn wish(sent: v1::ReadingsSpec) -> Result<LaneWish, Invalid> {
    const GAUGES: &str = "spec.readings.gauges";
    if sent == v1::ReadingsSpec::default() {
        return Ok(LaneWish::everything());
    }
    let v1::ReadingsSpec { available, all_gauges, gauges, suspect } = sent;
    if gauges.len() > MAX_GAUGES {
        let (limit, actual) = (MAX_GAUGES, gauges.len());
        return Err(Invalid::new(GAUGES, Problem::TooLarge { limit, actual }));
    }
    let name = |(at, name): (usize, String)| named(&format!("{GAUGES}[{at}]"), name);
    let names = gauges.into_iter().enumerate().map(name).collect::<Result<BTreeSet<_>, _>>()?;
    let gauges = match (all_gauges, names.is_empty()) {
        (true, true) => Gauges::All,
        (true, false) => return Err(Invalid::malformed(GAUGES, "does not go with all_gauges")),
        (false, true) => Gauges::None,
        (false, false) => Gauges::Named(names),
    };
    Ok(LaneWish { available, gauges, suspect })
}

fn named(field: &str, name: String) -> Result<String, Invalid> {
    if name.is_empty() {
        return Err(Invalid::missing(field));
    }
    at_most(field, name, MAX_NAME)
}

fn at_most(field: &str, text: String, limit: usize) -> Result<String, Invalid> {
    let actual = text.len();
    if actual > limit { Err(Invalid::new(field, Problem::TooLarge { limit, actual })) } else { Ok(text) }
}
