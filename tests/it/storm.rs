//! Storms: many jobs, and everything that users do to them at once. The laws are those of `faults`: every job ends, its end is one that somebody
//! asked for, its runs never overlap, and nothing is left.

use crate::{
    faults::{History, Kind, check, settle},
    lab::{Dice, Lab, until},
};
use std::fs;

/// Jobs of a storm.
const JOBS: usize = 40;
/// Things done to them.
const DEEDS: usize = 60;

/// `GQ_SEED` gives a storm again.
#[test]
fn whatever_is_done_to_jobs_all_of_them_end_and_nothing_is_left() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(3);
    let history = History::of(&lab);
    let mut jobs = Vec::new();
    for turn in 0..JOBS.max(DEEDS) {
        if turn < JOBS {
            let command = format!(". ./story; begin; sleep 0.{}; end 0", dice.roll(4));
            let options = format!("--gpus={} -t 5", dice.roll(4));
            jobs.push(history.submitted(&format!("s{turn}"), Kind::Any, &options, &command));
        }
        let job = jobs[dice.roll(jobs.len())].to_string();
        match dice.roll(5) {
            0 => history.insist("gqcancel", &[&job]),
            1 => history.insist("gqctl", &["hold", &job]),
            2 => history.insist("gqctl", &["release", &job]),
            _ => history.insist("gqctl", &["requeue", &job]),
        };
    }
    assert_eq!(history.insist("gqctl", &["release", "--me"]).code, 0);
    settle(&history);
    until("the node is idle", || (lab.node_view("n1")?["state"] == "idle").then_some(()));
    until("only the daemons are left", || (lab.processes().len() == lab.daemons()).then_some(()));
    check(&history, 0);
    assert_eq!(lab.submit("--gpus=3", "echo $CUDA_VISIBLE_DEVICES").output(), "0,1,2\n");
    let left = fs::read_dir(lab.dir().join("spool/drop")).unwrap().count();
    assert_eq!(left, 0, "nothing is left in the drop box");
}

#[test]
fn many_clients_at_once_get_a_number_each() {
    let lab = Lab::with_cards(0);
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..8).map(|_| lab.submit("-H", "true").id).collect::<Vec<u64>>()))
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, (1..=64).collect::<Vec<u64>>());
    assert_eq!(lab.list("").len(), 64);
    assert_eq!(lab.say("gqcancel --me").code, 0);
    assert_eq!(lab.list("").len(), 0);
    assert_eq!(lab.list("-t CANCELLED").len(), 64);
}
