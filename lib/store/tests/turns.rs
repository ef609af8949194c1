//! Turns over a real database: what a turn wrote is what the next life of the controller begins with, and what the past is asked for.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on may stop")]

use gq_cluster::{
    Booked, Booking, Cluster, Demand, Event, Job, Link, Memory, NewJob, Next, Payer, Shape, Usage,
};
use gq_model::{
    BootId, CardAsk, CardUse, ClusterId, End, IndexSet, JobId, LicenceAsk, MiB, Outcome, Reason, RunKey,
    RunNumber, Seconds, TaskIndex, Timestamp, Token, Uid,
};
use gq_store::{Batch, History, Place, PlaceError, Store, StoreError};
use std::sync::Arc;

const ANN: Uid = Uid(1001);
const NOW: Timestamp = Timestamp::from_secs(1_000_000);
const KEY: RunKey = RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(1) };

/// A controller: its folder, its store, its state.
struct Life {
    place: Place,
    store: Store,
    cluster: Cluster,
    _dir: Arc<tempfile::TempDir>,
}

impl Life {
    fn first() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let place = Place::init(&dir.path().join("state"), ClusterId([7; 16]), "test").unwrap();
        Self { store: place.store().unwrap(), cluster: Cluster::default(), place, _dir: dir }
    }

    /// The next life, which knows what is on disk.
    fn next(self) -> Self {
        drop(self.store);
        let store = self.place.store().unwrap();
        let cluster = store.load().unwrap();
        Self { store, cluster, ..self }
    }

    fn turn(&mut self, events: &[Event]) {
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

    fn history(&self) -> History {
        History::open(&self.place.database()).unwrap()
    }
}

