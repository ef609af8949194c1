//! Random interleavings of everything users, nodes, disks and clocks do.

use crate::{
    checks::assert_same,
    node::Trouble,
    world::{ANN, ROOT, World, named, spec},
};
use gq_cluster::Job;
use gq_engine::{Input, Selection, Verb};
use gq_model::{Change, Epoch, Fault, JobId, JobRef, RunKey, Seconds, Seq, TimeAsk, Timestamp, Uid};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Move {
    Submit { token: u8, uid: u32, kind: u8 },
    Command { uid: u32, verb: u8, job: u8, all: bool },
    Drain { node: bool, on: bool },
    Join { node: bool },
    Reboot { node: bool, wiped: bool },
    Wipe { node: bool },
    Beat { node: bool },
    See { node: bool },
    Tell { node: bool },
    LeaseOver { node: bool },
    Fence { node: bool, is_dead: bool },
    Forget { node: bool },
    Orders { node: bool, most: usize, fault: u8 },
    AckOrders { node: bool },
    GoOn { pick: u8, code: u8 },
    Reports { node: bool, most: usize },
    Late { pick: u8 },
    LateAnew { pick: u8 },
    Silent { node: bool },
    Lost { node: bool },
    Idle { pick: u8, is_idle: bool },
    Heard { node: bool },
    Book { name: u8, node: bool, cards: u8, start: u64, span: u64, maintenance: bool },
    Unbook { name: u8 },
    Forecast { pick: u8, wait: u64 },
    Restart,
    Wait { seconds: u64 },
    Turn { full: bool, refusing: Vec<bool> },
}

fn a_move() -> impl Strategy<Value = Move> {
    let b = any::<bool>;
    let rarely = || prop::bool::weighted(0.15);
    prop_oneof![
        14 => (0..24u8, 0..3u32, 0..54u8).prop_map(|(token, uid, kind)| Move::Submit { token, uid, kind }),
        6 => (0..4u32, 0..18u8, any::<u8>(), rarely())
            .prop_map(|(uid, verb, job, all)| Move::Command { uid, verb, job, all }),
        1 => (b(), b()).prop_map(|(node, on)| Move::Drain { node, on }),
        3 => b().prop_map(|node| Move::Join { node }),
        1 => (b(), rarely()).prop_map(|(node, wiped)| Move::Reboot { node, wiped }),
        12 => (b(), 1..5usize, 0..12u8).prop_map(|(node, most, fault)| Move::Orders { node, most, fault }),
        4 => b().prop_map(|node| Move::AckOrders { node }),
        12 => (any::<u8>(), 0..3u8).prop_map(|(pick, code)| Move::GoOn { pick, code }),
        12 => (b(), 1..6usize).prop_map(|(node, most)| Move::Reports { node, most }),
        2 => any::<u8>().prop_map(|pick| Move::Late { pick }),
        2 => any::<u8>().prop_map(|pick| Move::LateAnew { pick }),
        6 => b().prop_map(|node| Move::Beat { node }),
        6 => b().prop_map(|node| Move::See { node }),
        6 => b().prop_map(|node| Move::Tell { node }),
        3 => b().prop_map(|node| Move::LeaseOver { node }),
        1 => (b(), prop::bool::weighted(0.7)).prop_map(|(node, is_dead)| Move::Fence { node, is_dead }),
        1 => b().prop_map(|node| Move::Forget { node }),
        1 => b().prop_map(|node| Move::Wipe { node }),
        1 => b().prop_map(|node| Move::Silent { node }),
        1 => b().prop_map(|node| Move::Lost { node }),
        2 => b().prop_map(|node| Move::Heard { node }),
        6 => (any::<u8>(), prop::bool::weighted(0.7)).prop_map(|(pick, is_idle)| Move::Idle { pick, is_idle }),
        4 => (0..2u8, b(), 0..4u8, 0..600u64, 1..900u64, rarely()).prop_map(
            |(name, node, cards, start, span, maintenance)| Move::Book { name, node, cards, start, span, maintenance }
        ),
        1 => (0..2u8).prop_map(|name| Move::Unbook { name }),
        2 => (any::<u8>(), 0..900u64).prop_map(|(pick, wait)| Move::Forecast { pick, wait }),
        1 => Just(Move::Restart),
        3 => (1..400u64).prop_map(|seconds| Move::Wait { seconds }),
        20 => (prop::bool::weighted(0.1), prop::collection::vec(rarely(), 0..4))
            .prop_map(|(full, refusing)| Move::Turn { full, refusing }),
    ]
}

