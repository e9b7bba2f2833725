//! One question of the domain name system and its answer, as bytes.

use std::io;

use super::srv::Target;

const SRV: u16 = 33;
const INTERNET: u16 = 1;
/// The response bit of the flags.
const RESPONSE: u16 = 0x8000;
/// The answer did not fit.
const TRUNCATED: u16 = 0x0200;
/// Please ask others on our behalf.
const RECURSION: u16 = 0x0100;
const CODE: u16 = 0x000f;
/// There is no such name.
const NO_NAME: u16 = 3;
/// A record that tells how long an answer may be: 1,232 bytes pass everywhere unharmed.
const EDNS: [u8; 11] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];
/// Jumps within one name; each goes back, so a name with more is made to be a nuisance.
const JUMPS: usize = 32;
const NAME_MAX: usize = 253;

/// What a server said.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// All records.
    Whole(Vec<Target>),
    /// There are more than fit.
    Truncated,
    /// It belongs to another question.
    Foreign,
}

/// A question for the SRV records of a name.
pub(super) fn question(id: u16, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(64);
    for word in [id, RECURSION, 1, 0, 0, 1] {
        bytes.extend(word.to_be_bytes());
    }
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length));
        bytes.push(length.ok_or_else(malformed)?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend([SRV.to_be_bytes(), INTERNET.to_be_bytes()].concat());
    bytes.extend(EDNS);
    Ok(bytes)
}

/// Understands what a server said.
/// # Errors
/// It failed, or what it said makes no sense.
pub(super) fn answer(bytes: &[u8], id: u16, name: &str) -> io::Result<Answer> {
    let mut reader = Reader { bytes, at: 0 };
    let (got, flags) = (reader.word()?, reader.word()?);
    let (questions, answers) = (reader.word()?, reader.word()?);
    reader.skip(4)?;
    if got != id || flags & RESPONSE == 0 || questions != 1 {
        return Ok(Answer::Foreign);
    }
    let asked = reader.name()?;
    reader.skip(4)?;
    if !asked.eq_ignore_ascii_case(name.trim_end_matches('.')) {
        return Ok(Answer::Foreign);
    }
    match flags & CODE {
        0 => {}
        NO_NAME => return Ok(Answer::Whole(Vec::new())),
        code => return Err(io::Error::other(format!("the name server answers with code {code}"))),
    }
    if flags & TRUNCATED != 0 {
        return Ok(Answer::Truncated);
    }
    let records = (0..answers).map(|_| reader.record()).collect::<io::Result<Vec<_>>>()?;
    Ok(Answer::Whole(records.into_iter().flatten().collect()))
}

pub(super) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no well-formed message of the domain name system")
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) -> io::Result<()> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len()).ok_or_else(malformed)?;
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn word(&mut self) -> io::Result<u16> {
        Ok(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// A host and a port, when the record is of our kind; the root as host says that there is no service.
    fn record(&mut self) -> io::Result<Option<Target>> {
        self.name()?;
        let (kind, class) = (self.word()?, self.word()?);
        self.skip(4)?;
        let length = self.word()?.into();
        let end = self.at;
        self.skip(length)?;
        if (kind, class) != (SRV, INTERNET) {
            return Ok(None);
        }
        let mut data = Reader { bytes: self.bytes, at: end };
        data.skip(4)?;
        let (port, host) = (data.word()?, data.name()?);
        Ok((!host.is_empty()).then_some(Target { host, port }))
    }

    /// A name, which may end with a jump to where its end stood before.
    fn name(&mut self) -> io::Result<String> {
        let mut name = String::new();
        let mut jumps = 0;
        let mut after = None;
        loop {
            match self.byte()? {
                0 => break,
                length @ 1..=63 => self.label(length.into(), &mut name)?,
                high @ 0xc0.. => {
                    let low = self.byte()?;
                    after.get_or_insert(self.at);
                    self.at = usize::from(u16::from_be_bytes([high & 0x3f, low]));
                    jumps += 1;
                }
                _ => return Err(malformed()),
            }
            if jumps > JUMPS || name.len() > NAME_MAX {
                return Err(malformed());
            }
        }
        self.at = after.unwrap_or(self.at);
        Ok(name)
    }

    fn label(&mut self, length: usize, name: &mut String) -> io::Result<()> {
        let begin = self.at;
        self.skip(length)?;
        let label = std::str::from_utf8(&self.bytes[begin..self.at]).map_err(|_| malformed())?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(label);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a server says to a question; its names lean on the question's.
    pub(in super::super) fn answer(question: &[u8], targets: &[(&str, u16)]) -> Vec<u8> {
        let mut bytes = question[..question.len() - EDNS.len()].to_vec();
        bytes[2] |= 0x80;
        bytes[7] = targets.len() as u8;
        bytes[11] = 0;
        for (host, port) in targets {
            let (first, rest) = host.split_once('.').unwrap();
            assert_eq!(rest, "example.com");
            bytes.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, 6 + 1 + first.len() as u8 + 2, 0, 0, 0, 0]);
            bytes.extend(port.to_be_bytes());
            bytes.push(first.len() as u8);
            bytes.extend(first.as_bytes());
            // `example.com` stands after `_heureka` and `_tcp`.
            bytes.extend([0xc0, 12 + 9 + 5]);
        }
        bytes
    }

    const NAME: &str = "_heureka._tcp.example.com";

    fn good() -> Vec<u8> {
        answer(&question(7, NAME).unwrap(), &[("a.example.com", 1), ("b.example.com", 2)])
    }

    #[test]
    fn answers_give_hosts_and_ports() {
        let Answer::Whole(found) = super::answer(&good(), 7, "_HEUREKA._tcp.example.com.").unwrap() else {
            panic!()
        };
        assert_eq!(found[1], Target { host: "b.example.com".into(), port: 2 });
        let mut missing = good();
        missing[3] |= 3;
        assert_eq!(super::answer(&missing, 7, NAME).unwrap(), Answer::Whole(Vec::new()));
    }

    #[test]
    fn answers_to_other_questions_are_foreign() {
        assert_eq!(super::answer(&good(), 8, NAME).unwrap(), Answer::Foreign);
        assert_eq!(super::answer(&good(), 7, "_x._tcp.example.com").unwrap(), Answer::Foreign);
        assert_eq!(super::answer(&question(7, NAME).unwrap(), 7, NAME).unwrap(), Answer::Foreign);
    }

    #[test]
    fn names_that_go_in_circles_are_refused() {
        let mut bytes = good();
        let pointer = bytes.len() - 2;
        bytes[pointer..].copy_from_slice(&[0xc0, pointer as u8]);
        assert!(super::answer(&bytes, 7, NAME).is_err());
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_refused() {
        for name in ["", "a..b", &"x".repeat(64)] {
            assert!(question(1, name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn damaged_answers_never_panic(at in any::<prop::sample::Index>(), to: u8, cut in any::<prop::sample::Index>()) {
            let mut bytes = good();
            let at = at.index(bytes.len());
            bytes[at] = to;
            let length = cut.index(bytes.len());
            let _ = super::answer(&bytes, 7, NAME).is_ok();
            let _ = super::answer(&bytes[..length], 7, NAME).is_ok();
        }
    }
}
