//! What a watcher asks for, and how its stream starts.

use std::time::Duration;

use bytes::Bytes;
use heureka_model::{Invalid, Problem, Selectors};
use heureka_proto::convert::duration;
use heureka_proto::v1::{SnapshotMode, StartMode, WatchRequest};
use heureka_registry::Start;

use crate::grpc::core::Core;
use crate::grpc::lists::{bounded_size, set};
use crate::grpc::status::{Fault, Reason};
use crate::grpc::token::{Resume, Unusable};

const DEFAULT_BATCH: usize = 256;
const MAX_BATCH: usize = 2000;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
const MAX_CLIENT_NAME: usize = 256;
/// Names that `required_features` may hold, see `docs/watch-contract.md`.
const FEATURES: [&str; 3] = ["resume", "digest", "labels"];

/// A subscription as asked for.
pub(in crate::grpc) struct Spec {
    pub(super) selectors: Selectors,
    /// Fingerprint of the selectors.
    pub(super) fingerprint: u64,
    pub(super) start_mode: StartMode,
    pub(in crate::grpc) opening: Opening,
    pub(super) max_batch: usize,
    pub(super) interval: Duration,
}

/// How the initial part is read, and where the cursor stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Opening {
    pub(in crate::grpc) mode: SnapshotMode,
    pub(super) start: Start,
}

impl Opening {
    pub(super) const FULL: Self = Self { mode: SnapshotMode::Full, start: Start::Full };
    pub(super) const LIVE: Self = Self { mode: SnapshotMode::None, start: Start::Live };

    fn after(revision: u64) -> Self {
        Self { mode: SnapshotMode::Resume, start: Start::After(revision) }
    }
}

impl Spec {
    pub(in crate::grpc) fn parse(request: WatchRequest, core: &Core) -> Result<Self, Fault> {
        at_most("client_name", request.client_name.len(), MAX_CLIENT_NAME).map_err(Fault::request)?;
        let spec = request.spec.unwrap_or_default();
        known_features(&spec.required_features)?;
        let start_mode = start_mode(spec.start_mode).map_err(Fault::request)?;
        let max_batch = bounded_size("spec.max_batch_size", spec.max_batch_size, DEFAULT_BATCH, MAX_BATCH);
        let interval = interval(spec.bookmark_interval.as_ref()).map_err(Fault::request)?;
        let set = set(spec.selectors)
            .map_err(|invalid| Fault::invalid(Reason::InvalidSelector, invalid.within("spec")))?;
        let opening = opening(start_mode, &spec.resume_token, set.fingerprint, core)?;
        Ok(Self {
            selectors: set.selectors,
            fingerprint: set.fingerprint,
            start_mode,
            opening,
            max_batch: max_batch.map_err(Fault::request)?,
            interval,
        })
    }
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
    if interval < MIN_INTERVAL || interval > MAX_INTERVAL {
        return Err(Invalid::malformed(FIELD, "lies outside 1 s to 60 s"));
    }
    Ok(interval)
}

fn opening(mode: StartMode, token: &Bytes, spec: u64, core: &Core) -> Result<Opening, Fault> {
    match mode {
        StartMode::SnapshotOnly => without_token(token).map(|()| Opening::FULL),
        StartMode::LiveOnly => without_token(token).map(|()| Opening::LIVE),
        StartMode::ResumeOnly => {
            let revision = resumable(token, spec, core)?.ok_or_else(expired)?;
            Ok(Opening::after(revision))
        }
        StartMode::Follow | StartMode::Unspecified => {
            Ok(resumable(token, spec, core)?.map_or(Opening::FULL, Opening::after))
        }
    }
}

fn without_token(token: &Bytes) -> Result<(), Fault> {
    if token.is_empty() {
        return Ok(());
    }
    let problem = "goes with FOLLOW and RESUME_ONLY only";
    Err(Fault::request(Invalid::malformed("spec.resume_token", problem)))
}

/// Revision to resume from, if the token allows it.
fn resumable(token: &Bytes, spec: u64, core: &Core) -> Result<Option<u64>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let resume = match Resume::decode(token, core.cluster()) {
        Ok(resume) => resume,
        Err(Unusable::Unknown) => return Ok(None),
        Err(Unusable::Forged) => return Err(forged("is damaged or of another cluster")),
    };
    let registry = &core.registry;
    if resume.spec != spec || resume.boot != registry.boot() {
        return Ok(None);
    }
    if resume.revision > registry.head() {
        return Err(forged("names a revision that this server never reached"));
    }
    Ok((resume.revision >= registry.floor()).then_some(resume.revision))
}

fn forged(problem: &'static str) -> Fault {
    Fault::invalid(Reason::InvalidResumeToken, Invalid::malformed("spec.resume_token", problem))
}

pub(super) fn expired() -> Fault {
    Fault::new(
        Reason::ResumeTokenExpired,
        "nothing is remembered from where the token stands; watch without it",
    )
}

fn at_most(field: &str, actual: usize, limit: usize) -> Result<(), Invalid> {
    if actual > limit {
        return Err(Invalid::new(field, Problem::TooLarge { limit, actual }));
    }
    Ok(())
}
