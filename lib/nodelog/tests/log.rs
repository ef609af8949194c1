//! The laws of the node's log: what was appended is read, by whomever it was written, and a torn line costs itself alone.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use gq_model::{
    BootId, End, EndReason, Epoch, JobId, Outcome, Reason, RunKey, RunNumber, Seconds, Seq, SignalTo,
    TaskIndex, Timestamp,
};
use gq_nodelog::{Appender, Log, LogError, Record, Taken, Why};
use std::{collections::BTreeSet, fs, io::Write, path::Path, thread};
use tempfile::tempdir;

fn key(job: u64) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(1) }
}
fn life(taken: u64) -> Record {
    Record::Life {
        epoch: Epoch(3),
        boot: BootId([7; 16]),
        node_id: None,
        controller: Epoch(2),
        taken: Seq(taken),
    }
}
fn stop(job: u64) -> Record {
    let what = Taken::Stop { key: key(job), why: Why::Cancel, reason: None };
    Record::Taken { seq: Seq(job), controller: Epoch(2), what }
}
fn up(job: u64) -> Record {
    Record::Up { key: key(job), pid: 1, pid_start: 2 }
}
fn ended(job: u64) -> Record {
    let outcome = Outcome::without_exit(End::Failed, Reason::WorkDir, "/x\n\"y");
    Record::Ended { key: key(job), outcome, started: None, ended: Timestamp(5), epilog: None }
}
fn segments(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_appended_is_read_again_in_order() {
    let dir = tempdir().unwrap();
    let records = vec![
        life(0),
        stop(1),
        up(1),
        ended(1),
        Record::Acked { key: key(1) },
        Record::Exited { key: key(2), at: Timestamp(1) },
    ];
    {
        let (mut log, before) = Log::open(dir.path()).unwrap();
        assert!(before.is_empty());
        log.append(&records[0]).unwrap();
        log.append_all(&records[1..]).unwrap();
        log.append_all(&[]).unwrap();
        log.sync().unwrap();
        assert_eq!(log.tail().unwrap(), vec![]);
    }
    assert_eq!(Log::open(dir.path()).unwrap().1, records);
    assert_eq!(segments(dir.path()), ["0000000000000001.log"]);
}

#[test]
fn what_the_first_version_wrote_is_read_as_it_was_meant() {
    let dir = tempdir().unwrap();
    let lines = [
        r#"{"v":1,"record":{"Taken":{"seq":1,"controller":2,"what":{"Stop":{"key":{"job":1,"task":0,"run":1},"why":"Cancel"}}}}}"#,
        r#"{"v":1,"record":{"Taken":{"seq":2,"controller":2,"what":{"Signal":{"key":{"job":1,"task":0,"run":1},"signal":10}}}}}"#,
    ];
    let text: String =
        lines.iter().map(|json| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))).collect();
    fs::write(dir.path().join("0000000000000001.log"), text).unwrap();
    let (mut log, records) = Log::open(dir.path()).unwrap();
    let signal = Taken::Signal { key: key(1), signal: 10, to: SignalTo::All };
    let signal = Record::Taken { seq: Seq(2), controller: Epoch(2), what: signal };
    assert_eq!(records, [stop(1), signal]);
    // And all that this version writes is read by it.
    let key = key(1);
    let whats = [
        Taken::Stop { key, why: Why::Requeue, reason: Some(EndReason::Drain) },
        Taken::Signal { key, signal: 10, to: SignalTo::Batch },
        Taken::Warn { key, reason: EndReason::Preemption },
        Taken::Limit { key, limit: Some(Seconds(60)) },
        Taken::Limit { key, limit: None },
        Taken::Suspend { key },
        Taken::Resume { key },
    ];
    let taken = |what| Record::Taken { seq: Seq(3), controller: Epoch(2), what };
    let mut all: Vec<Record> = whats.into_iter().map(taken).collect();
    all.push(Record::Suspended { key, at: Timestamp(7) });
    all.push(Record::Resumed { key, at: Timestamp(8) });
    assert!(all.iter().all(|record| record.key() == Some(key)));
    log.append_all(&all).unwrap();
    drop(log);
    assert_eq!(Log::open(dir.path()).unwrap().1[2..], all);
}

#[test]
fn a_log_is_open_once_and_a_newer_one_is_refused() {
    let dir = tempdir().unwrap();
    let (log, _) = Log::open(dir.path()).unwrap();
    assert!(matches!(Log::open(dir.path()), Err(LogError::InUse(_))));
    drop(log);
    let json = br#"{"v":4,"record":{"Moon":{}}}"#;
    let line = format!("{:08x} {}\n", crc32fast::hash(json), std::str::from_utf8(json).unwrap());
    fs::write(dir.path().join("0000000000000001.log"), line).unwrap();
    assert!(matches!(Log::open(dir.path()), Err(LogError::Newer(_, 4))));
}

