//! Tokens: where a list or a stream goes on. Opaque to clients; a damaged one is told apart from an old one.
//!
//! Every token is an envelope (format, kind, cluster, body, checksum), so that even a server that does not know a
//! later format can tell whose it is and whether it arrived whole. Nothing in a token is secret or trusted: a
//! forged one with a right checksum names a place in the log or a key, which its bearer might have read anyway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use heureka_model::InstanceKey;
use heureka_registry::replication::Position;

/// Format of the tokens issued. Those of the format before are read as well; they have no vector.
const FORMAT: u8 = 2;
const OLDEST_FORMAT: u8 = 1;
const ENVELOPE: usize = 1 + 1 + 8 + 8;
/// Longest token that is looked at; the longest issued one names a key of 1 KiB.
const MAX_TOKEN: usize = 4096;
/// Most entries of a vector, with which a token is shorter than 1 KiB.
const MAX_VECTOR: usize = 60;

/// A place in the log of one life of one server, as the watcher of one set sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resume {
    /// Fingerprint of the selectors.
    pub(super) spec: u64,
    /// Life of the server whose log it is.
    pub(super) boot: u64,
    /// Everything up to here was told.
    pub(super) revision: u64,
    /// Writes that are part of what was told, by boot: for another server, whose log is another. Empty when none are
    /// known to be.
    pub(super) vector: Vec<Position>,
}

/// A place in a list of instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Where a watch goes on after the whole list.
    pub(super) resume: Resume,
    /// Last key listed.
    pub(super) after: InstanceKey,
}

/// A place in a list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Fingerprint of the request.
    pub(super) spec: u64,
    /// Last name listed.
    pub(super) after: String,
}

/// Why a token is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Not issued by any server of this cluster, or damaged.
    Forged,
    /// Whole, but of a format that this server does not know.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Resume = 1,
    Page = 2,
    Names = 3,
}

impl Resume {
    pub(super) fn encode(&self, cluster: &str) -> Bytes {
        seal(Kind::Resume, cluster, |body| self.write(body))
    }

    pub(super) fn decode(token: &[u8], cluster: &str) -> Result<Self, Unusable> {
        let (format, mut body) = open(token, Kind::Resume, cluster)?;
        let resume = Self::read(format, &mut body)?;
        if body.is_empty() { Ok(resume) } else { Err(Unusable::Forged) }
    }

    fn write(&self, body: &mut BytesMut) {
        body.put_u64_le(self.spec);
        body.put_u64_le(self.boot);
        body.put_u64_le(self.revision);
        write_vector(&self.vector, body);
    }

    fn read(format: u8, body: &mut &[u8]) -> Result<Self, Unusable> {
        let (spec, boot, revision) = (number(body)?, number(body)?, number(body)?);
        let vector = if format == OLDEST_FORMAT { Vec::new() } else { vector(body)? };
        Ok(Self { spec, boot, revision, vector })
    }
}

impl Page {
    pub(super) fn encode(&self, cluster: &str) -> String {
        printable(&seal(Kind::Page, cluster, |body| {
            self.resume.write(body);
            put_text(body, &self.after.namespace);
            put_text(body, &self.after.app);
            put_text(body, &self.after.id);
        }))
    }

    pub(super) fn decode(token: &str, cluster: &str) -> Result<Self, Unusable> {
        let token = unprintable(token)?;
        let (format, mut body) = open(&token, Kind::Page, cluster)?;
        let resume = Resume::read(format, &mut body)?;
        let mut text = || text(&mut body);
        let after = InstanceKey { namespace: text()?, app: text()?, id: text()? };
        if body.is_empty() { Ok(Self { resume, after }) } else { Err(Unusable::Forged) }
    }
}

impl Names {
    pub(super) fn encode(&self, cluster: &str) -> String {
        printable(&seal(Kind::Names, cluster, |body| {
            body.put_u64_le(self.spec);
            put_text(body, &self.after);
        }))
    }

    pub(super) fn decode(token: &str, cluster: &str) -> Result<Self, Unusable> {
        let token = unprintable(token)?;
        let (_, mut body) = open(&token, Kind::Names, cluster)?;
        let spec = number(&mut body)?;
        let after = text(&mut body)?;
        if body.is_empty() { Ok(Self { spec, after }) } else { Err(Unusable::Forged) }
    }
}

/// Fingerprint that is the same in every process: FNV-1a with a finishing mix. A single changed byte always
/// changes it.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

fn seal(kind: Kind, cluster: &str, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut token = BytesMut::with_capacity(64);
    token.put_u8(FORMAT);
    token.put_u8(kind as u8);
    token.put_u64_le(fingerprint(cluster.as_bytes()));
    write(&mut token);
    let checksum = fingerprint(&token);
    token.put_u64_le(checksum);
    token.freeze()
}

