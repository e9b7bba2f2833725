//! What instances of one application have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use heureka_model::{Instance, InstanceKey, LeaseTerms, same_text};
use parking_lot::Mutex;

use super::flat::{Flat, parse_terms, restore};
use super::marks::{Marks, Stem};
use super::tag::Tag;
use crate::store::App;

/// Shapes of one application that are remembered for its next instance. More only cost memory, not truth.
const REMEMBERED: usize = 8;

/// Texts of a record in order; a text that differs between instances is a hole, filled from the record.
pub(crate) struct Template {
    pub(crate) app: Arc<App>,
    fields: Box<[Field]>,
    shape: u64,
    bytes: u64,
    usage: Arc<Usage>,
}

/// What all templates together take.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Templates that some record refers to.
    pub(crate) live: AtomicU64,
    /// Their bytes.
    pub(crate) bytes: AtomicU64,
}

struct Field {
    tag: Tag,
    key: Box<str>,
    shared: Option<Box<str>>,
}

/// The templates that an application's next instance may fit.
#[derive(Default)]
pub(crate) struct Templates(Mutex<Vec<Weak<Template>>>);

impl Templates {
    /// A template that `flat` fits, and the texts that fill its holes.
    ///
    /// The first instance of a shape shares everything; each later one that differs somewhere turns that text
    /// into a hole for those after it, so that a few instances suffice to learn what an application shares.
    pub(crate) fn fit(
        &self,
        app: &Arc<App>,
        flat: &Flat<'_>,
        usage: &Arc<Usage>,
    ) -> (Arc<Template>, Vec<u8>) {
        let mut known = self.0.lock();
        known.retain(|template| template.strong_count() > 0);
        let position = known
            .iter()
            .position(|template| template.upgrade().is_some_and(|template| template.has_shape(flat)));
        let fitting = match position.and_then(|position| known.remove(position).upgrade()) {
            Some(template) if template.holds(flat) => template,
            last => Arc::new(Template::learn(app, flat, last.as_deref(), usage)),
        };
        known.truncate(REMEMBERED - 1);
        known.insert(0, Arc::downgrade(&fitting));
        let residue = fitting.residue(flat);
        (fitting, residue)
    }
}

impl Template {
    fn learn(app: &Arc<App>, flat: &Flat<'_>, last: Option<&Self>, usage: &Arc<Usage>) -> Self {
        let known = |position: usize| last.map(|last| &last.fields[position]);
        let field = |(position, (tag, key, text)): (usize, (Tag, &str, &str))| {
            let shared = known(position).is_none_or(|field| field.shared.as_deref() == Some(text));
            Field { tag, key: key.into(), shared: shared.then(|| text.into()) }
        };
        let fields: Box<[Field]> = flat.fields().enumerate().map(field).collect();
        let bytes = fields.iter().map(Field::bytes).sum();
        usage.live.fetch_add(1, Ordering::Relaxed);
        usage.bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { app: Arc::clone(app), fields, shape: flat.shape(), bytes, usage: Arc::clone(usage) }
    }

    /// Bytes of the shared texts and all keys.
    pub(crate) fn text_size(&self) -> usize {
        self.bytes as usize - size_of_val(&*self.fields)
    }

    fn has_shape(&self, flat: &Flat<'_>) -> bool {
        self.shape == flat.shape()
            && self.fields.len() == flat.fields().len()
            && self
                .fields
                .iter()
                .zip(flat.fields())
                .all(|(field, (tag, key, _))| field.tag == tag && same_text(&field.key, key))
    }

    fn holds(&self, flat: &Flat<'_>) -> bool {
        let fits = |(field, (_, _, text)): (&Field, (Tag, &str, &str))| {
            field.shared.as_deref().is_none_or(|shared| same_text(shared, text))
        };
        self.fields.iter().zip(flat.fields()).all(fits)
    }

