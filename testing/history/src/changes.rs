//! What a batch of changes must be like.

use std::collections::HashSet;

use heureka_model::{InstanceKey, RemovalReason};
use heureka_proto::v1;
use prost::Message as _;

use crate::court::{Charge, Court};
use crate::guarantee::{Guarantee, shown};
use crate::heard::Heard;
use crate::set::covers;
use crate::stream::{Stage, Stream};
use crate::watcher::Watcher;

/// Bytes of changes in a message.
const MAX_BYTES: usize = 64 << 10;

impl Watcher {
    pub(crate) fn changes(&mut self, stream: &mut Stream, batch: v1::ChangeBatch, court: &mut Court<'_>) {
        court.counts.changes += batch.changes.len();
        self.bounds(stream, &batch, court);
        let mut keys = HashSet::new();
        let mut twice = false;
        for change in batch.changes {
            match Heard::read(change) {
                Ok(heard) => twice |= self.hear(stream, &heard, &mut keys, court),
                Err(seen) => self.accuse(court, Charge::new(Guarantee::Atomic, "a whole change", seen)),
            }
        }
        // A batch that comes again comes with its revision.
        if !twice {
            self.advance(stream, batch.revision, court);
        }
        stream.part.batch = stream.part.batch.max(Some(batch.revision));
        // What is still unequal was not explained by this batch.
        court.broken.extend(stream.part.unequal.take());
    }

    fn bounds(&mut self, stream: &Stream, batch: &v1::ChangeBatch, court: &mut Court<'_>) {
        let (count, max) = (batch.changes.len(), stream.asked.max_batch);
        if count > max {
            let expected = format!("at most {max} changes");
            self.accuse(court, Charge::new(Guarantee::Bounded, expected, count.to_string()));
        }
        let bytes: usize = batch.changes.iter().map(v1::Change::encoded_len).sum();
        if count > 1 && bytes > MAX_BYTES {
            let seen = format!("{bytes} bytes in {count} changes");
            self.accuse(court, Charge::new(Guarantee::Bounded, "at most 64 KiB", seen));
        }
    }

    /// Judges the revision of a batch.
    fn advance(&mut self, stream: &mut Stream, revision: u64, court: &mut Court<'_>) {
        let part = &mut stream.part;
        let seen = format!("a batch at revision {revision}");
        let charge = if let Some(mark) = part.mark.filter(|mark| revision <= *mark) {
            // What came too late was missing from the digest.
            part.unequal = None;
            let (guarantee, what) = if part.marked {
                (Guarantee::Bookmarkable, "a mark")
            } else {
                (Guarantee::Resumable, "a token")
            };
            Charge::new(guarantee, format!("nothing up to revision {mark} after {what} of it"), seen)
        } else {
            match part.batch {
                Some(last) if revision < last => {
                    Charge::new(Guarantee::Ordered, format!("a revision above {last}"), seen)
                }
                Some(last) if revision == last => {
                    Charge::new(Guarantee::Atomic, "one message for each revision", seen)
                }
                _ => return,
            }
        };
        self.accuse(court, charge);
    }

    /// Judges a change and takes it in; whether it was told before.
    fn hear(
        &mut self,
        stream: &mut Stream,
        heard: &Heard,
        keys: &mut HashSet<InstanceKey>,
        court: &mut Court<'_>,
    ) -> bool {
        if heard.live.as_ref().is_some_and(|live| !court.is_the_content_of(live)) {
            let seen = format!("another with {}", shown(&heard.version));
            let charge = Charge::new(Guarantee::Atomic, "one content for each version", seen);
            self.accuse(court, charge.of(&heard.key));
        }
        self.filter(stream, heard, court);
        let twice = self.repeated(stream, heard, keys.insert(heard.key.clone()), court);
        self.late(stream, heard, court);
        self.take(stream, heard);
        twice
    }

    fn filter(&mut self, stream: &Stream, heard: &Heard, court: &mut Court<'_>) {
        let Some(selectors) = &stream.asked.selectors else { return };
        let (key, app) = (&heard.key, &heard.key.app);
        let charge = match (&heard.live, heard.reason) {
            (Some(live), _) if !selectors.matches(live) => "an instance that matches nothing",
            (None, _) if !selectors.covers_app(&key.namespace, app) => "a removal in another application",
            (None, Some(RemovalReason::FilteredOut)) if selectors.is_by_app() => {
                "FILTERED_OUT where only the application decides"
            }
            _ => return,
        };
        self.accuse(court, Charge::new(Guarantee::Filtered, "what the selectors cover", charge).of(key));
    }

    /// Judges the version against what was told of the key before.
    fn repeated(&mut self, stream: &Stream, heard: &Heard, first: bool, court: &mut Court<'_>) -> bool {
        let version = heard.version;
        let boot = stream.boot.unwrap_or_default();
        let before = stream.part.seen.get(&heard.key).copied();
        let ever = self.newest.get(&boot).and_then(|keys| keys.get(&heard.key)).copied();
        let held = self.told.boot == boot && self.told.version(&heard.key) == Some(version);
        let live = stream.stage == Stage::Live;
        let charge = match before {
            _ if !first => Charge::new(Guarantee::Unique, "a key once in a batch", "it twice"),
            Some(last) if version == last => {
                Charge::new(Guarantee::Unique, "a version once", format!("{} again", shown(&version)))
            }
            Some(last) if version < last => {
                Charge::new(Guarantee::Ordered, format!("newer than {}", shown(&last)), shown(&version))
            }
            None if live && held && !self.adrift && heard.live.is_some() => {
                Charge::new(Guarantee::Unique, "a version once", format!("{} again", shown(&version)))
            }
            None if live && ever.is_some_and(|ever| ever > version) => {
                let expected = format!("nothing older than {}", shown(&ever.unwrap_or_default()));
                Charge::new(Guarantee::Monotone, expected, shown(&version))
            }
            _ => return false,
        };
        let twice = charge.guarantee == Guarantee::Unique;
        self.accuse(court, charge.of(&heard.key));
        twice
    }

    /// A write that the last mark covered, told after it.
    fn late(&mut self, stream: &mut Stream, heard: &Heard, court: &mut Court<'_>) {
        let missing = &mut stream.part.missing;
        let found =
            missing.iter().position(|(key, version, _)| (key, *version) == (&heard.key, heard.version));
        if let Some(found) = found {
            let (.., broken) = missing.swap_remove(found);
            let seen = "it after the mark".to_owned();
            court.broken.push(crate::Broken { guarantee: Guarantee::Bookmarkable, seen, ..broken });
        }
    }

    fn take(&mut self, stream: &mut Stream, heard: &Heard) {
        let boot = stream.boot.unwrap_or_default();
        let ever = self.newest.entry(boot).or_default().entry(heard.key.clone()).or_default();
        *ever = heard.version.max(*ever);
        let seen = stream.part.seen.entry(heard.key.clone()).or_default();
        *seen = heard.version.max(*seen);
        let apps = stream.part.apps.as_ref();
        match stream.part.building.as_mut().filter(|_| covers(apps, &heard.key)) {
            Some(building) => building.apply(&heard.key, heard.version, heard.live.as_ref()),
            None => {
                if self.adrift {
                    // What a server that lags tells counts as what it holds, older or not.
                    self.told.held.remove(&heard.key);
                }
                self.told.apply(&heard.key, heard.version, heard.live.as_ref());
                self.view.apply(&heard.key, heard.version, heard.live.as_ref());
            }
        }
    }
}
