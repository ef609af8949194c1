//! Turns over a real database: what a turn wrote is what the next life of the controller begins with, and what the past is asked for.

use crate::life::{ANN, Life, NOW, allocated, booking, charged, ended, node, submitted};
use gq_cluster::{Event, Next, Usage};
use gq_model::{End, IndexSet, JobId, Outcome, Reason, RunKey, RunNumber, Seconds, TaskIndex};
use gq_store::{PlaceError, StoreError};

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
            price: None,
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
fn files_of_another_format_are_refused_untouched() {
    for (format, word) in [(1, "reads formats from 2"), (99, "knows formats up to 6")] {
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
