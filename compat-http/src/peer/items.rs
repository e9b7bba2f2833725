//! Items of a batch as the original writes them.

use heureka_model::{KeyRef, Registration, Status, Wall};
use serde::Serialize;

use crate::wire::batch::Action;
use crate::wire::{json, native};

/// One item, members in the original's order. What is absent is left out: its reader knows no null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    app_name: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_dirty_timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overridden_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

/// A batch on its way out.
#[derive(Debug)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn new() -> Self {
        Self(b"{\"replicationList\":[".to_vec())
    }

    /// Adds an item about a live instance. `status` is what a status item says.
    pub(super) fn add(&mut self, action: Action, registration: &Registration, status: Option<Status>) {
        let shown = status.unwrap_or(registration.status());
        let beat = action == Action::Heartbeat;
        let head = Head {
            app_name: &registration.instance.key.app,
            id: &registration.instance.key.id,
            last_dirty_timestamp: Some(stamp(registration).0),
            overridden_status: registration.override_status().filter(|_| beat).map(Status::as_str),
            status: Some(shown.as_str()),
        };
        self.open(&head);
        if action == Action::Register {
            self.0.extend_from_slice(b",\"instanceInfo\":");
            json::bare_instance(&mut self.0, &copy(registration));
        }
        self.close(action);
    }

    /// Adds the removal of a key.
    pub(super) fn add_cancel(&mut self, key: KeyRef<'_>) {
        let head = Head {
            app_name: key.app,
            id: key.id,
            last_dirty_timestamp: None,
            overridden_status: None,
            status: None,
        };
        self.open(&head);
        self.close(Action::Cancel);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"]}");
        self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn open(&mut self, head: &Head<'_>) {
        if self.0.last() != Some(&b'[') {
            self.0.push(b',');
        }
        json::append(&mut self.0, head);
        // The object goes on.
        self.0.pop();
    }

    fn close(&mut self, action: Action) {
        self.0.extend_from_slice(format!(",\"action\":\"{}\"}}", action.as_str()).as_bytes());
    }
}

/// What another server orders this copy by: the greater of the owner's version and stamp, which only grows. Its numbers
/// are signed.
fn stamp(registration: &Registration) -> Wall {
    let version = Wall(registration.version.owner);
    registration.instance.last_dirty.map_or(version, |stamp| stamp.max(version)).min(Wall(i64::MAX as u64))
}

/// The instance as the other is to keep it.
fn copy(registration: &Registration) -> Registration {
    let mut copy = registration.clone();
    copy.instance.last_dirty = Some(stamp(registration));
    native::fold(&mut copy.instance, copy.overlay.drain);
    copy
}
