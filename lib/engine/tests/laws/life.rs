//! Stories of the life of a job: arrays, dependencies, stages, retries, updates, deadlines.

use crate::world::{ANN, BOB, ROOT, World, go_on, named, refusal, report, spec};
use gq_cluster::{Event, Fate, Job};
use gq_engine::{Answer, Order, RefusalKind, Selection, Verb};
use gq_model::{
    Change, End, EndReason, JobId, JobRef, JobState, Reason, RunKey, RunNumber, Seconds, SignalTo, Stage,
    TaskIndex, TimeAsk, Timestamp,
};

pub fn job(world: &World, id: u64) -> &Job {
    world.cluster.job(JobId(id)).unwrap()
}

pub fn key(job: u64, task: u32, run: u32) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(task), run: RunNumber(run) }
}

pub fn part(text: &str) -> Selection {
    Selection { jobs: vec![text.parse::<JobRef>().unwrap()], ..Selection::default() }
}

pub fn submitted(world: &mut World, token: u8, text: &str) -> u64 {
    let client = world.submit(token, ANN, spec(text));
    world.turn();
    match &world.post.replies[&client] {
        Answer::Submitted(id) => id.0,
        other => panic!("{text}: {other:?}"),
    }
}

pub fn refused(world: &mut World, token: u8, text: &str) -> (RefusalKind, String) {
    let client = world.submit(token, ANN, spec(text));
    world.turn();
    let refusal = refusal(world, client).unwrap_or_else(|| panic!("{text} was taken"));
    (refusal.kind, refusal.text)
}

pub fn reason(world: &World, id: u64) -> Reason {
    world.post.outlook.as_ref().unwrap().of(job(world, id), &world.policy).0
}

/// A task's run starts, and ends with this code.
pub fn run_to(world: &mut World, key: RunKey, code: u8) {
    for at in 0..world.nodes.len() {
        world.deliver_orders(at, usize::MAX, None);
    }
    let at = world.nodes.iter().position(|node| node.live.contains_key(&key));
    let at = at.unwrap_or_else(|| panic!("{key} does not live"));
    for _ in 0..3 {
        let now = world.now;
        world.nodes[at].go_on(key, code, now);
    }
    report(world);
}

pub fn orders(world: &World) -> Vec<&Order> {
    world.post.orders.iter().map(|(_, _, order)| order).collect()
}

#[test]
fn an_array_is_one_record_and_never_more_of_it_run_than_may() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""array":"0-999%2""#);
    assert_eq!((job(&world, id).runs.len(), job(&world, id).waiting.to_string().as_str()), (2, "2-999"));
    assert_eq!(reason(&world, id), Reason::ArrayTaskLimit);
    run_to(&mut world, key(id, 1, 1), 0);
    assert!(job(&world, id).runs.keys().map(|task| task.0).eq([0, 2]));
    // The throttle is changed while it runs.
    world.command(ANN, Verb::Update(vec![Change::AtOnce(Some(5))]), named(JobId(id)));
    world.turn();
    assert_eq!(job(&world, id).runs.len(), 5);
    world.command(ANN, Verb::Update(vec![Change::AtOnce(None)]), named(JobId(id)));
    world.turn();
    assert_eq!(job(&world, id).runs.len(), 8, "as many as there are cpus");
    assert!(serde_json::to_string(job(&world, id)).unwrap().len() < 4096);
}

