//! Acknowledged writes.

use bytes::Bytes;
use heureka_model::{InstanceKey, Registration, Version};
use heureka_proto::v1;
use prost::Message;

use crate::Unreadable;

/// A call of `RegistryService` that was acknowledged, as it went over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrote {
    call: String,
    request: Bytes,
    response: Bytes,
    writes: Vec<Write>,
}

/// One write: what a watcher has to be told once a mark covers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) boot: u64,
    /// The log reached at least this with the write.
    pub(crate) revision: u64,
    pub(crate) key: InstanceKey,
    pub(crate) version: Version,
    pub(crate) state: State,
}

/// What a write left behind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    Removed,
    Live(Box<Registration>),
    /// The server kept what it had: a newer version of unknown content.
    Unknown,
}

/// Calls that can be recorded.
pub(crate) const CALLS: [&str; 6] =
    ["Register", "BatchRegister", "Cancel", "SetStatusOverride", "ClearStatusOverride", "UpdateMetadata"];

impl Wrote {
    /// A write by the name of its call and the bytes of request and response.
    ///
    /// # Errors
    /// When there is no such call or the bytes are not its messages.
    pub fn new(call: &str, request: Bytes, response: Bytes) -> Result<Self, Unreadable> {
        let writes = match call {
            "Register" => register(&decode(&request)?, &decode(&response)?)?,
            "BatchRegister" => batch(decode(&request)?, decode(&response)?)?,
            "Cancel" => cancel(decode(&request)?, &decode(&response)?)?,
            "SetStatusOverride" => {
                let v1::SetStatusOverrideResponse { header, instance } = decode(&response)?;
                delivered(header.as_ref(), instance)?
            }
            "ClearStatusOverride" => {
                let v1::ClearStatusOverrideResponse { header, instance } = decode(&response)?;
                delivered(header.as_ref(), instance)?
            }
            "UpdateMetadata" => {
                let v1::UpdateMetadataResponse { header, instance } = decode(&response)?;
                delivered(header.as_ref(), instance)?
            }
            _ => return Err(Unreadable::new(format!("wrote.call: {call:?} is none of {CALLS:?}"))),
        };
        Ok(Self { call: call.to_owned(), request, response, writes })
    }

    /// Name of the call.
    #[must_use]
    pub fn call(&self) -> &str {
        &self.call
    }

    /// Bytes of its request.
    #[must_use]
    pub fn request(&self) -> &Bytes {
        &self.request
    }

    /// Bytes of its response.
    #[must_use]
    pub fn response(&self) -> &Bytes {
        &self.response
    }

    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }
}

fn register(
    request: &v1::RegisterRequest,
    response: &v1::RegisterResponse,
) -> Result<Vec<Write>, Unreadable> {
    let header = header(response.header.as_ref())?;
    Ok(vec![registered(header, request, response)?])
}

fn batch(
    request: v1::BatchRegisterRequest,
    response: v1::BatchRegisterResponse,
) -> Result<Vec<Write>, Unreadable> {
    let header = header(response.header.as_ref())?;
    let pairs = request.requests.into_iter().zip(response.results);
    let accepted = pairs.filter(|(_, result)| result.status.as_ref().is_none_or(|status| status.code == 0));
    accepted
        .map(|(request, result)| registered(header, &request, &result.response.unwrap_or_default()))
        .collect()
}

fn registered(
    header: &v1::ResponseHeader,
    request: &v1::RegisterRequest,
    response: &v1::RegisterResponse,
) -> Result<Write, Unreadable> {
    let mut instance = request.instance.clone().unwrap_or_default();
    let version = version(response.version)?;
    let key = key(instance.key.clone())?;
    if !response.applied {
        return Ok(write(header, key, version, State::Unknown));
    }
    instance.version = response.version;
    instance.status_override = response.status_override;
    instance.reported_status =
        if instance.status == 0 { v1::InstanceStatus::Up.into() } else { instance.status };
    instance.status =
        if response.status_override == 0 { instance.reported_status } else { response.status_override };
    let live =
        Registration::try_from(instance).map_err(|fault| Unreadable::new(format!("wrote: {fault}")))?;
    Ok(write(header, key, version, State::Live(Box::new(live))))
}

fn cancel(request: v1::CancelRequest, response: &v1::CancelResponse) -> Result<Vec<Write>, Unreadable> {
    let header = header(response.header.as_ref())?;
    Ok(vec![write(header, key(request.key)?, version(response.version)?, State::Removed)])
}

fn delivered(
    sent: Option<&v1::ResponseHeader>,
    instance: Option<v1::Instance>,
) -> Result<Vec<Write>, Unreadable> {
    let header = header(sent)?;
    let instance = instance.unwrap_or_default();
    let live =
        Registration::try_from(instance).map_err(|fault| Unreadable::new(format!("wrote: {fault}")))?;
    let key = live.instance.key.clone();
    Ok(vec![write(header, key, live.version, State::Live(Box::new(live)))])
}

fn write(header: &v1::ResponseHeader, key: InstanceKey, version: Version, state: State) -> Write {
    Write { boot: header.boot, revision: header.revision, key, version, state }
}

fn header(sent: Option<&v1::ResponseHeader>) -> Result<&v1::ResponseHeader, Unreadable> {
    sent.ok_or_else(|| Unreadable::new("wrote.response: header is missing"))
}

fn version(sent: Option<v1::Version>) -> Result<Version, Unreadable> {
    sent.map(Into::into).ok_or_else(|| Unreadable::new("wrote.response: version is missing"))
}

fn key(sent: Option<v1::InstanceKey>) -> Result<InstanceKey, Unreadable> {
    sent.map(Into::into).ok_or_else(|| Unreadable::new("wrote.request: key is missing"))
}

fn decode<M: Message + Default>(bytes: &Bytes) -> Result<M, Unreadable> {
    M::decode(bytes.clone()).map_err(|fault| Unreadable::new(format!("wrote: {fault}")))
}
