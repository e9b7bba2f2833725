//! The client.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::Stream;
use heureka_model::{Instance, InstanceKey, LeaseTerms, Status, Version};
use heureka_proto::convert::{duration, status, status_number};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::transport::{Channel, Endpoint};

use crate::clock::wall;
use crate::error::stored_owner;
use crate::watch;
use crate::writer::Writer;
use crate::{Error, Event, InstanceSelector};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead connection is found within this and the next.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one server. Shared by reference among any number of tasks.
#[derive(Debug)]
pub struct Client<T = Channel> {
    transport: T,
    writer: Mutex<Writer>,
}

/// Answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// No live instance had the key.
    pub created: bool,
    /// Version of the stored record.
    pub version: Version,
    /// Lease in force.
    pub lease: LeaseTerms,
    /// Operator's status in force.
    pub override_status: Option<Status>,
}

/// Answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Operator's status in force.
    pub override_status: Option<Status>,
    /// Wait before the next renewal.
    pub next: Duration,
}

impl Client {
    /// A client of the server at `uri`, for example `http://127.0.0.1:8761`. It connects with its first call and
    /// again whenever the connection is lost. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn connect(uri: &str) -> Result<Self, Error> {
        let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|_| Error::Address(uri.to_owned()))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        Ok(Self::over(endpoint.connect_lazy()))
    }
}

impl<T> Client<T>
where
    T: GrpcService<tonic::body::Body> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// A client over an existing transport.
    pub fn over(transport: T) -> Self {
        Self { transport, writer: Mutex::new(Writer::new(rand::random())) }
    }

    /// Registers an instance, or replaces its record.
    ///
    /// Writes are ordered, so that a copy that arrives late never undoes a later one. When another process holds
    /// a newer version of the same id, this one raises its own and wins once; two processes that share an id
    /// are a fault of their configuration.
    ///
    /// # Errors
    /// As `docs/errors.md` says.
    pub async fn register(&self, instance: Instance) -> Result<Registered, Error> {
        let key = instance.key.clone();
        let instance = v1::Instance::from(instance);
        let answer = self.register_once(instance.clone()).await;
        let response = match answer {
            Err(status) if self.raised(&status) => self.register_once(instance).await?,
            answer => answer?,
        };
        self.registered(&key, &response)
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// As `docs/errors.md` says; `LEASE_NOT_FOUND` and `INSTANCE_OUTDATED` ask for a registration.
    pub async fn renew(&self, key: &InstanceKey, report: Option<Status>) -> Result<Renewed, Error> {
        let request = v1::RenewRequest {
            key: Some(key.clone().into()),
            writer: self.writer().renewal(key),
            status: status_number(report),
        };
        let response = self.registry().renew(timed(request)).await?.into_inner();
        let next = response.next_renewal_in.unwrap_or_default();
        Ok(Renewed {
            override_status: status("status_override", response.status_override)?,
            next: duration("next_renewal_in", &next)?,
        })
    }

    /// Removes an instance; whether it was there. Cancelling again is no error.
    ///
    /// # Errors
    /// As `docs/errors.md` says.
    pub async fn cancel(&self, key: &InstanceKey) -> Result<bool, Error> {
        let response = match self.cancel_once(key).await {
            Err(status) if self.raised(&status) => self.cancel_once(key).await?,
            answer => answer?,
        };
        self.writer().forget(key, response.version.unwrap_or_default().owner);
        Ok(response.existed)
    }

    /// Every change of the instances that one of `selectors` matches; without any, of the whole default namespace.
    ///
    /// The stream begins with what is there, each instance as [`Event::Added`], then [`Event::Synced`]. It ends
    /// only after an error that no retry can mend; everything else it waits out and resumes.
    pub fn watch(
        &self,
        selectors: Vec<InstanceSelector>,
    ) -> impl Stream<Item = Result<Event, Error>> + use<T> {
        watch::events(DiscoveryServiceClient::new(self.transport.clone()), selectors)
    }

    fn registry(&self) -> RegistryServiceClient<T> {
        RegistryServiceClient::new(self.transport.clone())
    }

    async fn register_once(&self, instance: v1::Instance) -> Result<v1::RegisterResponse, tonic::Status> {
        let writer = Some(self.writer().next(wall()));
        let request = v1::RegisterRequest { instance: Some(instance), writer, mode: 0 };
        Ok(self.registry().register(timed(request)).await?.into_inner())
    }

    async fn cancel_once(&self, key: &InstanceKey) -> Result<v1::CancelResponse, tonic::Status> {
        let writer = Some(self.writer().next(wall()));
        let request = v1::CancelRequest { key: Some(key.clone().into()), writer };
        Ok(self.registry().cancel(timed(request)).await?.into_inner())
    }

    /// Whether the call was refused for a version that is now raised.
    fn raised(&self, status: &tonic::Status) -> bool {
        let stored = stored_owner(status);
        stored.is_some_and(|stored| {
            self.writer().raise(stored);
            true
        })
    }

    fn registered(&self, key: &InstanceKey, response: &v1::RegisterResponse) -> Result<Registered, Error> {
        let version = Version::from(response.version.unwrap_or_default());
        self.writer().acknowledge(key, version.owner);
        Ok(Registered {
            created: response.created,
            version,
            lease: LeaseTerms::try_from(&response.lease.unwrap_or_default())?,
            override_status: status("status_override", response.status_override)?,
        })
    }

    /// The writer's state is consistent after every statement, so a panic elsewhere does not spoil it.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timed<M>(message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
