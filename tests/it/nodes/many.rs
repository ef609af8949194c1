//! Many nodes: a controller that was away finds a thousand of them again. They are spoken for by this test, each on a connection of its own.

use crate::lab::{Lab, Plan, until};
use gq_ipc::Conn;
use gq_model::{
    Beat, BootId, End, Epoch, JobState, MiB, NodeId, NodeName, Outcome, Reason, RunKey, Seq, Timestamp,
};
use gq_proto::{
    ASK_VERSION, Ask, Asked, Head, LETTER_VERSION, Letters, Order, OrderBody, Reply, Report, ReportBody,
};
use serde_json::json;
use std::{
    fs,
    time::{Duration, Instant},
};

const NODES: u32 = 1_000;
const LOST_AFTER: Duration = Duration::from_secs(5);
const BEAT: Duration = Duration::from_secs(1);

/// A node as far as the controller can tell.
struct Node {
    head: Head,
    conn: Conn,
}

/// All of them.
struct Crowd {
    nodes: Vec<Node>,
    beat: u64,
    beaten: Instant,
}

fn say(conn: &Conn, what: &serde_json::Value) {
    conn.send(what.to_string().as_bytes()).unwrap();
}

impl Node {
    fn dial(lab: &Lab, head: Head) -> Self {
        let conn = Conn::connect(&lab.dir().join("run/gqd.sock")).unwrap();
        conn.set_timeouts(Some(crate::lab::PATIENCE), Some(crate::lab::PATIENCE)).unwrap();
        say(&conn, &json!(Asked { v: ASK_VERSION, ask: Ask::Node(head.clone()) }));
        Self { head, conn }
    }

    fn is_taken(&self) {
        let answer = self.conn.recv(1 << 20).unwrap().unwrap();
        let answer: Reply = serde_json::from_slice(&answer).unwrap();
        assert!(matches!(answer, Reply::Node(_)), "{answer:?}");
    }

    fn report(&mut self, body: ReportBody) {
        self.head.highest = Seq(self.head.highest.0 + 1);
        let report = Report { seq: self.head.highest, epoch: self.head.epoch, body };
        say(
            &self.conn,
            &json!(Letters { ack: self.head.ack, beat: Beat(0), cards: None, letters: vec![report] }),
        );
    }

    /// The next start that is ordered; it is not acknowledged.
    fn ordered(&self) -> (Seq, RunKey) {
        loop {
            let frame = self.conn.recv(1 << 20).unwrap().unwrap();
            let letters: Letters<OrderBody> = serde_json::from_slice(&frame).unwrap();
            if let Some(Order { seq, body: OrderBody::Start(assignment), .. }) = letters.letters.first() {
                return (*seq, assignment.key);
            }
        }
    }
}

impl Crowd {
    fn heads(lab: &Lab) -> impl Iterator<Item = Head> {
        let cluster = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
        let cluster = cluster.trim().parse().unwrap();
        (0..NODES).map(move |n| Head {
            version: LETTER_VERSION,
            cluster,
            node: name(n).parse::<NodeName>().unwrap(),
            epoch: Epoch(1),
            boot: Some(boot(n)),
            node_id: Some(NodeId(boot(n).0)),
            beat: 1,
            seen: Beat(0),
            lowest: Seq(1),
            highest: Seq(0),
            ack_epoch: Epoch(0),
            past: Epoch(0),
            ack: Seq(0),
            refusal: None,
            cards: None,
        })
    }

    fn dial(lab: &Lab, heads: impl Iterator<Item = Head>) -> Self {
        let nodes: Vec<Node> = heads.map(|head| Node::dial(lab, head)).collect();
        nodes.iter().for_each(Node::is_taken);
        Self { nodes, beat: 0, beaten: Instant::now() }
    }

    /// Waits as [`until`] does, and lives meanwhile.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        until(what, || {
            if self.beaten.elapsed() >= BEAT {
                (self.beat, self.beaten) = (self.beat + 1, Instant::now());
                for node in &self.nodes {
                    let letters: Vec<Report> = Vec::new();
                    say(
                        &node.conn,
                        &json!(Letters { ack: node.head.ack, beat: Beat(self.beat), cards: None, letters }),
                    );
                }
            }
            look()
        })
    }
}