fn submitted() -> Event {
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

fn node() -> [Event; 2] {
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

fn booking(name: &str) -> Booking {
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

fn charged(account: Option<&str>, charge: u64) -> Event {
    Event::Charged { account: account.map(str::to_string), uid: ANN, usage: Usage { charge, at: NOW } }
}

fn allocated() -> Event {
    Event::Allocated {
        key: KEY,
        node: "ws1".parse().unwrap(),
        boot: BootId([1; 16]),
        node_id: None,
        lease: None,
        cpus: 1,
        memory: MiB(64),
        cards: vec![CardUse { index: 0, uuid: None, slice: None, placement: None }],
        exclusive: false,
        rate: 1010,
        promised: Some(NOW.after(Seconds(3))),
        own_limit: None,
        at: NOW.after(Seconds(5)),
    }
}

fn ended(next: Next) -> Event {
    let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
    let at = NOW.after(Seconds(9));
    Event::RunEnded { key: KEY, outcome, started: Some(NOW.after(Seconds(6))), at, next }
}

#[test]
fn reservations_and_use_of_cards_outlive_the_controller() {
    let mut life = Life::first();
    life.turn(&node());
    life.turn(&[
        Event::Booked(Box::new(booking("course"))),
        Event::Booked(Box::new(booking("fair"))),
        charged(None, 5),
        charged(Some("physics"), 1),
        charged(Some("physics"), 900),
        charged(Some("chemistry"), 3),
    ]);
    life.turn(&[Event::Unbooked { name: "fair".into() }, charged(Some("chemistry"), 0)]);
    let next = life.next();
    let names: Vec<&str> = next.cluster.bookings().map(|booking| booking.name.as_str()).collect();
    assert_eq!(names, ["course"]);
    assert_eq!(**next.cluster.booking("course").unwrap(), booking("course"));
    let used: Vec<_> = next.cluster.ledger().usage().collect();
    let usage = |charge| Usage { charge, at: NOW };
    assert_eq!(used, [(&(None, ANN), &usage(5)), (&(Some("physics".into()), ANN), &usage(900))]);
}

#[test]
fn a_first_promise_and_what_a_run_costs_outlive_the_controller_and_are_known_of_the_ended_run() {
    let mut life = Life::first();
    life.turn(&node());
    let first = NOW.after(Seconds(60));
    life.turn(&[submitted(), Event::Promised { job: JobId(1), start: first }]);
    life.turn(&[Event::Promised { job: JobId(1), start: NOW }, allocated()]);
    let mut life = life.next();
    let job = life.cluster.job(JobId(1)).unwrap();
    let run = &job.runs[&TaskIndex(0)];
    assert_eq!((job.first_promise, run.rate, run.worth), (Some(first), 1010, 1000));
    assert_eq!(life.cluster.ledger().licences_used("matlab"), 2);

    life.turn(&[ended(Next::Over), charged(Some("physics"), 4040)]);
    let job = life.history().job(JobId(1)).unwrap().unwrap();
    assert_eq!(job.new.payer.account.as_deref(), Some("physics"));
    let [run] = job.runs.as_slice() else { panic!("one run, not {:?}", job.runs) };
    assert_eq!((run.rate, run.worth, run.allocated), (1010, 1000, Some(NOW.after(Seconds(5)))));
    assert_eq!((run.first_promise, run.last_promise), (Some(first), Some(NOW.after(Seconds(3)))));
    let trail = life.store.trail(JobId(1)).unwrap();
    assert!(matches!(
        trail.as_slice(),
        [
            Event::Submitted(_),
            Event::Promised { .. },
            Event::Promised { .. },
            Event::Allocated { .. },
            Event::RunEnded { .. }
        ]
    ));
    let life = life.next();
    assert_eq!(life.cluster.ledger().usage_of(Some("physics"), ANN).charge, 4040);
    assert_eq!(life.cluster.ledger().licences_used("matlab"), 0);
}

/// An array of ten tasks: 0 to 5 ran, 1 and 4 of them failed with 3, 5 was tried twice; 6 to 9 never started.
fn array(life: &mut Life) {
    let Event::Submitted(mut new) = submitted() else { panic!("no submission") };
    (new.array, new.tasks) = (true, IndexSet::range(0, 9));
    life.turn(&node());
    life.turn(&[Event::Submitted(new)]);
    let run = |life: &mut Life, task: u32, run: u32, exit: u8, next: Next| {
        let key = RunKey { job: JobId(1), task: TaskIndex(task), run: RunNumber(run) };
        let Event::Allocated { node, boot, cpus, memory, cards, exclusive, rate, promised, at, .. } =
            allocated()
        else {
            panic!("no allocation")
        };
        life.turn(&[Event::Allocated {
            key,
            node,
            boot,
            node_id: None,
            lease: None,
            cpus,
            memory,
            cards,
            exclusive,
            rate,
            promised,
            own_limit: None,
            at,
        }]);
        let (end, reason) = match exit {
            0 => (End::Completed, Reason::None),
            _ => (End::Failed, Reason::NonZeroExitCode),
        };
        let outcome = Outcome { exit_code: Some(exit), ..Outcome::without_exit(end, reason, "") };
        let seconds = u64::from(task * 10 + run);
        let (started, at) = (Some(NOW.after(Seconds(10 + seconds))), NOW.after(Seconds(100 + seconds)));
        life.turn(&[Event::RunEnded { key, outcome, started, at, next }]);
    };
    run(life, 5, 1, 7, Next::Again { not_before: None, held: None, retry: false, site_fault: false });
    for (task, attempt, exit) in [(0, 1, 0), (4, 1, 3), (1, 1, 3), (3, 1, 0), (2, 1, 0), (5, 2, 0)] {
        run(life, task, attempt, exit, Next::Over);
    }
    let outcome = Outcome::without_exit(End::Cancelled, Reason::Cancelled, "by ann");
    life.turn(&[Event::TasksEnded {
        job: JobId(1),
        tasks: IndexSet::range(6, 9),
        outcome,
        at: NOW.after(Seconds(500)),
    }]);
}

#[test]
fn tasks_that_ended_alike_are_told_together_and_each_by_itself() {
    let mut life = Life::first();
    array(&mut life);
    let history = life.history();
    let groups = |only: Option<&str>| {
        let only = only.map(|text| IndexSet::read(text).unwrap().0);
        let groups = history.ends_alike(JobId(1), only.as_ref()).unwrap();
        groups
            .iter()
            .map(|group| (group.tasks.to_string(), group.first.outcome.end, group.first.tasks.is_some()))
            .collect::<Vec<_>>()
    };
    let set = str::to_string;
    let all = [
        (set("0,2-3,5"), End::Completed, false),
        (set("1,4"), End::Failed, false),
        (set("6-9"), End::Cancelled, true),
    ];
    assert_eq!(groups(None), all);
    assert_eq!(
        groups(Some("3-4,7")),
        [(set("3"), End::Completed, false), (set("4"), End::Failed, false), (set("7"), End::Cancelled, true)]
    );
    assert_eq!(groups(Some("0,2")), [(set("0,2"), End::Completed, false)]);
    assert_eq!(groups(Some("10-99")), []);
    let failed = &history.ends_alike(JobId(1), None).unwrap()[1];
    assert_eq!((failed.first.task, failed.first.outcome.exit_code), (TaskIndex(1), Some(3)));
    assert_eq!(failed.started, Some(NOW.after(Seconds(21))), "that of the first");
    assert_eq!(failed.ended, NOW.after(Seconds(141)), "that of the last");

    let apart = |first, most| {
        let runs = history.ends_apart(JobId(1), (first, 9), most).unwrap();
        runs.iter().map(|run| (run.task.0, run.run.0)).collect::<Vec<_>>()
    };
    assert_eq!(apart(0, 4), [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(apart(4, 4), [(4, 1), (5, 2)], "the last run of each");
    assert_eq!(history.never_started(JobId(1), None).unwrap().len(), 1);
    assert_eq!(history.failed(JobId(1)).unwrap().to_string(), "1,4,6-9");
    let new = history.accepted(JobId(1)).unwrap().unwrap();
    assert_eq!((new.array, new.tasks.len()), (true, 10));
    assert!(history.accepted(JobId(2)).unwrap().is_none() && history.failed(JobId(2)).unwrap().is_empty());
}

#[test]
fn the_columns_of_a_run_are_what_reports_look_for() {
    let mut life = Life::first();
    life.turn(&node());
    life.turn(&[submitted(), allocated()]);
    life.turn(&[ended(Next::Over)]);
    let reader = rusqlite::Connection::open(life.place.database()).unwrap();
    let row = reader.query_row(
        "SELECT account, partition, qos, licences, first_promise, last_promise, rate, worth FROM run",
        [],
        |row| {
            let text = |at| row.get::<_, Option<String>>(at);
            let number = |at| row.get::<_, Option<i64>>(at);
            Ok(([text(0)?, text(1)?, text(2)?, text(3)?], [number(4)?, number(5)?, number(6)?, number(7)?]))
        },
    );
    let (words, numbers) = row.unwrap();
    assert_eq!(
        words.map(Option::unwrap_or_default),
        ["physics", "main", "debug", "matlab:2"].map(str::to_string)
    );
    assert_eq!(numbers, [None, Some(NOW.after(Seconds(3)).0), Some(1010), Some(1000)]);
}

#[test]
fn a_file_of_the_format_before_is_read_and_goes_on() {
    let mut life = Life::first();
    life.turn(&node());
    life.turn(&[submitted(), allocated()]);
    drop(life.store);
    let conn = rusqlite::Connection::open(life.place.database()).unwrap();
    let old = "ALTER TABLE run DROP COLUMN time_limit; ALTER TABLE run DROP COLUMN restarts; UPDATE meta SET value = 2 WHERE key = 'format'";
    conn.execute_batch(old).unwrap();
    conn.close().unwrap();
    life.store = life.place.store().unwrap();
    life.turn(&[ended(Next::Over)]);
    let job = life.history().job(JobId(1)).unwrap().unwrap();
    assert_eq!(job.runs[0].time_limit, job.new.shape.time_limit);
    assert!(job.runs[0].time_limit.is_some() && job.runs[0].restarts == Some(0));
}

#[test]
fn files_of_another_format_are_refused_untouched() {
    for (format, word) in [(1, "reads formats from 2"), (99, "knows formats up to 3")] {
        let life = Life::first();
        drop(life.store);
        let path = life.place.database();
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute("UPDATE meta SET value = ? WHERE key = 'format'", [format]).unwrap();
        conn.close().unwrap();
        let before = std::fs::read(&path).unwrap();
        let refused = match life.place.store() {
            Err(PlaceError::Store { source, .. }) => source,
            other => panic!("format {format}: {:?}", other.err()),
        };
        assert!(matches!(refused, StoreError::Older { .. } | StoreError::Newer { .. }), "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
        assert_eq!(before, std::fs::read(&path).unwrap());
    }
}
