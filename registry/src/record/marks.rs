//! Marks: what stands in a text for the instance's own host, address or port.

use std::borrow::Cow;

use super::tag::Tag;

const HOST: u8 = 1;
const IP: u8 = 2;
const PORT: u8 = 3;
/// Stands before a text that holds one of the marks itself; the rest is the text as it is.
const VERBATIM: u8 = 4;

/// Shortest host or address worth a mark: replacing `a` everywhere would cost more than it saves.
const WORTH_A_MARK: usize = 4;

/// The texts that marks stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks<'a> {
    host: Needle<'a>,
    ip: Needle<'a>,
    /// With its colon, so that the digits of a port are not found inside another number's.
    port: Needle<'a>,
}

/// A text that a mark stands for.
#[derive(Clone, Debug, Default)]
struct Needle<'a> {
    text: Cow<'a, str>,
    /// Where its first dot or colon stands: most texts have none, so it is looked for by that.
    anchor: Option<usize>,
}

/// The marked texts of a record that its other texts refer to.
#[derive(Clone, Copy, Default)]
pub(super) struct Stem<'a> {
    pub(super) host: &'a str,
    pub(super) ip: &'a str,
    pub(super) port: &'a str,
}

/// Which bytes stand in a text; found out without a branch per byte, since this is asked of every text.
#[derive(Clone, Copy, Default)]
struct Seen {
    mark: bool,
    /// A dot or a colon, which most texts lack and hosts, addresses and ports seldom do.
    anchor: bool,
}

impl Seen {
    fn of(text: &str) -> Self {
        text.bytes().fold(Self::default(), |seen, byte| Self {
            mark: seen.mark | (HOST..=VERBATIM).contains(&byte),
            anchor: seen.anchor | is_anchor(byte),
        })
    }
}

impl<'a> Needle<'a> {
    fn new(text: Cow<'a, str>) -> Self {
        let anchor = text.bytes().position(is_anchor);
        Self { text, anchor }
    }

    /// Where it stands first in `text`.
    fn find(&self, text: &str) -> Option<usize> {
        let anchor = self.anchor.unwrap_or(0);
        let byte = *self.text.as_bytes().get(anchor)?;
        let mut places =
            memchr::memchr_iter(byte, text.as_bytes()).filter_map(|place| place.checked_sub(anchor));
        places.find(|start| text.as_bytes()[*start..].starts_with(self.text.as_bytes()))
    }
}

impl<'a> Marks<'a> {
    /// The texts of an instance that others of its texts may repeat.
    pub(super) fn of(host: &'a str, ip: &'a str, port: Option<u16>) -> Self {
        let port = port.map(|port| Cow::Owned(colon(itoa::Buffer::new().format(port)))).unwrap_or_default();
        Self { host: Needle::new(host.into()), ip: Needle::new(ip.into()), port: Needle::new(port) }
    }

    /// Appends `text` to `out`, with what it repeats of the host, the address and the port as marks.
    pub(super) fn mark(&self, tag: Tag, text: &str, out: &mut String) {
        let seen = Seen::of(text);
        if seen.mark {
            out.push(char::from(VERBATIM));
            return out.push_str(text);
        }
        let known: &[(&Needle<'_>, u8)] = match tag {
            Tag::Host => &[],
            Tag::Ip => &[(&self.host, HOST)],
            _ => &[(&self.host, HOST), (&self.ip, IP), (&self.port, PORT)],
        };
        let absent = !seen.anchor && known.iter().all(|(needle, _)| needle.anchor.is_some());
        if absent { out.push_str(text) } else { replace(text, known, out) }
    }

    /// Takes in a text that later ones may refer to.
    pub(super) fn learn(&mut self, tag: Tag, text: &str) {
        let needle = match tag {
            Tag::Host => &mut self.host,
            Tag::Ip => &mut self.ip,
            Tag::Port => {
                self.port.text = Cow::Owned(colon(text.trim_end_matches('-')));
                return;
            }
            _ => return,
        };
        needle.text = Cow::Owned(text.to_owned());
    }

    /// What the marked text stands for.
    pub(super) fn expanded(&self, marked: &str) -> String {
        if !Seen::of(marked).mark {
            return marked.to_owned();
        }
        let longer: usize = marked.bytes().map(|byte| self.text(byte).map_or(0, str::len)).sum();
        let mut out = String::with_capacity(marked.len() + longer);
        self.expand(marked, &mut out);
        out
    }

    fn text(&self, mark: u8) -> Option<&str> {
        match mark {
            HOST => Some(&self.host.text),
            IP => Some(&self.ip.text),
            PORT => Some(&self.port.text),
            _ => None,
        }
    }

    fn expand(&self, marked: &str, out: &mut String) {
        if marked.as_bytes().first() == Some(&VERBATIM) {
            return out.push_str(&marked[1..]);
        }
        let mut rest = marked;
        while let Some(position) = rest.bytes().position(|byte| (HOST..=PORT).contains(&byte)) {
            out.push_str(&rest[..position]);
            out.push_str(self.text(rest.as_bytes()[position]).unwrap_or_default());
            rest = &rest[position + 1..];
        }
        out.push_str(rest);
    }
}

impl Stem<'_> {
    /// What follows in `text` after what the marked text stands for; nothing when it begins otherwise.
    pub(super) fn strip<'t>(&self, marked: &str, text: &'t str) -> Option<&'t str> {
        if marked.as_bytes().first() == Some(&VERBATIM) {
            return text.strip_prefix(&marked[1..]);
        }
        let (mut marked, mut text) = (marked, text);
        while let Some(position) = marked.bytes().position(|byte| (HOST..=PORT).contains(&byte)) {
            text = text.strip_prefix(&marked[..position])?;
            text = match marked.as_bytes()[position] {
                HOST => self.strip(self.host, text)?,
                IP => self.strip(self.ip, text)?,
                _ => text.strip_prefix(':')?.strip_prefix(self.port.trim_end_matches('-'))?,
            };
            marked = &marked[position + 1..];
        }
        text.strip_prefix(marked)
    }
}

