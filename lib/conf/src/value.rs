//! Readers of single values: from what stands in the file to a word of ours, or a note of what was expected. Each looks at
//! one value only; what two values say together is `check`'s business.

mod budgets;
mod programs;

use crate::{
    config::PartitionState,
    mistake::{Notes, Span, nearest},
    rules::{Backfill, IdleAction, Preempt, Private},
};
pub(crate) use budgets::{card_hours, period, price, some_account, used_up};
use gq_model::{
    MAX_HOSTS, MAX_PARTS, MIN_PARTS, MiB, NodeName, Seconds, Slice, expand_hosts, parse_duration,
    parse_limit, parse_recipients, parse_size, profile_memory,
};
pub(crate) use programs::{Arguments, arguments, folder_time, hook_time, program};
use std::path::{Component, Path, PathBuf};
use toml_edit::Value;

/// Longest path, in bytes.
const MAX_PATH: usize = 4000;
/// Most entries of a list.
pub(crate) const MAX_LIST: usize = 4096;
/// Most cards or slices that one entry declares.
pub(crate) const MAX_CARDS: i64 = 64;
/// Most cpus of a node.
const MAX_CPUS: i64 = 1 << 16;
/// A script with a few programs needs some; no kernel has more than the most.
const MIN_PROCESSES: i64 = 16;
const MAX_PROCESSES: i64 = 1 << 22;
/// Most tasks of an array that may be allowed: what a request may name.
const MAX_ARRAY: i64 = gq_model::MAX_TASKS.cast_signed();
/// Most live job records that may be allowed.
const MAX_JOBS: i64 = 100_000_000;
/// Highest tier.
const MAX_TIER: i64 = 1_000_000;
/// Most shares of one account.
const MAX_SHARES: i64 = 1_000_000;
/// Most thousandths of a card that a cpu may count.
const MAX_CPU_CHARGE: i64 = 1_000_000;
/// Largest budget of card-minutes.
const MAX_CARD_MINUTES: i64 = 1_000_000_000_000;
/// Largest priority and largest weight, either way.
const MAX_PRIORITY: i64 = 1_000_000_000;
/// Longest `kill_wait`, and longest time of hooks.
const MAX_KILL_WAIT: Seconds = Seconds(86_400);
/// Longest time that cards are looked back on.
const MAX_IDLE_AFTER: Seconds = Seconds(7 * 86_400);

/// The place of a value.
pub(crate) fn span_of(value: &Value) -> Span {
    value.span().unwrap_or(0..0)
}

/// What a value is, in words.
pub(crate) fn found(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::InlineTable(_) => "a table",
    }
}

fn expected<T>(value: &Value, notes: &mut Notes<'_>, what: &str, hint: Option<String>) -> Option<T> {
    notes.add(&span_of(value), format!("expected {what}, found {}", found(value)), hint);
    None
}

fn text<'v>(value: &'v Value, notes: &mut Notes<'_>, what: &str) -> Option<&'v str> {
    match value.as_str() {
        Some(text) => Some(text),
        None => expected(value, notes, what, None),
    }
}

/// As [`text`], for what may well look like a number.
fn word_or_number<'v>(value: &'v Value, notes: &mut Notes<'_>, what: &str) -> Option<&'v str> {
    match (value.as_str(), value.as_integer()) {
        (None, Some(n)) => expected(value, notes, what, Some(format!("\"{n}\""))),
        _ => text(value, notes, what),
    }
}

