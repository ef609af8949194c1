//! Restoring: folds the records of the log into a run table. Decides nothing; what a restored run is to become is
//! decided when it is adopted.

use crate::{
    Identity, Node, Order, Record, Report,
    cards::add_use,
    run::{Run, Stage},
    wishes::control,
};
use gq_model::RunKey;

impl Node {
    /// Makes a node out of what its log says. Every run without an end ([`Node::unsure`]) must then be handed in as
    /// [`crate::Input::Adopted`], and after the last one [`crate::Input::Join`].
    pub fn restore(me: Identity, records: impl IntoIterator<Item = Record>) -> Self {
        let mut node = Self::new(me);
        for record in records {
            node.fold(record);
        }
        node
    }

    /// The runs that were restored without an end and have not been adopted, in order.
    pub fn unsure(&self) -> impl Iterator<Item = RunKey> + '_ {
        self.runs.iter().filter(|(_, run)| matches!(run.stage, Stage::Unsure { .. })).map(|(key, _)| *key)
    }

    fn fold(&mut self, record: Record) {
        match record {
            Record::Life { controller, taken } => {
                self.controller = self.controller.max(controller);
                self.taken = self.taken.max(taken);
            }
            Record::Taken { seq, controller, order } => {
                self.controller = self.controller.max(controller);
                self.taken = self.taken.max(seq);
                match order {
                    Order::Start(assignment) => {
                        if !self.runs.contains_key(&assignment.key) {
                            self.enter(assignment);
                        }
                    }
                    Order::Stop(key, stop) => {
                        self.dig_up(key);
                        self.runs.entry(key).or_insert_with(Run::unknown).wishes.stop = Some(stop);
                    }
                    Order::Signal(..)
                    | Order::Warn(..)
                    | Order::Limit(..)
                    | Order::Suspend(_)
                    | Order::Resume(_) => self.restore_wish(&order),
                }
            }
            Record::Up { key } => {
                if let Some(Run { stage: Stage::Unsure { up }, .. }) = self.runs.get_mut(&key) {
                    *up = true;
                }
            }
            Record::Started { key, at } => {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.started = Some(at);
                }
            }
            Record::Suspended { key, at } => {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.suspended = Some((true, at));
                }
            }
            Record::Resumed { key, at } => {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.suspended = Some((false, at));
                }
            }
            Record::Exited { key, at } => {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.exited = Some(at);
                }
            }
            Record::Ended { key, outcome, started, ended, epilog } => {
                self.restore_end(key, Report::Ended { key, outcome, started, ended, epilog });
            }
            Record::Refused { key, fault, reason, detail } => {
                self.restore_end(key, Report::Refused { key, fault, reason, detail });
            }
            Record::Vacated { key, used, at } => {
                if let Some(Run { stage: Stage::Over { end, .. }, .. }) = self.runs.get_mut(&key) {
                    add_use(end, used, at);
                }
            }
            Record::Acked { key } => {
                self.runs.remove(&key);
                self.bury(key);
            }
        }
    }

    /// What was wanted of a run that went on: it may not have been told.
    fn restore_wish(&mut self, order: &Order) {
        let Some(run) = control(order).and_then(|(key, _)| self.runs.get_mut(&key)) else { return };
        run.wishes.take(order);
        if matches!(run.stage, Stage::Unsure { up: true }) {
            run.wishes.was_warned();
        }
    }

    /// The first end that was recorded is the one that was (or will be) reported.
    fn restore_end(&mut self, key: RunKey, end: Report) {
        let run = self.runs.entry(key).or_insert_with(Run::unknown);
        if !matches!(run.stage, Stage::Over { .. }) {
            run.stage = Stage::Over { end, seq: None };
            run.assignment = None;
        }
    }
}
