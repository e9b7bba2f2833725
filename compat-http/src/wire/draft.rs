//! A registration as it is being read: every member optional until all of it is known.

use std::time::Duration;

use heureka_model::{
    DataCenter, Instance, InstanceKey, LeaseTerms, Metadata, Port, Status, Wall, canonical_app,
};

use super::scalar::Scalar;
use crate::error::Error;
use crate::negotiate::Format;

/// Members of a registration body, each as found or as absent. Empty texts are absent.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    instance_id: String,
    host_name: String,
    app: String,
    ip_address: String,
    sid: String,
    app_group: String,
    home_page: String,
    status_page: String,
    health_check: String,
    secure_health_check: String,
    vip_address: String,
    secure_vip_address: String,
    asg_name: String,
    status: Option<Status>,
    overridden: Option<Status>,
    country_id: Option<i32>,
    is_coordinating: Option<bool>,
    last_dirty: Option<Wall>,
    port: Option<Port>,
    secure_port: Option<Port>,
    lease: LeaseDraft,
    data_center: Option<DataCenterDraft>,
    metadata: Metadata,
}

/// Which of the two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortKind {
    Plain,
    Secure,
}

/// Members of a lease block.
#[derive(Debug, Default)]
struct LeaseDraft {
    renewal_interval: Option<i64>,
    duration: Option<i64>,
    /// When the server that tells it registered the instance; only servers tell it.
    registered: Option<i64>,
}

/// Members of a data-centre block.
#[derive(Debug, Default)]
pub(crate) struct DataCenterDraft {
    pub(crate) class_name: String,
    pub(crate) name: String,
    pub(crate) metadata: Metadata,
}

/// A registration that passed the original's checks.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The owner's record.
    pub(crate) instance: Instance,
    /// Member `overriddenStatus`, unless it says that there is no override.
    pub(crate) override_status: Option<Status>,
    /// When a server that passes the instance on registered it.
    pub(crate) registered: Option<Wall>,
}

const AMAZON: &str = "Amazon";
const AMAZON_ID: &str = "instance-id";
const NAMES: [&str; 3] = [AMAZON, "MyOwn", "Netflix"];
/// Largest number that a client may tell; what saturates lies beyond it.
const NUMBER_MAX: i64 = i64::MAX - 1;

impl Draft {
    /// Takes a member that is a word, a number or a flag; see [`Self::is_word`].
    ///
    /// # Errors
    /// `Invalid` when the member cannot be meant.
    pub(crate) fn set_word(&mut self, member: &str, value: Scalar<'_>, format: Format) -> Result<(), Error> {
        match member {
            "status" => self.status = status(value, format),
            "overriddenStatus" | "overriddenstatus" => self.overridden = status(value, format),
            "countryId" => self.country_id = country(&value)?,
            "isCoordinatingDiscoveryServer" => self.is_coordinating = value.flag(member).ok(),
            "lastDirtyTimestamp" => self.last_dirty = stamp(member, &value)?,
            _ => {}
        }
        Ok(())
    }

    /// Member `app` as sent.
    pub(crate) fn app(&self) -> &str {
        &self.app
    }

    /// Whether [`Self::set_word`] makes use of this member.
    pub(crate) fn is_word(member: &str) -> bool {
        matches!(
            member,
            "status"
                | "overriddenStatus"
                | "overriddenstatus"
                | "countryId"
                | "isCoordinatingDiscoveryServer"
                | "lastDirtyTimestamp"
        )
    }

    /// Place of a member that is kept as it is.
    pub(crate) fn text_member(&mut self, member: &str) -> Option<&mut String> {
        Some(match member {
            "instanceId" => &mut self.instance_id,
            "hostName" => &mut self.host_name,
            "app" => &mut self.app,
            "ipAddr" => &mut self.ip_address,
            "sid" => &mut self.sid,
            "appGroupName" => &mut self.app_group,
            "homePageUrl" => &mut self.home_page,
            "statusPageUrl" => &mut self.status_page,
            "healthCheckUrl" => &mut self.health_check,
            "secureHealthCheckUrl" => &mut self.secure_health_check,
            "vipAddress" => &mut self.vip_address,
            "secureVipAddress" => &mut self.secure_vip_address,
            "asgName" => &mut self.asg_name,
            _ => return None,
        })
    }

    /// Takes the number of a port; a null one is port 0.
    ///
    /// # Errors
    /// `Invalid` for what is no port number.
    pub(crate) fn set_port_number(&mut self, kind: PortKind, value: &Scalar<'_>) -> Result<(), Error> {
        let number = match value {
            Scalar::Null => 0,
            value => port_number(kind.member(), value)?,
        };
        self.port(kind).number = number;
        Ok(())
    }

