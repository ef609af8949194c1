//! Stories of advance reservations, promises, and what runs cost.

use crate::{
    node::Trouble,
    world::{ANN, BOB, ROOT, World, actor, go_on, named, refusal, report, spec},
};
use gq_cluster::{Booked, Booking, Event, UNLIMITED, Usage};
use gq_engine::{Answer, ClientId, Input, Refusal, RefusalKind, Verb};
use gq_model::{Fault, JobId, RunKey, RunNumber, Seconds, TaskIndex, Timestamp, Uid};

fn book(world: &mut World, uid: Uid, booking: Booking, replace: bool, ignore_jobs: bool) -> Option<Refusal> {
    let client = ClientId(1_000_000);
    let booking = Box::new(booking);
    world.inputs.push(Input::Book { client, by: actor(uid), booking, replace, ignore_jobs });
    world.turn();
    refusal(world, client)
}

fn text(refusal: Option<Refusal>) -> String {
    refusal.map(|why| why.text).unwrap_or_default()
}

#[test]
fn only_admins_reserve_and_only_what_is_there() {
    let mut world = World::joined();
    let good = world.booking("course", 0, Some(vec![0]), (100, 200));
    let by_ann = book(&mut world, ANN, good.clone(), false, false).unwrap();
    assert_eq!(by_ann.kind, RefusalKind::NotPermitted);
    let mut refused = |booking: Booking| text(book(&mut world, ROOT, booking, false, false));
    let with = |change: fn(&mut Booking)| {
        let mut booking = good.clone();
        change(&mut booking);
        booking
    };
    for (booking, why) in [
        (with(|b| b.name = "a b".into()), "a b: a reservation's name is 1 to 64 letters, digits, -, _ and ."),
        (with(|b| b.name = "x".repeat(65)), "a reservation's name is 1 to 64"),
        (with(|b| b.end = b.start), "reservation course ends before it begins"),
        (
            with(|b| (b.start, b.end) = (Timestamp(1), Timestamp(2))),
            "reservation course would be over already",
        ),
        (with(|b| b.takes.clear()), "reservation course takes 1 to 16384 nodes"),
        (with(|b| b.takes.push(b.takes[0].clone())), "reservation course names a node twice"),
        (with(|b| b.takes[0].node = "ws9".parse().unwrap()), "there is no node ws9"),
        (with(|b| b.takes[0].cards = Some(vec![7])), "node ws0 has no card 7"),
        (with(|b| b.takes[0].cards = Some(vec![1, 1])), "cards of node ws0: none, or one twice"),
        (with(|b| b.accounts = vec!["biology".into()]), "there is no account biology"),
    ] {
        let told = refused(booking);
        assert!(told.contains(why), "{told:?} is not {why:?}");
    }
    assert_eq!(refused(good.clone()), "");
    assert_eq!(world.cluster.bookings().count(), 1);
}

#[test]
fn what_is_reserved_is_not_reserved_again_but_maintenance_comes_upon_anything() {
    let mut world = World::joined();
    let first = world.booking("course", 0, Some(vec![0]), (100, 200));
    assert_eq!(book(&mut world, ROOT, first.clone(), false, false), None);
    let mut refused =
        |booking: &Booking, replace| text(book(&mut world, ROOT, booking.clone(), replace, false));
    assert_eq!(refused(&first, false), "there is a reservation course already");
    assert_eq!(refused(&first, true), "");
    let other = |cards: Option<Vec<u32>>| Booking {
        name: "fair".into(),
        takes: vec![Booked { node: "ws0".parse().unwrap(), cards }],
        ..first.clone()
    };
    let clash = "reservation course has some of that in the same time";
    assert_eq!(refused(&other(None), false), clash);
    assert_eq!(refused(&other(Some(vec![0, 1])), false), clash);
    assert_eq!(refused(&Booking { maintenance: true, name: "fans".into(), ..other(None) }, false), "");
    let later = Booking { start: first.end, end: first.end.after(Seconds(10)), ..other(None) };
    assert_eq!(refused(&later, false), "");
    assert_eq!(refused(&other(Some(vec![1])), true), "");
}

#[test]
fn jobs_that_could_still_run_when_it_begins_are_named_unless_they_are_let_run_on() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""cards":{"count":1},"nodelist":["ws0"],"time_limit":300"#));
    world.submit(2, ANN, spec(r#""nodelist":["ws0"],"time_limit":60"#));
    world.turn();
    let held = world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)].cards[0].index;
    let whole = |world: &World| world.booking("course", 0, None, (100, 5000));
    let of_card = |world: &World, card| world.booking("course", 0, Some(vec![card]), (100, 5000));
    let (first, second) = (whole(&world), of_card(&world, held));
    for booking in [first, second] {
        let why = book(&mut world, ROOT, booking, true, false).unwrap();
        assert_eq!(why.text, "jobs may still run there when it begins: 1 on ws0");
        assert_eq!(why.hint.as_deref(), Some("--ignore-jobs lets them run on"));
    }
    let other_card = of_card(&world, 1 - held);
    assert_eq!(book(&mut world, ROOT, other_card, true, false), None);
    let whole = whole(&world);
    assert_eq!(book(&mut world, ROOT, whole, true, true), None);
    assert_eq!(world.cluster.bookings().count(), 1);
    assert!(UNLIMITED > Seconds(5000));
    world.settle();
}

