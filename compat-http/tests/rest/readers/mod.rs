//! The strictest readers in the field, as decoders that forgive nothing: each loses the whole answer at the first
//! surprise, so random registries are read through all of them.

mod armeria;
pub(crate) mod go;
mod javascript;
mod netflix;
mod spring;
pub(crate) mod steeltoe;
pub(crate) mod xml;

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::support::{Answer, Server};

type Texts = BTreeMap<String, String>;

/// Application and id of every instance that a reader sees.
pub(crate) type Seen = BTreeSet<(String, String)>;

pub(crate) type Reader = fn(&str) -> Result<Seen, String>;

/// Readers of JSON by their names.
const JSON: [(&str, Reader); 7] = [
    ("Spring", spring::read),
    ("Netflix", netflix::read),
    ("xuanbo", go::read_as_xuanbo),
    ("fargo and Istio", go::read_as_fargo),
    ("Steeltoe", steeltoe::read),
    ("JavaScript", javascript::read),
    ("Armeria", armeria::read),
];

/// Readers of XML by their names.
const XML: [(&str, Reader); 2] = [("Python", xml::read_as_python), ("Prometheus", xml::read_as_prometheus)];

pub(crate) fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("no object: {value}"))
}

pub(crate) fn array<'a>(of: &'a Map<String, Value>, name: &str) -> Result<&'a Vec<Value>, String> {
    of.get(name).and_then(Value::as_array).ok_or_else(|| format!("{name}: no list"))
}

/// A text that is there and not empty.
pub(crate) fn text(of: &Map<String, Value>, name: &str) -> Result<String, String> {
    let text = of.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("{name}: no text"))
}

/// The hash that clients compute, beside the one that they are told.
fn hashes(document: &Value) -> (String, String) {
    let list = &document["applications"];
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let apps = list["application"].as_array().unwrap().iter();
    for one in apps.flat_map(|app| app["instance"].as_array().unwrap()) {
        *counts.entry(one["status"].as_str().unwrap()).or_default() += 1;
    }
    let own = counts.iter().map(|(name, count)| format!("{name}_{count}_")).collect();
    (own, list["apps__hashcode"].as_str().unwrap().to_owned())
}

/// A registration as some client may send it.
#[derive(Clone, Debug)]
struct Registration {
    app: String,
    id: String,
    json: String,
}

const AMAZON: &str =
    r#"{"@class":"com.netflix.appinfo.AmazonInfo","name":"Amazon","metadata":{"ami-id":"a","a b":"<&>"}}"#;
const BARE_AMAZON: &str = r#"{"name":"Amazon"}"#;
const OWN: &str = r#"{"name":"MyOwn","metadata":null}"#;

fn metadata() -> impl Strategy<Value = Texts> {
    let text = prop_oneof![".{0,12}", "[<>&\"'\\]_$: @\\u{0}-\\u{1f}\\u{fffe}é🚀a-z]{0,12}"];
    prop::collection::btree_map(text.clone(), text, 0..5)
}

/// Members that may be left out, each present in one case of two.
fn optional() -> impl Strategy<Value = Vec<String>> {
    let members = [
        r#""port":8080"#,
        r#""port":{"$":"443","@enabled":true}"#,
        r#""port":null"#,
        r#""securePort":"8443""#,
        r#""vipAddress":"red,blue""#,
        r#""secureVipAddress":"sec""#,
        r#""homePageUrl":"http://h/?a=1&b=<2>""#,
        r#""statusPageUrl":null"#,
        r#""asgName":"asg""#,
        r#""appGroupName":"group""#,
        r#""sid":"na""#,
        r#""countryId":"7""#,
        r#""leaseInfo":{"renewalIntervalInSecs":0,"durationInSecs":"0"}"#,
        r#""leaseInfo":null"#,
        r#""lastDirtyTimestamp":"1700000000000""#,
        r#""overriddenStatus":"DOWN""#,
        r#""isCoordinatingDiscoveryServer":true"#,
        r#""somethingNew":{"x":[1]}"#,
    ];
    prop::sample::subsequence(members.to_vec(), 0..=members.len())
        .prop_map(|some| some.into_iter().map(str::to_owned).collect())
}

fn registration() -> impl Strategy<Value = Registration> {
    let id = prop_oneof!["[a-d]", "[a-d][:/#+ é%;]{1,2}[a-d]"];
    let status = prop::sample::select(vec!["UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN", "odd", ""]);
    let center = prop::sample::select(vec![AMAZON, BARE_AMAZON, OWN]);
    ("[a-cA-C]", id, metadata(), status, center, optional()).prop_map(
        |(app, id, metadata, status, center, optional)| {
            let metadata = serde_json::to_string(&metadata).unwrap();
            let mut members = optional;
            // A member that stands there twice is not what is tested here.
            members.dedup_by_key(|member| member.split(':').next().unwrap().to_owned());
            members.push(format!(
                r#""app":"{app}","instanceId":"{id}","hostName":"h","ipAddr":"1","status":"{status}",
                "dataCenterInfo":{center},"metadata":{metadata}"#
            ));
            Registration {
                app: app.to_uppercase(),
                id,
                json: format!("{{\"instance\":{{{}}}}}", members.join(",")),
            }
        },
    )
}

