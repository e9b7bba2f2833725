//! What an operator may set: flags over `HEUREKA_SECTION__KEY` variables over a TOML file over defaults.
//!
//! Every setting is one row of a table; the row knows its key, its meaning and its place in [`Config`]. All
//! sources say words about keys; an unknown key or a word that cannot be understood is refused with the name of
//! the key and of the source, and all such findings are told at once.

mod auth;
mod core;
mod docs;
mod error;
mod eureka;
mod limits;
mod peer;
mod server;
mod setting;
mod source;
mod startup;
mod surface;
mod tls;
mod value;

use heureka_registry::Preservation;

pub use auth::{AuthConfig, Token, User};
pub use core::{LeaseConfig, OverridesConfig, RegistryConfig, TombstonesConfig};
pub use error::{ConfigError, Problem};
pub use eureka::{EurekaConfig, EurekaUrl, RegionSource, RegionUrl, WatchUrl};
pub use limits::{LimitsConfig, bytes_of};
pub use peer::{PeerAddress, PeerConfig};
pub use server::{DEFAULT_PORT, DrainConfig, Profile, ServerConfig};
pub use source::{Flag, Source, Sources};
pub use startup::StartupConfig;
pub use surface::{CompatConfig, Interval, LogConfig, LogFormat};
pub use tls::TlsConfig;
pub use value::Bytes;

use setting::Setting;

/// The effective configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Who this node is and where it answers.
    pub server: ServerConfig,
    /// Who is served.
    pub auth: AuthConfig,
    /// How connections are encrypted.
    pub tls: TlsConfig,
    /// What one connection, request or instance may cost.
    pub limits: LimitsConfig,
    /// Leases.
    pub lease: LeaseConfig,
    /// Self-preservation.
    pub preservation: Preservation,
    /// Operator's status.
    pub overrides: OverridesConfig,
    /// Memory of what was removed.
    pub tombstones: TombstonesConfig,
    /// The core.
    pub registry: RegistryConfig,
    /// The Eureka surface.
    pub compat: CompatConfig,
    /// Other servers.
    pub peer: PeerConfig,
    /// Servers of Netflix's kind.
    pub eureka: EurekaConfig,
    /// Until readers are served.
    pub startup: StartupConfig,
    /// Logs.
    pub log: LogConfig,
    /// The end of the process.
    pub drain: DrainConfig,
}

impl Config {
    /// The configuration that the sources give together.
    /// # Errors
    /// Every unknown key and every value that cannot be used, each with its key and source.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let statements = sources.statements()?;
        let mut problems: Vec<_> =
            statements.iter().filter_map(|said| said.apply(&mut config).err()).collect();
        if problems.is_empty() {
            problems.extend(config.findings(&statements));
        }
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Problems(problems)) }
    }

    /// The effective configuration as a TOML file that loads to the same.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut root = toml::Table::new();
        for setting in settings() {
            let (section, key) = setting.key.split_once('.').expect("invariant: keys are section.key");
            let table = root.entry(section).or_insert_with(|| toml::Table::new().into());
            if let Some(table) = table.as_table_mut() {
                table.insert(key.to_owned(), (setting.read)(self));
            }
        }
        root.to_string()
    }

    /// The reference page of all settings, in Markdown.
    #[must_use]
    pub fn reference() -> String {
        docs::render()
    }

    /// This configuration with one more setting, as a file would say it.
    /// # Errors
    /// What is wrong with the value, by itself or beside the others.
    pub(crate) fn with(&self, key: &str, value: &toml::Value) -> Result<Self, String> {
        let setting = settings().find(|setting| setting.key == key).ok_or("is no setting")?;
        let raw = value::Raw::from_toml(value).ok_or_else(|| format!("expects {}", setting.kind))?;
        let mut config = self.clone();
        (setting.write)(&mut config, &raw)?;
        match config.findings(&[]).into_iter().next() {
            Some(finding) => Err(finding.message),
            None => Ok(config),
        }
    }

    /// Keys of all settings, in the order of the reference page.
    pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
        settings().map(|setting| setting.key)
    }

    fn findings(&self, statements: &[source::Statement]) -> Vec<Problem> {
        let findings = server::check(self)
            .chain(auth::check(self))
            .chain(tls::check(self))
            .chain(limits::check(self))
            .chain(core::check(self))
            .chain(surface::check(self))
            .chain(eureka::check(self))
            .chain(peer::check(self))
            .chain(startup::check(self));
        let blame = |key: &str| {
            let last = statements.iter().rev().find(|said| said.key == key);
            last.map_or(Source::Default, |said| said.source.clone())
        };
        findings.map(|finding| Problem::new(finding.key, blame(finding.key), finding.message)).collect()
    }
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    let tables = [
        server::SETTINGS,
        auth::SETTINGS,
        tls::SETTINGS,
        startup::SETTINGS,
        limits::SETTINGS,
        core::SETTINGS,
        peer::SETTINGS,
        surface::SETTINGS,
        eureka::SETTINGS,
    ];
    tables.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_in_sections() {
        let mut keys: Vec<_> = settings().map(|setting| setting.key).collect();
        assert!(keys.iter().all(|key| key.split('.').count() == 2));
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn defaults_are_the_products() {
        let core = Config::default().core();
        assert_eq!(core, heureka_registry::Config::default());
        assert_eq!(Config::default().server.listen, "[::]:8761".parse().unwrap());
    }

    #[test]
    fn defaults_have_no_findings() {
        assert_eq!(Config::load(&Sources::default()), Ok(Config::default()));
    }
}
