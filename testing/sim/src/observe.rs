//! What a server holds of a key, as far as the monitors ask, and how it changes.

use heureka_model::{InstanceKey, KeyRef, Overlay, Stamp, Status};
use heureka_registry::{Content, KeyState};

use crate::client::{CONTENT, PROCESS};

/// Whether an instance is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    /// It is.
    Live,
    /// It was cancelled.
    Cancelled,
    /// Its lease ran out.
    Expired,
}

/// What a server holds of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether the instance is there.
    pub life: Life,
    /// Owner's version.
    pub owner: u64,
    /// Position of the last write to the owner's register.
    pub written: Stamp,
    /// Position of the last write to the operator's register.
    pub overlay_stamp: Stamp,
    /// The operator's register.
    pub overlay: Overlay,
    /// Number of the content; 0 of a removal.
    pub content: u64,
    /// Number of the process that wrote it; 0 of a removal.
    pub process: u32,
    /// Status that the owner reported.
    pub status: Status,
    /// Hash of where the instance is.
    pub place: u64,
    /// Hash of everything the owner said.
    pub said: u64,
}

/// A change that one server made or took in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    /// Time in milliseconds since the begin.
    pub at: u64,
    /// Server.
    pub node: usize,
    /// Number of the key.
    pub key: usize,
    /// Before.
    pub before: Option<Seen>,
    /// How long that stood.
    pub stood: u64,
    /// After.
    pub after: Seen,
    /// By what.
    pub by: By,
}

/// What a server was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Time passed.
    Tick,
    /// A client's request.
    Client,
    /// An operator's request.
    Operator,
    /// A frame of that server.
    Peer(usize),
    /// It started with what it knew before.
    Start,
}

impl Seen {
    pub(crate) fn of(state: &KeyState) -> Self {
        let (life, content, process, status, place, said) = match &state.owner.content {
            Content::Live(instance) => {
                let number = |key: &str| instance.metadata.get(key).and_then(|text| text.parse().ok());
                let content: u64 = number(CONTENT).unwrap_or(0);
                let process = number(PROCESS).unwrap_or(0) as u32;
                (Life::Live, content, process, instance.status, place(&instance.host_name), said(instance))
            }
            Content::Cancelled => (Life::Cancelled, 0, 0, Status::Unknown, 0, 1),
            Content::Expired => (Life::Expired, 0, 0, Status::Unknown, 0, 2),
        };
        Self {
            life,
            owner: state.owner.version,
            written: state.owner.written,
            overlay_stamp: state.overlay_stamp,
            overlay: state.overlay,
            content,
            process,
            status,
            place,
            said,
        }
    }

    /// Whether the instance is there.
    #[must_use]
    pub(crate) fn is_live(&self) -> bool {
        self.life == Life::Live
    }

    /// The version of everything, for comparison between servers.
    #[must_use]
    pub(crate) fn version(&self) -> (u64, Stamp, Stamp) {
        (self.owner, self.written, self.overlay_stamp)
    }
}

/// The number of a key.
pub(crate) fn number(key: KeyRef<'_>, apps: usize) -> Option<usize> {
    let app: usize = key.app.strip_prefix("APP")?.parse().ok()?;
    let id: usize = key.id.strip_prefix('i')?.parse().ok()?;
    Some(id * apps + app)
}

/// The key of a number.
pub(crate) fn key(number: usize, apps: usize) -> InstanceKey {
    InstanceKey {
        namespace: String::new(),
        app: format!("APP{}", number % apps),
        id: format!("i{}", number / apps),
    }
}

/// Hash of a host.
pub(crate) fn place(host: &str) -> u64 {
    let mut hash = Fold::default();
    hash.text(host);
    hash.0
}

fn said(instance: &heureka_model::Instance) -> u64 {
    let mut hash = Fold::default();
    hash.word(instance.status as u64);
    hash.text(&instance.host_name);
    hash.text(&instance.ip_address);
    for (key, value) in &instance.metadata {
        hash.text(key);
        hash.text(value);
    }
    hash.0
}

/// A hash that is the same on every machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold(pub(crate) u64);

impl Fold {
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.word(u64::from(byte)));
        self.word(0x100);
    }
}
