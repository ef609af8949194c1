//! `gqacct advise`: what jobs of each name might ask for instead of what they do.

use super::{flag, picked, picking, when};
use crate::{
    escape::shown,
    link::{Link, conf_of},
    out::Out,
    stat::{clock::Clock, json},
    trouble::Trouble,
};
use clap::{ArgMatches, Command};
use gq_model::{Advice, Card, JobState, MiB, Seconds, Seen, Timestamp, Tried, Uid, format_limit, smallest};
use gq_proto::{Ask, NodeView, PastAsk, Reply, RunView};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write};

/// The options of `gqacct advise`.
pub(super) fn advise_command() -> Command {
    Command::new("advise")
        .about("Show what jobs of each name used of what they asked for, and what to ask for")
        .long_about(
            "Looks at runs by user and name, and says in options of gqsub what would have fitted: a time limit, cpus, memory, and the least memory of \
             a card or slice, with a little room above the most that any of them used. Where runs ran out of time or memory it asks for more. Without \
             --start it begins with this month.",
        )
        .disable_help_flag(true)
        .args(picking())
        .arg(flag("json", "Answer in JSON"))
}

/// Shows advice.
pub(super) fn advise(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let mut ask = picked(words, clock, when::Start::Month)?;
    ask.again = true;
    let link = Link::open(conf_of(words))?;
    let mut seen: BTreeMap<(String, String), Seen> = BTreeMap::new();
    link.ask_in_parts(Ask::Past(ask), |part| {
        let Reply::Runs { runs, more } = part else { return Err(link.astray()) };
        for run in &runs {
            let name = run.name.clone().unwrap_or_default();
            add(seen.entry((run.user.clone(), name)).or_default(), run);
        }
        Ok(more)
    })?;
    seen.retain(|_, seen| seen.runs > 0);
    let Reply::Nodes(nodes) = link.ask(Ask::Nodes)? else { return Err(link.astray()) };
    if words.get_flag("json") {
        let all: Vec<Value> = seen.iter().map(|(whose, seen)| in_json(whose, seen, &nodes)).collect();
        json::write(out, &json!({ "advice": all })).map_err(|e| Trouble::of_output(&e))?;
        out.put("\n")?;
        return Ok(0);
    }
    for (whose, seen) in &seen {
        out.put(&in_words(whose, seen, &nodes))?;
    }
    Ok(0)
}

/// How far back is looked for those who only want to be told in passing, in days, and at how many runs at most.
const RECENT: i64 = 30;
const MOST_RECENT: usize = 1000;

/// What the caller's jobs of a name might ask for, in options of `gqsub`, as their recent runs have it. The link is not to be used any more.
///
/// # Errors
/// When `gqd` does not answer.
pub(crate) fn advice_of(link: &Link, name: &str) -> Result<Vec<String>, Trouble> {
    let now = Clock::system().now.0;
    let ask = PastAsk {
        from: Some(Timestamp(now.saturating_sub(RECENT * 86_400 * 1_000_000))),
        users: vec![Uid(nix::unistd::geteuid().as_raw())],
        names: vec![name.to_owned()],
        again: true,
        ..PastAsk::default()
    };
    let (mut seen, mut count) = (Seen::default(), 0);
    link.ask_in_parts(Ask::Past(ask), |part| {
        let Reply::Runs { runs, more } = part else { return Err(link.astray()) };
        runs.iter().for_each(|run| add(&mut seen, run));
        count += runs.len();
        Ok(more && count < MOST_RECENT)
    })?;
    Ok(seen.advice().into_iter().map(|advice| advice.option).filter(|option| !option.is_empty()).collect())
}

/// Takes a run in; one that never started tells nothing.
fn add(seen: &mut Seen, run: &RunView) {
    if let Some(run) = tried(run) {
        seen.add(&run);
    }
}

