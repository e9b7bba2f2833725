//! This server as a sender: what goes out for what happened here, and what each answer brings about.

use std::time::Duration;

use heureka_compat_http::peer::{self, Outbox, Outcome};
use heureka_model::{Instance, InstanceKey, KeyRef, NamedPort, Status};
use heureka_registry::{Beat, Claim, Origin, RegisterMode, SetOverride, Writer};
use serde_json::{Value, json};

use crate::support::{Draft, Server};

/// A sender and the server whose registry it tells.
struct Sender {
    server: Server,
    outbox: Outbox,
}

impl Sender {
    fn new() -> Self {
        Self { server: Server::trusting(), outbox: Outbox::default() }
    }

    /// The items of the next batch, half a second later.
    fn next(&mut self) -> Option<Vec<Value>> {
        self.server.pass(Duration::from_millis(500));
        let batch = self.outbox.next(&self.server.registry, self.server.now())?;
        let document: Value = serde_json::from_slice(&batch.body).unwrap();
        let items = document["replicationList"].as_array().unwrap().clone();
        assert_eq!(items.len(), batch.items);
        Some(items)
    }

    /// Actions and ids of the next batch, which is taken.
    fn told(&mut self) -> Vec<String> {
        let Some(items) = self.next() else { return Vec::new() };
        let codes = vec![200; items.len()];
        self.answer(&codes);
        items.iter().map(short).collect()
    }

    fn answer(&mut self, codes: &[u16]) {
        let list: Vec<_> = codes.iter().map(|code| json!({ "statusCode": code })).collect();
        self.answered(200, &json!({ "responseList": list })).unwrap();
    }

    fn answered(&mut self, code: u16, body: &Value) -> Result<(), String> {
        self.settle(&Outcome::Answered(code, body.to_string().into_bytes()))
    }

    fn settle(&mut self, outcome: &Outcome) -> Result<(), String> {
        self.outbox.settle(outcome, &self.server.registry, self.server.now())
    }

    /// Carries batches to another server until there are none; tells how many items went.
    async fn carry(&mut self, to: &Server) -> usize {
        let mut items = 0;
        for _ in 0..20 {
            self.server.pass(Duration::from_millis(500));
            let Some(batch) = self.outbox.next(&self.server.registry, self.server.now()) else { continue };
            items += batch.items;
            let headers = [("content-type", "application/json")];
            let answer = to.send("POST", "/eureka/peerreplication/batch/", &headers, batch.body).await;
            self.settle(&Outcome::Answered(answer.status.as_u16(), answer.body)).unwrap();
        }
        items
    }
}

fn short(item: &Value) -> String {
    format!("{} {}", item["action"].as_str().unwrap(), item["id"].as_str().unwrap())
}

fn key<'a>(app: &'a str, id: &'a str) -> KeyRef<'a> {
    KeyRef { namespace: "", app, id }
}

