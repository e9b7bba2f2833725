//! What is stored of one key: an immutable record in one allocation.
//!
//! Instances of one application differ in little. What they share (labels, URL patterns, lease terms) stands
//! once in a [`Template`]; a record is the template, a fixed head, and the few texts that are its own. Reading
//! one back is [`Record::registration`].

mod flat;
mod marks;
mod tag;
mod template;

use std::mem::size_of;
use std::sync::Arc;

use heureka_model::{
    Action, Instance, InstanceKey, LeaseTerms, LeaseTimes, Mono, Overlay, Registration, Stamp, Status,
    Version, Wall, effective_status,
};
use triomphe::{Arc as ThinSource, HeaderSlice, HeaderWithLength, ThinArc};

pub(crate) use flat::Flat;
pub(crate) use tag::Tag;
pub(crate) use template::{Template, Templates, Usage};

use crate::leases::Heard;
use crate::store::App;

/// Whether the instance is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is.
    Live,
    /// Its owner or an operator removed it: only a newer statement of the owner brings it back.
    Cancelled,
    /// Its lease ran out: any fresher evidence brings it back.
    Expired,
}

/// The typed part of a record.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) template: Arc<Template>,
    /// Owner's version.
    pub(crate) owner: u64,
    /// Position of the last write to the owner's record.
    pub(crate) written: Stamp,
    /// The operator's overlay; absent until its first write.
    pub(crate) overlay: Option<Box<OverlayNote>>,
    /// Writing process folded to a word; 0 when no native writer.
    pub(crate) incarnation: u64,
    /// Stamp of the owner's clock on the Eureka surface; raised without a new version.
    pub(crate) dirty: Option<Wall>,
    pub(crate) registered: Wall,
    /// 0 until the instance was UP.
    pub(crate) service_up: Wall,
    pub(crate) updated: Wall,
    pub(crate) life: Life,
    /// Owner's status.
    pub(crate) status: Status,
    /// What the last change did, for the Eureka delta and for readers that missed what was before.
    pub(crate) action: Action,
    /// By whom the last write to the owner's record came into the cluster.
    pub(crate) owner_by: Heard,
    /// By whom the last write to the overlay came.
    pub(crate) overlay_by: Heard,
}

/// The operator's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverlayNote {
    /// Position of its last write.
    pub(crate) stamp: Stamp,
    pub(crate) overlay: Overlay,
    /// When the override ends by itself, on the monotonic clock.
    pub(crate) ends: Option<Mono>,
}

type Body = HeaderSlice<HeaderWithLength<Head>, [u8]>;

/// A record nobody else holds yet, so that the sequencer can still stamp it.
pub(crate) struct Draft(ThinSource<Body>);

/// A stored record. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Record(ThinArc<Head, u8>);

impl Head {
    /// A head of nothing yet.
    pub(crate) fn new(template: Arc<Template>, now: Wall) -> Self {
        Self {
            template,
            owner: 0,
            written: Stamp::default(),
            overlay: None,
            incarnation: 0,
            dirty: None,
            registered: now,
            service_up: Wall(0),
            updated: now,
            life: Life::Cancelled,
            status: Status::Unknown,
            action: Action::Deleted,
            owner_by: Heard::Owner,
            overlay_by: Heard::Owner,
        }
    }

    /// The greater of version and stamp: what copies that have a stamp only are compared with.
    pub(crate) fn latest(&self) -> u64 {
        self.owner.max(self.dirty.unwrap_or_default().0)
    }

    /// The nearer of the two by whom the registers came.
    pub(crate) fn by(&self) -> Heard {
        let overlay = self.overlay.as_ref().map_or(Heard::Peer, |_| self.overlay_by);
        self.owner_by.max(overlay)
    }

    /// Notes when this life of the instance began and when it was first UP.
    pub(crate) fn begin(&mut self, was_live: bool, now: Wall) {
        if self.life != Life::Live {
            return;
        }
        if !was_live {
            self.registered = now;
            self.service_up = Wall(0);
        }
        if self.service_up == Wall(0) && self.effective() == Status::Up {
            self.service_up = now;
        }
    }

    fn effective(&self) -> Status {
        let override_ = self.overlay.as_ref().and_then(|note| note.overlay.status);
        effective_status(self.status, override_.map(|override_| override_.status))
    }
}

impl Draft {
    /// A record of `head` whose own texts are `residue`, as the head's template lays them out.
    pub(crate) fn new(head: Head, residue: &[u8]) -> Self {
        let header = HeaderWithLength::new(head, residue.len());
        Self(ThinSource::from_header_and_slice(header, residue))
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.0.header.header.template.app
    }

