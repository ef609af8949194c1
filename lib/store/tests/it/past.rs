//! What has ended as a whole: found by words, read page by page, summed up by what runs have in common.

use crate::life::{ANN, KEY, Life, NOW, allocated, ended, node, submitted};
use gq_cluster::{Event, Next};
use gq_model::{JobId, RunKey, RunNumber, Seconds, Timestamp, Token, Uid, Used};
use gq_store::{By, Fits, Sums};
use std::sync::Arc;

/// A job of this id, which ran for so many seconds, in so many attempts.
pub fn run(life: &mut Life, id: u64, uid: Uid, seconds: u64, attempts: u32) {
    let mut new = submitted();
    let Event::Submitted(job) = &mut new else { unreachable!() };
    (job.id, job.uid, job.token) = (JobId(id), uid, Token([u8::try_from(id).unwrap(); 16]));
    let mut payer = (*job.payer).clone();
    (payer.uid, payer.account) = (uid, (uid == ANN).then(|| "physics".to_owned()));
    job.payer = Arc::new(payer);
    life.turn(&[new]);
    for attempt in 1..=attempts {
        let of = RunKey { job: JobId(id), run: RunNumber(attempt), ..KEY };
        let next = match attempt == attempts {
            true => Next::Over,
            false => Next::Again { not_before: None, site_fault: false, retry: false, held: None },
        };
        let (mut start, mut end) = (allocated(), ended(next));
        if let (Event::Allocated { key, .. }, Event::RunEnded { key: of_end, at, outcome, .. }) =
            (&mut start, &mut end)
        {
            (*key, *of_end, *at) = (of, of, NOW.after(Seconds(5 + seconds * u64::from(attempt))));
            outcome.used = Some(Box::new(Used { cpu: Some(1_000_000), ..Used::default() }));
        }
        life.turn(&[start]);
        life.turn(&[end]);
    }
}

fn a_history() -> Life {
    let mut life = Life::first();
    life.turn(&node());
    for (id, uid, seconds, attempts) in
        [(1, ANN, 10, 1), (2, Uid(7), 20, 1), (3, ANN, 30, 2), (4, Uid(7), 20, 1)]
    {
        run(&mut life, id, uid, seconds, attempts);
    }
    life
}

fn sums(life: &Life, fits: &Fits, by: &[By], periods: &[Timestamp]) -> Vec<Sums> {
    let mut sums = life.history().sums(fits, by, periods).unwrap().unwrap();
    sums.sort_by(|a, b| a.keys.cmp(&b.keys));
    sums
}

#[test]
fn pages_follow_each_other_in_the_order_of_ends_and_miss_nothing() {
    let life = a_history();
    let history = life.history();
    let all = Fits { again: true, ..Fits::default() };
    let (mut behind, mut seen) = (None, Vec::new());
    loop {
        let page = history.past(&all, behind, 2).unwrap();
        behind = page.last().map(gq_store::PastRun::mark);
        seen.extend(page.iter().map(|run| (run.job.0, run.run.run.0)));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(seen, [(1, 1), (2, 1), (4, 1), (3, 1), (3, 2)]);
    let found = |fits: Fits| -> Vec<u64> {
        history.past(&fits, None, 9).unwrap().iter().map(|run| run.job.0).collect()
    };
    assert_eq!(found(Fits { users: vec![ANN], ..Fits::default() }), [1, 3], "the last run of each");
    assert_eq!(found(Fits { jobs: vec![JobId(4), JobId(2)], ..Fits::default() }), [2, 4]);
    assert_eq!(found(Fits { names: vec!["sim".into()], ..Fits::default() }), [1, 2, 4, 3]);
    assert!(found(Fits { names: vec!["' OR 1".into()], ..Fits::default() }).is_empty());
    let until = NOW.after(Seconds(25));
    assert_eq!(found(Fits { until: Some(until), ..Fits::default() }), [1]);
    assert_eq!(found(Fits { from: Some(until), states: vec!["COMPLETED"], ..Fits::default() }), [2, 4, 3]);
    assert!(found(Fits { states: vec!["FAILED"], ..Fits::default() }).is_empty());
    assert_eq!(found(Fits { seen: Some((Uid(7), Vec::new())), ..Fits::default() }), [2, 4]);
    assert_eq!(found(Fits { seen: Some((Uid(8), vec!["physics".into()])), ..Fits::default() }), [1, 3]);
    assert!(found(Fits { seen: Some((Uid(8), Vec::new())), ..Fits::default() }).is_empty());
}

#[test]
fn sums_count_every_attempt_and_only_what_may_be_seen() {
    let life = a_history();
    let all = Fits { again: true, ..Fits::default() };
    let by_user = sums(&life, &all, &[By::User, By::Account], &[]);
    let shown: Vec<_> =
        by_user.iter().map(|sum| (sum.keys.clone(), sum.runs, sum.again, sum.cpus / 1_000_000)).collect();
    let key = |uid: Uid, account: Option<&str>| vec![Some(uid.to_string()), account.map(str::to_owned)];
    // Held from the sixth second on: 10 and 30 and 60 seconds; 20 and 20.
    assert_eq!(shown, [(key(ANN, Some("physics")), 3, 1, 100), (key(Uid(7), None), 2, 0, 40)]);
    assert_eq!(by_user[0].cards, by_user[0].cpus * 1000, "a card each");
    assert_eq!((by_user[0].cpus_used, by_user[0].cpus_measured), (3_000_000, by_user[0].cpus));
    assert_eq!((by_user[0].cards_used, by_user[0].cards_measured), (0, 0), "nobody looked at any");
    let periods = [NOW, NOW.after(Seconds(25)), NOW.after(Seconds(35))];
    let by_time = sums(&life, &all, &[By::Period], &periods);
    let counts: Vec<u64> = by_time.iter().map(|sum| sum.runs).collect();
    assert_eq!((counts, by_time[2].keys[0].as_deref()), (vec![1, 2, 2], Some("2")));
    let seen = Fits { seen: Some((Uid(7), Vec::new())), again: true, ..Fits::default() };
    assert_eq!(sums(&life, &seen, &[], &[])[0].runs, 2);
    let nobody = Fits { seen: Some((Uid(8), Vec::new())), ..seen };
    assert!(sums(&life, &nobody, &[], &[]).is_empty());
}
