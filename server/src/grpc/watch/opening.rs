//! How a stream starts: with what was missed where that is known, with what differs where the client says what it
//! holds, else with everything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{Invalid, Selectors, SetDigest, canonical_app};
use heureka_proto::v1;
use heureka_proto::v1::{SnapshotMode, StartMode};
use heureka_registry::replication::Position;
use heureka_registry::seeded::{Bug, planted};
use heureka_registry::{AppDigest, AppNames, Registry, Start};
use tokio::time::{Instant, sleep};

use crate::grpc::core::Core;
use crate::grpc::status::{Fault, Reason};
use crate::grpc::token::{Resume, Unusable};

/// How long a stream waits for what another server has told its client.
const CATCH_UP: Duration = Duration::from_secs(2);
/// Time between two looks at how far replication got.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Bytes of names in the begin of a stream; with more of them everything is told.
const MAX_NAMES: usize = 256 << 10;

/// How the initial part is read, and where the cursor stands before it.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Opening {
    pub(in crate::grpc) mode: SnapshotMode,
    pub(super) start: Start,
    /// Applications that are told whole, with DIFF.
    pub(super) apps: Option<Arc<AppNames>>,
    /// Writes that the client knows before anything is told.
    pub(super) vector: Vec<Position>,
}

/// What decides how a stream starts.
#[derive(Debug)]
pub(super) struct Wish {
    mode: StartMode,
    /// Where an earlier stream ended, unless that is of no use anywhere.
    place: Option<Resume>,
    /// What the client says it holds; nothing when it says nothing.
    holds: Option<Vec<v1::AppDigest>>,
}

impl Opening {
    pub(super) fn full() -> Self {
        Self::new(SnapshotMode::Full, Start::Full)
    }

    pub(super) fn live() -> Self {
        Self::new(SnapshotMode::None, Start::Live)
    }

    fn resumed(start: Start, vector: Vec<Position>) -> Self {
        Self { vector, ..Self::new(SnapshotMode::Resume, start) }
    }

    fn differing(apps: AppNames, since: u64) -> Self {
        let apps = Arc::new(apps);
        Self { apps: Some(apps.clone()), ..Self::new(SnapshotMode::Diff, Start::Apps(apps, since)) }
    }

    fn new(mode: SnapshotMode, start: Start) -> Self {
        Self { mode, start, apps: None, vector: Vec::new() }
    }
}

impl Wish {
    /// Checks what of the request can be checked without waiting. `spec` is the fingerprint of the selectors.
    pub(super) fn read(
        mode: StartMode,
        token: &Bytes,
        digests: Vec<v1::AppDigest>,
        spec: u64,
        core: &Core,
    ) -> Result<Self, Fault> {
        let follows = mode == StartMode::Follow;
        if !token.is_empty() && !follows && mode != StartMode::ResumeOnly {
            return Err(misplaced("spec.resume_token", "goes with FOLLOW and RESUME_ONLY only"));
        }
        if !digests.is_empty() && !follows {
            return Err(misplaced("spec.known_digests", "goes with FOLLOW only"));
        }
        let place = place(token, core)?.filter(|place| place.spec == spec);
        Ok(Self { mode, place, holds: (!digests.is_empty()).then_some(digests) })
    }

    /// Decides, the first that is possible: what was missed by this server's own log, what was missed of what others
    /// wrote, what differs, everything.
    pub(super) async fn decide(self, selectors: &Selectors, core: &Core) -> Result<Opening, Fault> {
        match self.mode {
            StartMode::SnapshotOnly => return Ok(Opening::full()),
            StartMode::LiveOnly => return Ok(Opening::live()),
            StartMode::Follow | StartMode::ResumeOnly | StartMode::Unspecified => {}
        }
        if let Some(place) = self.place
            && let Some(opening) = resume(place, &core.registry).await
        {
            return Ok(opening);
        }
        if self.mode == StartMode::ResumeOnly {
            return Err(expired());
        }
        let differing = match self.holds {
            Some(holds) => differing(&holds, selectors, core).await,
            None => None,
        };
        Ok(differing.unwrap_or_else(Opening::full))
    }
}

pub(super) fn expired() -> Fault {
    Fault::new(
        Reason::ResumeTokenExpired,
        "nothing is remembered from where the token stands; watch without it",
    )
}

fn misplaced(field: &'static str, problem: &'static str) -> Fault {
    Fault::request(Invalid::malformed(field, problem))
}

/// The place that a token names. One of a later format is of no use here, but no fault.
fn place(token: &Bytes, core: &Core) -> Result<Option<Resume>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let place = match Resume::decode(token, core.cluster()) {
        Ok(place) => place,
        Err(Unusable::Unknown) => return Ok(None),
        Err(Unusable::Forged) => return Err(forged("is damaged or of another cluster")),
    };
    if place.boot == core.registry.boot() && place.revision > core.registry.head() {
        return Err(forged("names a revision that this server never reached"));
    }
    Ok(Some(place))
}

