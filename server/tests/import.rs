//! Configurations of Eureka servers and what they become: by the binary, for its exit code, output and complaints, and
//! by the library, for every rule.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use heureka_server::config::{Config, ConfigError, Sources};
use heureka_server::import::{Import, import, reference};
use proptest::prelude::*;
use tempfile::TempDir;

struct Files(TempDir);

impl Files {
    fn of(files: &[(&str, &[u8])]) -> (Self, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
        paths.iter().zip(files).for_each(|(path, (_, text))| std::fs::write(path, text).unwrap());
        (Self(folder), paths)
    }
}

fn load(toml: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heureka.toml");
    std::fs::write(&path, toml).unwrap();
    Config::load(&Sources { file: Some(path), ..Sources::default() })
}

/// What a file becomes, which loads; without the names of folders.
fn imported(name: &str, text: &[u8], profiles: &[&str]) -> Result<Import, String> {
    let (files, paths) = Files::of(&[(name, text)]);
    let profiles: Vec<_> = profiles.iter().map(|profile| (*profile).to_owned()).collect();
    let folder = format!("{}/", files.0.path().display());
    let done = import(&paths, &profiles).map_err(|error| error.to_string().replace(&folder, ""))?;
    load(&done.toml).unwrap_or_else(|error| panic!("{error}\n{}", done.toml));
    Ok(Import { toml: done.toml.replace(&folder, ""), ..done })
}

/// Settings as `section.key = value` and comments.
fn parts(toml: &str) -> (Vec<String>, Vec<String>) {
    let table: toml::Table = toml.parse().unwrap();
    let keys = |(section, keys): (&String, &toml::Value)| {
        let keys = keys.as_table().unwrap().iter();
        keys.map(|(key, value)| format!("{section}.{key} = {value}")).collect::<Vec<_>>()
    };
    let comments = toml.lines().filter(|line| line.starts_with("# "));
    (table.iter().flat_map(keys).collect(), comments.map(|line| line[2..].trim_start().to_owned()).collect())
}

fn settings(name: &str, text: &str) -> Vec<String> {
    parts(&imported(name, text.as_bytes(), &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).toml).0
}

fn comments(name: &str, text: &str) -> Vec<String> {
    parts(&imported(name, text.as_bytes(), &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).toml).1
}

/// One property and its setting, for every setting that a property alone becomes.
const SINGLE: &[(&str, &str)] = &[
    ("eureka.server.enable-self-preservation=false", "preservation.mode = \"off\""),
    ("eureka.server.enableSelfPreservation=true", "preservation.mode = \"budget\""),
    ("eureka.enableSelfPreservation=off", "preservation.mode = \"off\""),
    ("EUREKA_SERVER_ENABLESELFPRESERVATION=false", "preservation.mode = \"off\""),
    ("EUREKA_SERVER_ENABLE_SELF_PRESERVATION=false", "preservation.mode = \"off\""),
    ("eureka.server.renewal_percent_threshold=0.49", "preservation.threshold = 0.49"),
    ("eureka.renewalPercentThreshold=0.49", "preservation.threshold = 0.49"),
    ("eureka.server.eviction-interval-timer-in-ms=5000", "preservation.eureka_interval = \"5s\""),
    ("eureka.evictionIntervalTimerInMs=5000", "preservation.eureka_interval = \"5s\""),
    ("eureka.server.peer-eureka-nodes-update-interval-ms=600000", "peer.refresh = \"10m\""),
    ("eureka.peerEurekaNodesUpdateIntervalMs=60000", "peer.refresh = \"1m\""),
    ("eureka.server.peerNodeConnectTimeoutMs=200", "eureka.connect_timeout = \"200ms\""),
    ("eureka.peerNodeConnectTimeoutMs=PT1S", "eureka.connect_timeout = \"1s\""),
    ("eureka.server.peer-node-read-timeout-ms=2s", "eureka.read_timeout = \"2s\""),
    ("eureka.peerNodeReadTimeoutMs=2500", "eureka.read_timeout = \"2s 500ms\""),
    ("eureka.server.remote-region-registry-fetch-interval=45", "eureka.check_interval = \"45s\""),
    ("eureka.remoteRegion.registryFetchIntervalInSeconds=45", "eureka.check_interval = \"45s\""),
    ("eureka.dashboard.enabled=no", "server.page = false"),
    ("eureka.client.region=eu-west-1", "server.region = \"eu-west-1\""),
    ("eureka.region=eu-west-1", "server.region = \"eu-west-1\""),
    ("server.servlet.context-path=/registry", "server.context_path = \"/registry\""),
    ("server.context-path=/", "server.context_path = \"\""),
    ("spring.lifecycle.timeout-per-shutdown-phase=20s", "drain.grace = \"20s\""),
    ("server.max-http-request-header-size=32KB", "limits.header_bytes = \"32768B\""),
    ("server.max-http-header-size=32768", "limits.header_bytes = \"32768B\""),
    ("server.tomcat.max-connections=8192", "limits.connections = 8192"),
    ("server.tomcat.keep-alive-timeout=20000", "limits.idle_timeout = \"20s\""),
    ("logging.level.root=WARN", "log.filter = \"warn\""),
    ("logging.level.ROOT=off", "log.filter = \"off\""),
];