#[test]
fn many_writers_lose_nothing_and_the_tail_gives_each_record_of_others_once() {
    let dir = tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    let watch = log.watch().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|w| {
            let mut appender = Appender::from_fd(log.hand_out(key(w)).unwrap());
            thread::spawn(move || (0..200).for_each(|_| appender.append(&up(w)).unwrap()))
        })
        .collect();
    let mut count = 0;
    while count < 800 {
        log.append_all(&[stop(9), ended(9)]).unwrap();
        watch.wait().unwrap();
        let records = log.tail().unwrap();
        assert!(records.iter().all(|r| matches!(r, Record::Up { .. })), "{records:?}");
        count += records.len();
    }
    assert_eq!(count, 800);
    writers.into_iter().for_each(|w| w.join().unwrap());
    drop(log);
    let (_, all) = Log::open(dir.path()).unwrap();
    assert_eq!(all.iter().filter(|r| matches!(r, Record::Up { .. })).count(), 800);
}

#[test]
fn a_torn_line_spoils_nothing_but_itself() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("0000000000000001.log");
    drop(Log::open(dir.path()).unwrap().0.append_all(&[up(1), ended(1)]));
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, whole.get(..cut).unwrap()).unwrap();
        let (mut log, before) = Log::open(dir.path()).unwrap();
        assert!(before.len() <= 2);
        log.append(&stop(5)).unwrap();
        drop(log);
        let (_, after) = Log::open(dir.path()).unwrap();
        assert_eq!(after.last(), Some(&stop(5)), "cut at {cut}");
        // Only the newline may have been missing: then the line comes to life with the next one.
        assert!(after.len() - before.len() <= 2, "cut at {cut}");
    }
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(Log::open(dir.path()).unwrap().1, vec![ended(1)]);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[0; 70_000]).unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.append(&up(3)).unwrap();
    drop(log);
    assert_eq!(Log::open(dir.path()).unwrap().1, vec![ended(1), up(3)]);
}

/// The files of a folder beside its segments: what was cut.
fn cut(dir: &Path) -> Vec<String> {
    segments(dir).into_iter().filter(|name| !name.ends_with(".log")).collect()
}

