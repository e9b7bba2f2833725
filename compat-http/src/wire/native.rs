//! What only the native contract knows of an instance, as metadata of the original's kind.
//!
//! A server of the original's kind keeps and passes on metadata, so an instance that goes there and comes back has
//! lost nothing. Ordinary readers of this surface are not shown these entries.

use heureka_model::{DrainPlan, Instance, Metadata, NamedPort, Wall};

/// Beginning of every reserved key.
const PREFIX: &str = "heureka.";
const PORT: &str = "heureka.port.";
const CAPACITY: &str = "heureka.capacity.";
const REGION: &str = "heureka.region";
const ZONE: &str = "heureka.zone";
const SUB_ZONE: &str = "heureka.sub_zone";
const WEIGHT: &str = "heureka.weight";
const DRAIN_START: &str = "heureka.drain.start";
const DRAIN_DEADLINE: &str = "heureka.drain.deadline";

/// The instance as a server of the original's kind can keep it: what that one does not know is in its metadata.
pub(crate) fn fold(instance: &mut Instance, drain: Option<DrainPlan>) {
    let mut told: Vec<(String, String)> = Vec::new();
    for port in instance.ports.drain(..) {
        let slash = if port.protocol.is_empty() { "" } else { "/" };
        told.push((format!("{PORT}{}", port.name), format!("{}{slash}{}", port.number, port.protocol)));
    }
    let locality = std::mem::take(&mut instance.locality);
    for (key, text) in [(REGION, locality.region), (ZONE, locality.zone), (SUB_ZONE, locality.sub_zone)] {
        if !text.is_empty() {
            told.push((key.to_owned(), text));
        }
    }
    let capacity = std::mem::take(&mut instance.capacity);
    told.extend(capacity.weight.map(|weight| (WEIGHT.to_owned(), weight.to_string())));
    told.extend(
        capacity.total.into_iter().map(|(name, total)| (format!("{CAPACITY}{name}"), total.to_string())),
    );
    let drain = drain.unwrap_or_default();
    for (key, at) in [(DRAIN_START, drain.start), (DRAIN_DEADLINE, drain.deadline)] {
        told.extend(at.map(|at| (key.to_owned(), at.0.to_string())));
    }
    instance.metadata.extend(told);
}

/// The reverse. Reserved keys that nobody knows, or whose value says nothing, stay metadata.
pub(crate) fn unfold(instance: &mut Instance) -> Option<DrainPlan> {
    if !instance.metadata.keys().any(|key| key.starts_with(PREFIX)) {
        return None;
    }
    let mut drain = DrainPlan::default();
    let metadata = std::mem::take(&mut instance.metadata);
    instance.metadata = metadata
        .into_iter()
        .filter(|(key, value)| take(instance, &mut drain, key, value).is_none())
        .collect::<Metadata>();
    (drain != DrainPlan::default()).then_some(drain)
}

/// Something when the entry was understood.
fn take(instance: &mut Instance, drain: &mut DrainPlan, key: &str, value: &str) -> Option<()> {
    if let Some(name) = key.strip_prefix(PORT).filter(|name| !name.is_empty()) {
        instance.ports.push(port(name, value)?);
        return Some(());
    }
    if let Some(name) = key.strip_prefix(CAPACITY).filter(|name| !name.is_empty()) {
        instance.capacity.total.insert(name.to_owned(), value.parse().ok()?);
        return Some(());
    }
    match key {
        REGION => value.clone_into(&mut instance.locality.region),
        ZONE => value.clone_into(&mut instance.locality.zone),
        SUB_ZONE => value.clone_into(&mut instance.locality.sub_zone),
        WEIGHT => instance.capacity.weight = Some(value.parse().ok()?),
        DRAIN_START => drain.start = Some(Wall(value.parse().ok()?)),
        DRAIN_DEADLINE => drain.deadline = Some(Wall(value.parse().ok()?)),
        _ => return None,
    }
    Some(())
}

fn port(name: &str, value: &str) -> Option<NamedPort> {
    let (number, protocol) = value.split_once('/').unwrap_or((value, ""));
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(NamedPort { name: name.to_owned(), number, protocol: protocol.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heureka_model::InstanceKey;

    fn instance() -> Instance {
        Instance::new(InstanceKey { app: "A".into(), id: "1".into(), ..InstanceKey::default() })
    }

    #[test]
    fn nothing_native_is_lost_on_the_way_through_metadata() {
        let mut native = instance();
        native.ports.push(NamedPort { name: "admin".into(), number: 1, protocol: String::new() });
        native.ports.push(NamedPort { name: "grpc".into(), number: 9090, protocol: "grpc".into() });
        native.locality.zone = "z1".into();
        native.locality.region = "r".into();
        native.capacity.weight = Some(0);
        native.capacity.total.insert("slots".into(), -8);
        native.metadata.insert("version".into(), "7".into());
        let drain = Some(DrainPlan { start: Some(Wall(5)), deadline: None });
        let mut folded = native.clone();
        fold(&mut folded, drain);
        assert_eq!(folded.metadata["heureka.port.grpc"], "9090/grpc");
        assert_eq!(folded.metadata["heureka.capacity.slots"], "-8");
        assert!(folded.ports.is_empty() && folded.locality.zone.is_empty());
        assert_eq!(unfold(&mut folded), drain);
        assert_eq!(folded, native);
    }

    #[test]
    fn what_says_nothing_stays_metadata() {
        let mut folded = instance();
        let entries =
            ["heureka.port.", "heureka.port.x", "heureka.weight", "heureka.new", "heureka.drain.start"];
        for key in entries {
            folded.metadata.insert(key.into(), "-1/".into());
        }
        let before = folded.clone();
        assert_eq!(unfold(&mut folded), None);
        assert_eq!(folded, before);
    }
}