fn name(n: u32) -> String {
    format!("m{n:04}")
}

fn boot(n: u32) -> BootId {
    let mut id = [1; 16];
    id[..4].copy_from_slice(&n.to_le_bytes());
    BootId(id)
}

/// How many nodes are in each state.
fn states(lab: &Lab) -> std::collections::BTreeMap<String, usize> {
    let said: serde_json::Value = serde_json::from_str(&lab.say("gqstat --nodes --json").ok()).unwrap();
    let mut states = std::collections::BTreeMap::new();
    for node in said["nodes"].as_array().unwrap() {
        *states.entry(node["state"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    states
}

#[test]
fn a_controller_that_was_away_for_long_marks_none_of_a_thousand_nodes_lost() {
    lift_open_files();
    let lab = Plan::new()
        .cluster("beat = \"1s\"\nsuspect_after = \"4s\"")
        .cluster(&format!("lost_after = \"{}s\"", LOST_AFTER.as_secs()))
        .start();
    let mut crowd = Crowd::dial(&lab, Crowd::heads(&lab));
    for (node, n) in crowd.nodes.iter_mut().zip(0..) {
        node.report(ReportBody::Joined {
            boot: boot(n),
            node_id: node.head.node_id,
            cpus: 4,
            memory: MiB(4096),
            cards: Vec::new(),
            runs: Vec::new(),
            unbound: Vec::new(),
            orders_taken: Seq(0),
        });
    }
    let all = NODES as usize;
    let idle = |states: &std::collections::BTreeMap<String, usize>| states.get("idle").copied().unwrap_or(0);
    crowd.until("all are in sight", || (idle(&states(&lab)) == all).then_some(()));
    // One job runs, and the order of another is on its way when gqd is killed.
    let runs = lab.submit("-w m0007", "true");
    let (seq, key) = crowd.nodes[7].ordered();
    crowd.nodes[7].head.ack = seq;
    crowd.nodes[7].report(ReportBody::Started { key, at: now() });
    crowd.until("it runs", || (runs.state() == JobState::Running).then_some(()));
    let waits = lab.submit("-w m0008", "true");
    let ordered = crowd.nodes[8].ordered();
    lab.gqd.kill9();
    let killed = Instant::now();
    until("it was away for longer than nodes may be silent", || {
        (killed.elapsed() > LOST_AFTER).then_some(())
    });
    let started = Instant::now();
    lab.gqd.start();
    let seen = states(&lab);
    if started.elapsed() < LOST_AFTER {
        assert_eq!(seen.get("suspect"), Some(&all), "{seen:?}");
    }
    let mut crowd = Crowd::dial(&lab, crowd.nodes.into_iter().map(|node| node.head));
    let back = started.elapsed();
    crowd.until("all are in sight again", || {
        let seen = states(&lab);
        assert!(!seen.contains_key("drained"), "{seen:?}");
        (idle(&seen) == all - 2).then_some(())
    });
    if back < LOST_AFTER {
        assert!(!lab.gqd.said().contains(": lost;"), "{}", lab.gqd.said());
    }
    // Jobs go on where they were.
    assert_eq!((runs.state(), waits.state()), (JobState::Running, JobState::Starting));
    assert_eq!(crowd.nodes[8].ordered(), ordered, "an order that was not acknowledged is said again");
    for (n, (seq, key)) in [(7, (seq, key)), (8, ordered)] {
        let node = &mut crowd.nodes[n];
        node.head.ack = seq;
        let outcome =
            Outcome { exit_code: Some(0), ..Outcome::without_exit(End::Completed, Reason::None, "") };
        node.report(ReportBody::Ended { key, outcome, started: Some(now()), ended: now(), epilog: None });
    }
    crowd.until("both have ended", || {
        [runs, waits].iter().all(|job| job.state() == JobState::Ended(End::Completed)).then_some(())
    });
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_micros()).unwrap())
}

/// As the daemons do: the soft limit becomes the hard one.
fn lift_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