/// What may happen to an instance after its registration.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Override(&'static str),
    Metadata,
    Cancel,
}

fn then() -> impl Strategy<Value = Then> {
    prop::sample::select(vec![
        Then::Nothing,
        Then::Override("OUT_OF_SERVICE"),
        Then::Override("DOWN"),
        Then::Metadata,
        Then::Cancel,
    ])
}

fn path(of: &Registration) -> String {
    format!("/{}/{}", of.app, utf8_percent_encode(&of.id, NON_ALPHANUMERIC))
}

async fn happen(server: &Server, to: &Registration, then: Then) {
    let path = path(to);
    match then {
        Then::Nothing => {}
        Then::Override(status) => drop(server.put(&format!("{path}/status?value={status}")).await),
        Then::Metadata => drop(server.put(&format!("{path}/metadata?a_b=%3C1%3E&%3A=2")).await),
        Then::Cancel => drop(server.delete(&path).await),
    }
}

async fn ask(server: &Server, path: &str, accept: &str) -> Answer {
    server.send("GET", path, &[("accept", accept)], Body::empty()).await
}

/// Every reader sees these and no others.
fn all_see(readers: &[(&str, Reader)], path: &str, document: &str, expected: Option<&Seen>) {
    let mut first = None;
    for (name, read) in readers {
        let seen = read(document).unwrap_or_else(|wrong| panic!("{name}, {path}: {wrong}\n{document}"));
        let expected = expected.or(first.as_ref()).unwrap_or(&seen);
        assert_eq!(&seen, expected, "{name}, {path}");
        first.get_or_insert(seen);
    }
}

/// A single application or instance in the place where readers look for lists.
fn as_list(document: &Value) -> Option<String> {
    let root = document.as_object().filter(|root| root.len() == 1)?;
    let app = match root.iter().next()? {
        (name, app) if name == "application" => app.clone(),
        (name, one) if name == "instance" => json!({"name": one["app"], "instance": [one]}),
        _ => return None,
    };
    let list = json!({"versions__delta": "1", "apps__hashcode": "", "application": [app]});
    Some(json!({"applications": list}).to_string())
}

async fn read_everything(server: &Server, expected: &Seen) {
    let lists = [
        ("/eureka/apps", Some(expected)),
        ("/eureka/apps/delta", None),
        ("/eureka/vips/red", None),
        ("/eureka/svips/sec", None),
    ];
    for (path, expected) in lists {
        let answer = ask(server, path, "application/json").await;
        all_see(&JSON, path, answer.text(), expected);
        if expected.is_some() {
            let (own, told) = hashes(&answer.json());
            assert_eq!(own, told, "{path}");
        }
        all_see(&XML, path, ask(server, path, "").await.text(), expected);
    }
    for (app, id) in expected {
        let of_app: Seen = expected.iter().filter(|(name, _)| name == app).cloned().collect();
        let one = Registration { app: app.clone(), id: id.clone(), json: String::new() };
        for (path, expected) in
            [(format!("/{app}"), of_app), (path(&one), Seen::from([(app.clone(), id.clone())]))]
        {
            let list = as_list(&server.json(&path).await).unwrap_or_else(|| panic!("{path}: another root"));
            all_see(&JSON, &path, &list, Some(&expected));
        }
    }
}

/// What XML cannot hold comes back as a sign; the empty key has no name.
fn through_xml(metadata: &Texts) -> Texts {
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let value = |text: &String| text.chars().map(|c| if legal(c) { c } else { '\u{fffd}' }).collect();
    metadata.iter().filter(|(key, _)| !key.is_empty()).map(|(key, text)| (key.clone(), value(text))).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_reader_sees_every_registry_whole(steps in prop::collection::vec((registration(), then()), 0..8)) {
        runtime().block_on(async {
            let server = Server::new();
            let mut expected = Seen::new();
            read_everything(&server, &expected).await;
            for (body, _) in &steps {
                let answer = server.post(&body.app, &body.json).await;
                prop_assert_eq!(answer.status, 204, "{} {}", answer.text(), body.json);
                expected.insert((body.app.clone(), body.id.clone()));
            }
            read_everything(&server, &expected).await;
            for (body, then) in &steps {
                happen(&server, body, *then).await;
                if matches!(then, Then::Cancel) {
                    expected.remove(&(body.app.clone(), body.id.clone()));
                }
            }
            read_everything(&server, &expected).await;
            Ok(())
        })?;
    }

    #[test]
    fn an_instance_sent_back_as_xml_keeps_its_metadata(body in registration()) {
        runtime().block_on(async {
            let server = Server::new();
            prop_assert_eq!(server.post(&body.app, &body.json).await.status, 204);
            let before = server.stored(&body.app, &body.id).unwrap().instance.metadata;
            let xml = server.get_xml(&path(&body)).await;
            server.post_xml(&body.app, xml.text()).await.assert_quiet(204);
            prop_assert_eq!(server.stored(&body.app, &body.id).unwrap().instance.metadata, through_xml(&before));
            Ok(())
        })?;
    }
}

