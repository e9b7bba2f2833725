//! Which resource a path names.
//!
//! `/eureka` and `/` are the roots, with `/v1` or `/v2` behind them or without. Repeated and trailing slashes count
//! for nothing. A path is split first and each segment decoded once, so an id may hold a slash as `%2F`;
//! `+` is itself.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::error::Error;

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// All applications.
    Applications,
    /// What changed of them lately.
    Delta,
    /// One application: its name as sent.
    Application(Cow<'a, str>),
    /// One instance of an application.
    Instance(Cow<'a, str>, Cow<'a, str>),
    /// The operator's status of an instance.
    Status(Cow<'a, str>, Cow<'a, str>),
    /// The metadata of an instance.
    Metadata(Cow<'a, str>, Cow<'a, str>),
    /// An instance by its id alone.
    InstanceById(Cow<'a, str>),
    /// The instances behind a virtual address.
    Vip(Cow<'a, str>),
    /// The instances behind a secure virtual address.
    SecureVip(Cow<'a, str>),
    /// What another server was told, in batches.
    Batch,
    /// Whether an auto scaling group is enabled.
    ScalingGroup,
    /// What the server says of itself.
    ServerStatus,
    /// The operator's statuses of all instances.
    StatusOverrides,
}

/// Version of the surface that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Knows the statuses UP, DOWN and STARTING only, in XML.
    V1,
    /// The usual one, also of a path that names none.
    V2,
}

/// More segments than the longest resource has, roots included.
const SEGMENTS_MAX: usize = 6;

impl<'a> Resource<'a> {
    /// The resource under `path`, which begins with `context`, and the version it is asked in.
    ///
    /// # Errors
    /// `NotFound` when nothing is served there, `Path` when a segment cannot be decoded.
    pub(crate) fn parse(path: &'a str, context: &str) -> Result<(Self, Version), Error> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        for expected in context.split('/').filter(|segment| !segment.is_empty()) {
            if segments.next() != Some(expected) {
                return Err(Error::NotFound);
            }
        }
        let mut buffer = [""; SEGMENTS_MAX];
        let mut count = 0;
        for segment in segments {
            *buffer.get_mut(count).ok_or(Error::NotFound)? = segment;
            count += 1;
        }
        let (segments, version) = without_root(&buffer[..count]);
        Ok((Self::of_segments(segments)?, version))
    }

    fn of_segments(segments: &[&'a str]) -> Result<Self, Error> {
        Ok(match *segments {
            ["apps"] => Self::Applications,
            ["apps", "delta"] => Self::Delta,
            ["apps", app] => Self::Application(decode(app)?),
            ["apps", app, id] => Self::Instance(decode(app)?, decode(id)?),
            ["apps", app, id, "status"] => Self::Status(decode(app)?, decode(id)?),
            ["apps", app, id, "metadata"] => Self::Metadata(decode(app)?, decode(id)?),
            ["instances", id] => Self::InstanceById(decode(id)?),
            ["vips", vip] => Self::Vip(decode(vip)?),
            ["svips", vip] => Self::SecureVip(decode(vip)?),
            ["peerreplication", "batch"] => Self::Batch,
            ["asg", _, "status"] => Self::ScalingGroup,
            ["status"] => Self::ServerStatus,
            ["serverinfo", "statusoverrides"] => Self::StatusOverrides,
            _ => return Err(Error::NotFound),
        })
    }

    /// Whether the verb changes what readers see. A heartbeat does not, and a batch is of a server that has it.
    pub(crate) fn is_written_by(&self, verb: &Method) -> bool {
        match self {
            Self::Application(_) => verb == Method::POST,
            Self::Instance(..) => verb == Method::DELETE,
            Self::Status(..) | Self::Metadata(..) => verb == Method::PUT || verb == Method::DELETE,
            _ => false,
        }
    }

    /// Whether a reader is told of instances here, for which the server has to know them.
    pub(crate) fn tells_instances(&self) -> bool {
        !matches!(self, Self::Status(..) | Self::Metadata(..) | Self::ScalingGroup | Self::ServerStatus)
    }

    /// Whether `PUT` is served here.
    pub(crate) fn is_put(&self) -> bool {
        matches!(self, Self::Instance(..) | Self::Status(..) | Self::Metadata(..) | Self::ScalingGroup)
    }

    /// Verbs served here, as an `Allow` header lists them.
    pub(crate) fn allowed(&self) -> &'static str {
        match self {
            Self::Application(_) => "GET, HEAD, OPTIONS, POST",
            Self::Instance(..) => "DELETE, GET, HEAD, OPTIONS, PUT",
            Self::Status(..) => "DELETE, OPTIONS, PUT",
            Self::Metadata(..) | Self::ScalingGroup => "OPTIONS, PUT",
            Self::Batch => "OPTIONS, POST",
            _ => "GET, HEAD, OPTIONS",
        }
    }
}

fn without_root<'s, 'a>(segments: &'s [&'a str]) -> (&'s [&'a str], Version) {
    let segments = segments.strip_prefix(&["eureka"]).unwrap_or(segments);
    match segments {
        [version, rest @ ..] if version.eq_ignore_ascii_case("v1") => (rest, Version::V1),
        [version, rest @ ..] if version.eq_ignore_ascii_case("v2") => (rest, Version::V2),
        rest => (rest, Version::V2),
    }
}

/// Decodes a segment once.
fn decode(segment: &str) -> Result<Cow<'_, str>, Error> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    if has_broken_escape(segment.as_bytes()) {
        return Err(Error::Path("% is followed by two hexadecimal digits"));
    }
    let text =
        percent_decode_str(segment).decode_utf8().map_err(|_| Error::Path("a segment is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(Error::Path("a segment holds a control character"));
    }
    Ok(text)
}

