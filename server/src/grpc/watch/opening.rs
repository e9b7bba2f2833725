//! How a stream starts: with what was missed where that is known, with what differs where the client says what it
//! holds, else with everything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{BucketSums, Invalid, Problem, Selectors, SetDigest, canonical_app};
use heureka_proto::v1;
use heureka_proto::v1::{SnapshotMode, StartMode};
use heureka_registry::replication::Position;
use heureka_registry::seeded::{Bug, planted};
use heureka_registry::{AppDigest, Extent, Registry, Start, ToldApps};
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
    /// What is told whole, with DIFF.
    pub(super) apps: Option<Arc<ToldApps>>,
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

    fn differing(apps: ToldApps, since: u64) -> Self {
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
        check_buckets(&digests)?;
        let place = place(token, core)?.filter(|place| place.spec == spec);
        Ok(Self { mode, place, holds: (!digests.is_empty()).then_some(digests) })
    }

    /// Decides, the first that is possible: what was missed by this server's own log, what was missed of what others
    /// wrote, what differs, everything.
    pub(super) async fn decide(self, selectors: &Selectors, core: &Core) -> Result<Opening, Fault> {
        match self.mode {
            StartMode::SnapshotOnly => return everything(core),
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
            Some(holds) => differing(holds, selectors, core).await,
            None => None,
        };
        differing.map_or_else(|| everything(core), Ok)
    }
}

