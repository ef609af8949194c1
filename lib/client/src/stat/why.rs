//! Why: the reason of a job in words, for `--why`.

use super::{clock::Clock, field};
use crate::escape::shown;
use gq_model::{JobState, Reason};
use gq_proto::JobView;

/// What a reason means and what can be done, in a sentence.
pub(crate) const fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "no reason is needed",
        Reason::Scheduling => "it has not been looked at yet: the next planning pass will",
        Reason::Priority => "jobs of a higher place in the queue wait for the same resources",
        Reason::Resources => "it is the first in line, and what it needs is in use",
        Reason::BeginTime => "its begin time has not come",
        Reason::JobHeldUser => "its user holds it: gqctl release lets it start",
        Reason::JobHeldAdmin => "an admin holds it, and an admin has to release it",
        Reason::Dependency => "it waits for another job",
        Reason::PartitionDown => "its partition is down: it starts no jobs at present",
        Reason::PartitionInactive => "its partition is inactive: it neither takes nor starts jobs at present",
        Reason::NodesUnavailable => "nodes that could run it are down or drained: see gqstat --nodes",
        Reason::PartitionTimeLimit => "its time limit is longer than its partition allows",
        Reason::Never => "no node that is declared or was ever seen could run it",
        Reason::NonZeroExitCode => "its script ended with an exit code that is not 0",
        Reason::RaisedSignal => "a signal ended its script",
        Reason::TimeLimit => "its time limit passed",
        Reason::Cancelled => "somebody cancelled it",
        Reason::OutOfMemory => {
            "the kernel killed a process of it for want of memory: ask for more with --mem"
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
            "its account has used up its card-minutes: they come back as its use grows old"
        }
        Reason::Licences => "the licences it asks for are in use",
        Reason::Reservation => "an advance reservation keeps it from starting now: see gqctl reservations",
        Reason::CardsUnavailable => "the cards or slices it asks for are failing or gone: see gqstat --nodes",
        Reason::Preempted => "it made room for a more important job",
        Reason::CardGone => "a card or slice it was given is gone",
        Reason::Requeued => "it was put back into the queue",
    }
}

/// Says of a job in what state it is, why, and what comes next.
pub(crate) fn tell(job: &JobView, clock: &Clock, text: &mut String) {
    let mut line = |label: &str, words: &str| {
        text.push_str(label);
        text.push_str(&shown(words));
        text.push('\n');
    };
    let mut id = String::new();
    let _ = field::write_id(job, &mut id);
    line("job ", &format!("{id} ({}) of {}: {}", job.name, job.user, job.state));
    if job.reason != Reason::None {
        line("  reason: ", job.reason.word());
        line("  that is: ", meaning(job.reason));
    }
    if let Some(detail) = &job.reason_detail {
        line("  details: ", detail);
    }
    let cell = |field: field::Field| {
        let mut text = String::new();
        field.write(job, clock, &mut text);
        text
    };
    match job.state.parse() {
        Ok(JobState::Pending) => {
            line("  it asks for: ", &request(job, &cell(field::Field::Gpus)));
            let start = job.expected_start.and_then(|at| clock.civil(at));
            line("  expected start: ", start.as_deref().unwrap_or("not known"));
        }
        Ok(JobState::Ended(_)) => {
            if job.exit_code.is_some() || job.signal.is_some() {
                line("  exit code and signal: ", &cell(field::Field::Exit));
            }
            line("  output: ", &job.stdout);
        }
        Ok(_) | Err(_) => {
            line("  node: ", &cell(field::Field::Nodes));
            line("  for: ", &format!("{} of {}", cell(field::Field::Used), cell(field::Field::Limit)));
            line("  output: ", &job.stdout);
        }
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
    format!("{} {cpus}, {memory}, gpus: {cards}{alone}, {}", job.cpus, gq_model::format_limit(job.time_limit))
}
