//! Arrays task by task: held, released, put back and cancelled in parts, in every mixture with the whole, with what runs and with what waits
//! for others.

use crate::{
    life::{job, key, orders, part, reason, run_to, submitted},
    world::{ANN, ROOT, World, go_on, named},
};
use gq_cluster::{HeldBy, Job};
use gq_engine::{Answer, Order, RefusalKind, Verb};
use gq_model::{End, EndReason, IndexSet, JobId, JobRef, Reason, RunKey, Stage, TaskIndex, Uid};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a client was told that something was not done to: its name and the kind of refusal.
fn failures(world: &World, client: gq_engine::ClientId) -> Vec<(String, RefusalKind)> {
    let Answer::Done { failures, .. } = &world.post.replies[&client] else { panic!("refused as a whole") };
    failures.iter().map(|failure| (failure.refusal.text.clone(), failure.refusal.kind)).collect()
}

/// The tasks that run.
fn runs(world: &World, id: u64) -> Vec<u32> {
    job(world, id).runs.keys().map(|task| task.0).collect()
}

#[test]
fn parts_of_an_array_are_cancelled_held_and_released_and_nothing_else_of_it() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""array":"0-20","cpus_per_task":4"#);
    world.command(ANN, Verb::Cancel, part(&format!("{id}_10")));
    world.command(ANN, Verb::Hold, part(&format!("{id}_[3-5]")));
    let strange = world.command(ANN, Verb::Cancel, part(&format!("{id}_[7,99]")));
    world.turn();
    let Answer::Done { count: 1, failures } = &world.post.replies[&strange] else { panic!("7 is there") };
    assert_eq!((failures[0].refusal.kind, failures[0].what.as_str()), (RefusalKind::NoSuchJob, "1_99"));
    assert_eq!(job(&world, id).waiting.to_string(), "2-6,8-9,11-20");
    assert_eq!(job(&world, id).ready().to_string(), "2,6,8-9,11-20");
    // What an admin holds its user does not release.
    world.command(ROOT, Verb::Hold, part(&format!("{id}_4")));
    let by_user = world.command(ANN, Verb::Release, part(&format!("{id}_[3-5]")));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&by_user] else {
        panic!("it was released")
    };
    assert_eq!(failures[0].refusal.kind, RefusalKind::NotPermitted);
    world.command(ROOT, Verb::Release, named(JobId(id)));
    world.turn();
    assert!(job(&world, id).held_tasks.is_empty());
    world.settle();
    assert_eq!(world.post.over[&JobId(id)].end, End::Cancelled, "the worst of its tasks");
}

#[test]
fn a_task_that_is_requeued_waits_alone() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""array":"0-3""#);
    go_on(&mut world);
    world.command(ANN, Verb::Requeue { hold: true }, part(&format!("{id}_2")));
    world.turn();
    assert_eq!(orders(&world), [&Order::Requeue(key(id, 2, 1), EndReason::Requeue)]);
    go_on(&mut world);
    go_on(&mut world);
    let held: Vec<String> = job(&world, id).held_tasks.values().map(ToString::to_string).collect();
    assert_eq!((held, job(&world, id).waiting.to_string()), (vec!["2".to_string()], "2".to_string()));
    world.command(ANN, Verb::Release, part(&format!("{id}_2")));
    world.turn();
    assert_eq!(job(&world, id).run_key(TaskIndex(2)), Some(key(id, 2, 2)));
}

