//! Files that others wrote: job files, and the node's log.

use crate::wire;
use gq_model::{MAX_ITEM, MAX_JOB_FILE, MAX_SCRIPT, MAX_TASKS};
use gq_nodelog::{Log, LogError, Record};
use gq_proto::{JOB_FILE_VERSION, JobFile};
use std::{fs, path::Path};

/// A job file, torn or whole; and the same bytes with magic, version and checksum that fit.
pub(crate) fn job_file(input: &[u8]) {
    one_job_file(input);
    for version in 1..=JOB_FILE_VERSION {
        let body = input.get(16..).unwrap_or_default();
        let head = [b"GQJOB1\r\n".as_slice(), &version.to_le_bytes(), &crc32fast::hash(body).to_le_bytes()];
        one_job_file(&[&head.concat(), body].concat());
    }
}

fn one_job_file(bytes: &[u8]) {
    let Ok(file) = JobFile::from_bytes(bytes) else { return };
    assert!(bytes.len() <= MAX_JOB_FILE && file.script.len() <= MAX_SCRIPT && file.prep.len() <= MAX_SCRIPT);
    assert!(file.items.len() as u64 <= MAX_TASKS && file.items.iter().all(|item| item.len() <= MAX_ITEM));
    let strings = || file.env.iter().chain(&file.args).chain(&file.items);
    assert!(strings().all(|string| !string.contains(&0)));
    assert!(strings().map(|string| string.len() + 1).sum::<usize>() <= bytes.len());
    wire::spec(&file.spec);
    // The request may be said in fewer words or in more; beyond its bound it is not written again.
    if let Ok(again) = file.to_bytes() {
        let again = JobFile::from_bytes(&again).unwrap_or_else(|why| panic!("not read again: {why}"));
        assert_eq!(again, file);
    }
}

/// A segment of a node's log, torn or whole; and one whose lines have checksums that fit.
pub(crate) fn node_log(input: &[u8]) {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let Ok(folder) = folder else { return };
    one_log(&folder.path().join("raw"), input);
    let mut sealed = Vec::new();
    for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        sealed.extend_from_slice(format!("\n{:08x} ", crc32fast::hash(line)).as_bytes());
        sealed.extend_from_slice(line);
        sealed.push(b'\n');
    }
    one_log(&folder.path().join("sealed"), &sealed);
}

fn one_log(folder: &Path, bytes: &[u8]) {
    let segment = folder.join(format!("{:016x}.log", 1));
    if fs::create_dir(folder).and_then(|()| fs::write(&segment, bytes)).is_err() {
        return;
    }
    match Log::open(folder) {
        Ok((log, records)) => {
            drop(log);
            assert_eq!(opened(folder), records, "a log reads the same when it is opened again");
            written_again(&folder.join("again"), &records);
        }
        Err(LogError::Damaged { .. } | LogError::Newer(..)) => {
            assert!(fs::read(&segment).is_ok_and(|now| now == bytes), "what is refused is left as it was");
        }
        Err(other) => panic!("{other}"),
    }
}

fn opened(folder: &Path) -> Vec<Record> {
    let (_, records) = Log::open(folder).unwrap_or_else(|why| panic!("{why}"));
    records
}

fn written_again(folder: &Path, records: &[Record]) {
    let (mut log, none) = Log::open(folder).unwrap_or_else(|why| panic!("{why}"));
    assert!(none.is_empty());
    log.append_all(records).unwrap_or_else(|why| panic!("{why}"));
    drop(log);
    assert_eq!(opened(folder), records);
}