fn has_broken_escape(segment: &[u8]) -> bool {
    segment.iter().enumerate().filter(|(_, byte)| **byte == b'%').any(|(at, _)| {
        !segment.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse<'a>(path: &'a str, context: &str) -> Result<Resource<'a>, Error> {
        Resource::parse(path, context).map(|(resource, _)| resource)
    }

    fn instance(app: &str, id: &str) -> Resource<'static> {
        Resource::Instance(app.to_owned().into(), id.to_owned().into())
    }

    #[test]
    fn every_root_and_any_number_of_slashes_name_the_same() {
        for root in [
            "/eureka",
            "/eureka/v2",
            "/v2",
            "",
            "//eureka",
            "/eureka//v2/",
            "/eureka/v1",
            "/V1",
            "/eureka/V2",
        ] {
            for (path, expected) in [
                ("/apps", Resource::Applications),
                ("/apps/", Resource::Applications),
                ("//apps//", Resource::Applications),
                ("/apps/delta/", Resource::Delta),
                ("/apps/DELTA", Resource::Application("DELTA".into())),
                ("/apps//SL///s1/", instance("SL", "s1")),
                ("/apps/SL/s1/status", Resource::Status("SL".into(), "s1".into())),
                ("/apps/SL/s1/metadata/", Resource::Metadata("SL".into(), "s1".into())),
                ("/instances/s1", Resource::InstanceById("s1".into())),
                ("/vips/a,b", Resource::Vip("a,b".into())),
                ("/svips/v", Resource::SecureVip("v".into())),
                ("/peerreplication/batch", Resource::Batch),
                ("//peerreplication//batch/", Resource::Batch),
                ("/asg/group/status", Resource::ScalingGroup),
                ("/status/", Resource::ServerStatus),
                ("/serverinfo/statusoverrides", Resource::StatusOverrides),
            ] {
                assert_eq!(parse(&format!("{root}{path}"), "").unwrap(), expected, "{root}{path}");
            }
        }
    }

    #[test]
    fn a_path_names_its_version_or_means_the_second() {
        for path in ["/eureka/v1/apps", "/v1/apps", "/eureka/V1/apps/A/1"] {
            assert_eq!(Resource::parse(path, "").unwrap().1, Version::V1, "{path}");
        }
        for path in ["/eureka/apps", "/apps", "/v2/apps", "/eureka/V2/apps", "/apps/v1"] {
            assert_eq!(Resource::parse(path, "").unwrap().1, Version::V2, "{path}");
        }
    }

    #[test]
    fn what_is_not_served_is_not_found() {
        for path in [
            "/",
            "",
            "/eureka",
            "/eureka/appsSL",
            "/eureka/Apps",
            "/Eureka/apps",
            "/eureka/v3/apps",
            "/eureka/v2x/apps",
            "/eureka/v1/v2/apps",
            "/eureka/v2/v2/apps",
            "/asg",
            "/asg/group",
            "/serverinfo",
            "/status/overrides",
            "/v2/eureka/apps",
            "/apps/A/b/c",
            "/apps/A/b/status/d",
            "/vips",
            "/vips/",
            "/vips/a/b",
            "/instances",
            "/eureka/./apps",
            "/eureka/x/../apps",
            "/a/b/c/d/e/f/g/h",
        ] {
            assert!(matches!(parse(path, ""), Err(Error::NotFound)), "{path}");
        }
    }

    #[test]
    fn segments_are_decoded_once_and_after_splitting() {
        for (path, id) in [
            ("host%3Aapp%3A8080", "host:app:8080"),
            ("host:app:8080", "host:app:8080"),
            ("svc%231.0", "svc#1.0"),
            ("100%25", "100%"),
            ("a%20b", "a b"),
            ("a+b", "a+b"),
            ("a%2Bb", "a+b"),
            ("x%2F10.0.0.1%3A80", "x/10.0.0.1:80"),
            ("q%3Fx=1", "q?x=1"),
            ("semi;v=1", "semi;v=1"),
            ("..", ".."),
            ("%C3%A9", "é"),
            ("a%252Fb", "a%2Fb"),
        ] {
            assert_eq!(parse(&format!("/apps/IDS/{path}"), "").unwrap(), instance("IDS", id));
        }
    }

    #[test]
    fn a_segment_that_cannot_be_decoded_is_refused() {
        for segment in ["%zz", "%", "%4", "a%", "%ff", "%C3", "%00", "%0A"] {
            let path = format!("/apps/A/{segment}");
            assert!(matches!(parse(&path, ""), Err(Error::Path(_))), "{segment}");
        }
    }

    #[test]
    fn everything_is_served_under_the_context_path_and_nothing_beside_it() {
        for context in ["/reg/inner", "reg/inner/"] {
            assert_eq!(parse("//reg/inner/eureka/apps", context).unwrap(), Resource::Applications);
            assert_eq!(parse("/reg/inner/apps", context).unwrap(), Resource::Applications);
            assert!(matches!(parse("/eureka/apps", context), Err(Error::NotFound)));
            assert!(matches!(parse("/reg/eureka/apps", context), Err(Error::NotFound)));
        }
    }

    proptest! {
        #[test]
        fn no_path_makes_the_parser_fail(path in "(/?(apps|eureka|v2|delta|vips|%2F|%|%zz|é|[a-z%/.+;]{0,4})){0,9}") {
            let _ = parse(&path, "");
            let _ = parse(&path, "eureka");
        }
    }
}
