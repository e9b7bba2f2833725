//! XML as the original writes it, without its blanks. Every element has content that its reader can use: an
//! empty number loses some clients the whole answer.

use std::fmt::Display;
use std::io::Write as _;

use heureka_model::{Action, Registration};

use super::dto::{Compact, DataCenterDto, EMPTY_MAP, Full, LeaseDto, MetadataDto, PortDto, Word};
use super::xml_names;
use crate::negotiate::Shape;

/// `<instance>…</instance>` alone.
pub(crate) fn instance_document(out: &mut Vec<u8>, registration: &Registration, shape: Shape) {
    instance(out, registration, None, shape);
}

/// Beginning of an application, up to its instances.
pub(crate) fn open_application(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"<application>");
    text(out, "name", name);
}

/// One instance.
pub(crate) fn instance(out: &mut Vec<u8>, registration: &Registration, action: Option<Action>, shape: Shape) {
    match shape {
        Shape::Compact => compact(out, &Compact::of(registration, action)),
        Shape::Full | Shape::FirstVersion => {
            inside(out, "instance", |out| full(out, &shaped(registration, action, shape)));
        }
    }
}

/// What stands in an instance, in full.
pub(crate) fn members(out: &mut Vec<u8>, registration: &Registration, shape: Shape) {
    full(out, &shaped(registration, None, shape));
}

/// An element of texts, in their order.
pub(crate) fn map(out: &mut Vec<u8>, name: &str, pairs: &[(&str, String)]) {
    inside(out, name, |out| pairs.iter().for_each(|(name, value)| text(out, name, value)));
}

/// An element and what stands in it.
pub(crate) fn inside(out: &mut Vec<u8>, name: &str, content: impl FnOnce(&mut Vec<u8>)) {
    written(out, format_args!("<{name}>"));
    content(out);
    written(out, format_args!("</{name}>"));
}

fn shaped(registration: &Registration, action: Option<Action>, shape: Shape) -> Full<'_> {
    let dto = Full::of(registration, action);
    match shape {
        Shape::FirstVersion => Full { status: first_status(dto.status), ..dto },
        Shape::Full | Shape::Compact => dto,
    }
}

/// The first version of the surface knows three statuses and calls everything else DOWN.
fn first_status(status: Word) -> Word {
    if ["UP", "DOWN", "STARTING"].contains(&status) { status } else { "DOWN" }
}

