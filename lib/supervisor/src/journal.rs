//! Records on their way to the node's log. A full disk delays them; nothing loses them.

use gq_model::RunKey;
use gq_nodelog::{Appender, Record};
use std::time::Duration;

/// How long to wait before a record is written again.
const RETRY: Duration = Duration::from_secs(1);

/// The log, and what could not be written to it yet.
#[derive(Debug)]
pub struct Journal {
    key: RunKey,
    appender: Appender,
    pending: Vec<Record>,
    failing: bool,
}

impl Journal {
    pub const fn new(key: RunKey, appender: Appender) -> Self {
        Self { key, appender, pending: Vec::new(), failing: false }
    }

    /// Takes a record; it is written by the next [`Journal::flush`].
    pub fn push(&mut self, record: Record) {
        self.pending.push(record);
    }

    /// Writes what is pending, all of it with one write. Returns when to try again; none when nothing is left.
    pub fn flush(&mut self) -> Option<Duration> {
        if self.pending.is_empty() {
            return None;
        }
        match self.appender.append_all(&self.pending) {
            Ok(_) => {
                if std::mem::take(&mut self.failing) {
                    eprintln!("gqstep {}: the node's log is written again", self.key);
                }
                self.pending.clear();
                None
            }
            Err(e) => {
                if !std::mem::replace(&mut self.failing, true) {
                    eprintln!("gqstep {}: {e}; trying again every second", self.key);
                }
                Some(RETRY)
            }
        }
    }

    /// Writes what is pending, however long it takes.
    pub fn finish(&mut self) {
        while let Some(wait) = self.flush() {
            std::thread::sleep(wait);
        }
    }
}
