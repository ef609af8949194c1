//! The judge of a history: what users were told, what jobs wrote of themselves, what the store keeps and what `gqstat` says must be one story, in
//! which nothing is lost and nothing is done twice.

use super::{
    history::{Answer, History, Line, RunId, Submission},
    stories::Kind,
};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of an array of [`Kind::Tasks`].
const TASKS: u32 = 5;

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Submissions whose clients were told of them.
    pub acknowledged: usize,
    /// Of these, those that are not there.
    pub lost: usize,
    /// Runs that ended.
    pub runs: usize,
    /// Runs that lived beside another one of their task or on cards of another.
    pub double: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.runs += other.runs;
        self.double += other.double;
    }
}

/// A row of the accounting: a run that ended, or something that ended without one.
#[derive(Debug)]
struct Row {
    run: RunId,
    state: String,
    reason: String,
    exit: Option<i32>,
    again: bool,
    allocated: Option<i64>,
    started: Option<i64>,
    ended: i64,
    node: Option<String>,
    /// Indices of its cards, as a job sees them.
    cards: String,
}

/// When a run had something, in microseconds: from, to, which run.
type Span = (i64, i64, RunId);

/// What is held against it.
struct Judge<'h> {
    submissions: Vec<Submission>,
    lines: Vec<Line>,
    rows: BTreeMap<RunId, Row>,
    jobs: Vec<Value>,
    faults: Vec<String>,
    tally: Tally,
    /// Supervisors that were killed by others than their jobs.
    killed: usize,
    history: &'h History<'h>,
}

/// Judges a history whose queue is empty; `killed`: so many supervisors were killed by others than their jobs.
///
/// # Panics
/// With all that is wrong.
#[track_caller]
pub fn check(history: &History<'_>, killed: usize) -> Tally {
    let lab = history.lab;
    assert_eq!(lab.list(""), Vec::<Value>::new(), "the queue is empty");
    let mut judge = Judge {
        submissions: history.submissions(),
        lines: history.lines(),
        rows: rows(history),
        jobs: lab.list("-t all"),
        faults: Vec::new(),
        tally: Tally::default(),
        killed,
        history,
    };
    judge.submissions();
    judge.ends();
    judge.words();
    judge.times();
    judge.deeds();
    judge.tally.runs = judge.rows.values().filter(|row| row.node.is_some()).count();
    let (faults, tally) = (judge.faults, judge.tally);
    assert!(faults.is_empty(), "{} faults, {tally:?}:\n{}", faults.len(), faults.join("\n"));
    tally
}

fn rows(history: &History<'_>) -> BTreeMap<RunId, Row> {
    let state = history.lab.dir().join("state");
    let years =
        std::fs::read_dir(state.join("history")).into_iter().flatten().map(|file| file.unwrap().path());
    let files = years.filter(|path| path.extension().is_some_and(|ending| ending == "db"));
    // What is in both places counts once: the state removes it after it was copied.
    files.chain([state.join("gq.db")]).flat_map(|path| rows_of(&path)).map(|row| (row.run, row)).collect()
}

fn rows_of(path: &std::path::Path) -> Vec<Row> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut all = db
        .prepare(
            "SELECT job, task, run, state, reason, exit_code, again, allocated, started, ended, node, cards FROM run",
        )
        .unwrap();
    let found = all.query_map([], |row| {
        let cards: Option<String> = row.get(11)?;
        let cards: Value = serde_json::from_str(cards.as_deref().unwrap_or("[]")).unwrap();
        let indices: Vec<String> =
            cards.as_array().unwrap().iter().map(|card| card["index"].to_string()).collect();
        let cards = if indices.is_empty() { "-".to_owned() } else { indices.join(",") };
        let run = (row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?, row.get(2)?);
        Ok(Row {
            run,
            state: row.get(3)?,
            reason: row.get(4)?,
            exit: row.get(5)?,
            again: row.get(6)?,
            allocated: row.get(7)?,
            started: row.get(8)?,
            ended: row.get(9)?,
            node: row.get(10)?,
            cards,
        })
    });
    found.unwrap().map(|row| row.unwrap()).collect()
}

