//! Those that register nothing: gateways, meshes and libraries that look for others.

use super::models::{apisix, lua, sentinel, stork};
use super::{Client, Headers, JSON, Look, OTHER, Sees, XML};
use crate::readers::{go, xml};

const PLAIN: Headers = &[("accept", "application/json")];
const TYPED: Headers = &[("accept", "application/json;charset=utf-8")];
const STORK: Headers = &[("accept", "application/json;charset=UTF-8")];
/// What Traefik's library says on reads as well.
const TRAEFIK: Headers = &[("content-type", "application/json"), ("accept-encoding", "gzip")];

const fn watcher(name: &'static str, looks: &'static [Look]) -> Client {
    Client { name, app: OTHER.0, id: OTHER.1, joins: &[], beat: None, looks, leaves: &[] }
}

pub(super) const CLIENTS: &[Client] = &[
    watcher(
        "APISIX",
        &[Look { path: "/eureka/apps", headers: PLAIN, kind: JSON, reader: apisix, sees: Sees::Everything }],
    ),
    watcher(
        "Kong and nginx",
        &[
            Look { path: "/eureka/apps", headers: PLAIN, kind: JSON, reader: lua, sees: Sees::Everything },
            Look { path: "/eureka/v2/apps", headers: PLAIN, kind: JSON, reader: lua, sees: Sees::Everything },
        ],
    ),
    watcher(
        "Istio's adapter",
        &[Look {
            path: "/eureka/v2/apps",
            headers: PLAIN,
            kind: JSON,
            reader: go::read_as_fargo,
            sees: Sees::Everything,
        }],
    ),
    watcher(
        "Stork",
        &[
            Look {
                path: "/eureka/apps/other",
                headers: STORK,
                kind: JSON,
                reader: stork,
                sees: Sees::Itself,
            },
            Look {
                path: "/eureka/apps/OTHER",
                headers: STORK,
                kind: JSON,
                reader: stork,
                sees: Sees::Itself,
            },
        ],
    ),
    watcher(
        "Sentinel",
        &[Look {
            path: "/eureka/apps/OTHER/other",
            headers: TYPED,
            kind: JSON,
            reader: sentinel,
            sees: Sees::Itself,
        }],
    ),
    watcher(
        "Traefik 1",
        &[Look {
            path: "/eureka/apps",
            headers: TRAEFIK,
            kind: XML,
            reader: xml::read_as_prometheus,
            sees: Sees::Everything,
        }],
    ),
];
