//! What calls go over.

use std::time::Duration;

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
use tonic::transport::{Channel, Endpoint};

use crate::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead connection is found within this and the next.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Carries gRPC to one server. A name for a set of bounds: a [`Channel`] is one, and so is a service in the same
/// process or a layer around either.
pub trait Transport:
    GrpcService<
        Body,
        ResponseBody: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
        Error: Into<StdError>,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Transport for T where
    T: GrpcService<
            Body,
            ResponseBody: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
            Error: Into<StdError>,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// A connection that is opened by its first call, and again whenever it is lost. Pings find a dead one even when
/// nothing is sent.
pub(crate) fn lazy_channel(address: &str) -> Result<Channel, Error> {
    let endpoint = Endpoint::from_shared(address.to_owned());
    let endpoint = endpoint.map_err(|_| Error::Address(address.to_owned()))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_lazy())
}
