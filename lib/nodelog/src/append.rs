//! The writing side: whole records into a segment that others write too. Opens and reads nothing.

use crate::{line, log::LogError, record::Record};
use std::{fs::File, io, io::Write, os::fd::OwnedFd};

/// Appends records to an open segment.
#[derive(Debug)]
pub struct Appender {
    file: File,
}

impl Appender {
    /// Takes an open segment, as `gqstep` is handed it: opened for appending.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { file: File::from(fd) }
    }

    /// Appends one record with one write.
    ///
    /// # Errors
    /// As [`Appender::append_all`].
    pub fn append(&mut self, record: &Record) -> Result<(), LogError> {
        self.append_all(std::slice::from_ref(record)).map(|_| ())
    }

    /// Appends records with one write; returns the number of bytes written.
    ///
    /// # Errors
    /// [`LogError::Append`] when they were not written whole, most often because the disk is full. What was written of
    /// them does no harm; append all of them again when there is room: a reader may then meet the first ones twice.
    pub fn append_all(&mut self, records: &[Record]) -> Result<u64, LogError> {
        let mut bytes = Vec::with_capacity(256 * records.len().max(1));
        line::write(records, &mut bytes).map_err(|e| LogError::Append(e.into()))?;
        loop {
            match self.file.write(&bytes) {
                Ok(n) if n == bytes.len() => return Ok(n as u64),
                Ok(_) => return Err(LogError::Append(io::ErrorKind::StorageFull.into())),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(LogError::Append(e)),
            }
        }
    }

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// [`LogError::Sync`]: what was appended may be lost. Never call again after that; stop.
    pub fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(LogError::Sync)
    }

    pub(crate) const fn file(&mut self) -> &mut File {
        &mut self.file
    }
}
