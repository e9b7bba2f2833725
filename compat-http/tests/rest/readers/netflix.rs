//! Netflix's own client: a decoder that walks the tokens by hand. It knows its members, takes any plain value under
//! another name, and loses its place at anything else.

use serde_json::{Map, Value};

use super::{Seen, array, decoded, object, text};

const CLASSES: [&str; 3] = [
    "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
    "com.netflix.appinfo.MyDataCenterInfo",
    "com.netflix.appinfo.AmazonInfo",
];

/// Members of an instance that it reads as objects.
const OBJECTS: [&str; 5] = ["port", "securePort", "dataCenterInfo", "leaseInfo", "metadata"];

pub(super) fn read(document: &str) -> Result<Seen, String> {
    let root: Map<String, Value> = decoded(document)?;
    if root.keys().ne(["applications"]) {
        return Err("another root".to_owned());
    }
    let list = object(&root["applications"])?;
    plain(list, &["application"])?;
    text(list, "versions__delta")?.parse::<i64>().map_err(|error| error.to_string())?;
    let mut seen = Seen::new();
    for app in array(list, "application")? {
        let app = object(app)?;
        plain(app, &["instance"])?;
        for one in array(app, "instance")? {
            instance(object(one)?)?;
            seen.insert((text(app, "name")?, text(object(one)?, "instanceId")?));
        }
    }
    Ok(seen)
}

fn instance(one: &Map<String, Value>) -> Result<(), String> {
    plain(one, &OBJECTS)?;
    for port in ["port", "securePort"] {
        let port = object(&one[port])?;
        if !port.keys().all(|key| ["$", "@enabled"].contains(&key.as_str())) || port.len() != 2 {
            return Err(format!("a port with other members: {port:?}"));
        }
    }
    plain(object(&one["leaseInfo"])?, &[])?;
    plain(object(&one["metadata"])?, &[])?;
    let center = object(&one["dataCenterInfo"])?;
    plain(center, &["metadata"])?;
    let class = text(center, "@class")?;
    let amazon = class == CLASSES[2];
    if !CLASSES.contains(&class.as_str()) || amazon != center.contains_key("metadata") {
        return Err(format!("{class} with {center:?}"));
    }
    center.get("metadata").map_or(Ok(()), |metadata| plain(object(metadata)?, &[]))
}

/// No object, list or null but under these names.
fn plain(of: &Map<String, Value>, except: &[&str]) -> Result<(), String> {
    let nested = |value: &Value| value.is_object() || value.is_array() || value.is_null();
    match of.iter().find(|(key, value)| nested(value) && !except.contains(&key.as_str())) {
        Some((key, value)) => Err(format!("{key}: {value}")),
        None => Ok(()),
    }
}
