//! Clients that run on no machine of ours, by what they send, byte for byte where it matters, and what they need back:
//! exact codes, nothing in answers that they do not read, and answers that their own decoders take.

mod models;
mod registering;
mod watching;

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::lists::gunzipped;
use crate::readers::{Reader, Seen};
use crate::support::{Answer, Draft, Server};

type Headers = &'static [(&'static str, &'static str)];

/// A request whose answer is its code and nothing else.
struct Ask {
    method: &'static str,
    path: &'static str,
    headers: Headers,
    body: &'static str,
    code: u16,
}

/// A request whose answer is read.
struct Look {
    path: &'static str,
    headers: Headers,
    kind: &'static str,
    reader: Reader,
    sees: Sees,
}

const JSON: &str = "application/json";
const XML: &str = "application/xml";

/// What there is to be seen.
#[derive(Clone, Copy)]
enum Sees {
    /// The client's instance and the other one.
    Everything,
    /// The client's instance alone, by its application, address or id.
    Itself,
}

/// One client in the field.
struct Client {
    name: &'static str,
    /// Its instance as the registry holds it; that of the other one where it only looks.
    app: &'static str,
    id: &'static str,
    /// From nothing to UP, also where it was there before.
    joins: &'static [Ask],
    /// Its heartbeat, told 200; unknown, it is told 404 and joins.
    beat: Option<Ask>,
    looks: &'static [Look],
    leaves: &'static [Ask],
}

/// The instance that was there before any client.
const OTHER: (&str, &str) = ("OTHER", "other");

impl Ask {
    async fn of(&self, server: &Server, client: &str) {
        let Self { method, path, headers, body, code } = *self;
        let answer = server.send(method, path, headers, body).await;
        assert_eq!(answer.status.as_u16(), code, "{client}: {method} {path}: {answer:?}");
        answer.assert_quiet(code);
    }

    /// The same request when nobody knows the instance.
    async fn is_unknown(&self, server: &Server, client: &str) {
        Self { code: 404, ..*self }.of(server, client).await;
    }
}

impl Client {
    /// A server with the other instance, of which all texts are told that a client may insist on.
    async fn server() -> Server {
        let server = Server::unprotected();
        let urls =
            ["homePageUrl", "statusPageUrl", "healthCheckUrl"].map(|url| format!(r#","{url}":"http://o/""#));
        let more = format!(r#","secureVipAddress":"OTHER-S","metadata":{{"turn":"none"}}{}"#, urls.concat());
        server.register(&Draft::new(OTHER.0, OTHER.1, "UP", 1).duration(86_400).extra(&more)).await;
        server
    }

    /// As a path has it.
    fn encoded_id(&self) -> String {
        utf8_percent_encode(self.id, NON_ALPHANUMERIC).to_string()
    }

    async fn joins(&self, server: &Server) {
        for ask in self.joins {
            ask.of(server, self.name).await;
        }
        assert_eq!(server.status(self.app, &self.encoded_id()).await, "UP", "{}", self.name);
        if let Some(beat) = &self.beat {
            beat.of(server, self.name).await;
        }
    }

    fn expected(&self, sees: Sees) -> Seen {
        let own = (self.app.to_owned(), self.id.to_owned());
        match sees {
            Sees::Everything => Seen::from([own, (OTHER.0.to_owned(), OTHER.1.to_owned())]),
            Sees::Itself => Seen::from([own]),
        }
    }

    /// Looks in each of its ways, and finds `text` in what it sees, or does not.
    async fn looks(&self, server: &Server, text: &str, there: bool) {
        for look in self.looks {
            let answer = server.send("GET", look.path, look.headers, "").await;
            let place = format!("{}: GET {}", self.name, look.path);
            let document = read(&answer, look.kind, &place);
            let seen =
                (look.reader)(&document).unwrap_or_else(|wrong| panic!("{place}: {wrong}\n{document}"));
            assert_eq!(seen, self.expected(look.sees), "{place}");
            assert_eq!(document.contains(text), there, "{place}: {text} in {document}");
        }
    }

    /// An operator's override and its end, and a change of metadata alone.
    async fn sees_changes(&self, server: &Server) {
        let path = format!("/{}/{}", self.app, self.encoded_id());
        self.looks(server, "OUT_OF_SERVICE", false).await;
        server.put(&format!("{path}/status?value=OUT_OF_SERVICE")).await.assert_quiet(200);
        if let Some(beat) = &self.beat {
            beat.of(server, self.name).await;
        }
        self.looks(server, "OUT_OF_SERVICE", true).await;
        server.delete(&format!("{path}/status")).await.assert_quiet(200);
        self.looks(server, "OUT_OF_SERVICE", false).await;
        for turn in ["turn-1", "turn-2"] {
            server.put(&format!("{path}/metadata?turn={turn}")).await.assert_quiet(200);
            self.looks(server, turn, true).await;
        }
    }

    /// All that becomes of a client from its start to its end.
    async fn lives(&self) {
        let server = Self::server().await;
        self.joins(&server).await;
        self.sees_changes(&server).await;
        if let Some(beat) = &self.beat {
            server.pass(Duration::from_secs(100));
            assert!(server.stored(self.app, self.id).is_none(), "{} outlives its lease", self.name);
            beat.is_unknown(&server, self.name).await;
            self.joins(&server).await;
            let empty = Self::server().await;
            beat.is_unknown(&empty, self.name).await;
            self.joins(&empty).await;
            self.sees_changes(&empty).await;
        }
        for ask in self.leaves {
            ask.of(&server, self.name).await;
            assert!(server.stored(self.app, self.id).is_none(), "{} has left", self.name);
            ask.is_unknown(&server, self.name).await;
        }
    }
}

/// The text of a whole answer of this type.
fn read(answer: &Answer, kind: &str, place: &str) -> String {
    assert_eq!(answer.status, 200, "{place}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some(kind), "{place}");
    match answer.header("content-encoding") {
        None => answer.text().to_owned(),
        Some(coding) => {
            assert_eq!(coding, "gzip", "{place}");
            gunzipped(answer)
        }
    }
}

#[tokio::test]
async fn clients_that_register_are_answered_as_they_need_all_their_lives() {
    for client in registering::CLIENTS {
        assert!(client.beat.is_some() && !client.leaves.is_empty(), "{}", client.name);
        client.lives().await;
    }
}

#[tokio::test]
async fn clients_that_only_look_are_told_what_their_decoders_take() {
    for client in watching::CLIENTS {
        assert!(!client.looks.is_empty() && client.joins.is_empty(), "{}", client.name);
        client.lives().await;
    }
}
