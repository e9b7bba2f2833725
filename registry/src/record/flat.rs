//! An instance as a list of texts, with what repeats inside it written as a mark.
//!
//! Ids, URLs and labels of an instance repeat its host, address and port. With those written as marks the texts
//! of all instances of an application tend to be equal, and equal texts are stored once.

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use foldhash::fast::FixedState;
use heureka_model::{Instance, LeaseTerms, NamedPort, Port};

use super::marks::Marks;
use super::tag::Tag;

/// The texts of an instance.
pub(crate) struct Flat<'a> {
    /// Tag, key and where the text ends.
    fields: Vec<(Tag, &'a str, usize)>,
    text: String,
    marks: Marks<'a>,
    shape: u64,
}

impl<'a> Flat<'a> {
    /// All texts of an instance.
    pub(crate) fn of(instance: &'a Instance) -> Self {
        let port = instance.port.map(|port| port.number);
        let marks = Marks::of(&instance.host_name, &instance.ip_address, port);
        let mut flat = Self::empty(marks);
        flat.addresses(instance);
        flat.places(instance);
        flat.names(instance);
        flat.legacy(instance);
        flat.seal()
    }

    /// The id alone: what a tombstone keeps.
    pub(crate) fn of_id(id: &'a str) -> Self {
        let mut flat = Self::empty(Marks::default());
        flat.push(Tag::Id, "", id);
        flat.seal()
    }

    /// Fields in order: tag, key inside the tag, marked text.
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (Tag, &str, &str)> {
        let mut start = 0;
        self.fields.iter().map(move |(tag, key, end)| {
            let text = &self.text[start..*end];
            start = *end;
            (*tag, *key, text)
        })
    }

    /// Hash of the tags and keys.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    fn empty(marks: Marks<'a>) -> Self {
        // Both stay below 1 KiB, which allocators hand out fastest, and suffice for most instances.
        Self { fields: Vec::with_capacity(32), text: String::with_capacity(512), marks, shape: 0 }
    }

    fn seal(mut self) -> Self {
        let mut hasher = FixedState::default().build_hasher();
        for (tag, key, _) in &self.fields {
            hasher.write_u8(*tag as u8);
            hasher.write(key.as_bytes());
            hasher.write_u8(0xff);
        }
        self.shape = hasher.finish();
        self
    }

    fn addresses(&mut self, instance: &'a Instance) {
        self.present(Tag::Host, &instance.host_name);
        self.present(Tag::Ip, &instance.ip_address);
        if let Some(port) = instance.port {
            self.write(Tag::Port, "", |text| port_text(text, port));
        }
        self.push(Tag::Id, "", &instance.key.id);
        if let Some(port) = instance.secure_port {
            self.write(Tag::SecurePort, "", |text| port_text(text, port));
        }
        for port in &instance.ports {
            self.write(Tag::NamedPort, &port.name, |text| {
                push_number(text, port.number);
                text.push('/');
                text.push_str(&port.protocol);
            });
        }
    }

    fn places(&mut self, instance: &'a Instance) {
        self.present(Tag::Region, &instance.locality.region);
        self.present(Tag::Zone, &instance.locality.zone);
        self.present(Tag::SubZone, &instance.locality.sub_zone);
        if let Some(weight) = instance.capacity.weight {
            self.number(Tag::Weight, "", i64::from(weight));
        }
        for (name, total) in &instance.capacity.total {
            self.number(Tag::Total, name, *total);
        }
        for (key, value) in &instance.metadata {
            self.push(Tag::Metadata, key, value);
        }
    }

    fn names(&mut self, instance: &'a Instance) {
        self.present(Tag::Vip, &instance.vip_address);
        self.present(Tag::SecureVip, &instance.secure_vip_address);
        self.present(Tag::Group, &instance.app_group);
        self.present(Tag::HomePage, &instance.urls.home_page);
        self.present(Tag::StatusPage, &instance.urls.status_page);
        self.present(Tag::HealthCheck, &instance.urls.health_check);
        self.present(Tag::SecureHealthCheck, &instance.urls.secure_health_check);
        self.present(Tag::DataCenterName, &instance.data_center.name);
        self.present(Tag::DataCenterClass, &instance.data_center.class_name);
        for (key, value) in &instance.data_center.metadata {
            self.push(Tag::DataCenterMetadata, key, value);
        }
    }

    fn legacy(&mut self, instance: &'a Instance) {
        let lease = instance.lease;
        self.write(Tag::Lease, "", |text| {
            push_number(text, lease.renewal_interval().as_millis());
            text.push('/');
            push_number(text, lease.duration().as_millis());
        });
        let legacy = &instance.legacy;
        self.present(Tag::Sid, &legacy.sid);
        if let Some(country) = legacy.country_id {
            self.number(Tag::Country, "", i64::from(country));
        }
        self.present(Tag::Asg, &legacy.asg_name);
        if let Some(coordinating) = legacy.is_coordinating_discovery_server {
            self.push(Tag::Coordinating, "", if coordinating { "1" } else { "0" });
        }
        if legacy.implicit_id {
            self.push(Tag::ImplicitId, "", "");
        }
    }

    fn present(&mut self, tag: Tag, text: &'a str) {
        if !text.is_empty() {
            self.push(tag, "", text);
        }
    }

    fn number(&mut self, tag: Tag, key: &'a str, number: i64) {
        self.write(tag, key, |text| push_number(text, number));
    }

    fn push(&mut self, tag: Tag, key: &'a str, text: &str) {
        self.marks.mark(tag, text, &mut self.text);
        self.fields.push((tag, key, self.text.len()));
    }

    /// Texts that we format ourselves hold no marks and repeat nothing.
    fn write(&mut self, tag: Tag, key: &'a str, format: impl FnOnce(&mut String)) {
        format(&mut self.text);
        self.fields.push((tag, key, self.text.len()));
    }
}

