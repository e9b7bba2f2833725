//! Merge is a least upper bound: whatever order states arrive in, and however often, all servers end alike.

use heureka_model::{DrainPlan, InstanceKey, Overlay, Stamp, Status, StatusOverride, Wall};
use proptest::prelude::*;

use super::support::instance;
use crate::{Content, KeyState, OwnerState};

fn stamp() -> impl Strategy<Value = Stamp> {
    (0..3_u64, 1..3_u64).prop_map(|(clock, boot)| Stamp { clock, boot })
}

/// What a version says. Equal versions mean equal content, so the content follows from the version.
fn content(version: u64, written: Stamp, honest: bool, salt: u8) -> Content {
    let salt = if honest { 0 } else { salt };
    match (version + written.clock + written.boot + u64::from(salt)) % 4 {
        0 => Content::Cancelled,
        1 => Content::Expired,
        other => {
            let mut live = instance("L", "k");
            live.app_group = format!("{version}-{written:?}-{salt}-{other}");
            Content::Live(Box::new(live))
        }
    }
}

fn overlay(stamp: Stamp) -> Overlay {
    let status = Status::ALL[(stamp.clock + stamp.boot) as usize % 5];
    Overlay {
        status: (stamp.clock > 0).then_some(StatusOverride { status, until: None }),
        drain: (stamp.boot == 2).then(DrainPlan::default),
    }
}

fn key_state(honest: bool) -> impl Strategy<Value = KeyState> {
    (0..3_u64, stamp(), stamp(), 0..3_u64, 0..4_u8).prop_map(
        move |(version, written, overlay_stamp, dirty, salt)| KeyState {
            key: InstanceKey { namespace: String::new(), app: "L".into(), id: "k".into() },
            owner: OwnerState {
                version,
                written,
                content: content(version, written, honest, salt),
                incarnation: version,
                dirty: Some(Wall(dirty)),
                updated: Wall(0),
                registered: Wall(0),
                service_up: Wall(0),
            },
            overlay_stamp,
            overlay: overlay(overlay_stamp),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn merging_twice_changes_nothing(state in key_state(false)) {
        prop_assert_eq!(state.clone().merge(state.clone()), state);
    }

    #[test]
    fn order_does_not_matter(a in key_state(false), b in key_state(false)) {
        prop_assert_eq!(a.clone().merge(b.clone()), b.merge(a));
    }

    #[test]
    fn grouping_does_not_matter(a in key_state(false), b in key_state(false), c in key_state(false)) {
        prop_assert_eq!(a.clone().merge(b.clone()).merge(c.clone()), a.merge(b.merge(c)));
    }

    #[test]
    fn no_version_is_lost(a in key_state(true), b in key_state(true)) {
        let merged = a.clone().merge(b.clone());
        prop_assert!(merged.version() >= a.version().max(b.version()));
    }

    #[test]
    fn equal_versions_end_with_equal_content(a in key_state(true), b in key_state(true)) {
        if a.version() == b.version() {
            prop_assert_eq!(&a.owner.content, &b.owner.content);
            prop_assert_eq!(a.overlay, b.overlay);
        }
    }
}
