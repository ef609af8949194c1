//! Lines: how a record looks in a segment, and how it is read back. Touches no file.

use crate::record::{RECORD_VERSION, Record};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Out<'a> {
    v: u32,
    record: &'a Record,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Deserialize)]
struct In {
    record: Record,
}

/// What a line holds.
#[derive(Debug)]
pub enum Line {
    /// Nothing: the empty line before every write.
    Empty,
    /// A record.
    Record(Box<Record>),
    /// Torn or damaged.
    Bad,
    /// Whole, of a version that this program does not know.
    Newer(u32),
}

/// Appends the lines of `records` to `out`, an empty line before them.
pub fn write(records: &[Record], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    out.push(b'\n');
    for record in records {
        let json = serde_json::to_vec(&Out { v: RECORD_VERSION, record })?;
        out.extend_from_slice(format!("{:08x} ", crc32fast::hash(&json)).as_bytes());
        out.extend_from_slice(&json);
        out.push(b'\n');
    }
    Ok(())
}

/// Reads one line, its newline not among `line`.
pub fn read(line: &[u8]) -> Line {
    if line.is_empty() {
        return Line::Empty;
    }
    let Some((crc, json)) = line.split_at_checked(9) else { return Line::Bad };
    if *crc != *format!("{:08x} ", crc32fast::hash(json)).as_bytes() {
        return Line::Bad;
    }
    match serde_json::from_slice::<Version>(json) {
        Ok(Version { v }) if v > RECORD_VERSION => Line::Newer(v),
        Ok(_) => {
            serde_json::from_slice::<In>(json).map_or(Line::Bad, |line| Line::Record(Box::new(line.record)))
        }
        Err(_) => Line::Bad,
    }
}

/// Whether what is no line is the beginning of one, as a write leaves it that found no room or whose writer was killed.
pub fn is_torn(line: &[u8]) -> bool {
    let (crc, json) = line.split_at(line.len().min(9));
    let is_crc = crc.iter().enumerate().all(|(at, byte)| match at {
        8 => *byte == b' ',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
    });
    is_crc && serde_json::from_slice::<serde::de::IgnoredAny>(json).is_err_and(|e| e.is_eof())
}
