//! Bounds: counts, lengths and forms that our clients keep to, of requests and commands that anybody's program may have written. Never asks who
//! may, or whether it is possible.

use crate::{Refusal, RefusalKind, Selection, Verb, command::Target};
use alloc::{format, string::String, vec::Vec};
use gq_model::{
    Change, Dependency, JobSpec, MAX_COMMENT, MAX_NAME, MAX_RETRIES, MAX_SIGNAL, MailAsk, RESOURCE_LIMITS,
    ResourceLimit, RetryAsk, parse_recipients,
};

/// Most users, names, partitions and states that a command selects by: each live job is compared with each.
const MOST_WORDS: usize = 1024;
/// Most changes that are looked at: there are fewer kinds.
const MOST_CHANGES: usize = 64;
/// Most work that one update may make: jobs, times changes, times the jobs that they and the changes wait for.
const MOST_WORK: u64 = 100_000;
/// Longest reason of a drain, in bytes.
const MAX_REASON: usize = 1024;

fn refused(text: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal::new(RefusalKind::Usage, text))
}

/// Whether a request is one that a client could have made.
pub(crate) fn request(spec: &JobSpec) -> Result<(), Refusal> {
    let is_bad = |text: &str| text.chars().any(char::is_control);
    if spec.name.len() > MAX_NAME || is_bad(&spec.name) || spec.comment.as_deref().is_some_and(is_bad) {
        return refused(format!(
            "a job's name has at most {MAX_NAME} bytes, and no control characters; a comment neither"
        ));
    }
    if spec.comment.as_ref().is_some_and(|comment| comment.len() > MAX_COMMENT) {
        return refused(format!("a comment has at most {MAX_COMMENT} bytes"));
    }
    if spec.idle_ok.as_ref().is_some_and(|why| why.is_empty() || why.len() > MAX_NAME || is_bad(why)) {
        return refused(format!(
            "--idle-ok: expected a reason of at most {MAX_NAME} bytes, without control characters"
        ));
    }
    if !spec.work_dir.starts_with('/') {
        return refused("the working directory is not an absolute path");
    }
    if spec.signal.is_some_and(|asked| !is_signal(asked.signal)) {
        return refused(format!("--signal: signals have the numbers 1 to {MAX_SIGNAL}"));
    }
    spec.retry.as_ref().map_or(Ok(()), retry)?;
    spec.mail.as_ref().map_or(Ok(()), mail)?;
    limits(&spec.limits)
}

const fn is_signal(number: u8) -> bool {
    number >= 1 && number <= MAX_SIGNAL
}

fn retry(asked: &RetryAsk) -> Result<(), Refusal> {
    if asked.times <= MAX_RETRIES && asked.exits.is_sorted_by(|one, next| one < next) {
        return Ok(());
    }
    refused(format!(
        "--retry: a job is tried again {MAX_RETRIES} times at most, after exit codes that are named once, in order"
    ))
}

fn mail(asked: &MailAsk) -> Result<(), Refusal> {
    if let Some(Err(error)) = asked.to.as_deref().map(parse_recipients) {
        return refused(format!("--mail-user: {error}"));
    }
    if asked.on.is_sorted_by(|one, next| one < next) {
        return Ok(());
    }
    refused("--mail-type: what messages are about is named once each, in the order of the manual")
}

fn limits(limits: &[ResourceLimit]) -> Result<(), Refusal> {
    let is_known = |limit: &ResourceLimit| RESOURCE_LIMITS.contains(&limit.name.as_str());
    let is_twice =
        |(at, limit): (usize, &ResourceLimit)| limits.iter().take(at).any(|other| other.name == limit.name);
    // There are no more than there are names when no name comes twice.
    let looked_at = || limits.iter().take(RESOURCE_LIMITS.len() + 1);
    if looked_at().all(is_known) && !looked_at().enumerate().any(is_twice) {
        return Ok(());
    }
    refused(format!("--propagate: limits are named once each, and are some of {}", RESOURCE_LIMITS.join(" ")))
}

/// Whether a command is one that a client could have given.
pub(crate) fn command(verb: &Verb, select: &Selection) -> Result<(), Refusal> {
    let Selection { jobs: _, users, names, partitions, states } = select;
    let words = users.len() + names.len() + partitions.len() + states.len();
    if words > MOST_WORDS {
        return refused(format!("{words} users, names, partitions and states at once: {MOST_WORDS} at most"));
    }
    match verb {
        Verb::Signal(number, _) if !is_signal(*number) => {
            refused(format!("signals have the numbers 1 to {MAX_SIGNAL}"))
        }
        Verb::Signal(..)
        | Verb::Cancel
        | Verb::Hold
        | Verb::Release
        | Verb::Requeue { .. }
        | Verb::Suspend
        | Verb::Continue
        | Verb::Update(_) => Ok(()),
    }
}

/// Whether an update is not more than one turn can bear: each thing is said once, and the jobs are not too many for what is said.
pub(crate) fn update(changes: &[Change], targets: &[Target<'_>]) -> Result<(), Refusal> {
    let kinds: Vec<_> = changes.iter().take(MOST_CHANGES).map(core::mem::discriminant).collect();
    let is_twice = |(at, kind)| kinds.iter().take(at).any(|other| other == kind);
    if changes.len() > MOST_CHANGES || kinds.iter().enumerate().any(is_twice) {
        return refused("an update says each thing once");
    }
    if changes.iter().any(|change| matches!(change, Change::Partition(name) if name.len() > MAX_NAME)) {
        return refused(format!("a partition's name has at most {MAX_NAME} bytes"));
    }
    if changes.contains(&Change::AtOnce(Some(0))) {
        return refused("of an array one task may run at a time at the least");
    }
    let terms = |asked: &Option<Dependency>| asked.as_ref().map_or(0, |asked| asked.terms.len() as u64);
    let said: u64 = changes
        .iter()
        .map(|change| if let Change::Dependency(asked) = change { terms(asked) } else { 0 })
        .sum();
    let of_job = |target: &Target<'_>| 1 + said + terms(&target.job.spec.dependency);
    let work = targets.iter().map(of_job).sum::<u64>().saturating_mul(changes.len() as u64);
    if work <= MOST_WORK {
        return Ok(());
    }
    Err(Refusal::new(RefusalKind::Policy, format!("{} jobs are too many for one such update", targets.len()))
        .hint("update fewer of them at a time"))
}

/// Whether a node is drained for a reason that can be shown.
pub(crate) fn reason(reason: &str) -> Result<(), Refusal> {
    if reason.trim().is_empty() || reason.len() > MAX_REASON || reason.chars().any(char::is_control) {
        return refused(format!("a reason has 1 to {MAX_REASON} bytes, and no control characters"));
    }
    Ok(())
}
