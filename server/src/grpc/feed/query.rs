//! The parameters of a feed: the fields of a selector, by their names in a query.

use heureka_model::{Invalid, Status};
use heureka_proto::convert::status_number;
use heureka_proto::v1;

use crate::grpc::status::{Fault, Reason};
use crate::query::{Names, Parameters};

/// Parameters that are known.
const NAMES: Names = Names {
    one: &["namespace", "client", "interval", "readings"],
    many: &["app", "vip", "secure_vip", "id", "status", "zone"],
    otherwise: "is none of namespace, app, vip, secure_vip, id, status, zone, client, interval, readings",
};

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) spec: v1::WatchSpec,
    pub(super) client_name: String,
}

/// Reads parameters; those of one name are a union, those of different names must hold together.
pub(super) fn read(parameters: Parameters) -> Result<Asked, Fault> {
    let given = NAMES.read(parameters).map_err(Fault::request)?;
    let one = |name| given.one(name).unwrap_or_default().to_owned();
    let many = |name| given.many(name).map(str::to_owned).collect();
    let selector = v1::InstanceSelector {
        namespace: one("namespace"),
        apps: many("app"),
        vip_addresses: many("vip"),
        secure_vip_addresses: many("secure_vip"),
        ids: many("id"),
        statuses: given.many("status").map(status).collect::<Result<_, _>>()?,
        zones: many("zone"),
        ..v1::InstanceSelector::default()
    };
    let spec = v1::WatchSpec {
        selectors: vec![selector],
        bookmark_interval: given.one("interval").map(seconds).transpose()?,
        readings: given.one("readings").map(wanted).transpose()?.flatten(),
        ..v1::WatchSpec::default()
    };
    Ok(Asked { spec, client_name: one("client") })
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
