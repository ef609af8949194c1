//! What comes over a socket, and letters: frames, asks, answers, orders, reports and heads.

use crate::{reads_back, words};
use gq_ipc::{Conn, IpcError};
use gq_model::{Change, JobSpec, MAX_TASKS, MAX_TERMS, Seq};
use gq_proto::{
    Ask, Asked, Head, Letters, Order, OrderBody, Reading, Reply, Report, ReportBody, Selection, seal,
    seal_json, unseal,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{convert::Infallible, fmt::Debug, io::Write, os::unix::net::UnixStream};

/// Frames of at most this many bytes are taken here.
const MOST: usize = 4096;
/// As much as goes into a socket that nobody reads.
const STREAM: usize = 64 << 10;

/// The frames of a stream: as many as it holds whole, up to the first that is too large or torn.
pub(crate) fn frames(input: &[u8]) {
    let input = input.get(..STREAM).unwrap_or(input);
    let (Ok((near, far)), Ok(no)) = (Conn::pair(), Conn::pair()) else { return };
    drop(no);
    let Ok(fd) = std::os::fd::AsFd::as_fd(&near).try_clone_to_owned() else { return };
    let mut raw = UnixStream::from(fd);
    if raw.write_all(input).is_err() {
        return;
    }
    drop((raw, near));
    let mut rest = input;
    loop {
        let got = far.recv(MOST);
        let Some((head, body)) = rest.split_first_chunk::<4>() else {
            match got {
                Ok(None) => assert!(rest.is_empty(), "the end of a stream inside a head"),
                Err(IpcError::Closed) => assert!(!rest.is_empty(), "a stream that ended well"),
                other => panic!("at the end: {other:?}"),
            }
            return;
        };
        let len = u32::from_le_bytes(*head) as usize;
        match (got, body.split_at_checked(len)) {
            (Err(IpcError::TooLarge { len: said, max: MOST }), _) => {
                assert!(said == len && len > MOST);
                return;
            }
            (Ok(Some(frame)), Some((whole, after))) => {
                assert!(frame == whole && len <= MOST);
                rest = after;
            }
            (Err(IpcError::Closed), None) => return,
            (other, _) => panic!("a frame of {len}: {other:?}"),
        }
    }
}

/// One frame: an ask of a client, an answer, or letters of either side.
pub(crate) fn asks(input: &[u8]) {
    if let Some(asked) = read::<Asked>(input) {
        ask(&asked.ask);
    }
    read::<Reply>(input);
    read::<Letters<OrderBody>>(input);
    read::<Letters<ReportBody>>(input);
    if let Some(asked) = read::<JobSpec>(input) {
        spec(&asked);
    }
}

fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(json: &[u8]) -> Option<T> {
    let value = serde_json::from_slice(json).ok()?;
    reads_back(&value);
    Some(value)
}

fn ask(ask: &Ask) {
    match ask {
        Ask::TestOnly { spec: asked } => spec(asked),
        Ask::List(list) => selection(&list.select),
        Ask::Update { select, changes } => {
            selection(select);
            for change in changes {
                if let Change::Dependency(Some(asked)) = change {
                    assert!(asked.terms.len() <= MAX_TERMS);
                }
            }
        }
        Ask::Cancel { select, .. }
        | Ask::Hold { select }
        | Ask::Release { select }
        | Ask::Requeue { select, .. }
        | Ask::Suspend { select }
        | Ask::Continue { select }
        | Ask::Priorities { select } => selection(select),
        Ask::Ping
        | Ask::Submit { .. }
        | Ask::Nodes
        | Ask::Partitions
        | Ask::Wait { .. }
        | Ask::JobFile { .. }
        | Ask::Drain { .. }
        | Ask::Resume { .. }
        | Ask::Fence { .. }
        | Ask::Forget { .. }
        | Ask::Reserve(_)
        | Ask::Unreserve { .. }
        | Ask::Reservations
        | Ask::Shares
        | Ask::Budgets
        | Ask::Metrics
        | Ask::Past(_)
        | Ask::Usage(_)
        | Ask::Waits(_)
        | Ask::Reload
        | Ask::Shutdown
        | Ask::Node(_) => {}
    }
}

fn selection(select: &Selection) {
    for job in &select.jobs {
        if let Some(tasks) = &job.tasks {
            words::is_normal(tasks);
        }
    }
}

/// What holds of every request, also of one that no client of ours wrote.
pub(crate) fn spec(spec: &JobSpec) {
    assert!(spec.cpus() >= 1 && spec.process_count() >= 1);
    let tasks = spec.tasks();
    words::is_normal(&tasks);
    assert!(tasks.len() <= MAX_TASKS);
    assert!(spec.dependency.as_ref().is_none_or(|asked| asked.terms.len() <= MAX_TERMS));
    for pattern in [&spec.stdout, &spec.stderr, &spec.stdin, &spec.checkpoint].into_iter().flatten() {
        words::pattern(pattern, &spec.name);
    }
}

/// A letter or head as a file, torn or whole; and letters that are read in the order of their numbers.
pub(crate) fn letters(input: &[u8]) {
    sealed::<Head>(input);
    sealed::<Report>(input);
    sealed::<Order>(input);
    // With a checksum that fits, as an enemy would write it.
    let line = seal_json(input);
    sealed::<Head>(&line).iter().for_each(reading);
    sealed::<Report>(&line);
    sealed::<Order>(&line);
}

fn sealed<T: Serialize + DeserializeOwned + PartialEq + Debug>(line: &[u8]) -> Option<T> {
    let value: T = unseal(line).ok()?;
    let again = seal(&value).unwrap_or_else(|why| panic!("{value:?} is not written: {why}"));
    let read: T = unseal(&again).unwrap_or_else(|why| panic!("{value:?} is not read again: {why}"));
    assert_eq!(read, value);
    Some(value)
}

/// A direction whose head says anything: no more is read than was asked for, in order, and each number once.
fn reading(head: &Head) {
    const FEW: usize = 5;
    let mut place = Reading::after(Seq(head.ack.0));
    let mut last = None;
    for _ in 0..3 {
        let letter = |seq| Report { seq, epoch: head.epoch, body: ReportBody::Trouble { why: None } };
        let Ok(look) = place.look(head, FEW, |seq| Ok::<_, Infallible>(Some(letter(seq))));
        assert!(look.letters.len() <= FEW);
        for read in look.letters {
            assert!(read.seq >= head.lowest && read.seq <= head.highest);
            assert!(last.is_none_or(|last| read.seq > last), "{} is read twice", read.seq);
            last = Some(read.seq);
        }
    }
}
