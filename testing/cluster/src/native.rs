//! The native contract's calls, as far as cases need them.

use std::time::Duration;

use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tonic::Status;
use tonic::transport::Channel;

/// An instance that is UP, with a lease of 90 s.
#[must_use]
pub fn instance(app: &str, id: &str) -> v1::Instance {
    v1::Instance {
        key: Some(key(app, id)),
        status: v1::InstanceStatus::Up.into(),
        ip_address: "10.0.0.1".to_owned(),
        host_name: "h1.example".to_owned(),
        port: Some(v1::Port { number: 8080, enabled: true }),
        vip_address: app.to_lowercase(),
        ..Default::default()
    }
}

/// A key of the default namespace.
#[must_use]
pub fn key(app: &str, id: &str) -> v1::InstanceKey {
    v1::InstanceKey { namespace: String::new(), app: app.to_owned(), id: id.to_owned() }
}

/// So many instances of an application.
#[must_use]
pub fn fleet(app: &str, count: usize) -> Vec<v1::Instance> {
    (0..count).map(|number| instance(app, &format!("i{number}"))).collect()
}

/// As [`fleet`], each with metadata of that size.
#[must_use]
pub fn padded(app: &str, count: usize, size: usize) -> Vec<v1::Instance> {
    let mut instances = fleet(app, count);
    for (number, instance) in instances.iter_mut().enumerate() {
        instance.metadata.insert("k".to_owned(), format!("{number:0size$}"));
    }
    instances
}

/// Registers without a writer.
///
/// # Errors
/// What the server says.
pub async fn register(channel: &Channel, instance: v1::Instance) -> Result<v1::RegisterResponse, Status> {
    let request = v1::RegisterRequest { instance: Some(instance), ..Default::default() };
    Ok(RegistryServiceClient::new(channel.clone()).register(request).await?.into_inner())
}

/// Registers many, a hundred in a call.
///
/// # Errors
/// What the server says of a call, or of the first of its items that it refuses.
pub async fn register_all(channel: &Channel, instances: Vec<v1::Instance>) -> anyhow::Result<()> {
    let mut client = RegistryServiceClient::new(channel.clone());
    for some in instances.chunks(100) {
        let request = |instance: &v1::Instance| v1::RegisterRequest {
            instance: Some(instance.clone()),
            ..Default::default()
        };
        let batch = v1::BatchRegisterRequest { requests: some.iter().map(request).collect() };
        let answer = client.batch_register(batch).await?.into_inner();
        for status in answer.results.into_iter().filter_map(|result| result.status) {
            anyhow::ensure!(status.code == 0, "batch register: {} {}", status.reason, status.message);
        }
    }
    Ok(())
}

/// Renews.
///
/// # Errors
/// What the server says.
pub async fn renew(channel: &Channel, app: &str, id: &str) -> Result<(), Status> {
    let request = v1::RenewRequest { key: Some(key(app, id)), ..Default::default() };
    RegistryServiceClient::new(channel.clone()).renew(request).await.map(drop)
}

/// Renews many of an application, a thousand in a call; how many were not there.
///
/// # Errors
/// What the server says of a call.
pub async fn renew_all(
    channel: &Channel,
    app: &str,
    ids: impl IntoIterator<Item = String>,
) -> Result<usize, Status> {
    let mut client = RegistryServiceClient::new(channel.clone());
    let ids: Vec<String> = ids.into_iter().collect();
    let mut missing = 0;
    for some in ids.chunks(1000) {
        let renew = |id: &String| v1::RenewRequest { key: Some(key(app, id)), ..Default::default() };
        let batch = v1::BatchRenewRequest { requests: some.iter().map(renew).collect() };
        missing += client.batch_renew(batch).await?.into_inner().failures.len();
    }
    Ok(missing)
}

/// With a lease of these terms.
#[must_use]
pub fn leased(instance: v1::Instance, interval: Duration, duration: Duration) -> v1::Instance {
    let wire = |duration: Duration| prost_types::Duration::try_from(duration).ok();
    let lease =
        v1::Lease { renewal_interval: wire(interval), duration: wire(duration), ..Default::default() };
    v1::Instance { lease: Some(lease), ..instance }
}
