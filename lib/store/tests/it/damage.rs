//! Files that are not what was written: found out by name, wherever the damage is, and given up only when that is asked for.

use crate::life::{ANN, Life, NOW, allocated, booking, charged, ended, node, submitted};
use gq_cluster::{Cluster, Event, Next};
use gq_model::{IndexSet, JobId, NodeName, Seconds, Seq, Token};
use gq_store::{Batch, History, Place, PlaceError, StoreError};
use rusqlite::Connection;
use std::{fs, path::Path};

/// Jobs 1 to 3: one has run, one runs, one waits; a reservation, use of cards, an order that is not acknowledged.
fn busy() -> Life {
    let mut life = Life::first();
    life.turn(&node());
    life.turn(&[Event::Booked(Box::new(booking("course"))), charged(Some("physics"), 5)]);
    life.turn(&[submitted(), allocated()]);
    life.turn(&[ended(Next::Over)]);
    for id in [2, 3] {
        life.turn(&[another(id)]);
    }
    let Event::Allocated {
        key,
        node,
        boot,
        cpus,
        memory,
        cards,
        exclusive,
        rate,
        price,
        promised,
        own_limit,
        at,
        node_id,
        lease,
    } = allocated()
    else {
        panic!("no allocation")
    };
    let key = gq_model::RunKey { job: JobId(2), ..key };
    life.turn(&[Event::Allocated {
        key,
        node,
        boot,
        cpus,
        memory,
        cards,
        exclusive,
        rate,
        price,
        promised,
        own_limit,
        at,
        node_id,
        lease,
    }]);
    let ws1: NodeName = "ws1".parse().unwrap();
    let letters = (1..=3).map(|seq| (&ws1, Seq(seq), format!("order {seq}").into_bytes()));
    for seq in 1..=3 {
        life.cluster.apply(&Event::Ordered { node: ws1.clone(), seq: Seq(seq) }).unwrap();
    }
    let ordered = Event::Ordered { node: ws1.clone(), seq: Seq(3) };
    let batch = Batch {
        at: NOW,
        steps: vec![(&ordered, None)],
        cluster: &life.cluster,
        letters: letters.collect(),
        acknowledged: &[],
    };
    life.store.commit(&batch).unwrap();
    life
}

fn another(id: u64) -> Event {
    let Event::Submitted(mut new) = submitted() else { panic!("no submission") };
    (new.id, new.token) = (JobId(id), Token([id as u8; 16]));
    new.tasks = IndexSet::range(0, 0);
    Event::Submitted(new)
}

/// Everything a store tells, as text: the live rows, and what became of each job.
fn told(place: &Place) -> Result<String, String> {
    let store = place.store().map_err(|e| e.to_string())?;
    let cluster = store.load().map_err(|e| e.to_string())?;
    let letters = store.letters().map_err(|e| e.to_string())?;
    let history = History::open(&place.database()).map_err(|e| e.to_string())?;
    let mut text = live(&cluster);
    for id in (1..=4).map(JobId) {
        let damaged = |e: StoreError| e.to_string();
        let job = history.job(id).map_err(damaged)?;
        let trail = store.trail(id).map_err(damaged)?;
        let token = store.token(Token([id.0 as u8; 16])).map_err(damaged)?;
        text += &format!("{job:?}{trail:?}{token:?}{:?}", store.ends_of(id).map_err(damaged)?);
        text += &format!(
            "{:?}{:?}",
            store.worst_outcome(id).map_err(damaged)?,
            history.ends_alike(id, None).map_err(damaged)?
        );
    }
    Ok(format!("{text}{letters:?}"))
}

fn live(cluster: &Cluster) -> String {
    let jobs: Vec<_> = cluster.jobs().map(|job| serde_json::to_string(&**job).unwrap()).collect();
    let nodes: Vec<_> = cluster.nodes().map(|node| serde_json::to_string(&**node).unwrap()).collect();
    let bookings: Vec<_> = cluster.bookings().collect();
    let usage: Vec<_> = cluster.ledger().usage().collect();
    format!("{:?}{jobs:?}{nodes:?}{bookings:?}{usage:?}", cluster.last_job())
}

