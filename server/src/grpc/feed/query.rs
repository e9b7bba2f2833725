//! The parameters of a feed: the fields of a selector, by their names in a query.

use heureka_model::{Invalid, Status};
use heureka_proto::convert::status_number;
use heureka_proto::v1;

use crate::grpc::status::{Fault, Reason};

/// Names that are known, as faults tell them.
const NAMES: &str =
    "is none of namespace, app, vip, secure_vip, id, status, zone, client, interval, readings";

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) spec: v1::WatchSpec,
    pub(super) client_name: String,
}

/// Reads parameters; those of one name are a union, those of different names must hold together.
pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Asked, Fault> {
    let mut selector = v1::InstanceSelector::default();
    let (mut client_name, mut bookmark_interval, mut readings) = (String::new(), None, None);
    for (name, value) in parameters {
        // What stood there was no text.
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Fault::request(Invalid::malformed(name, "is not UTF-8")));
        }
        match name.as_str() {
            "namespace" => selector.namespace = value,
            "app" => selector.apps.push(value),
            "vip" => selector.vip_addresses.push(value),
            "secure_vip" => selector.secure_vip_addresses.push(value),
            "id" => selector.ids.push(value),
            "status" => selector.statuses.push(status(&value)?),
            "zone" => selector.zones.push(value),
            "client" => client_name = value,
            "readings" => readings = Some(wanted(&value)?),
            "interval" => bookmark_interval = Some(seconds(&value)?),
            _ => return Err(Fault::request(Invalid::malformed(name, NAMES))),
        }
    }
    let spec = v1::WatchSpec {
        selectors: vec![selector],
        bookmark_interval,
        readings: readings.flatten(),
        ..v1::WatchSpec::default()
    };
    Ok(Asked { spec, client_name })
}

fn seconds(text: &str) -> Result<prost_types::Duration, Fault> {
    let seconds = text.parse().ok().filter(|seconds| (1..=60).contains(seconds));
    let wrong = || Fault::request(Invalid::malformed("interval", "is no number of seconds from 1 to 60"));
    Ok(prost_types::Duration { seconds: seconds.ok_or_else(wrong)?, nanos: 0 })
}

fn wanted(text: &str) -> Result<Option<v1::ReadingsSpec>, Fault> {
    match text {
        "true" => Ok(Some(v1::ReadingsSpec::default())),
        "false" => Ok(None),
        _ => Err(Fault::request(Invalid::malformed("readings", "is neither true nor false"))),
    }
}

fn status(name: &str) -> Result<i32, Fault> {
    let unknown = || Invalid::malformed("status", "is none of UP, DOWN, STARTING, OUT_OF_SERVICE, UNKNOWN");
    let status = Status::from_name(name).ok_or_else(|| Fault::invalid(Reason::InvalidSelector, unknown()))?;
    Ok(status_number(Some(status)))
}
