//! A long history: a million runs of a year and a half, made up, of which the oldest go to the files of their years, and how long questions about all of
//! them take beside a queue at work.

use crate::{clients, percentile, queue::Queue, say};
use rusqlite::{Connection, functions::FunctionFlags, params, types::ValueRef};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const RUNS: i64 = 1_000_000;
const SPAN: i64 = 18 * 30 * 86_400_000_000;

/// Longer than it rests between pieces.
const PAUSE: Duration = Duration::from_secs(3);

/// The questions, with what they are called here.
const ASKED: [(&str, &[&str]); 15] = [
    ("usage, all together", &["usage", "--by=all"]),
    ("usage by user", &["usage", "--by=user"]),
    ("usage by month and partition", &["usage", "--by=month,partition"]),
    ("usage by user, account, partition, node", &["usage", "--by=user,account,partition,node"]),
    ("usage by state and day of 30 days", &["usage", "--by=day,state", "-S", "now-30days"]),
    ("usage by name", &["usage", "--by=name"]),
    ("usage of one user by month", &["usage", "--by=month", "-u", "1007"]),
    ("waits by partition and user", &["waits", "--by=partition,user"]),
    ("runs of the last day", &["-S", "now-1day"]),
    ("runs of one user in 30 days", &["-u", "1007", "-S", "now-30days"]),
    ("runs of one name", &["-n", "rare-7"]),
    ("runs on one node that timed out, 30 days", &["-N", "n7", "-t", "TO", "-S", "now-30days"]),
    ("report of 30 days", &["report", "-S", "now-30days"]),
    ("report of all, six questions at once", &["report", "-S", "2020-01-01"]),
    ("one job", &["-j", "500000"]),
];

pub(crate) fn rows() {
    let mut queue = Queue::start(16);
    queue.kill_gqd();
    let begun = Instant::now();
    fill(&queue.path().join("state/gq.db"));
    say("a history of 1,000,000 runs, made up in", format!("{:.0} s", begun.elapsed().as_secs_f64()));
    queue.start_gqd(false);
    move_old(&queue);
    let size = std::fs::metadata(queue.path().join("state/gq.db")).unwrap().len();
    say("  bytes of the database for each", size / RUNS as u64);
    for (name, words) in ASKED {
        let since = ["-S", "2020-01-01"];
        let words = if words.contains(&"-S") || words.contains(&"-j") {
            words.to_vec()
        } else {
            [words, &since].concat()
        };
        let mut took: Vec<f64> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                queue.run("gqacct", &words);
                begun.elapsed().as_secs_f64()
            })
            .collect();
        say(&format!("gqacct, 1,000,000 runs: {name}"), format!("{:.3} s", percentile(&mut took, 50)));
    }
    beside(&queue);
}

/// Waits until what is old is in the files of years, while somebody submits.
fn move_old(queue: &Queue) {
    let state = Connection::open(queue.path().join("state/gq.db")).unwrap();
    state.busy_timeout(Duration::from_secs(10)).unwrap();
    let left = || -> i64 { state.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap() };
    let begun = Instant::now();
    say("submit while what is old is moved to files of years", rate(queue));
    let mut before = RUNS + 1;
    // It rests between pieces, and looks again after an hour only.
    while before > left() {
        before = left();
        std::thread::sleep(PAUSE);
    }
    let moved = RUNS - before;
    let took = begun.elapsed() - PAUSE;
    say("  so many were moved", moved);
    say("  in", format!("{:.0} s, {:.0} a second", took.as_secs_f64(), moved as f64 / took.as_secs_f64()));
}

/// How many submissions a second one client has taken, one after the other.
fn rate(queue: &Queue) -> String {
    let script = queue.script("nothing.sh", "#!/bin/sh\n#SBATCH -o /dev/null\n:\n");
    let (took, ids) = clients::submit(queue, &script, &["-p", "shut"], 300, 1);
    format!("{:.0}/s", ids.len() as f64 / took.as_secs_f64())
}

