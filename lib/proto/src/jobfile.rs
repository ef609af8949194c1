//! The job file: request, environment, arguments and script in one file that its user made and owns. It is the
//! credential: the node runs nothing but what such a file says, as nobody but its owner.
//!
//! Layout (numbers little-endian): magic `GQJOB1\r\n` (8 bytes), version (4), CRC-32 of all that follows (4), cluster (16),
//! uid (4), token (16), whether it is left for gqd (4), lengths of request, environment, arguments, script, prep script and items (4 each), then these six. The request
//! is JSON; environment, arguments and items are byte strings, each ended by a NUL, so that any bytes a process can have travel.
//! Version 1 had the first four of these alone, and version 2 did not say whether it is left; both are read still.

use gq_model::{ClusterId, JobSpec, MAX_ITEM, MAX_JOB_FILE, MAX_REQUEST, MAX_SCRIPT, MAX_TASKS, Token, Uid};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The version of the layout.
pub const JOB_FILE_VERSION: u32 = 3;
const MAGIC: &[u8; 8] = b"GQJOB1\r\n";
const HEAD: usize = 8 + 4 + 4 + 16 + 4 + 16 + 4 + 24;

/// A job file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// The cluster it was made for.
    pub cluster: ClusterId,
    /// The user who made it: must be the file's owner.
    pub uid: Uid,
    /// The submission's token.
    pub token: Token,
    /// Whether it is left for `gqd` to find (`--offline`): nobody waits for an answer.
    pub left: bool,
    /// The request.
    pub spec: JobSpec,
    /// The environment chosen for the job: `NAME=value` byte strings.
    pub env: Vec<Vec<u8>>,
    /// The script's arguments, its name not among them.
    pub args: Vec<Vec<u8>>,
    /// The script.
    pub script: Vec<u8>,
    /// The script that runs first (`--prep`); empty when there is none.
    pub prep: Vec<u8>,
    /// What each task of the array is for, by its index (`--each`); empty when that was not said.
    pub items: Vec<Vec<u8>>,
}

/// A job file's content as it lies in its bytes: room is made for the request alone, since a file of many short strings is many times as large when
/// each has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFileParts<'a> {
    /// As in [`JobFile`].
    pub cluster: ClusterId,
    /// As in [`JobFile`].
    pub uid: Uid,
    /// As in [`JobFile`].
    pub token: Token,
    /// As in [`JobFile`].
    pub left: bool,
    /// As in [`JobFile`].
    pub spec: JobSpec,
    /// As in [`JobFile`].
    pub script: &'a [u8],
    prep: &'a [u8],
    /// Byte strings, each ended by a NUL.
    env: &'a [u8],
    args: &'a [u8],
    items: &'a [u8],
}