/// Cpus that no node has.
const TOO_MANY: u32 = 64;

fn a_spec(kind: u8) -> gq_model::JobSpec {
    spec(match kind {
        0 => r#""cpus_per_task":4"#,
        1 => r#""cards":{"count":1}"#,
        2 => r#""cards":{"count":2},"cpus_per_task":2,"time_limit":60"#,
        3 => r#""exclusive":true"#,
        4 => r#""hold":true"#,
        5 => r#""begin":1000100000000"#,
        6 => return gq_model::JobSpec { cpus_per_task: Some(TOO_MANY), ..spec("") },
        7 => r#""cards":{"count":1,"profile":"1g.10gb"}"#,
        8 => r#""cards":{"count":3,"profile":"2G.20gb"},"ntasks":3,"time_limit":100"#,
        9 => r#""cards":{"count":1,"profile":"7g.80gb"},"partition":"high""#,
        10 => r#""cards":{"count":1,"memory":20480}"#,
        11 => r#""licences":[{"name":"matlab","count":1}]"#,
        12 => r#""licences":[{"name":"matlab","count":2}],"time_limit":60,"partition":"high""#,
        13 => r#""qos":"quick""#,
        14 => r#""partition":"high","cpus_per_task":3"#,
        15 => r#""partition":"low","cpus_per_task":2,"cards":{"count":1}"#,
        16 => r#""reservation":"r0","time_limit":60"#,
        17 => r#""partition":"high","exclusive":true"#,
        18 => r#""cpus_per_task":4,"time_limit":300"#,
        19 | 20 => r#""reservation":"r0","time_limit":20,"cards":{"count":1}"#,
        21 => r#""array":"0-3%2""#,
        22 => r#""array":"1,4-6","retry":{"times":2},"time_limit":60"#,
        23 => r#""array":"0-5","hold":true"#,
        24 => r#""array":"0-3","dependency":"aftercorr:1""#,
        25 => r#""array":"0-3","dependency":"aftercorr:2,afterany:1","kill_on_invalid_dep":true"#,
        26 => r#""dependency":"afterok:1""#,
        27 => r#""dependency":"afterok:1:2","kill_on_invalid_dep":true"#,
        28 => r#""dependency":"afternotok:1?afternotok:3""#,
        29 => r#""dependency":"afterany:2_[0,2]""#,
        30 => r#""dependency":"afterok:1_1:1_3","array":"0-2""#,
        31 => r#""dependency":"after:1+2,afterany:3""#,
        32 | 33 => r#""dependency":"singleton""#,
        34 => r#""prep":true,"cards":{"count":1}"#,
        35 => r#""prep":true,"array":"2-4%1","cards":{"count":1},"retry":{"times":1,"exits":[1]}"#,
        36 => r#""deadline":1000000600000000,"time_limit":120"#,
        37 => r#""max_wait":{"after":60,"then":"Cancel"},"cpus_per_task":4"#,
        38 => r#""max_wait":{"after":30,"then":"Boost"},"cpus_per_task":4"#,
        39 => r#""time_limit":600,"time_min":60,"cpus_per_task":4"#,
        40 => r#""requeue":true,"retry":{"times":3}"#,
        41 => r#""requeue":false"#,
        43 | 44 => r#""requeue":"on-lost","cards":{"count":1}"#,
        45 => r#""requeue":"on-lost","cpus_per_task":3"#,
        46 => r#""requeue":"on-lost","array":"0-3""#,
        47 | 48 => r#""cards":{"count":1,"share":20480},"time_limit":100"#,
        49 => r#""cards":{"count":1,"share":40960},"partition":"high""#,
        50 => r#""array":"0-3","cards":{"count":1,"share":30000},"partition":"low""#,
        42 => r#""array":"0-3","cards":{"count":1},"dependency":"after:2""#,
        _ => "",
    })
}

