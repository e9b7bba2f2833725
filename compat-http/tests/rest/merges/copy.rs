//! A client's copy of the registry, and how each client keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use serde_json::Value;

use crate::documents::Element;
use crate::support::Server;

/// An instance as a client keeps it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) status: String,
    pub(super) metadata: BTreeMap<String, String>,
}

/// One instance of a list, with what happened to it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) deleted: bool,
    pub(super) kept: Kept,
}

type App = BTreeMap<String, Kept>;

/// A list as it arrives: applications and their instances in the order of the document.
#[derive(Debug)]
pub(super) struct List {
    pub(super) version: String,
    pub(super) hash: String,
    pub(super) apps: Vec<(String, Vec<Entry>)>,
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
pub(super) fn everything(entries: &[Entry]) -> App {
    entries.iter().map(|entry| (entry.id.clone(), entry.kept.clone())).collect()
}

pub(super) fn hash(apps: &BTreeMap<String, App>) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    apps.values().flat_map(App::values).for_each(|kept| *counts.entry(&kept.status).or_default() += 1);
    counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
}

/// Whose merge it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Client {
    Java,
    Steeltoe,
    Python,
}

/// A client with its copy of the registry.
#[derive(Debug)]
pub(super) struct Copy {
    client: Client,
    pub(super) apps: BTreeMap<String, App>,
    /// Number and hash of the last delta.
    last: Option<(String, String)>,
    /// Since when nothing was asked.
    pub(super) silent: Duration,
    pub(super) full_fetches: u32,
    pub(super) mismatches: u32,
}

impl Copy {
    pub(super) fn new(client: Client) -> Self {
        let (silent, full_fetches, mismatches) = (Duration::ZERO, 0, 0);
        Self { client, apps: BTreeMap::new(), last: None, silent, full_fetches, mismatches }
    }

    fn is_empty(&self) -> bool {
        self.apps.values().all(App::is_empty)
    }

    /// One round of the client's fetching: the delta if it holds anything, and everything where the hash differs.
    pub(super) async fn refresh(&mut self, server: &Server) {
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

    pub(super) fn merge(&mut self, delta: &List) {
        let mark = (delta.version.clone(), delta.hash.clone());
        let seen = self.last.replace(mark.clone()) == Some(mark);
        for (name, entries) in &delta.apps {
            match self.client {
                Client::Java => entries.iter().for_each(|entry| self.merge_as_java(name, entry, entries)),
                Client::Steeltoe => {
                    entries.iter().for_each(|entry| self.merge_as_steeltoe(name, entry, entries));
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
    pub(super) async fn assert_equal(&self, server: &Server) {
        let list = self.list(server, "").await;
        let filled = self.apps.iter().filter(|(_, app)| !app.is_empty());
        let held: BTreeMap<_, _> = filled.map(|(name, app)| (name.clone(), app.clone())).collect();
        assert_eq!(held, list.whole(), "{:?}", self.client);
    }
}
