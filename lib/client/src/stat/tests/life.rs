//! How far arrays are, and what is shown of a job's life.

use super::*;

fn array() -> ArrayView {
    ArrayView {
        id: JobId(18),
        tasks: 10,
        waiting: 4,
        running: 1,
        ended: vec![("COMPLETED".into(), 3), ("FAILED".into(), 2)],
        at_once: Some(2),
        started: Some(Timestamp::from_secs(999_000)),
        rate: Some(5),
        expected_end: Some(Timestamp::from_secs(1_001_000)),
    }
}

#[test]
fn how_far_an_array_is_stands_behind_the_table_for_people_only() {
    let reply = || Reply::Jobs {
        jobs: vec![running()],
        unknown: vec![],
        degraded: None,
        budgets: vec![],
        explained: vec![],
        arrays: vec![array()],
        more: false,
    };
    let (text, _, ask) = answered("array", "gqstat -j 18", None, vec![reply()]);
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("18: [##########..........] 5/10, 2 failed, 1 running, 4 waiting (2 at a time), "),
        "{text}"
    );
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert!(!ask.split && !ask.split_waiting);
    let (text, ..) = answered("array-narrow", "gqstat -j 18", Some(40), vec![reply()]);
    assert!(text.lines().last().is_some_and(|line| table::places(line) == 40), "{text}");
    for (name, line) in [
        ("array-bare", "gqstat -h -j 18"),
        ("array-own", "gqstat -o jobid -j 18"),
        ("array-letters", "gqstat -o %i -j 18"),
    ] {
        let (text, ..) = answered(name, line, None, vec![reply()]);
        assert!(!text.contains("5/10"), "{line}: {text}");
    }
    let (text, _, ask) = answered("array-json", "gqstat --json -j 18", None, vec![reply()]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["jobs"][0]["id"], &value["arrays"][0]["ended"]["FAILED"]), (&18.into(), &2.into()));
    assert_eq!(value["arrays"][0]["tasks_per_second"], 0.005);
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert!(ask.split && !ask.split_waiting, "what waits is one element for each reason");
    let (.., ask) = answered("array-each", "gqstat -r", None, vec![jobs(vec![], false)]);
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert!(ask.split && ask.split_waiting);
}

#[test]
fn the_time_of_a_suspended_job_stands_still_and_its_deadline_does_not() {
    let at = |seconds: i64| Some(Timestamp::from_secs(1_000_000 + seconds));
    // It ran for 1000 seconds, was suspended for 600, ran for 100, and has stood still for 25.
    let suspended = JobView {
        state: "SUSPENDED".into(),
        start_time: at(-1_725),
        suspended: at(-25),
        suspended_before: 600_000_000,
        ..running()
    };
    let cells = |job: &JobView| ["%M", "%L", "%e"].map(|letter| shown_as(letter, job));
    assert_eq!(cells(&suspended), ["18:20", "1:41:40", "1970-01-12T15:28:20"]);
    let goes_on = JobView { suspended: None, suspended_before: 625_000_000, ..suspended.clone() };
    assert_eq!(cells(&goes_on), ["18:20", "1:41:40", "1970-01-12T15:28:20"]);
    let late = |job: JobView| JobView { deadline: at(60), ..job };
    assert_eq!(cells(&late(suspended.clone())), ["18:20", "1:00", "1970-01-12T13:47:40"]);
    let endless = JobView { time_limit: None, ..late(goes_on.clone()) };
    assert_eq!(cells(&endless), ["18:20", "1:00", "1970-01-12T13:47:40"]);
    let ended = JobView { end_time: at(0), ..goes_on };
    assert_eq!(cells(&ended)[0], "18:20");
    let value = |job: &JobView| serde_json::to_value(json::job(job)).unwrap()["suspended_time"].clone();
    assert_eq!((value(&suspended), value(&ended), value(&waiting())), (600.into(), 625.into(), 0.into()));
}

#[test]
fn a_jobs_life_has_fields() {
    let job = JobView {
        restarts: 2,
        stage: Some("prep".into()),
        suspended: Some(Timestamp::from_secs(1_000_000)),
        dependency: Some("afterok:3,singleton".into()),
        deadline: Some(Timestamp::from_secs(1_000_060)),
        time_min: Some(Seconds(600)),
        array_throttle: Some(4),
        ..waiting()
    };
    let cells = |job: &JobView| {
        ["dependency", "deadline", "timemin", "arraythrottle", "restartcnt", "stage", "suspended"].map(
            |name| {
                let mut cell = String::new();
                Field::of_name(name).unwrap().write(job, &clock(), &mut cell);
                cell
            },
        )
    };
    let want =
        ["afterok:3,singleton", "1970-01-12T13:47:40", "10:00", "4", "2", "prep", "1970-01-12T13:46:40"];
    assert_eq!(cells(&job), want);
    assert_eq!(cells(&waiting()), ["(null)", "N/A", "N/A", "N/A", "0", "(null)", "N/A"]);
    assert_eq!(shown_as("%E", &job), "afterok:3,singleton");
    let value = serde_json::to_value(json::job(&job)).unwrap();
    assert_eq!(
        (&value["deadline"], &value["time_min"], &value["restarts"]),
        (&1_000_060.into(), &600.into(), &2.into())
    );
    let value = serde_json::to_value(json::job(&waiting())).unwrap();
    assert!(
        value["dependency"].is_null() && value["array_throttle"].is_null() && value["suspended"].is_null()
    );
}
