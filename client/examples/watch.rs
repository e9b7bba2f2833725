//! Prints every change of the registry: `cargo run -p heureka-client --example watch -- http://127.0.0.1:8761`.
//! More than one server may be named.

use heureka_client::tokio_stream::StreamExt as _;
use heureka_client::{Client, Error, Event};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "printing is what the example is for")]
async fn main() -> Result<(), Error> {
    let mut events = Client::connect(servers())?.watch(Vec::new());
    while let Some(event) = events.next().await {
        println!("{}", line(&event?));
    }
    Ok(())
}

fn servers() -> Vec<String> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if named.is_empty() { vec!["http://127.0.0.1:8761".to_owned()] } else { named }
}

fn line(event: &Event) -> String {
    match event {
        Event::Added(now) => format!("ADDED {} {}", now.instance.key, now.status()),
        Event::Modified(now) => format!("MODIFIED {} {}", now.instance.key, now.status()),
        Event::Removed { last, reason } => match reason {
            Some(reason) => format!("REMOVED {} {reason:?}", last.instance.key),
            None => format!("REMOVED {}", last.instance.key),
        },
        Event::Synced { instances } => format!("SYNCED {instances} instances"),
        Event::Reading(reading) => format!("READING {} {:?}", reading.key, reading.report),
        Event::Preserving(true) => "PRESERVING lapsed leases are held back".to_owned(),
        Event::Preserving(false) => "PRESERVING ended".to_owned(),
    }
}
