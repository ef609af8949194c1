//! Replays every corpus, and inputs made of it by a few random changes, on the targets that `scripts/fuzz` runs for long. `GQ_SEED=N` plays the
//! changes of a run again that printed this seed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use fastrand::Rng;
use gq_fuzz::{TARGETS, Target};
use std::{
    fs,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

/// The seed when none is said: a run of the tests is the same as the last one.
const SEED: u64 = 20;
/// Most changes of an input.
const CHANGES: usize = 4;
/// Words that mean something somewhere.
#[rustfmt::skip]
const TOKENS: [&[u8]; 32] = [
    b"0", b"-1", b"4294967295", b"4294967296", b"18446744073709551615", b"18446744073709551616", b"-9223372036854775808", b"1e999", b"null",
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\ud800", b"\n", b"\r\n", b"\0", b"\xff", b"\x1b[2J", "\u{202e}".as_bytes(), b"%x", b"%", b"=",
    b"-", b"--", b"@", b"+", b" ",
];

/// A part of so many bytes, not a long one.
fn part(dice: &mut Rng, len: usize) -> Range<usize> {
    let (a, b) = (dice.usize(..=len), dice.usize(..=len));
    a.min(b)..a.max(b).min(a.min(b) + 64)
}

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let read =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap());
    let mut files: Vec<_> = entries.map(|entry| read(entry.unwrap().path())).collect();
    files.sort();
    files
}

fn change(dice: &mut Rng, input: &mut Vec<u8>, others: &[(String, Vec<u8>)]) {
    let at = dice.usize(..=input.len());
    match dice.u8(..7) {
        0 => {
            let bit = 1 << dice.u8(..8);
            input.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
        }
        1 => drop(input.drain(part(dice, input.len()))),
        2 => {
            let again = input[part(dice, input.len())].to_vec();
            drop(input.splice(at..at, again));
        }
        3 | 4 => {
            let token = TOKENS[dice.usize(..TOKENS.len())];
            drop(input.splice(at..at, token.iter().copied()));
        }
        5 => {
            let other = &others[dice.usize(..others.len())].1;
            let piece = other[part(dice, other.len())].to_vec();
            drop(input.splice(at..at, piece));
        }
        _ => {
            let token = TOKENS[dice.usize(..TOKENS.len())];
            let end = (at + token.len()).min(input.len());
            drop(input.splice(at..end, token.iter().copied()));
        }
    }
}

fn try_on(target: &Target, input: &[u8], whose: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        panic!("{}: {whose} breaks a law: {}", target.name, input.escape_ascii());
    }
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seed = std::env::var("GQ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let files = corpus(target);
    assert!(!files.is_empty(), "{name} has no corpus");
    for (file, input) in &files {
        try_on(target, input, file);
    }
    println!("{name}: seed {seed}, {} changed inputs", target.rounds);
    let mut dice = Rng::with_seed(seed);
    for round in 0..target.rounds {
        let (file, input) = &files[dice.usize(..files.len())];
        let mut input = input.clone();
        for _ in 0..dice.usize(1..=CHANGES) {
            change(&mut dice, &mut input, &files);
        }
        try_on(target, &input, &format!("seed {seed}, round {round}, a change of {file}"));
    }
}

/// One test for each, so that they run side by side and each has its name.
macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*
        #[test]
        fn every_target_is_replayed() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}
replays!(frames asks letters job_file node_log script options conf values sets patterns);
