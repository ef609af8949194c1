//! Storms: many jobs, and everything that users do to them at once. The laws: every job ends, its end is one that somebody
//! asked for, its runs never overlap, and nothing is left.

use crate::lab::{Dice, Job, Lab, until};
use gq_model::End;
use std::{collections::BTreeMap, fs};

/// Jobs of a storm.
const JOBS: usize = 40;
/// Things done to them.
const DEEDS: usize = 60;

/// `GQ_SEED` gives a storm again.
#[test]
fn whatever_is_done_to_jobs_all_of_them_end_and_nothing_is_left() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(3);
    // Every run writes when it was alive; a run that is killed has no end.
    let command =
        "echo $GQ_RUN begins >>runs.$GQ_JOB_ID; sleep 0.$GQ_NAP; echo $GQ_RUN ends >>runs.$GQ_JOB_ID";
    let mut jobs: Vec<Job<'_>> = Vec::new();
    let mut cancelled = BTreeMap::new();
    for turn in 0..JOBS.max(DEEDS) {
        if turn < JOBS {
            let nap = format!("--export=ALL,GQ_NAP={}", dice.roll(4));
            let cards = format!("--gpus={}", dice.roll(4));
            jobs.push(lab.gqsub(&[&cards, &nap, "--mem=64M", "-t", "5", "--wrap", command]));
        }
        let job = jobs[dice.roll(jobs.len())];
        let verb =
            ["gqcancel", "gqctl hold", "gqctl release", "gqctl requeue", "gqctl requeue"][dice.roll(5)];
        let said = lab.say(&format!("{verb} {}", job.id));
        assert!([0, 1].contains(&said.code), "{verb}: {said:?}");
        if verb == "gqcancel" {
            cancelled.insert(job.id, ());
        }
    }
    assert_eq!(lab.say("gqctl release --me").code, 0);
    for job in &jobs {
        let end = job.ended();
        match end {
            End::Completed => {}
            End::Cancelled => assert!(cancelled.contains_key(&job.id), "job {}: nobody cancelled it", job.id),
            other => panic!("job {}: {other:?}: {}", job.id, job.view()),
        }
        let Ok(runs) = fs::read_to_string(lab.work(format!("runs.{}", job.id))) else {
            assert_eq!(end, End::Cancelled, "job {} never ran", job.id);
            continue;
        };
        let runs: Vec<(u32, &str)> = runs
            .lines()
            .map(|line| line.split_once(' ').map(|(run, what)| (run.parse().unwrap(), what)).unwrap())
            .collect();
        assert!(runs.is_sorted_by_key(|(run, _)| *run), "job {}: runs overlap: {runs:?}", job.id);
        if end == End::Completed {
            assert_eq!(runs.last().map(|(_, what)| *what), Some("ends"), "job {}", job.id);
            assert_eq!(u64::from(runs.last().unwrap().0), job.view()["run"], "job {}", job.id);
        }
    }
    until("the node is idle", || (lab.node_view("n1")?["state"] == "idle").then_some(()));
    until("only the daemons are left", || (lab.processes().len() == 2).then_some(()));
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
