//! The laws. After every event: no task lives twice, nothing is held twice, the state is sound, ids that were printed are known. At the end:
//! every job has ended, each of its tasks once, as it really happened.

use crate::{
    gqd::Gqd,
    machine::{CPUS, Machine},
    truth::Truth,
};
use gq_cluster::Layout;
use gq_model::{End, IndexSet, JobId, RunKey, TaskIndex};
use gq_store::{EndedRun, History};
use std::{collections::BTreeMap, path::Path};

/// No two runs of a task live together, on whatever machines; no card, and no cpu, is held by two.
pub(crate) fn one_life(machines: &[Machine]) {
    let mut tasks: BTreeMap<(JobId, TaskIndex), RunKey> = BTreeMap::new();
    for machine in machines {
        let layout = Layout::of(&machine.cards);
        let (mut units, mut cpus) = (0, 0);
        for (key, life) in &machine.lives {
            if life.is_alive() {
                let twin = tasks.insert((key.job, key.task), *key);
                assert!(twin.is_none(), "{key} and {} live together", twin.unwrap_or(*key));
            }
            if !life.is_alive() && !life.supervised {
                continue;
            }
            for held in &life.assignment.cards {
                // A slice that is yet to be cut has its place on the card's grid all the same.
                let its = layout.units(&machine.cards, std::slice::from_ref(held));
                assert!(
                    its != 0 && its & units == 0,
                    "{key} holds {held:?} on {}, as another does",
                    machine.name
                );
                units |= its;
            }
            cpus += life.assignment.cpus;
        }
        assert!(cpus <= CPUS, "{} cpus of {CPUS} are held on {}", cpus, machine.name);
    }
}

/// The state of a controller that lives.
pub(crate) fn sound(gqd: &Gqd) {
    gqd.cluster.check().unwrap_or_else(|broken| panic!("the state is not sound: {broken:?}"));
}

/// Every id that was printed is known.
pub(crate) fn all_known(gqd: &Gqd, truth: &Truth) {
    for (job, (token, uid)) in &truth.told {
        assert!(gqd.was_job(*job), "job {job} was printed and is gone");
        let known = gqd.keeper.store.token(*token).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(known, Some((*job, *uid)), "the token of job {job}");
    }
}

/// The state on disk is the state in memory.
pub(crate) fn same_as_rows(gqd: &Gqd) {
    let rows = gqd.keeper.store.load().unwrap_or_else(|error| panic!("{error}"));
    let jobs = |cluster: &gq_cluster::Cluster| -> Vec<String> {
        cluster.jobs().map(|job| serde_json::to_string(&**job).unwrap_or_default()).collect()
    };
    assert_eq!(jobs(&rows), jobs(&gqd.cluster), "the rows are not the state");
    let spent = |cluster: &gq_cluster::Cluster| -> Vec<_> {
        cluster.ledger().spent().map(|(purse, spent)| (purse.clone(), *spent)).collect()
    };
    assert_eq!(spent(&rows), spent(&gqd.cluster), "what was taken of budgets is not the state");
}

/// All that ended, ended once, and as it happened.
pub(crate) fn accounts(gqd: &Gqd, database: &Path, truth: &Truth) {
    let history = History::open(database).unwrap_or_else(|error| panic!("{error}"));
    let mut recorded = 0;
    for id in 1..=gqd.cluster.last_job().0 {
        let id = JobId(id);
        let Some(job) = history.job(id).unwrap_or_else(|error| panic!("{error}")) else { continue };
        let mut ended = IndexSet::default();
        for run in &job.runs {
            if !run.again {
                for task in tasks(run).ranges().iter().flat_map(|(a, b)| *a..=*b) {
                    assert!(ended.insert(task), "task {task} of job {id} ended twice");
                }
            }
            if run.tasks.is_none() {
                let key = RunKey { job: id, task: run.task, run: run.run };
                recorded += u64::from(as_it_happened(key, run, truth));
            }
        }
        assert_eq!(ended, job.new.tasks, "tasks of job {id} that ended");
    }
    let executed = truth.runs.values().filter(|fate| fate.executed.is_some()).count() as u64;
    assert_eq!(recorded, executed, "runs whose script was executed, in the accounts and in truth");
}

fn tasks(run: &EndedRun) -> IndexSet {
    match &run.tasks {
        Some(text) => IndexSet::read(text).unwrap_or_else(|error| panic!("{text}: {error:?}")).0,
        None => [run.task.0].into_iter().collect(),
    }
}

/// A run is recorded as it happened. Whether its script was executed.
fn as_it_happened(key: RunKey, run: &EndedRun, truth: &Truth) -> bool {
    let fate = truth.runs.get(&key).cloned().unwrap_or_default();
    let outcome = &run.outcome;
    if outcome.end == End::Completed {
        let exit = fate.written.as_ref().and_then(|written| written.exit_code);
        assert_eq!(exit, Some(0), "{key} is COMPLETED and did not exit with 0: {fate:?}");
    }
    if let Some(code) = outcome.exit_code {
        let written = fate.written.as_ref().and_then(|written| written.exit_code);
        assert_eq!(written, Some(code), "{key} has the exit code of another: {fate:?}");
    }
    if run.started.is_some() {
        assert!(fate.executed.is_some(), "{key} was started in the accounts only");
    }
    fate.executed.is_some()
}
