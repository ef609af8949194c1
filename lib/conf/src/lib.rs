//! Reads the conf file into a [`Config`], with all its mistakes at once. Decides nothing from it, and never writes one.
//!
//! Every key is declared once, in `keys`: from that table come the reading, the defaults, the suggestions for a mistyped
//! key, and the test that `gq.conf(5)` tells of each.

mod around;
mod check;
mod config;
mod keys;
mod mistake;
mod rules;
mod section;
mod source;
mod value;

pub use around::{Container, Fence, NodeHooks};
pub use config::{Cluster, Config, Hooks, Node, Partition, PartitionState, Scheduler};
pub use keys::known_keys;
pub use mistake::{ConfErrors, Mistake};
pub use rules::{
    Access, Account, Backfill, Budget, Idle, IdleAction, Licence, Limits, Preempt, Price, Private, Qos,
    UsedUp, Weights, Whose,
};

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Where the conf file is when nobody says otherwise.
pub const DEFAULT_CONF: &str = "/etc/gq/gq.conf";
/// The environment variable that names another conf file.
pub const CONF_VARIABLE: &str = "GQ_CONF";
/// Largest conf file, in bytes.
pub const MAX_CONF: u64 = 1 << 20;

/// Finds which file is the conf file: the one of `--conf`, else the one of `$GQ_CONF`, else [`DEFAULT_CONF`].
pub fn find_conf(option: Option<&Path>) -> PathBuf {
    choose_conf(option, std::env::var_os(CONF_VARIABLE))
}

/// As [`find_conf`], with the value of `$GQ_CONF` handed in; an empty value counts as none.
pub fn choose_conf(option: Option<&Path>, variable: Option<OsString>) -> PathBuf {
    match (option, variable.filter(|v| !v.is_empty())) {
        (Some(path), _) => path.to_path_buf(),
        (None, Some(path)) => PathBuf::from(path),
        (None, None) => PathBuf::from(DEFAULT_CONF),
    }
}

/// Reads and checks the conf file at `path`.
///
/// # Errors
/// [`ConfErrors`] with every mistake of the file, or the one that the file could not be read.
pub fn read(path: &Path) -> Result<Config, ConfErrors> {
    let whole = |text: String, hint: &str| ConfErrors::of_file(path, text, hint);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| {
        whole(format!("cannot be opened: {e}"), "name the conf file with --conf FILE or in $GQ_CONF")
    })?;
    file.take(MAX_CONF + 1).read_to_end(&mut bytes).map_err(|e| whole(format!("cannot be read: {e}"), ""))?;
    if bytes.len() as u64 > MAX_CONF {
        return Err(whole(format!("is larger than {} MiB", MAX_CONF >> 20), "is this a conf file at all?"));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, path),
        Err(e) => {
            let good = bytes.get(..e.valid_up_to()).unwrap_or_default();
            Err(ConfErrors::not_utf8(path, &String::from_utf8_lossy(good)))
        }
    }
}

/// Checks the text of a conf file; `file` is only what the mistakes call it.
///
/// # Errors
/// [`ConfErrors`] with every mistake of the text.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfErrors> {
    let mut notes = mistake::Notes::new(text);
    let config = source::open(text, &mut notes).and_then(|doc| check::config(doc.as_table(), &mut notes));
    match (config, notes.into_errors(file)) {
        (Some(config), None) => Ok(config),
        (_, Some(errors)) => Err(errors),
        (None, None) => Err(ConfErrors::of_file(file, "holds no conf".to_string(), "")),
    }
}

#[cfg(test)]
mod tests;