/// Whole files and all their settings.
const TOGETHER: &[(&str, &str, &[&str])] = &[
    ("a.properties", "server.port=8762", &["server.listen = \"[::]:8762\""]),
    ("a.properties", "server.port : 0\nserver.address 127.0.0.1", &["server.listen = \"127.0.0.1:0\""]),
    ("a.properties", "server.address=localhost", &["server.listen = \"127.0.0.1:8761\""]),
    ("a.properties", "SERVER_PORT=8762", &["server.listen = \"[::]:8762\""]),
    ("eureka-client.properties", "eureka.port=8080", &["server.listen = \"[::]:8080\""]),
    ("a.properties", "eureka.waitTimeInMsWhenSyncEmpty=30000", &["startup.hold = \"30s\""]),
    ("a.properties", "eureka.server.waitTimeInMsWhenSyncEmpty=30000", &[]),
    ("a.properties", "eureka.server.waitTimeInMsWhenSyncEmpty=0", &["startup.hold = \"0s\""]),
    (
        "a.properties",
        "eureka.server.waitTimeInMsWhenSyncEmpty=30000\neureka.instance.registry.defaultOpenForTrafficCount=0",
        &["startup.hold = \"30s\""],
    ),
    ("a.yml", "eureka.instance.metadata-map.zone: z1", &["server.zone = \"z1\""]),
    (
        "a.yml",
        "eureka.client: {region: eu, availability-zones: {eu: 'a, b'}, service-url: {a: 'http://a/eureka', b: 'http://b:8761/eureka/', c: 'http://c:1/'}}",
        &[
            "eureka.peers = [\"http://a:80/eureka/\", \"http://b:8761/eureka/\"]",
            "server.region = \"eu\"",
            "server.zone = \"a\"",
        ],
    ),
    (
        "eureka-client.properties",
        "eureka.region=eu\neureka.eu.availabilityZones=a,b\neureka.serviceUrl.a=http://a:1/v2/\neureka.serviceUrl.default=http://d:1/",
        &[
            "eureka.peers = [\"http://a:1/v2/\", \"http://d:1/\"]",
            "server.region = \"eu\"",
            "server.zone = \"a\"",
        ],
    ),
    (
        "a.yml",
        "eureka.server.remote-region-urls-with-name: {US-East: 'http://us:8761/eureka/', eu: 'http://eu/eureka'}",
        &["eureka.regions = [\"eu=http://eu:80/eureka/\", \"us-east=http://us:8761/eureka/\"]"],
    ),
    (
        "a.properties",
        "eureka.remoteRegionUrlsWithName=us;http://us:1/eureka/v2/,eu;http://eu:1/eureka/v2/",
        &["eureka.regions = [\"us=http://us:1/eureka/v2/\", \"eu=http://eu:1/eureka/v2/\"]"],
    ),
    (
        "a.properties",
        "p=8762\nserver.port=${p}\neureka.client.region=${x.y:${z:caf\\u00e9}}\neureka.dashboard.enabled=${ON:fal\\\n  se}",
        &["server.listen = \"[::]:8762\"", "server.page = false", "server.region = \"café\""],
    ),
    ("a.properties", "eureka.client.region=caf\u{e9}", &["server.region = \"cafÃ©\""]),
];

