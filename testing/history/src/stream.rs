//! One Watch call and how far it got.

use std::collections::HashMap;

use bytes::Bytes;
use heureka_model::{InstanceKey, Selectors, Version};
use heureka_proto::convert::selectors;
use heureka_proto::v1::{ListInstancesRequest, SnapshotMode, StartMode, WatchSpec};
use prost::Message as _;

use crate::guarantee::Broken;
use crate::set::{Apps, Set};

const DEFAULT_BATCH: usize = 256;
const MAX_BATCH: usize = 2000;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Nothing when a server has to refuse them.
    pub(crate) selectors: Option<Selectors>,
    /// The same in their encoding.
    pub(crate) encoded: Vec<u8>,
    pub(crate) start: StartMode,
    pub(crate) max_batch: usize,
    pub(crate) token: Bytes,
    /// It said what it holds.
    pub(crate) tells: bool,
}

/// How far a stream got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Opened,
    Initial,
    Live,
    /// Nothing may follow.
    Over,
}

/// A Watch call.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) asked: Asked,
    pub(crate) stage: Stage,
    /// The server said that it ends the stream.
    pub(crate) parted: bool,
    /// Life of the server.
    pub(crate) boot: Option<u64>,
    pub(crate) part: Part,
}

/// What came since the last SnapshotBegin.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) mode: SnapshotMode,
    /// A whole snapshot until it is complete.
    pub(crate) building: Option<Set>,
    /// Applications that it tells whole, where it is not all of them.
    pub(crate) apps: Option<Apps>,
    /// Newest version told of each key.
    pub(crate) seen: HashMap<InstanceKey, Version>,
    /// Revision of the last batch.
    pub(crate) batch: Option<u64>,
    /// Revision of the last mark, or of the token that the part resumes from.
    pub(crate) mark: Option<u64>,
    /// Whether that is a mark of this part.
    pub(crate) marked: bool,
    /// The last mark's digest is another one. A batch that should have come before it explains that.
    pub(crate) unequal: Option<Broken>,
    /// Writes that the last mark covers and that were not told before it.
    pub(crate) missing: Vec<(InstanceKey, Version, Broken)>,
}

impl Asked {
    pub(crate) fn read(spec: &WatchSpec) -> Self {
        let max = usize::try_from(spec.max_batch_size).unwrap_or_default();
        Self {
            selectors: selectors(spec.selectors.clone()).ok(),
            encoded: encoded(&spec.selectors),
            start: match spec.start_mode() {
                StartMode::Unspecified => StartMode::Follow,
                mode => mode,
            },
            max_batch: if max == 0 { DEFAULT_BATCH } else { max.min(MAX_BATCH) },
            token: spec.resume_token.clone(),
            tells: !spec.known_digests.is_empty(),
        }
    }

    /// Whether the stream may start so.
    pub(crate) fn allows(&self, mode: SnapshotMode) -> bool {
        match mode {
            SnapshotMode::Full => matches!(self.start, StartMode::Follow | StartMode::SnapshotOnly),
            SnapshotMode::Resume => {
                matches!(self.start, StartMode::Follow | StartMode::ResumeOnly) && !self.token.is_empty()
            }
            SnapshotMode::Diff => self.start == StartMode::Follow && self.tells,
            SnapshotMode::None => self.start == StartMode::LiveOnly,
            SnapshotMode::Unspecified => false,
        }
    }
}

impl Stream {
    pub(crate) fn new(spec: &WatchSpec) -> Self {
        Self {
            asked: Asked::read(spec),
            stage: Stage::Opened,
            parted: false,
            boot: None,
            part: Part::default(),
        }
    }
}

impl Part {
    /// Revision up to which everything was told.
    pub(crate) fn reached(&self) -> u64 {
        self.batch.max(self.mark).unwrap_or_default()
    }
}

/// Selectors in a form that compares: the default ones are the same as none.
pub(crate) fn encoded(selectors: &[heureka_proto::v1::InstanceSelector]) -> Vec<u8> {
    ListInstancesRequest { selectors: selectors.to_vec(), ..Default::default() }.encode_to_vec()
}
