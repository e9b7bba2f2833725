//! Stands for the core's records: a number for the content, and whether it lives.

use std::sync::Arc;

use heureka_model::{Instance, InstanceKey, LeaseTimes, Overlay, Registration, Stamp, Status, Version, Wall};

use crate::store::App;

/// A change before it has a revision.
pub(crate) struct Draft(pub(crate) Body);

#[derive(Clone)]
pub(crate) struct Record(Arc<Body>);

#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) head: Head,
    pub(crate) app: Arc<App>,
    pub(crate) content: u64,
    pub(crate) live: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Head {
    pub(crate) written: Stamp,
    pub(crate) overlay: Option<Box<OverlayNote>>,
}

#[derive(Clone, Default)]
pub(crate) struct OverlayNote {
    pub(crate) stamp: Stamp,
}

impl Draft {
    pub(crate) fn head(&mut self) -> &mut Head {
        &mut self.0.head
    }

    pub(crate) fn finish(self) -> Record {
        Record(Arc::new(self.0))
    }
}

impl Record {
    pub(crate) fn content(&self) -> u64 {
        self.0.content
    }

    pub(crate) fn is_live(&self) -> bool {
        self.0.live
    }

    pub(crate) fn app(&self) -> &App {
        &self.0.app
    }

    pub(crate) fn status(&self) -> Status {
        Status::Up
    }

    pub(crate) fn size(&self) -> u64 {
        1
    }

    pub(crate) fn key(&self) -> InstanceKey {
        InstanceKey::default()
    }

    pub(crate) fn version(&self) -> Version {
        Version { owner: self.0.content, written: self.0.head.written, ..Version::default() }
    }

    pub(crate) fn registration(&self, revision: u64, _renewed: Wall) -> Registration {
        Registration {
            instance: Instance::new(InstanceKey::default()),
            overlay: Overlay::default(),
            version: self.version(),
            times: LeaseTimes::default(),
            revision,
        }
    }
}