#[test]
fn too_large_an_array_is_refused_with_the_bound() {
    let mut world = World::joined();
    let (kind, text) = refused(&mut world, 1, r#""array":"0-1000""#);
    assert_eq!(kind, RefusalKind::Policy);
    assert!(text.contains("1001 tasks") && text.contains("1000"), "{text}");
}

#[test]
fn a_chain_goes_on_as_far_as_each_ends_well() {
    let mut world = World::joined();
    let first = submitted(&mut world, 1, "");
    let next = submitted(&mut world, 2, r#""dependency":"afterok:1""#);
    let other = submitted(&mut world, 3, r#""dependency":"afternotok:2""#);
    let last = submitted(&mut world, 4, r#""dependency":"afterok:2","kill_on_invalid_dep":true"#);
    let any = submitted(&mut world, 5, r#""dependency":"afterok:2?afterany:2""#);
    assert!([next, other, last, any].iter().all(|id| reason(&world, *id) == Reason::Dependency));
    run_to(&mut world, key(first, 0, 1), 0);
    assert_eq!(job(&world, next).runs.len(), 1, "it starts in the turn that the first one ends in");
    run_to(&mut world, key(next, 0, 1), 3);
    assert_eq!((job(&world, other).runs.len(), job(&world, any).runs.len()), (1, 1));
    assert_eq!(world.post.over[&JobId(last)].reason, Reason::DependencyNeverSatisfied);
    // Jobs that ended count, however old.
    let late = submitted(&mut world, 6, r#""dependency":"afterok:1,afternotok:2""#);
    assert_eq!(job(&world, late).runs.len(), 1);
    let in_vain = submitted(&mut world, 7, r#""dependency":"afterok:2""#);
    assert_eq!(reason(&world, in_vain), Reason::DependencyNeverSatisfied);
    let ended = submitted(&mut world, 8, r#""dependency":"afterok:2","kill_on_invalid_dep":true"#);
    assert_eq!(world.post.over[&JobId(ended)].end, End::Cancelled);
    let (kind, text) = refused(&mut world, 9, r#""dependency":"afterok:99""#);
    assert_eq!(kind, RefusalKind::NoSuchJob);
    assert!(text.contains("afterok:99") && text.contains("no such job"), "{text}");
}

#[test]
fn who_waits_for_a_cancelled_job_is_told() {
    let mut world = World::joined();
    submitted(&mut world, 1, r#""hold":true"#);
    let (ok, not_ok) = (
        submitted(&mut world, 2, r#""dependency":"afterok:1""#),
        submitted(&mut world, 3, r#""dependency":"afternotok:1""#),
    );
    world.command(ANN, Verb::Cancel, named(JobId(1)));
    world.turn();
    assert_eq!(reason(&world, ok), Reason::DependencyNeverSatisfied);
    assert_eq!(job(&world, not_ok).runs.len(), 1);
    // What runs is left alone whatever becomes of what it waited for.
    let running = submitted(&mut world, 4, r#""dependency":"after:3""#);
    assert_eq!(reason(&world, running), Reason::Dependency, "it has not begun");
    go_on(&mut world);
    assert_eq!(job(&world, running).runs.len(), 1);
}

#[test]
fn tasks_follow_tasks() {
    let mut world = World::joined();
    let first = submitted(&mut world, 1, r#""array":"0-3%2","cpus_per_task":2"#);
    let next = submitted(&mut world, 2, r#""array":"0-3","dependency":"aftercorr:1","cpus_per_task":1"#);
    let part = submitted(&mut world, 3, r#""dependency":"afterok:1_[0,1]""#);
    assert_eq!(reason(&world, next), Reason::Dependency);
    run_to(&mut world, key(first, 1, 1), 0);
    assert!(job(&world, next).runs.keys().map(|task| task.0).eq([1]), "only the task whose twin has ended");
    assert_eq!(reason(&world, part), Reason::Dependency);
    run_to(&mut world, key(first, 0, 1), 4);
    assert_eq!(reason(&world, part), Reason::DependencyNeverSatisfied);
    let waits = job(&world, next).waits.as_ref().unwrap();
    assert_eq!((waits.never().to_string(), waits.barred().to_string()), ("0".into(), "0,2-3".into()));
    let (_, text) = refused(&mut world, 4, r#""array":"0-3","dependency":"aftercorr:2?afterok:1""#);
    assert!(text.contains("no other condition behind ?"), "{text}");
}

#[test]
fn a_task_without_a_twin_waits_in_vain_and_a_plain_job_waits_for_the_whole() {
    let mut world = World::joined();
    let first = submitted(&mut world, 1, r#""array":"0-2","cpus_per_task":2"#);
    let more = submitted(&mut world, 2, r#""array":"1-4","dependency":"aftercorr:1""#);
    let killed =
        submitted(&mut world, 3, r#""array":"1-4","dependency":"aftercorr:1","kill_on_invalid_dep":true"#);
    let plain = submitted(&mut world, 4, r#""dependency":"aftercorr:1""#);
    let waits = |world: &World, id| job(world, id).waits.clone().unwrap();
    assert_eq!(waits(&world, more).never().to_string(), "3-4");
    assert_eq!(job(&world, killed).waiting.to_string(), "1-2", "where that is wanted they end");
    run_to(&mut world, key(first, 0, 1), 0);
    assert_eq!(reason(&world, plain), Reason::Dependency, "task 0 is not the whole");
    run_to(&mut world, key(first, 1, 1), 0);
    assert!(job(&world, more).runs.keys().map(|task| task.0).eq([1]));
    run_to(&mut world, key(first, 2, 1), 0);
    assert_eq!(job(&world, plain).runs.len(), 1);
    // Also of what has ended, and when that is said anew; a plain job is waited for as a whole, too.
    let late = submitted(&mut world, 5, r#""array":"2-3","dependency":"aftercorr:1""#);
    assert_eq!((waits(&world, late).never().to_string(), job(&world, late).runs.len()), ("3".into(), 1));
    let each = submitted(&mut world, 6, r#""array":"0-1","hold":true"#);
    let say = Verb::Update(vec![Change::Dependency(Some(format!("aftercorr:{plain}").parse().unwrap()))]);
    world.command(ANN, say, named(JobId(each)));
    world.turn();
    assert_eq!((waits(&world, each).fate(), waits(&world, each).barred().is_empty()), (Fate::Open, true));
    run_to(&mut world, key(plain, 0, 1), 3);
    assert_eq!(waits(&world, each).fate(), Fate::Never);
}

#[test]
fn one_of_a_name_at_a_time() {
    let mut world = World::joined();
    for token in 1..=3 {
        submitted(&mut world, token, r#""dependency":"singleton""#);
    }
    let bobs = world.submit(4, BOB, spec(r#""dependency":"singleton""#));
    world.turn();
    let Answer::Submitted(bobs) = world.post.replies[&bobs] else { panic!("refused") };
    assert_eq!(world.cluster.job(bobs).unwrap().runs.len(), 1, "another user's name is another");
    assert_eq!((job(&world, 1).runs.len(), job(&world, 2).runs.len()), (1, 0));
    run_to(&mut world, key(1, 0, 1), 1);
    assert_eq!((job(&world, 2).runs.len(), job(&world, 3).runs.len()), (1, 0));
    // Whoever has another name is in nobody's way.
    world.command(ANN, Verb::Update(vec![Change::Name("other".into())]), named(JobId(2)));
    world.turn();
    assert_eq!(job(&world, 3).runs.len(), 1);
    // And whoever gets a name that nobody has need not wait.
    let next = submitted(&mut world, 5, r#""dependency":"singleton""#);
    assert_eq!(reason(&world, next), Reason::Dependency);
    world.command(ANN, Verb::Update(vec![Change::Name("his own".into())]), named(JobId(next)));
    world.turn();
    assert_eq!(job(&world, next).runs.len(), 1);
}

#[test]
fn minutes_after_a_start_are_minutes() {
    let mut world = World::joined();
    submitted(&mut world, 1, "");
    let next = submitted(&mut world, 2, r#""dependency":"after:1+5""#);
    go_on(&mut world);
    assert_eq!(reason(&world, next), Reason::BeginTime);
    world.now = world.now.after(Seconds(299));
    world.turn();
    assert_eq!(job(&world, next).runs.len(), 0);
    world.now = world.now.after(Seconds(1));
    world.turn();
    assert_eq!(job(&world, next).runs.len(), 1);
}

#[test]
fn circles_are_refused() {
    let mut world = World::joined();
    submitted(&mut world, 1, r#""hold":true"#);
    submitted(&mut world, 2, r#""dependency":"afterok:1""#);
    submitted(&mut world, 3, r#""dependency":"afterok:2""#);
    let change = |text: &str| Verb::Update(vec![Change::Dependency(Some(text.parse().unwrap()))]);
    for circle in ["afterok:3", "afterany:2?afterok:3", "afterok:1"] {
        let client = world.command(ANN, change(circle), named(JobId(1)));
        world.turn();
        let Answer::Done { count: 0, failures } = &world.post.replies[&client] else { panic!("{circle}") };
        assert_eq!(failures[0].refusal.kind, RefusalKind::Policy, "{circle}");
    }
    world.command(ANN, Verb::Update(vec![Change::Dependency(None)]), named(JobId(3)));
    world.turn();
    assert_eq!(job(&world, 3).runs.len(), 1);
}

/// Who is to run after all of his name waits for whoever waits for him.
#[test]
fn circles_by_name_are_refused() {
    let change = |change: Change| Verb::Update(vec![change]);
    let after = |text: &str| change(Change::Dependency(Some(text.parse().unwrap())));
    let refused = |world: &mut World, verb: Verb, id: u64| {
        let client = world.command(ANN, verb, named(JobId(id)));
        world.turn();
        let Answer::Done { failures, .. } = &world.post.replies[&client] else { panic!("{id}") };
        failures.first().map(|failure| failure.refusal.text.clone())
    };
    let mut world = World::joined();
    submitted(&mut world, 1, r#""hold":true"#);
    submitted(&mut world, 2, r#""dependency":"singleton""#);
    submitted(&mut world, 3, r#""dependency":"singleton""#);
    submitted(&mut world, 4, r#""hold":true"#);
    let why = refused(&mut world, after("afterany:4?afterany:3"), 1).unwrap();
    assert_eq!(why, "--dependency=afterany:4?afterany:3: job 1 would wait for itself: a circle");
    // Under another name it does not.
    let both =
        Verb::Update(vec![Change::Name("c".into()), Change::Dependency(Some("afterany:3".parse().unwrap()))]);
    assert_eq!(refused(&mut world, both, 1), None);
    let why = refused(&mut world, change(Change::Name("sim".into())), 1).unwrap();
    assert_eq!(why, "--name=sim: job 1 would wait for itself: a circle");
    assert_eq!(refused(&mut world, change(Change::Name("d".into())), 1), None);
    // The last of its name may wait for all before it.
    assert_eq!(refused(&mut world, after("singleton"), 4), None);
    world.settle();
}

#[test]
fn cards_are_taken_only_when_what_comes_first_has_ended_well() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""prep":true,"cards":{"count":1},"cpus_per_task":1"#);
    let run = &job(&world, id).runs[&TaskIndex(0)];
    assert_eq!((run.stage, run.cards.len()), (Stage::Prep, 0));
    run_to(&mut world, key(id, 0, 1), 0);
    let run = &job(&world, id).runs[&TaskIndex(0)];
    assert_eq!((run.stage, run.cards.len()), (Stage::Main, 1));
    let restarts = orders(&world).into_iter().find_map(|order| match order {
        Order::Start(assignment) => Some((assignment.key.run.0, assignment.stage, assignment.restarts)),
        _ => None,
    });
    assert_eq!(restarts, Some((2, Stage::Main, Some(0))), "the first time for its own script");
    // An array is prepared once; when that fails none of it ever starts.
    let array = submitted(&mut world, 2, r#""prep":true,"array":"4-9","cards":{"count":1}"#);
    assert!(job(&world, array).runs.keys().map(|task| task.0).eq([4]));
    run_to(&mut world, key(array, 4, 1), 9);
    let over = &world.post.over[&JobId(array)];
    assert_eq!((over.end, over.reason, over.exit_code), (End::Failed, Reason::PrepFailed, Some(9)));
}

#[test]
fn what_failed_is_tried_again_after_growing_pauses() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""retry":{"times":2,"exits":[75]}"#);
    for (run, pause) in [(1, 1), (2, 2)] {
        run_to(&mut world, key(id, 0, run), 75);
        assert_eq!(job(&world, id).resting.get(&TaskIndex(0)), Some(&world.now.after(Seconds(pause))));
        world.now = world.now.after(Seconds(pause));
        world.turn();
    }
    run_to(&mut world, key(id, 0, 3), 75);
    assert_eq!(world.post.over[&JobId(id)].exit_code, Some(75), "it was tried so often and no more");
    let other = submitted(&mut world, 2, r#""retry":{"times":2,"exits":[75]}"#);
    run_to(&mut world, key(other, 0, 1), 1);
    assert!(world.post.over.contains_key(&JobId(other)), "another code is no reason");
    // Of an array only the task that failed pauses.
    let array = submitted(&mut world, 3, r#""array":"0-1","retry":{"times":1},"cpus_per_task":4"#);
    run_to(&mut world, key(array, 0, 1), 1);
    assert_eq!((job(&world, array).resting.len(), job(&world, array).runs.len()), (1, 1));
}

#[test]
fn after_its_node_failed_a_job_runs_again_if_it_may() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    let again = submitted(&mut world, 1, r#""requeue":true"#);
    let never = submitted(&mut world, 2, "");
    go_on(&mut world);
    let now = world.now;
    world.nodes[0].reboot(now, false);
    world.nodes[0].join();
    report(&mut world);
    assert_eq!(job(&world, again).run_key(TaskIndex(0)), Some(key(again, 0, 2)));
    assert_eq!(world.post.over[&JobId(never)].end, End::NodeFail);
    let fixed = submitted(&mut world, 3, r#""requeue":false"#);
    go_on(&mut world);
    let client = world.command(ANN, Verb::Requeue { hold: false }, named(JobId(fixed)));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&client] else { panic!("it is requeued") };
    assert!(failures[0].refusal.text.contains("--no-requeue"));
    // What does not run is not put back; the others that are named are.
    let waits = submitted(&mut world, 4, r#""hold":true"#);
    let runs = submitted(&mut world, 5, "");
    go_on(&mut world);
    let jobs = [waits, runs].map(|id| JobRef { job: JobId(id), tasks: None }).to_vec();
    let both = Selection { jobs, ..Selection::default() };
    let client = world.command(ANN, Verb::Requeue { hold: false }, both);
    world.turn();
    let Answer::Done { count: 1, failures } = &world.post.replies[&client] else { panic!("one runs") };
    assert_eq!(
        (failures[0].what.clone(), failures[0].refusal.kind),
        (waits.to_string(), RefusalKind::Policy)
    );
    assert_eq!(orders(&world), [&Order::Requeue(key(runs, 0, 1), EndReason::Requeue)]);
}

#[test]
fn a_user_shortens_what_runs_and_an_admin_lengthens_it() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""time_limit":600"#);
    go_on(&mut world);
    let longer = world.command(ANN, Verb::Update(vec![Change::TimeLimitBy(60)]), named(JobId(id)));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&longer] else { panic!("it is longer") };
    assert_eq!(failures[0].refusal.kind, RefusalKind::NotPermitted);
    world.command(ANN, Verb::Update(vec![Change::TimeLimit(TimeAsk::Limit(Seconds(300)))]), named(JobId(id)));
    world.turn();
    assert_eq!(orders(&world), [&Order::Limit(key(id, 0, 1), Some(Seconds(300)))]);
    assert_eq!(job(&world, id).runs[&TaskIndex(0)].own_limit, Some(Seconds(300)));
    world.command(ROOT, Verb::Update(vec![Change::TimeLimitBy(500)]), named(JobId(id)));
    world.turn();
    assert_eq!(orders(&world), [&Order::Limit(key(id, 0, 1), Some(Seconds(800)))]);
}

#[test]
fn a_limit_taken_away_is_what_the_partition_allows_for_what_waits_and_for_what_runs() {
    let mut world = World::joined();
    let runs = submitted(&mut world, 1, r#""time_limit":60"#);
    let waits = submitted(&mut world, 2, r#""hold":true,"time_limit":60"#);
    go_on(&mut world);
    let longest = Verb::Update(vec![Change::TimeLimit(TimeAsk::Longest)]);
    let limits = |world: &World| {
        let of = |id| job(world, id).shape.time_limit.map(|limit| limit.0);
        (of(waits), job(world, runs).runs[&TaskIndex(0)].own_limit)
    };
    world.policy.partitions[0].max_time = Some(Seconds(3600));
    world.command(ROOT, longest.clone(), Selection { users: vec![ANN], ..Selection::default() });
    world.turn();
    assert_eq!(limits(&world), (Some(3600), Some(Seconds(3600))));
    assert_eq!(orders(&world), [&Order::Limit(key(runs, 0, 1), Some(Seconds(3600)))]);
    // What runs is given more by an admin alone, however that is said.
    world.policy.partitions[0].max_time = None;
    let client = world.command(ANN, longest.clone(), named(JobId(runs)));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&client] else { panic!("it is longer") };
    assert_eq!(failures[0].refusal.kind, RefusalKind::NotPermitted);
    world.command(ROOT, longest, Selection { users: vec![ANN], ..Selection::default() });
    world.turn();
    assert_eq!(limits(&world), (None, Some(gq_cluster::UNLIMITED)));
    assert_eq!(orders(&world), [&Order::Limit(key(runs, 0, 1), None)]);
}

#[test]
fn what_waits_is_updated_as_it_would_be_submitted() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""hold":true"#);
    let changes = vec![
        Change::Partition("high".into()),
        Change::Name("better".into()),
        Change::Comment("now".into()),
        Change::TimeLimit(TimeAsk::Limit(Seconds(50))),
    ];
    world.command(ANN, Verb::Update(changes), named(JobId(id)));
    world.turn();
    let now = job(&world, id);
    assert_eq!((now.shape.partition.as_str(), now.payer.partition.as_str()), ("high", "high"));
    assert_eq!((now.spec.name.as_str(), now.spec.comment.as_deref()), ("better", Some("now")));
    assert_eq!((now.shape.time_limit, now.renamed), (Some(Seconds(50)), true));
    for (who, change) in [
        (ANN, Change::Partition("nowhere".into())),
        (ANN, Change::Priority(10)),
        (ANN, Change::Name("a\nb".into())),
        (BOB, Change::Comment("mine".into())),
    ] {
        let client = world.command(who, Verb::Update(vec![change.clone()]), named(JobId(id)));
        world.turn();
        let Answer::Done { count: 0, .. } = &world.post.replies[&client] else {
            panic!("{change:?} was done")
        };
    }
    world.command(ROOT, Verb::Update(vec![Change::Priority(1234)]), named(JobId(id)));
    world.turn();
    let factors = gq_sched::factors(&world.cluster, &world.policy, world.now, job(&world, id));
    assert_eq!(factors.total, 1234);
}

#[test]
fn a_job_that_cannot_end_before_its_deadline_is_ended_and_one_that_runs_has_until_then() {
    let mut world = World::joined();
    let at = |world: &World, seconds| world.now.after(Seconds(seconds)).0;
    let deadline = at(&world, 300);
    let waits = submitted(&mut world, 1, &format!(r#""hold":true,"time_limit":100,"deadline":{deadline}"#));
    let runs = submitted(&mut world, 2, &format!(r#""time_limit":300,"deadline":{deadline}"#));
    let (_, text) = refused(&mut world, 3, &format!(r#""time_limit":400,"deadline":{deadline}"#));
    assert!(text.contains("--deadline"), "{text}");
    let limit = |world: &World| {
        world.post.orders.iter().find_map(|(_, _, order)| match order {
            Order::Start(assignment) => Some((assignment.time_limit, assignment.deadline)),
            _ => None,
        })
    };
    assert!(job(&world, runs).runs.len() == 1 && limit(&world).is_none());
    go_on(&mut world);
    let later = Verb::Update(vec![Change::Deadline(Some(Timestamp(deadline + 1)))]);
    let client = world.command(ROOT, later, named(JobId(runs)));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&client] else { panic!("it is later") };
    assert!(failures[0].refusal.text.contains("its deadline cannot change"), "{failures:?}");
    let soon = Verb::Update(vec![Change::Deadline(Some(Timestamp(at(&world, 99))))]);
    let client = world.command(ROOT, soon, named(JobId(waits)));
    world.turn();
    let Answer::Done { count: 0, failures } = &world.post.replies[&client] else { panic!("it would end it") };
    assert!(failures[0].refusal.text.contains("could not end before"), "{failures:?}");
    world.now = Timestamp(deadline);
    world.now.0 -= 99_000_000;
    world.turn();
    assert_eq!(world.post.over[&JobId(waits)].end, End::Deadline);
    let cut = submitted(&mut world, 4, &format!(r#""time_limit":400,"time_min":30,"deadline":{deadline}"#));
    assert_eq!(limit(&world), Some((Some(Seconds(99)), Some(Seconds(99)))));
    assert_eq!(job(&world, cut).runs[&TaskIndex(0)].own_limit, Some(Seconds(99)));
}

#[test]
fn who_waits_too_long_is_cancelled_or_goes_first() {
    let mut world = World::joined();
    world.policy.weights.age = 1000;
    world.drain(0, Some("later"));
    world.drain(1, Some("later"));
    let tired = submitted(&mut world, 1, r#""max_wait":{"after":60,"then":"Cancel"}"#);
    submitted(&mut world, 2, r#""cpus_per_task":4"#);
    let boosted = submitted(&mut world, 3, r#""cpus_per_task":4,"max_wait":{"after":90,"then":"Boost"}"#);
    world.now = world.now.after(Seconds(60));
    world.turn();
    assert_eq!(world.post.over[&JobId(tired)].reason, Reason::WaitedTooLong);
    world.now = world.now.after(Seconds(30));
    world.turn();
    assert!(
        world
            .disk
            .rows
            .events
            .iter()
            .any(|e| matches!(e, Event::WaitedTooLong { job, .. } if job.0 == boosted))
    );
    world.drain(0, None);
    world.turn();
    assert_eq!((job(&world, 2).runs.len(), job(&world, boosted).runs.len()), (0, 1));
}

#[test]
fn a_lowered_limit_lets_a_job_start_in_a_gap() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    submitted(&mut world, 1, r#""cpus_per_task":3,"time_limit":600"#);
    go_on(&mut world);
    let first = submitted(&mut world, 2, r#""cpus_per_task":4,"time_limit":600"#);
    let fixed = submitted(&mut world, 3, r#""time_limit":6000"#);
    let flexible = submitted(&mut world, 4, r#""time_limit":6000,"time_min":120"#);
    assert_eq!((job(&world, first).runs.len(), job(&world, fixed).runs.len()), (0, 0));
    let limit = job(&world, flexible).runs[&TaskIndex(0)].own_limit.unwrap();
    assert!((Seconds(500)..=Seconds(600)).contains(&limit), "{limit} fits before the first in line");
}

#[test]
fn what_is_suspended_keeps_what_it_holds_and_its_time_stands_still() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, r#""time_limit":600"#);
    go_on(&mut world);
    let counted = job(&world, id).runs[&TaskIndex(0)].counted;
    world.command(ANN, Verb::Suspend, named(JobId(id)));
    world.turn();
    assert_eq!(orders(&world), [&Order::Suspend(key(id, 0, 1))]);
    for at in 0..world.nodes.len() {
        world.deliver_orders(at, usize::MAX, None);
    }
    report(&mut world);
    assert_eq!(job(&world, id).runs[&TaskIndex(0)].state(), JobState::Suspended);
    world.now = world.now.after(Seconds(100));
    assert_eq!(job(&world, id).runs[&TaskIndex(0)].stood_still_until(world.now), 100_000_000);
    world.command(ANN, Verb::Continue, named(JobId(id)));
    world.turn();
    for at in 0..world.nodes.len() {
        world.deliver_orders(at, usize::MAX, None);
    }
    report(&mut world);
    let run = &job(&world, id).runs[&TaskIndex(0)];
    assert_eq!((run.state(), run.counted), (JobState::Running, counted.after(Seconds(100))));
    assert_eq!((run.stood_still, run.stood_still_until(world.now)), (100_000_000, 100_000_000));
    world.command(ANN, Verb::Signal(10, SignalTo::Batch), named(JobId(id)));
    world.turn();
    assert_eq!(orders(&world), [&Order::Signal(key(id, 0, 1), 10, SignalTo::Batch)]);
}

#[test]
fn what_an_admin_ends_on_a_node_that_drains_is_told_so() {
    let mut world = World::joined();
    let id = submitted(&mut world, 1, "");
    go_on(&mut world);
    for at in 0..world.nodes.len() {
        world.drain(at, Some("fan"));
    }
    world.turn();
    world.command(ROOT, Verb::Requeue { hold: false }, named(JobId(id)));
    world.turn();
    assert_eq!(orders(&world), [&Order::Requeue(key(id, 0, 1), EndReason::Drain)]);
}