/// Why bytes are no job file.
#[derive(Debug, Error)]
pub enum JobFileError {
    /// Shorter than it says, or its checksum does not fit: not written to its end, or damaged.
    #[error("incomplete or damaged")]
    Torn,
    /// Not a job file at all.
    #[error("not a job file")]
    Magic,
    /// Of a version this program does not know.
    #[error("a job file of version {0}; this gq knows version {JOB_FILE_VERSION}")]
    Version(u32),
    /// Larger than [`MAX_JOB_FILE`], its script larger than [`MAX_SCRIPT`], its request larger than [`MAX_REQUEST`], or an item larger than
    /// [`MAX_ITEM`].
    #[error("{0} of {1} bytes: {2} at most")]
    TooLarge(&'static str, usize, usize),
    /// More items than an array may have tasks.
    #[error("more than {MAX_TASKS} items")]
    TooMany,
    /// A byte string holds a NUL.
    #[error("an environment variable or argument holds a NUL byte")]
    Nul,
    /// The request is not one.
    #[error("the request in it is malformed: {0}")]
    Request(#[from] serde_json::Error),
}

impl JobFile {
    /// Writes the file's bytes.
    ///
    /// # Errors
    /// When something is too large or holds a NUL.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobFileError> {
        for (what, script) in [("the script", &self.script), ("the prep script", &self.prep)] {
            if script.len() > MAX_SCRIPT {
                return Err(JobFileError::TooLarge(what, script.len(), MAX_SCRIPT));
            }
        }
        let spec = serde_json::to_vec(&self.spec)?;
        check_request(spec.len())?;
        let (env, args, items) = (join(&self.env)?, join(&self.args)?, join(&self.items)?);
        check_items(&items)?;
        let parts = [&spec, &env, &args, &self.script, &self.prep, &items];
        let total = HEAD + parts.iter().map(|p| p.len()).sum::<usize>();
        if total > MAX_JOB_FILE {
            return Err(JobFileError::TooLarge(
                "scripts, environment, arguments and items together",
                total,
                MAX_JOB_FILE,
            ));
        }
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&JOB_FILE_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.cluster.0);
        out.extend_from_slice(&self.uid.0.to_le_bytes());
        out.extend_from_slice(&self.token.0);
        out.extend_from_slice(&u32::from(self.left).to_le_bytes());
        for part in parts {
            // Checked above: no part is longer than MAX_JOB_FILE.
            out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        for part in parts {
            out.extend_from_slice(part);
        }
        let crc = crc32fast::hash(out.get(16..).unwrap_or_default());
        if let Some(slot) = out.get_mut(12..16) {
            slot.copy_from_slice(&crc.to_le_bytes());
        }
        Ok(out)
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// [`JobFileError::Torn`] when it may only be unfinished, other errors when it can never be one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JobFileError> {
        let JobFileParts { cluster, uid, token, left, spec, script, prep, env, args, items } =
            JobFileParts::of(bytes)?;
        let (env, args, items) = (split(env), split(args), split(items));
        let (script, prep) = (script.to_vec(), prep.to_vec());
        Ok(Self { cluster, uid, token, left, spec, env, args, script, prep, items })
    }
}

impl<'a> JobFileParts<'a> {
    /// Reads a file's bytes; what is one for [`JobFile::from_bytes`] is one here.
    ///
    /// # Errors
    /// As [`JobFile::from_bytes`].
    pub fn of(bytes: &'a [u8]) -> Result<Self, JobFileError> {
        if bytes.len() > MAX_JOB_FILE {
            return Err(JobFileError::TooLarge("the job file", bytes.len(), MAX_JOB_FILE));
        }
        let mut at = bytes;
        if take::<8>(&mut at)? != *MAGIC {
            return Err(JobFileError::Magic);
        }
        let version = u32::from_le_bytes(take(&mut at)?);
        if !(1..=JOB_FILE_VERSION).contains(&version) {
            return Err(JobFileError::Version(version));
        }
        let crc = u32::from_le_bytes(take(&mut at)?);
        if crc32fast::hash(at) != crc {
            return Err(JobFileError::Torn);
        }
        let cluster = ClusterId(take(&mut at)?);
        let uid = Uid(u32::from_le_bytes(take(&mut at)?));
        let token = Token(take(&mut at)?);
        let left = version >= 3 && u32::from_le_bytes(take(&mut at)?) != 0;
        let mut lengths = [0usize; 6];
        for length in lengths.iter_mut().take(if version == 1 { 4 } else { 6 }) {
            *length = u32::from_le_bytes(take(&mut at)?) as usize;
        }
        let [spec, env, args, script, prep, items] = lengths;
        for (what, length) in [("the script", script), ("the prep script", prep)] {
            if length > MAX_SCRIPT {
                return Err(JobFileError::TooLarge(what, length, MAX_SCRIPT));
            }
        }
        check_request(spec)?;
        let mut part = |length: usize| {
            let (part, rest) = at.split_at_checked(length).ok_or(JobFileError::Torn)?;
            at = rest;
            Ok::<_, JobFileError>(part)
        };
        let (spec, env, args, script) = (part(spec)?, part(env)?, part(args)?, part(script)?);
        let (prep, items) = (part(prep)?, part(items)?);
        let is_torn = |block: &[u8]| block.last().is_some_and(|byte| *byte != 0);
        if !at.is_empty() || [env, args, items].into_iter().any(is_torn) {
            return Err(JobFileError::Torn);
        }
        check_items(items)?;
        let spec = serde_json::from_slice(spec)?;
        Ok(Self { cluster, uid, token, left, spec, script, prep, env, args, items })
    }
}

/// SHA-256 of `bytes` in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn check_request(len: usize) -> Result<(), JobFileError> {
    if len > MAX_REQUEST {
        return Err(JobFileError::TooLarge("the request (options and paths, no script)", len, MAX_REQUEST));
    }
    Ok(())
}

/// Whether the items of a block are not too many and none is too large, before anything is made of them.
fn check_items(block: &[u8]) -> Result<(), JobFileError> {
    let (mut count, mut last) = (0, 0);
    for (end, _) in block.iter().enumerate().filter(|(_, byte)| **byte == 0) {
        count += 1;
        if end - last > MAX_ITEM {
            return Err(JobFileError::TooLarge("an item of the array", end - last, MAX_ITEM));
        }
        last = end + 1;
    }
    if count > MAX_TASKS { Err(JobFileError::TooMany) } else { Ok(()) }
}

fn take<const N: usize>(at: &mut &[u8]) -> Result<[u8; N], JobFileError> {
    let (head, rest) = at.split_first_chunk::<N>().ok_or(JobFileError::Torn)?;
    *at = rest;
    Ok(*head)
}

fn join(strings: &[Vec<u8>]) -> Result<Vec<u8>, JobFileError> {
    let mut out = Vec::with_capacity(strings.iter().map(|s| s.len() + 1).sum());
    for string in strings {
        if string.contains(&0) {
            return Err(JobFileError::Nul);
        }
        out.extend_from_slice(string);
        out.push(0);
    }
    Ok(out)
}

