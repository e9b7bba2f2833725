//! Where settings come from, and what is said about wrong ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heureka_server::args::Args;
use heureka_server::config::{Bytes, Config, ConfigError, LogFormat, Problem};
use heureka_server::import;
use tempfile::NamedTempFile;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load(path: Option<&Path>, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config, ConfigError> {
    let mut line: Vec<OsString> = vec!["heureka".into()];
    line.extend(path.iter().flat_map(|path| ["--config".into(), OsString::from(path)]));
    line.extend(flags.iter().map(OsString::from));
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Config::load(&Args::read(line).unwrap().sources(environment))
}

fn problems(path: Option<&Path>, environment: &[(&str, &str)], flags: &[&str]) -> Vec<Problem> {
    match load(path, environment, flags) {
        Err(ConfigError::Problems(problems)) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let file = file("[server]\nzone = 'file'\nregion = 'file'\ncluster = 'file'");
    let environment = [("HEUREKA_SERVER__ZONE", "variable"), ("HEUREKA_SERVER__REGION", "variable")];
    let config = load(Some(file.path()), &environment, &["--zone", "flag"]).unwrap();
    let server = config.server;
    assert_eq!(
        [&*server.zone, &server.region, &server.cluster, &server.node_id],
        ["flag", "variable", "file", ""]
    );
}

#[test]
fn every_flag_sets_its_key() {
    let flags = [
        ["--listen", "127.0.0.1:1"],
        ["--node-id", "n"],
        ["--cluster", "c"],
        ["--zone", "z"],
        ["--region", "r"],
        ["--profile", "compat"],
        ["--data-dir", "/var/lib/heureka"],
        ["--peer", "10.0.0.2:8761"],
        ["--peer", "http://b.example:1"],
        ["--log", "json"],
        ["--log", "debug"],
    ];
    let config = load(None, &[], flags.as_flattened()).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:1".parse().unwrap());
    let server = &config.server;
    assert_eq!([&*server.node_id, &server.cluster, &server.zone, &server.region], ["n", "c", "z", "r"]);
    assert_eq!(server.data_dir, "/var/lib/heureka");
    let peers: Vec<_> = config.peer.list.iter().map(ToString::to_string).collect();
    assert_eq!(peers, ["10.0.0.2:8761", "b.example:1"]);
    assert_eq!((config.log.format, config.log.filter.as_str()), (LogFormat::Json, "debug"));
}

#[test]
fn values_read_the_same_from_the_file_and_from_variables() {
    let file = file(
        "[limits]\nidle_timeout = '90s'\nheader_count = 32\nrest_body = '2MiB'\n\
         [lease]\neureka_double = true\n[preservation]\nthreshold = 0.5\nmode = 'eureka'\n\
         [peer]\ntrusted = ['10.0.0.1', '::1']",
    );
    let environment = [
        ("HEUREKA_LIMITS__IDLE_TIMEOUT", "1m 30s"),
        ("HEUREKA_LIMITS__HEADER_COUNT", "32"),
        ("HEUREKA_LIMITS__REST_BODY", "2048KiB"),
        ("HEUREKA_LEASE__EUREKA_DOUBLE", "true"),
        ("HEUREKA_PRESERVATION__THRESHOLD", "0.5"),
        ("HEUREKA_PRESERVATION__MODE", "eureka"),
        ("HEUREKA_PEER__TRUSTED", "10.0.0.1, ::1"),
    ];
    let from_file = load(Some(file.path()), &[], &[]).unwrap();
    assert_eq!(from_file, load(None, &environment, &[]).unwrap());
    assert_eq!(from_file.limits.idle_timeout, Duration::from_secs(90));
    assert_eq!(from_file.limits.rest_body, Bytes(2 << 20));
    assert!(from_file.core().eureka_double_lease);
    assert_eq!(from_file.rest().trusted_peers.len(), 2);
}

#[test]
fn unknown_keys_are_refused_with_key_and_source() {
    let file = file("zone = 'x'\n[server]\nlisten_on = ':1'\n[nothing]\na = 1\n[server.deep]\nb = 2");
    let found = problems(Some(file.path()), &[("HEUREKA_LEASE__DOUBLE", "true")], &[]);
    let keys: Vec<_> = found.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["nothing.a", "server.deep", "server.listen_on", "zone", "lease.double"]);
    assert!(found.iter().all(|problem| problem.message == "unknown setting"));
    assert!(found[0].to_string().contains(file.path().to_str().unwrap()));
    assert!(found[4].to_string().contains("HEUREKA_LEASE__DOUBLE"));
}

#[test]
fn variables_that_are_no_settings_are_left_alone() {
    let environment =
        [("HEUREKA_SERVICE_HOST", "10.0.0.1"), ("HEUREKA_PORT", "tcp://1"), ("OTHER__KEY", "1")];
    assert_eq!(load(None, &environment, &[]), load(None, &[], &[]));
}

#[test]
fn unusable_values_are_refused_with_key_source_and_expectation() {
    let table = [
        ("server.listen", "localhost:8761", "IP address and a port"),
        ("server.listen", "8761", "IP address and a port"),
        ("server.cluster", "", "not empty"),
        ("server.node_id", "a b", "visible"),
        ("server.zone", "\u{1b}[31m", "visible"),
        ("server.profile", "secure", "auth.users or auth.tokens"),
        ("server.profile", "open", "compat, secure"),
        ("server.context_path", "registry", "/registry"),
        ("server.context_path", "/registry/", "/registry"),
        ("server.context_path", "/{a}", "/registry"),
        ("server.context_path", "/..", "/registry"),
        ("server.trusted_proxies", "10.0.0.1,router", "IP address"),
        ("limits.idle_timeout", "90", "duration"),
        ("limits.idle_timeout", "0s", "1ms"),
        ("limits.connection_age", "2days", "24h"),
        ("limits.header_count", "many", "whole number"),
        ("limits.header_count", "-1", "whole number"),
        ("limits.header_count", "0", "between 8"),
        ("limits.header_bytes", "1TiB", "size"),
        ("limits.watches_per_connection", "1024", "renewals"),
        ("lease.eureka_double", "yes", "true or false"),
        ("preservation.mode", "on", "budget, eureka, off"),
        ("preservation.threshold", "85", "between 0 and 1"),
        ("preservation.threshold", "NaN", "between 0 and 1"),
        ("tombstones.ttl", "500ms", "1s"),
        ("tombstones.max", "0", "at least 1"),
        ("registry.max_bytes", "1kB", "1MiB"),
        ("compat.cache_min_interval", "never", "duration"),
        ("peer.trusted", "10.0.0.0/8", "IP address"),
        ("peer.list", "b.example:many", "host:port"),
        ("peer.list", "https://b.example:1", "tls.ca"),
        ("peer.list", "srvs://_heureka._tcp.example.com", "tls.ca"),
        ("eureka.peers", "https://b.example/eureka/", "tls.ca"),
        ("eureka.shadow", "https://b.example/eureka/", "tls.ca"),
        ("eureka.regions", "east=grpcs://b.example:1", "tls.ca"),
        ("peer.advertise", "srv://x", "host:port"),
        ("peer.refresh", "10ms", "1s"),
        ("peer.ack_wait", "1m", "5s"),
        ("log.filter", "loud=noise", "level"),
        ("log.format", "xml", "text, json"),
        ("log.max_lines_per_second", "0", "at least 1"),
        ("drain.grace", "2h", "1h"),
        ("drain.spread", "2h", "1h"),
        ("drain.peer_wait", "6m", "5m"),
        ("startup.hold", "2h", "1h"),
        ("startup.peer_wait", "soon", "duration"),
        ("compat.syncing_status", "200", "503, 403"),
    ];
    for (key, value, expectation) in table {
        let variable = format!("HEUREKA_{}", key.replace('.', "__").to_uppercase());
        let found = problems(None, &[(&variable, value)], &[]);
        let [problem] = found.as_slice() else { panic!("{key} = {value:?}: {found:?}") };
        assert_eq!(problem.key, key);
        let told = problem.to_string();
        assert!(told.contains(&variable) && told.contains(expectation), "{key} = {value:?}: {told}");
    }
}

#[test]
fn a_certificate_and_its_key_are_named_together() {
    for (set, missing) in [("CERTIFICATE", "tls.key"), ("KEY", "tls.certificate")] {
        let found = problems(None, &[(&format!("HEUREKA_TLS__{set}"), "/x.pem")], &[]);
        let [problem] = found.as_slice() else { panic!("{found:?}") };
        assert!(problem.key == missing && problem.message.contains("is missing"), "{problem}");
    }
    let key = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n";
    let found = problems(None, &[("HEUREKA_TLS__CERTIFICATE", "/x.pem"), ("HEUREKA_TLS__KEY", key)], &[]);
    let [problem] = found.as_slice() else { panic!("{found:?}") };
    assert!(problem.key == "tls.key" && problem.message.contains("path"), "{problem}");
    assert!(!problem.to_string().contains("secret"));
    let both = [("HEUREKA_TLS__CERTIFICATE", "/x.pem"), ("HEUREKA_TLS__KEY", "/y.pem")];
    assert!(load(None, &both, &[]).unwrap().tls.is_served());
}

#[test]
fn all_problems_are_told_at_once() {
    let environment = [("HEUREKA_LEASE__EUREKA_DOUBLE", "yes"), ("HEUREKA_DRAIN__GRACE", "soon")];
    assert_eq!(problems(None, &environment, &["--listen", "nowhere"]).len(), 3);
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_named() {
    let missing = load(Some(Path::new("/nonexistent/h.toml")), &[], &[]).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/h.toml") && missing.contains("--config"), "{missing}");
    let broken = file("[server\nlisten = 1");
    let told = load(Some(broken.path()), &[], &[]).unwrap_err().to_string();
    assert!(told.contains(broken.path().to_str().unwrap()) && told.contains("not valid TOML"), "{told}");
}

#[test]
fn the_printed_configuration_loads_to_the_same() {
    let flags = ["--listen", "10.1.2.3:99", "--zone", "z", "--log", "info,heureka_server=debug"];
    let environment = [
        ("HEUREKA_COMPAT__CACHE_MIN_INTERVAL", "250ms"),
        ("HEUREKA_PEER__TRUSTED", "::1,10.0.0.1"),
        ("HEUREKA_PEER__LIST", "[::1]:1, srv://x, https://b.example, srvs://y"),
        ("HEUREKA_TLS__CA", "/etc/heureka/ca.pem"),
    ];
    for config in [Config::default(), load(None, &environment, &flags).unwrap()] {
        let file = file(&config.to_toml());
        assert_eq!(load(Some(file.path()), &[], &[]), Ok(config));
    }
}

#[test]
fn the_reference_page_is_up_to_date() {
    compare("configuration.md", &format!("{}\n{}", Config::reference(), import::reference()));
}

fn compare(page: &str, expected: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "docs", page].iter().collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/{page} is out of date, run again with UPDATE_DOCS=1");
}