#[tokio::test]
async fn an_item_has_the_members_of_the_original_and_no_others() {
    let mut sender = Sender::new();
    assert_eq!(sender.told(), [""; 0], "an empty batch asks whether the peer is there");
    sender.server.register(&Draft::new("REP", "p1", "UP", 100).extra(r#","metadata":{"k":"v"}"#)).await;
    let sent = sender.next().unwrap();
    sender.answer(&[200]);
    let recorded = include_str!("../sent/java.jsonl").lines();
    let theirs = recorded.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let theirs = theirs.filter(|step| step["name"] == "heartbeat, peer says 404").nth(1).unwrap();
    let theirs: Value = serde_json::from_str(theirs["body"].as_str().unwrap()).unwrap();
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let theirs = &theirs["replicationList"][0];
    assert_eq!(members(&sent[0]), members(theirs));
    assert_eq!(members(&sent[0]["instanceInfo"]), members(&theirs["instanceInfo"]));
    assert!(sent[0]["lastDirtyTimestamp"].is_u64() && sent[0]["instanceInfo"]["lastDirtyTimestamp"] == "100");
}

#[tokio::test]
async fn what_goes_out_is_stamped_with_the_greater_of_version_and_stamp() {
    let mut sender = Sender::new();
    sender.told();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    sender.server.register(&Draft::new("A", "1", "UP", 300)).await;
    let stamps = |items: Vec<Value>| -> Vec<u64> {
        items.iter().map(|item| item["lastDirtyTimestamp"].as_u64().unwrap()).collect()
    };
    assert_eq!(stamps(sender.next().unwrap()), [300], "no peer that heard of 300 takes less");
    sender.answer(&[200]);
    sender.server.beat("A", "1", "?lastDirtyTimestamp=300").await.assert_quiet(200);
    assert_eq!(stamps(sender.next().unwrap()), [300]);
    sender.answer(&[200]);
    sender.server.put("/A/1/metadata?k=v").await.assert_quiet(200);
    assert_eq!(stamps(sender.next().unwrap())[0], 301);
}

#[tokio::test]
async fn each_kind_of_write_goes_out_once_and_in_its_order() {
    let mut sender = Sender::new();
    sender.told();
    let server = &sender.server;
    server.register(&Draft::new("A", "1", "UP", 100)).await;
    server.register(&Draft::new("A", "2", "UP", 100)).await;
    assert_eq!(sender.told(), ["Register 1", "Register 2"]);
    sender.server.put("/A/1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    let items = sender.next().unwrap();
    assert_eq!(items.iter().map(short).collect::<Vec<_>>(), ["StatusUpdate 1", "Heartbeat 1"]);
    assert_eq!(items[0]["status"], "OUT_OF_SERVICE");
    assert_eq!(items[1]["overriddenStatus"], "OUT_OF_SERVICE");
    sender.answer(&[200, 200]);
    sender.server.delete("/A/1/status").await.assert_quiet(200);
    let items = sender.next().unwrap();
    assert_eq!((short(&items[0]).as_str(), &items[0]["status"]), ("DeleteStatusOverride 1", &json!("UP")));
    sender.answer(&[200, 200]);
    sender.server.put("/A/1/metadata?weight=5").await.assert_quiet(200);
    assert_eq!(sender.told()[0], "Register 1");
    sender.server.delete("/A/1").await.assert_quiet(200);
    assert_eq!(sender.told(), ["Cancel 1"]);
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn renewals_collapse_and_only_those_of_clients_go_out() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "own", "UP", 100)).await;
    assert_eq!(sender.told(), ["Register own"]);
    let headers = [("content-type", "application/json"), ("x-netflix-discovery-replication", "true")];
    let theirs = Draft::new("A", "theirs", "UP", 100).json();
    assert_eq!(sender.server.send("POST", "/eureka/apps/A", &headers, theirs).await.status, 204);
    for _ in 0..5 {
        sender.server.step();
        sender.server.beat("A", "own", "?lastDirtyTimestamp=100").await.assert_quiet(200);
        let beat = sender.server.send("PUT", "/eureka/apps/A/theirs", &headers[1..], "").await;
        assert_eq!(beat.status, 200);
    }
    assert_eq!(sender.told(), ["Heartbeat own"]);
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn what_a_peer_says_of_a_clients_instance_is_not_told_back() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    assert_eq!(sender.told(), ["Register 1"]);
    let told = async |action: &str, status: &str, server: &Server| {
        let item =
            json!({"appName": "A", "id": "1", "lastDirtyTimestamp": 100, "status": status, "action": action});
        let body = json!({ "replicationList": [item] }).to_string();
        let headers = [("content-type", "application/json")];
        let answer = server.send("POST", "/eureka/peerreplication/batch", &headers, body).await;
        assert_eq!(answer.json()["responseList"][0]["statusCode"], 200);
    };
    told("StatusUpdate", "OUT_OF_SERVICE", &sender.server).await;
    assert_eq!(sender.server.status("A", "1").await, "OUT_OF_SERVICE");
    assert_eq!(sender.next(), None);
    // The owner's next word goes out, the operator's does not.
    sender.server.register(&Draft::new("A", "1", "UP", 101).host("moved")).await;
    assert_eq!(sender.told(), ["Register 1"]);
    told("DeleteStatusOverride", "OUT_OF_SERVICE", &sender.server).await;
    assert_eq!(sender.server.status("A", "1").await, "UP");
    assert_eq!(sender.next(), None);
    told("Cancel", "UP", &sender.server).await;
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn evictions_are_never_sent() {
    let mut sender = Sender { server: Server::unprotected(), outbox: Outbox::default() };
    sender.server.register(&Draft::new("A", "1", "UP", 100).duration(1)).await;
    assert_eq!(sender.told(), ["Register 1"]);
    sender.server.pass(Duration::from_secs(3));
    assert_eq!(sender.server.status("A", "1").await, "");
    let told = sender.told();
    assert!(told.is_empty(), "{told:?}");
}

#[tokio::test]
async fn a_peer_that_lacks_an_instance_is_told_it() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    sender.told();
    sender.server.beat("A", "1", "").await;
    assert_eq!(sender.next().map(|items| short(&items[0])).as_deref(), Some("Heartbeat 1"));
    sender.answer(&[404]);
    assert_eq!(sender.told(), ["Register 1"]);
    // An override goes with it.
    sender.server.put("/A/1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    assert_eq!(sender.next().unwrap().len(), 2);
    sender.answer(&[404, 404]);
    assert_eq!(sender.told(), ["Register 1", "StatusUpdate 1"]);
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn a_peers_newer_record_is_taken_over() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    sender.told();
    sender.server.beat("A", "1", "").await;
    sender.next().unwrap();
    let newer: Value = serde_json::from_str(&Draft::new("A", "1", "UP", 900).host("other").json()).unwrap();
    let body = json!({"responseList": [{"statusCode": 409, "responseEntity": newer["instance"]}]});
    sender.answered(200, &body).unwrap();
    assert_eq!(sender.server.instance("A", "1").await["hostName"], "other");
    assert_eq!(sender.outbox.stats().conflicts, 1);
    // It came from there, so it does not go back.
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn what_was_not_taken_is_told_again_as_it_is_then_after_growing_waits() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100).duration(3600)).await;
    assert_eq!(sender.next().unwrap().len(), 1);
    let begun = sender.server.now().mono;
    sender.answered(503, &json!(null)).unwrap_err();
    assert_eq!(sender.outbox.due(), begun.plus(Duration::from_secs(1)));
    assert_eq!(sender.next(), None);
    sender.server.register(&Draft::new("A", "1", "DOWN", 101).duration(3600)).await;
    sender.server.pass(Duration::from_millis(600));
    let items = sender.next().unwrap();
    assert_eq!((items.len(), &items[0]["status"]), (1, &json!("DOWN")));
    let mut waits = Vec::new();
    for _ in 0..8 {
        let begun = sender.server.now().mono;
        sender.settle(&Outcome::Broken).unwrap_err();
        waits.push(sender.outbox.due().since(begun).as_millis());
        sender.server.pass(Duration::from_secs(31));
        assert_eq!(sender.next().unwrap().len(), 1);
    }
    assert!(waits.is_sorted() && waits[7] == 25_600, "{waits:?}");
    sender.settle(&Outcome::TimedOut).unwrap_err();
    assert_eq!(sender.outbox.due().since(sender.server.now().mono), Duration::from_secs(30));
    assert!(sender.outbox.backlog(&sender.server.registry) > 0);
    sender.server.pass(Duration::from_secs(31));
    assert_eq!(sender.told(), ["Register 1"]);
    assert_eq!(sender.outbox.backlog(&sender.server.registry), 0);
}

