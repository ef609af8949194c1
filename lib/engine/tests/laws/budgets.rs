//! Budgets: what is kept of them is what runs took that have ended; what is used up is told once, and has the next jobs stand behind all others,
//! or wait, until the next period.

use crate::{
    life::{job, key, reason, refused, run_to, submitted},
    world::{ANN, BOB, World, go_on, report, spec},
};
use gq_cluster::{Budget, Cluster, Event, Policy, Purse, UsedUp, Whose};
use gq_engine::{NodeReport, RefusalKind};
use gq_model::{CardTime, End, JobId, Outcome, Period, Reason, RunKey, Seconds};
use std::collections::BTreeMap;

/// Budgets that every world has: nothing follows when they are used up.
pub fn of_all_worlds() -> Vec<Budget> {
    let budget = |name: &str, whose, most| Budget {
        name: name.into(),
        whose,
        most,
        period: Period::Year,
        then: UsedUp::Report,
        tell: Vec::new(),
    };
    vec![
        budget("physics", Whose::Account("physics".into()), CardTime::HOUR),
        budget("each", Whose::EveryUser, CardTime(7_000_000)),
    ]
}

/// What runs took that have ended, counted by who reads the trail.
#[derive(Default)]
pub struct Taken(BTreeMap<Purse, u64>);

impl Taken {
    /// An event that happens to a state.
    pub fn note(&mut self, policy: &Policy, before: &Cluster, event: &Event) {
        let Event::RunEnded { key, outcome, at, .. } = event else { return };
        let job = before.job(key.job).unwrap();
        let run = &job.runs[&key.task];
        if matches!(outcome.end, End::NodeFail | End::LaunchFailed) {
            return;
        }
        let taken = u64::from(run.worth) * at.micros_since(run.allocated) / 1000;
        for budget in policy.budgets.iter().filter(|budget| budget.period == Period::Year) {
            if let Some(purse) = budget.purse(policy, &job.payer).filter(|_| taken > 0) {
                *self.0.entry(purse).or_default() += taken;
            }
        }
    }

    pub fn check(&self, policy: &Policy, cluster: &Cluster) {
        let is_meant =
            |purse: &Purse| policy.budget(&purse.budget).is_some_and(|it| it.period == Period::Year);
        let kept = cluster.ledger().spent().filter(|(purse, spent)| is_meant(purse) && spent.used.0 > 0);
        let kept: BTreeMap<Purse, u64> = kept.map(|(purse, spent)| (purse.clone(), spent.used.0)).collect();
        assert_eq!(kept, self.0, "budgets are not what runs took");
    }
}

/// A world with one budget: Ann has so many card-seconds a day.
fn world(seconds: u64, then: UsedUp) -> World {
    let mut world = World::joined();
    world.policy.budgets = vec![Budget {
        name: "ann".into(),
        whose: Whose::User(ANN),
        most: CardTime::of(1000, seconds * 1_000_000),
        period: Period::Day,
        then,
        tell: Vec::new(),
    }];
    world
}

fn used(world: &World) -> u64 {
    let spendings = world.cluster.spendings(&world.policy, world.now);
    let spending = spendings.into_iter().find(|spending| spending.purse.budget == "ann").unwrap();
    spending.used.0 / 1_000_000
}

/// How many hundredths of Ann's budget were told, in order.
fn told(world: &World) -> Vec<u8> {
    let events = world.disk.rows.events.iter();
    events
        .filter_map(|event| match event {
            Event::BudgetReached { purse, percent, .. } if purse.budget == "ann" => Some(*percent),
            _ => None,
        })
        .collect()
}

fn runs(world: &World, id: u64) -> usize {
    job(world, id).runs.len()
}

const CARD: &str = r#""cards":{"count":1}"#;

#[test]
fn what_runs_counts_while_it_runs_and_is_told_once_and_again_in_the_next_period() {
    let mut world = world(100, UsedUp::Report);
    let id = submitted(&mut world, 1, CARD);
    let began = world.now;
    let next = |world: &World| world.post.outlook.as_ref().unwrap().tell_again;
    for (at, percents) in [(80, vec![80]), (100, vec![80, 100])] {
        // The outlook knows when there is something to tell.
        let due = next(&world).unwrap();
        assert!(
            due.micros_since(began) >= at * 1_000_000 && due.micros_since(began) < at * 1_000_000 + 10_000
        );
        world.now = due;
        world.turn();
        assert_eq!((used(&world), told(&world)), (at, percents));
        world.turn();
        // What was told is known after a restart.
        world.cluster = world.disk.read();
        world.planner = Default::default();
        world.turn();
    }
    let until = world.policy.calendar.span(Period::Day, world.now).until;
    assert_eq!(next(&world), None);
    world.now = until.after(Seconds(10));
    world.turn();
    assert_eq!((used(&world), told(&world)), (10, vec![80, 100]));
    world.wait(Seconds(70));
    world.turn();
    assert_eq!(
        (used(&world), told(&world)),
        (80, vec![80, 100, 80]),
        "of what it began before nothing counts"
    );
    run_to(&mut world, key(id, 0, 1), 0);
    assert_eq!(used(&world), 80);
    world.wait(Seconds(70));
    assert_eq!(used(&world), 80, "what has ended counts no more");
}

