//! Ends: how runs are over by the node's word or by their supervisors', what is written of it and said.

use crate::{
    Effect, Node, Record, Report, StopWhy,
    node::task_of,
    run::{Run, Stage},
};
use alloc::{format, string::String, vec::Vec};
use gq_model::{End, Fault, Outcome, Reason, RunKey, Timestamp};

impl Node {
    /// An end that the node itself decided.
    pub(crate) fn end(&mut self, key: RunKey, outcome: Outcome, at: Timestamp, todo: &mut Vec<Effect>) {
        self.end_with(key, outcome, at, None, todo);
    }

    /// An end of a run that may have begun and whose supervisor was killed before it could do what the site wants done then.
    pub(crate) fn end_unattended(
        &mut self,
        key: RunKey,
        outcome: Outcome,
        at: Timestamp,
        todo: &mut Vec<Effect>,
    ) {
        let epilog =
            self.has_epilog.then(|| format!("the supervisor of run {key} was killed: no epilog was run"));
        self.end_with(key, outcome, at, epilog, todo);
    }

    fn end_with(
        &mut self,
        key: RunKey,
        mut outcome: Outcome,
        at: Timestamp,
        epilog: Option<String>,
        todo: &mut Vec<Effect>,
    ) {
        let run = self.runs.get(&key);
        let (started, ended) = (run.and_then(|r| r.started), run.and_then(|r| r.exited).unwrap_or(at));
        let released = run.and_then(|run| run.boot).map(|_| at);
        outcome.measured(|used| used.released = released);
        let record = Record::Ended { key, outcome: outcome.clone(), started, ended, epilog: epilog.clone() };
        todo.push(Effect::Append(record));
        self.over(key, Report::Ended { key, outcome, started, ended, epilog }, todo);
    }

    /// A start that the node itself refused.
    pub(crate) fn refuse(
        &mut self,
        key: RunKey,
        fault: Fault,
        reason: Reason,
        detail: String,
        todo: &mut Vec<Effect>,
    ) {
        todo.push(Effect::Append(Record::Refused { key, fault, reason, detail: detail.clone() }));
        self.over(key, Report::Refused { key, fault, reason, detail }, todo);
    }

    /// A run is over, by the node's word or by its supervisor's. If it held cards, they are looked at before anybody hears of it.
    pub(crate) fn over(&mut self, key: RunKey, end: Report, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| !run.has_ended()) else { return };
        run.assignment = None;
        if run.has_cards && matches!(end, Report::Ended { .. }) {
            run.stage = Stage::Vacating(end);
            return todo.push(Effect::Vacate(key));
        }
        self.say_end(key, end, todo);
    }

    /// Says the end of a run. Its task's next run, if one waits, may begin.
    pub(crate) fn say_end(&mut self, key: RunKey, end: Report, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.stage = Stage::Over { end: end.clone(), seq: None };
        if self.joined {
            self.outbox.push(end);
        }
        let waiting = self.runs.range(task_of(key)).find(|(_, run)| !run.is_over());
        if let Some((next, Run { stage: Stage::Held, .. })) = waiting {
            self.go(*next, todo);
        }
    }
}

/// How a run ends under which the machine was booted.
pub(crate) fn boot_lost() -> Outcome {
    Outcome::without_exit(End::NodeFail, Reason::NodeFailure, "the machine was booted again")
}

/// How a run ends of which this node knows nothing any more.
pub(crate) fn memory_lost() -> Outcome {
    let detail = "this node has lost its log since";
    Outcome::without_exit(End::NodeFail, Reason::NodeFailure, detail)
}

/// How a run ends that was stopped before it had a supervisor, or after.
pub(crate) fn stopped(why: StopWhy) -> Outcome {
    match why {
        StopWhy::Cancel => Outcome::without_exit(End::Cancelled, Reason::Cancelled, ""),
        StopWhy::Requeue => Outcome::without_exit(End::Cancelled, Reason::Requeued, ""),
        StopWhy::Stray => {
            Outcome::without_exit(End::Cancelled, Reason::Cancelled, "gqd did not know this run")
        }
    }
}
