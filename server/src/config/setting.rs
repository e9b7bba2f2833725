//! The table that every source, the printed configuration and the documentation are read from.

use super::Config;
use super::value::Raw;

/// One setting.
pub(super) struct Setting {
    /// `section.key`, as in a configuration file.
    pub(super) key: &'static str,
    /// What may be written.
    pub(super) kind: &'static str,
    /// What it does, for the documentation.
    pub(super) doc: &'static str,
    /// The value in force.
    pub(super) read: fn(&Config) -> toml::Value,
    /// Takes a source's words, or says what was expected.
    pub(super) write: fn(&mut Config, &Raw) -> Result<(), String>,
}

/// A finding about a value that is well-formed.
pub(super) struct Finding {
    /// Key that is to blame.
    pub(super) key: &'static str,
    /// What is wrong.
    pub(super) message: String,
}

impl Finding {
    /// A finding, when the value does not hold.
    pub(super) fn unless(holds: bool, key: &'static str, message: &str) -> Option<Self> {
        (!holds).then(|| Self { key, message: message.to_owned() })
    }
}

impl Setting {
    /// The environment variable that sets it.
    pub(super) fn variable(&self) -> String {
        format!("HEUREKA_{}", self.key.replace('.', "__").to_uppercase())
    }
}

/// A row of the table: key, place in [`Config`], type, meaning.
macro_rules! setting {
    ($key:literal, $section:ident . $field:ident : $type:ty, $doc:literal) => {
        $crate::config::setting::Setting {
            key: $key,
            kind: <$type as $crate::config::value::Value>::KIND,
            doc: $doc,
            read: |config| $crate::config::value::Value::show(&config.$section.$field),
            write: |config, raw| $crate::config::value::set::<$type>(&mut config.$section.$field, raw),
        }
    };
}
pub(super) use setting;
