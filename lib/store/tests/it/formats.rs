//! Files of older formats, made of those of this one, and what becomes of them.

use crate::life::{ANN, KEY, Life, allocated, booking, charged, ended, node, submitted};
use gq_cluster::{Event, Next, Purse, Spent};
use gq_model::{CardTime, CardUsed, JobId, MiB, RunKey, RunNumber, Timestamp, Token, Uid, Used};
use gq_store::{Place, StoreError};
use rusqlite::{Connection, functions::FunctionFlags, types::ValueRef};

/// The columns of a run in format 4.
const RUN_4: &str = "job, task, run, tasks, uid, account, partition, state, reason, detail, exit_code, signal, again, submitted, started, \
    ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth, time_limit, restarts, suspended";

/// The columns of a run in format 5.
const RUN_5: &str = "job, task, run, tasks, uid, account, partition, state, reason, detail, exit_code, signal, again, submitted, started, \
    ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth, time_limit, restarts, suspended, \
    used, released, name, array, cpu_used, gpu_used";

/// Checksums of rows as format 4 has them.
fn know_checksums(conn: &Connection) {
    let sum = |args: &mut rusqlite::functions::Context<'_>| {
        let mut sum = crc32fast::Hasher::new();
        for value in (0..args.len()).map(|at| args.get_raw(at)) {
            let (kind, bytes) = match value {
                ValueRef::Null => (0, Vec::new()),
                ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec()),
                ValueRef::Real(number) => (2, number.to_le_bytes().to_vec()),
                ValueRef::Text(bytes) => (3, bytes.to_vec()),
                ValueRef::Blob(bytes) => (4, bytes.to_vec()),
            };
            sum.update(&[kind]);
            sum.update(&(bytes.len() as u64).to_le_bytes());
            sum.update(&bytes);
        }
        Ok(i64::from(sum.finalize()))
    };
    conn.create_scalar_function("row_crc", -1, FunctionFlags::SQLITE_UTF8, sum).unwrap();
}

/// Makes the file of a queue one of an older format.
fn grow_old(place: &Place, format: i64) {
    let conn = Connection::open(place.database()).unwrap();
    know_checksums(&conn);
    let drop = |column| conn.execute_batch(&format!("ALTER TABLE run DROP COLUMN {column}")).unwrap();
    conn.execute_batch("DROP TABLE spent; DROP INDEX run_sums").unwrap();
    if format == 5 {
        ["crc", "idle_times", "given_back", "cost"].into_iter().for_each(drop);
        conn.execute_batch(&format!(
            "ALTER TABLE run ADD COLUMN crc INTEGER NOT NULL DEFAULT 0; UPDATE run SET crc = row_crc({RUN_5});
             UPDATE meta SET value = 5, crc = row_crc(key, 5) WHERE key = 'format';
             CREATE INDEX run_sums ON run(ended, job)"
        ))
        .unwrap();
        return conn.close().unwrap();
    }
    conn.execute_batch(
        "CREATE INDEX run_ended ON run(ended);
         CREATE INDEX run_account ON run(account, ended) WHERE account IS NOT NULL;
         CREATE INDEX run_partition ON run(partition, ended)",
    )
    .unwrap();
    let columns = [
        "crc",
        "used",
        "released",
        "name",
        "array",
        "cpu_used",
        "gpu_used",
        "idle_times",
        "given_back",
        "cost",
    ];
    columns.into_iter().for_each(drop);
    conn.execute_batch(&format!(
        "UPDATE run SET account = NULL WHERE account = 'label';
         ALTER TABLE run ADD COLUMN crc INTEGER NOT NULL DEFAULT 0; UPDATE run SET crc = row_crc({RUN_4})"
    ))
    .unwrap();
    conn.execute("UPDATE meta SET value = 4, crc = row_crc(key, 4) WHERE key = 'format'", []).unwrap();
    if format < 4 {
        grow_older(&conn, format);
    }
    conn.close().unwrap();
}

fn grow_older(conn: &Connection, format: i64) {
    for table in ["meta", "job", "node", "outbox", "inbox", "token", "booking", "usage", "run"] {
        conn.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN crc")).unwrap();
    }
    conn.execute_batch("ALTER TABLE run DROP COLUMN suspended").unwrap();
    if format < 3 {
        conn.execute_batch("ALTER TABLE run DROP COLUMN time_limit; ALTER TABLE run DROP COLUMN restarts")
            .unwrap();
    }
    conn.execute("UPDATE meta SET value = ? WHERE key = 'format'", [format]).unwrap();
}

