//! Which package may import which: arrows point one way, and what a package is kept free of stays out of it.
//!
//! Only what a package is built from counts; what its tests use is theirs.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// What one package may and may not import.
struct Rule {
    package: &'static str,
    /// Packages of this workspace that it may import.
    workspace: &'static [&'static str],
    /// Foreign packages that it must not import; a name that ends with `*` stands for all that begin so.
    never: &'static [&'static str],
}

const ASYNC: [&str; 6] = ["tokio*", "futures*", "tower*", "hyper*", "http*", "async-*"];
const WIRES: [&str; 6] = ["axum*", "tonic*", "prost*", "serde*", "quick-xml", "clap"];

const MODEL: &str = "heureka-model";
const PROTO: &str = "heureka-proto";
const REGISTRY: &str = "heureka-registry";
const COMPAT: &str = "heureka-compat-http";
const SERVER: &str = "heureka-server";
const CLIENT: &str = "heureka-client";

const RULES: [Rule; 6] = [
    Rule {
        package: MODEL,
        workspace: &[],
        never: &["dashmap", "rand*", "metrics*", "tracing*", "parking_lot"],
    },
    Rule { package: PROTO, workspace: &[MODEL], never: &["dashmap", "axum*", "hyper*", "tokio"] },
    Rule { package: REGISTRY, workspace: &[MODEL], never: &["metrics*", "tokio-*"] },
    Rule { package: COMPAT, workspace: &[MODEL, REGISTRY], never: &["tonic*", "prost*", "dashmap"] },
    Rule { package: CLIENT, workspace: &[MODEL, PROTO], never: &["dashmap", "axum*", "metrics-exporter*"] },
    Rule { package: SERVER, workspace: &[MODEL, PROTO, REGISTRY, COMPAT], never: &["dashmap"] },
];

/// Packages that know neither a runtime nor a wire, with what they may have all the same.
const PURE: [(&str, &[&str]); 2] = [(MODEL, &[]), (REGISTRY, &["tokio"])];

/// Names of what each package of the workspace is built from.
type Arrows = BTreeMap<String, Vec<String>>;

#[test]
fn packages_import_only_what_lies_below_them() {
    let arrows = arrows();
    let mut wrong = Vec::new();
    for rule in &RULES {
        let built_from = arrows.get(rule.package).unwrap_or_else(|| panic!("{} is gone", rule.package));
        for import in built_from {
            let ours = arrows.contains_key(import);
            if (ours && !rule.workspace.contains(&import.as_str())) || forbidden(rule.never, import) {
                wrong.push(format!("{} imports {import}", rule.package));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn model_and_core_know_neither_runtime_nor_wire() {
    let arrows = arrows();
    for (package, exceptions) in PURE {
        for import in &arrows[package] {
            let excepted = exceptions.contains(&import.as_str());
            let pure = !forbidden(&ASYNC, import) && !forbidden(&WIRES, import);
            assert!(excepted || pure, "{package} imports {import}");
        }
    }
}

/// The core waits for nothing: of tokio it has the channels that tell others, and no runtime.
#[test]
fn the_core_takes_only_channels_from_tokio() {
    let metadata = metadata();
    let registry = packages(&metadata).find(|package| package["name"] == REGISTRY).unwrap();
    let tokio = normal_dependencies(registry).find(|dependency| dependency["name"] == "tokio");
    let features = tokio.map(|tokio| tokio["features"].clone());
    assert!(features.is_none() || features == Some(serde_json::json!(["sync"])), "{features:?}");
}

#[test]
fn only_tests_and_tools_import_the_server() {
    let arrows = arrows();
    let importers = arrows.iter().filter(|(_, imports)| imports.iter().any(|import| import == SERVER));
    let products: Vec<_> = RULES.iter().map(|rule| rule.package).collect();
    let wrong: Vec<_> = importers.filter(|(name, _)| products.contains(&name.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_product_package_has_a_rule() {
    let metadata = metadata();
    for package in packages(&metadata) {
        let manifest = package["manifest_path"].as_str().unwrap().replace('\\', "/");
        let name = package["name"].as_str().unwrap();
        let ruled = RULES.iter().any(|rule| rule.package == name);
        assert!(ruled || manifest.contains("/testing/"), "{name} has no rule");
    }
}

#[test]
fn stars_stand_for_all_that_begin_so() {
    let never = ["tokio*", "axum"];
    let found = ["tokio", "tokio-util", "axum", "axum-core", "to"].map(|name| forbidden(&never, name));
    assert_eq!(found, [true, true, true, false, false]);
}

fn forbidden(never: &[&str], name: &str) -> bool {
    never.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    })
}

fn metadata() -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", root];
    let output = Command::new(env!("CARGO")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().unwrap().iter()
}

fn normal_dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null())
}

fn arrows() -> Arrows {
    let metadata = metadata();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    packages(&metadata)
        .map(|package| (name(package), normal_dependencies(package).map(name).collect()))
        .collect()
}
