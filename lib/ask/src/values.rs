//! Values: what the word behind an option means. Never which option counts; see `said` and `resolve`.

use crate::{MAX_COMMENT, Problem};
use gq_model::{
    JobId, MAX_NAME, MiB, NodeName, OpenMode, Seconds, TestRun, TimeAsk, expand_hosts, parse_duration,
    parse_limit, parse_size,
};

/// Longest path or pattern taken, in bytes: the kernel's own limit.
const MAX_PATH: usize = 4096;
/// Slurm's range of `--nice`.
const MOST_NICE: i32 = 2_147_483_645;
/// What `--nice` without a number means, as in Slurm.
const PLAIN_NICE: i32 = 100;

/// Whether a character has no place in a name: it moves the cursor, ends the line or turns the text around.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A line of text: not empty, printable, not longer than `most` bytes.
fn line(text: &str, most: usize) -> Result<String, Problem> {
    if text.is_empty() {
        return Err(Problem::Expected("some text, found none"));
    }
    if text.len() > most {
        return Err(Problem::TooLong(text.len(), most));
    }
    if text.chars().any(is_unprintable) {
        return Err(Problem::Other(
            "control characters and marks that turn text around are not allowed here",
        ));
    }
    Ok(text.to_owned())
}

/// A job's name.
pub(crate) fn name(text: &str) -> Result<String, Problem> {
    line(text, MAX_NAME)
}

/// An account's name.
pub(crate) fn label(text: &str) -> Result<String, Problem> {
    line(text, MAX_NAME)
}

/// A comment; an empty one is one.
pub(crate) fn comment(text: &str) -> Result<String, Problem> {
    if text.is_empty() { Ok(String::new()) } else { line(text, MAX_COMMENT) }
}

/// A reason why cards may be idle.
pub(crate) fn excuse(text: &str) -> Result<String, Problem> {
    line(text, MAX_NAME)
}

/// One partition.
pub(crate) fn partition(text: &str) -> Result<String, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("--partition with more than one name".into()));
    }
    line(text, MAX_NAME)
}

/// One QOS.
pub(crate) fn qos(text: &str) -> Result<String, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("--qos with more than one name".into()));
    }
    line(text, MAX_NAME)
}

/// One advance reservation.
pub(crate) fn reservation(text: &str) -> Result<String, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("--reservation with more than one name".into()));
    }
    line(text, MAX_NAME)
}

/// A path, or a pattern of one.
pub(crate) fn path(text: &str) -> Result<String, Problem> {
    if text.is_empty() {
        return Err(Problem::Expected("a path, found nothing"));
    }
    if text.len() >= MAX_PATH {
        return Err(Problem::TooLong(text.len(), MAX_PATH - 1));
    }
    if text.contains('\0') { Err(Problem::Expected("a path without NUL bytes")) } else { Ok(text.to_owned()) }
}

/// A number without sign, blanks or anything else but digits.
pub(crate) fn number(text: &str, what: &'static str) -> Result<u32, Problem> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Problem::Expected(what));
    }
    text.parse().map_err(|_| Problem::Expected(what))
}

/// A number from 1.
pub(crate) fn count(text: &str) -> Result<u32, Problem> {
    const WHAT: &str = "a whole number from 1 to 4294967295";
    match number(text, WHAT)? {
        0 => Err(Problem::Expected(WHAT)),
        n => Ok(n),
    }
}

/// `N` or `N-M` nodes: one node must do, and then that is what the job gets.
pub(crate) fn nodes(text: &str) -> Result<(), Problem> {
    const WHAT: &str = "a number of nodes, or a range such as 1-2";
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (number(least, WHAT)?, number(most, WHAT)?);
    if least == 0 || most < least {
        return Err(Problem::Expected(WHAT));
    }
    if least > 1 {
        return Err(Problem::NotBuilt(format!("--nodes={least} (a job on more than one node)")));
    }
    Ok(())
}

/// A time limit.
pub(crate) fn limit(text: &str) -> Result<TimeAsk, Problem> {
    Ok(parse_limit(text)?.map_or(TimeAsk::Longest, TimeAsk::Limit))
}

/// A time limit that is one.
pub(crate) fn some_time(text: &str) -> Result<Seconds, Problem> {
    parse_limit(text)?.ok_or(Problem::Expected("a duration above 0"))
}

/// A plain job's number.
pub(crate) fn job(text: &str) -> Result<JobId, Problem> {
    const WHAT: &str = "a job's number, such as 17";
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Problem::Expected(WHAT));
    }
    text.parse().map(JobId).map_err(|_| Problem::Expected(WHAT))
}

