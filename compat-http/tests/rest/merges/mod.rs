//! How clients keep their copy by deltas: the merges of the Java, Steeltoe and Python clients as models, each with
//! the habits that make an answer in the wrong order or with the wrong number cost a full fetch. Random histories
//! must never cost one, but where a client's own fault does.

mod copy;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::support::{Draft, Server};
use copy::{Client, Copy, Entry, Kept, List, everything, hash};

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
    let status = prop::sample::select(vec!["UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"]);
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
