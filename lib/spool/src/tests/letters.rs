//! Letters between two hosts that see the same folder: lost, late, written again, and forged.

use super::*;
use crate::{LetterKind, LetterReader, LetterWriter, MAX_HEAD, MAX_LETTER, SpoolError, watch};
use gq_model::{NodeName, Seq, Uid};
use std::time::Duration;

struct Post {
    _home: TempDir,
    dir: PathBuf,
    writer: LetterWriter,
    reader: LetterReader,
}

fn me() -> Uid {
    Uid(nix::unistd::Uid::effective().as_raw())
}

fn post() -> Post {
    let home = tempfile::tempdir().unwrap();
    let dir = LetterKind::Order.folder(home.path(), &"ws1".parse::<NodeName>().unwrap());
    let reader = LetterReader::open(&dir, LetterKind::Order, me());
    let writer = LetterWriter::open(&dir, LetterKind::Order).unwrap();
    Post { _home: home, dir, writer, reader }
}

impl Post {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_letter_is_read_as_it_was_written_and_forgotten_when_acknowledged() {
    let mut post = post();
    assert_eq!(post.reader.head().unwrap(), None);
    for n in 1..=3 {
        post.writer.write(Seq(n), format!("letter {n}").as_bytes()).unwrap();
    }
    post.writer.put_head(b"up to 3").unwrap();
    assert_eq!(post.reader.head().unwrap().unwrap(), b"up to 3");
    for n in 1..=3 {
        assert_eq!(post.reader.read(Seq(n)).unwrap().unwrap(), format!("letter {n}").as_bytes());
    }
    assert_eq!(post.reader.read(Seq(4)).unwrap(), None);
    post.writer.write(Seq(4), b"letter 4").unwrap();
    assert_eq!(post.reader.read(Seq(4)).unwrap().unwrap(), b"letter 4");
    post.writer.forget_up_to(Seq(3)).unwrap();
    assert_eq!(post.names(), ["0000000000000004.order", "HEAD"]);
    assert_eq!(post.reader.read(Seq(2)).unwrap(), None);
    assert_eq!(post.reader.read(Seq(4)).unwrap().unwrap(), b"letter 4");
}

#[test]
fn letters_that_were_lost_are_written_again_under_their_numbers() {
    let mut post = post();
    for n in 1..=3 {
        post.writer.write(Seq(n), b"first").unwrap();
    }
    assert!(post.reader.read(Seq(2)).unwrap().is_some());
    std::fs::remove_file(post.dir.join("0000000000000002.order")).unwrap();
    assert_eq!(post.reader.read(Seq(2)).unwrap(), None);
    post.writer.write(Seq(2), b"again").unwrap();
    post.writer.write(Seq(3), b"again").unwrap();
    assert_eq!(post.reader.read(Seq(2)).unwrap().unwrap(), b"again");
    assert_eq!(post.reader.read(Seq(3)).unwrap().unwrap(), b"again");
    std::fs::remove_file(post.dir.join("0000000000000001.order")).unwrap();
    post.writer.forget_up_to(Seq(u64::MAX)).unwrap();
    assert!(post.names().is_empty());
}

#[test]
fn a_writer_that_died_halfway_leaves_nothing_that_is_read_and_its_next_life_tidies_up() {
    let mut post = post();
    post.writer.write(Seq(7), b"whole").unwrap();
    post.writer.put_head(b"old").unwrap();
    std::fs::write(post.dir.join(".t.0000000000000008.order"), "hal").unwrap();
    std::fs::write(post.dir.join(".t.HEAD"), "ne").unwrap();
    assert_eq!(post.reader.head().unwrap().unwrap(), b"old");
    assert_eq!(post.reader.read(Seq(8)).unwrap(), None);
    let mut next = LetterWriter::open(&post.dir, LetterKind::Order).unwrap();
    assert_eq!(post.names(), ["0000000000000007.order", "HEAD"]);
    next.write(Seq(8), b"whole too").unwrap();
    next.put_head(b"new").unwrap();
    assert_eq!(post.reader.head().unwrap().unwrap(), b"new");
    next.forget_up_to(Seq(7)).unwrap();
    assert_eq!(post.names(), ["0000000000000008.order", "HEAD"]);
}

/// While `HEAD` is replaced without pause, each reading of it is one that was written.
#[test]
fn a_head_is_never_seen_in_parts() {
    let Post { _home, dir, mut writer, mut reader } = post();
    let version = |n: usize| format!("{n:04} ").repeat(1 + n % 100).into_bytes();
    writer.put_head(&version(0)).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| (0..2000).for_each(|n| writer.put_head(&version(n)).unwrap()));
        let mut last = 0;
        while last < 1999 {
            let Some(head) = reader.head().unwrap() else { continue };
            last = std::str::from_utf8(&head[..4]).unwrap().parse().unwrap();
            assert!(head == version(last), "torn: {last}");
        }
    });
    drop(dir);
}