fn port_text(text: &mut String, port: Port) {
    push_number(text, port.number);
    if !port.enabled {
        text.push('-');
    }
}

fn push_number(text: &mut String, number: impl itoa::Integer) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// Writes one text back to where it came from. Texts that we wrote ourselves always parse.
pub(crate) fn restore(instance: &mut Instance, marks: &mut Marks<'_>, tag: Tag, key: &str, text: String) {
    marks.learn(tag, &text);
    match tag {
        Tag::Host => instance.host_name = text,
        Tag::Ip => instance.ip_address = text,
        Tag::Port => instance.port = parse_port(&text),
        Tag::Id => instance.key.id = text,
        Tag::SecurePort => instance.secure_port = parse_port(&text),
        Tag::NamedPort => instance.ports.extend(parse_named(key, &text)),
        Tag::Region => instance.locality.region = text,
        Tag::Zone => instance.locality.zone = text,
        Tag::SubZone => instance.locality.sub_zone = text,
        Tag::Weight => instance.capacity.weight = text.parse().ok(),
        Tag::Total => {
            instance.capacity.total.extend(text.parse().ok().map(|total| (key.to_owned(), total)));
        }
        Tag::Metadata => {
            instance.metadata.insert(key.to_owned(), text);
        }
        Tag::Vip => instance.vip_address = text,
        Tag::SecureVip => instance.secure_vip_address = text,
        Tag::Group => instance.app_group = text,
        Tag::HomePage => instance.urls.home_page = text,
        Tag::StatusPage => instance.urls.status_page = text,
        Tag::HealthCheck => instance.urls.health_check = text,
        Tag::SecureHealthCheck => instance.urls.secure_health_check = text,
        Tag::DataCenterName => instance.data_center.name = text,
        Tag::DataCenterClass => instance.data_center.class_name = text,
        Tag::DataCenterMetadata => {
            instance.data_center.metadata.insert(key.to_owned(), text);
        }
        Tag::Lease => instance.lease = parse_terms(&text),
        Tag::Sid => instance.legacy.sid = text,
        Tag::Country => instance.legacy.country_id = text.parse().ok(),
        Tag::Asg => instance.legacy.asg_name = text,
        Tag::Coordinating => instance.legacy.is_coordinating_discovery_server = Some(text == "1"),
        Tag::ImplicitId => instance.legacy.implicit_id = true,
    }
}

fn parse_port(text: &str) -> Option<Port> {
    let number = text.trim_end_matches('-');
    Some(Port { number: number.parse().ok()?, enabled: number.len() == text.len() })
}

fn parse_named(name: &str, text: &str) -> Option<NamedPort> {
    let (number, protocol) = text.split_once('/')?;
    Some(NamedPort { name: name.to_owned(), number: number.parse().ok()?, protocol: protocol.to_owned() })
}

pub(crate) fn parse_terms(text: &str) -> LeaseTerms {
    let (interval, duration) = text.split_once('/').unwrap_or_default();
    let millis = |text: &str| text.parse().map(Duration::from_millis).unwrap_or_default();
    LeaseTerms::clamped(millis(interval), millis(duration))
}