/// Submissions while somebody sums up all the time, and without.
fn beside(queue: &Queue) {
    say("submit beside it, nobody asks", rate(queue));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                queue.run("gqacct", &["usage", "--by=user", "-S", "2020-01-01"]);
            }
        });
        say("submit while somebody sums up all the time", rate(queue));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The checksum of a row, as `gq-store` has it.
fn know_checksums(conn: &Connection) {
    let sum = |args: &mut rusqlite::functions::Context<'_>| {
        let mut sum = crc32fast::Hasher::new();
        let mut add = |kind: u8, bytes: &[u8]| {
            sum.update(&[kind]);
            sum.update(&(bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        };
        for at in 0..args.len() {
            match args.get_raw(at) {
                ValueRef::Null => add(0, &[]),
                ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
                ValueRef::Real(number) => add(2, &number.to_le_bytes()),
                ValueRef::Text(text) => add(3, text),
                ValueRef::Blob(bytes) => add(4, bytes),
            }
        }
        Ok(i64::from(sum.finalize()))
    };
    conn.create_scalar_function("row_crc", -1, FunctionFlags::SQLITE_UTF8, sum).unwrap();
}

fn fill(database: &Path) {
    let conn = Connection::open(database).unwrap();
    conn.pragma_update(None, "synchronous", "OFF").unwrap();
    know_checksums(&conn);
    let columns = "job, task, run, uid, account, partition, state, reason, again, submitted, started, ended, node, cpus, memory, cards, \
                   first_promise, allocated, rate, worth, time_limit, restarts, suspended, used, released, name, array, cpu_used, gpu_used";
    let all: Vec<String> = {
        let mut select = conn.prepare("SELECT name FROM pragma_table_info('run')").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let given: Vec<&str> = columns.split(',').map(str::trim).collect();
    let value = |column: &String| match given.iter().position(|it| it == column) {
        Some(at) => format!("?{}", at + 1),
        None => "NULL".to_owned(),
    };
    let values: Vec<String> = all.iter().filter(|column| *column != "crc").map(value).collect();
    let values = values.join(",");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = |sides: i64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice >> 33) as i64 % sides
    };
    let tx = conn.unchecked_transaction().unwrap();
    let mut insert = tx.prepare(&format!("INSERT INTO run VALUES({values}, row_crc({values}))")).unwrap();
    for job in 1..=RUNS {
        let submitted = now - SPAN + SPAN / RUNS * job - 60_000_000_000;
        let allocated = submitted + roll(7_200) * 1_000_000;
        let ended = allocated + (10 + roll(50_000)) * 1_000_000;
        let (uid, card) = (1000 + roll(40), roll(8));
        let state = ["COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
            [roll(7) as usize];
        let cards = format!(r#"[{{"index":{card},"uuid":"GPU-a5dc6861-70cb-596d-a262-91c68fbec07{card}"}}]"#);
        let used = format!(
            r#"{{"cpu":{},"memory":3000,"cards":[{{"index":{card},"looks":100,"held":1000,"mean":500,"peak":1000,"memory":30000}}]}}"#,
            roll(1_000_000_000)
        );
        let name =
            if roll(10_000) == 0 { format!("rare-{}", roll(10)) } else { format!("train-{}", roll(200)) };
        insert
            .execute(params![
                job,
                0,
                1,
                uid,
                format!("account{}", uid % 8),
                format!("part{}", roll(4)),
                state,
                "None",
                i64::from(roll(20) == 0),
                submitted,
                allocated + 100_000,
                ended,
                format!("n{}", roll(20)),
                1 + roll(16),
                (1 + roll(64)) * 1024,
                cards,
                allocated - 60_000_000,
                allocated,
                1000,
                1000,
                86_400,
                0,
                0,
                used,
                ended + 200_000,
                name,
                0,
                roll(1_000_000_000),
                roll(1000),
            ])
            .unwrap();
    }
    drop(insert);
    tx.execute("UPDATE meta SET value = ?1, crc = row_crc(key, ?1) WHERE key = 'last_job'", [RUNS]).unwrap();
    tx.commit().unwrap();
    conn.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    conn.close().unwrap();
}