    pub(crate) fn head(&mut self) -> &mut Head {
        let body = ThinSource::get_mut(&mut self.0).expect("a draft has one holder");
        &mut body.header.header
    }

    pub(crate) fn finish(self) -> Record {
        Record(ThinSource::into_thin(self.0))
    }
}

impl Record {
    pub(crate) fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn residue(&self) -> &[u8] {
        &self.0.slice
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.head().template.app
    }

    pub(crate) fn is_live(&self) -> bool {
        self.head().life == Life::Live
    }

    /// Bytes this record alone takes.
    pub(crate) fn size(&self) -> u64 {
        let overlay = if self.head().overlay.is_some() { size_of::<OverlayNote>() } else { 0 };
        (size_of::<Head>() + 2 * size_of::<usize>() + self.residue().len() + overlay) as u64
    }

    /// About the bytes of the texts with which the instance is told; 0 for one that is gone.
    pub(crate) fn text_size(&self) -> usize {
        if self.is_live() { self.head().template.text_size() + self.residue().len() } else { 0 }
    }

    pub(crate) fn version(&self) -> Version {
        let head = self.head();
        let overlay = head.overlay.as_ref().map_or(Stamp::default(), |note| note.stamp);
        Version { owner: head.owner, written: head.written, overlay }
    }

    pub(crate) fn overlay(&self) -> Overlay {
        self.head().overlay.as_ref().map_or(Overlay::default(), |note| note.overlay)
    }

    /// Whether the overlay is still the one that was written there.
    pub(crate) fn has_overlay_of(&self, stamp: Stamp) -> bool {
        self.head().overlay.as_ref().is_some_and(|note| note.stamp == stamp)
    }

    /// Effective status.
    pub(crate) fn status(&self) -> Status {
        self.head().effective()
    }

    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.head().template.has_id(self.residue(), id)
    }

    pub(crate) fn id(&self) -> String {
        self.text(Tag::Id)
    }

    /// One text, read alone; empty when there is none.
    pub(crate) fn text(&self, tag: Tag) -> String {
        self.head().template.text(self.residue(), tag)
    }

    pub(crate) fn key(&self) -> InstanceKey {
        let app = self.app();
        InstanceKey { namespace: app.namespace.name.to_string(), app: app.name.to_string(), id: self.id() }
    }

    /// Whether the owner's record says the same as `flat` with this status.
    pub(crate) fn same_content(&self, flat: &Flat<'_>, status: Status) -> bool {
        self.head().status == status && self.head().template.reads_as(self.residue(), flat)
    }

    /// Whether host, address and port are these. They come first among the texts, so no other is looked at.
    pub(crate) fn same_endpoint(&self, flat: &Flat<'_>) -> bool {
        let of_endpoint = |(tag, ..): &(Tag, &str, &str)| tag.is_marked();
        self.fields().take_while(of_endpoint).eq(flat.fields().take_while(of_endpoint))
    }

    /// The owner's texts, unread.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Tag, &str, &str)> {
        self.head().template.fields(self.residue())
    }

    /// The owner's record.
    pub(crate) fn instance(&self) -> Instance {
        let head = self.head();
        let mut instance = head.template.instance(self.residue());
        instance.status = head.status;
        instance.last_dirty = head.dirty;
        instance
    }

    /// Only key and version are kept of it.
    pub(crate) fn is_stripped(&self) -> bool {
        self.head().template.is_bare()
    }

    pub(crate) fn terms(&self) -> LeaseTerms {
        self.head().template.terms(self.residue())
    }

    /// Everything, as readers see it. `renewed` is the lease's last renewal on the wall clock.
    pub(crate) fn registration(&self, revision: u64, renewed: Wall) -> Registration {
        let head = self.head();
        let removed = head.life != Life::Live;
        let times = LeaseTimes {
            registered: head.registered,
            renewed: if removed { head.updated } else { renewed },
            service_up: (head.service_up != Wall(0)).then_some(head.service_up),
            evicted: removed.then_some(head.updated),
            updated: head.updated,
        };
        Registration {
            instance: self.instance(),
            overlay: self.overlay(),
            version: self.version(),
            times,
            revision,
        }
    }

    /// A draft of the same texts with another head.
    pub(crate) fn with_head(&self, head: Head) -> Draft {
        Draft::new(head, self.residue())
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("key", &self.key()).field("head", self.head()).finish_non_exhaustive()
    }
}
