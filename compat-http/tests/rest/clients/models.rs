//! Decoders of clients that read one shape only, or only a part of it. What one of them needs stands on every instance.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::readers::{Seen, array, decoded, object, text};

/// The lists of a full answer, whose root has no other member.
fn instances(document: &str) -> Result<Vec<Map<String, Value>>, String> {
    let root: Value = decoded(document)?;
    let list = object(only(&root, "applications")?)?.clone();
    let mut found = Vec::new();
    for app in array(&list, "application")? {
        for one in array(object(app)?, "instance")? {
            found.push(object(one)?.clone());
        }
    }
    Ok(found)
}

/// The only member of a root.
fn only<'a>(root: &'a Value, name: &str) -> Result<&'a Value, String> {
    let members = object(root)?;
    if members.len() != 1 {
        return Err(format!("{} members beside {name}", members.len()));
    }
    members.get(name).ok_or_else(|| format!("no {name}"))
}

fn key(one: &Map<String, Value>) -> Result<(String, String), String> {
    Ok((text(one, "app")?, text(one, "instanceId")?))
}

/// A number and a quoted flag.
fn port(one: &Map<String, Value>, name: &str) -> Result<(), String> {
    let port = object(one.get(name).ok_or_else(|| format!("no {name}"))?)?;
    let flag = text(port, "@enabled")?;
    let number = port.get("$").is_some_and(Value::is_u64);
    if number && ["true", "false"].contains(&flag.as_str()) {
        Ok(())
    } else {
        Err(format!("{name}: {port:?}"))
    }
}

/// APISIX indexes both ports, takes the address for a number and compares the statuses.
pub(super) fn apisix(document: &str) -> Result<Seen, String> {
    let mut seen = Seen::new();
    for one in instances(document)? {
        port(&one, "port")?;
        port(&one, "securePort")?;
        let address = text(&one, "ipAddr")?;
        address.parse::<IpAddr>().map_err(|error| format!("{address}: {error}"))?;
        text(&one, "status")?;
        text(&one, "overriddenStatus")?;
        seen.insert(key(&one)?);
    }
    Ok(seen)
}

/// Scripts for nginx, Kong's among them: lists are lists, whatever else there is.
pub(super) fn lua(document: &str) -> Result<Seen, String> {
    instances(document)?.iter().map(key).collect()
}

/// Quarkus' Stork: one application, its instances a list, both statuses in the one spelling that it knows.
pub(super) fn stork(document: &str) -> Result<Seen, String> {
    let root: Value = decoded(document)?;
    let app = object(only(&root, "application")?)?;
    let mut seen = Seen::new();
    for one in array(app, "instance")? {
        let one = object(one)?;
        text(one, "status")?;
        text(one, "overriddenStatus")?;
        port(one, "port")?;
        port(one, "securePort")?;
        text(one, "ipAddr")?;
        seen.insert(key(one)?);
    }
    Ok(seen)
}

/// Micronaut unwraps the root, of either kind, and takes what it finds below.
pub(super) fn micronaut(document: &str) -> Result<Seen, String> {
    if instances(document).is_ok() { lua(document) } else { stork(document) }
}

/// Sentinel's source of rules takes a text out of one instance's metadata.
pub(super) fn sentinel(document: &str) -> Result<Seen, String> {
    let root: Value = decoded(document)?;
    let one = object(only(&root, "instance")?)?;
    text(object(one.get("metadata").ok_or("no metadata")?)?, "turn")?;
    Ok(Seen::from([key(one)?]))
}

/// The crate eureka-client, whose records have no optional member but a few.
pub(super) fn rust(document: &str) -> Result<Seen, String> {
    let mut seen = Seen::new();
    for one in instances(document)? {
        for member in ["hostName", "ipAddr", "status", "vipAddress", "secureVipAddress"] {
            text(&one, member)?;
        }
        for member in ["homePageUrl", "statusPageUrl", "healthCheckUrl"] {
            text(&one, member)?;
        }
        port(&one, "port")?;
        port(&one, "securePort")?;
        let lease = object(one.get("leaseInfo").ok_or("no leaseInfo")?)?;
        if !lease.values().all(Value::is_u64) {
            return Err(format!("leaseInfo: {lease:?}"));
        }
        seen.insert(key(&one)?);
    }
    Ok(seen)
}

/// What breaks each of them: a place in a list of one instance, and what stands there.
#[test]
fn each_model_refuses_what_breaks_its_client() {
    let port = json!({"$": 1, "@enabled": "true"});
    let one = json!({"instanceId": "i", "app": "A", "hostName": "h", "ipAddr": "10.0.0.1", "status": "UP",
        "overriddenStatus": "UNKNOWN", "port": port, "securePort": port, "vipAddress": "a", "secureVipAddress": "a",
        "homePageUrl": "u", "statusPageUrl": "u", "healthCheckUrl": "u", "leaseInfo": {"durationInSecs": 30},
        "metadata": {"turn": "1"}});
    let list = json!({"applications": {"application": [{"name": "A", "instance": [one]}]}});
    let app = json!({"application": {"name": "A", "instance": [one]}});
    let single = json!({"instance": one});
    let [in_list, in_app] = ["/applications/application/0/instance/0", "/application/instance/0"];
    let table: [(crate::readers::Reader, &Value, String, Value); 14] = [
        (apisix, &list, format!("{in_list}/ipAddr"), "localhost".into()),
        (apisix, &list, format!("{in_list}/port"), Value::Null),
        (apisix, &list, format!("{in_list}/overriddenStatus"), Value::Null),
        (lua, &list, "/applications/application".into(), json!({})),
        (lua, &list, format!("{in_list}/instanceId"), "".into()),
        (stork, &app, "/application/instance".into(), one.clone()),
        (stork, &app, format!("{in_app}/overriddenStatus"), Value::Null),
        (micronaut, &list, "/applications".into(), Value::Null),
        (micronaut, &app, "/application".into(), Value::Null),
        (sentinel, &single, "/instance/metadata/turn".into(), 7.into()),
        (sentinel, &single, "/extra".into(), Value::Null),
        (rust, &list, format!("{in_list}/statusPageUrl"), Value::Null),
        (rust, &list, format!("{in_list}/securePort"), 443.into()),
        (rust, &list, format!("{in_list}/leaseInfo/durationInSecs"), "30".into()),
    ];
    for (reader, sound, place, value) in table {
        assert_eq!(reader(&sound.to_string()).unwrap().len(), 1, "{place}");
        let (parent, member) = place.rsplit_once('/').unwrap();
        let mut broken = sound.clone();
        broken.pointer_mut(parent).unwrap()[member] = value;
        assert!(reader(&broken.to_string()).is_err(), "{broken}");
    }
}
