//! Stands for the core's records: a number for the key, one for the content, a status, and whether it lives.

use std::sync::Arc;

use heureka_model::{
    Action, Instance, InstanceKey, LeaseTimes, Overlay, Registration, Stamp, Status, Version, Wall,
};

use crate::store::App;

/// A change before it has a revision.
pub(crate) struct Draft(pub(crate) Body);

#[derive(Clone)]
pub(crate) struct Record(Arc<Body>);

#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) head: Head,
    pub(crate) app: Arc<App>,
    /// Tells keys apart.
    pub(crate) id: u32,
    pub(crate) content: u64,
    pub(crate) status: Status,
}

#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) written: Stamp,
    pub(crate) overlay: Option<Box<OverlayNote>>,
    pub(crate) updated: Wall,
    pub(crate) action: Action,
    pub(crate) life: Life,
}

/// Whether the instance is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    Cancelled,
    /// No model lets a lease run out.
    #[expect(dead_code, reason = "what is shared with the core names it")]
    Expired,
}

impl Head {
    pub(crate) fn new(live: bool) -> Self {
        let life = if live { Life::Live } else { Life::Cancelled };
        Self { written: Stamp::default(), overlay: None, updated: Wall(0), action: Action::Modified, life }
    }
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

    pub(crate) fn head(&self) -> &Head {
        &self.0.head
    }

    pub(crate) fn is_live(&self) -> bool {
        self.0.head.life == Life::Live
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.0.app
    }

    pub(crate) fn status(&self) -> Status {
        self.0.status
    }

    pub(crate) fn size(&self) -> u64 {
        1
    }

    pub(crate) fn text_size(&self) -> usize {
        1
    }

    pub(crate) fn key(&self) -> InstanceKey {
        let app = &self.0.app;
        InstanceKey {
            namespace: app.namespace.name.to_string(),
            app: app.name.to_string(),
            id: self.0.id.to_string(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        Version { owner: self.0.content, written: self.0.head.written, ..Version::default() }
    }

    pub(crate) fn registration(&self, revision: u64, _renewed: Wall) -> Registration {
        Registration {
            instance: Instance { status: self.0.status, ..Instance::new(self.key()) },
            overlay: Overlay::default(),
            version: self.version(),
            times: LeaseTimes::default(),
            revision,
        }
    }
}
