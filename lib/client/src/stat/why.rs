//! Why: the reason of a job in words, for `--why`.

use super::{clock::Clock, field, used};
use crate::escape::shown;
use gq_model::{JobState, Reason};
use gq_proto::{ExplanationView, JobView};

/// What a reason means and what can be done, in a sentence.
pub(crate) const fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "no reason is needed",
        Reason::Scheduling => "it has not been looked at yet: the next planning pass will",
        Reason::Priority => {
            "jobs of a higher place in the queue go first: gqctl priority shows what makes up each place"
        }
        Reason::Resources => "it is first in line, and what it needs is in use",
        Reason::BeginTime => {
            "its begin time (--begin), or the pause after another job (--dependency=after:ID+MINUTES), is not over"
        }
        Reason::JobHeldUser => "its user holds it: gqctl release lets it start",
        Reason::JobHeldAdmin => {
            "an admin, an operator or who coordinates its account holds it: ask them to release it"
        }
        Reason::Dependency => "it waits for another job",
        Reason::DependencyNeverSatisfied => {
            "what it waits for can no longer come: cancel it, or name another job with gqctl update --dependency"
        }
        Reason::ArrayTaskLimit => {
            "as many tasks of its array run as may at a time: gqctl update --array-throttle changes that"
        }
        Reason::Deadline => "it could not end before its deadline (--deadline)",
        Reason::Backoff => "it failed or could not be started, and is tried again after a pause",
        Reason::Prolog => "the site's prolog failed",
        Reason::WaitedTooLong => "it waited longer than its user wanted it to (--max-wait)",
        Reason::PrepFailed => "the script that was to prepare it failed (--prep)",
        Reason::Container => "its container could not be started",
        Reason::PartitionDown => "its partition is down: it starts no jobs until an admin says so",
        Reason::PartitionInactive => "its partition is inactive: it neither takes nor starts jobs at present",
        Reason::NodesUnavailable => "nodes that could run it are down or drained: see gqstat --nodes",
        Reason::PartitionTimeLimit => {
            "its time limit is longer than its partition or QOS allows: submit it again with a shorter --time"
        }
        Reason::Never => {
            "no node that is declared or was ever seen could run it: gqstat --nodes shows what there is"
        }
        Reason::NonZeroExitCode => "its script ended with an exit code that is not 0",
        Reason::RaisedSignal => "a signal ended its script",
        Reason::TimeLimit => "its time limit passed",
        Reason::Cancelled => "somebody cancelled it",
        Reason::OutOfMemory => {
            "the kernel killed a process of it for want of memory: ask for more with --mem"
        }
        Reason::GpuMemory => {
            "it used more memory of the card it shared than it had declared: ask for more with --gpu-share"
        }
        Reason::IdleCards => {
            "its cards are or were idle for longer than its partition allows: use them, ask for fewer, or say why with --idle-ok"
        }
        Reason::SupervisorLost => "its supervisor (gqstep) was killed, and its processes with it",
        Reason::NodeFailure => "its node went away or was booted again under it",
        Reason::WorkDir => "its working directory cannot be entered",
        Reason::OutputFile => "its output file cannot be opened: does its folder exist?",
        Reason::InputFile => "its input file cannot be opened",
        Reason::UserGone => "its user has no account on the node",
        Reason::JobFileChanged => "its job file is not the one that was accepted",
        Reason::ExecFailed => "its script cannot be executed: see its first line, #!",
        Reason::LaunchFailure => "the site kept it from starting: see the log of gqnode",
        Reason::UserJobLimit => "its user has as many jobs running as the QOS or partition allows",
        Reason::UserCardLimit => "its user has as many cards in use as the QOS or partition allows",
        Reason::UserCpuLimit => "its user has as many cpus in use as the QOS or partition allows",
        Reason::GroupJobLimit => "its QOS or partition has as many jobs running as it may",
        Reason::GroupCardLimit => "its QOS or partition has as many cards in use as it may",
        Reason::GroupCpuLimit => "its QOS or partition has as many cpus in use as it may",
        Reason::AccountJobLimit => "its account has as many jobs running as it may",
        Reason::AccountCardLimit => "its account has as many cards in use as it may",
        Reason::AccountCpuLimit => "its account has as many cpus in use as it may",
        Reason::CardMinutes => {
            "its account has used up its card-minutes: they come back as its use grows old (gqctl shares)"
        }
        Reason::Budget => {
            "the budget of card-hours of its account or user is used up: it starts when that begins anew (gqacct budgets)"
        }
        Reason::Licences => "licences that it asks for are in use by other jobs",
        Reason::Reservation => {
            "its advance reservation is not open, or one of others would begin before it could end: see gqctl reservations"
        }
        Reason::CardsUnavailable => {
            "the cards or slices it asks for are failing, gone or used by somebody else: see gqstat --nodes"
        }
        Reason::Preempted => "it makes or made room for a more important job",
        Reason::NodeTrouble => {
            "its node was short of something, such as room on its disk: see gqstat --nodes; it is tried again"
        }
        Reason::CardGone => "a card or slice it was given failed or is gone",
        Reason::Requeued => "it was put back into the queue",
    }
}

/// What the state UNKNOWN means and what can be done.
const CUT_OFF: &str = "gqd has lost sight of its node, where it may be alive: it keeps what it holds until the node is back or has \
                       booted, or an admin vouches that the node is dead (gqctl node NAME fence)";

