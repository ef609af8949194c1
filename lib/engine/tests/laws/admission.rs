//! Stories of requests that are taken as something, or refused in words that say what there is.

use crate::{
    node::card,
    site::partition,
    world::{ANN, BOB, ROOT, World, refusal, spec},
};
use gq_cluster::{Access, Job, Limits, Memory, Partition};
use gq_engine::{Actor, Answer, Input, RefusalKind};
use gq_model::{JobId, MiB, Placement, Seconds, Slice, Uid};
use std::{collections::BTreeSet, sync::Arc};

/// What becomes of a request: the job, or the refusal's kind, text and hint.
fn asked(world: &mut World, uid: Uid, words: &str) -> Result<Arc<Job>, (RefusalKind, String, String)> {
    let token = u8::try_from(world.disk.rows.tokens.len()).unwrap() + 1;
    let client = world.submit(token, uid, spec(words));
    world.turn();
    match &world.post.replies[&client] {
        Answer::Submitted(id) => {
            let event = world.disk.rows.events.iter().find_map(|event| match event {
                gq_cluster::Event::Submitted(new) if new.id == *id => Some(new.clone()),
                _ => None,
            });
            let mut fresh = gq_cluster::Cluster::default();
            fresh.apply(&gq_cluster::Event::Submitted(event.unwrap())).unwrap();
            Ok(Arc::clone(fresh.job(*id).unwrap()))
        }
        Answer::Refused(why) => Err((why.kind, why.text.clone(), why.hint.clone().unwrap_or_default())),
        other => panic!("{other:?}"),
    }
}

/// The words of a refusal, with the hint behind them.
fn told(world: &mut World, uid: Uid, words: &str) -> String {
    let (_, text, hint) = asked(world, uid, words).expect_err("it was taken");
    format!("{text} | {hint}")
}

