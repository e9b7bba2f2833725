//! A row: what is known of a key, as servers tell it to each other.

use heureka_model::{InstanceKey, Limits};
use heureka_proto::v1;
use heureka_registry::replication::Outgoing;
use heureka_registry::{Content, KeyState};
use prost::Message as _;

use super::file::Row;
use crate::peers::{record_of, wire_record};

/// A key and its row.
pub(super) fn encode(known: Outgoing) -> (Vec<u8>, Row) {
    let live = matches!(known.state.owner.content, Content::Live(_));
    let key = v1::InstanceKey::from(known.state.key.clone()).encode_to_vec();
    let value = wire_record(known).encode_to_vec();
    (key, if live { Row::Live(value) } else { Row::Removed(value) })
}

/// What a row says; nothing when it cannot be read.
pub(super) fn decode(row: &[u8], limits: &Limits) -> Option<KeyState> {
    let record = heureka_proto::peer::v1::Record::decode(row).ok()?;
    record_of(record, limits).ok().map(|known| known.state)
}

/// The key of a row.
pub(super) fn key(bytes: &[u8]) -> Option<InstanceKey> {
    v1::InstanceKey::decode(bytes).ok().map(Into::into)
}
