//! Text that people write: scripts with directives, command lines, changes, and the conf file.

use crate::{is_printable, reads_back, wire};
use gq_ask::{
    ANEW, AskError, Context, Early, Script, ScriptName, Submission, behind_job_key, command, read_change,
    read_command_line, read_instant, read_key, read_signal,
};
use gq_model::{MAX_COMMENT, MAX_NAME, MAX_RETRIES, MAX_SCRIPT, MAX_SIGNAL, MiB, TimeAsk, Timestamp};
use jiff::tz::TimeZone;
use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// A point in time: 2026-12-01 20:00:00 UTC.
const NOW: Timestamp = Timestamp::from_secs(1_796_155_200);
/// A hundred years, and a day for zones and leap days.
const CENTURY: u64 = 100 * 366 * 86_400 + 86_400;
/// Most words of a command line here.
const MOST_WORDS: usize = 64;

/// A script: its directives are a request, or are refused in words that can be shown.
pub(crate) fn script(input: &[u8]) {
    let script = Script { name: ScriptName::File(PathBuf::from("train.sh")), bytes: input.to_vec() };
    submit(vec!["train.sh".into()], Vec::new(), script);
}

/// Words, one a line: a command line, variables that say options, and changes of a job.
pub(crate) fn options(input: &[u8]) {
    let words: Vec<OsString> = input
        .split(|byte| *byte == b'\n')
        .filter(|word| !word.contains(&0))
        .map(|word| OsString::from_vec(word.to_vec()))
        .take(MOST_WORDS)
        .collect();
    words.iter().filter_map(|word| word.to_str()).for_each(anew);
    let (variables, argv): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|word| word.as_encoded_bytes().starts_with(b"GQSUB_"));
    let variables = variables.into_iter().filter_map(|word| {
        let (name, value) = word.to_str()?.split_once('=')?;
        Some((name.into(), value.into()))
    });
    let script = Script { name: ScriptName::StandardInput, bytes: b"#!/bin/sh\n".to_vec() };
    submit(argv, variables.collect(), script);
}

fn zone() -> TimeZone {
    TimeZone::fixed(jiff::tz::offset(1))
}

fn submit(argv: Vec<OsString>, variables: Vec<(OsString, OsString)>, script: Script) {
    let mut command = command();
    let argv = std::iter::once(OsString::from("gqsub")).chain(argv).collect();
    let line = match read_command_line(&mut command, argv) {
        Ok(line) => line,
        Err(Early::Shown(_)) => return,
        Err(Early::Refused(why)) => return refused(&why),
    };
    let script = line.wrap().map_or(script, Script::wrap);
    let read = |path: &Path, most: usize| match path.to_str() {
        Some("items") => Ok(b"one\ntwo\n".to_vec()),
        Some("large") => Ok(vec![b'x'; most.saturating_add(1)]),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let context = Context {
        now: NOW,
        zone: &zone,
        directory: Path::new("/home/ann"),
        host: "ws1",
        umask: 0o027,
        limits: Vec::new(),
        read: &read,
    };
    match line.resolve(&mut command, variables.into_iter(), script, context) {
        Ok(taken) => submission(&taken),
        Err(why) => refused(&why),
    }
}

fn refused(why: &AskError) {
    is_printable(&why.to_string());
    is_printable(why.hint.as_deref().unwrap_or_default());
}

/// What a client of ours asks for keeps the bounds that it is held to elsewhere.
fn submission(taken: &Submission) {
    let spec = &taken.spec;
    reads_back(spec);
    wire::spec(spec);
    taken.warnings.iter().chain(&taken.spoken).for_each(|line| is_printable(line));
    assert!(!spec.name.is_empty() && spec.name.len() <= MAX_NAME && !spec.name.contains(char::is_control));
    assert!(spec.comment.as_ref().is_none_or(|text| text.len() <= MAX_COMMENT));
    assert!(spec.work_dir.starts_with('/') && spec.submit_dir.starts_with('/'));
    assert!(taken.script.len() <= MAX_SCRIPT && taken.prep.len() <= MAX_SCRIPT);
    assert!(spec.signal.is_none_or(|asked| (1..=MAX_SIGNAL).contains(&asked.signal)));
    assert!(spec.retry.as_ref().is_none_or(|asked| asked.times <= MAX_RETRIES));
    let largest = MiB(1 << 43);
    assert!(spec.cards.memory.is_none_or(|memory| memory <= largest));
    let limit = match spec.time_limit {
        Some(TimeAsk::Limit(limit)) => limit.0,
        Some(TimeAsk::Longest) | None => 0,
    };
    let spans = [limit, spec.time_min.map_or(0, |s| s.0), spec.max_wait.map_or(0, |asked| asked.after.0)];
    assert!(spans.iter().all(|span| *span <= CENTURY), "{spans:?}");
    let far = NOW.after(gq_model::Seconds(CENTURY));
    assert!(spec.begin.into_iter().chain(spec.deadline).all(|at| at <= far));
}

/// A word of `gqctl update`.
fn anew(word: &str) {
    match read_key(word) {
        Some(Err(why)) => refused(&why),
        Some(Ok((anew, value))) => changed(anew.option, &value),
        None => {}
    }
    behind_job_key(word);
    for anew in ANEW {
        changed(anew.option, word);
    }
    if let Ok(at) = read_instant(word, NOW, zone()) {
        assert!(at <= NOW.after(gq_model::Seconds(CENTURY)), "{word:?} is {at:?}");
    }
    if let Ok(signal) = read_signal(word) {
        assert!((1..=MAX_SIGNAL).contains(&signal));
    }
}

fn changed(option: &str, value: &str) {
    match read_change(option, value, NOW, &zone) {
        Ok(change) => reads_back(&change),
        Err(why) => is_printable(&why.to_string()),
    }
}

/// A conf file: one conf however often it is read, or mistakes that say where they are.
pub(crate) fn conf(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let file = Path::new("gq.conf");
    let read = gq_conf::parse(text, file);
    assert_eq!(read, gq_conf::parse(text, file));
    let Err(errors) = read else { return };
    assert!(!errors.all().is_empty());
    is_printable(&errors.to_string());
    let lines = text.split('\n').count();
    for mistake in errors.all() {
        assert!(mistake.line <= lines, "line {} of {lines}", mistake.line);
    }
}
