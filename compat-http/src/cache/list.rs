//! The full list: pieces that are kept from one answer to the next as long as nothing in them changed.

use std::sync::Arc;

use heureka_model::{Mono, Now, StatusCounts};
use heureka_registry::{AppSummary, LIST_AGE_MAX, Registry};

use super::Kind;
use super::piece::{Document, Piece};
use crate::wire;

/// Plain bytes above which applications do not share a piece.
const PIECE_TARGET: usize = 64 * 1024;
/// Neighbours that together are no larger are put into one piece: half the target, so that they do not part again
/// at the next change.
const PIECE_MERGE: usize = PIECE_TARGET / 2;
/// Full lists carry this number, deltas larger ones.
const VERSION: &str = "1";

/// Some applications, neighbours by name, and their encoding.
#[derive(Debug)]
pub(crate) struct Group {
    /// The applications and the revision at which each was encoded.
    apps: Vec<(String, u64)>,
    counts: StatusCounts,
    /// Stands at the beginning of the list, so that no separator leads it.
    leads: bool,
    encoded: Mono,
    piece: Arc<Piece>,
}

/// The full list is larger than may be kept.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Brings `old` up to date: encodes what changed or aged and takes the rest as it is.
///
/// # Errors
/// `TooLarge` as soon as the list exceeds `max` bytes.
pub(crate) fn refresh(
    old: &[Arc<Group>],
    registry: &Registry,
    kind: Kind,
    max: usize,
    now: Now,
) -> Result<Vec<Arc<Group>>, TooLarge> {
    let mut summaries = registry.applications("");
    summaries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let mut encoder = Encoder { registry, kind, max, now, groups: Vec::new(), size: 0 };
    let mut rest = summaries.as_slice();
    for (position, group) in old.iter().enumerate() {
        let end = old.get(position + 1).map_or(rest.len(), |next| next.begins_in(rest));
        let (mine, others) = rest.split_at(end);
        encoder.take(Some(group), mine)?;
        rest = others;
    }
    encoder.take(None, rest)?;
    Ok(encoder.groups)
}

/// The document of all groups; its hash counts exactly what they hold.
pub(crate) fn document(groups: &[Arc<Group>], kind: Kind) -> (Document, StatusCounts) {
    let mut counts = StatusCounts::default();
    groups.iter().for_each(|group| counts.merge(&group.counts));
    let mut pieces = Vec::with_capacity(groups.len() + 2);
    pieces.push(Piece::new(wire::open_list(VERSION, &counts.hash_code(), kind.format)));
    pieces.extend(groups.iter().map(|group| Arc::clone(&group.piece)));
    pieces.push(Piece::new(wire::close_list(kind.format)));
    (Document::new(pieces), counts)
}

/// When the oldest of the groups was encoded.
pub(crate) fn oldest(groups: &[Arc<Group>]) -> Option<Mono> {
    groups.iter().map(|group| group.encoded).min()
}

impl Group {
    fn begins_in(&self, summaries: &[AppSummary]) -> usize {
        let first = self.apps.first().map_or("", |(name, _)| name.as_str());
        summaries.partition_point(|summary| summary.name.as_str() < first)
    }

    fn is_current(&self, summaries: &[AppSummary], leads: bool, now: Now) -> bool {
        let same = |((name, revision), summary): (&(String, u64), &AppSummary)| {
            *name == summary.name && summary.revision <= *revision
        };
        self.leads == leads
            && now.mono.since(self.encoded) <= LIST_AGE_MAX
            && self.apps.len() == summaries.len()
            && self.apps.iter().zip(summaries).all(same)
    }

    fn join(&self, next: &Self) -> Self {
        let mut counts = self.counts;
        counts.merge(&next.counts);
        Self {
            apps: [self.apps.as_slice(), next.apps.as_slice()].concat(),
            counts,
            leads: self.leads,
            encoded: self.encoded.min(next.encoded),
            piece: Piece::new([self.piece.plain().as_ref(), next.piece.plain()].concat()),
        }
    }
}

struct Encoder<'a> {
    registry: &'a Registry,
    kind: Kind,
    max: usize,
    now: Now,
    groups: Vec<Arc<Group>>,
    size: usize,
}

impl Encoder<'_> {
    /// Takes the next applications in name order: by `old` when it still says the same, else encoded anew.
    fn take(&mut self, old: Option<&Arc<Group>>, summaries: &[AppSummary]) -> Result<(), TooLarge> {
        if summaries.is_empty() {
            return Ok(());
        }
        match old {
            Some(group) if group.is_current(summaries, self.size == 0, self.now) => {
                self.push(Arc::clone(group))
            }
            _ => self.encode(summaries),
        }
    }

    fn encode(&mut self, summaries: &[AppSummary]) -> Result<(), TooLarge> {
        let mut open = OpenGroup::default();
        for summary in summaries {
            let leads = self.size == 0 && open.plain.is_empty();
            let app = self.application(summary, leads);
            if !open.plain.is_empty() && open.plain.len() + app.plain.len() > PIECE_TARGET {
                self.close(std::mem::take(&mut open))?;
            }
            open.append(app);
        }
        self.close(open)
    }

    fn application(&self, summary: &AppSummary, leads: bool) -> OpenGroup {
        let Some(app) = self.registry.application("", &summary.name, self.now) else {
            return OpenGroup {
                apps: vec![(summary.name.clone(), summary.revision)],
                ..OpenGroup::default()
            };
        };
        let Kind { format, shape } = self.kind;
        let mut plain = if leads { Vec::new() } else { wire::separator(format).to_vec() };
        wire::application(&mut plain, &app.name, app.instances.iter().map(|one| (None, one)), format, shape);
        let counts = app.instances.iter().collect();
        OpenGroup { apps: vec![(app.name, app.revision)], counts, plain }
    }

    fn close(&mut self, open: OpenGroup) -> Result<(), TooLarge> {
        self.push(Arc::new(Group {
            leads: self.size == 0,
            apps: open.apps,
            counts: open.counts,
            encoded: self.now.mono,
            piece: Piece::new(open.plain),
        }))
    }

    fn push(&mut self, group: Arc<Group>) -> Result<(), TooLarge> {
        self.size += group.piece.plain().len();
        if self.size > self.max {
            return Err(TooLarge);
        }
        match self.groups.last_mut() {
            Some(last) if last.piece.plain().len() + group.piece.plain().len() <= PIECE_MERGE => {
                *last = Arc::new(last.join(&group));
            }
            _ => self.groups.push(group),
        }
        Ok(())
    }
}

