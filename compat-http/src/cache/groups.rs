//! What the full list and the delta are made of: pieces that are kept from one answer to the next as long as
//! nothing in them changed.

use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Mono, Now, StatusCounts};
use heureka_registry::LIST_AGE_MAX;

use super::piece::{Document, Piece};
use crate::negotiate::Format;
use crate::wire;

/// Plain bytes above which units do not share a piece.
const PIECE_TARGET: usize = 64 * 1024;
/// Neighbours that together are no larger are put into one piece: half the target, so that they do not part again
/// at the next change.
const PIECE_MERGE: usize = PIECE_TARGET / 2;

/// A list of applications of which pieces are made.
pub(crate) trait Source {
    /// What the list is made of, by name and then by part.
    fn units(&self) -> &[Unit];

    /// Appends a unit, and tells the mark of what was appended and its counts. Nothing when it is gone since the units
    /// were told.
    fn encode(&self, unit: &Unit, out: &mut Vec<u8>) -> Option<(Mark, StatusCounts)>;
}

/// An application or, of a large one, a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) app: String,
    /// Place among the parts of the application.
    pub(crate) part: usize,
    pub(crate) mark: Mark,
}

/// What a unit says in a list. Within one list, equal marks mean equal content, all but renewal times and the stamps of
/// owners, which change no revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Of a whole application.
    Whole {
        /// Revision of its last change in the list.
        revision: u64,
        /// How many of its instances are in the list.
        instances: usize,
    },
    /// Of a part.
    Part {
        /// Those of its instances, in their order.
        revisions: Vec<u64>,
        /// The application ends with it.
        ends: bool,
    },
}

/// Some units, neighbours in the list, and their encoding.
#[derive(Debug)]
pub(crate) struct Group {
    units: Vec<Unit>,
    counts: StatusCounts,
    /// Stands at the beginning of the list, so that no separator leads it.
    leads: bool,
    /// When it has to be encoded anew, whatever its units say.
    due: Mono,
    piece: Arc<Piece>,
}

/// A list in groups and what is said of it as a whole.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) version: u64,
    /// Everything up to this revision is in it.
    pub(crate) revision: u64,
    /// The counts whose hash it carries.
    pub(crate) counts: StatusCounts,
}

/// The list is larger than may be kept.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Brings `old` up to date: encodes what changed or aged and takes the rest as it is.
///
/// # Errors
/// `TooLarge` as soon as the list exceeds `max` bytes.
pub(crate) fn refresh(
    old: &[Arc<Group>],
    source: &impl Source,
    format: Format,
    max: usize,
    now: Now,
) -> Result<Vec<Arc<Group>>, TooLarge> {
    let mut encoder = Encoder { source, format, max, now, groups: Vec::new(), size: 0 };
    let mut rest = source.units();
    for (position, group) in old.iter().enumerate() {
        let end = old.get(position + 1).map_or(rest.len(), |next| next.begins_in(rest));
        let (mine, others) = rest.split_at(end);
        encoder.take(Some(group), mine)?;
        rest = others;
    }
    encoder.take(None, rest)?;
    Ok(encoder.groups)
}

impl List {
    /// All of it, led by its version and the hash of its counts.
    pub(crate) fn document(&self, format: Format) -> Document {
        let mut pieces = Vec::with_capacity(self.groups.len() + 2);
        let version = self.version.to_string();
        pieces.push(Piece::new(wire::open_list(&version, &self.counts.hash_code(), format)));
        pieces.extend(self.groups.iter().map(|group| Arc::clone(&group.piece)));
        pieces.push(Piece::new(wire::close_list(format)));
        Document::new(pieces)
    }

    /// When the first of the groups has to be encoded anew; nothing when there is none.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.groups.iter().map(|group| group.due).min()
    }
}

impl Group {
    /// Counts of what it holds.
    pub(crate) fn counts(&self) -> &StatusCounts {
        &self.counts
    }

    fn begins_in(&self, units: &[Unit]) -> usize {
        let Some(first) = self.units.first() else { return 0 };
        units.partition_point(|unit| unit.place() < first.place())
    }

