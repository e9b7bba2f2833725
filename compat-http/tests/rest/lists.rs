//! The lists out of the cache: fresh, bounded, and the same in every encoding.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use flate2::read::GzDecoder;
use heureka_compat_http::Config;

use crate::documents;
use crate::support::{Answer, Draft, Server};

async fn filled(config: Config) -> Server {
    let server = Server::with(config, heureka_registry::Config::default());
    for number in 0..400 {
        let extra = format!(r#","metadata":{{"number":"{number}"}}"#);
        let status = ["UP", "UP", "DOWN"][number % 3];
        server
            .register(
                &Draft::new(&format!("APP{}", number % 23), &number.to_string(), status, 1).extra(&extra),
            )
            .await;
    }
    server
}

async fn list(server: &Server, accept: &str, gzip: bool) -> Answer {
    let mut headers = vec![("accept", accept)];
    if gzip {
        headers.push(("accept-encoding", "gzip"));
    }
    server.send("GET", "/eureka/apps", &headers, Body::empty()).await
}

/// The text of a gzip answer, which must be one member with nothing behind it.
pub(crate) fn gunzipped(answer: &Answer) -> String {
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut decoder = GzDecoder::new(answer.body.as_slice());
    let mut text = String::new();
    decoder.read_to_string(&mut text).unwrap();
    assert!(decoder.into_inner().is_empty(), "a second member");
    text
}

fn leaves(text: &str) -> documents::Leaves {
    if text.starts_with('{') { documents::of_json(text) } else { documents::of_xml(text) }.unwrap()
}

#[tokio::test]
async fn a_list_says_the_same_plain_and_compressed() {
    let server = filled(Config::default()).await;
    for accept in ["application/json", "application/xml"] {
        let plain = list(&server, accept, false).await;
        let compressed = list(&server, accept, true).await;
        for answer in [&plain, &compressed] {
            assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
        }
        assert_eq!(gunzipped(&compressed), plain.text());
        assert!(compressed.body.len() * 5 < plain.body.len());
    }
}

/// A list in one form: the text, which plain and compressed answers share, and the tag of all four.
async fn agreed(server: &Server, path: &str, form: &[(&str, &str)]) -> (String, String) {
    let send = async |method: &str, more: &[(&str, &str)]| {
        let answer = server.send(method, path, &[form, more].concat(), Body::empty()).await;
        assert_eq!(answer.status, 200);
        answer
    };
    let gzip = [("accept-encoding", "gzip")];
    let (plain, compressed) = (send("GET", &[]).await, send("GET", &gzip).await);
    assert_eq!(gunzipped(&compressed), plain.text());
    for (answer, head) in [(&plain, send("HEAD", &[]).await), (&compressed, send("HEAD", &gzip).await)] {
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
        assert!(head.body.is_empty());
        for header in ["content-length", "content-encoding", "content-type", "etag"] {
            assert_eq!(answer.header(header), head.header(header), "{path} {header}");
        }
        assert_eq!(answer.header("etag"), plain.header("etag"));
    }
    (plain.text().to_owned(), plain.header("etag").unwrap().to_owned())
}

#[tokio::test]
async fn after_every_change_every_form_agrees_on_text_length_and_tag() {
    const FORMS: [&[(&str, &str)]; 5] = [
        &[("accept", "application/json")],
        &[("accept", "application/json"), ("x-eureka-accept", "compact")],
        &[],
        &[("x-eureka-accept", "compact")],
        &[("accept", "application/xml"), ("x-eureka-accept", "full")],
    ];
    let server = filled(Config::default()).await;
    for number in 0..200 {
        server.register(&Draft::new("LARGE", &number.to_string(), "UP", 1)).await;
    }
    let mut before = vec![String::new(); FORMS.len() * 2];
    for number in 0..40_u64 {
        let id = (number * 37 % 200).to_string();
        let app = if number % 3 == 0 { "LARGE".to_owned() } else { format!("APP{id}") };
        if number % 4 == 0 {
            server.delete(&format!("/{app}/{id}")).await;
            server.delete(&format!("/LARGE/{id}")).await;
        } else {
            let extra = format!(r#","metadata":{{"turn":"{number}"}}"#);
            server.register(&Draft::new(&app, &id, "DOWN", 2 + number).extra(&extra)).await;
        }
        let lists =
            FORMS.iter().flat_map(|form| ["/eureka/apps", "/eureka/apps/delta"].map(|path| (path, form)));
        for ((path, form), held) in lists.zip(&mut before) {
            let (text, tag) = agreed(&server, path, form).await;
            let turns = [format!("\"turn\":\"{number}\""), format!("<turn>{number}</turn>")];
            let is_told = number % 4 > 0 && !form.contains(&("x-eureka-accept", "compact"));
            assert_eq!(turns.iter().any(|turn| text.contains(turn)), is_told, "{number} {path} {form:?}");
            assert_ne!(tag, *held);
            let asked = [*form, &[("if-none-match", tag.as_str())]].concat();
            server.send("GET", path, &asked, Body::empty()).await.assert_quiet(304);
            *held = tag;
        }
    }
}

#[tokio::test]
async fn a_list_too_large_to_keep_is_streamed_and_says_the_same() {
    let kept = filled(Config::default()).await;
    let streamed = filled(Config { cache_max_bytes: 10_000, ..Config::default() }).await;
    for accept in ["application/json", "application/xml"] {
        let expected = leaves(list(&kept, accept, false).await.text());
        for round in 0..2 {
            let plain = list(&streamed, accept, false).await;
            assert_eq!(plain.header("content-length"), None, "round {round}");
            assert_eq!(leaves(plain.text()), expected);
            assert_eq!(leaves(&gunzipped(&list(&streamed, accept, true).await)), expected);
        }
    }
    let empty =
        Server::with(Config { cache_max_bytes: 0, ..Config::default() }, heureka_registry::Config::default());
    empty.register(&Draft::new("A", "1", "UP", 1)).await;
    list(&empty, "application/json", false).await;
    empty.delete("/A/1").await;
    let answer = list(&empty, "application/json", false).await;
    assert_eq!(answer.json()["applications"]["application"], serde_json::json!([]));
}

/// Ids of a document in the order of their text, and the hash unless it is one application.
fn told(answer: &Answer) -> (Vec<String>, Option<String>) {
    let document = answer.json();
    let apps = match &document["applications"]["application"] {
        serde_json::Value::Array(apps) => apps.clone(),
        _ => vec![document["application"].clone()],
    };
    let instances = apps.iter().flat_map(|app| app["instance"].as_array().unwrap());
    let mut ids: Vec<_> = instances.map(|one| one["instanceId"].as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    (ids, document["applications"]["apps__hashcode"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn applications_of_thousands_read_like_small_ones() {
    let server = Server::with(
        Config { cache_max_bytes: 100_000, ..Config::default() },
        heureka_registry::Config::default(),
    );
    let mut all = Vec::new();
    for number in 0..2500 {
        let app = if number < 100 { "SMALL" } else { "LARGE" };
        let secure = if number % 50 == 0 { "fifty" } else { "other" };
        let extra = format!(r#","secureVipAddress":"none, {secure}""#);
        all.push(format!("i{number:04}"));
        server.register(&Draft::new(app, &all[number], "UP", 1).extra(&extra)).await;
    }
    let read = async |path: &str| {
        told(&server.send("GET", path, &[("accept", "application/json")], Body::empty()).await)
    };
    let (small, large) = (all[..100].to_vec(), all[100..].to_vec());
    let fifties: Vec<_> = all.iter().step_by(50).cloned().collect();
    assert_eq!(read("/eureka/apps/LARGE").await, (large.clone(), None));
    assert_eq!(read("/eureka/vips/LARGE").await, (large, Some("UP_2400_".into())));
    assert_eq!(read("/eureka/vips/SMALL").await, (small, Some("UP_100_".into())));
    assert_eq!(read("/eureka/svips/fifty").await, (fifties, Some("UP_50_".into())));
    assert_eq!(read("/eureka/vips/small").await, (vec![], Some(String::new())));
    let streamed = list(&server, "application/json", false).await;
    assert_eq!(streamed.header("content-length"), None);
    assert_eq!(told(&streamed), (all, Some("UP_2500_".into())));
}

#[tokio::test]
async fn head_tells_length_and_type_without_a_body() {
    let server = filled(Config::default()).await;
    for path in [
        "/eureka/apps",
        "/eureka/apps/delta",
        "/eureka/apps/APP1",
        "/eureka/apps/APP1/1",
        "/eureka/vips/APP1",
    ] {
        let get = server.send("GET", path, &[("accept", "application/json")], Body::empty()).await;
        let head = server.send("HEAD", path, &[("accept", "application/json")], Body::empty()).await;
        assert!(head.body.is_empty());
        assert_eq!(head.status, 200);
        for header in ["content-length", "content-type"] {
            assert_eq!(head.header(header), get.header(header), "{path} {header}");
        }
    }
}

#[tokio::test]
async fn within_the_shortest_interval_a_list_may_be_old_and_not_beyond() {
    let interval = Duration::from_millis(100);
    let server = filled(Config { cache_min_interval: Some(interval), ..Config::default() }).await;
    let hash = async || server.json("").await["applications"]["apps__hashcode"].take();
    let before = hash().await;
    server.register(&Draft::new("NEW", "n", "STARTING", 1)).await;
    server.pass(Duration::from_millis(99));
    assert_eq!(hash().await, before);
    server.pass(Duration::from_millis(1));
    assert_eq!(hash().await, "DOWN_133_STARTING_1_UP_267_");
}

#[tokio::test]
async fn renewal_times_in_a_list_are_no_older_than_30_seconds() {
    let server = Server::new();
    server.register(&Draft::new("A", "1", "UP", 1)).await;
    let renewed = async || {
        let list = server.json("").await;
        list["applications"]["application"][0]["instance"][0]["leaseInfo"]["lastRenewalTimestamp"]
            .as_u64()
            .unwrap()
            - crate::support::START
    };
    assert_eq!(renewed().await, 0);
    server.pass(Duration::from_secs(20));
    server.beat("A", "1", "").await.assert_quiet(200);
    server.pass(Duration::from_millis(10_001));
    assert_eq!(renewed().await, 20_000);
    let single = server.instance("A", "1").await;
    assert_eq!(single["leaseInfo"]["lastRenewalTimestamp"], crate::support::START + 20_000);
}

#[tokio::test]
async fn all_slots_together_stay_within_the_bound() {
    // Room for one JSON list at a time, so that each format takes the other's place and both stay right.
    let server = filled(Config { cache_max_bytes: 400_000, ..Config::default() }).await;
    for _ in 0..3 {
        for accept in ["application/json", "application/xml"] {
            let answer = list(&server, accept, true).await;
            assert_eq!(leaves(&gunzipped(&answer)), leaves(list(&server, accept, false).await.text()));
        }
    }
}

#[tokio::test]
async fn a_delta_that_grew_shorter_by_age_has_another_number() {
    let server = Server::new();
    let told = async || {
        let delta = server.json("/delta").await;
        let number = delta["applications"]["versions__delta"].as_str().unwrap().to_owned();
        (number.parse::<u64>().unwrap(), delta["applications"]["application"].clone())
    };
    server.register(&Draft::new("OLD", "o", "UP", 1).duration(3600)).await;
    server.pass(Duration::from_secs(100));
    server.register(&Draft::new("NEW", "n", "UP", 1).duration(3600)).await;
    let (first, both) = told().await;
    server.pass(Duration::from_secs(100));
    let (second, one) = told().await;
    assert_ne!(both, one);
    assert!(second > first && first > 1, "{first} {second}");
}