#[test]
fn forged_letters_are_an_error_and_not_a_letter() {
    let mut post = post();
    let path = post.dir.join("0000000000000001.order");
    post.writer.write(Seq(1), b"true").unwrap();
    chmod(&path, 0o666);
    assert!(matches!(post.reader.read(Seq(1)), Err(SpoolError::Unsafe { .. })));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(post.reader.read(Seq(1)).is_err());
    std::fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(post.reader.read(Seq(1)).is_err());
    std::fs::remove_file(&path).unwrap();
    if is_root() {
        post.writer.write(Seq(1), b"true").unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        assert!(post.reader.read(Seq(1)).unwrap_err().to_string().contains("uid 12345"));
    }
    chmod(&post.dir, 0o777);
    assert!(LetterReader::open(&post.dir, LetterKind::Order, me()).head().is_err());
    assert!(LetterWriter::open(&post.dir, LetterKind::Order).is_err());
}

#[test]
fn what_is_too_large_is_neither_written_nor_read() {
    let mut post = post();
    assert!(post.writer.write(Seq(1), &vec![0; MAX_LETTER + 1]).is_err());
    assert!(post.writer.put_head(&vec![0; MAX_HEAD + 1]).is_err());
    post.writer.write(Seq(1), &vec![1; MAX_LETTER]).unwrap();
    assert_eq!(post.reader.read(Seq(1)).unwrap().unwrap().len(), MAX_LETTER);
    std::fs::File::options()
        .write(true)
        .open(post.dir.join("0000000000000001.order"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert!(matches!(post.reader.read(Seq(1)), Err(SpoolError::TooLarge { .. })));
}

#[test]
fn a_node_waits_for_the_controller_to_make_its_folder() {
    let home = tempfile::tempdir().unwrap();
    let node: NodeName = "ws1".parse().unwrap();
    let out = LetterKind::Report.folder(home.path(), &node);
    assert!(LetterWriter::open(&out, LetterKind::Report).unwrap_err().to_string().contains("gqd"));
    LetterWriter::open(&LetterKind::Order.folder(home.path(), &node), LetterKind::Order).unwrap();
    let mut writer = LetterWriter::open(&out, LetterKind::Report).unwrap();
    writer.write(Seq(1), b"report").unwrap();
    assert!(out.join("0000000000000001.report").exists());
}

#[test]
fn a_new_head_nudges_who_watches() {
    let mut post = post();
    let watched = watch(&post.dir, &["HEAD"]);
    post.writer.put_head(b"1").unwrap();
    watched.nudges().recv_timeout(Duration::from_secs(10)).unwrap();
    let nowhere = watch(&post.dir.join("nowhere"), &["HEAD"]);
    assert_eq!(nowhere.nudges().try_recv(), Err(crossbeam_channel::TryRecvError::Empty));
}
