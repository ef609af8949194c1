//! Rights: who may do what to whose jobs, and what is hidden from whom.

use crate::world::{ANN, BOB, CAROL, OLIVE, ROOT, World, go_on, named, spec};
use gq_cluster::{HeldBy, Private};
use gq_engine::{Answer, Failure, NodeVerb, RefusalKind, Selection, Verb};
use gq_model::{Change, JobId, JobRef, JobSpec, TimeAsk, Uid};

fn failures(world: &World, client: gq_engine::ClientId) -> Vec<Failure> {
    match &world.post.replies[&client] {
        Answer::Done { failures, .. } => failures.clone(),
        Answer::Refused(refusal) => vec![Failure { what: "all".into(), refusal: refusal.clone() }],
        other => panic!("{other:?}"),
    }
}

/// Why something is not done; none when it is.
fn why(world: &mut World, by: Uid, verb: Verb, job: JobId) -> Option<(RefusalKind, String)> {
    let client = world.command(by, verb, named(job));
    world.turn();
    failures(world, client).pop().map(|failure| (failure.refusal.kind, failure.refusal.text))
}

fn may(world: &mut World, by: Uid, verb: Verb, job: JobId) -> bool {
    match why(world, by, verb, job) {
        None => true,
        Some((RefusalKind::NotPermitted, _)) => false,
        Some(other) => panic!("{other:?}"),
    }
}

/// A job of Ann's on her account that waits.
fn waiting(world: &mut World) -> JobId {
    let token = world.cluster.last_job().0 as u8 + 1;
    let client = world.submit(token, ANN, JobSpec { hold: true, ..spec("") });
    world.turn();
    let Answer::Submitted(job) = world.post.replies[&client] else { panic!("it is taken") };
    job
}

#[test]
fn a_hold_is_lifted_by_whoever_may_as_much_as_who_held() {
    let mut world = World::joined();
    let job = waiting(&mut world);
    let by = |world: &World| world.cluster.job(job).unwrap().held;
    for (holder, held, lifters, others) in [
        (ANN, HeldBy::User, &[ANN, CAROL, OLIVE, ROOT][..], &[BOB][..]),
        (CAROL, HeldBy::Coordinator, &[CAROL, OLIVE, ROOT], &[ANN, BOB]),
        (OLIVE, HeldBy::Admin, &[OLIVE, ROOT], &[ANN, BOB, CAROL]),
        (ROOT, HeldBy::Admin, &[OLIVE, ROOT], &[ANN, BOB, CAROL]),
    ] {
        for lifter in lifters {
            // So that it does not start in between.
            assert!(may(
                &mut world,
                OLIVE,
                Verb::Update(vec![Change::Begin(Some(gq_model::Timestamp(i64::MAX)))]),
                job
            ));
            assert!(may(&mut world, holder, Verb::Hold, job));
            assert_eq!(by(&world), Some(held));
            for other in others {
                assert!(!may(&mut world, *other, Verb::Release, job), "{other} lifts what {holder} held");
            }
            assert!(may(&mut world, ANN, Verb::Hold, job), "a lesser hold says nothing more");
            assert_eq!(by(&world), Some(held));
            assert!(
                may(&mut world, *lifter, Verb::Release, job),
                "{lifter} does not lift what {holder} held"
            );
            assert_eq!(by(&world), None);
        }
    }
}

#[test]
fn whom_a_requeue_is_to_hold_its_user_does_not_let_go() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(""));
    world.turn();
    go_on(&mut world);
    let job = JobId(1);
    assert!(may(&mut world, CAROL, Verb::Requeue { hold: true }, job));
    assert!(may(&mut world, ANN, Verb::Requeue { hold: false }, job));
    assert!(may(&mut world, ANN, Verb::Requeue { hold: true }, job));
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!(world.cluster.job(job).unwrap().held, Some(HeldBy::Coordinator));
}

/// CVE-2025-43904: who was delegated some rights could raise them.
#[test]
fn who_steers_for_others_gives_nobody_more_than_they_could_have_themselves() {
    let mut world = World::joined();
    world.submit(1, ANN, JobSpec { time_limit: Some(TimeAsk::Limit(gq_model::Seconds(60))), ..spec("") });
    world.turn();
    go_on(&mut world);
    let (runs, waits) = (JobId(1), waiting(&mut world));
    for by in [ANN, CAROL, OLIVE] {
        for (job, change) in [
            (waits, Change::Priority(1 << 40)),
            (waits, Change::Nice(-1)),
            (runs, Change::TimeLimit(TimeAsk::Limit(gq_model::Seconds(3600)))),
            (runs, Change::TimeLimitBy(60)),
        ] {
            assert!(!may(&mut world, by, Verb::Update(vec![change.clone()]), job), "{by}: {change:?}");
        }
        assert!(may(&mut world, by, Verb::Update(vec![Change::Nice(5)]), waits));
    }
    // Nor is a request of theirs more than one of anybody's.
    for (n, by) in [CAROL, OLIVE].into_iter().enumerate() {
        for (m, asked) in
            [JobSpec { nice: -1, ..spec("") }, JobSpec { account: Some("optics".into()), ..spec("") }]
                .into_iter()
                .enumerate()
        {
            let client = world.submit(100 + 2 * n as u8 + m as u8, by, asked);
            world.turn();
            assert_eq!(failures(&world, client)[0].refusal.kind, RefusalKind::NotPermitted);
        }
    }
    // What an admin made better its user may still change otherwise.
    assert!(may(&mut world, ROOT, Verb::Update(vec![Change::Nice(-5)]), waits));
    assert!(may(
        &mut world,
        ANN,
        Verb::Update(vec![Change::TimeLimit(TimeAsk::Limit(gq_model::Seconds(60)))]),
        waits
    ));
    assert_eq!(world.cluster.job(waits).unwrap().priority, 5);
    // What an admin has said of its place nobody undoes, better or worse.
    for change in [Change::Nice(-5), Change::Priority(-5000), Change::Priority(5000)] {
        assert!(may(&mut world, ROOT, Verb::Update(vec![change.clone()]), waits));
        let said = world.cluster.job(waits).unwrap().priority;
        for by in [ANN, CAROL, OLIVE] {
            for nice in [0, 7] {
                let done = may(&mut world, by, Verb::Update(vec![Change::Nice(nice)]), waits);
                assert!(!done || matches!(change, Change::Nice(_)), "{by}: {change:?}");
            }
        }
        let now = world.cluster.job(waits).unwrap().priority;
        assert!(now == said || matches!(change, Change::Nice(_)), "{change:?}");
        assert!(may(&mut world, ROOT, Verb::Update(vec![Change::Nice(0)]), waits));
    }
}