#[test]
fn a_held_array_is_released_task_by_task() {
    for at_submission in [true, false] {
        let mut world = World::joined();
        world.drain(0, Some("later"));
        world.drain(1, Some("later"));
        let hold = if at_submission { r#","hold":true"# } else { "" };
        let id = submitted(&mut world, 1, &format!(r#""array":"0-9%2"{hold}"#));
        if !at_submission {
            world.command(ANN, Verb::Hold, named(JobId(id)));
            world.turn();
        }
        assert_eq!((job(&world, id).held, reason(&world, id)), (Some(HeldBy::User), Reason::JobHeldUser));
        world.command(ANN, Verb::Release, part(&format!("{id}_3")));
        world.command(ANN, Verb::Release, part(&format!("{id}_[5-6]")));
        world.turn();
        assert_eq!((job(&world, id).held, job(&world, id).ready().to_string()), (None, "3,5-6".into()));
        world.drain(0, None);
        world.turn();
        assert_eq!(runs(&world, id), [3, 5], "no more at a time than was said");
        run_to(&mut world, key(id, 3, 1), 0);
        assert_eq!(runs(&world, id), [5, 6]);
        // What runs is not held; what is held may be cancelled, and released with the rest.
        world.command(ANN, Verb::Hold, named(JobId(id)));
        world.command(ANN, Verb::Cancel, part(&format!("{id}_[0-2,6]")));
        world.command(ANN, Verb::Release, part(&format!("{id}_[0-4]")));
        world.turn();
        assert_eq!(job(&world, id).ready().to_string(), "4");
        world.command(ANN, Verb::Release, named(JobId(id)));
        world.settle();
        assert_eq!(world.post.over[&JobId(id)].end, End::Cancelled);
    }
}

#[test]
fn a_user_releases_what_is_his_to_release_and_is_told_of_the_rest() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""array":"0-9","hold":true"#);
    world.command(ROOT, Verb::Hold, part(&format!("{id}_[4-5]")));
    world.turn();
    let some = world.command(ANN, Verb::Release, part(&format!("{id}_[3-4]")));
    world.turn();
    assert_eq!(failures(&world, some), [("an admin holds 1_4".into(), RefusalKind::NotPermitted)]);
    assert_eq!(runs(&world, id), [3]);
    let all = world.command(ANN, Verb::Release, named(JobId(id)));
    world.turn();
    assert_eq!(failures(&world, all), [("an admin holds 1_[4-5]".into(), RefusalKind::NotPermitted)]);
    assert_eq!(job(&world, id).waiting.to_string(), "4-5");
    // What an admin holds as a whole is all his.
    let other = submitted(&mut world, 2, r#""array":"0-3","hold":true"#);
    world.command(ROOT, Verb::Hold, named(JobId(other)));
    world.turn();
    let one = world.command(ANN, Verb::Release, part(&format!("{other}_2")));
    world.turn();
    assert_eq!(failures(&world, one), [("an admin holds job 2".into(), RefusalKind::NotPermitted)]);
    world.command(ROOT, Verb::Release, part(&format!("{other}_2")));
    let rest = world.command(ANN, Verb::Release, part(&format!("{other}_[2-3]")));
    world.turn();
    assert_eq!(failures(&world, rest), [("an admin holds 2_3".into(), RefusalKind::NotPermitted)]);
    assert_eq!(job(&world, other).ready().to_string(), "2");
}

#[test]
fn parts_are_held_whatever_the_array_waits_for() {
    let mut world = World::joined();
    let first = submitted(&mut world, 1, r#""array":"0-3","cpus_per_task":2"#);
    let next =
        submitted(&mut world, 2, &format!(r#""array":"0-3","hold":true,"dependency":"aftercorr:{first}""#));
    world.command(ANN, Verb::Release, part(&format!("{next}_[1-2]")));
    world.turn();
    run_to(&mut world, key(first, 0, 1), 0);
    run_to(&mut world, key(first, 1, 1), 0);
    assert_eq!(runs(&world, next), [1], "one is held, the others wait for their twins");
    // A task that runs is put back, held; it comes with the rest.
    world.command(ANN, Verb::Requeue { hold: true }, part(&format!("{next}_1")));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!(job(&world, next).held_tasks[&HeldBy::User].to_string(), "0-1,3");
    world.command(ANN, Verb::Release, part(&format!("{next}_[0-1]")));
    world.turn();
    assert!(runs(&world, next).starts_with(&[0, 1]));
}

#[test]
fn what_comes_first_is_for_all_that_may_start_and_goes_with_none_of_them() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""prep":true,"array":"2-5","hold":true"#);
    world.command(ANN, Verb::Release, part(&format!("{id}_4")));
    world.turn();
    assert_eq!((runs(&world, id), job(&world, id).runs[&TaskIndex(2)].stage), (vec![2], Stage::Prep));
    // It is cancelled with the task as which it runs, and runs again for the others.
    go_on(&mut world);
    world.command(ANN, Verb::Cancel, part(&format!("{id}_2")));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!((runs(&world, id), job(&world, id).waiting.to_string()), (vec![3], "4-5".into()));
    run_to(&mut world, key(id, 3, 1), 0);
    assert_eq!((runs(&world, id), job(&world, id).main.is_none()), (vec![4], true), "the others are held");
    world.command(ANN, Verb::Release, named(JobId(id)));
    world.turn();
    let started = |key: RunKey| {
        orders(&world).into_iter().find_map(|order| match order {
            Order::Start(assignment) if assignment.key == key => assignment.restarts,
            _ => None,
        })
    };
    assert_eq!(started(key(id, 3, 2)), Some(0), "its own script begins for the first time");
    world.settle();
    assert_eq!(world.post.over[&JobId(id)].end, End::Cancelled);
}

/// Who holds a task back.
fn holder(job: &Job, task: u32) -> Option<HeldBy> {
    let by = |who| job.held == Some(who) || job.held_tasks.get(&who).is_some_and(|held| held.contains(task));
    [HeldBy::Admin, HeldBy::User].into_iter().find(|who| by(*who))
}

fn a_move() -> impl Strategy<Value = (bool, u8, Option<Vec<u32>>)> {
    (any::<bool>(), 0..7u8, prop::option::weighted(0.7, prop::collection::vec(0..8u32, 1..5)))
}

proptest! {
    /// However holds, releases and cancels of the whole and of parts follow each other, each task is held as if it were a job of its own.
    #[test]
    fn every_task_is_held_as_if_it_were_alone(held in any::<bool>(), moves in prop::collection::vec(a_move(), 1..14)) {
        let mut world = World::joined();
        world.drain(0, Some("nothing starts"));
        world.drain(1, Some("nothing starts"));
        world.turn();
        let id = submitted(&mut world, 1, &format!(r#""array":"0-7","hold":{held}"#));
        let mut model: BTreeMap<u32, Option<HeldBy>> = (0..8).map(|task| (task, held.then_some(HeldBy::User))).collect();
        for (admin, verb, tasks) in moves {
            let (who, by): (Uid, _) = if admin { (ROOT, HeldBy::Admin) } else { (ANN, HeldBy::User) };
            let verb = match verb {
                0..3 => Verb::Hold,
                3..6 => Verb::Release,
                _ => Verb::Cancel,
            };
            let meant = |task: &u32| tasks.as_ref().is_none_or(|tasks| tasks.contains(task));
            match &verb {
                Verb::Hold => {
                    let hold = |now: &mut Option<HeldBy>| *now = (*now).max(Some(by));
                    model.iter_mut().filter(|(task, _)| meant(task)).for_each(|(_, now)| hold(now));
                }
                Verb::Release => {
                    let his = |now: &Option<HeldBy>| admin || *now != Some(HeldBy::Admin);
                    model.iter_mut().filter(|(task, now)| meant(task) && his(now)).for_each(|(_, now)| *now = None);
                }
                _ => model.retain(|task, _| !meant(task)),
            }
            let tasks: Option<IndexSet> = tasks.map(|tasks| tasks.into_iter().collect());
            let select = gq_engine::Selection { jobs: vec![JobRef { job: JobId(id), tasks }], ..Default::default() };
            world.command(who, verb, select);
            world.turn();
            let Some(job) = world.cluster.job(JobId(id)) else {
                prop_assert!(model.is_empty());
                return Ok(());
            };
            let seen: BTreeMap<u32, _> = job.waiting.iter().map(|task| (task, holder(job, task))).collect();
            prop_assert_eq!(&seen, &model);
            let free: IndexSet = model.iter().filter(|(_, by)| by.is_none()).map(|(task, _)| *task).collect();
            let ready = if job.held.is_some() { IndexSet::default() } else { job.ready().into_owned() };
            prop_assert_eq!(ready, free);
        }
    }
}
