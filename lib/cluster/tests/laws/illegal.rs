//! Events that contradict a state.

use crate::{
    cards::uses_of,
    history::{live_runs, name, outcome},
};
use gq_cluster::{Cluster, Event, HeldBy, Link, Next, Stopping};
use gq_model::{BootId, CardUse, IndexSet, JobId, MiB, RunKey, RunNumber, Seq, TaskIndex, Timestamp};

/// Events that contradict the state, one of each kind that it has something to contradict.
pub fn illegal(cluster: &Cluster) -> Vec<Event> {
    let at = Timestamp(0);
    let nobody = JobId(cluster.last_job().0 + 1);
    let mut events = vec![
        Event::Held { job: nobody, by: HeldBy::User },
        Event::Released { job: nobody },
        Event::Ripened { job: nobody, at: Timestamp(0) },
        Event::Promised { job: nobody, start: at },
        Event::TasksEnded { job: nobody, tasks: IndexSet::range(0, 0), outcome: outcome(0), at },
        Event::NodeSeen { node: name(99), link: Link::Up },
        Event::Ordered { node: name(99), seq: Seq(1) },
        Event::Unbooked { name: "nothing of this name".into() },
    ];
    for key in live_runs(cluster) {
        let later = RunKey { run: RunNumber(key.run.0 + 1), ..key };
        let tasks = IndexSet::range(key.task.0, key.task.0);
        let preempt = Stopping::Preempt { again: true, due: at, ordered: false };
        events.push(Event::Started { key: later, at, counted: at });
        events.push(Event::Exited { key: later, at });
        events.push(Event::Stopped { key: later, why: Stopping::Cancel, by: None });
        events.push(Event::Stopped { key: later, why: preempt, by: None });
        events.push(Event::RunEnded { key: later, outcome: outcome(0), started: None, at, next: Next::Over });
        events.push(Event::TasksEnded { job: key.job, tasks, outcome: outcome(0), at });
    }
    for job in cluster.jobs() {
        if let Some(task) = job.waiting.first().map(TaskIndex) {
            allocations(cluster, RunKey { job: job.id, task, run: job.next_run(task) }, &mut events);
        }
    }
    for node in cluster.nodes() {
        events.push(Event::Ordered { node: node.name.clone(), seq: Seq(node.last_order.0 + 2) });
        events.push(Event::Ordered { node: node.name.clone(), seq: node.last_order });
        if node.runs().len() > 0 {
            events.push(Event::NodeSeen { node: node.name.clone(), link: Link::Forgotten });
        }
        let (node, epoch, seq) = (node.name.clone(), node.epoch, node.last_report);
        events.push(Event::Reported { node, epoch, seq });
    }
    events
}

/// What a task that waits for the run `key` cannot be given.
fn allocations(cluster: &Cluster, key: RunKey, events: &mut Vec<Event>) {
    for node in cluster.nodes() {
        let give = |key: RunKey, exclusive: bool, cards: Vec<CardUse>| Event::Allocated {
            key,
            node: node.name.clone(),
            boot: BootId([0; 16]),
            node_id: None,
            lease: None,
            cpus: 0,
            memory: MiB(0),
            cards,
            exclusive,
            rate: 0,
            price: None,
            promised: None,
            own_limit: None,
            at: Timestamp(0),
        };
        events.push(give(RunKey { run: RunNumber(key.run.0 + 1), ..key }, false, Vec::new()));
        events.push(give(RunKey { run: RunNumber(0), ..key }, false, Vec::new()));
        events.push(give(RunKey { task: TaskIndex(77), ..key }, false, Vec::new()));
        // Whatever shares one unit with what somebody holds: the card, its slice, a slice that would be cut over it.
        let units = |one: &CardUse| node.layout().units(&node.cards, std::slice::from_ref(one));
        let held = uses_of(&node.cards).into_iter().filter(|one| units(one) & node.used().units != 0);
        events.extend(held.map(|one| give(key, false, vec![one])));
        if node.runs().len() > 0 {
            events.push(give(key, true, Vec::new()));
        }
        if node.link == Link::Absent || node.held_alone_by().is_some() {
            events.push(give(key, false, Vec::new()));
        }
    }
}
