//! The write-ahead log before SQLite opens it: SQLite reads up to the first frame that does not fit and drops the rest without a word. Here the rest
//! is looked at: what was never acknowledged is kept aside and told of; a gap in what was acknowledged is refused. Changes nothing of the log.
//!
//! What is acknowledged was synced before the next transaction began. So a frame that follows an end of a transaction says that all before that
//! end was synced.
//!
//! Source: the file format of SQLite 3, chapter 4, "The Write-Ahead Log".

use crate::StoreError;
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first word of a log whose checksums are of little-endian words; of big-endian words it is one more.
const MAGIC: u32 = 0x377f_0682;
/// A log that began anew counts its generation up by one; what lies behind its end is of an earlier one.
const GENERATIONS: u32 = 1 << 20;

/// What a log turned out to be.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// All of it is what was written.
    Whole,
    /// From this offset on it was never acknowledged, and is not whole.
    Torn { offset: u64 },
    /// What was acknowledged is not what was written.
    Damaged { frame: u64, offset: u64 },
}

/// Looks through the log of a database, if there is one. Its torn end is kept in a file beside it.
///
/// # Errors
/// [`StoreError::Damaged`] with the place.
pub(crate) fn look(database: &Path) -> Result<(), StoreError> {
    let path = log_of(database);
    let unreadable = |e: io::Error| StoreError::Damaged(format!("{}: {e}", path.display()));
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(unreadable(e)),
    };
    match read(&mut BufReader::with_capacity(1 << 20, &file)).map_err(unreadable)? {
        Found::Whole => Ok(()),
        Found::Torn { offset } => {
            let (copy, bytes) = keep_rest(&mut file, offset, &path).map_err(unreadable)?;
            log::warn!(
                "{}: the last {bytes} bytes, from offset {offset} on, were never acknowledged and are not whole; they are cut, and kept in {}",
                path.display(),
                copy.display()
            );
            Ok(())
        }
        Found::Damaged { frame, offset } => Err(StoreError::Damaged(format!(
            "{}: frame {frame}, at offset {offset}, is not what was written, and was acknowledged",
            path.display()
        ))),
    }
}

/// The path of the log of a database.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Copies what follows `offset` into a file of its own.
fn keep_rest(file: &mut File, offset: u64, path: &Path) -> io::Result<(PathBuf, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    file.seek(SeekFrom::Start(offset))?;
    for number in 1u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{number}"));
        let copy = PathBuf::from(name);
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy) {
            Ok(mut to) => {
                let bytes = io::copy(file, &mut to)?;
                to.sync_all()?;
                return Ok((copy, bytes));
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Two sums over words, as they run through a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums(u32, u32);

/// A log's words: how they are read, and which generation is meant.
struct Log {
    is_big: bool,
    salts: (u32, u32),
}

/// One frame's header.
struct Frame {
    page: u32,
    /// The size of the database after the transaction that ends here; 0 when none does.
    ends: u32,
    salts: (u32, u32),
    sums: Sums,
}

impl Log {
    fn sum(&self, mut sums: Sums, bytes: &[u8]) -> Sums {
        for pair in bytes.chunks_exact(8) {
            let (a, b) = pair.split_at(4);
            let word = |bytes: &[u8]| {
                let word = be(bytes, 0);
                if self.is_big { word } else { word.swap_bytes() }
            };
            sums.0 = sums.0.wrapping_add(word(a)).wrapping_add(sums.1);
            sums.1 = sums.1.wrapping_add(word(b)).wrapping_add(sums.0);
        }
        sums
    }

    /// The sums after a frame that follows `before`.
    fn after(&self, before: Sums, frame: &[u8]) -> Sums {
        let (header, page) = frame.split_at(FRAME_HEADER.min(frame.len()));
        self.sum(self.sum(before, header.get(..8).unwrap_or_default()), page)
    }

    fn is_of_earlier(&self, frame: &Frame) -> bool {
        let ago = self.salts.0.wrapping_sub(frame.salts.0);
        frame.page != 0 && (1..GENERATIONS).contains(&ago)
    }
}

/// The big-endian word at an offset; 0 beyond the end.
fn be(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| <[u8; 4]>::try_from(word).ok());
    u32::from_be_bytes(word.unwrap_or_default())
}

/// Fills as much of `bytes` as there is, and says how much.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn read(from: &mut impl Read) -> io::Result<Found> {
    let mut header = [0; HEADER];
    let filled = fill(from, &mut header)?;
    if filled == 0 {
        return Ok(Found::Whole);
    }
    if filled < HEADER {
        return Ok(Found::Torn { offset: 0 });
    }
    let log = Log { is_big: be(&header, 0) != MAGIC, salts: (be(&header, 16), be(&header, 20)) };
    let size = usize::try_from(be(&header, 8)).unwrap_or(0);
    let told = Sums(be(&header, 24), be(&header, 28));
    let sums = log.sum(Sums(0, 0), header.get(..24).unwrap_or_default());
    let is_header = be(&header, 0) & !1 == MAGIC && (512..=65_536).contains(&size) && sums == told;
    if !is_header {
        // It is synced before the first frame is written.
        let has_frames = fill(from, &mut [0])? > 0;
        return Ok(if has_frames {
            Found::Damaged { frame: 0, offset: 0 }
        } else {
            Found::Torn { offset: 0 }
        });
    }
    frames(from, &log, size, sums)
}

