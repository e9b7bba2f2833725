//! What a mark must find: everything up to it told, and a set that adds up.

use bytes::Bytes;
use heureka_model::SetDigest;
use heureka_proto::v1;
use heureka_proto::v1::{SnapshotMode, StartMode};

use crate::court::{Charge, Court};
use crate::guarantee::{Guarantee, shown};
use crate::set::covers;
use crate::stream::{Stage, Stream};
use crate::watcher::Watcher;
use crate::wrote::{State, Write};

const ALGORITHM: u32 = 1;

impl Watcher {
    /// The initial part is complete.
    pub(crate) fn end(&mut self, stream: &mut Stream, court: &mut Court<'_>) {
        if let Some(built) = stream.part.building.take() {
            let apps = stream.part.apps.take();
            self.view.swap(&built, apps.as_ref());
            match apps {
                // What the server has there counts, older or not.
                Some(apps) => {
                    self.told.held.retain(|key, _| !covers(Some(&apps), key));
                    self.told.swap(&built, Some(&apps));
                }
                None => self.told = built,
            }
        }
        let boot = stream.boot.unwrap_or_default();
        let newest = self.newest.get(&boot);
        let ever = |key| newest.and_then(|newest| newest.get(key)).copied().unwrap_or_default();
        let older = stream.part.seen.iter().find(|(key, version)| ever(key) > **version);
        if let Some((key, version)) = older {
            let expected = format!("nothing older than {}", shown(&ever(key)));
            self.accuse(court, Charge::new(Guarantee::Monotone, expected, shown(version)).of(key));
        }
    }

    /// A SnapshotEnd or a Bookmark.
    pub(crate) fn mark(
        &mut self,
        stream: &mut Stream,
        token: Bytes,
        revision: u64,
        digest: Option<&v1::SetDigest>,
        court: &mut Court<'_>,
    ) {
        self.settle_part(&mut stream.part, court);
        let reached = stream.part.reached();
        if revision < reached {
            let seen = format!("a mark at revision {revision}");
            self.accuse(court, Charge::new(Guarantee::Ordered, format!("at least revision {reached}"), seen));
        }
        if token.is_empty() {
            self.accuse(court, Charge::new(Guarantee::Resumable, "a token", "a mark without one"));
        }
        self.issue(stream, token, revision, court);
        self.reliable(stream, revision, digest.is_some(), court);
        self.equal(stream, digest, court);
        stream.part.mark = Some(revision);
        stream.part.marked = true;
        self.reached = Some(revision);
        self.compare_lists(revision, court);
    }

    /// Looks for writes that the mark covers and nobody told.
    fn reliable(&mut self, stream: &mut Stream, revision: u64, settled: bool, court: &mut Court<'_>) {
        let Some(selectors) = stream.asked.selectors.as_ref().filter(|_| !self.spoiled) else { return };
        let missing = court.facts.missing(&self.told, selectors, revision, settled, court.line);
        for write in missing {
            let seen = match self.told.version(&write.key) {
                Some(held) => shown(&held),
                None => "nothing".to_owned(),
            };
            let charge = Charge::new(Guarantee::Reliable, due(write), seen).of(&write.key);
            let broken = court.broken(&self.name, charge);
            stream.part.missing.push((write.key.clone(), write.version, broken));
            self.spoiled = true;
        }
    }

    fn equal(&mut self, stream: &mut Stream, digest: Option<&v1::SetDigest>, court: &mut Court<'_>) {
        let Some(digest) = digest else { return };
        if stream.asked.start == StartMode::LiveOnly {
            let charge = Charge::new(Guarantee::ViewEquality, "no digest with LIVE_ONLY", "one");
            return self.accuse(court, charge);
        }
        if digest.algorithm != ALGORITHM || !self.told.is_whole() {
            return;
        }
        court.counts.digests += 1;
        let told = self.told.digest();
        if v1::SetDigest::from(told) == *digest {
            self.spoiled = !stream.part.missing.is_empty();
            self.adrift = false;
            return;
        }
        // A server that lags may have less than another has told. It follows, or the lists at rest show it.
        if self.spoiled || self.adrift {
            return;
        }
        let resumed = stream.stage == Stage::Initial && stream.part.mode == SnapshotMode::Resume;
        let guarantee = if resumed { Guarantee::Resumable } else { Guarantee::ViewEquality };
        let charge = Charge::new(guarantee, summed(digest), format!("{} told", summed(&told.into())));
        stream.part.unequal = Some(court.broken(&self.name, charge));
        self.spoiled = true;
    }

    /// The client's own account of what it holds.
    pub(crate) fn holds(&mut self, count: u64, hash: u64, court: &mut Court<'_>) {
        if self.spoiled || !self.view.is_whole() {
            return;
        }
        court.counts.digests += 1;
        let SetDigest { hash: expected, counts } = self.view.digest();
        if (u64::from(counts.total()), expected) != (count, hash) {
            let seen = format!("{count} instances, hash {hash:016x} held");
            let expected = format!("{} instances, hash {expected:016x}", counts.total());
            self.accuse(court, Charge::new(Guarantee::ViewEquality, expected, seen));
        }
    }
}

fn due(write: &Write) -> String {
    let what = match write.state {
        State::Removed => "its removal with",
        State::Live(_) | State::Unknown => "the acknowledged",
    };
    format!("{what} {} of revision {} or older", shown(&write.version), write.revision)
}

fn summed(digest: &v1::SetDigest) -> String {
    let counts = digest.status_counts.iter().map(|entry| format!(", {} {:?}", entry.count, entry.status()));
    format!("{} instances, hash {:016x}{}", digest.instance_count, digest.hash, counts.collect::<String>())
}
