//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::config::{Flag, Sources};

/// A service registry: gRPC and Eureka REST on one port
#[derive(Clone, Debug, Parser)]
#[command(name = "heureka", version, after_help = AFTER)]
pub struct Args {
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port of everything; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Name of this node
    #[arg(long, value_name = "NAME")]
    node_id: Option<String>,
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Zone in which this node runs
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Region in which this node runs
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Another server of the cluster; may be given for each, this one among them
    #[arg(long, value_name = "HOST:PORT")]
    peer: Vec<String>,
    /// Folder for what survives a restart
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// Set of defaults
    #[arg(long, value_name = "compat")]
    profile: Option<String>,
    /// `text` or `json`, or a filter such as `debug`; may be given for each
    #[arg(long, value_name = "FORMAT|FILTER")]
    log: Vec<String>,
    /// Print the effective configuration and exit
    #[arg(long)]
    print_config: bool,
    /// Print the TOML for a Eureka server's application.yml or .properties and exit; may be given for each, later files win
    #[arg(long, value_name = "FILE", conflicts_with_all = SETTINGS)]
    import_properties: Vec<PathBuf>,
    /// A profile that is active, in place of those that the imported files name; may be given for each
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "import_properties")]
    import_profile: Vec<String>,
}

/// Flags that mean nothing where files are imported.
const SETTINGS: [&str; 11] = [
    "config",
    "listen",
    "node_id",
    "cluster",
    "zone",
    "region",
    "peer",
    "data_dir",
    "profile",
    "log",
    "print_config",
];

const AFTER: &str = "Every setting is also an environment variable HEUREKA_SECTION__KEY and a key of the file. \
                     See docs/configuration.md.";

impl Args {
    /// Understands a command line.
    /// # Errors
    /// What clap says, help and version included.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(line)
    }

    /// The configuration is to be printed.
    #[must_use]
    pub fn print_config(&self) -> bool {
        self.print_config
    }

    /// Files to be imported instead of a start, and the profiles that are active in them.
    #[must_use]
    pub fn imports(&self) -> (&[PathBuf], &[String]) {
        (&self.import_properties, &self.import_profile)
    }

    /// All sources of settings, the given environment among them.
    #[must_use]
    pub fn sources(self, environment: Vec<(OsString, OsString)>) -> Sources {
        let single = [
            ("--listen", "server.listen", self.listen),
            ("--node-id", "server.node_id", self.node_id),
            ("--cluster", "server.cluster", self.cluster),
            ("--zone", "server.zone", self.zone),
            ("--region", "server.region", self.region),
            ("--data-dir", "server.data_dir", self.data_dir),
            ("--profile", "server.profile", self.profile),
            ("--peer", "peer.list", (!self.peer.is_empty()).then(|| self.peer.join(","))),
        ];
        let mut flags: Vec<_> = single
            .into_iter()
            .filter_map(|(name, key, value)| value.map(|value| Flag { name, key, value }))
            .collect();
        flags.extend(self.log.into_iter().map(log_flag));
        Sources { file: self.config, environment, flags }
    }
}

fn log_flag(value: String) -> Flag {
    let key = if matches!(value.as_str(), "text" | "json") { "log.format" } else { "log.filter" };
    Flag { name: "--log", key, value }
}