/// Whatever byte is another: what was durable is refused by place, what nobody can have relied on is cut and kept aside.
#[test]
fn no_damage_is_skipped_without_a_word() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("0000000000000001.log");
    let before = [life(0), stop(1), up(1), ended(1), Record::Acked { key: key(1) }, life(1)];
    let after = [stop(2), up(2)];
    drop(Log::open(dir.path()).unwrap().0.append_all(&before));
    let durable = fs::metadata(&path).unwrap().len() as usize;
    drop(Log::open(dir.path()).unwrap().0.append_all(&after));
    let whole = fs::read(&path).unwrap();
    let all: Vec<Record> = before.iter().chain(&after).cloned().collect();
    // The last line of a life is the last that is durable for certain; its own end is not.
    let last = whole[..durable - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    let mut torn = 0;
    for at in (0..whole.len()).step_by(2) {
        if whole[at] == b'\n' {
            continue;
        }
        for bit in [if at % 4 == 0 { 0x01 } else { 0x80 }] {
            let mut other = whole.clone();
            other[at] ^= bit;
            fs::write(&path, &other).unwrap();
            match Log::open(dir.path()) {
                Err(LogError::Damaged { path: named, lines: 1, offset }) => {
                    assert!(at < last && offset as usize <= at && named == path, "byte {at}");
                    assert!(fs::read(&path).unwrap() == other && cut(dir.path()).is_empty(), "untouched");
                    drop(Log::open_at_a_loss(dir.path()).unwrap());
                    assert_eq!(cut(dir.path()), ["0000000000000001.cut-1"]);
                    assert_eq!(Log::open(dir.path()).unwrap().1.len(), all.len() - 1, "once is enough");
                }
                // The last quotation mark of a line, gone, makes the beginning of a line of it.
                Ok((_, records)) if cut(dir.path()).is_empty() => {
                    torn += 1;
                    assert_eq!(records.len(), all.len() - 1, "byte {at}");
                }
                Ok((_, records)) => {
                    assert!(at > last, "byte {at}: what was durable is cut");
                    assert_eq!(records.len(), all.len() - 1);
                    let kept = fs::read(dir.path().join("0000000000000001.cut-1")).unwrap();
                    assert!(other.windows(kept.len() - 1).any(|window| window == &kept[..kept.len() - 1]));
                }
                Err(other) => panic!("byte {at}: {other}"),
            }
            for name in cut(dir.path()) {
                fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
    }
    assert!(torn < 8, "{torn}");
    // Blocks of zeros, as a loss of power leaves them: at the end they are cut, before what was durable they are refused.
    for (from, to, is_refused) in
        [(durable, whole.len(), false), (durable - 40, whole.len(), false), (60, 200, true)]
    {
        let mut other = whole.clone();
        other[from..to].fill(0);
        fs::write(&path, &other).unwrap();
        let opened = Log::open(dir.path());
        assert_eq!(matches!(opened, Err(LogError::Damaged { .. })), is_refused, "{from}..{to}");
        assert_eq!(cut(dir.path()).len(), usize::from(!is_refused));
        drop(opened);
        let (mut log, _) = Log::open_at_a_loss(dir.path()).unwrap();
        log.append(&up(3)).unwrap();
        drop(log);
        assert_eq!(Log::open(dir.path()).unwrap().1.last(), Some(&up(3)));
        for name in cut(dir.path()) {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
}

/// The acknowledgement of an end, in whatever segment, says that the end was durable.
#[test]
fn what_was_acknowledged_was_durable() {
    let dir = tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.append_all(&[stop(1), ended(1), stop(2), ended(2)]).unwrap();
    log.rotate_if(1, &life(2)).unwrap();
    log.append(&Record::Acked { key: key(1) }).unwrap();
    drop(log);
    let path = dir.path().join("0000000000000001.log");
    let whole = fs::read(&path).unwrap();
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    // Of an end that was acknowledged nothing is owed.
    for (line, is_refused) in [(0, true), (1, false), (2, false), (3, false)] {
        let mut other = whole.clone();
        other[lines[line] + 30] ^= 1;
        fs::write(&path, &other).unwrap();
        let opened = Log::open(dir.path());
        assert_eq!(matches!(opened, Err(LogError::Damaged { .. })), is_refused, "line {line}");
    }
}

#[test]
fn a_full_disk_is_said() {
    let full = fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let error = Appender::from_fd(full.into()).append(&up(1)).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
}

#[test]
fn old_segments_are_followed_while_in_use_and_dropped_when_nobody_needs_them() {
    let dir = tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.append_all(&[life(0), stop(1), stop(2)]).unwrap();
    let mut first = Appender::from_fd(log.hand_out(key(1)).unwrap());
    assert!(!log.rotate_if(1 << 20, &life(2)).unwrap());
    assert!(log.rotate_if(1, &life(2)).unwrap());
    first.append(&up(1)).unwrap();
    assert_eq!(log.tail().unwrap(), vec![up(1)]);
    first.append(&ended(1)).unwrap();
    assert_eq!(log.tail().unwrap(), vec![ended(1)]);
    log.append(&Record::Acked { key: key(1) }).unwrap();
    assert!(log.rotate_if(1, &life(2)).unwrap());

    let live = |jobs: &[u64]| jobs.iter().map(|j| key(*j)).collect::<BTreeSet<_>>();
    assert_eq!(
        log.drop_segments(&live(&[2])).unwrap(),
        0,
        "run 2 has written nothing: it may write anywhere"
    );
    assert_eq!(log.drop_segments(&live(&[])).unwrap(), 0, "run 2 is not acknowledged");
    log.append_all(&[ended(2), Record::Acked { key: key(2) }]).unwrap();
    assert_eq!(log.drop_segments(&live(&[1])).unwrap(), 0, "the supervisor of run 1 may still write");
    assert_eq!(log.drop_segments(&live(&[])).unwrap(), 2);
    assert_eq!(segments(dir.path()), ["0000000000000003.log"]);
    drop(log);
    let (_, records) = Log::open(dir.path()).unwrap();
    assert_eq!(records.first(), Some(&life(2)));
}

#[test]
fn an_acknowledgement_outlives_what_it_acknowledges() {
    let dir = tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.append_all(&[stop(1), stop(2)]).unwrap();
    log.rotate_if(1, &life(0)).unwrap();
    log.append_all(&[ended(1), Record::Acked { key: key(1) }]).unwrap();
    log.rotate_if(1, &life(0)).unwrap();
    assert_eq!(
        log.drop_segments(&BTreeSet::new()).unwrap(),
        0,
        "run 2 holds the first, which holds the second"
    );
    drop(log);
    let (mut log, records) = Log::open(dir.path()).unwrap();
    assert!(records.contains(&Record::Acked { key: key(1) }));
    log.append(&Record::Acked { key: key(2) }).unwrap();
    assert_eq!(log.drop_segments(&BTreeSet::new()).unwrap(), 2);
}