impl Judge<'_> {
    fn hold(&mut self, is_so: bool, fault: impl FnOnce() -> String) {
        if !is_so {
            self.faults.push(fault());
        }
    }

    /// Whose job this is.
    fn kind(&self, job: u64) -> Option<(Kind, String)> {
        let named = self.jobs.iter().find(|view| view["id"] == job)?["name"].as_str()?;
        let submission = self.submissions.iter().find(|submission| submission.name == named)?;
        Some((submission.kind, submission.name.clone()))
    }

    /// Everything that was acknowledged is there, once, and nothing else is.
    fn submissions(&mut self) {
        let mut named: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for job in &self.jobs {
            let name = job["name"].as_str().unwrap().to_owned();
            named.entry(name).or_default().insert(job["id"].as_u64().unwrap());
        }
        let mut told: BTreeMap<String, Vec<(Kind, Answer)>> = BTreeMap::new();
        for Submission { name, kind, answer } in &self.submissions {
            told.entry(name.clone()).or_default().push((*kind, *answer));
        }
        for (name, ids) in &named {
            self.hold(told.contains_key(name), || format!("{name}: jobs {ids:?} that nobody submitted"));
        }
        for (name, answers) in told {
            let there = named.remove(&name).unwrap_or_default();
            let (mut least, mut most) = (0, 0);
            for (kind, answer) in &answers {
                let (sure, possible) = match answer {
                    Answer::Id(_) | Answer::Left => (1, 1),
                    Answer::Unknown if *kind != Kind::Impossible => (0, 1),
                    Answer::Unknown | Answer::Nothing => (0, 0),
                };
                (least, most) = (least + sure, most + possible);
                let is_there = |id: &u64| there.contains(id);
                if let Answer::Id(id) = answer
                    && !is_there(id)
                {
                    self.tally.lost += 1;
                    self.faults.push(format!("{name}: the id {id} was printed, and there is no such job"));
                }
            }
            self.tally.acknowledged += least;
            self.tally.lost += usize::from(answers.len() == 1 && there.len() < least);
            self.hold((least..=most).contains(&there.len()), || {
                format!("{name}: {answers:?}, and there are the jobs {there:?}")
            });
        }
    }

    /// Each task has one final end, as `gqstat` says it, and it is one that somebody asked for.
    fn ends(&mut self) {
        let mut tasks: BTreeMap<(u64, u32), Vec<&Row>> = BTreeMap::new();
        for row in self.rows.values() {
            tasks.entry((row.run.0, row.run.1)).or_default().push(row);
        }
        let (mut faults, mut orphans) = (Vec::new(), 0);
        let ids: BTreeSet<u64> = self.jobs.iter().map(|job| job["id"].as_u64().unwrap()).collect();
        for id in &ids {
            let is_array = self.kind(*id).is_some_and(|(kind, _)| kind == Kind::Tasks);
            for task in 0..if is_array { TASKS } else { 1 } {
                if !tasks.contains_key(&(*id, task)) {
                    faults.push(format!("job {id}, task {task}: no end of it is kept"));
                }
            }
        }
        for ((job, task), rows) in &tasks {
            let what = format!("job {job}, task {task}");
            let Some((kind, name)) = self.kind(*job) else {
                faults.push(format!("{what}: ends {rows:?} of a job that is not listed"));
                continue;
            };
            let finals: Vec<_> = rows.iter().filter(|row| !row.again).collect();
            let last = rows.last().filter(|last| finals.len() == 1 && !last.again);
            let Some(last) = last else {
                faults.push(format!("{what} ({name}): its ends are {rows:#?}"));
                continue;
            };
            let shown = self.jobs.iter().find(|view| {
                let array_task = view["array_task_id"].as_u64();
                view["id"] == *job && (array_task.is_none() || array_task == Some(u64::from(*task)))
            });
            let is_shown = shown.is_some_and(|view| {
                let exit = view["exit_code"].as_i64();
                view["state"] == last.state.as_str() && exit == last.exit.map(i64::from)
            });
            if !is_shown {
                faults.push(format!("{what} ({name}): {last:?}, and gqstat says {shown:?}"));
            }
            let is_orphan = (last.state.as_str(), last.reason.as_str()) == ("FAILED", "SupervisorLost");
            orphans += usize::from(is_orphan && kind != Kind::Orphan);
            if !(is_orphan || self.is_asked_for(kind, *job, last)) {
                faults.push(format!("{what} ({name}, {kind:?}): nobody asked for this end: {last:?}"));
            }
        }
        self.faults.append(&mut faults);
        let killed = self.killed;
        self.hold(orphans <= killed, || {
            format!("{orphans} runs have lost their supervisors, and {killed} were killed")
        });
    }

    fn is_asked_for(&self, kind: Kind, job: u64, last: &Row) -> bool {
        let end = (last.state.as_str(), last.exit);
        let is_well = end == ("COMPLETED", Some(0));
        match kind {
            _ if last.state == "CANCELLED" && self.cancelled(job) => true,
            Kind::Well | Kind::Held | Kind::PutBack | Kind::Tasks => is_well,
            // The one before it may have lost its supervisor.
            Kind::AfterWell => is_well || (self.killed > 0 && end.0 == "CANCELLED" && last.node.is_none()),
            Kind::Badly => end == ("FAILED", Some(3)),
            Kind::AfterBadly => end.0 == "CANCELLED" && last.node.is_none(),
            Kind::Orphan | Kind::Endless | Kind::Impossible => false,
            Kind::Any => is_well,
        }
    }

    /// Whether somebody asked for the cancellation of this job.
    fn cancelled(&self, job: u64) -> bool {
        let asks = format!("gqcancel {job}");
        self.lines.iter().any(|line| matches!(line, Line::Call { words, .. } if *words == asks))
    }

    /// What jobs wrote of themselves is what is kept of them.
    fn words(&mut self) {
        let mut begun: BTreeMap<RunId, (String, Option<i32>)> = BTreeMap::new();
        let mut last: BTreeMap<(u64, u32), u32> = BTreeMap::new();
        let mut faults = Vec::new();
        let mut double = 0;
        for line in &self.lines {
            let Line::Job { run, words } = line else { continue };
            let newest = last.entry((run.0, run.1)).or_insert(run.2);
            let is_late = run.2 < *newest;
            *newest = run.2.max(*newest);
            let parts: Vec<&str> = words.split(' ').collect();
            let is_double = match parts.as_slice() {
                ["begins", where_] => begun.insert(*run, ((*where_).to_owned(), None)).is_some(),
                ["begins", ..] => begun.insert(*run, (parts[1..].join(" "), None)).is_some(),
                ["ends", code] => match begun.get_mut(run) {
                    Some((_, end)) => end.replace(code.parse().unwrap()).is_some(),
                    None => true,
                },
                _ => true,
            };
            if is_late || is_double {
                double += 1;
                faults.push(format!("run {run:?}: {words}: it lives twice, or beside another one"));
            }
        }
        for (run, (place, end)) in &begun {
            let Some(row) = self.rows.get(run) else {
                faults.push(format!("run {run:?} has begun, and nothing is kept of it"));
                continue;
            };
            let kept = format!("{} {}", row.node.as_deref().unwrap_or("-"), row.cards);
            if *place != kept {
                faults.push(format!("run {run:?} was on {place}, and {kept} is kept"));
            }
            // Whoever was being ended may have come to its own end first.
            let is_ended = row.state == "CANCELLED" || row.reason == "SupervisorLost" || row.again;
            if !is_ended && row.exit != *end {
                faults.push(format!("run {run:?} ended with {end:?}, and {row:?} is kept"));
            }
        }
        for row in self.rows.values().filter(|row| row.state == "COMPLETED") {
            if begun.get(&row.run).is_none_or(|(_, end)| *end != Some(0)) {
                faults.push(format!("{row:?}, and it says {:?} of itself", begun.get(&row.run)));
            }
        }
        self.faults.append(&mut faults);
        self.tally.double += double;
    }

    /// By the times that are kept no task has two runs at once, and no card two holders.
    fn times(&mut self) {
        let mut tasks: BTreeMap<(u64, u32), Vec<Span>> = BTreeMap::new();
        let mut cards: BTreeMap<(&str, &str), Vec<Span>> = BTreeMap::new();
        for row in self.rows.values() {
            let (Some(node), Some(allocated)) = (&row.node, row.allocated) else { continue };
            let begin = row.started.unwrap_or(allocated);
            tasks.entry((row.run.0, row.run.1)).or_default().push((begin, row.ended, row.run));
            for card in row.cards.split(',').filter(|card| *card != "-") {
                cards.entry((node, card)).or_default().push((allocated, row.ended, row.run));
            }
        }
        let mut faults = Vec::new();
        let spans = tasks.into_values().chain(cards.into_values());
        for mut spans in spans {
            spans.sort_unstable();
            for pair in spans.windows(2) {
                if let [(_, end, one), (begin, _, other)] = pair
                    && begin < end
                {
                    faults.push(format!("runs {one:?} and {other:?} had the same at one time: {pair:?}"));
                }
            }
        }
        self.tally.double += faults.len();
        self.faults.append(&mut faults);
    }

    /// What was done for users stays done.
    fn deeds(&mut self) {
        // What was asked, and the newest run of its job that had begun by then.
        let mut asked: BTreeMap<u64, (&str, u32)> = BTreeMap::new();
        let (mut cancelled, mut held): (BTreeMap<u64, i64>, BTreeSet<u64>) = Default::default();
        let mut begun: BTreeMap<u64, u32> = BTreeMap::new();
        let mut faults = Vec::new();
        for submission in self.submissions.iter().filter(|s| s.kind == Kind::Held) {
            held.extend(self.jobs.iter().filter(|j| j["name"] == submission.name.as_str()).map(id_of));
        }
        for line in &self.lines {
            match line {
                Line::Call { number, words } => {
                    let job = words.rsplit(' ').next().and_then(|word| word.parse().ok());
                    let newest = job.and_then(|job: u64| begun.get(&job)).copied().unwrap_or(0);
                    asked.insert(*number, (words, newest));
                    if let Some(job) = words.strip_prefix("gqctl release ") {
                        held.retain(|id| job.parse() != Ok(*id));
                    }
                }
                Line::Answered { number, code: 0, at } => {
                    let (words, newest) = asked.get(number).copied().unwrap_or_default();
                    let of = |verb: &str| words.strip_prefix(verb).map(|job| job.parse::<u64>().unwrap());
                    if let Some(job) = of("gqcancel ") {
                        cancelled.entry(job).or_insert(*at);
                    }
                    if let Some(job) = of("gqctl requeue ") {
                        let again = self.rows.keys().any(|run| run.0 == job && run.2 > newest);
                        if !again && !self.cancelled(job) {
                            faults.push(format!("job {job} was put back, and did not run again"));
                        }
                    }
                }
                Line::Answered { .. } => {}
                Line::Job { run, words } if words.starts_with("begins") => {
                    begun.insert(run.0, run.2);
                    if held.contains(&run.0) {
                        faults.push(format!("run {run:?} begins, though it is held"));
                    }
                }
                Line::Job { .. } => {}
            }
        }
        for submission in self.submissions.iter().filter(|s| s.kind == Kind::Endless) {
            if let Answer::Id(id) = submission.answer
                && !cancelled.contains_key(&id)
                && !self.rows.values().any(|row| row.run.0 == id && row.reason == "SupervisorLost")
            {
                faults.push(format!("job {id} was to be cancelled, and it was not done"));
            }
        }
        // A run that was on its way to its node may begin before the word that ends it.
        for row in self.rows.values() {
            if let (Some(told), Some(allocated)) = (cancelled.get(&row.run.0), row.allocated)
                && allocated > *told
            {
                faults.push(format!("{row:?} was given a place, though it was cancelled at {told}"));
            }
        }
        self.faults.append(&mut faults);
        let (left, daemons) = (self.history.lab.processes().len(), self.history.lab.daemons());
        self.hold(left == daemons, || {
            format!("{left} processes are left, where {daemons} daemons should be")
        });
    }
}

fn id_of(job: &Value) -> u64 {
    job["id"].as_u64().unwrap()
}