fn forged(problem: &'static str) -> Fault {
    Fault::invalid(Reason::InvalidResumeToken, Invalid::malformed("spec.resume_token", problem))
}

async fn resume(place: Resume, registry: &Registry) -> Option<Opening> {
    let Resume { boot, revision, vector, .. } = place;
    let is_own = boot == registry.boot() || planted(Bug::ForeignResumed);
    if is_own && revision >= registry.floor() {
        return Some(Opening::resumed(Start::After(revision), vector));
    }
    if vector.is_empty() || !caught_up(&vector, registry).await || !registry.remembers_since(&vector) {
        return None;
    }
    Some(Opening::resumed(Start::Since(vector.as_slice().into()), vector))
}

/// Whether this server has all that the client was told, if need be after a while.
async fn caught_up(vector: &[Position], registry: &Registry) -> bool {
    let begun = Instant::now();
    while !registry.has_taken_in(vector) {
        // Without a stream to another server nothing more comes.
        if begun.elapsed() >= CATCH_UP || !registry.acks().reachable() {
            return false;
        }
        sleep(LOOK_AGAIN).await;
    }
    true
}

/// Tells the applications that the client holds otherwise than this server; nothing when they are too many to name.
async fn differing(holds: &[v1::AppDigest], selectors: &Selectors, core: &Core) -> Option<Opening> {
    // Before anything is compared: what changes meanwhile is told as a change.
    let since = core.registry.head();
    let digests = if selectors.is_by_app() || !core.is_long(selectors) {
        core.registry.digests(selectors)
    } else {
        let (registry, selectors) = (core.registry.clone(), selectors.clone());
        core.aside(move || registry.digests(&selectors)).await
    };
    let names = unlike(holds, &digests);
    let bytes: usize = names.iter().map(|(namespace, app)| namespace.len() + app.len()).sum();
    (bytes <= MAX_NAMES).then(|| Opening::differing(names, since))
}

/// Names of the applications that two sides hold otherwise, or that only one of them holds.
fn unlike(theirs: &[v1::AppDigest], ours: &[AppDigest]) -> AppNames {
    let mut names = AppNames::default();
    let mut ours: HashMap<(&str, &str), &SetDigest> =
        ours.iter().map(|app| ((app.namespace.as_str(), app.app.as_str()), &app.digest)).collect();
    let apps: Vec<_> = theirs.iter().map(|known| canonical_app(&known.app)).collect();
    for (known, app) in theirs.iter().zip(&apps) {
        let own = ours.remove(&(known.namespace.as_str(), app.as_ref()));
        if !own.is_some_and(|own| is_equal(known.digest.as_ref(), own)) {
            names.insert(&known.namespace, app);
        }
    }
    ours.keys().for_each(|(namespace, app)| names.insert(namespace, app));
    names
}

fn is_equal(theirs: Option<&v1::SetDigest>, ours: &SetDigest) -> bool {
    let ours = v1::SetDigest::from(*ours);
    theirs.is_some_and(|theirs| {
        (theirs.algorithm, theirs.instance_count, theirs.hash)
            == (ours.algorithm, ours.instance_count, ours.hash)
    })
}

#[cfg(test)]
mod tests {
    use heureka_model::Status;

    use super::*;

    fn ours(app: &str, hash: u64) -> AppDigest {
        let mut digest = SetDigest::default();
        digest.add(hash, Status::Up);
        AppDigest { namespace: String::new(), app: app.into(), digest }
    }

    fn theirs(app: &str, hash: u64) -> v1::AppDigest {
        let digest = Some(ours(app, hash).digest.into());
        v1::AppDigest { namespace: String::new(), app: app.into(), digest }
    }

    fn named(names: &AppNames) -> Vec<&str> {
        let mut named: Vec<_> = names.iter().map(|(_, app)| app).collect();
        named.sort_unstable();
        named
    }

    #[test]
    fn applications_are_unlike_when_a_digest_differs_or_a_side_lacks_them() {
        let known = [theirs("same", 1), theirs("CHANGED", 2), theirs("GONE", 3)];
        let held = [ours("SAME", 1), ours("CHANGED", 9), ours("NEW", 4)];
        assert_eq!(named(&unlike(&known, &held)), ["CHANGED", "GONE", "NEW"]);
    }

    #[test]
    fn a_digest_made_in_another_way_says_nothing() {
        let mut other = theirs("WEB", 1);
        other.digest.as_mut().unwrap().algorithm = 2;
        assert_eq!(named(&unlike(&[other], &[ours("WEB", 1)])), ["WEB"]);
        let none = v1::AppDigest { digest: None, ..theirs("WEB", 1) };
        assert_eq!(named(&unlike(&[none], &[ours("WEB", 1)])), ["WEB"]);
    }

    #[test]
    fn what_was_told_twice_counts_by_the_last() {
        let known = [theirs("WEB", 1), theirs("WEB", 2)];
        assert_eq!(named(&unlike(&known, &[ours("WEB", 1)])), ["WEB"]);
    }
}