#[test]
fn a_job_runs_on_the_account_its_user_names_or_on_his_first_one() {
    let mut world = World::joined();
    let account = |job: Arc<Job>| job.payer.account.clone();
    assert_eq!(account(asked(&mut world, ANN, "").unwrap()).as_deref(), Some("optics"));
    assert_eq!(account(asked(&mut world, BOB, "").unwrap()), None);
    assert_eq!(account(asked(&mut world, ANN, r#""account":"optics""#).unwrap()).as_deref(), Some("optics"));
    let (kind, text, hint) = asked(&mut world, ANN, r#""account":"physics""#).unwrap_err();
    assert_eq!(kind, RefusalKind::NotPermitted);
    assert_eq!(text, "--account=physics: you are no member of this account");
    assert_eq!(hint, "your accounts: optics");
    let (kind, text, hint) = asked(&mut world, BOB, r#""account":"\u001b[31m""#).unwrap_err();
    assert_eq!(kind, RefusalKind::Policy);
    assert_eq!(text, r"--account=\u{1b}[31m: there is no such account");
    assert_eq!(hint, "you are a member of none; an admin names members in the conf");
    // Without accounts in the conf it is a label that says nothing.
    world.policy.accounts.clear();
    assert_eq!(account(asked(&mut world, BOB, r#""account":"thesis""#).unwrap()).as_deref(), Some("thesis"));
    assert_eq!(account(asked(&mut world, BOB, r#""account":"""#).unwrap()), None);
}

#[test]
fn an_admin_may_name_any_account() {
    let mut world = World::joined();
    let client = world.submit(1, BOB, spec(r#""account":"physics""#));
    let Some(Input::Submit { submission, .. }) = world.inputs.last_mut() else { panic!("it was handed in") };
    submission.by = Actor { uid: BOB, role: gq_cluster::Role::Admin };
    world.turn();
    assert_eq!(world.post.replies[&client], Answer::Submitted(JobId(1)));
}

#[test]
fn a_partition_is_for_whom_its_lists_name() {
    let mut world = World::joined();
    let set = |uids: &[Uid]| uids.iter().copied().collect::<BTreeSet<Uid>>();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    let mut of = |access: Access, uid: Uid| {
        world.policy.partitions[1] = Partition { access, ..partition("high") };
        asked(&mut world, uid, r#""partition":"high""#).map(drop)
    };
    let refused = |what: &str| {
        let text = format!("partition high: {what}");
        Err((RefusalKind::NotPermitted, text, "partitions you may use so: main low".to_string()))
    };
    let denied = Access { deny_users: set(&[ANN]), allow_users: Some(set(&[ANN])), ..Access::default() };
    assert_eq!(of(denied, ANN), refused("you may not use it"));
    let others = Access { allow_users: Some(set(&[BOB])), ..Access::default() };
    assert_eq!(of(others.clone(), ANN), refused("it is for other users"));
    assert_eq!(of(others, BOB), Ok(()));
    // What holds for an account holds for those below it.
    let physics = Access { allow_accounts: Some(names(&["physics"])), ..Access::default() };
    assert_eq!(of(physics.clone(), ANN), Ok(()));
    assert_eq!(of(physics, BOB), refused("it is for members of some accounts, and the job has none"));
    let denied = Access { deny_accounts: names(&["physics"]), ..Access::default() };
    assert_eq!(of(denied.clone(), ANN), refused("account optics may not use it"));
    assert_eq!(of(denied, BOB), Ok(()));
    let biology = Access { allow_accounts: Some(names(&["biology"])), ..Access::default() };
    assert_eq!(of(biology, ANN), refused("it is for other accounts than optics"));
}

#[test]
fn a_qos_is_one_of_the_partitions_and_its_time_and_limits_hold_as_well() {
    let mut world = World::joined();
    let job = asked(&mut world, ANN, r#""qos":"quick""#).unwrap();
    assert_eq!((job.payer.qos.as_deref(), job.shape.time_limit), (Some("quick"), Some(Seconds(120))));
    assert_eq!(
        told(&mut world, ANN, r#""qos":"quick","time_limit":121"#),
        "--time=2:01: QOS quick allows 2:00 at most | "
    );
    assert_eq!(
        told(&mut world, ANN, r#""qos":"gold""#),
        "--qos=gold: there is no such QOS | QOS of partition main: quick"
    );
    assert_eq!(
        told(&mut world, ANN, r#""qos":"quick","cpus_per_task":3"#),
        "QOS quick: a job may ask for 2 cpus at most (max_cpus_per_job), and this one asks for 3 | "
    );
    world.policy.partitions[0].allow_qos = Some(Vec::new());
    assert_eq!(
        told(&mut world, ANN, r#""qos":"quick""#),
        "--qos=quick: partition main does not have this QOS | leave it out: partition main has no QOS"
    );
    world.policy.partitions[0].qos = Some("quick".into());
    assert_eq!(asked(&mut world, ANN, "").unwrap().payer.qos.as_deref(), Some("quick"));
}

#[test]
fn without_limit_means_as_long_as_partition_and_qos_allow_and_nothing_said_the_usual_time() {
    let mut world = World::joined();
    let mut limit = |max_time: Option<u64>, words: &str| {
        world.policy.partitions[0].max_time = max_time.map(Seconds);
        asked(&mut world, BOB, words).unwrap().shape.time_limit.map(|limit| limit.0)
    };
    let unlimited = r#""time_limit":"UNLIMITED""#;
    assert_eq!((limit(None, ""), limit(None, unlimited)), (Some(600), None));
    assert_eq!((limit(Some(3600), ""), limit(Some(3600), unlimited)), (Some(600), Some(3600)));
    assert_eq!(limit(Some(60), unlimited), Some(60));
    assert_eq!(limit(Some(3600), &format!(r#""qos":"quick",{unlimited}"#)), Some(120));
    assert_eq!(limit(None, r#""time_limit":7200"#), Some(7200));
}

#[test]
fn more_live_jobs_than_a_limit_allows_are_refused_within_a_turn_too() {
    let mut world = World::joined();
    let clients: Vec<_> = (1..7).map(|token| world.submit(token, ANN, spec(r#""qos":"quick""#))).collect();
    let bob = world.submit(9, BOB, spec(r#""qos":"quick""#));
    world.turn();
    let refused: Vec<_> = clients.iter().filter_map(|client| refusal(&world, *client)).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(
        refused[0].text,
        "QOS quick: of one user 4 jobs may live at a time (max_submit_per_user), and 4 do"
    );
    assert_eq!(refusal(&world, bob), None);
    world.policy.partitions[2].limits = Limits { max_submit: Some(1), ..Limits::default() };
    asked(&mut world, BOB, r#""partition":"low""#).unwrap();
    assert_eq!(
        told(&mut world, ANN, r#""partition":"low""#),
        "partition low: 1 jobs may live at a time (max_submit), and 1 do | submit it when one has ended"
    );
    // An account's limit counts what those below it have.
    world.policy.accounts[0].limits = Limits { max_submit: Some(0), ..Limits::default() };
    assert!(told(&mut world, ANN, "").starts_with("account physics: 0 jobs may live at a time"));
}

#[test]
fn a_slice_counts_as_its_share_of_a_card_where_a_job_is_bounded() {
    let mut world = World::joined();
    world.policy.partitions[0].limits = Limits { max_cards_per_job: Some(500), ..Limits::default() };
    for words in [
        r#""count":1,"profile":"3g.40gb""#,
        r#""count":4,"profile":"1g.10gb""#,
        r#""count":1,"memory":20480"#,
    ] {
        asked(&mut world, ANN, &format!(r#""cards":{{{words}}}"#)).unwrap();
    }
    for (words, count) in [
        (r#""count":1"#, "1"),
        (r#""count":5,"profile":"1g.10gb""#, "0.625"),
        (r#""count":1,"profile":"7g.80gb""#, "1"),
    ] {
        let text = told(&mut world, ANN, &format!(r#""cards":{{{words}}}"#));
        let start =
            "partition main: a job may ask for 0.5 cards at most (max_cards_per_job), and this one asks for";
        assert_eq!(text, format!("{start} {count} | a slice counts as its share of a card"));
    }
}

#[test]
fn licences_are_those_of_the_cluster_and_not_more_than_there_are() {
    let mut world = World::joined();
    let licences = |words: &str| format!(r#""licences":[{words}]"#);
    let job = asked(&mut world, ANN, &licences(r#"{"name":"matlab","count":2}"#)).unwrap();
    assert_eq!(job.shape.licences.len(), 1);
    assert_eq!(
        told(&mut world, ANN, &licences(r#"{"name":"matlab","count":3}"#)),
        "--licenses=matlab:3: there are 2 of it | licences here: matlab:2"
    );
    assert_eq!(
        told(&mut world, ANN, &licences(r#"{"name":"maple","count":1}"#)),
        "--licenses=maple:1: there is no such licence | licences here: matlab:2"
    );
    // A job file that names one twice means both.
    let twice = licences(r#"{"name":"matlab","count":1},{"name":"matlab","count":2}"#);
    assert!(told(&mut world, ANN, &twice).starts_with("--licenses=matlab:3:"));
}

#[test]
fn slices_that_no_card_has_or_could_have_are_refused_with_those_there_are() {
    let mut world = World::joined();
    let slices = |profile: &str, count: u32| format!(r#""cards":{{"count":{count},"profile":"{profile}"}}"#);
    let here = "profiles of partition main: 1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb";
    assert_eq!(
        told(&mut world, ANN, &slices("9g.80gb", 1)),
        format!("--slice=9g.80gb: no card here has the profile 9g.80gb | {here}")
    );
    assert_eq!(
        told(&mut world, ANN, &slices("2g.20gb", 4)),
        "--slice=2g.20gb:4: no node of partition main holds more than 3 of them together | \
         ask for fewer in one job, or submit several jobs"
    );
    let job = asked(&mut world, ANN, &slices("2G.20GB", 3)).unwrap();
    assert_eq!(job.shape.demand.cards.profile.as_deref(), Some("2g.20gb"));
    // Cards elsewhere are no help, and cards that could be cut so are none where they are not to be.
    let only = ["ws0".parse().unwrap()].into_iter().collect();
    world.policy.partitions[1] = Partition { nodes: Some(only), ..partition("high") };
    world.policy.partitions[2] = Partition { recut: false, ..partition("low") };
    let on = |partition: &str| format!(r#"{},"partition":"{partition}""#, slices("3g.40gb", 1));
    assert_eq!(
        told(&mut world, ANN, &on("high")),
        "--slice=3g.40gb: no card of partition high has this profile | no card of partition high is cut into slices"
    );
    world.policy.partitions[0].recut = false;
    world.nodes[1].cards[0].slices.clear();
    world.nodes[1].join();
    world.send_reports(1, usize::MAX);
    world.turn();
    assert_eq!(
        told(&mut world, ANN, &on("low")),
        "--slice=3g.40gb: no card is cut so at present, and partition low does not have its cards cut anew | \
         no card of partition low is cut into slices"
    );
    // Once one is cut so, it can be had.
    world.nodes[1].cards[0] = cut(3, 4);
    world.nodes[1].join();
    world.send_reports(1, usize::MAX);
    world.turn();
    asked(&mut world, ANN, &on("low")).unwrap();
}

/// A card that is cut into one slice of so many compute slices, at this place.
fn cut(compute: u8, start: u8) -> gq_model::Card {
    let mut whole = card(0, true);
    let grid = whole.grid.clone().unwrap();
    let profile = grid.profiles.iter().find(|profile| profile.compute == compute).unwrap();
    whole.slices.push(Slice {
        profile: profile.name.clone(),
        uuid: Some("MIG-1".into()),
        memory: profile.memory,
        gpu_instance: None,
        compute_instance: None,
        placement: Some(Placement { start, size: profile.size }),
        health: gq_model::CardHealth::Good,
    });
    whole
}

#[test]
fn what_is_wished_and_what_there_is_are_said_of_cards_and_slices() {
    let mut world = World::joined();
    let text = told(&mut world, ANN, r#""cards":{"count":2,"memory":500000},"ntasks":2"#);
    assert_eq!(
        text,
        "no node of partition main could ever run this: 2 cpus, 2G of memory, \
         2 slices or cards with at least 500000M on one node | \
         what there is: ws0: 4 cpus, 4G, 2 A100 (80G); ws1: 4 cpus, 4G, 1 A100 (80G) for slices 1g.10gb \
         1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb, 1 A100 (80G)"
    );
    let text = told(&mut world, ANN, r#""cards":{"count":1,"profile":"1g.10gb"},"cpus_per_task":5"#);
    assert!(text.starts_with(
        "no node of partition main could ever run this: 5 cpus, 5G of memory, 1 slice 1g.10gb on"
    ));
    let text = told(&mut world, ANN, r#""nodelist":["ws9"],"exclude":["ws0"]"#);
    assert!(text.contains("1 cpu, 1G of memory on one node among ws9 other than ws0 |"), "{text}");
}

#[test]
fn cards_asked_for_by_memory_may_be_slices_when_each_process_gets_one() {
    let mut world = World::joined();
    for (words, slices) in [
        (r#""cards":{"count":1,"memory":20480}"#, true),
        (r#""cards":{"count":2,"memory":20480}"#, false),
        (r#""cards":{"count":2,"memory":20480},"ntasks":2"#, true),
        (r#""cards":{"count":1}"#, false),
        (r#""cards":{"count":1,"profile":"1g.10gb"}"#, false),
        (r#""cards":{"count":0,"memory":20480}"#, false),
    ] {
        assert_eq!(asked(&mut world, ANN, words).unwrap().shape.slices_by_memory, slices, "{words}");
    }
    world.policy.partitions[0].slices_by_memory = false;
    let job = asked(&mut world, ANN, r#""cards":{"count":1,"memory":20480}"#).unwrap();
    assert!(!job.shape.slices_by_memory);
}

#[test]
fn a_share_is_taken_where_the_partition_and_some_card_allow_it() {
    let mut world = World::sharing(4);
    let share = |memory: u64| format!(r#""cards":{{"count":1,"share":{memory}}}"#);
    let ask = asked(&mut world, ANN, &share(30_000)).unwrap().shape.demand.cards.clone();
    assert_eq!((ask.count, ask.share), (1, Some(MiB(30_000))));
    // Whatever a client writes beside it.
    let odd = r#""cards":{"count":5,"share":1024,"memory":7,"profile":"1g.10gb"}"#;
    let ask = asked(&mut world, ANN, odd).unwrap().shape.demand.cards.clone();
    assert_eq!((ask.count, ask.share, ask.memory, ask.profile), (1, Some(MiB(1024)), None, None));
    let text = told(&mut world, ANN, &share(100_000));
    assert!(text.contains("100000M of a shared card on one node |"), "{text}");
    assert!(text.contains("1 A100 (80G) shared in 4 parts"), "{text}");
    world.policy.partitions[0].limits.max_cards_per_job = Some(400);
    asked(&mut world, ANN, &share(20_480)).unwrap();
    assert!(told(&mut world, ANN, &share(20_481 + 1024)).contains("max_cards_per_job"));
    world.policy.partitions[0].shares = false;
    let text = told(&mut world, ANN, &share(10_240));
    assert_eq!(
        text,
        "--gpu-share=10G: jobs of partition main do not share cards | partitions whose jobs do: high low"
    );
    let on_low = format!(r#"{},"partition":"low""#, share(10_240));
    asked(&mut world, ANN, &on_low).unwrap();
    world.policy.partitions.iter_mut().for_each(|partition| partition.shares = false);
    assert!(
        told(&mut world, ANN, &on_low).ends_with("gpu_share = true of a [[partition]] of the conf allows it")
    );
    // Where no card is shared it is impossible, whatever the partition says.
    let mut world = World::joined();
    assert!(told(&mut world, ANN, &share(1024)).contains("1G of a shared card"));
}

#[test]
fn memory_for_each_card_counts_slices_and_priority_is_minus_nice() {
    let mut world = World::joined();
    world.policy.partitions[0].priority = 1000;
    let words = r#""cards":{"count":3,"profile":"1g.10gb"},"memory":{"PerCard":100},"nice":7"#;
    let job = asked(&mut world, ANN, words).unwrap();
    assert_eq!((job.shape.demand.memory, job.priority), (Memory::Amount(MiB(300)), -7));
}

#[test]
fn a_reservation_is_for_those_it_admits_and_not_for_more_than_it_takes() {
    let mut world = World::joined();
    let booking = world.booking("course", 1, Some(vec![1]), (100, 5000));
    let repair = gq_cluster::Booking { name: "repair".into(), maintenance: true, ..booking.clone() };
    world.book(booking, false);
    world.book(repair, false);
    world.turn();
    let job = asked(&mut world, ANN, r#""reservation":"course""#).unwrap();
    assert_eq!(job.shape.reservation.as_deref(), Some("course"));
    assert_eq!(
        told(&mut world, BOB, r#""reservation":"course""#),
        "--reservation=course: this reservation is for others | there is none that you may use"
    );
    assert_eq!(
        told(&mut world, ANN, r#""reservation":"curse""#),
        "--reservation=curse: there is no such reservation | reservations you may use: course"
    );
    assert!(
        told(&mut world, ANN, r#""reservation":"repair""#)
            .starts_with("--reservation=repair: it is a maintenance window: nobody runs in it")
    );
    let text = told(&mut world, ANN, r#""reservation":"course","cards":{"count":2}"#);
    assert!(
        text.contains(
            "no node of reservation course could ever run this: 1 cpu, 1G of memory, 2 whole cards"
        )
    );
    assert!(text.ends_with("what there is: ws1: 4 cpus, 4G, 1 A100 (80G)"), "{text}");
    world.now = world.now.after(Seconds(6000));
    assert!(told(&mut world, ANN, r#""reservation":"course""#).contains("this reservation is over"));
    assert_eq!(refused_kind(&mut world, ROOT), RefusalKind::NotPermitted);
}

fn refused_kind(world: &mut World, uid: Uid) -> RefusalKind {
    asked(world, uid, "").unwrap_err().0
}

#[test]
fn a_job_that_a_reservation_is_too_short_for_is_told_how_long_that_is() {
    let mut world = World::joined();
    let booking = world.booking("course", 1, None, (100, 400));
    world.book(booking, false);
    world.turn();
    let asks = |limit: u64| format!(r#""reservation":"course","time_limit":{limit}"#);
    asked(&mut world, ANN, &asks(300)).unwrap();
    assert_eq!(
        told(&mut world, ANN, &asks(301)),
        "--reservation=course: it lasts 5:00, and the job's time limit is 5:01 | --time=5:00 or less would do"
    );
    // The limit of those that name none counts as well.
    assert!(told(&mut world, ANN, r#""reservation":"course""#).contains("the job's time limit is 10:00"));
    world.policy.partitions[0].default_time = None;
    assert_eq!(
        told(&mut world, ANN, r#""reservation":"course""#),
        "--reservation=course: it lasts 5:00, and the job has no time limit | --time=5:00 or less would do"
    );
    // Once it has begun, what is left of it counts.
    world.now = world.now.after(Seconds(300));
    asked(&mut world, ANN, &asks(100)).unwrap();
    assert_eq!(
        told(&mut world, ANN, &asks(101)),
        "--reservation=course: it lasts only 1:40 more, and the job's time limit is 1:41 | --time=1:40 or less would do"
    );
}

/// What sets a limit.
type Change = fn(&mut Limits);

#[test]
fn a_job_that_is_past_a_limit_all_alone_is_refused_with_that_limit() {
    let mut world = World::joined();
    let limits = |change: Change| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let cases: [(Change, &str, &str); 6] = [
        (|l| l.max_jobs = Some(0), "", "no job may run (max_jobs)"),
        (|l| l.max_jobs_per_user = Some(0), "", "of one user no job may run (max_jobs_per_user)"),
        (
            |l| l.max_cpus = Some(1),
            r#""cpus_per_task":2"#,
            "all jobs together may have 1 cpus, and this job asks for 2 (max_cpus)",
        ),
        (
            |l| l.max_cpus_per_user = Some(1),
            r#""cpus_per_task":2"#,
            "one user may have 1 cpus, and this job asks for 2 (max_cpus_per_user)",
        ),
        (
            |l| l.max_cards = Some(1500),
            r#""cards":{"count":2}"#,
            "all jobs together may have 1.5 cards, and this job asks for 2 (max_cards)",
        ),
        (
            |l| l.max_cards_per_user = Some(300),
            r#""cards":{"count":3,"profile":"1g.10gb"}"#,
            "one user may have 0.3 cards, and this job asks for 0.375 (max_cards_per_user)",
        ),
    ];
    for (change, words, why) in cases {
        world.policy.partitions[2].limits = limits(change);
        world.policy.qos[0].limits = Limits::default();
        let on_low = format!(r#""partition":"low"{}{words}"#, if words.is_empty() { "" } else { "," });
        assert_eq!(told(&mut world, ANN, &on_low), format!("partition low: {why} | it could never start"));
        world.policy.partitions[2].limits = Limits::default();
        world.policy.qos[0].limits = limits(change);
        let quick = format!(r#"{on_low},"qos":"quick""#);
        assert!(told(&mut world, ANN, &quick).starts_with(&format!("QOS quick: {why}")));
        world.policy.qos[0].limits = Limits::default();
        // What is above an account is above those below it.
        world.policy.accounts[0].limits = limits(change);
        assert!(told(&mut world, ANN, &on_low).starts_with(&format!("account physics: {why}")));
        world.policy.accounts[0].limits = Limits::default();
    }
    // What is just within them is taken, whatever others have at present.
    world.policy.partitions[2].limits = limits(|l| (l.max_cards, l.max_cpus) = (Some(375), Some(2)));
    for _ in 0..2 {
        let slices = r#""partition":"low","cpus_per_task":2,"cards":{"count":3,"profile":"1g.10gb"}"#;
        asked(&mut world, ANN, slices).unwrap();
    }
    asked(&mut world, ANN, r#""partition":"low""#).unwrap();
}

#[test]
fn a_reservation_for_an_account_is_for_those_below_it_and_for_no_others() {
    let mut world = World::joined();
    let of = |world: &World, account: &str| gq_cluster::Booking {
        users: Vec::new(),
        accounts: vec![account.into()],
        ..world.booking("course", 1, None, (100, 5000))
    };
    let physics = of(&world, "physics");
    let optics = of(&world, "optics");
    assert!(optics.admits_below(&world.policy, ANN, Some("optics")));
    assert!(!optics.admits_below(&world.policy, ANN, Some("physics")), "nothing goes up");
    assert!(!physics.admits_below(&world.policy, ANN, None));
    world.book(physics, false);
    world.turn();
    let job = asked(&mut world, ANN, r#""reservation":"course""#).unwrap();
    assert_eq!(job.shape.reservation.as_deref(), Some("course"));
    assert!(told(&mut world, BOB, r#""reservation":"course""#).contains("this reservation is for others"));
    // Where no accounts are configured, a name is a name.
    world.policy.accounts.clear();
    asked(&mut world, ANN, r#""account":"physics","reservation":"course""#).unwrap();
    assert!(
        told(&mut world, ANN, r#""account":"optics","reservation":"course""#)
            .contains("this reservation is for others")
    );
}

#[test]
fn a_job_that_is_only_tested_starts_not_before_it_may_and_held_nobody_knows_when() {
    let mut world = World::joined();
    let mut asks = 1_000_000;
    let mut start = |words: &str| {
        asks += 1;
        let client = gq_engine::ClientId(asks);
        world.inputs.push(Input::TestOnly {
            client,
            by: Actor { uid: ANN, role: gq_cluster::Role::User },
            spec: Box::new(spec(words)),
        });
        world.turn();
        match &world.post.replies[&client] {
            Answer::Tested { start, .. } => start.as_ref().map(|(_, at)| *at),
            other => panic!("{other:?}"),
        }
    };
    let now = gq_model::Timestamp::from_secs(1_000_000);
    let later = now.after(Seconds(5000));
    let begin = |at: gq_model::Timestamp| format!(r#""begin":{}"#, serde_json::to_string(&at).unwrap());
    assert_eq!(start(""), Some(now));
    assert_eq!(start(&begin(later)), Some(later));
    assert_eq!(start(&begin(gq_model::Timestamp::from_secs(5))), Some(now));
    assert_eq!(start(r#""hold":true"#), None);
}

#[test]
fn an_image_is_a_name_and_is_taken_where_nodes_can_run_it() {
    let mut world = World::joined();
    assert!(asked(&mut world, ANN, r#""container":"docker://debian:12""#).is_ok());
    for image in ["", "--privileged", "a\\nb"] {
        let (kind, text, _) = asked(&mut world, ANN, &format!(r#""container":"{image}""#)).unwrap_err();
        assert_eq!((kind, text.starts_with("--container: the name")), (RefusalKind::Usage, true), "{image}");
    }
    world.policy.containers = false;
    let told = told(&mut world, ANN, r#""container":"debian""#);
    assert!(
        told.contains("nothing here runs scripts in images | an admin says how in [container]"),
        "{told}"
    );
}
