//! File name patterns: `%j %A %a %x %u %N %n %t %s %J %%`, with a width that pads numbers (`%5j`, `%05a`).
//! Expanded here and nowhere else, so that the shown path is the real one. No shell ever sees them.

use crate::{JobId, NodeName, RunKey, RunNumber, TaskIndex};
use alloc::{format, string::String};
use core::fmt::Write;

/// Widest padding; larger widths are taken as this one.
const MAX_WIDTH: usize = 10;

/// Longest path that the system takes, in bytes. A pattern that is longer when it is written out names no file, and is written out no further: a
/// few letters could make it any length.
const MAX_PATH: usize = 4096;

/// What a pattern can speak of.
#[derive(Clone, Debug)]
pub struct PatternFields<'a> {
    /// The run whose file it is.
    pub key: RunKey,
    /// The array and index, for an array's task.
    pub array: Option<(JobId, TaskIndex)>,
    /// The job's name.
    pub name: &'a str,
    /// The user's login name, or the uid in digits.
    pub user: &'a str,
    /// The (first) node; none while the job has none, which leaves `%N` as it is.
    pub node: Option<&'a NodeName>,
}

/// Writes a pattern out. `/` in what a name gives is replaced by `_`; an unknown letter stays as it was written.
///
/// A pattern that holds a `\` is taken as it is written, without the `\`, as in Slurm.
pub fn expand_pattern(pattern: &str, fields: &PatternFields<'_>) -> String {
    if pattern.contains('\\') {
        return pattern.replace('\\', "");
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        if out.len() > MAX_PATH {
            return out;
        }
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (width, tail) = after.split_at(digits);
        let width = width.parse::<usize>().unwrap_or(if digits > 0 { MAX_WIDTH } else { 0 }).min(MAX_WIDTH);
        let mut chars = tail.chars();
        let letter = chars.next();
        match letter.and_then(|l| field(l, width, fields)) {
            Some(text) => {
                out.push_str(&text);
                rest = chars.as_str();
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether a pattern names another file for each task of an array: `%a` alone does, since all tasks have the job's number.
pub fn tells_tasks_apart(pattern: &str) -> bool {
    let job = JobId(1);
    let of = |task| {
        let key = RunKey { job, task, run: RunNumber(1) };
        expand_pattern(
            pattern,
            &PatternFields { key, array: Some((job, task)), name: "", user: "", node: None },
        )
    };
    of(TaskIndex(0)) != of(TaskIndex(1))
}

fn field(letter: char, width: usize, fields: &PatternFields<'_>) -> Option<String> {
    let number = |n: u64| Some(format!("{n:0width$}"));
    let name = |n: &str| Some(n.replace('/', "_"));
    match letter {
        '%' => Some("%".into()),
        'j' | 'J' => number(fields.key.job.0),
        'A' => number(fields.array.map_or(fields.key.job.0, |(job, _)| job.0)),
        // Outside an array Slurm writes its "no value", 4294967294; we write 0, as cleaner and as a path just as unique.
        'a' => number(fields.array.map_or(0, |(_, task)| u64::from(task.0))),
        'x' => name(fields.name),
        'u' => name(fields.user),
        'N' => fields.node.and_then(|n| name(n.as_str().split('.').next().unwrap_or_default())),
        'n' | 't' => number(0),
        's' => Some("batch".into()),
        _ => None,
    }
}

/// Makes the path of an output file: the pattern (or the default one) written out, below the working directory.
pub fn output_path(pattern: Option<&str>, work_dir: &str, fields: &PatternFields<'_>) -> String {
    let default = if fields.array.is_some() { "gq-%A_%a.out" } else { "gq-%j.out" };
    let name = expand_pattern(pattern.unwrap_or(default), fields);
    if name.starts_with('/') {
        return name;
    }
    let mut path = String::with_capacity(work_dir.len() + 1 + name.len());
    let _ = write!(path, "{}/{name}", work_dir.trim_end_matches('/'));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_written_out_and_names_make_no_folders() {
        let node: NodeName = "ws1.lab".parse().unwrap();
        let f = PatternFields {
            key: RunKey { job: JobId(17), task: TaskIndex(3), run: RunNumber(1) },
            array: Some((JobId(17), TaskIndex(3))),
            name: "../../etc/x y",
            user: "ann",
            node: Some(&node),
        };
        for (pattern, path) in [
            ("out.%j", "out.17"),
            ("%A_%a.out", "17_3.out"),
            ("%05a", "00003"),
            ("%12j", "0000000017"),
            ("%99999999999999999999j", "0000000017"),
            ("%x.log", ".._.._etc_x y.log"),
            ("%u@%N", "ann@ws1"),
            ("100%%", "100%"),
            ("%%j", "%j"),
            ("%K-%", "%K-%"),
            ("%5", "%5"),
            ("a\\%j", "a%j"),
            ("$(id);*", "$(id);*"),
            ("é%jü", "é17ü"),
        ] {
            assert_eq!(expand_pattern(pattern, &f), path, "{pattern}");
        }
        assert_eq!(output_path(None, "/home/ann/", &f), "/home/ann/gq-17_3.out");
        assert_eq!(output_path(Some("/x/%j"), "/home/ann", &f), "/x/17");
    }

    #[test]
    fn a_pattern_is_written_out_no_further_than_a_path_can_be_long() {
        let key = RunKey { job: JobId(17), task: TaskIndex(0), run: RunNumber(1) };
        let name = "n".repeat(1024);
        let f = PatternFields { key, array: None, name: &name, user: "ann", node: None };
        assert_eq!(expand_pattern("%x%x%x", &f).len(), 3 * 1024);
        for many in [8, 60_000] {
            let path = expand_pattern(&"%x".repeat(many), &f);
            assert!(path.len() > MAX_PATH && path.len() <= MAX_PATH + 2 * 1024, "{} bytes", path.len());
        }
        let plain = "p".repeat(MAX_PATH + 5);
        assert_eq!(expand_pattern(&plain, &f), plain, "what grows nowhere is shown as it was written");
    }

    #[test]
    fn the_index_alone_tells_the_tasks_of_an_array_apart() {
        for pattern in ["%a", "%A_%a.out", "logs/%x/%04a", "%%%a", "100%-%a"] {
            assert!(tells_tasks_apart(pattern), "{pattern}");
        }
        for pattern in ["", "out", "%j", "%J.%A", "%x-%u@%N.%n.%t.%s", "%%a", "%-a", "\\%a", "/dev/null"] {
            assert!(!tells_tasks_apart(pattern), "{pattern}");
        }
    }
}