/// A group to which applications are still added.
#[derive(Default)]
struct OpenGroup {
    apps: Vec<(String, u64)>,
    counts: StatusCounts,
    plain: Vec<u8>,
}

impl OpenGroup {
    fn append(&mut self, other: Self) {
        self.apps.extend(other.apps);
        self.counts.merge(&other.counts);
        self.plain.extend_from_slice(&other.plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiate::{Format, Shape};
    use heureka_model::{Instance, InstanceKey, KeyRef, Wall};
    use heureka_registry::{Claim, Config, Origin, RegisterMode, Seeds};
    use proptest::prelude::*;

    const JSON: Kind = Kind { format: Format::Json, shape: Shape::Full };
    const NO_LIMIT: usize = usize::MAX;

    fn at(millis: u64) -> Now {
        Now { mono: Mono(millis), wall: Wall(millis) }
    }

    fn registry() -> Registry {
        Registry::new(Config::default(), Seeds { boot: 1, hash: 2, shuffle: 3 }, at(0))
    }

    fn register(registry: &Registry, app: &str, id: &str, note: &str, now: Now) {
        let key = InstanceKey { namespace: String::new(), app: app.into(), id: id.into() };
        let mut instance = Instance::new(key);
        instance.metadata.insert("note".into(), note.into());
        registry.register(&instance, Claim::Next, RegisterMode::Upsert, &Origin::System, now).unwrap();
    }

    fn cancel(registry: &Registry, app: &str, id: &str, now: Now) {
        registry.cancel(KeyRef { namespace: "", app, id }, Claim::Next, &Origin::System, now).unwrap();
    }

    fn text(groups: &[Arc<Group>]) -> String {
        groups.iter().map(|group| String::from_utf8(group.piece.plain().to_vec()).unwrap()).collect()
    }

    /// A full registry of many small applications and one large.
    fn filled() -> Registry {
        let registry = registry();
        for app in 0..300 {
            for id in 0..3 {
                register(&registry, &format!("APP{app:03}"), &format!("i{id}"), "", at(0));
            }
        }
        for id in 0..300 {
            register(&registry, "LARGE", &format!("i{id}"), "", at(0));
        }
        registry
    }

    #[test]
    fn a_change_costs_its_piece_and_no_other() {
        let registry = filled();
        let before = refresh(&[], &registry, JSON, NO_LIMIT, at(0)).unwrap();
        assert!(before.len() >= 10, "{} pieces", before.len());
        assert!(
            before.iter().all(|group| { group.apps.len() == 1 || group.piece.plain().len() <= PIECE_TARGET })
        );
        register(&registry, "APP150", "i1", "changed", at(1));
        let after = refresh(&before, &registry, JSON, NO_LIMIT, at(1)).unwrap();
        let renewed = after.iter().zip(&before).filter(|(new, old)| !Arc::ptr_eq(new, old)).count();
        assert_eq!((after.len(), renewed), (before.len(), 1));
        assert!(text(&after).contains("changed"));
    }

    #[test]
    fn pieces_are_encoded_anew_when_their_renewal_times_have_aged() {
        let registry = filled();
        let before = refresh(&[], &registry, JSON, NO_LIMIT, at(0)).unwrap();
        let young = refresh(&before, &registry, JSON, NO_LIMIT, at(30_000)).unwrap();
        assert!(young.iter().zip(&before).all(|(new, old)| Arc::ptr_eq(new, old)));
        let aged = refresh(&before, &registry, JSON, NO_LIMIT, at(30_001)).unwrap();
        assert!(aged.iter().zip(&before).all(|(new, old)| !Arc::ptr_eq(new, old)));
    }

    #[test]
    fn a_list_beyond_the_bound_is_given_up() {
        let registry = filled();
        assert!(refresh(&[], &registry, JSON, 100_000, at(0)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn pieces_kept_over_any_history_say_what_a_fresh_encoding_says(
            steps in prop::collection::vec((0_usize..12, 0_usize..4, any::<bool>(), 0_usize..9000, any::<bool>()), 1..40),
        ) {
            for format in [Format::Json, Format::Xml] {
                let kind = Kind { format, shape: Shape::Full };
                let registry = registry();
                let mut groups = Vec::new();
                for (time, (app, id, add, size, read)) in steps.iter().enumerate() {
                    let now = at(time as u64 * 1000);
                    let (app, id) = (format!("APP{app}"), format!("i{id}"));
                    if *add {
                        register(&registry, &app, &id, &"n".repeat(*size), now);
                    } else {
                        cancel(&registry, &app, &id, now);
                    }
                    if *read {
                        groups = refresh(&groups, &registry, kind, NO_LIMIT, now).unwrap();
                        let fresh = refresh(&[], &registry, kind, NO_LIMIT, now).unwrap();
                        prop_assert_eq!(text(&groups), text(&fresh));
                        let (_, counts) = document(&groups, kind);
                        prop_assert_eq!(counts, registry.stats().counts);
                    }
                }
            }
        }
    }
}