fn play(world: &mut World, step: &Move) {
    let at = |node: bool| usize::from(node);
    match step {
        Move::Submit { token, uid, kind } => drop(world.submit(*token, Uid(1001 + uid), a_spec(*kind))),
        Move::Command { uid, verb, job, all } => {
            let uid = if *uid == 0 { ROOT } else { Uid(1000 + uid) };
            let verb = match verb {
                0 | 1 => Verb::Cancel,
                2 => Verb::Hold,
                3 => Verb::Release,
                4 => Verb::Requeue { hold: false },
                5 => Verb::Requeue { hold: true },
                6 => Verb::Suspend,
                7 => Verb::Continue,
                8 => Verb::Update(vec![Change::TimeLimitBy(-30), Change::IdleOk("tea".into())]),
                9 => Verb::Update(vec![Change::TimeLimit(TimeAsk::Limit(Seconds(90))), Change::Nice(3)]),
                10 => Verb::Update(vec![Change::Partition("high".into())]),
                11 => Verb::Update(vec![Change::AtOnce(Some(1))]),
                12 => Verb::Update(vec![Change::AtOnce(None), Change::Begin(None)]),
                13 => Verb::Update(vec![Change::Dependency(None)]),
                14 => Verb::Update(vec![Change::Dependency(Some("afterok:3?afterany:5".parse().unwrap()))]),
                15 => Verb::Update(vec![Change::IdleOk(String::new()), Change::Name("other".into())]),
                _ => Verb::Signal(10, gq_model::SignalTo::All),
            };
            let job = JobId(1 + u64::from(*job) % (world.cluster.last_job().0 + 1));
            let select = match (all, job.0 % 3) {
                (true, _) => Selection { users: vec![ANN], ..Selection::default() },
                (false, 0) => {
                    let tasks = Some([u32::from(uid.0 % 2 == 0), 2, 3].into_iter().collect());
                    Selection { jobs: vec![JobRef { job, tasks }], ..Selection::default() }
                }
                (false, _) => named(job),
            };
            world.command(uid, verb, select);
        }
        Move::Orders { node, most, fault } => {
            let trouble = match fault {
                0 => Some(Trouble::Of(Fault::User)),
                1 => Some(Trouble::Of(Fault::Site)),
                2 => Some(Trouble::CardGone),
                3 => Some(Trouble::Prolog),
                _ => None,
            };
            world.deliver_orders(at(*node), *most, trouble);
        }
        Move::AckOrders { node } => world.acknowledge_orders(at(*node)),
        Move::GoOn { pick, code } => {
            let live = world.live_keys();
            if let Some((at, key)) = live.get(usize::from(*pick) % live.len().max(1)).copied() {
                let now = world.now;
                world.nodes[at].go_on(key, *code, now);
            }
        }
        Move::Reports { node, most } => world.send_reports(at(*node), *most),
        Move::Late { pick } => late(world, *pick),
        Move::LateAnew { pick } => late_anew(world, *pick),
        Move::Book { name, node, cards, start, span, maintenance } => {
            let cards = (*cards < 2).then(|| vec![u32::from(*cards)]);
            let users = (0..3).map(|user| Uid(1001 + user)).collect();
            let booking = world.booking(&format!("r{name}"), at(*node), cards, (*start, start + span));
            world.book(gq_cluster::Booking { maintenance: *maintenance, users, ..booking }, start % 2 == 0);
        }
        Move::Unbook { name } => drop(world.unbook(&format!("r{name}"))),
        Move::Forecast { pick, wait } => forecast(world, *pick, *wait),
        Move::Restart => {
            // A turn that was not kept is forgotten with its clients.
            world.inputs.clear();
            world.cluster = world.disk.read();
            world.planner.forget();
            for at in 0..world.nodes.len() {
                world.seen[at] = world.now;
                world.lose_words(at);
            }
            world.inputs.push(Input::Restarted);
            for node in &world.nodes {
                world.inputs.push(Input::NodeHeard { node: node.name.clone(), epoch: node.epoch });
            }
        }
        Move::Wait { seconds } => world.wait(Seconds(*seconds)),
        Move::Turn { full, refusing } => drop(world.run(*full, refusing)),
        of_node => play_node(world, of_node),
    }
}

