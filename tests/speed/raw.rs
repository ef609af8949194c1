//! What the machine does without gq: processes, syncs, sockets.

use crate::say;
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Command,
    thread,
    time::Instant,
};

pub(crate) fn rates() {
    say("raw: fork+exec+wait of /bin/true, one at a time", per_second(500, |n| (0..n).for_each(|_| spawn())));
    say(
        "raw: fork+exec+wait of /bin/true, eight at a time",
        per_second(1000, |n| {
            let workers: Vec<_> =
                (0..8).map(|_| thread::spawn(move || (0..n / 8).for_each(|_| spawn()))).collect();
            workers.into_iter().for_each(|w| w.join().unwrap());
        }),
    );
    let folder = crate::queue::base().join("raw");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("log");
    let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    say(
        "raw: small append + fdatasync",
        per_second(1000, |n| {
            for _ in 0..n {
                log.write_all(&[b'x'; 200]).unwrap();
                log.sync_data().unwrap();
            }
        }),
    );
    say(
        "raw: create + fsync + rename",
        per_second(500, |n| {
            for i in 0..n {
                let (draft, name) = (folder.join("draft"), folder.join(i.to_string()));
                let mut file = File::create(&draft).unwrap();
                file.write_all(&[b'x'; 4000]).unwrap();
                file.sync_all().unwrap();
                fs::rename(&draft, &name).unwrap();
            }
        }),
    );
    say("raw: Unix socket round trip", per_second(10_000, round_trips));
}

fn spawn() {
    assert!(Command::new("/bin/true").status().unwrap().success());
}

fn round_trips(count: usize) {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
    });
    let mut byte = [1];
    for _ in 0..count {
        ours.write_all(&byte).unwrap();
        ours.read_exact(&mut byte).unwrap();
    }
    drop(ours);
    echo.join().unwrap();
}

fn per_second(count: usize, work: impl FnOnce(usize)) -> String {
    let begun = Instant::now();
    work(count);
    format!("{:.0}/s", count as f64 / begun.elapsed().as_secs_f64())
}