/// Whether XML 1.0 lets a document hold the character.
pub(crate) fn is_legal(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn full(out: &mut Vec<u8>, dto: &Full<'_>) {
    text(out, "instanceId", dto.instance_id);
    text(out, "hostName", dto.host_name);
    text(out, "app", dto.app);
    text(out, "ipAddr", dto.ip_addr);
    optional(out, "sid", dto.sid);
    text(out, "status", dto.status);
    text(out, "overriddenstatus", dto.overridden_status);
    port(out, "port", &dto.port);
    port(out, "securePort", &dto.secure_port);
    plain(out, "countryId", dto.country_id);
    data_center(out, &dto.data_center_info);
    lease(out, &dto.lease_info);
    metadata(out, &dto.metadata);
    optional(out, "appGroupName", dto.app_group_name);
    optional(out, "homePageUrl", dto.home_page_url);
    optional(out, "statusPageUrl", dto.status_page_url);
    optional(out, "healthCheckUrl", dto.health_check_url);
    optional(out, "secureHealthCheckUrl", dto.secure_health_check_url);
    optional(out, "vipAddress", dto.vip_address);
    optional(out, "secureVipAddress", dto.secure_vip_address);
    text(out, "isCoordinatingDiscoveryServer", dto.is_coordinating_discovery_server);
    plain(out, "lastUpdatedTimestamp", dto.last_updated_timestamp.0);
    plain(out, "lastDirtyTimestamp", dto.last_dirty_timestamp.0);
    text(out, "actionType", dto.action_type);
    optional(out, "asgName", dto.asg_name);
}

fn compact(out: &mut Vec<u8>, dto: &Compact<'_>) {
    out.extend_from_slice(b"<instance>");
    text(out, "instanceId", dto.instance_id);
    text(out, "app", dto.app);
    text(out, "ipAddr", dto.ip_addr);
    optional(out, "vipAddress", dto.vip_address);
    optional(out, "secureVipAddress", dto.secure_vip_address);
    data_center(out, &dto.data_center_info);
    text(out, "hostName", dto.host_name);
    text(out, "status", dto.status);
    plain(out, "lastUpdatedTimestamp", dto.last_updated_timestamp);
    text(out, "actionType", dto.action_type);
    optional(out, "asgName", dto.asg_name);
    port(out, "port", &dto.port);
    port(out, "securePort", &dto.secure_port);
    out.extend_from_slice(b"</instance>");
}

fn port(out: &mut Vec<u8>, name: &str, dto: &PortDto) {
    written(out, format_args!("<{name} enabled=\"{}\">{}</{name}>", dto.enabled, dto.number));
}

fn data_center(out: &mut Vec<u8>, dto: &DataCenterDto<'_>) {
    written(out, format_args!("<dataCenterInfo class=\"{}\">", dto.class));
    text(out, "name", dto.name);
    if let Some(map) = &dto.metadata {
        metadata(out, map);
    }
    out.extend_from_slice(b"</dataCenterInfo>");
}

fn lease(out: &mut Vec<u8>, dto: &LeaseDto) {
    out.extend_from_slice(b"<leaseInfo>");
    plain(out, "renewalIntervalInSecs", dto.renewal_interval_in_secs);
    plain(out, "durationInSecs", dto.duration_in_secs);
    plain(out, "registrationTimestamp", dto.registration_timestamp);
    plain(out, "lastRenewalTimestamp", dto.last_renewal_timestamp);
    plain(out, "evictionTimestamp", dto.eviction_timestamp);
    plain(out, "serviceUpTimestamp", dto.service_up_timestamp);
    out.extend_from_slice(b"</leaseInfo>");
}

/// The empty key has no name in XML; JSON readers see it.
fn metadata(out: &mut Vec<u8>, dto: &MetadataDto<'_>) {
    let mut entries = dto.entries().filter(|(key, _)| !key.is_empty()).peekable();
    if entries.peek().is_none() {
        return written(out, format_args!("<metadata class=\"{EMPTY_MAP}\"/>"));
    }
    out.extend_from_slice(b"<metadata>");
    for (key, value) in entries {
        entry(out, key, value);
    }
    out.extend_from_slice(b"</metadata>");
}

fn entry(out: &mut Vec<u8>, key: &str, value: &str) {
    out.push(b'<');
    let start = out.len();
    xml_names::encode(out, key);
    let end = out.len();
    out.push(b'>');
    escape(out, value);
    out.extend_from_slice(b"</");
    out.extend_from_within(start..end);
    out.push(b'>');
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    written(out, format_args!("<{name}>"));
    escape(out, value);
    written(out, format_args!("</{name}>"));
}

fn optional(out: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        text(out, name, value);
    }
}

fn plain(out: &mut Vec<u8>, name: &str, value: impl Display) {
    written(out, format_args!("<{name}>{value}</{name}>"));
}

fn written(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("invariant: memory takes all");
}

/// The five characters that the original escapes, since some readers show the escapes to their users; a carriage
/// return by number, since readers would turn it into a line feed; and a sign for what XML cannot hold at all.
fn escape(out: &mut Vec<u8>, value: &str) {
    let mut copied = 0;
    for (position, character) in value.char_indices() {
        let replacement = match character {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&apos;",
            '\r' => "&#xd;",
            character if is_legal(character) => continue,
            _ => "\u{fffd}",
        };
        out.extend_from_slice(&value.as_bytes()[copied..position]);
        out.extend_from_slice(replacement.as_bytes());
        copied = position + character.len_utf8();
    }
    out.extend_from_slice(&value.as_bytes()[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_characters_are_escaped_and_illegal_ones_replaced() {
        let mut out = Vec::new();
        escape(&mut out, "<a b=\"1\">'&'</a>\r\n\t\0\u{1}\u{fffe}]]>é🚀");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "&lt;a b=&quot;1&quot;&gt;&apos;&amp;&apos;&lt;/a&gt;&#xd;\n\t\u{fffd}\u{fffd}\u{fffd}]]&gt;é🚀"
        );
    }
}
