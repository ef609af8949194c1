//! Small values: spans of time, sizes, ids, dependencies, recipients, sets of tasks, lists of hosts, names of files.

use gq_model::{
    ArrayAsk, BootId, Dependency, HostListError, IndexSet, JobId, JobRef, MAX_HOSTS, MAX_NAME, MAX_RANGES,
    MAX_RECIPIENTS, MAX_TASKS, MAX_TERMS, MiB, NodeName, PatternFields, RunKey, RunNumber, Seconds,
    TaskIndex, Token, compress_hosts, expand_hosts, expand_pattern, format_limit, format_size, output_path,
    parse_duration, parse_limit, parse_recipients, parse_size, profile_memory, tells_tasks_apart,
};
use std::{collections::BTreeSet, fmt::Display, str::FromStr};

/// A hundred years, in seconds.
const CENTURY: u64 = 100 * 366 * 86_400;
/// Longest path that the system takes.
const LONGEST_PATH: usize = 4096;

/// A value that is one word.
pub(crate) fn values(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(span) = parse_duration(text) {
        assert!(span.0 <= CENTURY);
        assert_eq!(parse_duration(&span.to_string()), Ok(span), "{text:?}");
    }
    if let Ok(limit) = parse_limit(text) {
        assert_ne!(limit, Some(Seconds(0)));
        assert_eq!(parse_limit(&format_limit(limit)), Ok(limit), "{text:?}");
    }
    if let Ok(size) = parse_size(text) {
        assert!(size <= MiB(1 << 43));
        assert_eq!(parse_size(&format_size(size)), Ok(size), "{text:?}");
    }
    same_word::<RunKey>(text);
    same_word::<Token>(text);
    same_word::<BootId>(text);
    same_word::<NodeName>(text);
    if let Some(asked) = same_word::<Dependency>(text) {
        assert!((1..=MAX_TERMS).contains(&asked.terms.len()));
    }
    if let Ok(all) = parse_recipients(text) {
        assert!((1..=MAX_RECIPIENTS).contains(&all.len()) && all.join(",") == text);
        assert!(all.iter().all(|one| one.len() <= 254 && !one.starts_with('-') && one.is_ascii()));
    }
    assert!(profile_memory(text).is_none_or(|memory| memory >= MiB(1024) && memory <= MiB(9999 << 10)));
}

/// What is read of a word and written again reads the same.
fn same_word<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    let written = value.to_string();
    match written.parse::<T>() {
        Ok(again) => assert_eq!(again, value, "{text:?} is written {written:?}"),
        Err(_) => panic!("{text:?} is written {written:?}, which is not read"),
    }
    Some(value)
}

/// A set is kept as sorted ranges with room between them.
pub(crate) fn is_normal(set: &IndexSet) {
    let ranges = set.ranges();
    assert!(ranges.iter().all(|(first, last)| first <= last), "{ranges:?}");
    let apart = |pair: &[(u32, u32)]| match pair {
        [(_, last), (first, _)] => u64::from(*last) + 1 < u64::from(*first),
        _ => true,
    };
    assert!(ranges.windows(2).all(apart), "{ranges:?}");
}

/// Sets of tasks, jobs with tasks, and lists of hosts.
pub(crate) fn sets(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(array) = text.parse::<ArrayAsk>() {
        bounded(&array.tasks);
        assert!(array.at_once != Some(0) && array.to_string() == text);
        let again: Option<ArrayAsk> =
            ArrayAsk::of(array.tasks.clone(), array.at_once).to_string().parse().ok();
        // Many ranges in few words may be more than so many words.
        assert!(again.is_none_or(|again| (again.tasks, again.at_once) == (array.tasks, array.at_once)));
    }
    if let Some(tasks) = same_word::<JobRef>(text).and_then(|job| job.tasks) {
        bounded(&tasks);
    }
    match expand_hosts(text) {
        Ok(names) => {
            assert!((1..=MAX_HOSTS).contains(&names.len()));
            let set: BTreeSet<&NodeName> = names.iter().collect();
            assert_eq!(set.len(), names.len(), "a name comes twice");
            let short = compress_hosts(&names);
            let again = expand_hosts(&short).unwrap_or_else(|why| panic!("{short:?} is not read: {why}"));
            assert_eq!(again.iter().collect::<BTreeSet<_>>(), set, "{text:?} is written {short:?}");
        }
        Err(why @ (HostListError::Syntax(_) | HostListError::BadName(_) | HostListError::TooMany)) => {
            crate::is_printable(&why.to_string());
        }
    }
    if let Ok(set) = serde_json::from_str::<IndexSet>(text) {
        is_normal(&set);
        crate::reads_back(&set);
    }
}

fn bounded(tasks: &IndexSet) {
    is_normal(tasks);
    assert!((1..=MAX_TASKS).contains(&tasks.len()) && tasks.ranges().len() <= MAX_RANGES);
}

/// A pattern of a file's name; what stands before the first line's end is the name of its job.
pub(crate) fn patterns(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (name, rest) = text.split_once('\n').unwrap_or(("train", &text));
    pattern(rest, name);
}

/// A pattern written out grows no further than a path can be long, and what a name gives makes no folders.
pub(crate) fn pattern(pattern: &str, name: &str) {
    let node: Option<NodeName> = "ws1.lab".parse().ok();
    let key = RunKey { job: JobId(u64::MAX), task: TaskIndex(u32::MAX), run: RunNumber(1) };
    for array in [None, Some((key.job, key.task))] {
        let fields = PatternFields { key, array, name, user: "ann", node: node.as_ref() };
        let path = expand_pattern(pattern, &fields);
        let most = pattern.len() + LONGEST_PATH + name.len().max(MAX_NAME);
        assert!(path.len() <= most, "{} bytes of {}", path.len(), pattern.len());
        let folders = |text: &str| text.bytes().filter(|byte| *byte == b'/').count();
        assert!(folders(&path) <= folders(pattern), "{path:?}");
        let below = output_path(Some(pattern), "/home/ann/", &fields);
        assert!(below.starts_with('/') && below.ends_with(&path));
    }
    tells_tasks_apart(pattern);
}