/// A copy of the state in a folder of its own, as it is on disk.
fn copy(from: &Path, to: &Path) -> Place {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["gq.db", "gq.db-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
    Place::open(to, "a copy").unwrap()
}

/// Copies of one state, each damaged in its own way.
struct Copies {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
    count: u32,
}

impl Copies {
    /// Of a controller that was stopped (its log is folded in), or killed.
    fn of(life: Life, killed: bool) -> Self {
        let from = tempfile::tempdir().unwrap();
        let dir = life.place.database().parent().unwrap().to_owned();
        if !killed {
            drop(life.store);
        }
        drop(copy(&dir, &from.path().join("state")));
        Self { from, to: tempfile::tempdir().unwrap(), count: 0 }
    }

    fn next(&mut self) -> Place {
        self.count += 1;
        copy(&self.from.path().join("state"), &self.to.path().join(self.count.to_string()))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.from.path().join("state").join(name)).unwrap()
    }
}

fn alter(place: &Place, statement: &str) {
    let conn = Connection::open(place.database()).unwrap();
    assert!(conn.execute(statement, []).unwrap() > 0, "{statement}");
    conn.close().unwrap();
}

#[test]
fn a_row_that_is_not_what_was_written_is_refused_by_name() {
    let mut copies = Copies::of(busy(), false);
    let whole = told(&copies.next()).unwrap();
    for (statement, name) in [
        ("UPDATE meta SET value = 2 WHERE key = 'last_job'", "meta.last_job"),
        (
            "UPDATE job SET body = replace(body, '\"uid\":1001', '\"uid\":1000') WHERE id = 3",
            "the row of job 3",
        ),
        ("UPDATE job SET id = 9 WHERE id = 3", "the row of job 9"),
        ("UPDATE node SET body = replace(body, '\"cpus\":4', '\"cpus\":5')", "the row of node ws1"),
        ("UPDATE inbox SET ordered = 2", "the count of letters of node ws1"),
        ("DELETE FROM inbox", "the letters of node ws1 are not counted"),
        ("UPDATE booking SET body = replace(body, 'physics', 'Physics')", "the row of reservation course"),
        ("UPDATE usage SET charge = 6", "the use of cards by uid 1001 physics"),
        ("UPDATE outbox SET body = x'41' WHERE seq = 2", "order 2 to node ws1"),
        ("UPDATE token SET uid = 1000 WHERE job = 2", "token 02020202"),
        ("UPDATE run SET exit_code = 1", "a run of job 1"),
        ("UPDATE run SET ended = ended + 1", "a run of job 1"),
        ("UPDATE run SET job = 3", "a run of job 3"),
        ("UPDATE event SET body = replace(body, '1001', '1000') WHERE job = 3", "an event of job 3"),
        (
            "UPDATE event SET job = 3 WHERE job = 2 AND body LIKE '%Allocated%'",
            "an event of job 3 is of another",
        ),
        ("UPDATE event SET crc = crc + 1 WHERE job = 1", "an event of job 1"),
    ] {
        let place = copies.next();
        alter(&place, statement);
        let words = told(&place).unwrap_err();
        assert!(words.contains("damaged: ") && words.contains(name), "{statement}: {words}");
        assert!(words.contains("gqd --accept-loss"), "{words}");
    }
    assert_eq!(told(&copies.next()).unwrap(), whole);
}

/// Pages of a file that was closed: wherever a byte or a sector is another, it is found out, or it was of no use.
#[test]
fn no_damage_of_a_page_passes_for_the_truth() {
    let mut copies = Copies::of(busy(), false);
    let whole = told(&copies.next()).unwrap();
    let bytes = copies.bytes("gq.db");
    let (mut found, mut idle) = (0, 0);
    let mut look = |other: &[u8], what: String| {
        let place = copies.next();
        fs::write(place.database(), other).unwrap();
        match told(&place) {
            Err(_) => found += 1,
            Ok(text) => {
                assert!(text == whole, "{what} passes for the truth");
                idle += 1;
            }
        }
        fs::remove_dir_all(place.database().parent().unwrap()).unwrap();
    };
    for at in (0..bytes.len()).step_by(211) {
        let mut other = bytes.clone();
        other[at] ^= 0x10;
        look(&other, format!("byte {at}"));
    }
    for at in (0..bytes.len()).step_by(4096) {
        for (from, to) in [(at, at + 512), (at + 3584, at + 4096), (at, at + 4096)] {
            let mut other = bytes.clone();
            other[from..to].fill(0);
            look(&other, format!("zeros from {from} to {to}"));
        }
        look(&bytes[..at + 100], format!("cut at {}", at + 100));
    }
    assert!(found > 50 && idle > 50, "{found} found, {idle} idle");
}