/// Format and body.
fn open<'a>(token: &'a [u8], kind: Kind, cluster: &str) -> Result<(u8, &'a [u8]), Unusable> {
    if token.len() < ENVELOPE || token.len() > MAX_TOKEN {
        return Err(Unusable::Forged);
    }
    let (content, checksum) = token.split_at(token.len() - 8);
    if checksum != fingerprint(content).to_le_bytes() {
        return Err(Unusable::Forged);
    }
    let (head, body) = content.split_at(ENVELOPE - 8);
    if head[2..] != fingerprint(cluster.as_bytes()).to_le_bytes() {
        return Err(Unusable::Forged);
    }
    if head[0] > FORMAT {
        return Err(Unusable::Unknown);
    }
    let known = head[0] >= OLDEST_FORMAT && head[1] == kind as u8;
    if known { Ok((head[0], body)) } else { Err(Unusable::Forged) }
}

/// A vector that is too long for a token is left out: no part of it says what the whole does.
fn write_vector(vector: &[Position], body: &mut BytesMut) {
    let vector = if vector.len() > MAX_VECTOR { &[] } else { vector };
    body.put_u8(vector.len() as u8);
    for position in vector {
        body.put_u64_le(position.boot);
        body.put_u64_le(position.clock);
    }
}

fn vector(body: &mut &[u8]) -> Result<Vec<Position>, Unusable> {
    let count = body.try_get_u8().map_err(|_| Unusable::Forged)?;
    let position = |_| Ok(Position { boot: number(body)?, clock: number(body)? });
    let vector = (0..count).map(position).collect::<Result<Vec<_>, _>>()?;
    let ordered = vector.is_sorted_by(|one, other| one.boot < other.boot);
    if ordered && vector.len() <= MAX_VECTOR { Ok(vector) } else { Err(Unusable::Forged) }
}

fn number(body: &mut &[u8]) -> Result<u64, Unusable> {
    body.try_get_u64_le().map_err(|_| Unusable::Forged)
}

fn put_text(body: &mut BytesMut, text: &str) {
    let length = u16::try_from(text.len()).expect("invariant: stored names are far shorter than 64 KiB");
    body.put_u16_le(length);
    body.put_slice(text.as_bytes());
}

fn text(body: &mut &[u8]) -> Result<String, Unusable> {
    let length = body.try_get_u16_le().map_err(|_| Unusable::Forged)?;
    let (text, rest) = body.split_at_checked(length.into()).ok_or(Unusable::Forged)?;
    *body = rest;
    String::from_utf8(text.to_vec()).map_err(|_| Unusable::Forged)
}

fn printable(token: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(token)
}

