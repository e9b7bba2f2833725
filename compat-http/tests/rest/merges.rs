//! How clients keep their copy by deltas: the merges of the Java, Steeltoe and Python clients as models, each with
//! the habits that make an answer in the wrong order or with the wrong number cost a full fetch. Random histories
//! must never cost one, but where a client's own fault does.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use proptest::prelude::*;
use serde_json::Value;

use crate::documents::Element;
use crate::support::{Draft, Server};

/// An instance as a client keeps it.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    status: String,
    metadata: BTreeMap<String, String>,
}

/// One instance of a list, with what happened to it.
#[derive(Clone, Debug)]
struct Entry {
    id: String,
    deleted: bool,
    kept: Kept,
}

type App = BTreeMap<String, Kept>;

/// A list as it arrives: applications and their instances in the order of the document.
#[derive(Debug)]
struct List {
    version: String,
    hash: String,
    apps: Vec<(String, Vec<Entry>)>,
}

impl List {
    fn of_json(document: &Value) -> Self {
        let list = &document["applications"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let entry = |one: &Value| Entry {
            id: text(&one["instanceId"]),
            deleted: one["actionType"] == "DELETED",
            kept: Kept {
                status: text(&one["status"]),
                metadata: one["metadata"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(k, v)| (k.clone(), text(v)))
                    .collect(),
            },
        };
        let apps = list["application"].as_array().unwrap().iter();
        let apps = apps
            .map(|app| (text(&app["name"]), app["instance"].as_array().unwrap().iter().map(entry).collect()));
        Self {
            version: text(&list["versions__delta"]),
            hash: text(&list["apps__hashcode"]),
            apps: apps.collect(),
        }
    }

    /// The Python client reads XML.
    fn of_xml(document: &str) -> Self {
        let root = Element::parse(document).unwrap();
        let text = |of: &Element, name: &str| of.find(name).unwrap().to_owned();
        let entry = |one: &&Element| {
            let entries = &one.child("metadata").unwrap().children;
            let metadata = entries.iter().map(|entry| (entry.name.clone(), entry.text.clone())).collect();
            Entry {
                id: text(one, "instanceId"),
                deleted: one.find("actionType") == Some("DELETED"),
                kept: Kept { status: text(one, "status"), metadata },
            }
        };
        let apps = root.children.iter().filter(|child| child.name == "application");
        let apps = apps.map(|app| (text(app, "name"), app.instances().iter().map(entry).collect()));
        Self {
            version: text(&root, "versions__delta"),
            hash: text(&root, "apps__hashcode"),
            apps: apps.collect(),
        }
    }

    /// The copy of a client that takes the list as it is.
    fn whole(&self) -> BTreeMap<String, App> {
        self.apps.iter().map(|(name, entries)| (name.clone(), everything(entries))).collect()
    }
}

/// All entries, the deleted ones too: what a client holds that takes an application over as it stands.
fn everything(entries: &[Entry]) -> App {
    entries.iter().map(|entry| (entry.id.clone(), entry.kept.clone())).collect()
}

fn hash(apps: &BTreeMap<String, App>) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    apps.values().flat_map(App::values).for_each(|kept| *counts.entry(&kept.status).or_default() += 1);
    counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
}

/// Whose merge it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Client {
    Java,
    Steeltoe,
    Python,
}

/// A client with its copy of the registry.
#[derive(Debug)]
struct Copy {
    client: Client,
    apps: BTreeMap<String, App>,
    /// Number and hash of the last delta.
    last: Option<(String, String)>,
    /// Since when nothing was asked.
    silent: Duration,
    full_fetches: u32,
    mismatches: u32,
}

impl Copy {
    fn new(client: Client) -> Self {
        let (silent, full_fetches, mismatches) = (Duration::ZERO, 0, 0);
        Self { client, apps: BTreeMap::new(), last: None, silent, full_fetches, mismatches }
    }

    fn is_empty(&self) -> bool {
        self.apps.values().all(App::is_empty)
    }

    /// One round of the client's fetching: the delta if it holds anything, and everything where the hash differs.
    async fn refresh(&mut self, server: &Server) {
        self.silent = Duration::ZERO;
        if self.is_empty() {
            return self.fetch(server).await;
        }
        let delta = self.list(server, "/delta").await;
        assert!(
            delta.version.parse::<i64>().unwrap() > 1,
            "{}: neither the full list's number nor -1",
            delta.version
        );
        let unknown = delta.apps.iter().any(|(name, _)| !self.apps.contains_key(name));
        self.merge(&delta);
        if hash(&self.apps) == delta.hash {
            return;
        }
        let own_fault = self.client == Client::Python && unknown;
        assert!(
            own_fault,
            "{:?}: {} is not the hash of {:#?} after {delta:#?}",
            self.client, delta.hash, self.apps
        );
        self.mismatches += 1;
        self.fetch(server).await;
    }