/// Service URLs, what else is said, and what of them become peers.
const PEERS: &[(&str, &str, &[&str])] = &[
    ("http://b:8761/eureka/", "", &["http://b:8761/eureka/"]),
    ("http://localhost:8761/eureka/", "server.port=8761", &[]),
    ("http://localhost:8762/eureka/", "server.port=8761", &["http://localhost:8762/eureka/"]),
    ("http://127.0.0.1:8761/eureka/", "", &[]),
    ("http://[::1]:8761/eureka/,http://b:1/", "server.port=8761", &["http://b:1/"]),
    (
        "http://${eureka.instance.hostname}:${server.port}/eureka/",
        "eureka.instance.hostname=a\nserver.port=8761",
        &[],
    ),
    (
        "http://A:8761/eureka,http://b:8761/eureka",
        "eureka.instance.hostname=a\nserver.port=8761",
        &["http://b:8761/eureka/"],
    ),
    ("http://a:8762/eureka/", "eureka.instance.hostname=a\nserver.port=8761", &["http://a:8762/eureka/"]),
    ("http://a:8762/eureka/", "eureka.instance.hostname=a", &[]),
    ("http://10.0.0.1:8761/eureka/", "eureka.instance.ip-address=10.0.0.1", &[]),
    (
        "http://a:1/eureka/,http://b:1/eureka/",
        "eureka.server.my-url=http://a:1/eureka",
        &["http://b:1/eureka/"],
    ),
    (
        "http://localhost:1/eureka/",
        "eureka.server.my-url=http://a:1/eureka/",
        &["http://localhost:1/eureka/"],
    ),
    (
        "http://eureka:8761/eureka/",
        "server.port=8761\neureka.client.register-with-eureka=false\neureka.client.fetch-registry=false",
        &[],
    ),
    (
        "http://eureka:8761/eureka/",
        "server.port=8761\neureka.client.register-with-eureka=false\neureka.client.fetch-registry=true",
        &["http://eureka:8761/eureka/"],
    ),
    (
        "http://b:8761/eureka/",
        "eureka.instance.hostname=a\nserver.port=8761\neureka.client.register-with-eureka=false\neureka.client.fetch-registry=false",
        &["http://b:8761/eureka/"],
    ),
    (
        "http://a:8761/eureka/,http://b:8761/eureka/",
        "server.port=8761\neureka.client.register-with-eureka=false\neureka.client.fetch-registry=false",
        &["http://a:8761/eureka/", "http://b:8761/eureka/"],
    ),
    ("http://b:1/eureka,http://b:1/eureka/", "", &["http://b:1/eureka/"]),
    ("http://u:p%40s@b:1/eureka/", "", &["http://b:1/eureka/"]),
    ("http://b:1/eureka/", "eureka.client.use-dns-for-fetching-service-urls=true", &[]),
];

#[test]
fn a_property_becomes_its_setting() {
    for (property, setting) in SINGLE {
        assert_eq!(settings("application.properties", property), [*setting], "{property}");
    }
}

#[test]
fn properties_that_belong_together_are_read_together() {
    for (name, text, expected) in TOGETHER {
        assert_eq!(settings(name, text), *expected, "{text}");
    }
}

#[test]
fn peers_are_the_other_servers() {
    for (urls, others, expected) in PEERS {
        let text = format!("eureka.client.serviceUrl.defaultZone={urls}\n{others}");
        let config = load(&imported("a.properties", text.as_bytes(), &[]).unwrap().toml).unwrap();
        let peers: Vec<_> = config.eureka.peers.iter().map(ToString::to_string).collect();
        assert_eq!(peers, *expected, "{text}");
    }
}

