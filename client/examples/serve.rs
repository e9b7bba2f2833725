//! What a service does about the registry: register, keep the lease, find another service, leave properly.
//!
//! `cargo run -p heureka-client --example serve -- http://127.0.0.1:8761`, and Ctrl-C to end it. More than one server
//! may be named.

use std::net::{Ipv4Addr, SocketAddr};
use std::process;

use heureka_client::model::{Instance, InstanceKey, Port, Status};
use heureka_client::tokio_stream::StreamExt as _;
use heureka_client::{Cache, Client, Endpoint, Error};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "printing is what the example is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(servers())?;
    // The service itself: whatever it does, it listens somewhere.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let lease = client.register(instance(listener.local_addr()?)).await?;
    println!("registered {} for {:?} at a time", lease.key(), lease.state().terms.duration());

    // Ready to work: from now on others may call, among them this process itself.
    lease.set_status(Status::Up);
    println!("BILLING can be called at {}", first_endpoint(&client.cache(Vec::new())).await?);

    tokio::signal::ctrl_c().await?;
    let was_there = lease.cancel().await?;
    println!("cancelled; the registry {} it", if was_there { "held" } else { "no longer held" });
    Ok(())
}

/// Waits until an instance is up.
async fn first_endpoint(cache: &Cache) -> Result<Endpoint, Error> {
    let mut changes = cache.changes();
    loop {
        match cache.pick("BILLING") {
            Err(error) if changes.next().await.is_none() => return Err(cache.fault().unwrap_or(error)),
            Err(_) => {}
            picked => return picked,
        }
    }
}

fn servers() -> Vec<String> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if named.is_empty() { vec!["http://127.0.0.1:8761".to_owned()] } else { named }
}

fn instance(address: SocketAddr) -> Instance {
    let id = format!("{address}:billing:{}", process::id());
    let key = InstanceKey { namespace: String::new(), app: "BILLING".to_owned(), id };
    Instance {
        status: Status::Starting,
        host_name: "localhost".to_owned(),
        ip_address: address.ip().to_string(),
        port: Some(Port { number: address.port(), enabled: true }),
        ..Instance::new(key)
    }
}