/// What happens to nodes, and to what is heard of them.
fn play_node(world: &mut World, step: &Move) {
    let at = |node: bool| usize::from(node);
    match step {
        Move::Drain { node, on } => drop(world.drain(at(*node), on.then_some("fan"))),
        Move::Join { node } => {
            world.lose_words(at(*node));
            world.nodes[at(*node)].join();
        }
        Move::Reboot { node, wiped } => {
            let now = world.now;
            world.lose_words(at(*node));
            world.nodes[at(*node)].reboot(now, *wiped);
            world.nodes[at(*node)].join();
        }
        Move::Wipe { node } => {
            world.lose_words(at(*node));
            world.nodes[at(*node)].wipe();
            world.nodes[at(*node)].join();
        }
        Move::Beat { node } => world.beat(at(*node)),
        Move::See { node } => world.see(at(*node)),
        Move::Tell { node } => world.tell(at(*node)),
        Move::LeaseOver { node } => world.lease_over(at(*node)),
        Move::Fence { node, is_dead } => world.fence(at(*node), *is_dead),
        Move::Forget { node } => drop(world.steer(ROOT, at(*node), gq_engine::NodeVerb::Forget)),
        Move::Silent { node } => {
            world.nodes[at(*node)].linked = false;
            let node = world.nodes[at(*node)].name.clone();
            world.inputs.push(Input::NodeSilent { node });
        }
        Move::Lost { node } => {
            if !world.nodes[at(*node)].linked {
                let node = world.nodes[at(*node)].name.clone();
                world.inputs.push(Input::NodeLost { node });
            }
        }
        Move::Idle { pick, is_idle } => {
            let now = world.now;
            world.nodes[at(pick.is_multiple_of(2))].say_idle(usize::from(*pick) / 2, is_idle.then_some(now));
        }
        Move::Heard { node } => {
            let node = &mut world.nodes[at(*node)];
            node.linked = true;
            world.inputs.push(Input::NodeHeard { node: node.name.clone(), epoch: node.epoch });
        }
        other => panic!("{other:?} is of no node"),
    }
}

/// A forecast of some time ago: of jobs that wait, that run, that are gone.
fn forecast(world: &mut World, pick: u8, wait: u64) {
    let start = world.now.after(Seconds(wait));
    let of = |step: u64| (JobId(1 + (u64::from(pick) + step) % (world.cluster.last_job().0 + 2)), start);
    let starts: Vec<(JobId, Timestamp)> = (0..3).map(of).collect();
    world.inputs.push(Input::Promise { starts });
}

/// A report that was sent before comes once more, alone: nothing changes.
fn late(world: &mut World, pick: u8) {
    quiet(world);
    let taken = |(node, epoch, seq, _): &(gq_model::NodeName, Epoch, Seq, _)| {
        world.cluster.node(node).is_some_and(|n| (n.epoch, n.last_report) >= (*epoch, *seq))
    };
    let sent: Vec<_> = world.sent.iter().filter(|letter| taken(letter)).cloned().collect();
    if let Some(letter) = sent.get(usize::from(pick) % sent.len().max(1)) {
        let before = (world.cluster.clone(), world.disk.rows.events.len());
        world.deliver(letter.clone());
        world.turn();
        assert_same(&before.0, &world.cluster);
        assert_eq!(before.1, world.disk.rows.events.len(), "{letter:?} changed something");
    }
}

