//! What kept a script from being started: whose fault, which reason, which words. Travels from child to supervisor.

use gq_model::{Fault, Reason};

/// Longest detail that is kept, in bytes.
const MAX_DETAIL: usize = 2048;

/// Why a script was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub fault: Fault,
    pub reason: Reason,
    pub detail: String,
}

impl Trouble {
    /// A mistake of the user.
    pub fn user(reason: Reason, detail: impl Into<String>) -> Self {
        Self { fault: Fault::User, reason, detail: cut(detail.into()) }
    }

    /// Something that the site has to mend.
    pub fn site(detail: impl Into<String>) -> Self {
        Self { fault: Fault::Site, reason: Reason::LaunchFailure, detail: cut(detail.into()) }
    }

    /// Something that the site has to mend, or that the user's own file system only pretends: of what the user named.
    pub fn away(reason: Reason, detail: impl Into<String>) -> Self {
        Self { fault: Fault::Site, reason, detail: cut(detail.into()) }
    }

    /// Something that the site has to mend: what was being done, and what the kernel said.
    pub fn kernel(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |e| {
            let reason = if gq_host::is_exhausted(&e) { Reason::NodeTrouble } else { Reason::LaunchFailure };
            Self { reason, ..Self::site(format!("{what}: {}", gq_host::words(&e))) }
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&(self.fault, self.reason, &self.detail)).unwrap_or_else(|_| b"?".to_vec())
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).map_or_else(
            |_| Self::site("the process that was to become the script died while it said why"),
            |(fault, reason, detail)| Self { fault, reason, detail },
        )
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_DETAIL {
        let end = (0..=MAX_DETAIL).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