/// Reads each entry of a list with `read`; all mistakes of all entries are noted.
fn list<T>(
    value: &Value,
    notes: &mut Notes<'_>,
    what: &str,
    read: fn(&Value, &mut Notes<'_>) -> Option<T>,
) -> Option<Vec<(T, Span)>> {
    let Some(array) = value.as_array() else {
        let hint = value.as_str().map(|s| format!("[\"{}\"]", s.escape_debug()));
        return expected(value, notes, what, hint);
    };
    if array.len() > MAX_LIST {
        notes.add(&span_of(value), format!("a list may have {MAX_LIST} entries at most"), None);
        return None;
    }
    let entries: Vec<Option<(T, Span)>> =
        array.iter().map(|v| read(v, notes).map(|t| (t, span_of(v)))).collect();
    entries.into_iter().collect()
}

/// Names as written, each with its place.
pub(crate) type Names = Vec<(String, Span)>;

/// Notes what stands in a list twice, and keeps the first.
fn each_once(notes: &mut Notes<'_>, entries: Names) -> Names {
    let mut names: Names = Vec::new();
    for (name, span) in entries {
        if names.iter().any(|(known, _)| *known == name) {
            notes.add(&span, format!("`{}` stands in this list already", name.escape_debug()), None);
        } else {
            names.push((name, span));
        }
    }
    names
}

/// As [`each_once`], without the places.
fn each_once_alone(notes: &mut Notes<'_>, entries: Names) -> Vec<String> {
    each_once(notes, entries).into_iter().map(|(name, _)| name).collect()
}

/// A name: letters, digits, `-`, `_`, `.`.
pub(crate) fn name(value: &Value, notes: &mut Notes<'_>) -> Option<String> {
    let name = word_or_number(value, notes, "a name in quotes")?;
    if name.parse::<NodeName>().is_ok() {
        return Some(name.to_string());
    }
    let words = "expected a name of 1 to 63 letters, digits, - _ . that begins with a letter or digit, found";
    notes.add(&span_of(value), format!("{words} `{}`", name.escape_debug()), None);
    None
}

/// A name that the system knows; `whose` says of what.
fn system_name(value: &Value, notes: &mut Notes<'_>, whose: &str) -> Option<String> {
    let name = word_or_number(value, notes, &format!("{whose} in quotes"))?;
    let bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | ',' | '/');
    if !name.is_empty() && name.len() <= 256 && !name.starts_with('-') && !name.contains(bad) {
        return Some(name.to_string());
    }
    notes.add(&span_of(value), format!("expected {whose}, found `{}`", name.escape_debug()), None);
    None
}

/// An account's name as the system knows it.
pub(crate) fn account(value: &Value, notes: &mut Notes<'_>) -> Option<String> {
    system_name(value, notes, "an account's name")
}

fn group(value: &Value, notes: &mut Notes<'_>) -> Option<String> {
    system_name(value, notes, "a group's name")
}

/// A list of accounts of the system.
pub(crate) fn accounts(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let entries = list(value, notes, "a list of account names, such as [\"alice\"]", account)?;
    Some(each_once_alone(notes, entries))
}

/// A list of groups of the system.
pub(crate) fn groups(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let entries = list(value, notes, "a list of group names, such as [\"lab\"]", group)?;
    Some(each_once_alone(notes, entries))
}

/// A list of features.
pub(crate) fn features(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let entries = list(value, notes, "a list of names, such as [\"nvlink\"]", name)?;
    Some(each_once_alone(notes, entries))
}

/// A name of a table of this file.
pub(crate) fn some_name(value: &Value, notes: &mut Notes<'_>) -> Option<Option<String>> {
    name(value, notes).map(Some)
}

/// A list of names of tables of this file.
pub(crate) fn names(value: &Value, notes: &mut Notes<'_>) -> Option<Names> {
    let entries = list(value, notes, "a list of names, such as [\"short\"]", name)?;
    Some(each_once(notes, entries))
}

/// As [`accounts`], for a list of those who alone may.
pub(crate) fn only_accounts(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let list = accounts(value, notes)?;
    not_empty(value, notes, list)
}

/// As [`groups`], for a list of those who alone may.
pub(crate) fn only_groups(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let list = groups(value, notes)?;
    not_empty(value, notes, list)
}

/// As [`names`], for a list of those who alone may.
pub(crate) fn only_names(value: &Value, notes: &mut Notes<'_>) -> Option<Names> {
    let list = names(value, notes)?;
    not_empty(value, notes, list)
}

