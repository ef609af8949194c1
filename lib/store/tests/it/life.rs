//! A controller with a real database, and events to fill it with.

use gq_cluster::{
    Booked, Booking, Cluster, Demand, Event, Job, Link, Memory, NewJob, Next, Payer, Shape, Usage,
};
use gq_model::{
    BootId, CardAsk, CardUse, ClusterId, End, IndexSet, JobId, LicenceAsk, MiB, Outcome, Reason, RunKey,
    RunNumber, Seconds, TaskIndex, Timestamp, Token, Uid,
};
use gq_store::{Batch, History, Place, Store};
use std::sync::Arc;

pub const ANN: Uid = Uid(1001);
pub const NOW: Timestamp = Timestamp::from_secs(1_000_000);
pub const KEY: RunKey = RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(1) };

/// A controller: its folder, its store, its state.
pub struct Life {
    pub place: Place,
    pub store: Store,
    pub cluster: Cluster,
    _dir: Arc<tempfile::TempDir>,
}

impl Life {
    pub fn first() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let place = Place::init(&dir.path().join("state"), ClusterId([7; 16]), "test").unwrap();
        Self { store: place.store().unwrap(), cluster: Cluster::default(), place, _dir: dir }
    }

    /// The next life, which knows what is on disk.
    pub fn next(self) -> Self {
        drop(self.store);
        let store = self.place.store().unwrap();
        let cluster = store.load().unwrap();
        Self { store, cluster, ..self }
    }

    pub fn turn(&mut self, events: &[Event]) {
        let mut steps: Vec<(&Event, Option<Arc<Job>>)> = Vec::new();
        for event in events {
            let before = event.job().and_then(|id| self.cluster.job(id)).map(Arc::clone);
            self.cluster.apply(event).unwrap();
            steps.push((event, before));
        }
        let batch = Batch {
            at: NOW,
            steps: steps.iter().map(|(event, before)| (*event, before.as_deref())).collect(),
            cluster: &self.cluster,
            letters: Vec::new(),
            acknowledged: &[],
        };
        self.store.commit(&batch).unwrap();
    }

    pub fn history(&self) -> History {
        History::open(&self.place.database()).unwrap()
    }
}

pub fn submitted() -> Event {
    let demand = Demand {
        cpus: 1,
        memory: Memory::Amount(MiB(64)),
        cards: CardAsk { count: 1, ..CardAsk::default() },
        exclusive: false,
    };
    let shape = Shape {
        partition: "main".into(),
        demand,
        time_limit: Some(Seconds(60)),
        time_min: None,
        features: Vec::new(),
        nodelist: Vec::new(),
        exclude: Vec::new(),
        licences: vec![LicenceAsk { name: "matlab".into(), count: 2 }],
        reservation: Some("course".into()),
        slices_by_memory: false,
    };
    let payer = Payer {
        uid: ANN,
        partition: "main".into(),
        account: Some("physics".into()),
        qos: Some("debug".into()),
    };
    Event::Submitted(Box::new(NewJob {
        id: JobId(1),
        uid: ANN,
        user: "ann".into(),
        token: Token([7; 16]),
        spec: serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap(),
        job_file: "jobs/00/1.job".into(),
        sha256: "00".into(),
        at: NOW,
        shape: Arc::new(shape),
        payer: Arc::new(payer),
        priority: 0,
        held: None,
        not_before: None,
        array: false,
        at_once: None,
        waits: None,
        main: None,
        tasks: IndexSet::range(0, 0),
    }))
}

pub fn node() -> [Event; 2] {
    let card = serde_json::from_str(r#"{"index":0,"model":"A100","memory":81920}"#).unwrap();
    let node: gq_model::NodeName = "ws1".parse().unwrap();
    [
        Event::NodeFound {
            node: node.clone(),
            boot: Some(BootId([1; 16])),
            id: None,
            cpus: 4,
            memory: MiB(4096),
            features: Vec::new(),
            cards: vec![card],
        },
        Event::NodeSeen { node, link: Link::Up },
    ]
}

pub fn booking(name: &str) -> Booking {
    Booking {
        name: name.into(),
        start: NOW.after(Seconds(3600)),
        end: NOW.after(Seconds(7200)),
        takes: vec![Booked { node: "ws1".parse().unwrap(), cards: Some(vec![0]) }],
        users: vec![ANN],
        accounts: vec!["physics".into()],
        maintenance: false,
    }
}

pub fn charged(account: Option<&str>, charge: u64) -> Event {
    Event::Charged { account: account.map(str::to_string), uid: ANN, usage: Usage { charge, at: NOW } }
}

pub fn allocated() -> Event {
    Event::Allocated {
        key: KEY,
        node: "ws1".parse().unwrap(),
        boot: BootId([1; 16]),
        node_id: None,
        lease: None,
        cpus: 1,
        memory: MiB(64),
        cards: vec![CardUse::whole(0, None)],
        exclusive: false,
        rate: 1010,
        price: None,
        promised: Some(NOW.after(Seconds(3))),
        own_limit: None,
        at: NOW.after(Seconds(5)),
    }
}

pub fn ended(next: Next) -> Event {
    let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
    let at = NOW.after(Seconds(9));
    Event::RunEnded { key: KEY, outcome, started: Some(NOW.after(Seconds(6))), at, next }
}