#[test]
fn a_job_waits_for_its_reservation_and_others_keep_out_of_it_until_it_is_over() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    let course = world.booking("course", 0, None, (100, 1000));
    assert_eq!(book(&mut world, ROOT, course, false, false), None);
    world.submit(1, ANN, spec(r#""reservation":"course","time_limit":60"#));
    world.submit(2, BOB, spec(r#""time_limit":101"#));
    world.submit(3, BOB, spec(r#""time_limit":90"#));
    world.turn();
    let runs = |world: &World, job| world.cluster.job(JobId(job)).map(|job| job.runs.len());
    assert_eq!((runs(&world, 1), runs(&world, 2), runs(&world, 3)), (Some(0), Some(0), Some(1)));
    let look = world.post.outlook.as_ref().unwrap().look_again;
    assert_eq!(look, Some(world.now.after(Seconds(100))), "nobody sleeps past its beginning");
    world.now = world.now.after(Seconds(100));
    world.turn();
    assert_eq!((runs(&world, 1), runs(&world, 2)), (Some(1), Some(0)));
    world.now = world.now.after(Seconds(900));
    world.turn();
    assert_eq!((world.cluster.bookings().count(), runs(&world, 2)), (0, Some(1)));
    world.drain(1, None);
    world.settle();
}

#[test]
fn what_is_taken_back_is_free_for_all_and_what_is_not_there_is_not_taken_back() {
    let mut world = World::joined();
    let course = world.booking("course", 0, None, (0, 1000));
    book(&mut world, ROOT, course, false, false);
    let gone = world.unbook("curse");
    world.turn();
    let why = refusal(&world, gone).unwrap();
    assert_eq!(why.text, "there is no reservation curse");
    assert_eq!(why.hint.as_deref(), Some("reservations here: course"));
    let client = world.unbook("course");
    world.submit(1, BOB, spec(r#""nodelist":["ws0"]"#));
    world.turn();
    assert_eq!(world.post.replies[&client], Answer::Done { count: 1, failures: Vec::new() });
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs.len(), 1);
}

/// Two jobs run on both nodes, a third waits.
fn full() -> World {
    let mut world = World::joined();
    for token in 1..4 {
        world.submit(token, ANN, spec(r#""cpus_per_task":4,"time_limit":300"#));
    }
    world.turn();
    world
}

#[test]
fn a_job_is_promised_a_start_once_and_the_promise_is_kept_with_it() {
    let mut world = full();
    let start = world.now.after(Seconds(300));
    let first = |world: &World| world.cluster.job(JobId(3)).unwrap().first_promise;
    assert_eq!(first(&world), Some(start));
    let later = world.now.after(Seconds(900));
    world
        .inputs
        .push(Input::Promise { starts: vec![(JobId(3), later), (JobId(1), later), (JobId(9), later)] });
    world.turn();
    assert_eq!(first(&world), Some(start), "the first one counts");
    let promised: Vec<_> =
        world.disk.rows.events.iter().filter(|event| matches!(event, Event::Promised { .. })).collect();
    assert_eq!(promised, [&Event::Promised { job: JobId(3), start }], "only who waits is promised anything");
    // The plan's last word travels with the start.
    go_on(&mut world);
    go_on(&mut world);
    go_on(&mut world);
    let run = &world.cluster.job(JobId(3)).unwrap().runs[&TaskIndex(0)];
    assert_eq!(run.promised, Some(start));
}

#[test]
fn a_forecast_promises_those_that_no_reservation_was_made_for() {
    let mut world = full();
    world.submit(4, BOB, spec(r#""cpus_per_task":4"#));
    world.turn();
    assert_eq!(world.cluster.job(JobId(4)).unwrap().first_promise, None);
    let start = world.now.after(Seconds(777));
    world.inputs.push(Input::Promise { starts: vec![(JobId(4), start)] });
    world.turn();
    assert_eq!(world.cluster.job(JobId(4)).unwrap().first_promise, Some(start));
}

#[test]
fn a_run_is_charged_to_its_account_for_all_it_held_and_for_every_second_begun() {
    let mut world = World::joined();
    world.policy.half_life = Seconds(1000);
    world.disk.decays = true;
    world.submit(1, ANN, spec(r#""cards":{"count":1},"cpus_per_task":2"#));
    world.turn();
    go_on(&mut world);
    world.now = Timestamp(world.now.0 + 9_000_001);
    go_on(&mut world);
    let used = |world: &World| world.cluster.ledger().usage_of(Some("optics"), ANN);
    assert_eq!(used(&world), Usage::default(), "it is not over");
    go_on(&mut world);
    let ended = world.now;
    assert_eq!(used(&world), Usage { charge: 10 * 1020, at: ended });
    // What was used before counts half after a half-life.
    world.submit(2, ANN, spec(""));
    world.turn();
    world.now = Timestamp(ended.0 + 1_000_000_000);
    (0..3).for_each(|_| go_on(&mut world));
    assert_eq!(used(&world), Usage { charge: 5 * 1020 + 1000 * 10, at: world.now });
}

#[test]
fn a_time_limit_counts_from_no_time_that_this_clock_has_not_seen() {
    for (told, counted) in [(-5_000i64, 0), (3, 3), (7_200, 10)] {
        let mut world = World::joined();
        let begin = world.now;
        world.submit(1, ANN, spec(r#""time_limit":100"#));
        world.turn();
        world.deliver_orders(0, usize::MAX, None);
        world.now = begin.after(Seconds(10));
        let (_, key) = world.live_keys()[0];
        let at = Timestamp(begin.0 + told * 1_000_000);
        world.nodes[0].go_on(key, 0, at);
        report(&mut world);
        let run = world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)].clone();
        assert_eq!((run.started(), run.counted), (Some(at), begin.after(Seconds(counted))));
    }
}

#[test]
fn a_card_that_is_gone_fails_only_what_needs_it_and_is_waited_for() {
    let mut world = World::joined();
    let only = r#""nodelist":["ws0"],"cards":{"count":1}"#;
    for token in 1..4 {
        world.submit(token, Uid(1000 + u32::from(token)), spec(only));
    }
    let mut pauses = Vec::new();
    for _ in 0..7 {
        world.turn();
        let before = world.now;
        world.deliver_orders(0, usize::MAX, Some(Trouble::CardGone));
        report(&mut world);
        let pause = world.cluster.job(JobId(1)).and_then(|job| job.resting.get(&TaskIndex(0)).copied());
        pauses.extend(pause.map(|until| until.micros_since(before) / 1_000_000));
        world.now = world.now.after(Seconds(400));
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128]);
    assert!(world.cluster.nodes().all(|node| node.drained.is_none()));
    // One failure of another kind is one, whatever was gone before.
    world.turn();
    world.deliver_orders(0, 1, Some(Trouble::Of(Fault::Site)));
    report(&mut world);
    assert!(world.cluster.nodes().all(|node| node.drained.is_none()));
    world.settle();
}

#[test]
fn a_plan_that_came_to_nothing_is_forgotten() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""cpus_per_task":4"#));
    world.turn();
    world.submit(2, ANN, spec(r#""cpus_per_task":4"#));
    world.submit(3, ANN, spec(r#""cpus_per_task":4,"time_limit":60"#));
    assert!(!world.run(true, &[]));
    world.submit(2, ANN, spec(r#""cpus_per_task":4"#));
    world.turn();
    let key = RunKey { job: JobId(2), task: TaskIndex(0), run: RunNumber(1) };
    assert_eq!(world.cluster.job(JobId(2)).unwrap().run_key(TaskIndex(0)), Some(key));
    world.command(ROOT, Verb::Cancel, named(JobId(2)));
    world.settle();
}

/// What is asked for by memory and gets a whole card counts as one.
#[test]
fn a_whole_card_that_was_asked_for_by_memory_counts_in_full() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.policy.accounts[1].limits.max_cards = Some(1500);
    world.submit(1, ANN, spec(r#""cards":{"count":1}"#));
    world.submit(2, ANN, spec(r#""cards":{"count":1,"memory":20480}"#));
    world.turn();
    assert_eq!(world.cluster.job(JobId(2)).unwrap().runs.len(), 0, "1.5 cards are the limit");
}

/// A reservation of the same name for others admits nobody of the one before.
#[test]
fn a_job_does_not_run_in_another_reservation_of_the_same_name() {
    let mut world = World::joined();
    let course = world.booking("course", 0, None, (1000, 2000));
    world.book(course, false);
    world.turn();
    world.submit(1, ANN, spec(r#""reservation":"course","time_limit":60"#));
    world.turn();
    let of_bob = Booking { users: vec![BOB], ..world.booking("course", 0, None, (0, 2000)) };
    world.book(of_bob, false);
    world.turn();
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs.len(), 0, "it is bob's now");
}