/// A run as far as it tells what would have fitted; none that never started.
pub(crate) fn tried(run: &RunView) -> Option<Tried<'_>> {
    let Ok(JobState::Ended(end)) = run.state.parse() else { return None };
    run.start_time.map(|_| Tried {
        end,
        ran: run.ran(),
        cpus: run.cpus,
        memory: run.memory_mib,
        cards: run.gpus.len(),
        slices: run.gpus.iter().filter_map(|gpu| gpu.slice.as_deref()).collect(),
        limit: run.time_limit,
        used: run.used.as_deref(),
    })
}

fn cards(nodes: &[NodeView]) -> impl Iterator<Item = &Card> {
    nodes.iter().flat_map(|node| &node.cards).map(|view| &view.card)
}

/// The smallest card or slice that has so much memory, as far as a node has one.
pub(crate) fn smallest_of(nodes: &[NodeView], least: MiB) -> Option<(String, MiB)> {
    smallest(cards(nodes), least)
}

/// Advice in words, a line each.
pub(crate) fn advice_in_words(advice: &[Advice], nodes: &[NodeView]) -> String {
    advice.iter().map(|advice| format!("    {}\n", shown(&advice.line(cards(nodes))))).collect()
}

/// Advice as JSON.
pub(crate) fn advice_in_json(advice: &[Advice], nodes: &[NodeView]) -> Value {
    let one = |Advice { option, why, card }: &Advice| {
        let here = card.and_then(|least| smallest_of(nodes, least));
        json!({"option": option, "why": why, "smallest": here.map(|(name, _)| name)})
    };
    advice.iter().map(one).collect()
}

fn cards_asked(seen: &Seen) -> String {
    match (seen.cards, seen.slices.is_empty()) {
        (0, _) => "no card".to_owned(),
        (1, true) => "1 card".to_owned(),
        (count, true) => format!("{count} cards"),
        (count, false) => {
            format!("{count} x {}", seen.slices.iter().map(String::as_str).collect::<Vec<_>>().join(" or "))
        }
    }
}

fn in_words((user, name): &(String, String), seen: &Seen, nodes: &[NodeView]) -> String {
    let mut text = String::new();
    let known = |figure: Option<String>| figure.unwrap_or_else(|| "?".to_owned());
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} of {}: {} runs, {} measured; asked for {}, {} cpus, {}, {}; used {}, {} cpus, {}, {} of a card, {} busy",
        shown(name),
        shown(user),
        seen.runs,
        seen.measured,
        format_limit(seen.limit),
        seen.cpus,
        seen.memory,
        cards_asked(seen),
        Seconds(seen.longest.div_ceil(1_000_000)),
        known(seen.cpus_used.map(|cpus| format!("{}.{}", cpus / 1000, cpus % 1000 / 100))),
        known(seen.memory_used.map(|memory| memory.to_string())),
        known(seen.card_memory.map(|memory| memory.to_string())),
        known(seen.busy.map(|busy| format!("{} %", busy / 10))),
    );
    let advice = seen.advice();
    text.push_str(&advice_in_words(&advice, nodes));
    if advice.is_empty() {
        let _ = writeln!(text, "    {:<18}  as far as was measured, what it asks for fits", "");
    }
    text
}

fn in_json((user, name): &(String, String), seen: &Seen, nodes: &[NodeView]) -> Value {
    json!({
        "user": user, "name": name, "runs": seen.runs, "measured": seen.measured,
        "asked": {
            "time_limit": seen.limit.map(|limit| limit.0), "cpus": seen.cpus, "memory_mib": seen.memory.0, "cards": seen.cards,
            "slices": seen.slices,
        },
        "used": {
            "longest_seconds": seen.longest as f64 / 1e6, "cpus": seen.cpus_used.map(|cpus| cpus as f64 / 1000.0),
            "memory_mib": seen.memory_used.map(|memory| memory.0), "cards_held": seen.cards_held,
            "card_memory_mib": seen.card_memory.map(|memory| memory.0), "busy": seen.busy.map(|busy| f64::from(busy) / 1000.0),
        },
        "timeouts": seen.timeouts, "out_of_memory": seen.out_of_memory,
        "advice": advice_in_json(&seen.advice(), nodes),
    })
}