/// A node says of a run that ended long ago, under a new number, that it started and ended: no job is changed.
fn late_anew(world: &mut World, pick: u8) {
    quiet(world);
    // That one of those is gone which were given up while they lived is news.
    let is_stray = |key: &RunKey| world.cluster.nodes().any(|node| node.strays.contains(key));
    let ended = world.disk.rows.run_ends.keys().copied();
    let old: Vec<RunKey> = ended.filter(|key| !is_stray(key)).collect();
    let Some(key) = old.get(usize::from(pick) % old.len().max(1)).copied() else { return };
    let jobs: Vec<_> = world.cluster.jobs().cloned().collect();
    let at = usize::from(pick.is_multiple_of(2));
    let (name, now) = (world.nodes[at].name.clone(), world.now);
    let Some(node) = world.cluster.node(&name) else { return };
    let (epoch, last) = (node.epoch, node.last_report.0);
    if epoch != world.nodes[at].epoch || !world.nodes[at].outbox.is_empty() {
        return;
    }
    let outcome = gq_model::Outcome::without_exit(gq_model::End::Completed, gq_model::Reason::None, "");
    world.nodes[at].say(gq_engine::NodeReport::Started(key, now));
    world.nodes[at].say(gq_engine::NodeReport::Ended {
        key,
        outcome,
        started: None,
        ended: now,
        epilog: None,
    });
    assert_eq!(world.nodes[at].outbox.first_key_value().map(|(seq, _)| seq.0), Some(last + 1));
    world.send_reports(at, usize::MAX);
    world.turn();
    assert!(world.cluster.jobs().eq(jobs.iter()), "a late report of {key} changed a job");
}

/// Turns until nothing is decided any more and the plan asks for no other look, so that what comes next is seen alone.
fn quiet(world: &mut World) {
    for _ in 0..40 {
        let before = world.disk.rows.events.len();
        world.turn();
        let again = world.post.outlook.as_ref().and_then(|outlook| outlook.look_again);
        if world.disk.rows.events.len() == before && again.is_none_or(|at| at > world.now) {
            return;
        }
    }
    panic!("something is decided in every turn");
}

/// What holds everybody back is taken away.
fn open_up(world: &mut World) {
    world.turn();
    for at in 0..world.nodes.len() {
        world.drain(at, None);
    }
    world.command(ROOT, Verb::Release, everybody());
    // Whoever named a reservation that is gone waits for ever; and so does whoever asked, while no node was known, for more than any has.
    let in_vain = |job: &&Arc<Job>| job.shape.reservation.is_some() || job.shape.demand.cpus == TOO_MANY;
    let in_vain: Vec<JobId> = world.cluster.jobs().filter(in_vain).map(|job| job.id).collect();
    for id in in_vain {
        world.command(ROOT, Verb::Cancel, named(id));
    }
}

fn everybody() -> Selection {
    let partitions = ["main", "high", "low"].map(String::from).to_vec();
    Selection { partitions, ..Selection::default() }
}

proptest! {
    #[test]
    fn whatever_happens_no_id_is_lost_and_no_task_lives_twice(moves in prop::collection::vec(a_move(), 1..140)) {
        let mut world = World::sharing(4);
        moves.iter().for_each(|step| play(&mut world, step));
        // Arrivals stop, nodes are well: every job comes to its end by itself.
        open_up(&mut world);
        world.settle();
        prop_assert_eq!(world.post.over.len(), world.disk.rows.tokens.len());
        for (id, (token, uid)) in &world.told {
            prop_assert_eq!(world.disk.rows.tokens.get(token), Some(&(*id, *uid)));
            prop_assert!(world.post.over.contains_key(id), "job {} was promised and is gone", id);
        }
        prop_assert!(world.cluster.nodes().all(|node| node.runs().len() == 0 && node.cpus_used() == 0));
    }

    #[test]
    fn whatever_a_node_forgets_a_cancel_frees_what_it_held(
        moves in prop::collection::vec(
            prop_oneof![9 => a_move(), 1 => any::<bool>().prop_map(|node| Move::Wipe { node })],
            1..140,
        ),
    ) {
        let mut world = World::sharing(4);
        moves.iter().for_each(|step| play(&mut world, step));
        world.turn();
        world.command(ROOT, Verb::Cancel, everybody());
        world.settle();
        prop_assert_eq!(world.post.over.len(), world.disk.rows.tokens.len());
    }
}
