//! The end of a trial (`--trial`): what its run used, and what to ask for.

use super::{PROGRAM, print};
use crate::{
    acct::{advice_in_json, advice_in_words, smallest_of, tried},
    escape::shown,
    link::Link,
    stat::{clock::Clock, used},
    trouble::{Trouble, say},
};
use gq_conf::Config;
use gq_model::{Advice, End, JobId, JobSpec, JobState, MiB, Seconds, Seen, TimeAsk, Used, profile_memory};
use gq_proto::{Ask, NodeView, PastAsk, Reply, RunView};
use serde_json::json;
use std::fmt::Write;

/// From so many percent of its memory on a card was as good as full.
const FULL: u64 = 90;

/// What a trial showed.
struct Shown {
    run: RunView,
    end: End,
    /// Memory of the card or slice that it had, when it used nearly all of it.
    full: Option<MiB>,
    advice: Vec<Advice>,
}

/// Looks up the run of a trial, and says what to ask for. `code`: how the job ended for whoever waited. Returns the exit code: a trial that was cut off has
/// done what it is for.
pub(super) fn tell(conf: &Config, job: JobId, asked: &JobSpec, code: u8, json: bool) -> Result<u8, Trouble> {
    let Some(run) = last_run(conf, job)? else {
        say(PROGRAM, &format!("job {job} ended before it ran: nothing was measured (gqstat --why {job})"));
        return Ok(code);
    };
    let link = Link::open_to(conf)?;
    let Reply::Nodes(nodes) = link.ask(Ask::Nodes)? else { return Err(link.astray()) };
    let Some(shown) = look(run, asked, &nodes) else { return Ok(code) };
    if json {
        print(&format!("{}\n", in_json(job, &shown, &nodes)))?;
    } else {
        print(&in_words(&shown, &nodes))?;
    }
    Ok(if shown.end == End::Timeout { 0 } else { code })
}

fn last_run(conf: &Config, job: JobId) -> Result<Option<RunView>, Trouble> {
    let link = Link::open_to(conf)?;
    let mut last = None;
    let from = Some(Clock::system().now.before(Seconds(86_400)));
    link.ask_in_parts(
        Ask::Past(PastAsk { from, jobs: vec![job], again: true, ..PastAsk::default() }),
        |part| {
            let Reply::Runs { runs, more } = part else { return Err(link.astray()) };
            last = runs.into_iter().rfind(|run| run.start_time.is_some()).or(last.take());
            Ok(more)
        },
    )?;
    Ok(last)
}

fn look(run: RunView, asked: &JobSpec, nodes: &[NodeView]) -> Option<Shown> {
    let mut seen = Seen::default();
    let mut one = tried(&run)?;
    let end = one.end;
    // How long the job may take is what was asked for; that a trial is cut off says nothing of it.
    one.limit = match asked.time_limit {
        Some(TimeAsk::Limit(limit)) => Some(limit),
        Some(TimeAsk::Longest) | None => None,
    };
    if end == End::Timeout {
        one.end = End::Cancelled;
    }
    seen.add(&one);
    let most = run.used.as_deref().and_then(used::card_memory);
    let full = most.zip(held(&run, nodes)).filter(|(used, held)| used.0 * 100 >= held.0 * FULL);
    let full = full.map(|(_, held)| held);
    Some(Shown { end, full, advice: seen.advice(), run })
}

/// Memory of the card, slice or share that a run had.
fn held(run: &RunView, nodes: &[NodeView]) -> Option<MiB> {
    let gpu = run.gpus.first()?;
    let node = nodes.iter().find(|node| node.name == gpu.node)?;
    let card = node.cards.iter().map(|view| &view.card).find(|card| card.index == gpu.index)?;
    match &gpu.slice {
        Some(profile) => profile_memory(profile),
        None => Some(gpu.share_mib.unwrap_or(card.memory)),
    }
}

/// `1g.10gb`, or the model of a card.
fn name_of_card(run: &RunView, nodes: &[NodeView]) -> Option<String> {
    let gpu = run.gpus.first()?;
    let node = nodes.iter().find(|node| node.name == gpu.node)?;
    let card = node.cards.iter().map(|view| &view.card).find(|card| card.index == gpu.index);
    gpu.slice.clone().or_else(|| card.map(|card| card.model.clone()))
}

fn in_words(trial: &Shown, nodes: &[NodeView]) -> String {
    let Shown { run, end, full, advice } = trial;
    let ran = Seconds(run.ran() / 1_000_000);
    let on = name_of_card(run, nodes).map_or_else(String::new, |name| format!(" with a {}", shown(&name)));
    let on = run.node.as_ref().map_or_else(String::new, |node| format!(" on {node}{on}"));
    // Writing to a string does not fail.
    let mut text = match end {
        End::Timeout => {
            format!("The trial ran {ran}{on}, and was cut off then: how long the job takes is not known.\n")
        }
        end => format!("The trial ran {ran}{on}, and ended as {}.\n", JobState::Ended(*end).name()),
    };
    if let Some(measured) = &run.used {
        let _ = writeln!(text, "It used {}.", of_used(run, measured));
    }
    if let Some(held) = full {
        let next = smallest_of(nodes, MiB(held.0 + 1024));
        let next = next.map_or_else(
            || "there is no larger one here".to_owned(),
            |(name, memory)| format!("the next larger one here is a {} ({memory})", shown(&name)),
        );
        let _ = writeln!(text, "That is nearly all of the {held} of its card, so it may need more: {next}.");
    }
    if advice.is_empty() {
        text.push_str("As far as was measured, what it asks for fits.\n");
        return text;
    }
    text.push_str("Ask for:\n");
    text.push_str(&advice_in_words(advice, nodes));
    text
}

/// `1.2 of 8 cpus, 3.1G of 16G of memory, 2.4G of the memory of its card`
fn of_used(run: &RunView, measured: &Used) -> String {
    let cpus = measured.cpu.and_then(|cpu| cpu.saturating_mul(10).checked_div(run.ran()));
    let cpus = cpus.map(|cpus| format!("{}.{} of {} cpus", cpus / 10, cpus % 10, run.cpus));
    let memory = measured.memory.map(|memory| format!("{memory} of {} of memory at most", run.memory_mib));
    let card =
        used::card_memory(measured).map(|memory| format!("{memory} of the memory of its card at most"));
    let busy = measured.busy().map(|busy| format!("its card for {} of the time", used::percent(busy.into())));
    let parts: Vec<String> = [cpus, memory, card, busy].into_iter().flatten().collect();
    if parts.is_empty() { "nothing that could be measured".to_owned() } else { parts.join(", ") }
}

fn in_json(job: JobId, trial: &Shown, nodes: &[NodeView]) -> serde_json::Value {
    let Shown { run, end, full, advice } = trial;
    json!({
        "job_id": job, "state": JobState::Ended(*end).name(), "exit_code": run.exit_code, "node": run.node,
        "card": name_of_card(run, nodes), "ran_seconds": run.ran() as f64 / 1e6, "cut_off": *end == End::Timeout,
        "card_nearly_full": full.is_some(), "used": run.used.as_deref().map(used::json),
        "advice": advice_in_json(advice, nodes),
    })
}