/// A folder, or nothing for the usual one.
pub(crate) fn folder(text: &str) -> Result<String, Problem> {
    if text.is_empty() { Ok(String::new()) } else { path(text) }
}

/// The image of a container: a path or a name, which a program gets as an argument.
pub(crate) fn image(text: &str) -> Result<String, Problem> {
    if text.starts_with('-') {
        return Err(Problem::Expected("an image, which does not begin with -"));
    }
    line(text, MAX_PATH - 1)
}

/// An amount of memory; 0 has a meaning.
pub(crate) fn memory(text: &str) -> Result<MiB, Problem> {
    Ok(parse_size(text)?)
}

/// An amount of memory above 0.
pub(crate) fn some_memory(text: &str) -> Result<MiB, Problem> {
    match parse_size(text)? {
        MiB(0) => Err(Problem::Expected("a size above 0 (all memory of the node is --mem=0)")),
        size => Ok(size),
    }
}

/// A switch: on by itself, or by a word in the environment.
pub(crate) fn switch(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "" | "1" | "yes" | "true" | "on" => Ok(true),
        "0" | "no" | "false" | "off" => Ok(false),
        _ => Err(Problem::Expected("1 or 0 (yes or no)")),
    }
}

/// `--exclusive`, alone.
pub(crate) fn exclusive(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "user" | "mcs" | "topo" => Err(Problem::NotBuilt(format!("--exclusive={text}"))),
        _ => switch(text).map_err(|_| Problem::Expected("no value")),
    }
}

/// `--nice`, alone or with a number.
pub(crate) fn nice(text: &str) -> Result<i32, Problem> {
    const WHAT: &str = "a whole number from -2147483645 to 2147483645";
    if text.is_empty() {
        return Ok(PLAIN_NICE);
    }
    if text.starts_with('+') {
        return Err(Problem::Expected(WHAT));
    }
    let nice: i32 = text.parse().map_err(|_| Problem::Expected(WHAT))?;
    if (-MOST_NICE..=MOST_NICE).contains(&nice) { Ok(nice) } else { Err(Problem::Expected(WHAT)) }
}

/// `append` or `truncate`.
pub(crate) fn open_mode(text: &str) -> Result<OpenMode, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "append" | "a" => Ok(OpenMode::Append),
        "truncate" | "t" => Ok(OpenMode::Truncate),
        _ => Err(Problem::Expected("append or truncate")),
    }
}

/// A host list.
pub(crate) fn hosts(text: &str) -> Result<Vec<NodeName>, Problem> {
    Ok(expand_hosts(text)?)
}

/// Features that are all wanted: `a` or `a&b`.
pub(crate) fn features(text: &str) -> Result<Vec<String>, Problem> {
    if text.contains(['|', '*', '[', ']', '(', ')', '!', ',']) {
        return Err(Problem::NotBuilt("--constraint with anything but features joined by &".into()));
    }
    let parts: Vec<String> = text.split('&').map(str::to_owned).collect();
    let good = |f: &String| {
        !f.is_empty() && f.len() <= 256 && !f.chars().any(|c| c.is_whitespace() || is_unprintable(c))
    };
    if parts.iter().all(good) {
        Ok(parts)
    } else {
        Err(Problem::Expected("a feature, or several: nvlink&gen4"))
    }
}

/// `DURATION[:EXIT]`, the duration in `us`, `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn test_run(text: &str) -> Result<TestRun, Problem> {
    const WHAT: &str = "DURATION[:EXIT], such as 2s, 50ms or 1s:3";
    let wrong = |_| Problem::Expected(WHAT);
    let (duration, exit) = text.split_once(':').unwrap_or((text, "0"));
    let exit = number(exit, WHAT)?.try_into().map_err(|_| Problem::Expected(WHAT))?;
    let scaled =
        |digits: &str, scale: u64| Ok::<u64, Problem>(u64::from(number(digits, WHAT)?).saturating_mul(scale));
    let micros = if let Some(digits) = duration.strip_suffix("ms") {
        scaled(digits, 1000)?
    } else if let Some(digits) = duration.strip_suffix("us") {
        scaled(digits, 1)?
    } else if duration == "0" {
        0
    } else if duration.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(Problem::Expected(WHAT));
    } else {
        parse_duration(duration).map_err(wrong)?.0.saturating_mul(1_000_000)
    };
    Ok(TestRun { micros, exit })
}