    /// Takes the flag of a port.
    ///
    /// # Errors
    /// `Invalid` for what is no flag.
    pub(crate) fn set_port_enabled(&mut self, kind: PortKind, value: &Scalar<'_>) -> Result<(), Error> {
        let enabled = value.flag(kind.flag())?;
        self.port(kind).enabled = enabled;
        Ok(())
    }

    /// Forgets a port: an explicit null after a value.
    pub(crate) fn clear_port(&mut self, kind: PortKind) {
        *self.port_slot(kind) = None;
    }

    /// Notes that the port was told, were it with nothing in it.
    pub(crate) fn touch_port(&mut self, kind: PortKind) {
        self.port(kind);
    }

    /// The port as it stands, with the original's defaults for what was not told.
    fn port(&mut self, kind: PortKind) -> &mut Port {
        let default = kind.default_port();
        self.port_slot(kind).get_or_insert(default)
    }

    fn port_slot(&mut self, kind: PortKind) -> &mut Option<Port> {
        match kind {
            PortKind::Plain => &mut self.port,
            PortKind::Secure => &mut self.secure_port,
        }
    }

    /// Takes a member of the lease block. Of a server's own times in it only the first is of interest.
    ///
    /// # Errors
    /// `Invalid` for what is no whole number.
    pub(crate) fn set_lease(&mut self, member: &str, value: &Scalar<'_>) -> Result<(), Error> {
        let (slot, field) = match member {
            "renewalIntervalInSecs" => (&mut self.lease.renewal_interval, "leaseInfo.renewalIntervalInSecs"),
            "durationInSecs" => (&mut self.lease.duration, "leaseInfo.durationInSecs"),
            "registrationTimestamp" => (&mut self.lease.registered, "leaseInfo.registrationTimestamp"),
            _ => return Ok(()),
        };
        *slot = value.integer(field, NUMBER_MAX)?;
        Ok(())
    }

    /// Takes the data-centre block.
    pub(crate) fn set_data_center(&mut self, block: Option<DataCenterDraft>) {
        self.data_center = block;
    }

    /// Takes the metadata map.
    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.metadata = metadata;
    }

    /// The instance, checked in the original's order and words against the application of the path.
    ///
    /// # Errors
    /// `Missing`, `Mismatched`, or `Invalid` for a data centre that nobody knows.
    pub(crate) fn finish(mut self, path_app: &str, format: Format) -> Result<Parsed, Error> {
        let (id, implicit) = self.effective_id(format).ok_or(Error::Missing("instanceId"))?;
        let app = self.checked_app(path_app)?;
        let data_center = self.checked_data_center(&id)?;
        let override_status = self.overridden.filter(|status| *status != Status::Unknown);
        let mut instance = Instance::new(InstanceKey { namespace: String::new(), app, id });
        instance.legacy.implicit_id = implicit;
        instance.data_center = data_center;
        let registered = self.lease.registered();
        self.fill(&mut instance);
        Ok(Parsed { instance, override_status, registered })
    }

    /// The id under which the instance is filed, and whether it was derived.
    fn effective_id(&self, format: Format) -> Option<(String, bool)> {
        if !self.instance_id.is_empty() {
            return Some((self.instance_id.clone(), false));
        }
        let derived =
            self.angel_id(format).or_else(|| self.amazon_id()).unwrap_or_else(|| self.host_name.clone());
        (!derived.is_empty()).then_some((derived, true))
    }

    /// The first Spring clients sent their id as metadata, in JSON; without their host's name it is not unique.
    fn angel_id(&self, format: Format) -> Option<String> {
        let told = self.metadata.get("instanceId").filter(|id| !id.trim().is_empty())?;
        let whole = told.starts_with(&self.host_name);
        (format == Format::Json)
            .then(|| if whole { told.clone() } else { format!("{}:{told}", self.host_name) })
    }

    fn amazon_id(&self) -> Option<String> {
        let block = self.data_center.as_ref().filter(|block| block.resolved_name() == AMAZON)?;
        block.metadata.get(AMAZON_ID).filter(|id| !id.is_empty()).cloned()
    }

    fn checked_app(&self, path_app: &str) -> Result<String, Error> {
        let required =
            [(&self.host_name, "hostname"), (&self.ip_address, "ip address"), (&self.app, "appName")];
        if let Some((_, words)) = required.into_iter().find(|(text, _)| text.is_empty()) {
            return Err(Error::Missing(words));
        }
        let app = canonical_app(&self.app).into_owned();
        if app != path_app {
            return Err(Error::Mismatched { expected: path_app.to_owned(), actual: app });
        }
        Ok(app)
    }

    fn checked_data_center(&mut self, id: &str) -> Result<DataCenter, Error> {
        let mut block = self.data_center.take().ok_or(Error::Missing("dataCenterInfo"))?;
        let name = block.resolved_name().to_owned();
        if name.is_empty() {
            return Err(Error::Missing("dataCenterInfo Name"));
        }
        if !NAMES.contains(&name.as_str()) {
            return Err(Error::malformed("dataCenterInfo.name", "expected MyOwn, Amazon or Netflix"));
        }
        if name == AMAZON {
            block.metadata.entry(AMAZON_ID.to_owned()).or_insert_with(|| id.to_owned());
        }
        Ok(DataCenter { name, class_name: block.class_name, metadata: block.metadata })
    }

    fn fill(self, instance: &mut Instance) {
        instance.status = self.status.unwrap_or(Status::Up);
        instance.host_name = self.host_name;
        instance.ip_address = self.ip_address;
        instance.app_group = self.app_group.to_uppercase();
        instance.vip_address = self.vip_address;
        instance.secure_vip_address = self.secure_vip_address;
        instance.urls.home_page = self.home_page;
        instance.urls.status_page = self.status_page;
        instance.urls.health_check = self.health_check;
        instance.urls.secure_health_check = self.secure_health_check;
        instance.legacy.sid = if self.sid == "na" { String::new() } else { self.sid };
        instance.legacy.asg_name = self.asg_name;
        instance.legacy.country_id = self.country_id;
        instance.legacy.is_coordinating_discovery_server = self.is_coordinating;
        instance.port = self.port;
        instance.secure_port = self.secure_port;
        instance.lease = self.lease.terms();
        instance.last_dirty = self.last_dirty;
        instance.metadata = self.metadata;
    }
}

