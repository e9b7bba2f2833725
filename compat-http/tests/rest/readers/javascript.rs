//! eureka-js-client: it takes lists and their lengths for granted, and in a delta finds an instance by host and port.

use serde_json::Value;

use super::{Seen, array, decoded, object, text};

pub(super) fn read(document: &str) -> Result<Seen, String> {
    let root: Value = decoded(document)?;
    let list = object(&object(&root)?["applications"])?;
    let mut seen = Seen::new();
    for app in array(list, "application")? {
        let app = object(app)?;
        for one in array(app, "instance")? {
            let one = object(one)?;
            text(one, "hostName")?;
            text(one, "status")?;
            if !one["port"]["$"].is_u64() {
                return Err(format!("port: {}", one["port"]));
            }
            // Split at its commas; without one it is passed over.
            if one.get("vipAddress").is_some_and(|vip| !vip.is_string()) {
                return Err(format!("vipAddress: {}", one["vipAddress"]));
            }
            seen.insert((text(one, "app")?, text(one, "instanceId")?));
        }
    }
    Ok(seen)
}