fn replace(text: &str, known: &[(&Needle<'_>, u8)], out: &mut String) {
    let Some(((needle, mark), others)) = known.split_first() else {
        return out.push_str(text);
    };
    let length = needle.text.len();
    if length < WORTH_A_MARK || length > text.len() {
        return replace(text, others, out);
    }
    let mut rest = text;
    while let Some(position) = needle.find(rest) {
        replace(&rest[..position], others, out);
        out.push(char::from(*mark));
        rest = &rest[position + length..];
    }
    replace(rest, others, out);
}

fn is_anchor(byte: u8) -> bool {
    byte == b'.' || byte == b':'
}

fn colon(port: &str) -> String {
    [":", port].concat()
}

#[cfg(test)]
mod tests {
    use heureka_model::{Instance, InstanceKey, Port};
    use proptest::prelude::*;

    use super::*;
    use crate::record::Flat;

    fn instance(host: &str, ip: &str, id: &str) -> Instance {
        let key = InstanceKey { namespace: String::new(), app: "A".into(), id: id.into() };
        Instance {
            host_name: host.into(),
            ip_address: ip.into(),
            port: Some(Port { number: 8080, enabled: false }),
            ..Instance::new(key)
        }
    }

    /// The marked host, address, port and id of an instance.
    fn stem<'a>(flat: &'a Flat<'_>) -> (Stem<'a>, &'a str) {
        let text = |wanted| flat.fields().find(|(tag, _, _)| *tag == wanted).map_or("", |(_, _, text)| text);
        (Stem { host: text(Tag::Host), ip: text(Tag::Ip), port: text(Tag::Port) }, text(Tag::Id))
    }

    proptest! {
        #[test]
        fn a_needle_is_found_where_it_stands_first(text in "[ab.:]{0,12}", needle in "[ab.:]{1,4}") {
            prop_assert_eq!(Needle::new(needle.as_str().into()).find(&text), text.find(&needle));
        }

        #[test]
        fn a_marked_id_is_the_id_and_no_other(
            host in "[ab.\x01]{0,6}",
            ip in "[ab.\x02]{0,6}",
            parts in proptest::collection::vec(prop_oneof!["[ab.:]{0,4}", Just("HOST".to_owned()),
                Just("IP".to_owned()), Just(":8080".to_owned()), Just("\u{3}".to_owned())], 0..6),
            other in "[ab.:]{0,12}",
        ) {
            let id = parts.concat().replace("HOST", &host).replace("IP", &ip);
            let instance = instance(&host, &ip, &id);
            let flat = Flat::of(&instance);
            let (stem, marked) = stem(&flat);
            prop_assert_eq!(stem.strip(marked, &id), Some(""));
            prop_assert_eq!(stem.strip(marked, &other) == Some(""), other == id);
            let marks = Marks::of(&host, &ip, Some(8080));
            let expanded = marks.expanded(marked);
            prop_assert_eq!(expanded.capacity() >= id.len(), true);
            prop_assert_eq!(expanded, id);
        }
    }
}