/// Every row of the table that becomes a setting is tried above, under each of its names.
#[test]
fn every_name_that_becomes_a_setting_is_tried() {
    let tried = SINGLE.iter().map(|(text, _)| *text).chain(TOGETHER.iter().map(|(_, text, _)| *text));
    let tried: String =
        tried.flat_map(str::chars).filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let page = reference();
    let rows = page.lines().filter(|line| line.starts_with("| `") || line.starts_with("| –"));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [spring, netflix, here, _] = cells.as_slice() else { panic!("{row}") };
        if !here.starts_with('`') {
            continue;
        }
        for name in
            [spring, netflix].into_iter().flat_map(|names| names.split("<br>")).filter(|name| *name != "–")
        {
            let letters: String =
                name.trim_end_matches(".*`").chars().filter(char::is_ascii_alphanumeric).collect();
            let peers = letters.eq_ignore_ascii_case("eurekaclientserviceurl");
            let zone = letters.eq_ignore_ascii_case("eurekametadatazone");
            assert!(peers || zone || tried.contains(&letters.to_lowercase()), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn every_property_of_the_table_is_named() {
    let names: BTreeSet<_> = reference()
        .split('`')
        .filter(|name| {
            !name.contains(['=', ' ', '/']) && !name.ends_with(".yml") && !name.ends_with(".properties")
        })
        .filter(|name| {
            ["eureka.", "server.", "spring.", "logging.", "management.", "security."]
                .iter()
                .any(|start| name.starts_with(start))
        })
        .map(|name| name.replace('*', "some"))
        .collect();
    assert!(names.len() > 150);
    for name in &names {
        // A value that no form takes is an error that names the property as well.
        let text = format!("x=1\n{name}=${{nobody.says.it}}");
        let told = imported("a.properties", text.as_bytes(), &["p"])
            .map(|done| done.toml)
            .unwrap_or_else(|error| error);
        assert!(
            told.contains(&format!("a.properties:2, {name}: "))
                || told.contains(&format!("a.properties:2: {name}: ")),
            "{name}: {told}"
        );
    }
}

#[test]
fn a_default_that_the_environment_may_replace_is_named() {
    let table = [
        (
            "server.port=${PORT:1}",
            Some("a.properties:1, server.port: by default, since no file says ${PORT}"),
        ),
        (
            "server.port=${my.port}\nmy.port=${A:${B:1}}",
            Some("server.port: by default, since no file says ${A}, ${B}"),
        ),
        (
            "server.port=1\nserver.address=${HOST:::1}",
            Some("a.properties:2, server.address: by default, since no file says ${HOST}"),
        ),
        (
            "eureka.client.service-url.defaultZone=http://${PEER:b}:1/",
            Some("defaultZone: by default, since no file says ${PEER}"),
        ),
        ("server.port=${my.port:1}\nmy.port=2", None),
        // A value beside items of a list counts, they do not.
        ("server.port=1\nserver.port[0]=${PORT:2}", None),
        ("server.port=1\nmanagement.server.port=${PORT:1}", None),
    ];
    for (text, told) in table {
        let comments = comments("a.properties", text);
        let defaults: Vec<_> =
            comments.iter().filter(|comment| comment.contains("by default, since")).collect();
        assert_eq!(!defaults.is_empty(), told.is_some(), "{text}: {comments:#?}");
        assert!(
            defaults.iter().all(|comment| told.is_some_and(|told| comment.contains(told))),
            "{text}: {defaults:#?}"
        );
    }
}

#[test]
fn what_is_not_carried_is_named_with_its_line_and_the_reason() {
    let table = [
        ("my.own=1", "a.properties:1, my.own: is no property of a Eureka server that is known here"),
        (
            "\neureka.server.response-cache-update-interval-ms=1",
            "a.properties:2, eureka.server.response-cache-update-interval-ms: answers are always fresh",
        ),
        (
            "eureka.server.renewal-percent-threshold=1.5",
            "a.properties:1, eureka.server.renewal-percent-threshold: preservation.threshold must lie between 0 and 1",
        ),
        (
            "eureka.client.region=${REGION}",
            "a.properties:1, eureka.client.region: holds ${REGION}, which no file says",
        ),
        (
            "eureka.client.service-url.defaultZone=https://b:1/",
            "a.properties:1, eureka.client.service-url.defaultZone: https://b:1 asks for TLS",
        ),
        (
            "eureka.client.service-url.default-zone=http://b:1/",
            "default-zone: is not read by Spring, which knows the zone as defaultZone",
        ),
        ("eureka.client.service-url.east=http://b:1/", "east: is of a zone that is none of the own region's"),
        (
            "eureka.client.availability-zones.us-east-1=a\neureka.client.service-url.a=http://b:1/\n\
             eureka.client.service-url.defaultZone=http://c:1/",
            "defaultZone: is not read, since each zone of the own region",
        ),
        (
            "eureka.client.service-url.defaultZone=http://localhost/",
            "http://localhost:80/ is this server itself",
        ),
        ("server.port=", "a.properties:1, server.port: is empty"),
        ("eureka.client.service-url.defaultZone=", "defaultZone: is empty"),
        ("server.port=-1", "server.port: -1 turns HTTP off"),
        ("server.address=eureka.example", "server.address: server.listen takes an IP address"),
        (
            "server.servlet.context-path=registry",
            "server.servlet.context-path: server.context_path must be empty or look like",
        ),
        (
            "spring.security.user.password=x",
            "spring.security.user.password: is never printed; set `HEUREKA_AUTH__USERS",
        ),
        (
            "server.ssl.key-store-password=x",
            "server.ssl.key-store-password: is never printed; a Java key store",
        ),
        (
            "eureka.dashboard.enabled=true\neureka.dashboard.ENABLED=false",
            "a.properties:2, eureka.dashboard.ENABLED: is said at line 1 in the spelling that counts",
        ),
        (
            "server.max-http-header-size=9KB\nserver.max-http-request-header-size=10KB",
            "limits.header_bytes is said by server.max-http-header-size already",
        ),
        ("eureka.instance.lease-renewal-interval-in-seconds=5", "the server does not register itself"),
        ("spring.profiles.active=x", "Active profiles: x"),
        ("x=1", "No port is carried: Heureka listens on 8761"),
        ("spring.config.import=other.yml", "name them with a further `--import-properties`"),
        (
            "a=1\n#---\nspring.config.activate.on-profile=x\nb=2",
            "a.properties:4, b: its document applies to profile \"x\" only",
        ),
    ];
    for (text, told) in table {
        let comments = comments("a.properties", text);
        assert!(comments.iter().any(|comment| comment.contains(told)), "{text}: {comments:#?}");
    }
    let nameless = comments(
        "a.properties",
        "eureka.instance.hostname=${HOSTNAME}.eureka\neureka.client.service-url.defaultZone=http://eureka-0.eureka:8761/eureka/",
    );
    assert!(
        nameless.iter().any(|comment| comment.starts_with("No file says this server's own name")),
        "{nameless:#?}"
    );
    assert!(nameless.iter().any(|comment| comment.contains("hostname: holds ${HOSTNAME}")), "{nameless:#?}");
    let list = comments("a.yml", "eureka.client.service-url:\n  defaultZone: ['http://b:1/', 'http://c:1/']");
    assert!(
        list.iter().any(|comment| comment.contains("a list, which Spring itself does not read")),
        "{list:#?}"
    );
    assert!(list.iter().any(|comment| comment.contains("peer.list = [\"b:1\", \"c:1\"]")), "{list:#?}");
}

#[test]
fn a_file_that_cannot_be_read_whole_is_named_with_line_and_field() {
    let table = [
        ("a.properties", "x=1\nserver.port=many", "a.properties:2: server.port: expected a whole number"),
        ("a.properties", "server.port=70000", "a.properties:1: server.port: expected a port between"),
        ("a.properties", "server.port=\\u12", "a.properties:1: server.port: \\u needs four"),
        (
            "a.properties",
            "eureka.server.enable-self-preservation=maybe",
            "a.properties:1: eureka.server.enable-self-preservation: expected true or false",
        ),
        (
            "a.properties",
            "eureka.server.evictionIntervalTimerInMs=soon",
            "evictionIntervalTimerInMs: expected a duration",
        ),
        ("a.properties", "a=${b}\nb=${a}\nserver.port=${a}", "refers to itself"),
        (
            "a.properties",
            "eureka.client.serviceUrl.defaultZone=http://a:1/,b:2",
            "defaultZone: item 2: expected http://host:port",
        ),
        (
            "a.properties",
            "spring.profiles.active=x\nspring.config.activate.on-profile=y",
            "a.properties:1: spring.profiles.active: may not stand",
        ),
        ("a.yml", "server:\n  port: [1\n", "a.yml:"),
        ("a.yml", "server:\n  port: 1\n  port: 2", "a.yml:3: server.port: is said twice"),
        ("a.yml", "server: {port: 1}\nserver.port: &a [*a]", "a.yml:2: server.port"),
        ("a.yaml", "server.port: '\u{0}'", "a.yaml:1"),
        ("a.toml", "", "a.toml: expected a name that ends in .properties, .yml or .yaml"),
    ];
    for (name, text, told) in table {
        let error = imported(name, text.as_bytes(), &[]).unwrap_err();
        assert!(error.contains(told), "{text:?}: {error}");
    }
    let large = imported("a.yml", &vec![b'#'; (1 << 20) + 1], &[]).unwrap_err();
    assert_eq!(large, "a.yml: is larger than 1 MiB");
}

#[test]
fn later_files_and_named_profiles_win() {
    let base = "server.port: 1\nspring.profiles.active: dev\n---\nspring.config.activate.on-profile: prod\nserver.port: 2";
    let (_files, paths) = Files::of(&[
        ("application.yml", base.as_bytes()),
        ("application-prod.properties", b"eureka.client.region=eu"),
    ]);
    let prod = import(&paths, &["prod".to_owned()]).unwrap().toml;
    assert_eq!(parts(&prod).0, ["server.listen = \"[::]:2\"", "server.region = \"eu\""]);
    let (_files, paths) = Files::of(&[("a.yml", b"server.port: 1"), ("b.yml", b"server.port: 2")]);
    assert_eq!(parts(&import(&paths, &[]).unwrap().toml).0, ["server.listen = \"[::]:2\""]);
    let dev = imported("a.yml", base.as_bytes(), &[]).unwrap().toml;
    assert_eq!(parts(&dev).0, ["server.listen = \"[::]:1\""]);
}

#[test]
fn secrets_are_never_printed() {
    let text = "spring.security.user: {name: admin, password: hunter2}\n\
                server.ssl: {key-store-password: hunter2, key-password: hunter2}\n\
                eureka.server: {a-w-s-secret-key: hunter2, remote-region-urls-with-name: {eu: 'http://u:hunter2@eu:1/'}}\n\
                eureka.client.service-url.defaultZone: 'http://u:hunter2@b:1/eureka/,https://u:hunter2@c:1/,http://u:hunter2@localhost:1/'\n\
                'http://u:hunter2@d/': 1\nmy.token: hunter2\n\
                server.port: ${${my.token}:1}\neureka.client.region: ${${my.token}}\n";
    let done = imported("a.yml", text.as_bytes(), &[]).unwrap();
    let all = format!("{}{:?}", done.toml, done.told);
    assert!(!all.contains("hunter2"), "{all}");
    for told in ["HEUREKA_AUTH__USERS", "HEUREKA_EUREKA__PEERS", "HEUREKA_EUREKA__REGIONS"] {
        assert!(done.told.iter().any(|line| line.contains(told)) && done.toml.contains(told), "{all}");
    }
    for value in [
        "http://u:hunter2,x@b:1/",
        "http://u:1,hunter2@b:1/",
        "http://u:1/hunter2@b:1/",
        "u:hunter2@b:1",
        "http://u:hun@ter2@b:1/",
        "http://u:hunter2@",
        "ftp://u:hunter2@b/",
        "http://u:hunter2@b:x/",
        "http://b:1/?p=hunter2",
    ] {
        let text = format!("eureka.client.serviceUrl.defaultZone={value}");
        let told = match imported("a.properties", text.as_bytes(), &[]) {
            Ok(done) => format!("{}{:?}", done.toml, done.told),
            Err(error) => error,
        };
        assert!(!told.contains("hun"), "{value}: {told}");
    }
}

fn heureka(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heureka"));
    command.args(arguments).current_dir(folder).env("HEUREKA_SERVER__ZONE", "not read here").output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_binary_prints_a_file_that_it_takes_and_says_the_rest_beside_it() {
    let yaml = b"server.port: 8762\nspring.security.user.password: hunter2\n";
    let (files, _) = Files::of(&[("application.yml", yaml)]);
    let done = heureka(&["--import-properties", "application.yml"], files.0.path());
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(load(text(&done.stdout)).unwrap().server.listen, "[::]:8762".parse().unwrap());
    assert!(text(&done.stdout).starts_with("# From application.yml by heureka --import-properties.\n"));
    let told: Vec<_> = text(&done.stderr).lines().collect();
    assert!(told[0].starts_with("heureka: the file asks for a password"), "{told:?}");
    assert!(told[1].starts_with("heureka: settings carried: 1; not carried"), "{told:?}");
}

#[test]
fn the_binary_prints_nothing_of_a_file_that_it_cannot_read_whole() {
    let (files, _) =
        Files::of(&[("a.yml", b"server.port: 1\nserver:\n  port: [\n"), ("b.properties", b"server.port=1")]);
    for arguments in [
        &["--import-properties", "a.yml"][..],
        &["--import-properties", "b.properties", "--import-properties", "a.yml"],
        &["--import-properties", "missing.yml"],
    ] {
        let done = heureka(arguments, files.0.path());
        let told = text(&done.stderr);
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), ""), "{told}");
        assert!(told.starts_with("heureka: nothing is imported: ") && told.lines().count() == 1, "{told}");
        assert!(told.contains("a.yml:") || told.contains("missing.yml:"), "{told}");
    }
    for arguments in [&["--import-properties", "b.properties", "--zone", "z"][..], &["--import-profile", "x"]]
    {
        let done = heureka(arguments, files.0.path());
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), ""));
    }
}