/// The first edition of XML has no such letter in names, and parsers in use go by it.
#[tokio::test]
async fn a_letter_of_a_rare_script_in_a_key_is_read_by_all() {
    let server = Server::new();
    let draft = crate::support::Draft::new("A", "i", "UP", 1).extra(",\"metadata\":{\"\u{fdfc}\":\"v\"}");
    server.register(&draft).await;
    read_everything(&server, &Seen::from([("A".to_owned(), "i".to_owned())])).await;
    assert!(server.get_xml("").await.text().contains("<_.fdfc>v<"));
}

/// A list with one instance, as every reader wants it.
fn sound() -> Value {
    let lease = json!({"renewalIntervalInSecs": 30, "durationInSecs": 90, "registrationTimestamp": 1,
        "lastRenewalTimestamp": 1, "evictionTimestamp": 0, "serviceUpTimestamp": 1});
    let center = json!({"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"});
    let one = json!({"instanceId": "i", "hostName": "h", "app": "A", "ipAddr": "1", "status": "UP",
        "overriddenStatus": "UNKNOWN", "port": {"$": 1, "@enabled": "true"}, "securePort": {"$": 2, "@enabled": "false"},
        "countryId": 1, "dataCenterInfo": center, "leaseInfo": lease, "metadata": {"k": "v"},
        "isCoordinatingDiscoveryServer": "false", "lastUpdatedTimestamp": "1", "lastDirtyTimestamp": "1",
        "actionType": "ADDED"});
    let app = json!({"name": "A", "instance": [one]});
    json!({"applications": {"versions__delta": "1", "apps__hashcode": "UP_1_", "application": [app]}})
}

/// For each reader what breaks it in the field: a place below the instance or the list, and what stands there.
#[test]
fn each_reader_of_json_refuses_what_breaks_its_client() {
    let one = "/applications/application/0/instance/0";
    let table: [(&str, &str, Value); 20] = [
        ("Spring", "/applications/revision", json!(7)),
        ("Spring", "#/capacity", json!("1")),
        ("Spring", "#/status", json!("DRAINING")),
        ("Spring", "/applications/application", json!({})),
        ("Spring", "#/metadata/k", json!({})),
        ("Spring", "#/dataCenterInfo/metadata", json!({})),
        ("Netflix", "#/new", json!({})),
        ("Netflix", "#/port/extra", json!(1)),
        ("Netflix", "#/port", json!(80)),
        ("Netflix", "#/dataCenterInfo/@class", json!("com.example.Other")),
        ("xuanbo", "/applications/versions__delta", json!(1)),
        ("xuanbo", "#/lastDirtyTimestamp", json!(1)),
        ("xuanbo", "#/overriddenstatus", json!("UNKNOWN")),
        ("fargo and Istio", "#/port/@enabled", json!(true)),
        ("fargo and Istio", "#/port/$", json!("1")),
        ("Steeltoe", "#/metadata/k", json!(1)),
        ("Steeltoe", "#/ipAddr", json!(" ")),
        ("JavaScript", "/applications/application", Value::Null),
        ("JavaScript", "#/port", json!({"@enabled": "true"})),
        ("Armeria", "#/leaseInfo", Value::Null),
    ];
    for (name, read) in JSON {
        assert_eq!(read(&sound().to_string()).unwrap().len(), 1, "{name}");
        let broken: Vec<_> = table.iter().filter(|(reader, ..)| *reader == name).collect();
        assert!(!broken.is_empty(), "{name}");
        for (_, place, value) in broken {
            let place = place.replace('#', one);
            let (parent, member) = place.rsplit_once('/').unwrap();
            let mut document = sound();
            document.pointer_mut(parent).unwrap()[member] = value.clone();
            assert!(read(&document.to_string()).is_err(), "{name} takes {value} at {place}");
        }
    }
}

#[tokio::test]
async fn each_reader_of_xml_refuses_what_breaks_its_client() {
    let server = Server::new();
    server
        .post("A", &crate::support::Draft::new("A", "i", "UP", 1).extra(r#","metadata":{"k":"v"}"#).json())
        .await;
    let sound = server.get_xml("").await.text().to_owned();
    for (name, read) in XML {
        assert_eq!(read(&sound).unwrap().len(), 1, "{name}");
        let table = [
            ("Python", "<countryId>1</countryId>", "<countryId/>"),
            ("Python", "<port enabled=\"true\">", "<port>"),
            ("Python", "<evictionTimestamp>0</", "<evictionTimestamp>0.0</"),
            ("Python", "<k>v</k>", "<k:l>v</k:l>"),
            ("Prometheus", ">8080</port>", ">x</port>"),
            ("Prometheus", "enabled=\"true\"", "enabled=\"yes\""),
            ("Prometheus", "<k>v</k>", "<k><l/></k>"),
            ("Prometheus", "</applications>", ""),
        ];
        for (_, part, broken) in table.iter().filter(|(reader, ..)| *reader == name) {
            assert!(sound.contains(part), "{part} in {sound}");
            assert!(read(&sound.replace(part, broken)).is_err(), "{name} takes {broken}");
        }
    }
}
