//! The strictest readers in the field, as decoders that forgive nothing: each loses the whole answer at the first
//! surprise, so random registries are read through all of them.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use proptest::prelude::*;
use serde::Deserialize;

use crate::documents::Element;
use crate::support::Server;

type Texts = BTreeMap<String, String>;

/// Spring, Istio, xuanbo and Steeltoe at once: no unknown member, lists are lists, every type exact.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    applications: Applications,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Applications {
    #[serde(rename = "versions__delta")]
    version: String,
    #[serde(rename = "apps__hashcode")]
    hash: String,
    application: Vec<Application>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    name: String,
    instance: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Instance {
    instance_id: String,
    host_name: String,
    app: String,
    ip_addr: String,
    sid: Option<String>,
    status: Status,
    overridden_status: Status,
    port: Port,
    secure_port: Port,
    country_id: i64,
    data_center_info: DataCenter,
    lease_info: Lease,
    metadata: Texts,
    app_group_name: Option<String>,
    home_page_url: Option<String>,
    status_page_url: Option<String>,
    health_check_url: Option<String>,
    secure_health_check_url: Option<String>,
    vip_address: Option<String>,
    secure_vip_address: Option<String>,
    is_coordinating_discovery_server: Flag,
    last_updated_timestamp: String,
    last_dirty_timestamp: String,
    action_type: Action,
    asg_name: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Down,
    OutOfService,
    Starting,
    Unknown,
    Up,
}

#[derive(Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Action {
    Added,
    Modified,
    Deleted,
}

/// A flag as text.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flag {
    True,
    False,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Port {
    #[serde(rename = "$")]
    number: u16,
    #[serde(rename = "@enabled")]
    enabled: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataCenter {
    #[serde(rename = "@class")]
    class: String,
    name: String,
    metadata: Option<Texts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Lease {
    renewal_interval_in_secs: u64,
    duration_in_secs: u64,
    registration_timestamp: u64,
    last_renewal_timestamp: u64,
    eviction_timestamp: u64,
    service_up_timestamp: u64,
}

impl Applications {
    /// What the Java client checks beyond types, and the hash that clients compute.
    fn check(&self) {
        self.version.parse::<i64>().unwrap();
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for instance in self.application.iter().flat_map(|app| &app.instance) {
            *counts.entry(instance.status.name()).or_default() += 1;
        }
        for app in &self.application {
            assert!(!app.instance.is_empty() && app.name == app.name.to_uppercase());
            app.instance.iter().for_each(|instance| instance.check(&app.name));
        }
        let hash: String = counts.iter().map(|(name, count)| format!("{name}_{count}_")).collect();
        assert_eq!(self.hash, hash);
    }
}

impl Instance {
    fn check(&self, app: &str) {
        assert_eq!(self.app, app);
        assert!([&self.instance_id, &self.host_name, &self.ip_addr].iter().all(|text| !text.is_empty()));
        self.last_updated_timestamp.parse::<i64>().unwrap();
        self.last_dirty_timestamp.parse::<i64>().unwrap();
        let amazon = self.data_center_info.name == "Amazon";
        assert_eq!(self.data_center_info.class == "com.netflix.appinfo.AmazonInfo", amazon);
        assert_eq!(self.data_center_info.metadata.is_some(), amazon);
    }
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Down => "DOWN",
            Self::OutOfService => "OUT_OF_SERVICE",
            Self::Starting => "STARTING",
            Self::Unknown => "UNKNOWN",
            Self::Up => "UP",
        }
    }
}

/// The Python client: every number there and whole, every attribute there. A colon in a name makes its parser fail.
fn read_as_python_does(text: &str) -> BTreeSet<(String, String)> {
    let root = Element::parse(text).unwrap();
    let number = |element: &Element, name: &str| element.find(name).unwrap().parse::<i64>().unwrap();
    let mut found = BTreeSet::new();
    number(&root, "versions__delta");
    for instance in root.instances() {
        for port in ["port", "securePort"] {
            number(instance, port);
            assert!(["true", "false"].contains(&instance.child(port).unwrap().attribute("enabled").unwrap()));
        }
        assert!(instance.child("dataCenterInfo").unwrap().attribute("class").is_some());
        for member in ["countryId", "lastUpdatedTimestamp", "lastDirtyTimestamp"] {
            number(instance, member);
        }
        let lease = instance.child("leaseInfo").unwrap();
        assert!(lease.children.iter().all(|member| member.text.parse::<i64>().is_ok()));
        assert_eq!(lease.children.len(), 6);
        for entry in &instance.child("metadata").unwrap().children {
            assert!(is_plain_name(&entry.name), "{}", entry.name);
        }
        found.insert((
            instance.find("app").unwrap().to_owned(),
            instance.find("instanceId").unwrap().to_owned(),
        ));
    }
    found
}

/// A name without a colon that no parser refuses.
fn is_plain_name(name: &str) -> bool {
    let starts = |c: char| c.is_alphabetic() || c == '_';
    name.chars().next().is_some_and(starts) && !name.contains([':', ' ', '<', '&', '/', '$', '@'])
}

