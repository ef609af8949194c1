//! Records on their way to the node's log. A full disk delays them; nothing loses them.

use gq_failpoint::{Step, step};
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
    /// Whether it was said that the script has ended.
    exited: bool,
}

impl Journal {
    pub const fn new(key: RunKey, appender: Appender) -> Self {
        Self { key, appender, pending: Vec::new(), failing: false, exited: false }
    }

    /// Takes a record; it is written by the next [`Journal::flush`]. That the script has ended is said once.
    pub fn push(&mut self, record: Record) {
        if matches!(record, Record::Exited { .. }) && std::mem::replace(&mut self.exited, true) {
            return;
        }
        self.pending.push(record);
    }

    /// Writes what is pending, all of it with one write. Returns when to try again; none when nothing is left.
    pub fn flush(&mut self) -> Option<Duration> {
        let last = self.pending.last()?;
        match step(step_of(last), || self.appender.append_all(&self.pending)) {
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

/// The step that it is to write records of which this is the last.
const fn step_of(record: &Record) -> Step {
    match record {
        Record::Up { .. } => Step::StepUp,
        Record::Started { .. } => Step::StepStarted,
        Record::Ended { .. } | Record::Refused { .. } => Step::StepEnded,
        Record::Suspended { .. }
        | Record::Resumed { .. }
        | Record::Exited { .. }
        | Record::Life { .. }
        | Record::Taken { .. }
        | Record::Vacated { .. }
        | Record::Acked { .. } => Step::StepTold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{JobId, RunNumber, TaskIndex, Timestamp};

    #[test]
    fn a_full_disk_delays_records_and_loses_none() {
        let key = RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(1) };
        let full = std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut journal = Journal::new(key, Appender::from_fd(full.into()));
        assert_eq!(journal.flush(), None);
        for at in [1, 2] {
            journal.push(Record::Started { key, at: Timestamp(at), session: 1 });
            assert_eq!(journal.flush(), Some(RETRY));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        journal.appender = Appender::from_fd(file.reopen().unwrap().into());
        assert_eq!(journal.flush(), None);
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.matches("Started").count(), 2);
    }
}