    fn residue(&self, flat: &Flat<'_>) -> Vec<u8> {
        let mut residue = Vec::with_capacity(128);
        for (field, (_, _, text)) in self.fields.iter().zip(flat.fields()) {
            if field.shared.is_none() {
                push_length(&mut residue, text.len());
                residue.extend_from_slice(text.as_bytes());
            }
        }
        residue
    }

    /// Whether a record of this template with these texts says the same as `flat`.
    pub(crate) fn reads_as(&self, residue: &[u8], flat: &Flat<'_>) -> bool {
        self.has_shape(flat)
            && self
                .texts(residue)
                .zip(flat.fields())
                .all(|((_, mine), (_, _, theirs))| same_text(mine, theirs))
    }

    /// Whether records of this template hold nothing but an id.
    pub(crate) fn is_bare(&self) -> bool {
        self.fields.len() == 1
    }

    /// Whether a record's id is this one. Asked at every write, so nothing is allocated.
    pub(crate) fn has_id(&self, residue: &[u8], id: &str) -> bool {
        let mut stem = Stem::default();
        for (field, text) in self.texts(residue) {
            match field.tag {
                Tag::Host => stem.host = text,
                Tag::Ip => stem.ip = text,
                Tag::Port => stem.port = text,
                Tag::Id => return stem.strip(text, id) == Some(""),
                _ => {}
            }
        }
        false
    }

    /// One text of a record, without reading the others; empty when it has none.
    pub(crate) fn text(&self, residue: &[u8], wanted: Tag) -> String {
        let mut marks = Marks::default();
        for (field, text) in self.texts(residue) {
            if field.tag == wanted {
                return marks.expanded(text);
            }
            if field.tag.is_marked() {
                let expanded = marks.expanded(text);
                marks.learn(field.tag, &expanded);
            }
        }
        String::new()
    }

    /// The lease terms of a record.
    pub(crate) fn terms(&self, residue: &[u8]) -> LeaseTerms {
        let lease = self.texts(residue).find(|(field, _)| field.tag == Tag::Lease);
        lease.map_or(LeaseTerms::default(), |(_, text)| parse_terms(text))
    }

    /// The owner's statements in a record, all but its status and stamp.
    pub(crate) fn instance(&self, residue: &[u8]) -> Instance {
        let mut instance = Instance::new(InstanceKey {
            namespace: self.app.namespace.name.to_string(),
            app: self.app.name.to_string(),
            id: String::new(),
        });
        let mut marks = Marks::default();
        for (field, text) in self.texts(residue) {
            let expanded = marks.expanded(text);
            restore(&mut instance, &mut marks, field.tag, &field.key, expanded);
        }
        instance
    }

    /// The texts of a record as they stand in a [`Flat`] of the same instance: tag, key inside the tag, marked text.
    pub(crate) fn fields<'a>(&'a self, residue: &'a [u8]) -> impl Iterator<Item = (Tag, &'a str, &'a str)> {
        self.texts(residue).map(|(field, text)| (field.tag, &*field.key, text))
    }

    fn texts<'a>(&'a self, residue: &'a [u8]) -> impl Iterator<Item = (&'a Field, &'a str)> {
        let mut rest = residue;
        self.fields.iter().map(move |field| {
            let text = field.shared.as_deref().unwrap_or_else(|| next_text(&mut rest));
            (field, text)
        })
    }
}

impl Field {
    fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.key.len() + self.shared.as_deref().map_or(0, str::len)) as u64
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        self.usage.live.fetch_sub(1, Ordering::Relaxed);
        self.usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let holes = self.fields.iter().filter(|field| field.shared.is_none()).count();
        write!(f, "Template({}, {} texts, {holes} holes)", self.app.name, self.fields.len())
    }
}

/// Lengths are base-128 numbers, least significant part first.
fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn next_text<'a>(rest: &mut &'a [u8]) -> &'a str {
    let mut length = 0;
    let mut shift = 0;
    while let Some((&byte, tail)) = rest.split_first() {
        *rest = tail;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    let (text, tail) = rest.split_at(length);
    *rest = tail;
    std::str::from_utf8(text).expect("a residue holds the texts it was made of")
}