/// Says of a job in what state it is, why, and what comes next.
pub(crate) fn tell(job: &JobView, explained: Option<&ExplanationView>, clock: &Clock, text: &mut String) {
    let mut id = String::new();
    let _ = field::write_id(job, &mut id);
    line(text, "job ", &format!("{id} ({}) of {}: {}", job.name, job.user, job.state));
    if job.reason != Reason::None {
        line(text, "  reason: ", job.reason.word());
        line(text, "  that is: ", meaning(job.reason));
    }
    if let Some(detail) = &job.reason_detail {
        line(text, "  details: ", detail);
    }
    if let Some(stage) = &job.stage {
        line(text, "  stage: ", stage);
    }
    if let Some(excuse) = &job.idle_ok {
        line(text, "  its cards may be idle: ", excuse);
    }
    if let Some(dependency) = &job.dependency {
        line(text, "  dependency: ", dependency);
    }
    if let Some(deadline) = job.deadline.and_then(|at| clock.civil(at)) {
        line(text, "  deadline: ", &deadline);
    }
    let cell = |field: field::Field| {
        let mut text = String::new();
        field.write(job, clock, &mut text);
        text
    };
    match job.state.parse() {
        Ok(JobState::Pending) => {
            line(text, "  it asks for: ", &request(job, &cell(field::Field::GpusAsked)));
            if let Some(explained) = explained {
                explain(explained, clock, text);
            }
            line(text, "  expected start: ", &expected(job, explained, clock));
            if let Some(first) = job.first_promise.and_then(|at| clock.civil(at)) {
                line(text, "  promised first: ", &first);
            }
            for (at, words) in explained.iter().flat_map(|e| &e.instead).enumerate() {
                line(text, if at == 0 { "  it would start at once: " } else { "    or " }, words);
            }
        }
        Ok(JobState::Ended(_)) => {
            if job.exit_code.is_some() || job.signal.is_some() {
                line(text, "  exit code and signal: ", &cell(field::Field::Exit));
            }
            for (label, words) in job.used.iter().flat_map(|used| used::lines(job, used)) {
                line(text, label, &words);
            }
            line(text, "  output: ", &job.stdout);
        }
        Ok(_) | Err(_) => {
            line(text, "  node: ", &cell(field::Field::Nodes));
            if job.state.parse() == Ok(JobState::Unknown) {
                line(text, "  that is: ", CUT_OFF);
            }
            if let Some(since) = job.idle_since.and_then(|at| clock.civil(at)) {
                line(text, "  its cards are idle since: ", &since);
            }
            if let Some(until) = job.idle_until.and_then(|at| clock.civil(at)) {
                line(text, "  unless they are used again, it is ended at: ", &until);
            }
            line(text, "  for: ", &format!("{} of {}", cell(field::Field::Used), cell(field::Field::Limit)));
            line(text, "  output: ", &job.stdout);
        }
    }
}

fn line(text: &mut String, label: &str, words: &str) {
    text.push_str(label);
    text.push_str(&shown(words));
    text.push('\n');
}

/// When and where a job is expected to start.
fn expected(job: &JobView, explained: Option<&ExplanationView>, clock: &Clock) -> String {
    let told = explained.and_then(|explained| explained.expected.as_ref());
    let at = told.map(|(at, _)| *at).or(job.expected_start).and_then(|at| clock.civil(at));
    match (at, told.map(|(_, node)| node).or(job.expected_node.as_ref())) {
        (Some(at), Some(node)) => format!("{at} on {node}"),
        (Some(at), None) => at,
        (None, _) => "not known".to_owned(),
    }
}

/// What a job waits for, who holds it, and who goes first.
fn explain(explained: &ExplanationView, clock: &Clock, text: &mut String) {
    if !explained.lacks.is_empty() {
        line(text, "  it waits for: ", &explained.lacks.join(", "));
    }
    for (at, holder) in explained.holders.iter().enumerate() {
        let due = clock.civil(holder.due).map_or_else(String::new, |due| format!(", due by {due}"));
        let words = format!("job {} on {}: {}{due}", holder.job, holder.node, holder.holds);
        line(text, if at == 0 { "  held by: " } else { "    and by " }, &words);
    }
    if explained.ahead_count > 0 {
        let first: Vec<String> = explained.ahead.iter().map(ToString::to_string).collect();
        let more = if explained.ahead_count > explained.ahead.len() as u64 { " \u{2026}" } else { "" };
        let jobs = if explained.ahead_count == 1 { "job" } else { "jobs" };
        line(text, "  before it: ", &format!("{} {jobs}: {}{more}", explained.ahead_count, first.join(" ")));
    }
}

/// What a job asks for, in a line.
fn request(job: &JobView, cards: &str) -> String {
    let memory = match job.memory_mib.0 {
        0 => "all memory of a node".to_owned(),
        _ => format!("{} memory", job.memory_mib),
    };
    let cpus = if job.cpus == 1 { "cpu" } else { "cpus" };
    let alone = if job.exclusive { ", the node alone" } else { "" };
    let licences: Vec<String> =
        job.licences.iter().map(|l| format!(", {} of licence {}", l.count, l.name)).collect();
    let reservation =
        job.reservation.as_ref().map_or_else(String::new, |name| format!(", reservation {name}"));
    format!(
        "{} {cpus}, {memory}, gpus: {cards}{alone}{}{reservation}, {}",
        job.cpus,
        licences.concat(),
        gq_model::format_limit(job.time_limit)
    )
}