/// Names and values near those that mean something.
fn line() -> impl Strategy<Value = String> {
    let names: Vec<_> = reference()
        .split('`')
        .filter(|name| name.contains('.') && !name.contains(' '))
        .map(str::to_owned)
        .collect();
    let value = prop_oneof![
        "\\PC{0,12}",
        "[0-9]{1,12}",
        "-?[0-9]\\.[0-9]{1,3}",
        "(PT)?[0-9]{1,4}(ms|s|S|m|h|d)?",
        "true|false|on|off",
        "https?://([a-z]:[a-z0-9]@)?[a-z.]{1,8}(:[0-9]{1,5})?/[a-z/]{0,6}(,http://[a-z]{1,3}/)?",
        "\\$\\{[a-z.]{1,6}(:[a-z0-9]{0,4})?\\}",
        "\\[[a-z, :]{0,9}\\]",
    ];
    (prop::sample::select(names), value, "[=: ]").prop_map(|(name, value, sign)| {
        let name = name.replace('*', "defaultZone");
        // A line is not to swallow the next one.
        let value = value.replace('\\', "/");
        format!("{name}{sign}{sign}{value}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_loads_and_names_every_property(lines in prop::collection::vec(line(), 0..8)) {
        if let Ok(done) = imported("a.properties", lines.join("\n").as_bytes(), &[]) {
            for name in lines.iter().filter_map(|line| line.split(['=', ':', ' ']).next()) {
                prop_assert!(done.toml.contains(&format!(", {name}")), "{name}: {lines:?}\n{}", done.toml);
            }
        }
    }

    #[test]
    fn what_is_printed_of_yaml_loads(lines in prop::collection::vec(line(), 0..4)) {
        let _ = imported("a.yml", lines.join("\n").replace("::", ": ").as_bytes(), &[]);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, yaml: bool) {
        let _ = imported(if yaml { "a.yml" } else { "a.properties" }, &bytes, &[]);
    }
}