/// The log of a controller that was killed. B003: what was acknowledged is refused by name, what was not is cut, and kept aside.
#[test]
fn the_log_of_a_killed_controller_is_whole_or_refused_or_cut_at_its_end() {
    let mut copies = Copies::of(busy(), true);
    let whole = told(&copies.next()).unwrap();
    let bytes = copies.bytes("gq.db-wal");
    let log = |place: &Place| place.database().with_file_name("gq.db-wal");
    let kept = |place: &Place| place.database().with_file_name("gq.db-wal.torn-1");
    // A byte of the header, and of the first, a middle and the last frame.
    let frames = (bytes.len() - 32) / (4096 + 24);
    for (at, is_last) in
        [(3, false), (40, false), (32 + 4120 * (frames / 2) + 99, false), (bytes.len() - 9, true)]
    {
        let place = copies.next();
        let mut other = bytes.clone();
        other[at] ^= 1;
        fs::write(log(&place), &other).unwrap();
        match told(&place) {
            Err(words) => {
                assert!(!is_last && words.contains("gq.db-wal: frame"), "byte {at}: {words}");
                assert!(words.contains("was acknowledged") && words.contains("gqd --accept-loss"), "{words}");
                assert!(fs::read(log(&place)).unwrap() == other, "it is left as it was");
            }
            Ok(text) => {
                // The last commit is the next life's own number, or the order that was written last.
                assert!(is_last && text != whole, "byte {at}");
                let rest = fs::read(kept(&place)).unwrap();
                assert!(!rest.is_empty() && other.ends_with(&rest));
                told(&place).unwrap();
                assert!(!place.database().with_file_name("gq.db-wal.torn-2").exists(), "once");
            }
        }
    }
    // Cut anywhere: never refused, and never more than what came last.
    let mut last = String::new();
    for length in (0..=bytes.len()).step_by(1009).chain([bytes.len()]) {
        let place = copies.next();
        fs::write(log(&place), &bytes[..length]).unwrap();
        match told(&place) {
            Ok(text) => last = text,
            // Not even what makes it a queue was in it yet.
            Err(words) => panic!("cut at {length}: {words}"),
        }
    }
    assert!(last == whole);
}

