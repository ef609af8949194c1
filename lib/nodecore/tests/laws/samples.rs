//! Runs, orders and records to try a node with.

use gq_model::{
    Assignment, BootId, End, Epoch, JobId, MiB, NodeId, NodeName, Outcome, Reason, RunKey, RunNumber,
    Seconds, TaskIndex, Timestamp, Uid,
};
use gq_nodecore::{Identity, Input, Machine, Node, Record, Serves, Stop, StopWhy};

pub fn boot(n: u8) -> BootId {
    BootId([n; 16])
}
pub fn stop(why: StopWhy) -> Stop {
    Stop { why, reason: None }
}

pub fn key(job: u64, run: u32) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(run) }
}
pub fn name() -> NodeName {
    "n1".parse().unwrap()
}
pub fn assignment(key: RunKey, boot: BootId) -> Box<Assignment> {
    Box::new(Assignment {
        key,
        boot,
        node: name(),
        uid: Uid(1000),
        job_file: String::new(),
        sha256: String::new(),
        partition: String::new(),
        cluster: String::new(),
        cpus: 1,
        memory: MiB(1),
        cards: Vec::new(),
        time_limit: None,
        kill_wait: Seconds(30),
        array: None,
        allow_test_run: false,
        bounds: None,
        stage: gq_model::Stage::Main,
        restarts: None,
        over_limit: Seconds(0),
        deadline: None,
        signal: None,
        account: None,
        qos: None,
        user: String::new(),
        name: None,
        may_run_again: false,
        node_id: None,
        lease: key.job.0.is_multiple_of(2).then_some(Seconds(100)),
        idle: None,
    })
}
pub fn identity(epoch: u64, boot: BootId) -> Identity {
    Identity {
        node: name(),
        id: NodeId([9; 16]),
        boot,
        epoch: Epoch(epoch),
        serves: Serves::Users { gqd: Uid(877) },
    }
}
pub fn ended(key: RunKey) -> Record {
    let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
    Record::Ended { key, outcome, started: Some(Timestamp(1)), ended: Timestamp(2), epilog: None }
}

pub const NOW: Timestamp = Timestamp(7);

pub fn joined(records: Vec<Record>) -> Node {
    let mut node = Node::restore(identity(3, boot(1)), records);
    node.decide(Input::Join(Machine::default()));
    node.decide(Input::LinkUp);
    node.number();
    node
}
