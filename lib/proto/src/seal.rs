//! Sealed lines: a CRC, a blank, one line of JSON. How orders, reports and `HEAD` look as files.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why a sealed line was not taken.
#[derive(Debug, Error)]
pub enum SealError {
    /// It is torn, empty or damaged: not (yet) what its writer wrote.
    #[error("the checksum does not fit: torn or damaged")]
    Torn,
    /// It is whole, and not what it should be.
    #[error("not the expected content: {0}")]
    Content(#[from] serde_json::Error),
}

/// Writes `value` as one sealed line.
///
/// # Errors
/// When `value` cannot be written as JSON.
pub fn seal<T: Serialize>(value: &T) -> Result<Vec<u8>, SealError> {
    Ok(seal_json(&serde_json::to_vec(value)?))
}

/// Writes `json`, one line of JSON, as a sealed line.
pub fn seal_json(json: &[u8]) -> Vec<u8> {
    let mut line = format!("{:08x} ", crc32fast::hash(json)).into_bytes();
    line.extend_from_slice(json);
    line.push(b'\n');
    line
}

/// Reads one sealed line.
///
/// # Errors
/// [`SealError::Torn`] when the checksum does not fit, [`SealError::Content`] when it fits and the content does not.
pub fn unseal<T: DeserializeOwned>(line: &[u8]) -> Result<T, SealError> {
    let body = line.strip_suffix(b"\n").ok_or(SealError::Torn)?;
    let (crc, json) = body.split_at_checked(9).ok_or(SealError::Torn)?;
    if *crc != *format!("{:08x} ", crc32fast::hash(json)).as_bytes() {
        return Err(SealError::Torn);
    }
    Ok(serde_json::from_slice(json)?)
}