#[test]
fn loss_is_accepted_by_name_and_what_can_be_made_anew_is() {
    let mut copies = Copies::of(busy(), false);
    let whole = copies.next();
    assert_eq!(whole.accept_loss().unwrap(), Vec::<String>::new(), "nothing is damaged");
    let before = whole.store().unwrap().load().unwrap();
    type Holds = fn(&Cluster, &Cluster) -> bool;
    let same: Holds = |before, after| live(before) == live(after);
    for (statement, words, holds) in [
        (
            "UPDATE job SET body = replace(body, '1001', '1000') WHERE id = 3",
            "job 3 is made anew of its trail",
            same,
        ),
        ("UPDATE job SET body = 'x' WHERE id = 2", "job 2 is made anew of its trail", same),
        ("UPDATE meta SET value = 0 WHERE key = 'last_job'", "the next job is 4", same),
        ("UPDATE inbox SET ordered = 1", "inbox ws1 is given up", same),
        ("UPDATE token SET uid = 1000 WHERE job = 2", "token 0202", same),
        (
            "UPDATE node SET body = 'x'",
            "node ws1 is made anew, without what it was, and drained",
            |before, after| {
                let (was, is) = (before.nodes().next().unwrap(), after.nodes().next().unwrap());
                is.drained.is_some() && (is.last_order, is.epoch) == (was.last_order, was.epoch)
            },
        ),
        ("UPDATE usage SET charge = 6", "usage 1001.physics is given up", |_, after| {
            after.ledger().usage_of(Some("physics"), ANN).charge == 0
        }),
        ("UPDATE booking SET body = 'x'", "booking course is given up", |_, after| {
            after.bookings().count() == 0
        }),
        ("UPDATE run SET exit_code = 1", "run 1.0.1 is given up", same),
        ("UPDATE outbox SET body = x'41' WHERE seq = 2", "outbox ws1.2 is given up", |_, after| {
            after.nodes().next().unwrap().drained.as_ref().unwrap().contains("orders to it were damaged")
        }),
    ] {
        let place = copies.next();
        alter(&place, statement);
        let said = place.accept_loss().unwrap_or_else(|e| panic!("{statement}: {e}"));
        assert!(said.iter().any(|said| said.contains(words)), "{statement}: {said:?}");
        let store = place.store().unwrap();
        let after = store.load().unwrap();
        assert!(holds(&before, &after), "{statement}: {said:?}\n{}\n{}", live(&before), live(&after));
        let seqs: Vec<u64> = store.letters().unwrap().iter().map(|(_, seq, _)| seq.0).collect();
        assert!([&[1, 2, 3][..], &[3]].contains(&seqs.as_slice()), "no hole: {seqs:?}");
        assert_eq!(store.token(Token([2; 16])).unwrap(), Some((JobId(2), ANN)));
        // The damaged file is kept, and nothing is damaged any more.
        assert!(place.database().with_file_name("damaged-1").join("gq.db").exists());
        drop(store);
        assert_eq!(place.accept_loss().unwrap(), Vec::<String>::new());
    }

    // The trail of a job that lives is damaged as well.
    let place = copies.next();
    alter(&place, "UPDATE job SET body = 'x' WHERE id = 3");
    alter(&place, "UPDATE event SET body = 'x' WHERE job = 3");
    let said = place.accept_loss().unwrap();
    assert!(said.iter().any(|said| said.contains("job 3 lived, and cannot be made anew")), "{said:?}");
    let after = place.store().unwrap().load().unwrap();
    assert_eq!((after.job_count(), after.last_job()), (1, JobId(3)));

    // A page of the table of events is gone, and with it what is not live; the log has a hole; nothing is there at all.
    let place = copies.next();
    let mut bytes = copies.bytes("gq.db");
    let text = bytes.windows(12).position(|window| window == b"\"Submitted\":").unwrap();
    let page = text / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    fs::write(place.database(), &bytes).unwrap();
    assert!(matches!(place.store().map(drop), Err(PlaceError::Store { source: StoreError::Damaged(_), .. })));
    let said = place.accept_loss().unwrap();
    assert!(said.iter().any(|said| said.starts_with("event: some rows cannot be read")), "{said:?}");
    assert_eq!(place.store().unwrap().load().unwrap().job_count(), 2);

    let mut killed = Copies::of(busy(), true);
    let place = killed.next();
    let mut bytes = killed.bytes("gq.db-wal");
    let middle = 32 + 4120 * ((bytes.len() - 32) / 4120 / 2) + 99;
    bytes[middle] ^= 1;
    fs::write(place.database().with_file_name("gq.db-wal"), &bytes).unwrap();
    assert!(place.store().is_err());
    let said = place.accept_loss().unwrap();
    assert!(!said.is_empty(), "{said:?}");
    place.store().unwrap().load().unwrap();
}

#[test]
fn ids_go_on_after_a_loss() {
    let mut copies = Copies::of(busy(), false);
    let place = copies.next();
    alter(&place, "UPDATE meta SET value = 0 WHERE key IN ('last_job', 'epoch')");
    place.accept_loss().unwrap();
    let store = place.store().unwrap();
    assert_eq!(store.load().unwrap().last_job(), JobId(3));
    assert!(store.epoch().0 > 1 << 31, "{}", store.epoch());
    assert_eq!(NOW.after(Seconds(0)), NOW);
}
