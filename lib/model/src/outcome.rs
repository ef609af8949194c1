//! Outcomes: how a run ended, as its supervisor saw it.

use crate::{End, Reason, Used};
use alloc::{boxed::Box, string::String};
use serde::{Deserialize, Serialize};

/// Whose fault it is that a run did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The user's: a path, an account, a script. It fails the job and never drains a node.
    User,
    /// The site's: a full disk, no processes left. It is tried again elsewhere.
    Site,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The end.
    pub end: End,
    /// Why, in one word.
    pub reason: Reason,
    /// The script's exit code, when it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended the script, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Details for people: a path, an error. Empty when there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What it used, as far as its node measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<Used>>,
}

impl Outcome {
    /// An outcome of a run whose script did not come to exit by itself.
    pub fn without_exit(end: End, reason: Reason, detail: impl Into<String>) -> Self {
        Self { end, reason, exit_code: None, signal: None, detail: detail.into(), used: None }
    }

    /// Adds to what it used.
    pub fn measured(&mut self, add: impl FnOnce(&mut Used)) {
        let mut used = self.used.take().unwrap_or_default();
        add(&mut used);
        self.used = Some(used).filter(|used| !used.is_empty());
    }

    /// The exit code a waiting client ends with: the script's own, 128 + n for signal n, else 1 (0 when completed).
    pub fn client_code(&self) -> u8 {
        match (self.end, self.exit_code, self.signal) {
            (End::Completed, _, _) => 0,
            (_, _, Some(n)) => 128u8.saturating_add(n),
            (_, Some(0) | None, None) => 1,
            (_, Some(code), None) => code,
        }
    }
}