#[test]
fn a_node_that_fails_is_not_paid_for_and_a_requeue_is() {
    let mut world = world(1000, UsedUp::Report);
    let id = submitted(&mut world, 1, &format!(r#"{CARD},"requeue":true"#));
    go_on(&mut world);
    world.wait(Seconds(50));
    let at = world.nodes.iter().position(|node| node.live.contains_key(&key(id, 0, 1))).unwrap();
    world.nodes[at].linked = false;
    let node = world.nodes[at].name.clone();
    world.inputs.push(gq_engine::Input::NodeSilent { node });
    world.turn();
    assert_eq!(used(&world), 50);
    world.fence(at, true);
    assert_eq!(used(&world), 0);
    assert_eq!(runs(&world, id), 1, "it runs on the other node");
    go_on(&mut world);
    world.wait(Seconds(30));
    world.command(ANN, gq_engine::Verb::Requeue { hold: true }, crate::world::named(JobId(id)));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!((used(&world), runs(&world, id)), (30, 0));
}

#[test]
fn whoever_has_used_up_his_budget_stands_behind_all_others_if_it_says_so() {
    let mut world = world(10, UsedUp::LowPriority);
    let all: Vec<u64> = (1..=2).map(|token| submitted(&mut world, token, CARD)).collect();
    let of_bob = |world: &mut World, token| {
        let client = world.submit(token, BOB, spec(CARD));
        world.turn();
        match &world.post.replies[&client] {
            gq_engine::Answer::Submitted(id) => id.0,
            other => panic!("{other:?}"),
        }
    };
    of_bob(&mut world, 3);
    let waits = submitted(&mut world, 4, CARD);
    world.wait(Seconds(100));
    let bob = of_bob(&mut world, 5);
    run_to(&mut world, key(all[0], 0, 1), 0);
    assert_eq!((runs(&world, bob), runs(&world, waits)), (1, 0), "whoever came later goes first");
    // Nobody else wants it.
    run_to(&mut world, key(all[1], 0, 1), 0);
    assert_eq!(runs(&world, waits), 1);
}

#[test]
fn whoever_has_used_up_his_budget_is_refused_and_waits_for_the_next_period_if_it_says_so() {
    let mut world = world(10, UsedUp::Refuse);
    let all: Vec<u64> = (1..=2).map(|token| submitted(&mut world, token, CARD)).collect();
    let waits = submitted(&mut world, 4, CARD);
    world.wait(Seconds(100));
    world.turn();
    let (kind, text) = refused(&mut world, 5, CARD);
    assert_eq!(kind, RefusalKind::Policy);
    let words = "budget ann of its user is used up: 0.0555 of 0.0027 card-hours of this day";
    assert!(text.starts_with(words), "{text}");
    let cpus = submitted(&mut world, 6, "");
    assert_eq!(runs(&world, cpus), 1, "who asks for no cards is taken");
    run_to(&mut world, key(all[0], 0, 1), 0);
    assert_eq!((runs(&world, waits), reason(&world, waits)), (0, Reason::Budget));
    assert_eq!(runs(&world, all[1]), 1, "what runs goes on");
    let until = world.policy.calendar.span(Period::Day, world.now).until;
    assert_eq!(world.post.outlook.as_ref().unwrap().look_again, Some(until));
    world.now = until;
    world.turn();
    assert_eq!(runs(&world, waits), 1);
    submitted(&mut world, 7, CARD);
}

#[test]
fn what_the_site_keeps_from_starting_costs_nothing() {
    let mut world = world(1000, UsedUp::Report);
    let id = submitted(&mut world, 1, CARD);
    world.wait(Seconds(60));
    let key: RunKey = key(id, 0, 1);
    let at = world.nodes.iter().position(|node| job(&world, id).runs[&key.task].node == node.name).unwrap();
    let detail = String::from("the disk is full");
    world.nodes[at].say(NodeReport::Refused {
        key,
        fault: gq_model::Fault::Site,
        reason: Reason::Prolog,
        detail,
    });
    report(&mut world);
    let ends: Vec<&Outcome> = world.disk.rows.run_ends.values().map(|(outcome, _)| outcome).collect();
    assert_eq!((ends.len(), ends[0].end), (1, End::LaunchFailed));
    assert_eq!(world.cluster.spent(&Purse { budget: "ann".into(), uid: None }, 11).used, CardTime(0));
}
