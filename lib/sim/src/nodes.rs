//! Virtual nodes: what real ones would report of their runs, and when. They do at once what they are told.

use crate::{drive::stamp, world::VirtualNode};
use gq_engine::{Input, NodeReport};
use gq_model::{BootId, End, Epoch, JobId, NodeName, Outcome, Reason, RunKey, Seq};
use std::collections::HashMap;

/// The life that a virtual node is in.
const LIFE: Epoch = Epoch(1);

/// A run that lives.
struct Live {
    key: RunKey,
    node: u32,
    started: i64,
    /// Whether it was told to end.
    stopped: bool,
}

/// One node and the number of its last report.
struct Node {
    node: VirtualNode,
    seq: u64,
}

/// All nodes and their runs.
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    by_name: HashMap<NodeName, u32>,
    /// The run of each job that lives, by the job's id: the engine counts jobs without holes.
    live: Vec<Option<Live>>,
    /// Starts that were not told yet.
    untold: Vec<(RunKey, u32, i64)>,
}

impl Nodes {
    pub(crate) fn of(nodes: &[VirtualNode]) -> Self {
        let by_name = nodes.iter().zip(0..).map(|(node, at)| (node.name.clone(), at)).collect();
        let nodes = nodes.iter().map(|node| Node { node: node.clone(), seq: 0 }).collect();
        Self { nodes, by_name, live: Vec::new(), untold: Vec::new() }
    }

    /// The first report of every node.
    pub(crate) fn join(&mut self) -> Vec<Input> {
        let all: Vec<u32> = (0..).take(self.nodes.len()).collect();
        let joined = |at: u32| {
            let node = &self.nodes.get(at as usize)?.node;
            let body = NodeReport::Joined {
                id: None,
                boot: BootId([1; 16]),
                cpus: node.cpus,
                memory: node.memory,
                cards: node.cards.clone(),
                unbound: Vec::new(),
                runs: Vec::new(),
            };
            Some((at, body))
        };
        let reports: Vec<(u32, NodeReport)> = all.into_iter().filter_map(joined).collect();
        reports.into_iter().filter_map(|(at, body)| self.report(at, body)).collect()
    }

    fn report(&mut self, at: u32, body: NodeReport) -> Option<Input> {
        let node = self.nodes.get_mut(at as usize)?;
        node.seq += 1;
        Some(Input::Report {
            node: node.node.name.clone(),
            epoch: LIFE,
            seq: Seq(node.seq),
            body: Box::new(body),
        })
    }

    /// A run begins.
    pub(crate) fn start(&mut self, key: RunKey, node: &NodeName, now: i64) {
        let Some(at) = self.by_name.get(node).copied() else { return };
        let Ok(job) = usize::try_from(key.job.0) else { return };
        if self.live.len() <= job {
            self.live.resize_with(job + 1, || None);
        }
        if let Some(live) = self.live.get_mut(job) {
            *live = Some(Live { key, node: at, started: now, stopped: false });
        }
        self.untold.push((key, at, now));
    }

    /// A run is told to end.
    pub(crate) fn stop(&mut self, key: RunKey) {
        let live = usize::try_from(key.job.0).ok().and_then(|job| self.live.get_mut(job)?.as_mut());
        if let Some(live) = live.filter(|live| live.key == key) {
            live.stopped = true;
        }
    }

    /// Reports the starts that were not told yet.
    pub(crate) fn tell_starts(&mut self, to: &mut Vec<Input>) {
        let untold = std::mem::take(&mut self.untold);
        for (key, at, started) in &untold {
            to.extend(self.report(*at, NodeReport::Started(*key, stamp(*started))));
        }
        self.untold = untold;
        self.untold.clear();
    }

    /// Reports the end of a run, if it still lives. Returns whether it ended by itself.
    pub(crate) fn end(&mut self, job: JobId, run: u32, at: i64, to: &mut Vec<Input>) -> bool {
        let place = usize::try_from(job.0).ok().and_then(|job| self.live.get_mut(job));
        let Some(live) = place.and_then(|place| place.take_if(|live| live.key.run.0 == run)) else {
            return false;
        };
        let outcome = if live.stopped {
            Outcome::without_exit(End::Cancelled, Reason::Cancelled, "")
        } else {
            Outcome { exit_code: Some(0), ..Outcome::without_exit(End::Completed, Reason::None, "") }
        };
        let body = NodeReport::Ended {
            key: live.key,
            outcome,
            started: Some(stamp(live.started)),
            ended: stamp(at),
            epilog: None,
        };
        to.extend(self.report(live.node, body));
        !live.stopped
    }
}
