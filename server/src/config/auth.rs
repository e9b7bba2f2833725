//! `[auth]`: who is served.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;

use super::Config;
use super::setting::{Finding, Setting, setting};
use super::value::{Raw, Value, secrets};

/// `[auth]`: who is served. Nobody is turned away while it names nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// Who says a name and a password.
    pub users: Vec<User>,
    /// What is taken from a bearer.
    pub tokens: Vec<Token>,
    /// Probes of health need neither.
    pub open_health: bool,
}

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Who it is.
    pub name: String,
    /// What nobody else knows.
    pub password: String,
}

/// What a bearer shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl AuthConfig {
    /// What this server says to the others of its cluster: its first user, or its first token.
    #[must_use]
    pub fn own(&self) -> Option<String> {
        let user = self.users.first().map(User::authorization);
        user.or_else(|| self.tokens.first().map(|token| format!("Bearer {}", token.0)))
    }
}

impl User {
    /// Understands `name:password`, both escaped with `%`.
    /// # Errors
    /// What was expected; never what was said.
    pub fn read(text: &str) -> Result<Self, String> {
        let (name, password) = text.trim().split_once(':').ok_or("expected name:password")?;
        let (Some(name), Some(password)) = (unescaped(name), unescaped(password)) else {
            return Err("name and password must be UTF-8, escaped with %".into());
        };
        if name.is_empty() || password.is_empty() {
            return Err("neither name nor password may be empty".into());
        }
        if name.contains(':') {
            return Err("a name may not hold a colon".into());
        }
        Ok(Self { name, password })
    }

    /// Value of the header `Authorization` with which it comes.
    #[must_use]
    pub fn authorization(&self) -> String {
        basic(&self.name, &self.password)
    }
}

/// What an operator escaped with `%`; nothing when it is no UTF-8.
pub(super) fn unescaped(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// What HTTP Basic says for a name and a password.
pub(super) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

impl Token {
    /// Understands what a header may hold (RFC 6750, section 2.1).
    /// # Errors
    /// What was expected; never what was said.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let body = text.trim_end_matches('=');
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
        if body.is_empty() || !body.chars().all(plain) {
            return Err("a token holds A-Z, a-z, 0-9, -._~+/ and = at its end".into());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Without the password.
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***", self.name)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Value for Vec<User> {
    const KIND: &'static str = "list of `name:password`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        secrets(raw, User::read)
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|user| user.to_string().into()).collect())
    }
}

impl Value for Vec<Token> {
    const KIND: &'static str = "list of tokens";

    fn parse(raw: &Raw) -> Result<Self, String> {
        secrets(raw, Token::read)
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|token| format!("{token:?}").into()).collect())
    }
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { users: Vec::new(), tokens: Vec::new(), open_health: true }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("auth.users", auth.users: Vec<User>, "Who is served, by name and password (HTTP Basic): REST, gRPC, feed and metrics alike. Both are escaped with `%`, and passwords are never shown: `--print-config` prints `***` in their place. Servers of one cluster say the first of them to each other, so it must be one that all of them know. Neither users nor tokens: everybody is served."),
    setting!("auth.tokens", auth.tokens: Vec<Token>, "Who is served, by a token (`Authorization: Bearer`). Never shown. Where there are no users, servers say the first of them to each other."),
    setting!("auth.open_health", auth.open_health: bool, "`/health/live`, `/health/ready`, `/health/startup` and `grpc.health.v1` answer without credentials."),
];

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let users = &config.auth.users;
    let repeated =
        users.iter().enumerate().any(|(place, one)| users[..place].iter().any(|it| it.name == one.name));
    Finding::unless(!repeated, "auth.users", "names somebody twice").into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_and_passwords_never_shown() {
        let user = User::read("admin:p%40ss%3Aw%25rd!%C3%A9").unwrap();
        assert_eq!((user.name.as_str(), user.password.as_str()), ("admin", "p@ss:w%rd!é"));
        assert_eq!(format!("{user} {user:?}"), "admin:*** admin:***");
        assert_eq!(User::read("a:b:c").unwrap().password, "b:c");
        for wrong in ["", "secret", ":secret", "secret:", "%FF:secret", "se%3Acret:x"] {
            let refusal = User::read(wrong).unwrap_err();
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn tokens_are_what_a_header_may_hold() {
        assert_eq!(format!("{:?}", Token::read(" abc.DEF-1_~+/== ").unwrap()), "***");
        for wrong in ["", "=", "a b", "a=b", "é", "a\tb"] {
            assert!(Token::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_server_says_its_first_user_or_else_its_first_token() {
        let mut auth = AuthConfig::default();
        assert_eq!(auth.own(), None);
        auth.tokens = vec![Token::read("t1").unwrap(), Token::read("t2").unwrap()];
        assert_eq!(auth.own().as_deref(), Some("Bearer t1"));
        auth.users = vec![User::read("u:p").unwrap()];
        assert_eq!(auth.own().as_deref(), Some("Basic dTpw"));
    }
}
