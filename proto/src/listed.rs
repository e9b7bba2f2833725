//! A page of instances that were encoded beforehand.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, message};
use prost::{DecodeError, Message};

use crate::v1;

/// Number of `instances` in `ListInstancesResponse`.
const INSTANCES: u32 = 2;

/// A `ListInstancesResponse` as a server sends it. On the wire it is the response without instances and then their
/// entries, which reads as the whole since fields may come in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedInstances {
    /// Everything but the instances.
    pub rest: v1::ListInstancesResponse,
    /// The instances, shared by all who list the same.
    pub entries: Bytes,
}

/// Bytes that an instance takes in a page.
#[must_use]
pub fn entry_len(instance: &v1::Instance) -> usize {
    message::encoded_len(INSTANCES, instance)
}

/// Appends an instance to the entries of a page.
pub fn push_entry(instance: &v1::Instance, entries: &mut Vec<u8>) {
    message::encode(INSTANCES, instance, entries);
}

impl Message for ListedInstances {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        self.rest.encode_raw(buffer);
        buffer.put_slice(&self.entries);
    }

    fn merge_field(
        &mut self,
        number: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.rest.merge_field(number, wire_type, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.rest.encoded_len() + self.entries.len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_entries_reads_as_the_page() {
        let instance = |id: &str| {
            let key = v1::InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
            v1::Instance { key: Some(key), ..v1::Instance::default() }
        };
        for instances in [vec![], vec![instance("a")], vec![instance("a"), instance("b")]] {
            let rest = v1::ListInstancesResponse {
                next_page_token: "next".into(),
                resume_token: Bytes::from_static(b"token"),
                ..v1::ListInstancesResponse::default()
            };
            let mut entries = Vec::new();
            instances.iter().for_each(|instance| push_entry(instance, &mut entries));
            assert_eq!(entries.len(), instances.iter().map(entry_len).sum::<usize>());
            let whole = v1::ListInstancesResponse { instances, ..rest.clone() };
            let listed = ListedInstances { rest, entries: entries.into() };
            assert_eq!(listed.encoded_len(), listed.encode_to_vec().len());
            assert_eq!(v1::ListInstancesResponse::decode(listed.encode_to_vec().as_slice()), Ok(whole));
        }
    }
}