fn frames(from: &mut impl Read, log: &Log, size: usize, mut sums: Sums) -> io::Result<Found> {
    let mut bytes = vec![0; FRAME_HEADER + size];
    let step = bytes.len() as u64;
    // The end of the last transaction that is whole; the first frame that is not, and what comes after it.
    let (mut end, mut rest) = (HEADER as u64, None);
    for number in 1u64.. {
        let offset = HEADER as u64 + (number - 1) * step;
        let filled = fill(from, &mut bytes)?;
        if filled < bytes.len() {
            let is_torn = filled > 0
                || rest.as_ref().map_or(offset > end, |rest: &Rest| rest.offset > end || rest.is_odd);
            return Ok(if is_torn { Found::Torn { offset: end } } else { Found::Whole });
        }
        let frame = Frame {
            page: be(&bytes, 0),
            ends: be(&bytes, 4),
            salts: (be(&bytes, 8), be(&bytes, 12)),
            sums: Sums(be(&bytes, 16), be(&bytes, 20)),
        };
        let rest = match &mut rest {
            None if frame.page != 0 && frame.salts == log.salts && log.after(sums, &bytes) == frame.sums => {
                sums = frame.sums;
                if frame.ends != 0 {
                    end = offset + step;
                }
                continue;
            }
            None => rest.insert(Rest { number, offset, seeds: [sums; 2], has_ended: false, is_odd: false }),
            Some(rest) => rest,
        };
        let fits = rest.seeds.iter().any(|seed| log.after(*seed, &bytes) == frame.sums);
        // The salts are in no sum: what follows from all before it is of this log, whatever they say.
        let is_ours = frame.page != 0 && (frame.salts == log.salts || (fits && number == rest.number));
        if rest.has_ended && fits && is_ours {
            return Ok(Found::Damaged { frame: rest.number, offset: rest.offset });
        }
        rest.has_ended = is_ours && frame.ends != 0;
        rest.is_odd |= is_ours || !log.is_of_earlier(&frame);
        // What was told of it, and what it comes to: one of the two may be what is damaged.
        rest.seeds = [frame.sums, log.after(rest.seeds.first().copied().unwrap_or(sums), &bytes)];
    }
    Ok(Found::Whole)
}

/// What comes after the last frame that follows from the ones before it.
struct Rest {
    /// Its first frame, from 1.
    number: u64,
    /// Where that is.
    offset: u64,
    /// What the next frame may go by.
    seeds: [Sums; 2],
    /// Whether a transaction ended with the frame before.
    has_ended: bool,
    /// Whether something of it is not of an earlier generation.
    is_odd: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of this many transactions of several frames each, with where each of them begins, and where the last one ends.
    fn log(transactions: u32) -> (Vec<u8>, Vec<usize>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        let begin = "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(a, b);";
        conn.execute_batch(begin).unwrap();
        let bytes = || fs::read(log_of(&path)).unwrap();
        let mut begins = vec![HEADER];
        for number in 0..transactions {
            begins.push(bytes().len());
            conn.execute("INSERT INTO t VALUES(?, zeroblob(1500))", [number]).unwrap();
        }
        begins.push(bytes().len());
        (bytes(), begins)
    }

    fn found(bytes: &[u8]) -> Found {
        read(&mut &*bytes).unwrap()
    }

    /// B003: a hole in what was acknowledged is named, whatever byte of it is another.
    #[test]
    fn every_byte_counts() {
        let (bytes, begins) = log(3);
        assert_eq!(found(&bytes), Found::Whole);
        let last = begins[begins.len() - 2];
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            let found = found(&other);
            let is_right = match found {
                // Of the last one nobody can tell whether it was acknowledged: nothing comes after it.
                Found::Torn { offset } => at >= last && offset == last as u64,
                Found::Damaged { offset, .. } => offset <= at as u64,
                Found::Whole => false,
            };
            assert!(is_right, "byte {at} (the last transaction begins at {last}): {found:?}");
            assert!(at >= last || matches!(found, Found::Damaged { .. }), "byte {at}: {found:?}");
        }
    }

    #[test]
    fn a_log_that_was_cut_is_good_up_to_there() {
        let (bytes, begins) = log(3);
        for length in 0..bytes.len() {
            let whole = begins.iter().rev().find(|begin| **begin <= length).copied().unwrap_or(0);
            let expected = match length {
                0 => Found::Whole,
                _ if whole == length => Found::Whole,
                _ => Found::Torn { offset: whole as u64 },
            };
            assert_eq!(found(&bytes[..length]), expected, "cut at {length}");
        }
        // Zeros where the last of it should be, as after a loss of power; and a hole before more.
        let blank = |from: usize, to: usize| {
            let mut other = bytes.clone();
            other[from..to].fill(0);
            found(&other)
        };
        let [first, second, last, end] = begins[1..] else { panic!("{begins:?}") };
        assert_eq!(blank(last, end), Found::Torn { offset: last as u64 });
        assert_eq!(blank(last + 700, end), Found::Torn { offset: last as u64 });
        assert!(matches!(blank(first + 10, second - 600), Found::Damaged { .. }));
        assert!(matches!(blank(HEADER, HEADER + 100), Found::Damaged { .. }));
    }

    #[test]
    fn what_an_earlier_generation_left_behind_its_end_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = WAL; CREATE TABLE t(a, b);")
            .unwrap();
        for number in 0..5 {
            conn.execute("INSERT INTO t VALUES(?, zeroblob(1500))", [number]).unwrap();
        }
        conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        conn.execute("INSERT INTO t VALUES(9, 9)", []).unwrap();
        let bytes = fs::read(log_of(&path)).unwrap();
        assert_eq!(found(&bytes), Found::Whole);
        // A byte of the new generation is another.
        let mut other = bytes.clone();
        other[HEADER + 9] ^= 1;
        assert_eq!(found(&other), Found::Torn { offset: HEADER as u64 });
    }
}
