//! The few messages of etcd that a watcher and a writer need: fields by the numbers of its public protocol.

use bytes::Bytes;
use heureka_model::Instance;
use heureka_proto::v1;
use prost::Message as _;

use super::frames::{Field, fields};
use super::h2::framed;
use super::tongue::Said;

pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const PUT: &str = "/etcdserverpb.KV/Put";

#[derive(Clone, PartialEq, prost::Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<WatchCreateRequest>,
}

/// Keys from `key` on and before `range_end`.
#[derive(Clone, PartialEq, prost::Message)]
struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    range_end: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// Fields of its answers on a watch.
const WATCH_ID: usize = 2;
const CREATED: usize = 3;
const EVENTS: usize = 11;

/// So many watches of every instance on one stream. The server numbers them from 0.
pub(super) fn watches(count: usize) -> Bytes {
    let create = WatchCreateRequest { key: Bytes::from_static(b"/"), range_end: Bytes::from_static(b"0") };
    framed(&WatchRequest { create: Some(create) }).repeat(count).into()
}

/// Stores an instance as we tell it.
pub(super) fn put(instance: &Instance, request: v1::RegisterRequest) -> Bytes {
    let key = format!("/{}/{}", instance.key.app, instance.key.id).into();
    let value = request.instance.unwrap_or_default().encode_to_vec().into();
    framed(&PutRequest { key, value })
}

/// What a message of a watch says. Created are told apart from events, which never come together.
pub(super) fn understand(beginning: &[u8]) -> Said {
    let mut watch = 0;
    for (number, field) in fields(beginning) {
        match (number, field) {
            (WATCH_ID, Field::Number(id)) => watch = id as usize,
            (CREATED, Field::Number(1)) => return Said::Opened,
            (EVENTS, Field::Bytes(_)) => return Said::Change(watch),
            _ => {}
        }
    }
    Said::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct WatchResponse {
        #[prost(bytes = "bytes", tag = "1")]
        header: Bytes,
        #[prost(int64, tag = "2")]
        watch_id: i64,
        #[prost(bool, tag = "3")]
        created: bool,
        #[prost(bytes = "bytes", repeated, tag = "11")]
        events: Vec<Bytes>,
    }

    #[test]
    fn answers_are_understood_by_how_they_begin() {
        let header = Bytes::from(vec![7; 30]);
        let of = |response: WatchResponse| {
            let mut bytes = response.encode_to_vec();
            bytes.truncate(128);
            understand(&bytes)
        };
        let response =
            |watch_id, created, events| WatchResponse { header: header.clone(), watch_id, created, events };
        let event = Bytes::from(vec![1; 500]);
        assert_eq!(of(response(0, true, vec![])), Said::Opened);
        assert_eq!(of(response(99, true, vec![])), Said::Opened);
        assert_eq!(of(response(0, false, vec![event.clone()])), Said::Change(0));
        assert_eq!(of(response(99, false, vec![event])), Said::Change(99));
        assert_eq!((of(response(7, false, vec![])), understand(&[])), (Said::Other, Said::Other));
    }
}
