//! Advice at the end of a job's message: what its run, and the recent ones of the same user and name, would have fitted into. Reads the past, and so
//! belongs in a thread that nobody waits for.

use super::{
    letter::shown,
    note::{Happened, Note, Subject, What},
};
use crate::board::Wall;
use gq_model::{Seconds, Seen, Timestamp, Tried};
use gq_store::{Fits, History, PastRun, StoreError};
use std::{fmt::Write, path::PathBuf};

/// How far back runs of the same name are looked for.
const RECENT: Seconds = Seconds(30 * 86_400);
/// At how many of them is looked, and at how many of the job itself.
const MOST: usize = 1000;

/// Whoever looks up what would have fitted.
#[derive(Clone)]
pub(super) struct Adviser {
    pub(super) database: PathBuf,
    pub(super) wall: Wall,
}

impl Adviser {
    /// What is to be said below this note; nothing when it tells of no end, or nothing would have fitted better.
    pub(super) fn advise(&self, note: &Note) -> String {
        let What::Job(Happened::End, subject) = &note.what else { return String::new() };
        match self.seen(subject, note.at) {
            Ok(seen) => self.in_words(&seen),
            Err(error) => {
                log::warn!("no advice about job {}: {error}", subject.name());
                String::new()
            }
        }
    }

    fn seen(&self, subject: &Subject, at: Timestamp) -> Result<Seen, StoreError> {
        let mut seen = Seen::default();
        let history = History::open(&self.database)?;
        let own =
            Fits { jobs: vec![subject.id], from: Some(subject.submitted), again: true, ..Fits::default() };
        let own = history.past(&own, None, MOST)?;
        own.iter().filter_map(tried).for_each(|run| seen.add(&run));
        // Who never ran is not told how to run better.
        if seen.runs == 0 {
            return Ok(seen);
        }
        let alike = Fits {
            from: Some(at.before(RECENT)),
            users: vec![subject.uid],
            names: vec![subject.spec.name.clone()],
            again: true,
            ..Fits::default()
        };
        let is_other = |run: &&PastRun| run.job != subject.id;
        let alike = history.past(&alike, None, MOST)?;
        alike.iter().filter(is_other).filter_map(tried).for_each(|run| seen.add(&run));
        Ok(seen)
    }

    fn in_words(&self, seen: &Seen) -> String {
        let advice = seen.advice();
        if advice.is_empty() {
            return String::new();
        }
        let board = self.wall.look();
        let runs =
            if seen.runs == 1 { "this run".to_owned() } else { format!("{} runs of this name", seen.runs) };
        let mut text = format!("\nWhat {runs} used would have fitted into:\n");
        for advice in advice {
            let line = advice.line(board.nodes.iter().flat_map(|node| &node.cards));
            let _ = writeln!(text, "    {}", shown(&line));
        }
        text.push_str("gqacct advise tells of all your jobs.\n");
        text
    }
}

/// A run as far as it tells what would have fitted; none that never started.
fn tried(past: &PastRun) -> Option<Tried<'_>> {
    let run = &past.run;
    let ran = run.ended.micros_since(run.started?).saturating_sub(run.suspended);
    Some(Tried {
        end: run.outcome.end,
        ran,
        cpus: run.cpus,
        memory: run.memory,
        cards: run.cards.len(),
        slices: run.cards.iter().filter_map(|card| card.slice.as_deref()).collect(),
        limit: run.time_limit.filter(|limit| *limit != gq_cluster::UNLIMITED),
        used: run.outcome.used.as_deref(),
    })
}
