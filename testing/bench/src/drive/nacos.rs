//! What r-nacos understands: writes and reads over HTTP, and pushes on a stream of gRPC whose messages carry JSON.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::Instance;
use prost::Message as _;
use serde_json::{Value, json};

use super::frames::{Field, fields};
use super::h2::{self, Event, framed};
use super::requests::{Operation, Population};
use super::tongue::Said;
use crate::instances;

pub(super) const STREAM: &str = "/BiRequestStream/requestBiStream";
const CALL: &str = "/Request/request";

/// Time between two looks whether a connection may subscribe, and how often it is looked at.
const LOOK: (Duration, usize) = (Duration::from_millis(50), 200);

/// Field of a payload that holds what kind it is, and the field in it that does.
const METADATA: usize = 2;
const KIND: usize = 3;

#[derive(Clone, PartialEq, prost::Message)]
struct Payload {
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "3")]
    body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    #[prost(string, tag = "3")]
    kind: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Body {
    #[prost(bytes = "bytes", tag = "2")]
    json: Bytes,
}

fn payload(kind: &str, json: &Value) -> Bytes {
    let metadata = Some(Metadata { kind: kind.to_owned() });
    framed(&Payload { metadata, body: Some(Body { json: json.to_string().into() }) })
}

/// The first message on a connection's stream.
pub(super) fn opening() -> Bytes {
    payload(
        "ConnectionSetupRequest",
        &json!({ "module": "internal", "clientVersion": "2.1.0", "tenant": "", "labels": {} }),
    )
}

/// Subscribes to the first application on a connection whose stream was begun, as soon as the server knows it.
///
/// # Errors
/// A connection that breaks, a server that never knows it.
pub(super) async fn subscribe(connection: &mut h2::Connection) -> io::Result<()> {
    let wish = payload(
        "SubscribeServiceRequest",
        &json!({ "module": "naming", "serviceName": instances::app(0, 1), "groupName": "DEFAULT_GROUP",
                 "subscribe": true, "clusters": "", "requestId": "1" }),
    );
    for _ in 0..LOOK.1 {
        let called = connection.call_at(CALL, &wish);
        let (mut body, mut ended) = (Vec::new(), false);
        while !ended {
            let turned = connection.turn(|stream, event| match event {
                Event::Data(part) if stream == called => body.extend_from_slice(part),
                Event::Ended | Event::Reset => ended |= stream == called,
                _ => {}
            });
            turned.await?;
        }
        if is_success(body.get(5..).unwrap_or_default()) {
            return Ok(());
        }
        tokio::time::sleep(LOOK.0).await;
    }
    Err(io::Error::other("a subscription was refused"))
}

fn is_success(answer: &[u8]) -> bool {
    let body = Payload::decode(answer).ok().and_then(|payload| payload.body);
    let json: Option<Value> = body.and_then(|body| serde_json::from_slice(&body.json).ok());
    json.is_some_and(|json| json["resultCode"] == 200)
}

/// What a message of a stream says, by its kind.
pub(super) fn understand(beginning: &[u8]) -> Said {
    let metadata = fields(beginning).find(|(number, _)| *number == METADATA);
    let Some((_, Field::Bytes(metadata))) = metadata else { return Said::Other };
    let kind = fields(metadata).find(|(number, _)| *number == KIND);
    match kind {
        Some((_, Field::Bytes(b"NotifySubscriberRequest"))) => Said::Change(0),
        Some((_, Field::Bytes(b"ClientDetectionRequest"))) => Said::Asked,
        _ => Said::Other,
    }
}

/// The answer to a server that asks whether anybody is there.
pub(super) fn here() -> Bytes {
    payload("ClientDetectionResponse", &json!({ "resultCode": 200, "errorCode": 0, "requestId": "1" }))
}

/// Registers an instance.
pub(super) fn register(instance: &Instance) -> Bytes {
    let metadata = json!(instance.metadata).to_string();
    let parameters = format!("{}&metadata={}", place(instance), escaped(&metadata));
    request("POST", "/nacos/v1/ns/instance", &parameters)
}

/// Requests for what heureka is asked over REST; nothing where there is no such thing.
pub(super) fn requests(
    operation: Operation,
    population: Population,
    versions: &[usize],
) -> Option<Vec<Bytes>> {
    let all = |version| (0..population.instances).map(move |n| population.instance(n, version));
    match operation {
        Operation::RestRegister => Some(
            versions.iter().flat_map(|version| all(*version)).map(|instance| register(&instance)).collect(),
        ),
        Operation::RestRenew => Some(all(0).map(|instance| beat(&instance)).collect()),
        Operation::RestApp { gzip: false } => {
            let apps = (0..population.instances).step_by(population.per_app);
            Some(apps.map(|n| list(&instances::app(n, population.per_app))).collect())
        }
        _ => None,
    }
}

fn beat(instance: &Instance) -> Bytes {
    let port = instance.port.map_or(0, |port| port.number);
    let beat = json!({ "ip": instance.ip_address, "port": port, "serviceName": instance.key.app,
                       "cluster": "DEFAULT", "scheduled": true, "weight": 1.0, "metadata": {} });
    let parameters = format!("serviceName={}&beat={}", instance.key.app, escaped(&beat.to_string()));
    request("PUT", "/nacos/v1/ns/instance/beat", &parameters)
}

fn list(app: &str) -> Bytes {
    format!("GET /nacos/v1/ns/instance/list?serviceName={app} HTTP/1.1\r\nhost: localhost\r\n\r\n").into()
}

fn place(instance: &Instance) -> String {
    let port = instance.port.map_or(0, |port| port.number);
    format!("serviceName={}&ip={}&port={port}&ephemeral=true", instance.key.app, instance.ip_address)
}

fn request(method: &str, path: &str, form: &str) -> Bytes {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    )
    .into()
}

/// A text as it stands in a form.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            _ => _ = write!(out, "%{byte:02X}"),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_and_questions_are_told_apart() {
        let of = |message: Bytes| understand(&message[5..][..message.len().min(128) - 5]);
        assert_eq!(
            of(payload("NotifySubscriberRequest", &json!({ "hosts": vec![7; 100] }))),
            Said::Change(0)
        );
        assert_eq!(of(payload("ClientDetectionRequest", &json!({}))), Said::Asked);
        assert_eq!(of(opening()), Said::Other);
        assert_eq!(understand(&[]), Said::Other);
    }

    #[test]
    fn only_a_result_of_200_is_a_success() {
        let of = |code: u16| is_success(&payload("R", &json!({ "resultCode": code }))[5..]);
        assert_eq!((of(200), of(301), is_success(&[])), (true, false, false));
    }

    #[test]
    fn a_form_holds_any_text() {
        assert_eq!(escaped("a-1 {\"ü\"}"), "a-1%20%7B%22%C3%BC%22%7D");
    }
}