#[test]
fn a_coordinator_steers_the_jobs_of_his_accounts_and_no_others() {
    let mut world = World::joined();
    let job = waiting(&mut world);
    world.submit(9, BOB, JobSpec { hold: true, ..spec("") });
    world.turn();
    let without = world.cluster.last_job();
    assert!(!may(&mut world, CAROL, Verb::Cancel, without), "it is of no account");
    assert!(!may(&mut world, BOB, Verb::Cancel, job));
    let all = Selection { partitions: vec!["main".into()], ..Selection::default() };
    let client = world.command(CAROL, Verb::Cancel, all);
    world.turn();
    assert_eq!(world.post.replies[&client], Answer::Done { count: 1, failures: vec![] });
    assert!(world.cluster.job(job).is_none() && world.cluster.job(without).is_some());
    // What has ended is its user's still.
    assert_eq!(why(&mut world, BOB, Verb::Cancel, job).unwrap().0, RefusalKind::NotPermitted);
    assert_eq!(why(&mut world, BOB, Verb::Hold, job).unwrap().0, RefusalKind::NotPermitted);
    assert!(may(&mut world, CAROL, Verb::Cancel, job));
}

#[test]
fn nodes_are_drained_by_operators_and_fenced_by_admins() {
    let mut world = World::joined();
    for (by, drains, fences) in
        [(ANN, false, false), (CAROL, false, false), (OLIVE, true, false), (ROOT, true, true)]
    {
        for (verb, may) in [
            (NodeVerb::Drain("fan".into()), drains),
            (NodeVerb::Resume, drains),
            (NodeVerb::Fence, fences),
            (NodeVerb::Forget, fences),
        ] {
            let client = world.steer(by, 0, verb.clone());
            world.turn();
            let refused =
                failures(&world, client).iter().any(|f| f.refusal.kind == RefusalKind::NotPermitted);
            assert_eq!(refused, !may, "{by}: {verb:?}");
        }
    }
}

#[test]
fn what_is_hidden_is_answered_as_what_never_was() {
    let mut world = World::joined();
    world.policy.private = Private { jobs: true, ..Private::default() };
    let (live, ended) = (waiting(&mut world), waiting(&mut world));
    assert!(may(&mut world, ANN, Verb::Cancel, ended));
    let never = JobId(77);
    let verbs = [
        Verb::Cancel,
        Verb::Signal(10, gq_model::SignalTo::All),
        Verb::Hold,
        Verb::Release,
        Verb::Requeue { hold: false },
        Verb::Suspend,
        Verb::Continue,
        Verb::Update(vec![Change::Nice(5)]),
    ];
    for verb in verbs {
        for job in [live, ended, never] {
            for tasks in [None, Some([0, 7].into_iter().collect())] {
                for partitions in [vec![], vec!["high".into()]] {
                    let jobs = vec![JobRef { job, tasks: tasks.clone() }];
                    let client = world.command(
                        BOB,
                        verb.clone(),
                        Selection { jobs, partitions, ..Selection::default() },
                    );
                    world.turn();
                    let told = failures(&world, client);
                    let [Failure { what, refusal }] = &told[..] else { panic!("{verb:?} {job}: {told:?}") };
                    assert_eq!((what, refusal.kind), (&job.to_string(), RefusalKind::NoSuchJob), "{verb:?}");
                    assert_eq!((&refusal.text, &refusal.hint), (&format!("there is no job {job}"), &None));
                }
            }
        }
    }
    // Words find nothing, be its user named.
    for users in [vec![], vec![ANN]] {
        let select = Selection { users, partitions: vec!["main".into()], ..Selection::default() };
        let client = world.command(BOB, Verb::Cancel, select);
        world.turn();
        assert_eq!(world.post.replies[&client], Answer::Done { count: 0, failures: vec![] });
    }
    // To wait for it tells that it was given, and nothing of its tasks.
    for (n, (asked, kind)) in [
        (format!("afterany:{live}"), None),
        (format!("afterany:{ended}"), None),
        (format!("afterany:{live}_0"), Some(RefusalKind::Policy)),
        (format!("afterany:{ended}_0"), Some(RefusalKind::Policy)),
        (format!("afterany:{never}"), Some(RefusalKind::NoSuchJob)),
    ]
    .into_iter()
    .enumerate()
    {
        let dependency = Some(asked.parse().unwrap());
        let client = world.submit(50 + n as u8, BOB, JobSpec { dependency, hold: true, ..spec("") });
        world.turn();
        let refused = match &world.post.replies[&client] {
            Answer::Submitted(_) => None,
            Answer::Refused(refusal) => Some(refusal.kind),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, kind, "{asked}");
    }
    // Who may steer it sees it.
    for by in [CAROL, OLIVE, ROOT] {
        assert!(may(&mut world, by, Verb::Hold, live));
    }
}
