//! What belongs to Spring Boot around the server.

use super::super::forms::{level, millis, number, prefix, size};
use super::{CREDENTIALS, Row, becomes, nothing, part, read, secret};

pub(super) const ROWS: &[Row] = &[
    part(&["server.port"], &["eureka.port"], "server.listen", "everything is on one port"),
    part(&["server.address"], &[], "server.listen", "an IP address, or `localhost`"),
    becomes(
        &["server.servlet.context-path", "server.context-path"],
        &[],
        "server.context_path",
        prefix,
        "gRPC paths have no prefix",
    ),
    nothing(&["server.shutdown"], &[], "the end is always graceful, within `drain.grace`"),
    becomes(&["spring.lifecycle.timeout-per-shutdown-phase"], &[], "drain.grace", millis, ""),
    becomes(
        &["server.max-http-request-header-size", "server.max-http-header-size"],
        &[],
        "limits.header_bytes",
        size,
        "of the names in one file the first counts",
    ),
    becomes(&["server.tomcat.max-connections"], &[], "limits.connections", number, ""),
    becomes(&["server.tomcat.keep-alive-timeout"], &[], "limits.idle_timeout", millis, ""),
    nothing(
        &["server.connection-timeout", "server.tomcat.connection-timeout"],
        &[],
        "`limits.first_byte_timeout` and `limits.header_timeout`",
    ),
    nothing(
        &["server.tomcat.*", "server.jetty.*", "server.undertow.*", "server.netty.*", "server.compression.*"],
        &[],
        "there is no servlet container; `limits.*` bounds connections, times and sizes",
    ),
    secret(
        &["server.ssl.key-store-password", "server.ssl.key-password", "server.ssl.trust-store-password"],
        &[],
        "a Java key store is not read; end TLS in front of the server",
    ),
    nothing(
        &["server.ssl.*", "spring.ssl.*"],
        &[],
        "a Java key store is not read; end TLS in front of the server",
    ),
    secret(&["spring.security.user.password", "security.user.password"], &[], CREDENTIALS),
    secret(&["spring.security.user.name", "security.user.name"], &[], CREDENTIALS),
    nothing(
        &["spring.security.*", "security.*"],
        &[],
        "who is served is said by `auth.users` and `auth.tokens`, for every path alike",
    ),
    becomes(&["logging.level.root"], &[], "log.filter", level, ""),
    nothing(&["logging.level.*"], &[], "loggers of Java have other names; `log.filter` takes levels of ours"),
    nothing(
        &["logging.*"],
        &[],
        "the log goes to standard error; `log.format` and `log.max_lines_per_second` shape it",
    ),
    nothing(&["management.*"], &[], "`/health/live`, `/health/ready` and `/metrics` are on the one port"),
    read(
        &[
            "spring.profiles",
            "spring.profiles.active",
            "spring.profiles.include",
            "spring.profiles.default",
            "spring.profiles.group.*",
            "spring.config.activate.on-profile",
            "spring.config.activate.on-cloud-platform",
        ],
        &[],
        "tells which documents apply",
    ),
    nothing(
        &["spring.config.import", "spring.config.location", "spring.config.additional-location"],
        &[],
        "other files are not opened; name them with a further `--import-properties`",
    ),
    nothing(
        &["spring.application.*"],
        &[],
        "the server does not register itself; `server.cluster` names the cluster",
    ),
];