/// A start with the whole set, unless so many wait for their turn that it is better to come later.
pub(super) fn everything(core: &Core) -> Result<Opening, Fault> {
    let waiting = core.turns.waiting();
    if waiting < core.limits.waiting {
        return Ok(Opening::full());
    }
    Err(Fault::new(Reason::Overloaded, format!("{waiting} readers wait for a turn before you")))
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

/// Checks how a client parts its applications.
fn check_buckets(digests: &[v1::AppDigest]) -> Result<(), Fault> {
    let fits =
        |count: usize| count == 0 || (2..=BucketSums::MOST).contains(&count) && count.is_power_of_two();
    if let Some(at) = digests.iter().position(|app| !fits(app.buckets.len())) {
        let field = format!("spec.known_digests[{at}].buckets");
        let problem = "are neither none nor a power of two of them, 2 to 4096";
        return Err(Fault::request(Invalid::malformed(field, problem)));
    }
    let (limit, actual) = (BucketSums::MOST_TOGETHER, digests.iter().map(|app| app.buckets.len()).sum());
    if actual > limit {
        let invalid = Invalid::new("spec.known_digests.buckets", Problem::TooLarge { limit, actual });
        return Err(Fault::invalid(Reason::TooManyItems, invalid));
    }
    Ok(())
}

/// Tells what the client holds otherwise than this server; nothing when that is too much to name.
async fn differing(holds: Vec<v1::AppDigest>, selectors: &Selectors, core: &Core) -> Option<Opening> {
    // Before anything is compared: what changes meanwhile is told as a change.
    let since = core.registry.head();
    let looks_at_all = !selectors.is_by_app() || holds.iter().any(|app| !app.buckets.is_empty());
    let (registry, selected) = (core.registry.clone(), selectors.clone());
    let compare = move || {
        let sums =
            |namespace: &str, app: &str, buckets| registry.bucket_sums(&selected, namespace, app, buckets);
        unlike(&holds, &registry.digests(&selected), sums)
    };
    let apps = if looks_at_all && core.is_long(selectors) { core.aside(compare).await } else { compare() };
    (apps.iter().map(size).sum::<usize>() <= MAX_NAMES).then(|| Opening::differing(apps, since))
}

/// About the bytes with which it stands in the begin of a stream.
fn size((namespace, app, extent): (&str, &str, &Extent)) -> usize {
    let buckets = if let Extent::Buckets(told) = extent { 2 * told.len() } else { 0 };
    namespace.len() + app.len() + buckets
}

/// The applications that two sides hold otherwise, or that only one of them holds.
/// `sums` sums up what this one holds of an application by so many buckets.
fn unlike(
    theirs: &[v1::AppDigest],
    ours: &[AppDigest],
    sums: impl Fn(&str, &str, usize) -> Vec<u64>,
) -> ToldApps {
    let mut apps = ToldApps::default();
    let mut ours: HashMap<(&str, &str), &SetDigest> =
        ours.iter().map(|app| ((app.namespace.as_str(), app.app.as_str()), &app.digest)).collect();
    let names: Vec<_> = theirs.iter().map(|known| canonical_app(&known.app)).collect();
    for (known, app) in theirs.iter().zip(&names) {
        let own = ours.remove(&(known.namespace.as_str(), app.as_ref()));
        if !own.is_some_and(|own| is_equal(known.digest.as_ref(), own)) {
            let extent = extent(&known.buckets, |buckets| sums(&known.namespace, app, buckets));
            apps.insert(&known.namespace, app, extent);
        }
    }
    ours.keys().for_each(|(namespace, app)| apps.insert(namespace, app, Extent::Whole));
    apps
}

/// How much is told of an application that differs, of which a client holds what sums up like this.
fn extent(theirs: &[u64], ours: impl FnOnce(usize) -> Vec<u64>) -> Extent {
    if theirs.is_empty() {
        return Extent::Whole;
    }
    let ours = ours(theirs.len());
    Extent::Buckets(theirs.iter().zip(ours).map(|(one, other)| *one != other).collect())
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
        v1::AppDigest { app: app.into(), digest, ..v1::AppDigest::default() }
    }

    /// Names of the applications that are told when this one has nothing in any bucket.
    fn unlike_names(theirs: &[v1::AppDigest], ours: &[AppDigest]) -> Vec<String> {
        let apps = unlike(theirs, ours, |_, _, buckets| vec![0; buckets]);
        let mut named: Vec<_> = apps.iter().map(|(_, app, _)| app.to_owned()).collect();
        named.sort_unstable();
        named
    }

    #[test]
    fn applications_are_unlike_when_a_digest_differs_or_a_side_lacks_them() {
        let known = [theirs("same", 1), theirs("CHANGED", 2), theirs("GONE", 3)];
        let held = [ours("SAME", 1), ours("CHANGED", 9), ours("NEW", 4)];
        assert_eq!(unlike_names(&known, &held), ["CHANGED", "GONE", "NEW"]);
    }

    #[test]
    fn a_digest_made_in_another_way_says_nothing() {
        let mut other = theirs("WEB", 1);
        other.digest.as_mut().unwrap().algorithm = 2;
        assert_eq!(unlike_names(&[other], &[ours("WEB", 1)]), ["WEB"]);
        let none = v1::AppDigest { digest: None, ..theirs("WEB", 1) };
        assert_eq!(unlike_names(&[none], &[ours("WEB", 1)]), ["WEB"]);
    }

    #[test]
    fn what_was_told_twice_counts_by_the_last() {
        let known = [theirs("WEB", 1), theirs("WEB", 2)];
        assert_eq!(unlike_names(&known, &[ours("WEB", 1)]), ["WEB"]);
    }

    #[test]
    fn of_an_application_in_buckets_those_are_told_whose_sums_differ() {
        let known = v1::AppDigest { buckets: vec![0, 7, 0, 9], ..theirs("WEB", 1) };
        let apps = unlike(std::slice::from_ref(&known), &[ours("WEB", 2)], |_, _, _| vec![0, 7, 1, 8]);
        let told = Extent::Buckets([false, false, true, true].into());
        assert_eq!(apps.iter().collect::<Vec<_>>(), [("", "WEB", &told)]);
        let apps = unlike(&[known], &[ours("WEB", 1)], |_, _, _| vec![0, 7, 1, 8]);
        assert_eq!(apps.iter().count(), 0, "buckets are looked at where the whole differs");
    }

    #[test]
    fn buckets_are_none_or_a_bounded_power_of_two() {
        let fault = |counts: &[usize]| {
            let app = |count: &usize| v1::AppDigest { buckets: vec![0; *count], ..theirs("WEB", 1) };
            let refused = check_buckets(&counts.iter().map(app).collect::<Vec<_>>()).err()?;
            Some(refused.reason())
        };
        assert_eq!(fault(&[0, 2, 4096]), None);
        for wrong in [1, 3, 6, 4095, 8192] {
            assert_eq!(fault(&[2, wrong]), Some(Reason::InvalidRequest), "{wrong}");
        }
        assert_eq!((fault(&[4096; 16]), fault(&[4096; 17])), (None, Some(Reason::TooManyItems)));
    }
}