    fn is_current(&self, units: &[Unit], leads: bool, now: Now) -> bool {
        self.leads == leads && now.mono <= self.due && self.units == units
    }

    fn join(&self, next: &Self) -> Self {
        let mut counts = self.counts;
        counts.merge(&next.counts);
        Self {
            units: [self.units.as_slice(), next.units.as_slice()].concat(),
            counts,
            leads: self.leads,
            due: self.due.min(next.due),
            piece: Piece::new([self.piece.plain().as_ref(), next.piece.plain()].concat()),
        }
    }
}

impl Unit {
    fn place(&self) -> (&str, usize) {
        (&self.app, self.part)
    }
}

/// How long the piece at this place may be kept: at most [`LIST_AGE_MAX`], since renewals change no mark, and less by up to
/// half of it, so that what was encoded together does not age together. The bits of the place in reverse part as many
/// pieces as there are, few or many.
fn age(place: usize) -> Duration {
    let turn = (place as u8).reverse_bits();
    LIST_AGE_MAX - LIST_AGE_MAX / 2 * u32::from(turn) / 256
}

struct Encoder<'a, S> {
    source: &'a S,
    format: Format,
    max: usize,
    now: Now,
    groups: Vec<Arc<Group>>,
    size: usize,
}

impl<S: Source> Encoder<'_, S> {
    /// Takes the next units: by `old` when it still says the same, else encoded anew.
    fn take(&mut self, old: Option<&Arc<Group>>, units: &[Unit]) -> Result<(), TooLarge> {
        if units.is_empty() {
            return Ok(());
        }
        match old {
            Some(group) if group.is_current(units, self.size == 0, self.now) => self.push(Arc::clone(group)),
            _ => self.encode(units),
        }
    }

    fn encode(&mut self, units: &[Unit]) -> Result<(), TooLarge> {
        let mut open = OpenGroup::default();
        for unit in units {
            let leads = self.size == 0 && open.plain.is_empty();
            let next = self.unit(unit, leads);
            if !open.plain.is_empty() && open.plain.len() + next.plain.len() > PIECE_TARGET {
                self.close(std::mem::take(&mut open))?;
            }
            open.append(next);
        }
        self.close(open)
    }

    fn unit(&self, unit: &Unit, leads: bool) -> OpenGroup {
        let mut plain = if leads { Vec::new() } else { wire::separator(self.format).to_vec() };
        match self.source.encode(unit, &mut plain) {
            Some((mark, counts)) => OpenGroup { units: vec![Unit { mark, ..unit.clone() }], counts, plain },
            None => OpenGroup { units: vec![unit.clone()], ..OpenGroup::default() },
        }
    }

    fn close(&mut self, open: OpenGroup) -> Result<(), TooLarge> {
        self.push(Arc::new(Group {
            leads: self.size == 0,
            units: open.units,
            counts: open.counts,
            due: self.now.mono.plus(age(self.groups.len())),
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

/// A group to which units are still added.
#[derive(Default)]
struct OpenGroup {
    units: Vec<Unit>,
    counts: StatusCounts,
    plain: Vec<u8>,
}

impl OpenGroup {
    fn append(&mut self, other: Self) {
        self.units.extend(other.units);
        self.counts.merge(&other.counts);
        self.plain.extend_from_slice(&other.plain);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, delta, list};
    use super::*;
    use crate::negotiate::Shape;
    use axum::body::Body;
    use flate2::read::GzDecoder;
    use futures_util::FutureExt;
    use heureka_model::{Action, Instance, InstanceKey, KeyRef, LeaseTerms, Wall};
    use heureka_registry::{
        Claim, Config, Entry, Origin, Preservation, PreservationMode, RegisterMode, Registry, Seeds,
    };
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    type Refresh = fn(&[Arc<Group>], &Registry, Kind, usize, Now) -> Result<List, TooLarge>;

    const BOTH: [Refresh; 2] = [list::refresh, delta::refresh];
    const JSON: Kind = Kind { format: Format::Json, shape: Shape::Full };
    const XML: Kind = Kind { format: Format::Xml, shape: Shape::Full };
    const COMPACT: Kind = Kind { format: Format::Json, shape: Shape::Compact };
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const NO_LIMIT: usize = usize::MAX;
    const WINDOW: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Now {
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }

    /// Every lapsed lease ends, and the delta forgets soon.
    fn registry() -> Registry {
        let preservation = Preservation { mode: PreservationMode::Off, ..Preservation::default() };
        let config = Config { delta_window: WINDOW, preservation, ..Config::default() };
        Registry::new(config, Seeds { boot: 1, hash: 2, shuffle: 3 }, at(0))
    }

    fn register(registry: &Registry, app: &str, id: &str, note: &str, now: Now) {
        register_for(registry, app, id, note, Duration::from_secs(90), now);
    }

    fn register_for(registry: &Registry, app: &str, id: &str, note: &str, lease: Duration, now: Now) {
        let key = InstanceKey { namespace: String::new(), app: app.into(), id: id.into() };
        let mut instance = Instance::new(key);
        instance.metadata.insert("note".into(), note.into());
        instance.lease = LeaseTerms::clamped(Duration::from_secs(1), lease);
        registry.register(&instance, Claim::Next, RegisterMode::Upsert, &Origin::System, now).unwrap();
    }

    fn cancel(registry: &Registry, app: &str, id: &str, now: Now) {
        registry.cancel(KeyRef { namespace: "", app, id }, Claim::Next, &Origin::System, now).unwrap();
    }

    /// Lets whole seconds pass.
    fn pass(registry: &Registry, from: u64, to: u64) {
        (from + 1..=to).for_each(|second| registry.tick(at(second * 1000)));
    }

    fn read(body: Body) -> Vec<u8> {
        axum::body::to_bytes(body, NO_LIMIT).now_or_never().unwrap().unwrap().to_vec()
    }

    fn text(list: &List, format: Format) -> String {
        String::from_utf8(read(list.document(format).body(false).0)).unwrap()
    }

    fn gunzipped(list: &List, format: Format) -> String {
        let mut plain = String::new();
        let gzip = read(list.document(format).body(true).0);
        GzDecoder::new(gzip.as_slice()).read_to_string(&mut plain).unwrap();
        plain
    }

    /// The full list encoded as a whole.
    fn whole_list(registry: &Registry, kind: Kind, now: Now) -> String {
        let names = registry.applications("").into_iter().map(|app| app.name);
        let apps: Vec<_> = names.filter_map(|name| registry.application("", &name, now)).collect();
        let counts: StatusCounts = apps.iter().flat_map(|app| &app.instances).collect();
        let mut out = wire::open_list("1", &counts.hash_code(), kind.format);
        for (position, app) in apps.iter().enumerate() {
            if position > 0 {
                out.extend_from_slice(wire::separator(kind.format));
            }
            let instances = app.instances.iter().map(|one| (None, one));
            wire::application(&mut out, &app.name, instances, kind.format, kind.shape);
        }
        out.extend_from_slice(wire::close_list(kind.format));
        String::from_utf8(out).unwrap()
    }

    /// The delta encoded as a whole.
    fn whole_delta(registry: &Registry, kind: Kind, now: Now) -> String {
        let delta = registry.delta(now);
        let mut apps: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        delta.changes.iter().for_each(|change| apps.entry(change.app()).or_default().push(change));
        let version = (delta.revision + delta.since + 2).to_string();
        let mut out = wire::open_list(&version, &delta.counts.hash_code(), kind.format);
        for (position, (app, changes)) in apps.iter().enumerate() {
            if position > 0 {
                out.extend_from_slice(wire::separator(kind.format));
            }
            let (gone, there): (Vec<&Entry>, Vec<&Entry>) =
                changes.iter().partition(|change| change.action() == Action::Deleted);
            let entries = there.iter().chain(&gone);
            let entries = entries.map(|change| (Some(change.action()), change.registration()));
            wire::application(&mut out, app, entries, kind.format, kind.shape);
        }
        out.extend_from_slice(wire::close_list(kind.format));
        String::from_utf8(out).unwrap()
    }

    /// Many small applications and one large.
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

    /// How many pieces of `new` are not those of `old`, which are as many.
    fn renewed(new: &List, old: &List) -> usize {
        assert_eq!(new.groups.len(), old.groups.len());
        let pairs = new.groups.iter().zip(&old.groups);
        pairs.filter(|(new, old)| !Arc::ptr_eq(&new.piece, &old.piece)).count()
    }

    #[test]
    fn a_change_costs_its_piece_and_no_other() {
        for refresh in BOTH {
            let registry = filled();
            let before = refresh(&[], &registry, JSON, NO_LIMIT, at(0)).unwrap();
            assert!(before.groups.len() >= 10, "{} pieces", before.groups.len());
            let fits =
                |group: &Arc<Group>| group.units.len() == 1 || group.piece.plain().len() <= PIECE_TARGET;
            assert!(before.groups.iter().all(fits));
            register(&registry, "APP150", "i1", "changed", at(1));
            let after = refresh(&before.groups, &registry, JSON, NO_LIMIT, at(1)).unwrap();
            assert_eq!(renewed(&after, &before), 1);
            assert!(text(&after, Format::Json).contains("changed"));
        }
    }

    #[test]
    fn what_leaves_the_window_of_the_delta_costs_its_piece_and_no_other() {
        let registry = registry();
        register(&registry, "APP150", "old", "", at(0));
        pass(&registry, 0, 3);
        for app in 0..300 {
            (0..3)
                .for_each(|id| register(&registry, &format!("APP{app:03}"), &format!("i{id}"), "", at(3000)));
        }
        let before = delta::refresh(&[], &registry, JSON, NO_LIMIT, at(3000)).unwrap();
        assert!(text(&before, Format::Json).contains("\"old\""));
        pass(&registry, 3, 6);
        let after = delta::refresh(&before.groups, &registry, JSON, NO_LIMIT, at(6000)).unwrap();
        assert_eq!(renewed(&after, &before), 1);
        assert_eq!(gunzipped(&after, Format::Json), whole_delta(&registry, JSON, at(6000)));
        assert!(!text(&after, Format::Json).contains("\"old\""));
        pass(&registry, 6, 9);
        let empty = delta::refresh(&after.groups, &registry, JSON, NO_LIMIT, at(9000)).unwrap();
        assert_eq!(empty.groups.len(), 0);
    }

    #[test]
    fn a_piece_that_becomes_the_first_loses_its_separator() {
        let registry = registry();
        register(&registry, "ONE", "i", &"n".repeat(PIECE_MERGE), at(0));
        pass(&registry, 0, 3);
        register(&registry, "TWO", "i", &"n".repeat(PIECE_MERGE), at(3000));
        let before = delta::refresh(&[], &registry, JSON, NO_LIMIT, at(3000)).unwrap();
        assert_eq!(before.groups.len(), 2);
        pass(&registry, 3, 6);
        let after = delta::refresh(&before.groups, &registry, JSON, NO_LIMIT, at(6000)).unwrap();
        assert_eq!(after.groups.len(), 1);
        assert_eq!(text(&after, Format::Json), whole_delta(&registry, JSON, at(6000)));
    }

    #[test]
    fn a_change_of_a_large_application_costs_its_part_and_no_other() {
        let registry = filled();
        for id in 0..1000 {
            register(&registry, "APP150", &format!("i{id}"), "", at(0));
        }
        let list = |old: &[Arc<Group>], now| list::refresh(old, &registry, XML, NO_LIMIT, now).unwrap();
        let before = list(&[], at(0));
        register(&registry, "APP150", "i500", "changed", at(1));
        let changed = list(&before.groups, at(1));
        assert_eq!(renewed(&changed, &before), 1);
        // The last takes its place.
        cancel(&registry, "APP150", "i500", at(2));
        let cancelled = list(&changed.groups, at(2));
        assert_eq!(renewed(&cancelled, &changed), 2);
        assert_eq!(gunzipped(&cancelled, Format::Xml), whole_list(&registry, XML, at(2)));
    }

    #[test]
    fn pieces_are_encoded_anew_one_after_the_other_before_their_renewal_times_are_too_old() {
        for refresh in BOTH {
            let registry = filled();
            let first = refresh(&[], &registry, JSON, NO_LIMIT, at(0)).unwrap();
            let number = first.groups.len();
            let (mut kept, mut due, mut since) = (first, 0, vec![0; number]);
            for second in 1..=90 {
                let now = at(second * 1000);
                let next = refresh(&kept.groups, &registry, JSON, NO_LIMIT, now).unwrap();
                assert!(renewed(&next, &kept) <= 3, "{} of {number}", renewed(&next, &kept));
                assert!((now.mono..=now.mono.plus(LIST_AGE_MAX)).contains(&next.due().unwrap()));
                for (place, since) in since.iter_mut().enumerate() {
                    if !Arc::ptr_eq(&next.groups[place].piece, &kept.groups[place].piece) {
                        (due, *since) = (due + 1, second);
                    }
                    assert!(second - *since <= 30);
                }
                kept = next;
            }
            assert!(due >= 3 * number && due <= 6 * number, "{due} encodings of {number} pieces");
        }
    }

    #[test]
    fn a_list_beyond_the_bound_is_given_up() {
        for refresh in BOTH {
            assert!(refresh(&[], &filled(), JSON, 100_000, at(0)).is_err());
        }
    }

    /// What happens before a read: time in seconds, then perhaps a change of an instance.
    #[derive(Clone, Debug)]
    struct Step {
        passes: u64,
        app: String,
        id: String,
        change: Option<Change>,
        read: bool,
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Register { size: usize, lease: u64 },
        Cancel,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let register = || {
            (0_usize..9000, prop_oneof![4 => Just(90_u64), 1 => 2_u64..8])
                .prop_map(|(size, lease)| Some(Change::Register { size, lease }))
        };
        let change = prop_oneof![4 => register(), 3 => Just(Some(Change::Cancel)), 1 => Just(None)];
        let passes = prop_oneof![4 => Just(0_u64), 3 => Just(1), 2 => 2_u64..8, 1 => 20_u64..40];
        let app = prop_oneof![
            5 => (0_usize..12).prop_map(|app| format!("APP{app}")),
            2 => Just("LARGE".to_owned()),
        ];
        let step =
            (passes, app, 0_usize..4, change, any::<bool>()).prop_map(|(passes, app, id, change, read)| {
                Step { passes, app, id: format!("i{id}"), change, read }
            });
        prop::collection::vec(step, 1..40)
    }

    /// No two registrations are the same: such a one would count as a renewal, of which kept pieces need not know.
    fn take(step: &Step, number: usize, registry: &Registry, now: Now) {
        match step.change {
            Some(Change::Register { size, lease }) => {
                let note = format!("{number}{}", "n".repeat(size));
                register_for(registry, &step.app, &step.id, &note, Duration::from_secs(lease), now);
            }
            Some(Change::Cancel) => cancel(registry, &step.app, &step.id, now),
            None => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_joined_over_any_history_says_what_is_encoded_as_a_whole(
            kind in prop::sample::select(vec![JSON, XML, COMPACT]),
            steps in steps(),
        ) {
            let (registry, format) = (registry(), kind.format);
            // Among those that come and go it is listed whole, or in two parts.
            for number in 0..127 {
                register_for(&registry, "LARGE", &format!("p{number}"), "", DAY, at(0));
            }
            let mut kept: [Vec<Arc<Group>>; 2] = Default::default();
            let mut second = 0;
            for (number, step) in steps.iter().enumerate() {
                pass(&registry, second, second + step.passes);
                second += step.passes;
                let now = at(second * 1000);
                take(step, number, &registry, now);
                if !step.read {
                    continue;
                }
                let full = list::refresh(&kept[0], &registry, kind, NO_LIMIT, now).unwrap();
                let whole = whole_list(&registry, kind, now);
                prop_assert_eq!(gunzipped(&full, format), whole.as_str());
                prop_assert_eq!(text(&full, format), whole);
                prop_assert_eq!(full.counts, registry.stats().counts);
                let delta = delta::refresh(&kept[1], &registry, kind, NO_LIMIT, now).unwrap();
                let whole = whole_delta(&registry, kind, now);
                prop_assert_eq!(gunzipped(&delta, format), whole.as_str());
                prop_assert_eq!(text(&delta, format), whole);
                kept = [full.groups, delta.groups];
            }
        }
    }
}
