//! The engine's courier: files, board, replies, orders, and word to those who wait for a job's end.

use crate::{board::Wall, convert, filer::Filer, messages::Herald, meters::Meters, post::Post};
use crossbeam_channel::Sender;
use gq_cluster::Cluster;
use gq_engine::{ClientId, Courier, Effect, Filing, Over, Refusal, Step};
use gq_failpoint::step;
use gq_model::JobId;
use gq_proto::{Reply, WaitedEnd};
use gq_sched::Outlook;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Everything that leaves the controller's loop.
pub(crate) struct Couriers {
    pub(crate) wall: Wall,
    pub(crate) filer: Filer,
    pub(crate) post: Post,
    pub(crate) herald: Herald,
    /// Clients that wait for an answer.
    pub(crate) clients: HashMap<ClientId, Sender<Reply>>,
    /// Clients that wait for a job's end.
    pub(crate) waiters: BTreeMap<JobId, Vec<Sender<Reply>>>,
    pub(crate) meters: Arc<Meters>,
}

impl Courier for Couriers {
    fn file(&mut self, filings: &[Filing]) -> Vec<Option<Refusal>> {
        self.filer.file(filings)
    }

    fn settle(&mut self) -> Result<(), String> {
        self.filer.settle()
    }

    fn give_back(&mut self, filings: &[Filing]) {
        if !filings.is_empty() {
            self.filer.give_back(filings);
        }
    }

    fn publish(&mut self, cluster: &Cluster, steps: &[Step], outlook: Option<Outlook>) {
        if outlook.is_some() {
            self.meters.pass();
        }
        self.meters.follow(cluster, steps);
        let new_outlook = outlook.filter(|new| *new != *self.wall.look().outlook);
        if steps.is_empty() && new_outlook.is_none() {
            return;
        }
        step(gq_failpoint::Step::TurnShow, || {
            self.wall.change(|board| {
                board.follow(cluster, steps);
                if let Some(outlook) = new_outlook {
                    board.outlook = Arc::new(outlook);
                }
            });
        });
        let policy = Arc::clone(&self.wall.look().policy);
        self.herald.tell(cluster, &policy, steps);
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply(client, answer) => {
                    if let Some(reply) = self.clients.remove(&client) {
                        // A client that went away needs no answer.
                        let _ = reply.try_send(convert::reply(answer));
                    }
                }
                Effect::Order { node, seq, order } => self.post.order(&node, seq, &order),
                Effect::Discard { drop_name, uid, why } => self.filer.discard(drop_name, uid, why),
                Effect::File { .. } | Effect::Outlook(_) => {}
            }
        }
        self.post.send();
    }

    fn over(&mut self, jobs: Vec<Over>) {
        for over in jobs {
            for waiter in self.waiters.remove(&over.gone.job).into_iter().flatten() {
                let end = WaitedEnd {
                    job: over.gone.job,
                    end: over.outcome.end,
                    outcome: Some(over.outcome.clone()),
                };
                let _ = waiter.try_send(Reply::Waited(end));
            }
        }
    }
}