    async fn fetch(&mut self, server: &Server) {
        let list = self.list(server, "").await;
        assert_eq!(list.version, "1");
        self.apps = list.whole();
        self.full_fetches += 1;
    }

    async fn list(&self, server: &Server, path: &str) -> List {
        match self.client {
            Client::Python => {
                let answer = server.send("GET", &format!("/eureka/apps{path}"), &[], Body::empty()).await;
                List::of_xml(answer.text())
            }
            _ => List::of_json(&server.json(path).await),
        }
    }

    fn merge(&mut self, delta: &List) {
        let mark = (delta.version.clone(), delta.hash.clone());
        let seen = self.last.replace(mark.clone()) == Some(mark);
        for (name, entries) in &delta.apps {
            match self.client {
                Client::Java => entries.iter().for_each(|entry| self.merge_as_java(name, entry, entries)),
                Client::Steeltoe => {
                    entries.iter().for_each(|entry| self.merge_as_steeltoe(name, entry, entries))
                }
                // A delta with the number and hash of the last one is not looked at.
                Client::Python if seen => {}
                Client::Python => entries.iter().for_each(|entry| self.merge_as_python(name, entry)),
            }
        }
    }

    /// An unknown application is taken over with all its entries, and one that becomes empty is dropped at once.
    fn merge_as_java(&mut self, name: &str, entry: &Entry, entries: &[Entry]) {
        if !entry.deleted {
            let app = self.apps.entry(name.to_owned()).or_insert_with(|| everything(entries));
            app.insert(entry.id.clone(), entry.kept.clone());
            return;
        }
        if let Some(app) = self.apps.get_mut(name) {
            app.remove(&entry.id);
            if app.is_empty() {
                self.apps.remove(name);
            }
        }
    }

    /// An unknown application is taken over with all its entries, also for a removal; an empty one stays.
    fn merge_as_steeltoe(&mut self, name: &str, entry: &Entry, entries: &[Entry]) {
        let app = self.apps.entry(name.to_owned()).or_insert_with(|| everything(entries));
        if entry.deleted {
            app.remove(&entry.id);
        } else {
            app.insert(entry.id.clone(), entry.kept.clone());
        }
    }

    /// What happens to an unknown application happens to an object that nobody keeps.
    fn merge_as_python(&mut self, name: &str, entry: &Entry) {
        let Some(app) = self.apps.get_mut(name) else { return };
        if entry.deleted {
            app.remove(&entry.id);
        } else {
            app.insert(entry.id.clone(), entry.kept.clone());
        }
    }

    /// The client holds what the server does, not only as many.
    async fn assert_equal(&self, server: &Server) {
        let list = self.list(server, "").await;
        let filled = self.apps.iter().filter(|(_, app)| !app.is_empty());
        let held: BTreeMap<_, _> = filled.map(|(name, app)| (name.clone(), app.clone())).collect();
        assert_eq!(held, list.whole(), "{:?}", self.client);
    }
}

