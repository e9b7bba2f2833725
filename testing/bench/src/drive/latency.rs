//! How long one change takes to one watcher: from the request of the writer to the event at the watcher.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::runtime::Builder;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::requests;
use crate::instances::{self, Values};
use crate::report;
use crate::watch::Latencies;

/// Changes.
const CHANGES: usize = 2_000;

/// Rest between two changes, so that each meets a quiet server.
const REST: Duration = Duration::from_millis(1);

/// Prints the latency of a server.
///
/// # Errors
/// A call that fails.
pub(super) fn run(address: SocketAddr) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let latencies = runtime.block_on(measure(address)).map_err(io::Error::other)?;
    for (name, share, target) in [("p50", 0.5, "<= 0.40 ms"), ("p99", 0.99, "<= 1.0 ms")] {
        let figure = report::millis(latencies.at(share) / 1e9);
        report::line(&format!("one change to one watcher, {name}, request to event"), &figure, target);
    }
    Ok(())
}

async fn measure(address: SocketAddr) -> Result<Latencies, Box<dyn std::error::Error + Send + Sync>> {
    let writer = connect(address).await?;
    let mut writer = RegistryServiceClient::new(writer);
    let mut watcher = DiscoveryServiceClient::new(connect(address).await?);
    let mut events = watcher.watch(live()).await?.into_inner();
    let mut latencies = Latencies::default();
    for version in 0..CHANGES {
        let request = requests::register(&instances::instance(0, Values::Shared, version + 2));
        tokio::time::sleep(REST).await;
        let begun = latencies.begin();
        let heard = async { changed(&mut events).await.map(|()| latencies.end(begun)) };
        let (written, heard) = tokio::join!(writer.register(request), heard);
        written?;
        heard?;
    }
    Ok(latencies.sorted())
}

async fn connect(address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await
}

fn live() -> v1::WatchRequest {
    let spec = v1::WatchSpec { start_mode: v1::StartMode::LiveOnly.into(), ..v1::WatchSpec::default() };
    v1::WatchRequest { spec: Some(spec), ..v1::WatchRequest::default() }
}

/// Waits for the next change.
async fn changed(events: &mut Streaming<v1::WatchResponse>) -> Result<(), tonic::Status> {
    while let Some(message) = events.message().await? {
        if let Some(v1::WatchEvent { event: Some(v1::watch_event::Event::Changes(_)) }) = message.event {
            return Ok(());
        }
    }
    Err(tonic::Status::aborted("the watch ended"))
}
