//! Hashes on which servers agree: SipHash-1-3, the same in every build and on every machine.

use std::hash::Hasher;

use heureka_model::{KeyRef, Version};
use siphasher::sip::SipHasher13;

use super::Content;
use crate::record::Flat;

/// Hash of what an owner says.
pub(super) fn content(content: &Content) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u8(content.life() as u8);
    if let Content::Live(instance) = content {
        hasher.write_u8(instance.status as u8);
        for (tag, key, text) in Flat::of(instance).fields() {
            hasher.write_u8(tag as u8);
            write_text(&mut hasher, key);
            write_text(&mut hasher, text);
        }
    }
    hasher.finish()
}

/// Hash of a key; its highest bits say in which bucket of a digest the key stands.
pub(super) fn key(key: KeyRef<'_>) -> u64 {
    let mut hasher = SipHasher13::new();
    [key.namespace, key.app, key.id].into_iter().for_each(|text| write_text(&mut hasher, text));
    hasher.finish()
}

/// Hash of an instance in a digest; never 0.
pub(super) fn entry(key: u64, version: &Version, content: u64) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(key.to_le());
    version.parts().into_iter().for_each(|part| hasher.write_u64(part.to_le()));
    hasher.write_u64(content.to_le());
    hasher.finish().max(1)
}

fn write_text(hasher: &mut SipHasher13, text: &str) {
    hasher.write(text.as_bytes());
    hasher.write_u8(0xff);
}