#[derive(Clone, Debug)]
struct Registration {
    app: String,
    id: String,
    json: String,
}

/// Registrations with everything optional there or not.
fn registration() -> impl Strategy<Value = Registration> {
    let text = prop_oneof![".{0,12}", "[<>&\"'\\]_$: @\\u{0}-\\u{1f}\\u{fffe}é🚀a-z]{0,12}"];
    let metadata = prop::collection::btree_map(text.clone(), text, 0..5);
    let status = prop::sample::select(vec!["UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN", "odd"]);
    let port = prop::option::of(prop_oneof![
        Just("8080".to_owned()),
        Just(r#"{"$":"443","@enabled":true}"#.to_owned()),
        Just("null".to_owned())
    ]);
    let amazon = any::<bool>();
    ("[a-cA-C]", "[a-d]", metadata, status, port, amazon, prop::option::of("[a-z,]{1,8}"), any::<bool>())
        .prop_map(|(app, id, metadata, status, port, amazon, vip, urls)| {
            let block = if amazon {
                r#"{"@class":"com.netflix.appinfo.AmazonInfo","name":"Amazon","metadata":{"ami-id":"a"}}"#
            } else {
                r#"{"name":"MyOwn","metadata":null}"#
            };
            let mut members = vec![
                format!(
                    r#""app":"{app}","instanceId":"{id}","hostName":"h","ipAddr":"1","status":"{status}""#
                ),
                format!(
                    r#""dataCenterInfo":{block},"metadata":{}"#,
                    serde_json::to_string(&metadata).unwrap()
                ),
            ];
            members.extend(port.map(|port| format!(r#""port":{port}"#)));
            members.extend(vip.map(|vip| format!(r#""vipAddress":"{vip}""#)));
            if urls {
                members.push(
                    r#""homePageUrl":"http://h/?a=1&b=<2>","asgName":"asg","sid":"s","countryId":7"#.into(),
                );
            }
            Registration { app, id, json: format!("{{\"instance\":{{{}}}}}", members.join(",")) }
        })
}

async fn read(server: &Server, path: &str, headers: &[(&str, &str)]) -> String {
    let answer = server.send("GET", path, headers, Body::empty()).await;
    assert_eq!(answer.status, 200);
    answer.text().to_owned()
}

async fn read_everything(server: &Server) {
    let json = [("accept", "application/json")];
    let mut sizes = BTreeSet::new();
    for path in ["/eureka/apps", "/eureka/apps/delta"] {
        let root: Root = serde_json::from_str(&read(server, path, &json).await).unwrap();
        if path.ends_with("apps") {
            root.applications.check();
            assert_eq!(root.applications.version, "1");
            sizes.insert(root.applications.application.iter().map(|app| app.instance.len()).sum::<usize>());
        }
        let found = read_as_python_does(&read(server, path, &[]).await);
        if path.ends_with("apps") {
            sizes.insert(found.len());
        }
    }
    assert_eq!(sizes.len(), 1, "both formats hold the same instances");
}

/// What XML cannot hold comes back as a sign; the empty key has no name.
fn through_xml(metadata: &Texts) -> Texts {
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let value = |text: &String| text.chars().map(|c| if legal(c) { c } else { '\u{fffd}' }).collect();
    metadata.iter().filter(|(key, _)| !key.is_empty()).map(|(key, text)| (key.clone(), value(text))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_registry_decodes_in_the_strictest_readers(bodies in prop::collection::vec(registration(), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let server = Server::new();
            read_everything(&server).await;
            for body in &bodies {
                let answer = server.post(&body.app, &body.json).await;
                prop_assert_eq!(answer.status, 204, "{} {}", answer.text(), body.json);
            }
            read_everything(&server).await;
            if let Some(body) = bodies.first() {
                server.delete(&format!("/{}/{}", body.app, body.id)).await;
                read_everything(&server).await;
            }
            Ok(())
        })?;
    }

    #[test]
    fn an_instance_sent_back_as_xml_keeps_its_metadata(body in registration()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let server = Server::new();
            prop_assert_eq!(server.post(&body.app, &body.json).await.status, 204);
            let app = body.app.to_uppercase();
            let before = server.stored(&app, &body.id).unwrap().instance.metadata;
            let xml = server.get_xml(&format!("/{app}/{}", body.id)).await;
            server.post_xml(&app, xml.text()).await.assert_quiet(204);
            prop_assert_eq!(server.stored(&app, &body.id).unwrap().instance.metadata, through_xml(&before));
            Ok(())
        })?;
    }
}

#[test]
fn the_strict_reader_refuses_what_breaks_clients() {
    for broken in [
        r#"{"applications":{"versions__delta":1,"apps__hashcode":"","application":[]}}"#,
        r#"{"applications":{"versions__delta":"1","apps__hashcode":""}}"#,
        r#"{"applications":{"versions__delta":"1","apps__hashcode":"","application":{}}}"#,
        r#"{"applications":{"versions__delta":"1","apps__hashcode":"","application":[],"revision":7}}"#,
    ] {
        assert!(serde_json::from_str::<Root>(broken).is_err(), "{broken}");
    }
}
