//! What ended long ago goes to the files of years: whatever is cut short on the way, every question is answered as before.

use crate::{
    life::{ANN, KEY, Life, NOW, node, submitted},
    past::run,
};
use gq_cluster::Event;
use gq_model::{JobId, RunKey, Seconds, TaskIndex, Timestamp, Token, Uid};
use gq_store::{Archivist, By, Fits, StoreError};
use rusqlite::Connection;
use std::fmt::{Debug, Write};

const YEAR: u64 = 31_536_000;
/// From then on what ended is young.
const YOUNG: Timestamp = NOW.after(Seconds(YEAR * 5 / 2));
const JOBS: u64 = 9;

/// Jobs that ended in 1970 to 1972, of which one ran in two years; young ones; and one that lives.
fn three_years() -> Life {
    let mut life = Life::first();
    life.turn(&node());
    let ends = [10, YEAR, 20, YEAR * 2 / 3, YEAR + 7, YEAR * 2, YEAR * 2 + 1, YEAR * 3];
    for (id, seconds) in (1..).zip(ends) {
        let uid = if id % 3 == 0 { Uid(7) } else { ANN };
        run(&mut life, id, uid, seconds, if id == 4 { 2 } else { 1 });
    }
    let mut new = submitted();
    let Event::Submitted(job) = &mut new else { unreachable!() };
    (job.id, job.token) = (JobId(JOBS), Token([9; 16]));
    life.turn(&[new]);
    life
}

/// All that can be asked, and what is answered.
fn answers(life: &Life) -> String {
    let mut text = String::new();
    let mut say = |what: &str, answer: &dyn Debug| writeln!(text, "{what}: {answer:?}").unwrap();
    let history = life.history();
    let all = Fits { again: true, ..Fits::default() };
    let (from, until) = (NOW.after(Seconds(100)), NOW.after(Seconds(YEAR + 6)));
    let many = [
        all.clone(),
        Fits { users: vec![ANN], ..all.clone() },
        Fits { jobs: vec![JobId(4), JobId(8), JobId(1)], ..all.clone() },
        Fits { from: Some(from), until: Some(until), ..all.clone() },
        Fits { from: Some(YOUNG), ..all.clone() },
        Fits { until: Some(from), ..all },
    ];
    for fits in &many {
        for most in 1..4 {
            let mut behind = None;
            loop {
                let page = history.past(fits, behind, most).unwrap();
                say("page", &page);
                behind = page.last().map(gq_store::PastRun::mark);
                if page.len() < most {
                    break;
                }
            }
        }
        let by = [By::User, By::Period];
        let mut sums = history.sums(fits, &by, &[NOW, until]).unwrap().unwrap();
        sums.sort_by(|a, b| a.keys.cmp(&b.keys));
        say("sums", &sums);
        say("waits", &history.waits(fits, (&[], &[]), &[1]).unwrap());
    }
    for id in (1..=JOBS + 2).map(JobId) {
        say("job", &history.job(id).unwrap());
        say("accepted", &history.accepted(id).unwrap());
        say("alike", &history.ends_alike(id, None).unwrap());
        say("apart", &history.ends_apart(id, (0, 9), 9).unwrap());
        say("failed", &history.failed(id).unwrap());
        say("old", &history.ended_before(&[id], YOUNG).unwrap());
        let store = &life.store;
        say("owner", &store.owner(id).unwrap());
        say("outcome", &store.worst_outcome(id).unwrap());
        say("ends", &store.ends_of(id).unwrap());
        say("was", &store.was_job(id).unwrap());
        say("trail", &store.trail(id).unwrap());
    }
    text
}

fn archivist(life: &Life) -> Archivist {
    Archivist::open(&life.place.database()).unwrap()
}

/// Moves all that is old.
fn move_all(life: &mut Life) {
    let mut archivist = archivist(life);
    loop {
        while life.store.forget_parted(1).unwrap() {}
        let Some(parting) = archivist.copy(YOUNG).unwrap() else { break };
        life.store.part(&parting).unwrap();
    }
}

fn count(life: &Life, query: &str) -> i64 {
    Connection::open(life.place.database()).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn whatever_is_cut_short_every_question_is_answered_as_before() {
    for seed in 0..6_u64 {
        let mut life = three_years();
        let before = answers(&life);
        let mut dice = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut roll = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % 5
        };
        let mut mover = archivist(&life);
        for step in 0..60 {
            match roll() {
                0 => {
                    life = life.next();
                    mover = archivist(&life);
                }
                1 => drop(mover.copy(YOUNG).unwrap()),
                2 if !life.store.forget_parted(1).unwrap() => {
                    if let Some(parting) = mover.copy(YOUNG).unwrap() {
                        life.store.part(&parting).unwrap();
                    }
                }
                _ => drop(life.store.forget_parted(2).unwrap()),
            }
            assert!(answers(&life) == before, "seed {seed}, step {step}");
        }
        move_all(&mut life);
        assert!(answers(&life) == before, "seed {seed}, at the end");
        assert_eq!(count(&life, "SELECT count(*) FROM run"), 1, "seed {seed}: one is young");
        assert_eq!(count(&life, "SELECT count(DISTINCT job) FROM event"), 2, "seed {seed}: and one lives");
    }
}

