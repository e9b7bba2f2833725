//! Versions.

use heureka_model::{Stamp, Version};

use crate::v1;

impl From<Version> for v1::Version {
    fn from(version: Version) -> Self {
        let [owner, clock, boot, overlay_clock, overlay_boot] = version.parts();
        Self { owner, clock, boot, overlay_clock, overlay_boot }
    }
}

impl From<v1::Version> for Version {
    fn from(version: v1::Version) -> Self {
        Self {
            owner: version.owner,
            written: Stamp { clock: version.clock, boot: version.boot },
            overlay: Stamp { clock: version.overlay_clock, boot: version.overlay_boot },
        }
    }
}