fn unprintable(token: &str) -> Result<Vec<u8>, Unusable> {
    if token.len() > MAX_TOKEN * 2 {
        return Err(Unusable::Forged);
    }
    URL_SAFE_NO_PAD.decode(token).map_err(|_| Unusable::Forged)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const CLUSTER: &str = "blue";

    fn resume() -> impl Strategy<Value = Resume> {
        (any::<[u64; 3]>(), btree_map(any::<u64>(), any::<u64>(), 0..=MAX_VECTOR)).prop_map(
            |([spec, boot, revision], vector)| {
                let vector = vector.into_iter().map(|(boot, clock)| Position { boot, clock }).collect();
                Resume { spec, boot, revision, vector }
            },
        )
    }

    fn place() -> Resume {
        Resume { spec: 1, boot: 2, revision: 3, vector: vec![Position { boot: 2, clock: 9 }] }
    }

    /// The token with another head, rightly sealed.
    fn resealed(token: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut token = token[..token.len() - 8].to_vec();
        change(&mut token);
        token.extend(fingerprint(&token).to_le_bytes());
        token
    }

    fn page() -> impl Strategy<Value = Page> {
        (resume(), any::<[String; 3]>()).prop_map(|(resume, [namespace, app, id])| Page {
            resume,
            after: InstanceKey { namespace, app, id },
        })
    }

    proptest! {
        #[test]
        fn tokens_round_trip(resume in resume(), page in page(), spec: u64, after: String) {
            prop_assert_eq!(Resume::decode(&resume.encode(CLUSTER), CLUSTER), Ok(resume));
            prop_assert_eq!(Page::decode(&page.encode(CLUSTER), CLUSTER), Ok(page));
            let names = Names { spec, after };
            prop_assert_eq!(Names::decode(&names.encode(CLUSTER), CLUSTER), Ok(names));
        }

        #[test]
        fn a_changed_byte_is_always_found(resume in resume(), at: Index, flip in 1..=255_u8) {
            let mut token = resume.encode(CLUSTER).to_vec();
            let at = at.index(token.len());
            token[at] ^= flip;
            prop_assert_eq!(Resume::decode(&token, CLUSTER), Err(Unusable::Forged));
        }

        #[test]
        fn a_truncated_token_is_always_found(page in page(), resume in resume(), at: Index) {
            let token = resume.encode(CLUSTER);
            let cut = &token[..at.index(token.len())];
            prop_assert_eq!(Resume::decode(cut, CLUSTER), Err(Unusable::Forged));
            let token = page.encode(CLUSTER);
            let cut = &token[..at.index(token.len())];
            prop_assert_eq!(Page::decode(cut, CLUSTER), Err(Unusable::Forged));
        }

        #[test]
        fn arbitrary_tokens_never_pass(bytes in vec(any::<u8>(), 0..200), text: String) {
            prop_assert_eq!(Resume::decode(&bytes, CLUSTER), Err(Unusable::Forged));
            prop_assert_eq!(Page::decode(&text, CLUSTER), Err(Unusable::Forged));
            prop_assert_eq!(Names::decode(&text, CLUSTER), Err(Unusable::Forged));
        }

        #[test]
        fn arbitrary_bodies_under_a_right_checksum_never_panic(bytes in vec(any::<u8>(), 0..64)) {
            for kind in [Kind::Resume, Kind::Page, Kind::Names] {
                let token = seal(kind, CLUSTER, |body| body.put_slice(&bytes));
                let _: Result<Resume, Unusable> = Resume::decode(&token, CLUSTER);
                let _: Result<Page, Unusable> = Page::decode(&printable(&token), CLUSTER);
                let _: Result<Names, Unusable> = Names::decode(&printable(&token), CLUSTER);
            }
        }
    }

    #[test]
    fn tokens_of_another_cluster_or_kind_are_forged() {
        let resume = place();
        assert_eq!(Resume::decode(&resume.encode("green"), CLUSTER), Err(Unusable::Forged));
        let names = Names { spec: 1, after: "WEB".into() };
        assert_eq!(Page::decode(&names.encode(CLUSTER), CLUSTER), Err(Unusable::Forged));
        let bytes = unprintable(&names.encode(CLUSTER)).unwrap();
        assert_eq!(Resume::decode(&bytes, CLUSTER), Err(Unusable::Forged));
    }

    #[test]
    fn a_later_format_is_unknown_and_not_forged() {
        let token = resealed(&place().encode(CLUSTER), |token| token[0] = FORMAT + 1);
        assert_eq!(Resume::decode(&token, CLUSTER), Err(Unusable::Unknown));
        let token = resealed(&place().encode(CLUSTER), |token| token[0] = 0);
        assert_eq!(Resume::decode(&token, CLUSTER), Err(Unusable::Forged));
    }

    #[test]
    fn a_token_of_the_format_before_is_read_without_a_vector() {
        let resume = Resume { vector: Vec::new(), ..place() };
        let token = resealed(&resume.encode(CLUSTER), |token| {
            token[0] = OLDEST_FORMAT;
            assert_eq!(token.pop(), Some(0), "the length of the vector");
        });
        assert_eq!(Resume::decode(&token, CLUSTER), Ok(resume));
        let names = Names { spec: 1, after: "WEB".into() };
        let bytes = unprintable(&names.encode(CLUSTER)).unwrap();
        let old = printable(&resealed(&bytes, |token| token[0] = OLDEST_FORMAT));
        assert_eq!(Names::decode(&old, CLUSTER), Ok(names));
    }

    #[test]
    fn a_token_takes_less_than_a_kilobyte_and_no_part_of_a_vector_stands_for_it() {
        let vector = |count: usize| (0..count as u64).map(|boot| Position { boot, clock: 7 }).collect();
        let longest = Resume { vector: vector(MAX_VECTOR), ..place() };
        let token = longest.encode(CLUSTER);
        assert!(token.len() <= 1024, "{}", token.len());
        assert_eq!(Resume::decode(&token, CLUSTER), Ok(longest));
        let longer = Resume { vector: vector(MAX_VECTOR + 1), ..place() };
        let read = Resume::decode(&longer.encode(CLUSTER), CLUSTER).unwrap();
        assert!(read.vector.is_empty());
    }

    #[test]
    fn a_vector_out_of_order_is_forged() {
        let position = |boot| Position { boot, clock: 1 };
        for vector in [vec![position(2), position(1)], vec![position(1), position(1)]] {
            let token = Resume { vector, ..place() }.encode(CLUSTER);
            assert_eq!(Resume::decode(&token, CLUSTER), Err(Unusable::Forged));
        }
    }
}