/// What happens in a step of a history.
#[derive(Clone, Debug)]
enum Step {
    Register {
        app: u8,
        id: u8,
        status: &'static str,
        word: u8,
    },
    Cancel {
        app: u8,
        id: u8,
    },
    Override {
        app: u8,
        id: u8,
        status: Option<&'static str>,
    },
    Metadata {
        app: u8,
        id: u8,
        word: u8,
    },
    Beat {
        app: u8,
        id: u8,
    },
    Pass(u64),
    /// These clients ask, by their bits.
    Refresh(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (app, id, word) = (0..3_u8, 0..3_u8, 0..4_u8);
    let status = prop::sample::select(vec!["UP", "DOWN", "STARTING", "OUT_OF_SERVICE"]);
    prop_oneof![
        4 => (app.clone(), id.clone(), status.clone(), word.clone())
            .prop_map(|(app, id, status, word)| Step::Register { app, id, status, word }),
        3 => (app.clone(), id.clone()).prop_map(|(app, id)| Step::Cancel { app, id }),
        1 => (app.clone(), id.clone(), prop::option::of(status))
            .prop_map(|(app, id, status)| Step::Override { app, id, status }),
        2 => (app.clone(), id.clone(), word).prop_map(|(app, id, word)| Step::Metadata { app, id, word }),
        1 => (app, id).prop_map(|(app, id)| Step::Beat { app, id }),
        2 => (1..60_u64).prop_map(Step::Pass),
        4 => (1..8_u8).prop_map(Step::Refresh),
    ]
}

/// Longest silence of a client: deltas reach back for three minutes.
const SILENCE: Duration = Duration::from_secs(115);

async fn take(server: &Server, copies: &mut [Copy], turn: u64, step: &Step) {
    let instance = |app: &u8, id: &u8| format!("/APP{app}/i{id}");
    match step {
        Step::Register { app, id, status, word } => {
            let metadata = format!(r#","metadata":{{"word":"w{word}"}}"#);
            server
                .register(&Draft::new(&format!("APP{app}"), &format!("i{id}"), status, turn).extra(&metadata))
                .await;
        }
        Step::Cancel { app, id } => drop(server.delete(&instance(app, id)).await),
        Step::Override { app, id, status: Some(status) } => {
            server.put(&format!("{}/status?value={status}", instance(app, id))).await;
        }
        Step::Override { app, id, status: None } => {
            server.delete(&format!("{}/status", instance(app, id))).await;
        }
        Step::Metadata { app, id, word } => {
            server.put(&format!("{}/metadata?word=m{word}", instance(app, id))).await;
        }
        Step::Beat { app, id } => drop(server.beat(&format!("APP{app}"), &format!("i{id}"), "").await),
        Step::Pass(seconds) => server.pass(Duration::from_secs(*seconds)),
        Step::Refresh(_) => {}
    }
    for (number, copy) in copies.iter_mut().enumerate() {
        let asked = matches!(step, Step::Refresh(clients) if clients >> number & 1 == 1);
        if let Step::Pass(seconds) = step {
            copy.silent += Duration::from_secs(*seconds);
        }
        if asked || copy.silent > SILENCE {
            copy.refresh(server).await;
            copy.assert_equal(server).await;
        }
    }
}

fn copies() -> [Copy; 3] {
    [Client::Java, Client::Steeltoe, Client::Python].map(Copy::new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn clients_stay_equal_by_deltas_alone(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // Leases lapse in these histories, so removals by expiry are part of them.
            let server = Server::unprotected();
            let mut copies = copies();
            for (turn, step) in steps.iter().enumerate() {
                take(&server, &mut copies, turn as u64 + 1, step).await;
            }
            for copy in &mut copies {
                copy.refresh(&server).await;
                copy.assert_equal(&server).await;
            }
        });
    }
}

/// The order within an application that costs the Java client its copy, and the one that does not.
#[test]
fn the_java_merge_depends_on_removals_coming_last() {
    let entry = |id: &str, deleted| Entry {
        id: id.to_owned(),
        deleted,
        kept: Kept { status: "UP".to_owned(), metadata: BTreeMap::new() },
    };
    for (entries, right) in [
        (vec![entry("new", false), entry("old", true)], true),
        (vec![entry("old", true), entry("new", false)], false),
    ] {
        let mut copy = Copy::new(Client::Java);
        copy.apps.insert("A".to_owned(), everything(&[entry("old", false)]));
        copy.merge(&List { version: "2".into(), hash: "UP_1_".into(), apps: vec![("A".into(), entries)] });
        assert_eq!(hash(&copy.apps) == "UP_1_", right);
    }
}

#[tokio::test]
async fn a_new_application_costs_python_one_full_fetch_and_the_others_none() {
    let server = Server::new();
    let mut copies = copies();
    server.register(&Draft::new("FIRST", "f", "UP", 1)).await;
    for copy in &mut copies {
        copy.refresh(&server).await;
    }
    server.register(&Draft::new("SECOND", "s", "UP", 1)).await;
    for copy in &mut copies {
        copy.refresh(&server).await;
        copy.refresh(&server).await;
        copy.assert_equal(&server).await;
    }
    assert_eq!(copies.map(|copy| (copy.full_fetches, copy.mismatches)), [(1, 0), (1, 0), (2, 1)]);
}

#[tokio::test]
async fn changes_that_keep_the_hash_are_seen_by_python() {
    let server = Server::new();
    let mut copy = Copy::new(Client::Python);
    for id in ["a", "b"] {
        server.register(&Draft::new("SWAP", id, "UP", 1)).await;
    }
    copy.refresh(&server).await;
    server.put("/SWAP/a/metadata?k=v").await.assert_quiet(200);
    copy.refresh(&server).await;
    copy.assert_equal(&server).await;
    server.delete("/SWAP/a").await.assert_quiet(200);
    server.register(&Draft::new("SWAP", "c", "UP", 1)).await;
    copy.refresh(&server).await;
    copy.assert_equal(&server).await;
    assert_eq!(copy.full_fetches, 1);
}