fn split(block: &[u8]) -> Vec<Vec<u8>> {
    block
        .strip_suffix(&[0])
        .map_or_else(Vec::new, |body| body.split(|b| *b == 0).map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> JobFile {
        let spec = serde_json::from_str(r#"{"name":"n","work_dir":"/","umask":18}"#).unwrap();
        JobFile {
            cluster: ClusterId([1; 16]),
            uid: Uid(4_294_967_294),
            token: Token([7; 16]),
            left: true,
            spec,
            env: vec![b"A=1\n\\,\"".to_vec(), b"B=".to_vec(), b"C=\xff\xfe".to_vec()],
            args: vec![Vec::new(), b"a b".to_vec()],
            script: b"#!/bin/sh\n".to_vec(),
            prep: b"#!/bin/sh\nfetch\n".to_vec(),
            items: vec![b"frame 1".to_vec(), Vec::new(), b"\xff".to_vec()],
        }
    }

    #[test]
    fn it_reads_back_to_the_byte() {
        let file = sample();
        assert_eq!(JobFile::from_bytes(&file.to_bytes().unwrap()).unwrap(), file);
    }

    #[test]
    fn files_of_earlier_versions_are_read_still() {
        let second = JobFile { left: false, ..sample() };
        let first = JobFile { prep: Vec::new(), items: Vec::new(), ..second.clone() };
        for (version, file) in [(1u32, first), (2, second)] {
            let mut bytes = file.to_bytes().unwrap();
            if version == 1 {
                // The last two lengths are 0 and were not there.
                bytes.drain(HEAD - 8..HEAD);
            }
            bytes.drain(HEAD - 28..HEAD - 24);
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc32fast::hash(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(JobFile::from_bytes(&bytes).unwrap(), file, "version {version}");
        }
    }

    #[test]
    fn a_request_that_would_fill_memory_is_none() {
        let mut file = sample();
        file.spec.features = vec!["f".repeat(1000); MAX_REQUEST / 1000];
        assert!(matches!(file.to_bytes(), Err(JobFileError::TooLarge(_, _, MAX_REQUEST))));
        // Written by somebody else's program, with checksum and all.
        let spec = vec![b' '; MAX_REQUEST + 1];
        let mut body = vec![0; 16 + 4 + 16];
        for len in [spec.len(), 0, 0, 0, 0, 0] {
            body.extend_from_slice(&(len as u32).to_le_bytes());
        }
        body.extend_from_slice(&spec);
        let bytes =
            [MAGIC.as_slice(), &2u32.to_le_bytes(), &crc32fast::hash(&body).to_le_bytes(), &body].concat();
        assert!(matches!(JobFile::from_bytes(&bytes), Err(JobFileError::TooLarge(_, _, MAX_REQUEST))));
    }

    #[test]
    fn items_that_no_task_could_have_are_refused_whoever_wrote_them() {
        let of = |items: Vec<Vec<u8>>| JobFile { items, ..sample() };
        let longest = of(vec![Vec::new(), vec![b'x'; MAX_ITEM], Vec::new()]);
        assert_eq!(JobFile::from_bytes(&longest.to_bytes().unwrap()).unwrap(), longest);
        let most = of(vec![Vec::new(); MAX_TASKS as usize]);
        assert_eq!(JobFile::from_bytes(&most.to_bytes().unwrap()).unwrap().items.len() as u64, MAX_TASKS);
        let too_long = of(vec![b"short".to_vec(), vec![b'x'; MAX_ITEM + 1]]).to_bytes();
        assert!(matches!(too_long, Err(JobFileError::TooLarge(_, _, MAX_ITEM))));
        assert!(matches!(
            of(vec![Vec::new(); MAX_TASKS as usize + 1]).to_bytes(),
            Err(JobFileError::TooMany)
        ));
        // Written by somebody else's program, with checksum and all.
        let by_hand = |items: &[u8]| {
            let plain = JobFile { items: Vec::new(), ..sample() }.to_bytes().unwrap();
            let mut bytes = [&plain, items].concat();
            bytes[HEAD - 4..HEAD].copy_from_slice(&(items.len() as u32).to_le_bytes());
            let crc = crc32fast::hash(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            JobFile::from_bytes(&bytes)
        };
        assert_eq!(by_hand(b"a\0b\0").unwrap().items, [b"a", b"b"]);
        let long = [vec![b'x'; MAX_ITEM + 1], vec![0]].concat();
        assert!(matches!(by_hand(&long), Err(JobFileError::TooLarge(_, _, MAX_ITEM))));
        assert!(matches!(by_hand(&vec![0; MAX_TASKS as usize + 1]), Err(JobFileError::TooMany)));
        assert!(matches!(by_hand(b"torn"), Err(JobFileError::Torn)));
    }

    #[test]
    fn cut_or_damaged_anywhere_it_is_refused_and_never_taken_for_another() {
        let bytes = sample().to_bytes().unwrap();
        for cut in 0..bytes.len() {
            assert!(JobFile::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x20;
            assert!(JobFile::from_bytes(&bad).is_err(), "byte {at} changed");
        }
    }
}