#[tokio::test]
async fn an_item_that_the_peer_cannot_take_is_found_and_given_up_alone() {
    let mut sender = Sender::new();
    for number in 0..20 {
        sender.server.register(&Draft::new("A", &format!("{number:02}"), "UP", 100)).await;
    }
    let mut taken = Vec::new();
    for _ in 0..60 {
        let Some(items) = sender.next() else { break };
        if items.iter().any(|item| item["id"] == "13") {
            sender.answered(500, &json!(null)).unwrap_err();
        } else {
            taken.extend(items.iter().map(short));
            sender.answer(&vec![200; items.len()]);
        }
    }
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 19);
    assert_eq!(sender.outbox.stats().dropped, 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_told_and_stops_nothing() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    for body in [json!({"other": 1}), json!({"responseList": []}), json!({"responseList": [{}]})] {
        sender.server.put("/A/1/metadata?k=v").await;
        let Some(items) = sender.next() else { continue };
        assert!(!items.is_empty());
        sender.answered(200, &body).unwrap_err();
    }
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn batches_hold_250_items_and_the_rest_follows_at_once() {
    let mut sender = Sender::new();
    for number in 0..600 {
        sender.server.register(&Draft::new("A", &number.to_string(), "UP", 100)).await;
    }
    let mut sizes = Vec::new();
    sender.server.pass(Duration::from_millis(500));
    while let Some(batch) = sender.outbox.next(&sender.server.registry, sender.server.now()) {
        sizes.push(batch.items);
        sender.answer(&vec![200; batch.items]);
    }
    assert_eq!(sizes, [250, 250, 100]);
}

#[tokio::test]
async fn two_servers_agree_and_fall_silent() {
    let mut sender = Sender::new();
    let other = Server::trusting();
    let server = &sender.server;
    server.register(&Draft::new("A", "1", "UP", 100)).await;
    server.put("/A/1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    let mut native = Instance::new(InstanceKey { app: "N".into(), id: "n".into(), ..InstanceKey::default() });
    native.host_name = "h".into();
    native.ip_address = "10.0.0.1".into();
    native.data_center.name = "MyOwn".into();
    native.port = Some(heureka_model::Port { number: 1, enabled: true });
    native.secure_port = Some(heureka_model::Port { number: 2, enabled: false });
    native.ports.push(NamedPort { name: "grpc".into(), number: 9090, protocol: "grpc".into() });
    native.locality.zone = "z".into();
    let claim = Claim::Writer(Writer { incarnation: [1; 16], version: 77, first: true });
    let origin = Origin::Client { surface: heureka_registry::Surface::Grpc, principal: None, address: None };
    server.registry.register(&native, claim, RegisterMode::Upsert, &origin, server.now()).unwrap();
    sender.carry(&other).await;
    assert_eq!(other.status("A", "1").await, "OUT_OF_SERVICE");
    assert_eq!(other.stored("A", "1").unwrap().override_status(), Some(Status::OutOfService));
    let copy = other.stored("N", "n").unwrap().instance;
    assert_eq!((copy.ports, copy.locality.zone.as_str()), (native.ports.clone(), "z"));
    // From here on nothing but renewals, and they are all equal.
    sender.server.beat("A", "1", "").await;
    assert_eq!(sender.carry(&other).await, 1);
    let head = other.registry.head();
    for _ in 0..5 {
        sender.server.beat("A", "1", "").await;
        sender.server.registry.renew(key("N", "n"), Beat::Plain, None, &origin, sender.server.now()).unwrap();
        assert_eq!(sender.carry(&other).await, 2);
    }
    assert_eq!((other.registry.head(), sender.outbox.stats().conflicts), (head, 0));
    let drain = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    sender
        .server
        .registry
        .set_override(key("N", "n"), drain, &Origin::Operator, sender.server.now())
        .unwrap();
    sender.server.delete("/A/1").await.assert_quiet(200);
    sender.carry(&other).await;
    assert_eq!(
        (other.status("A", "1").await, other.status("N", "n").await),
        (String::new(), "OUT_OF_SERVICE".into())
    );
}

/// What a peer lists.
fn list(instances: &[Value]) -> Vec<u8> {
    let app = json!({"name": "A", "instance": instances});
    json!({"applications": {"versions__delta": "1", "apps__hashcode": "UP_1_", "application": [app]}})
        .to_string()
        .into_bytes()
}

fn listed(draft: &Draft) -> Value {
    serde_json::from_str::<Value>(&draft.json()).unwrap()["instance"].take()
}

#[tokio::test]
async fn a_list_shows_what_the_peer_missed() {
    let mut sender = Sender::new();
    for (id, stamp) in [("gone", 100), ("older", 200), ("newer", 100), ("alike", 100)] {
        sender.server.register(&Draft::new("A", id, "UP", stamp)).await;
    }
    sender.server.delete("/A/gone").await.assert_quiet(200);
    while !sender.told().is_empty() {}
    let document = list(&["gone", "older", "newer", "alike", "unknown"].map(|id| {
        let stamp = if id == "newer" { 300 } else { 100 };
        listed(&Draft::new("A", id, "UP", stamp).host(if id == "newer" { "theirs" } else { "h1.example" }))
    }));
    let now = sender.server.now();
    let found = peer::repair(&sender.server.registry, &document, &mut sender.outbox, now).unwrap();
    assert_eq!((found.taken, found.refused), (5, 0));
    let mut told = sender.told();
    told.sort();
    assert_eq!(told, ["Cancel gone", "Register older"]);
    assert_eq!(sender.server.instance("A", "newer").await["hostName"], "theirs");
    assert_eq!(sender.server.status("A", "unknown").await, "", "a heartbeat brings it, if it lives");
    assert_eq!(sender.next(), None);
}

#[tokio::test]
async fn an_instance_that_came_back_at_the_peer_with_its_old_stamp_comes_back_here() {
    let mut sender = Sender::new();
    sender.server.register(&Draft::new("A", "1", "UP", 100)).await;
    sender.told();
    sender.server.delete("/A/1").await.assert_quiet(200);
    sender.told();
    let removed = sender.server.clock_wall();
    let with_lease = |registered: u64| {
        let mut one = listed(&Draft::new("A", "1", "UP", 100));
        one["leaseInfo"]["registrationTimestamp"] = registered.into();
        list(&[one])
    };
    let now = sender.server.now();
    peer::repair(&sender.server.registry, &with_lease(removed - 5000), &mut sender.outbox, now).unwrap();
    assert_eq!(sender.told(), ["Cancel 1"]);
    let now = sender.server.now();
    peer::repair(&sender.server.registry, &with_lease(removed + 5000), &mut sender.outbox, now).unwrap();
    assert_eq!(sender.server.status("A", "1").await, "UP");
    assert_eq!(sender.next(), None);
}
