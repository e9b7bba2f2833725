//! Who is served: whoever shows one of the configured credentials, or everybody where there are none.
//!
//! One check before every handler, for all surfaces: no cookie, no redirect, no token of a page. A refusal is a 401
//! without a body, or `UNAUTHENTICATED` in gRPC: never a 404, at which Eureka's clients would register again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use crate::config::AuthConfig;

/// Credentials that are taken.
#[derive(Default)]
pub(crate) struct Access {
    /// `name:password`, as bytes that clients send.
    users: Vec<Vec<u8>>,
    tokens: Vec<Vec<u8>>,
    open_health: bool,
}

impl Access {
    pub(crate) fn new(auth: &AuthConfig) -> Self {
        let users = auth.users.iter().map(|user| format!("{}:{}", user.name, user.password));
        Self {
            users: users.flat_map(|text| written(&text)).collect(),
            tokens: auth.tokens.iter().map(|token| token.0.as_bytes().to_vec()).collect(),
            open_health: auth.open_health,
        }
    }

    /// Whether a request with these headers is served.
    pub(crate) fn admits(&self, headers: &HeaderMap, is_probe: bool) -> bool {
        self.is_open() || self.open_health && is_probe || self.knows(headers)
    }

    /// What a refused client is asked for.
    pub(crate) fn challenge(&self) -> HeaderValue {
        HeaderValue::from_static(if self.users.is_empty() {
            "Bearer realm=\"heureka\""
        } else {
            "Basic realm=\"heureka\", charset=\"UTF-8\""
        })
    }

    fn is_open(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some((scheme, said)) = headers.get(header::AUTHORIZATION).and_then(parts) else { return false };
        if scheme.eq_ignore_ascii_case("basic") {
            return STANDARD.decode(said).is_ok_and(|said| any(&self.users, &said));
        }
        scheme.eq_ignore_ascii_case("bearer") && any(&self.tokens, said.as_bytes())
    }
}

/// The encodings in which clients send a text: UTF-8, and Latin-1 where it has all the letters.
fn written(text: &str) -> Vec<Vec<u8>> {
    let latin = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    let utf8 = text.as_bytes().to_vec();
    let latin = latin.filter(|latin| *latin != utf8);
    std::iter::once(utf8).chain(latin).collect()
}

fn parts(value: &HeaderValue) -> Option<(&str, &str)> {
    let (scheme, said) = value.to_str().ok()?.split_once(' ')?;
    Some((scheme, said.trim()))
}

/// Looks at all of them and at every byte: the time says nothing of how much was right.
fn any(known: &[Vec<u8>], said: &[u8]) -> bool {
    let same = |one: &[u8]| {
        let differing = one.iter().zip(said).fold(0, |differing, (one, other)| differing | (one ^ other));
        one.len() == said.len() && differing == 0
    };
    known.iter().fold(false, |found, one| found | same(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Token, User};

    fn access(users: &[&str], tokens: &[&str]) -> Access {
        Access::new(&AuthConfig {
            users: users.iter().map(|user| User::read(user).unwrap()).collect(),
            tokens: tokens.iter().map(|token| Token::read(token).unwrap()).collect(),
            open_health: true,
        })
    }

    fn admits(access: &Access, authorization: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        access.admits(&headers, false)
    }

    fn basic(bytes: &[u8]) -> String {
        format!("Basic {}", STANDARD.encode(bytes))
    }

    #[test]
    fn without_credentials_everybody_is_served() {
        assert!(access(&[], &[]).admits(&HeaderMap::new(), false));
        assert!(admits(&access(&[], &[]), "Basic nonsense"));
    }

    #[test]
    fn names_with_their_passwords_are_served_in_both_encodings() {
        let access = access(&["admin:p%40ss%3Aw%25rd!%C3%A9", "b:2"], &[]);
        let right =
            [basic("admin:p@ss:w%rd!é".as_bytes()), basic(b"admin:p@ss:w%rd!\xe9"), "bAsIc  Yjoy ".into()];
        for right in right {
            assert!(admits(&access, &right), "{right}");
        }
        let wrong: [&[u8]; 11] =
            [b"", b":", b":2", b"admin", b"admin:", b"b:", b"b:22", b"b:3", b"B:2", b"b:2\0", b"b:\xff\xfe"];
        for wrong in wrong {
            assert!(!admits(&access, &basic(wrong)), "{wrong:?}");
        }
        for wrong in
            ["", "Basic", "Basic ", "Basic %%%", "Yjoy", "Bearer Yjoy", "Basic Yjoy Yjoy", "Digest Yjoy"]
        {
            assert!(!admits(&access, wrong), "{wrong}");
        }
        assert!(!access.admits(&HeaderMap::new(), false));
        // Only the first of several counts, and only in its own header.
        for (headers, admitted) in [
            (["authorization: Basic Yjoy", "authorization: Basic Yjoz"], true),
            (["authorization: Basic Yjoz", "authorization: Basic Yjoy"], false),
            (["proxy-authorization: Basic Yjoy", "x-forwarded-for: 127.0.0.1"], false),
        ] {
            let named = headers.map(|header| header.split_once(": ").unwrap());
            let pairs = named.map(|(name, said)| (name.parse().unwrap(), said.parse().unwrap()));
            let headers: HeaderMap = pairs.into_iter().collect();
            assert_eq!(access.admits(&headers, false), admitted, "{named:?}");
        }
    }

    #[test]
    fn bearers_of_a_token_are_served() {
        let access = access(&[], &["t0k.en==", "other"]);
        assert!(admits(&access, "Bearer t0k.en==") && admits(&access, "bearer other"));
        assert!(!admits(&access, "Bearer t0k.en") && !admits(&access, "Basic t0k.en=="));
        assert_eq!(access.challenge(), "Bearer realm=\"heureka\"");
    }

    #[test]
    fn probes_are_open_unless_they_are_closed() {
        let mut access = access(&["a:b"], &[]);
        assert!(access.admits(&HeaderMap::new(), true));
        access.open_health = false;
        assert!(!access.admits(&HeaderMap::new(), true));
        assert!(access.challenge().to_str().unwrap().starts_with("Basic realm="));
    }
}
