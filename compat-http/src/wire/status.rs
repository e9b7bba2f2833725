//! What a server says of itself, in the original's members: all of them texts, some with units in them.

use std::time::Duration;

use heureka_model::{LeaseTimes, Overlay, Registration, Version};

use super::{json, xml};
use crate::about::{Replica, ServerStatus};
use crate::negotiate::{Format, Shape};

const MEGABYTE: u64 = 1 << 20;
/// Root in XML: the original's class, since it never gave it another name.
const ROOT: &str = "com.netflix.eureka.util.StatusInfo";

type Pairs = Vec<(&'static str, String)>;

/// The document.
pub(crate) fn document(status: &ServerStatus, format: Format, shape: Shape) -> Vec<u8> {
    let (general, replicas) = (general(status), replicas(&status.replicas));
    let instance = status.instance.clone().map(|instance| Registration {
        instance,
        overlay: Overlay::default(),
        version: Version::default(),
        times: LeaseTimes::default(),
        revision: 0,
    });
    let mut out = Vec::with_capacity(2048);
    match format {
        Format::Json => in_json(&mut out, &general, &replicas, instance.as_ref()),
        Format::Xml => in_xml(&mut out, &general, &replicas, instance.as_ref(), shape),
    }
    out
}

fn in_json(out: &mut Vec<u8>, general: &Pairs, replicas: &Pairs, instance: Option<&Registration>) {
    out.extend_from_slice(b"{\"generalStats\":");
    json::map(out, general);
    out.extend_from_slice(b",\"applicationStats\":");
    json::map(out, replicas);
    if let Some(instance) = instance {
        out.extend_from_slice(b",\"instanceInfo\":");
        json::bare_instance(out, instance);
    }
    out.push(b'}');
}

fn in_xml(
    out: &mut Vec<u8>,
    general: &Pairs,
    replicas: &Pairs,
    instance: Option<&Registration>,
    shape: Shape,
) {
    xml::inside(out, ROOT, |out| {
        xml::map(out, "generalStats", general);
        xml::map(out, "applicationStats", replicas);
        if let Some(instance) = instance {
            xml::inside(out, "instanceInfo", |out| xml::members(out, instance, shape));
        }
    });
}

fn general(status: &ServerStatus) -> Pairs {
    let mut pairs = Vec::new();
    if !status.environment.is_empty() {
        pairs.push(("environment", status.environment.clone()));
    }
    if status.processors > 0 {
        pairs.push(("num-of-cpus", status.processors.to_string()));
    }
    if let Some(total) = status.memory_total {
        pairs.push(("total-avail-memory", format!("{}mb", total / MEGABYTE)));
    }
    if let Some(used) = status.memory_used {
        pairs.push(("current-memory-usage", memory_usage(used, status.memory_total)));
    }
    pairs.push(("server-uptime", uptime(status.uptime)));
    pairs
}

fn memory_usage(used: u64, total: Option<u64>) -> String {
    let megabytes = used / MEGABYTE;
    match total.filter(|total| *total > 0) {
        Some(total) => format!("{megabytes}mb ({}%)", used.saturating_mul(100) / total),
        None => format!("{megabytes}mb"),
    }
}

/// Days, hours and minutes.
fn uptime(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    let clock = format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    match minutes / (24 * 60) {
        0 => clock,
        1 => format!("1 day {clock}"),
        days => format!("{days} days {clock}"),
    }
}

/// The lists of those that are reached and of those that are not end with a comma, as the original's do.
fn replicas(all: &[Replica]) -> Pairs {
    let urls: Vec<&str> = all.iter().map(|replica| replica.url.as_str()).collect();
    let listed = |available: bool| {
        let those = all.iter().filter(|replica| replica.available == available);
        those.map(|replica| format!("{},", replica.url)).collect::<String>()
    };
    vec![
        ("registered-replicas", urls.join(", ")),
        ("available-replicas", listed(true)),
        ("unavailable-replicas", listed(false)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_told_in_the_originals_units() {
        for (minutes, told) in
            [(0, "00:00"), (61, "01:01"), (24 * 60 + 5, "1 day 00:05"), (50 * 60, "2 days 02:00")]
        {
            assert_eq!(uptime(Duration::from_secs(minutes * 60 + 59)), told);
        }
        assert_eq!(memory_usage(70 * MEGABYTE, Some(247 * MEGABYTE)), "70mb (28%)");
        assert_eq!(memory_usage(70 * MEGABYTE, None), "70mb");
        assert_eq!(memory_usage(MEGABYTE, Some(0)), "1mb");
    }
}