#[test]
fn a_file_of_a_format_before_is_read_and_goes_on() {
    for format in [2, 3, 4, 5] {
        let mut life = Life::first();
        life.turn(&node());
        life.turn(&[Event::Booked(Box::new(booking("course"))), charged(None, 5)]);
        life.turn(&[submitted(), allocated()]);
        drop(life.store);
        grow_old(&life.place, format);
        life.store = life.place.store().unwrap();
        life.turn(&[ended(Next::Over)]);
        let life = life.next();
        let job = life.history().job(JobId(1)).unwrap().unwrap();
        assert_eq!(job.runs[0].time_limit, job.new.shape.time_limit);
        assert!(job.runs[0].time_limit.is_some() && job.runs[0].restarts == Some(0));
        assert_eq!(job.runs[0].suspended, 0);
        assert_eq!(life.cluster.ledger().usage_of(None, ANN).charge, 5);
        assert!(life.store.token(Token([7; 16])).unwrap().is_some());
    }
}

/// What a run used, as its node may measure it.
pub fn some_use() -> Used {
    let card = CardUsed { looks: 9, held: 900, mean: Some(470), memory: Some(MiB(7)), ..CardUsed::default() };
    Used { cpu: Some(1_500_000), memory: Some(MiB(33)), cards: vec![card], released: Some(Timestamp(12)) }
}

#[test]
fn what_a_run_used_is_kept_with_it() {
    let mut life = Life::first();
    life.turn(&node());
    life.turn(&[submitted(), allocated()]);
    let mut end = ended(Next::Over);
    let Event::RunEnded { outcome, .. } = &mut end else { unreachable!() };
    outcome.used = Some(Box::new(some_use()));
    life.turn(&[end]);
    let job = life.history().job(JobId(1)).unwrap().unwrap();
    assert_eq!(job.runs[0].outcome.used.as_deref(), Some(&some_use()));
    let reader = Connection::open(life.place.database()).unwrap();
    let row = reader.query_row("SELECT name, released, cpu_used, gpu_used FROM run", [], |row| {
        Ok((row.get::<_, String>(0)?, [row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?]))
    });
    assert_eq!(row.unwrap(), ("sim".to_owned(), [12, 1_500_000, 470]));
}

/// A row that is damaged is not made whole by being brought up.
#[test]
fn runs_of_a_format_before_are_known_by_name_and_damaged_ones_stay_damaged() {
    for format in [2, 3, 4, 5] {
        let mut life = Life::first();
        life.turn(&node());
        life.turn(&[submitted(), allocated()]);
        life.turn(&[ended(Next::Again { not_before: None, site_fault: false, retry: false, held: None })]);
        let second = RunKey { run: RunNumber(2), ..KEY };
        let (mut start, mut end) = (allocated(), ended(Next::Over));
        if let (Event::Allocated { key, .. }, Event::RunEnded { key: of_end, .. }) = (&mut start, &mut end) {
            (*key, *of_end) = (second, second);
        }
        life.turn(&[start]);
        life.turn(&[end]);
        drop(life.store);
        grow_old(&life.place, format);
        let conn = Connection::open(life.place.database()).unwrap();
        if format >= 4 {
            conn.execute("UPDATE run SET cpus = 77 WHERE run = 1", []).unwrap();
        }
        conn.close().unwrap();
        life.store = life.place.store().unwrap();
        let reader = Connection::open(life.place.database()).unwrap();
        let named: i64 = reader
            .query_row("SELECT count(*) FROM run WHERE name = 'sim' AND array = 0", [], |row| row.get(0))
            .unwrap();
        assert_eq!(named, 2);
        match life.history().job(JobId(1)) {
            Ok(Some(job)) => assert!(format < 4 && job.runs.len() == 2 && job.runs[0].outcome.used.is_none()),
            Err(StoreError::Damaged(words)) => assert!(format >= 4 && words.contains("job 1"), "{words}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_taken_of_budgets_is_kept_and_what_runs_cost() {
    let mut life = Life::first();
    life.turn(&node());
    let (own, all) = (purse(Some(ANN)), purse(None));
    let taken = |purse: &Purse, used| {
        let spent = Spent { day: 20_820, used: CardTime(used), told: 80 };
        Event::Spent { purse: purse.clone(), spent }
    };
    life.turn(&[taken(&own, 7), taken(&all, 8)]);
    let mut start = allocated();
    if let Event::Allocated { price, .. } = &mut start {
        *price = Some(3_600_000_000);
    }
    life.turn(&[submitted(), start, taken(&own, 9)]);
    life.turn(&[ended(Next::Over)]);
    let life = life.next();
    let spent = |purse| life.cluster.spent(purse, 20_820);
    assert_eq!((spent(&own).used, spent(&all).used, spent(&all).told), (CardTime(9), CardTime(8), 80));
    assert_eq!(life.cluster.spent(&own, 20_821), Spent { day: 20_821, ..Spent::default() });
    let reader = Connection::open(life.place.database()).unwrap();
    let cost = "SELECT cost, ended - allocated FROM run";
    let (cost, held): (i64, i64) = reader.query_row(cost, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(held > 0 && cost == held, "{cost} {held}");
}

fn purse(uid: Option<Uid>) -> Purse {
    Purse { budget: "vision".into(), uid }
}
