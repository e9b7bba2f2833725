//! The reference page of all settings.

use std::fmt::Write as _;

use super::{Config, settings};

const HEAD: &str = "\
# Configuration

Generated from the table of settings in `server/src/config`; a test fails when this page differs from it
(`UPDATE_DOCS=1 cargo test -p heureka-server --test config` writes it anew).

`heureka` needs no configuration. A setting is taken from the first of: a flag, an environment variable
`HEUREKA_SECTION__KEY`, the TOML file named by `--config`, the default. Unknown keys, unknown `HEUREKA_…__…`
variables and values that cannot be used end the start with a message that names each key and its source.
`heureka --print-config` prints what is in force as a TOML file that loads to the same.

Flags: `--listen`, `--node-id`, `--cluster`, `--zone`, `--region`, `--data-dir` and `--profile` set the `[server]` key
of their name; `--log text`, `--log json` set `log.format` and any other `--log` value sets `log.filter` (the flag may
be given twice); `--peer` names one of `peer.list` and may be given for each.

Durations are written `500ms`, `30s`, `5m`, `1h`; sizes `512B`, `64KiB`, `64MiB`, `4GiB` (also `kB`, `MB`, `GB`).
Lists are TOML arrays; in a variable, items between commas.
";

pub(super) fn render() -> String {
    let defaults = Config::default();
    let mut page = HEAD.to_owned();
    let mut open = "";
    for setting in settings() {
        let section = setting.key.split('.').next().unwrap_or_default();
        if section != open {
            page.push_str(&heading(section));
            open = section;
        }
        let default = (setting.read)(&defaults);
        let (key, variable, kind, doc) = (setting.key, setting.variable(), setting.kind, setting.doc);
        // A write to a String cannot fail.
        let _ = writeln!(page, "| `{key}`<br>`{variable}` | {kind} | `{default}` | {doc} |");
    }
    page
}

fn heading(section: &str) -> String {
    format!("\n## `[{section}]`\n\n| key and variable | value | default | meaning |\n|---|---|---|---|\n")
}
