//! Hashes on which servers agree: SipHash-1-3, the same in every build and on every machine. What they read is part
//! of the protocol: the order and the marks of a record's texts as much as the frames.

use std::hash::Hasher;

use heureka_model::{KeyRef, Stamp, Status, Version};
use siphasher::sip::SipHasher13;

use super::Content;
use crate::record::{Flat, Life, Record, Tag};
use crate::seeded::{Bug, planted};

/// Hash of what an owner says.
pub(super) fn content(content: &Content) -> u64 {
    match content {
        Content::Live(instance) => live(instance.status, Flat::of(instance).fields()),
        Content::Cancelled => gone(Life::Cancelled),
        Content::Expired => gone(Life::Expired),
    }
}

/// Hash of a key; its highest bits say in which bucket of a digest the key stands.
pub(super) fn key(key: KeyRef<'_>) -> u64 {
    let mut hasher = SipHasher13::new();
    [key.namespace, key.app, key.id].into_iter().for_each(|text| write_text(&mut hasher, text));
    hasher.finish()
}

/// Hash of a live record in a digest, whose key has the hash `key`; never 0.
pub(super) fn entry(key: u64, record: &Record) -> u64 {
    let mut hasher = SipHasher13::new();
    write_number(&mut hasher, key);
    let version = record.version();
    let overlay = if planted(Bug::DigestWithoutOverride) { Stamp::default() } else { version.overlay };
    write_version(&mut hasher, Version { overlay, ..version });
    write_number(&mut hasher, live(record.head().status, record.fields()));
    hasher.finish().max(1)
}

fn live<'a>(status: Status, fields: impl Iterator<Item = (Tag, &'a str, &'a str)>) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u8(Life::Live as u8);
    hasher.write_u8(status as u8);
    for (tag, key, text) in fields {
        hasher.write_u8(tag as u8);
        write_text(&mut hasher, key);
        write_text(&mut hasher, text);
    }
    hasher.finish()
}

fn gone(life: Life) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u8(life as u8);
    hasher.finish()
}

fn write_version(hasher: &mut SipHasher13, version: Version) {
    version.parts().into_iter().for_each(|part| write_number(hasher, part));
}

fn write_number(hasher: &mut SipHasher13, number: u64) {
    hasher.write(&number.to_le_bytes());
}

fn write_text(hasher: &mut SipHasher13, text: &str) {
    hasher.write(text.as_bytes());
    hasher.write_u8(0xff);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_ones_of_the_protocol() {
        let billing = KeyRef { namespace: "", app: "BILLING", id: "n7:billing:9100" };
        assert_eq!(key(billing), 0x95a1_33c3_0e1b_8582);
        assert_eq!(content(&Content::Cancelled), 0x44bc_103b_1f85_40ed);
        assert_ne!(content(&Content::Cancelled), content(&Content::Expired));
    }
}