#[test]
fn a_year_that_is_not_there_is_told_of_by_name_and_concerns_nothing_else() {
    let mut life = three_years();
    let before = answers(&life);
    move_all(&mut life);
    let file = |year: u32| life.place.database().with_file_name(format!("history/{year}.db"));
    for year in [1970, 1971, 1972] {
        assert!(file(year).exists(), "{year}");
    }
    let (path, away) = (file(1971), file(1971).with_extension("away"));
    std::fs::rename(&path, &away).unwrap();
    let told = |error: StoreError| {
        let words = error.to_string();
        assert!(matches!(error, StoreError::Year { .. }) && words.contains("history/1971.db: "), "{words}");
        words
    };
    let history = life.history();
    assert!(told(history.past(&Fits::default(), None, 9).unwrap_err()).contains("put a copy of it back"));
    told(history.job(JobId(2)).unwrap_err());
    told(life.store.owner(JobId(2)).unwrap_err());
    assert!(life.store.was_job(JobId(2)).unwrap(), "its files are let be");
    let later = Fits { from: Some(YOUNG), ..Fits::default() };
    assert_eq!(history.past(&later, None, 9).unwrap().len(), 1);
    assert!(history.job(JobId(8)).unwrap().is_some() && history.job(JobId(99)).unwrap().is_none());
    std::fs::write(&path, "no database at all, and of some length, so that it is looked into").unwrap();
    told(history.sums(&Fits::default(), &[], &[]).unwrap_err());
    // Nor is it taken from another cluster.
    let _ = std::fs::remove_file(&path);
    std::fs::copy(&away, &path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute("UPDATE meta SET value = 'another' WHERE key = 'cluster'", []).unwrap();
    assert!(told(history.job(JobId(2)).unwrap_err()).contains("it is of cluster another"));
    // The next life starts all the same.
    life = life.next();
    std::fs::rename(&away, &path).unwrap();
    assert!(answers(&life) == before);
}

#[test]
fn a_state_that_was_put_back_has_what_it_had_and_it_is_moved_again() {
    let mut life = three_years();
    let (path, copy) = (life.place.database(), life.place.database().with_extension("copy"));
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let before = answers(&life);
    move_all(&mut life);
    // In its place, and without the log.
    let old = std::fs::read(&copy).unwrap();
    life = {
        let Life { store, .. } = &mut life;
        let _ = store.probe();
        life.next()
    };
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::write(&path, old).unwrap();
    let mut life = life.next();
    assert!(answers(&life) == before);
    move_all(&mut life);
    assert!(answers(&life) == before);
    assert_eq!(count(&life, "SELECT count(*) FROM run"), 1);
}

/// What is given up with a damaged row of the state is found again in the files.
#[test]
fn the_files_of_years_tell_what_they_have_when_the_state_has_forgotten_it() {
    let mut life = three_years();
    let before = answers(&life);
    move_all(&mut life);
    let conn = Connection::open(life.place.database()).unwrap();
    assert_eq!(conn.execute("DELETE FROM meta WHERE key = 'years'", []).unwrap(), 1);
    assert!(life.history().job(JobId(2)).unwrap().is_none());
    let mut life = life.next();
    move_all(&mut life);
    assert!(answers(&life) == before);
}

#[test]
fn what_lives_again_in_an_older_state_is_not_taken_for_what_ended() {
    let mut life = three_years();
    let parting = archivist(&life).copy(YOUNG).unwrap().unwrap();
    // As if the first of them had not ended yet.
    let conn = Connection::open(life.place.database()).unwrap();
    conn.execute("INSERT INTO job(id, body, crc) SELECT 1, body, crc FROM job LIMIT 1", []).unwrap();
    let found = archivist(&life).copy(YOUNG).unwrap().unwrap();
    assert_ne!(found, parting, "job 1 is not among them");
    life.store.part(&found).unwrap();
    while life.store.forget_parted(9).unwrap() {}
    assert_eq!(count(&life, "SELECT count(*) FROM run WHERE job = 1"), 1);
    let year = Connection::open(life.place.database().with_file_name("history/1970.db")).unwrap();
    let there: i64 = year.query_row("SELECT count(*) FROM run WHERE job = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(there, 0);
}

#[test]
fn a_job_of_which_something_is_damaged_stays_and_keeps_no_other() {
    let mut life = three_years();
    let conn = Connection::open(life.place.database()).unwrap();
    conn.execute("UPDATE run SET cpus = 3 WHERE job = 2", []).unwrap();
    move_all(&mut life);
    assert_eq!(count(&life, "SELECT count(*) FROM run"), 2);
    assert!(matches!(life.history().job(JobId(2)).unwrap_err(), StoreError::Damaged(_)));
    assert_eq!(life.history().job(JobId(5)).unwrap().unwrap().runs.len(), 1);
}

#[test]
fn a_large_job_is_removed_in_pieces_and_counts_as_a_whole_meanwhile() {
    let mut life = Life::first();
    life.turn(&node());
    run(&mut life, 1, ANN, 10, 30);
    let parting = archivist(&life).copy(YOUNG).unwrap().unwrap();
    life.store.part(&parting).unwrap();
    let mut pieces = 0;
    while life.store.forget_parted(7).unwrap() {
        pieces += 1;
        let runs = life.history().job(JobId(1)).unwrap().unwrap().runs.len();
        let sums = life.history().sums(&Fits { again: true, ..Fits::default() }, &[], &[]).unwrap().unwrap();
        assert_eq!((runs, sums[0].runs), (30, 30));
    }
    assert!(pieces >= 10, "{pieces}");
    let keys = life.history().past(&Fits { again: true, ..Fits::default() }, None, 99).unwrap();
    assert_eq!(keys.len(), 30);
    assert_eq!(RunKey { job: keys[0].job, task: TaskIndex(0), run: keys[0].run.run }, KEY);
}