impl PortKind {
    /// Name of the member.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Plain => "port",
            Self::Secure => "securePort",
        }
    }

    /// Name of the flag in it.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Plain => "port.@enabled",
            Self::Secure => "securePort.@enabled",
        }
    }

    /// What the original takes and prints where the owner told nothing.
    pub(crate) fn default_port(self) -> Port {
        match self {
            Self::Plain => Port { number: 7001, enabled: true },
            Self::Secure => Port { number: 7002, enabled: false },
        }
    }
}

impl LeaseDraft {
    /// Zero is how the original writes that it does not know.
    fn registered(&self) -> Option<Wall> {
        let millis = self.registered.and_then(|millis| u64::try_from(millis).ok());
        millis.filter(|millis| *millis > 0).map(Wall)
    }

    /// Zero and less mean Eureka's own terms.
    fn terms(&self) -> LeaseTerms {
        let default = LeaseTerms::default();
        let seconds = |value: Option<i64>, default: Duration| {
            value
                .and_then(|value| u64::try_from(value).ok())
                .filter(|value| *value > 0)
                .map_or(default, Duration::from_secs)
        };
        LeaseTerms::clamped(
            seconds(self.renewal_interval, default.renewal_interval()),
            seconds(self.duration, default.duration()),
        )
    }
}

impl DataCenterDraft {
    /// In XML the class says nothing at all.
    pub(crate) fn let_name_decide(&mut self) {
        if self.resolved_name() != self.name {
            self.class_name.clear();
        }
    }

    /// The class decides only for Amazon, as in the original; nobody else's class tells anything.
    fn resolved_name(&self) -> &str {
        let amazon = self.class_name.ends_with(".AmazonInfo") || self.name.eq_ignore_ascii_case(AMAZON);
        if amazon { AMAZON } else { &self.name }
    }
}

/// XML readers of the original ignore case here, JSON readers do not; unknown texts are UNKNOWN in both.
fn status(value: Scalar<'_>, format: Format) -> Option<Status> {
    let text = value.label()?;
    let known = match format {
        Format::Json => Status::from_name(&text),
        Format::Xml => Status::from_name(&text.to_ascii_uppercase()),
    };
    Some(known.unwrap_or(Status::Unknown))
}

fn country(value: &Scalar<'_>) -> Result<Option<i32>, Error> {
    let number = value.integer("countryId", i64::from(i32::MAX))?;
    Ok(number.and_then(|number| i32::try_from(number).ok()))
}

/// A time before the epoch is older than all others; some languages' empty time lies there.
fn stamp(field: &str, value: &Scalar<'_>) -> Result<Option<Wall>, Error> {
    let millis = value.integer(field, NUMBER_MAX)?;
    Ok(millis.map(|millis| Wall(u64::try_from(millis).unwrap_or(0))))
}

fn port_number(field: &str, value: &Scalar<'_>) -> Result<u16, Error> {
    value.port(field)?.ok_or_else(|| Error::malformed(field, "expected a port number"))
}