/// The list, unless it lets nothing through.
fn not_empty<T>(value: &Value, notes: &mut Notes<'_>, list: Vec<T>) -> Option<Vec<T>> {
    if !list.is_empty() {
        return Some(list);
    }
    let hint = Some("leave it out to let everything through".to_string());
    notes.add(&span_of(value), "this list lets nothing through", hint);
    None
}

/// An absolute path without `..`; double and trailing slashes are taken away.
pub(crate) fn path(value: &Value, notes: &mut Notes<'_>) -> Option<PathBuf> {
    let path = text(value, notes, "an absolute path in quotes")?;
    let shown = path.escape_debug();
    let wrong = if !path.starts_with('/') {
        format!("expected an absolute path, found `{shown}`")
    } else if Path::new(path).components().any(|c| c == Component::ParentDir) {
        format!("expected a path without `..`, found `{shown}`")
    } else if path.contains(char::is_control) || path.len() > MAX_PATH {
        format!("expected a path of at most {MAX_PATH} bytes without control characters, found `{shown}`")
    } else {
        return Some(Path::new(path).components().collect());
    };
    notes.add(&span_of(value), wrong, None);
    None
}

/// A list of paths.
pub(crate) fn paths(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<PathBuf>> {
    let entries = list(value, notes, "a list of absolute paths, such as [\"/tmp\"]", path)?;
    Some(entries.into_iter().map(|(path, _)| path).collect())
}

/// A path that may be absent.
pub(crate) fn some_path(value: &Value, notes: &mut Notes<'_>) -> Option<Option<PathBuf>> {
    path(value, notes).map(Some)
}

/// A duration.
pub(crate) fn duration(value: &Value, notes: &mut Notes<'_>) -> Option<Seconds> {
    let text = text(value, notes, "a duration in quotes, such as \"30s\"")?;
    match parse_duration(text) {
        Ok(span) => Some(span),
        Err(e) => {
            notes.add(&span_of(value), format!("{e}; found `{}`", text.escape_debug()), None);
            None
        }
    }
}

/// A duration of at least a second.
pub(crate) fn some_duration(value: &Value, notes: &mut Notes<'_>) -> Option<Seconds> {
    let span = duration(value, notes)?;
    if span.0 > 0 {
        return Some(span);
    }
    notes.add(&span_of(value), "expected a duration longer than 0", None);
    None
}

/// A user, or an address.
pub(crate) fn address(value: &Value, notes: &mut Notes<'_>) -> Option<String> {
    let address = text(value, notes, "an address in quotes, such as \"gq@example.org\"")?;
    if parse_recipients(address).is_ok_and(|all| all.len() == 1) {
        return Some(address.to_string());
    }
    let wrong = format!("expected an address such as gq@example.org, found `{}`", address.escape_debug());
    notes.add(&span_of(value), wrong, None);
    None
}

/// A domain that may be absent.
pub(crate) fn some_domain(value: &Value, notes: &mut Notes<'_>) -> Option<Option<String>> {
    let domain = text(value, notes, "a domain in quotes, such as \"example.org\"")?;
    if parse_recipients(&format!("x@{domain}")).is_ok_and(|all| all.len() == 1) {
        return Some(Some(domain.to_string()));
    }
    let wrong = format!("expected a domain such as example.org, found `{}`", domain.escape_debug());
    notes.add(&span_of(value), wrong, None);
    None
}

/// How long an ended job's processes may take to go.
pub(crate) fn kill_wait(value: &Value, notes: &mut Notes<'_>) -> Option<Seconds> {
    let span = duration(value, notes)?;
    if span <= MAX_KILL_WAIT {
        return Some(span);
    }
    notes.add(&span_of(value), format!("expected a day at most, found {span}"), None);
    None
}

/// As [`kill_wait`], for what may be absent.
pub(crate) fn some_grace(value: &Value, notes: &mut Notes<'_>) -> Option<Option<Seconds>> {
    kill_wait(value, notes).map(Some)
}

/// A time limit; `UNLIMITED` is none.
pub(crate) fn limit(value: &Value, notes: &mut Notes<'_>) -> Option<Option<Seconds>> {
    let text = text(value, notes, "a time limit in quotes, such as \"2d\" or \"UNLIMITED\"")?;
    match parse_limit(text) {
        Ok(None) if text.trim().starts_with(|c: char| c.is_ascii_digit()) => {
            let hint = Some("\"UNLIMITED\", if you mean no limit".to_string());
            notes.add(&span_of(value), "expected a time limit longer than 0", hint);
            None
        }
        Ok(limit) => Some(limit),
        Err(e) => {
            notes.add(&span_of(value), format!("{e}, or UNLIMITED; found `{}`", text.escape_debug()), None);
            None
        }
    }
}

/// An amount of memory above 0.
pub(crate) fn memory(value: &Value, notes: &mut Notes<'_>) -> Option<Option<MiB>> {
    let text = text(value, notes, "a size in quotes, such as \"80G\"")?;
    let wrong = match parse_size(text) {
        Ok(MiB(0)) => "expected a size above 0".to_string(),
        Ok(size) => return Some(Some(size)),
        Err(e) => format!("{e}; found `{}`", text.escape_debug()),
    };
    notes.add(&span_of(value), wrong, None);
    None
}

/// `true` or `false`.
pub(crate) fn flag(value: &Value, notes: &mut Notes<'_>) -> Option<bool> {
    if let Some(flag) = value.as_bool() {
        return Some(flag);
    }
    let hint = match value.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("true" | "yes" | "on") => Some("true".to_string()),
        Some("false" | "no" | "off") => Some("false".to_string()),
        _ => None,
    };
    expected(value, notes, "true or false without quotes", hint)
}

fn number(value: &Value, notes: &mut Notes<'_>, least: i64, most: i64) -> Option<i64> {
    let what = format!("a whole number from {least} to {most}");
    match value.as_integer() {
        Some(n) if (least..=most).contains(&n) => Some(n),
        Some(n) => {
            notes.add(&span_of(value), format!("expected {what}, found {n}"), None);
            None
        }
        None => {
            let hint = value.as_str().and_then(|s| s.trim().parse::<i64>().ok()).map(|n| n.to_string());
            expected(value, notes, &what, hint)
        }
    }
}

fn small(value: &Value, notes: &mut Notes<'_>, least: i64, most: i64) -> Option<u32> {
    u32::try_from(number(value, notes, least, most)?).ok()
}

/// How many cpus a node has.
pub(crate) fn cpus(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u32>> {
    small(value, notes, 1, MAX_CPUS).map(Some)
}

/// How many processes and threads a run may have.
pub(crate) fn processes(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u32>> {
    small(value, notes, MIN_PROCESSES, MAX_PROCESSES).map(Some)
}

/// How many cards one entry declares.
pub(crate) fn card_count(value: &Value, notes: &mut Notes<'_>) -> Option<u32> {
    small(value, notes, 1, MAX_CARDS)
}

/// In how many parts cards may be shared; 0 for not at all.
pub(crate) fn parts(value: &Value, notes: &mut Notes<'_>) -> Option<u8> {
    let parts = small(value, notes, 0, i64::from(MAX_PARTS))?;
    if parts == 1 {
        let hint = Some(format!("{MIN_PARTS} to {MAX_PARTS} parts, or 0 for none"));
        notes.add(&span_of(value), "a card in one part is not shared", hint);
        return None;
    }
    u8::try_from(parts).ok()
}

/// How many tasks an array may have.
pub(crate) fn array_size(value: &Value, notes: &mut Notes<'_>) -> Option<u32> {
    small(value, notes, 1, MAX_ARRAY)
}

/// A bound; 0 lets nothing through.
pub(crate) fn bound(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u32>> {
    small(value, notes, 0, i64::from(u32::MAX)).map(Some)
}

/// A tier of preemption.
pub(crate) fn tier(value: &Value, notes: &mut Notes<'_>) -> Option<u32> {
    small(value, notes, 0, MAX_TIER)
}

/// As [`tier`], for what may be absent.
pub(crate) fn some_tier(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u32>> {
    tier(value, notes).map(Some)
}

/// An account's shares.
pub(crate) fn shares(value: &Value, notes: &mut Notes<'_>) -> Option<u32> {
    small(value, notes, 1, MAX_SHARES)
}

/// Thousandths of a card that a cpu counts.
pub(crate) fn cpu_charge(value: &Value, notes: &mut Notes<'_>) -> Option<u32> {
    small(value, notes, 0, MAX_CPU_CHARGE)
}

/// A budget of card-minutes.
pub(crate) fn card_minutes(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u64>> {
    u64::try_from(number(value, notes, 0, MAX_CARD_MINUTES)?).ok().map(Some)
}

/// How many job records may live.
pub(crate) fn job_count(value: &Value, notes: &mut Notes<'_>) -> Option<u64> {
    u64::try_from(number(value, notes, 1, MAX_JOBS)?).ok()
}

/// A priority, or the weight of one.
pub(crate) fn priority(value: &Value, notes: &mut Notes<'_>) -> Option<i64> {
    number(value, notes, -MAX_PRIORITY, MAX_PRIORITY)
}

/// A word of `words`, in any case.
fn word<T: Copy>(value: &Value, notes: &mut Notes<'_>, words: &[(T, &str)], also: &str) -> Option<T> {
    let list: Vec<String> = words.iter().map(|(_, w)| format!("\"{w}\"")).collect();
    let what = format!("one of {}{also}", list.join(", "));
    let text = match value.as_str() {
        Some(text) => text,
        None => return expected(value, notes, &what, None),
    };
    if let Some((meant, _)) = words.iter().find(|(_, w)| w.eq_ignore_ascii_case(text)) {
        return Some(*meant);
    }
    let hint = nearest(text, words.iter().map(|(_, w)| *w)).map(|w| format!("\"{w}\""));
    notes.add(&span_of(value), format!("expected {what}, found `{}`", text.escape_debug()), hint);
    None
}

/// A word for how far ahead the plan promises, or a number of reservations.
pub(crate) fn backfill(value: &Value, notes: &mut Notes<'_>) -> Option<Backfill> {
    if value.is_integer() {
        return small(value, notes, 0, 1_000_000).map(Backfill::Depth);
    }
    let words = [
        (Backfill::Fcfs, "fcfs"),
        (Backfill::Depth(0), "greedy"),
        (Backfill::Easy, "easy"),
        (Backfill::Conservative, "conservative"),
    ];
    word(value, notes, &words, " or a number of reservations")
}

/// As [`backfill`], for what may be absent.
pub(crate) fn some_backfill(value: &Value, notes: &mut Notes<'_>) -> Option<Option<Backfill>> {
    backfill(value, notes).map(Some)
}

/// What happens to jobs that make room.
pub(crate) fn preempt(value: &Value, notes: &mut Notes<'_>) -> Option<Preempt> {
    word(value, notes, &Preempt::ALL, "")
}

/// What happens to jobs whose cards stay idle.
pub(crate) fn idle_action(value: &Value, notes: &mut Notes<'_>) -> Option<IdleAction> {
    word(value, notes, &IdleAction::ALL, "")
}

/// How long cards are idle before a job is warned.
pub(crate) fn idle_after(value: &Value, notes: &mut Notes<'_>) -> Option<Option<Seconds>> {
    let span = some_duration(value, notes)?;
    if span <= MAX_IDLE_AFTER {
        return Some(Some(span));
    }
    notes.add(&span_of(value), format!("expected a week at most, found {span}"), None);
    None
}

/// Percent, from 1.
pub(crate) fn percent(value: &Value, notes: &mut Notes<'_>) -> Option<u8> {
    small(value, notes, 1, 100).and_then(|percent| u8::try_from(percent).ok())
}

/// As [`preempt`], for what may be absent.
pub(crate) fn some_preempt(value: &Value, notes: &mut Notes<'_>) -> Option<Option<Preempt>> {
    preempt(value, notes).map(Some)
}

/// What is kept from other users, each word once.
pub(crate) fn private(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<Private>> {
    let read = |value: &Value, notes: &mut Notes<'_>| word(value, notes, &Private::ALL, "");
    let mut all = Vec::new();
    for (what, span) in list(value, notes, "a list of words, such as [\"jobs\"]", read)? {
        match all.contains(&what) {
            true => notes.add(&span, "this word stands in this list already".to_string(), None),
            false => all.push(what),
        }
    }
    Some(all)
}

/// A partition's state.
pub(crate) fn state(value: &Value, notes: &mut Notes<'_>) -> Option<PartitionState> {
    word(value, notes, &PartitionState::ALL, "")
}

/// A host list: the names of one node or of several alike.
pub(crate) fn hosts(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<NodeName>> {
    let text = text(value, notes, "node names in quotes, such as \"ws[1-4]\"")?;
    match expand_hosts(text) {
        Ok(names) => Some(names),
        Err(e) => {
            notes.add(&span_of(value), e.to_string(), None);
            None
        }
    }
}

/// Host lists as written, each with its place.
pub(crate) type HostLists = Vec<(Vec<NodeName>, Span)>;

/// A list of host lists, of [`MAX_HOSTS`] names together.
pub(crate) fn host_lists(value: &Value, notes: &mut Notes<'_>) -> Option<Option<HostLists>> {
    let what = "a list of node names, such as [\"ws[1-4]\"]";
    let entries =
        list(value, notes, what, |v, notes| text(v, notes, "node names in quotes").map(|_| v.clone()))?;
    let (mut lists, mut count, mut good) = (Vec::new(), 0, true);
    for (entry, at) in entries {
        let Some(names) = hosts(&entry, notes) else {
            good = false;
            continue;
        };
        count += names.len();
        if count > MAX_HOSTS {
            notes.add(&at, format!("more than {MAX_HOSTS} names in one list"), None);
            return None;
        }
        lists.push((names, at));
    }
    good.then_some(Some(lists))
}

/// A card's model.
pub(crate) fn model(value: &Value, notes: &mut Notes<'_>) -> Option<Option<String>> {
    let model = text(value, notes, "a card's model in quotes, such as \"A100-SXM4-80GB\"")?;
    let bad = |c: char| c.is_control() || matches!(c, ':' | ',');
    if !model.trim().is_empty() && model.len() <= 128 && !model.contains(bad) {
        return Some(Some(model.trim().to_string()));
    }
    let words = "expected a card's model of at most 128 bytes without `:` and `,`, found";
    notes.add(&span_of(value), format!("{words} `{}`", model.escape_debug()), None);
    None
}

fn slice(value: &Value, notes: &mut Notes<'_>) -> Option<Slice> {
    let profile = text(value, notes, "a slice's profile in quotes, such as \"3g.40gb\"")?;
    if let Some(memory) = profile_memory(profile) {
        let profile = profile.to_ascii_lowercase();
        return Some(Slice {
            profile,
            uuid: None,
            memory,
            gpu_instance: None,
            compute_instance: None,
            placement: None,
            health: gq_model::CardHealth::Good,
        });
    }
    let words = "expected a slice's profile such as 1g.10gb or 1g.10gb+me, found";
    notes.add(&span_of(value), format!("{words} `{}`", profile.escape_debug()), None);
    None
}

/// A card's slices.
pub(crate) fn slices(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<Slice>> {
    let slices = list(value, notes, "a list of profiles, such as [\"3g.40gb\"]", slice)?;
    let count = slices.len() as i64;
    if (1..=MAX_CARDS).contains(&count) {
        return Some(slices.into_iter().map(|(slice, _)| slice).collect());
    }
    let hint = Some("leave `slices` out for a whole card".to_string());
    notes.add(&span_of(value), format!("expected 1 to {MAX_CARDS} profiles, found {count}"), hint);
    None
}
