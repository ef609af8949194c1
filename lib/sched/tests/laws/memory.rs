//! Memory: what a planner remembers changes nothing but the cost. Without reservations it does what one does that remembers nothing;
//! with them nobody who could start now is left waiting.

use crate::{
    audit::{check_starts, until},
    lab::{Lab, a100s, cases, lasting, name, shape},
    site::{Machine, Site, a_site, node_name},
    wishes::a_move,
};
use gq_cluster::{Demand, Depth, Event, Job, Memory, Shape, Weights};
use gq_model::{JobId, MiB, Reason, Seconds, Timestamp};
use gq_sched::Plan;
use proptest::prelude::*;

/// The same but for a word that every node may have more room: whoever could start now does.
fn nudged(lab: &Lab, site: &Site) -> Plan {
    let mut lab = lab.clone();
    for at in 0..site.machines.len() {
        let node = name(&node_name(at));
        let link = lab.cluster.node(&node).unwrap().link;
        lab.apply(Event::NodeSeen { node, link });
    }
    lab.plan()
}

/// The same with so many nodes more, which nothing may be started on, that not all of them are asked.
fn with_spares(lab: &Lab) -> Lab {
    let mut lab = lab.clone();
    for at in 0..17 {
        let node = format!("zz{at}");
        lab.node(&node, 64, 65_536, crate::site::cards_of(at % 8));
        lab.apply(Event::NodeDrained { node: name(&node), reason: "spare".into() });
    }
    lab
}

/// What is in use of a node from `from` until `until` at the most, at the moments when somebody comes: cpus, memory, how many, and
/// whether somebody wants to be alone.
struct Peak {
    cpus: u32,
    memory: u64,
    count: usize,
    alone: bool,
}

/// Something that holds part of a node for a span of time.
struct Hold {
    from: Timestamp,
    until: Timestamp,
    cpus: u32,
    memory: u64,
    alone: bool,
}

/// What runs and reservations hold of a node.
fn holds(lab: &Lab, plan: &Plan, node: &gq_cluster::Node, but: JobId) -> Vec<Hold> {
    let mut holds: Vec<Hold> = node
        .ends()
        .map(|((until, ..), hold)| Hold {
            from: Timestamp(0),
            until: (*until).max(Timestamp(lab.now.0 + 1)),
            cpus: hold.cpus,
            memory: hold.memory.0,
            alone: hold.alone,
        })
        .collect();
    for (id, (at, there)) in &plan.outlook.reserved {
        if *there != node.name || *id == but {
            continue;
        }
        let shape = &lab.cluster.job(*id).unwrap().shape;
        let (cpus, memory) = needs(shape, node);
        let alone = shape.demand.exclusive;
        let until = at.after(shape.time_limit.unwrap_or(gq_cluster::UNLIMITED));
        holds.push(Hold { from: *at, until, cpus, memory, alone });
    }
    holds
}

fn needs(shape: &Shape, node: &gq_cluster::Node) -> (u32, u64) {
    let cpus = if shape.demand.exclusive { node.cpus } else { shape.demand.cpus };
    match shape.demand.memory {
        Memory::Amount(amount) => (cpus, amount.0),
        Memory::WholeNode => (cpus, node.memory.0),
    }
}

fn peak(holds: &[Hold], from: Timestamp, until: Timestamp) -> Vec<Peak> {
    let moments = holds.iter().map(|hold| hold.from).filter(|at| *at > from && *at < until);
    std::iter::once(from)
        .chain(moments)
        .map(|at| {
            let there: Vec<&Hold> = holds.iter().filter(|hold| hold.from <= at && hold.until > at).collect();
            Peak {
                cpus: there.iter().map(|hold| hold.cpus).sum(),
                memory: there.iter().map(|hold| hold.memory).sum(),
                count: there.len(),
                alone: there.iter().any(|hold| hold.alone),
            }
        })
        .collect()
}

/// Whether a job that asks for no cards could start on a node now, beside all reservations, by plain counting.
fn could_start(lab: &Lab, plan: &Plan, job: &Job, node: &gq_cluster::Node) -> bool {
    let shape = &job.shape;
    let end = until(lab, shape);
    let booked = lab.cluster.bookings().any(|booking| {
        booking.of_node(&node.name).is_some_and(|booked| booked.cards.is_none())
            && booking.start < end
            && booking.end > lab.now
    });
    let (cpus, memory) = needs(shape, node);
    let fits = |peak: &Peak| {
        peak.cpus + cpus <= node.cpus
            && peak.memory + memory <= node.memory.0
            && !peak.alone
            && !(shape.demand.exclusive && peak.count > 0)
    };
    node.is_open()
        && shape.demand.cpus <= node.cpus
        && gq_sched::eligible_by_name(shape, node, &lab.policy)
        && !booked
        && peak(&holds(lab, plan, node, job.id), lab.now, end).iter().all(fits)
}

/// Nobody who asks for no cards, licences or reservations, and is not kept back by a limit, could start now.
fn check_nobody_is_left(lab: &Lab, site: &Site, plan: &Plan) -> Result<(), TestCaseError> {
    for job in lab.cluster.jobs().filter(|job| job.is_eligible()) {
        let shape = &job.shape;
        let partition = lab.policy.partition(&shape.partition).unwrap();
        let fcfs = partition.depth.unwrap_or(lab.policy.depth) == Depth::Fcfs;
        let plain = shape.demand.cards.count == 0 && shape.licences.is_empty() && shape.reservation.is_none();
        let reason = plan.outlook.of(job, &lab.policy).0;
        // How many cpus he counts for who wants to be alone depends on the node.
        let plain = plain && (site.limits == 0 || !shape.demand.exclusive);
        let waits_for_others = matches!(reason, Reason::Priority | Reason::Resources);
        // Reservations behind what has no time limit are made and not told: who has none himself may be in their way.
        let far = until(lab, shape) > lab.now.after(Seconds(300 * 86_400));
        if fcfs || !plain || far || !partition.state.starts() || !waits_for_others {
            continue;
        }
        for node in lab.cluster.nodes() {
            prop_assert!(!could_start(lab, plan, job, node), "{} could start on {} now", job.id, node.name);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(192))]
    #[test]
    fn without_reservations_a_planner_with_memory_does_what_one_without_does(
        site in a_site(),
        fcfs in any::<bool>(),
        slow in any::<bool>(),
        moves in prop::collection::vec(a_move(), 1..60),
    ) {
        let depth = if fcfs { Depth::Fcfs } else { Depth::First(0) };
        // Ranks by use are looked up once a minute.
        let weights = Weights { fair_share: 0, ..site.weights };
        let site = Site { depth, own_depth: None, weights, ..site };
        let mut lab = site.lab();
        lab.slow = slow;
        for step in &moves {
            lab.play(&site, step);
            lab.pass(|lab, plan| {
                let fresh = lab.fresh();
                prop_assert_eq!(&plan.starts, &fresh.starts);
                prop_assert_eq!(&plan.preempt, &fresh.preempt);
                prop_assert_eq!(&plan.outlook.first, &fresh.outlook.first);
                Ok(())
            })?;
        }
    }

    #[test]
    fn nobody_who_could_start_beside_the_reservations_is_left_waiting(
        site in a_site(),
        moves in prop::collection::vec(a_move(), 1..60),
    ) {
        let mut lab = site.lab();
        for step in &moves {
            lab.play(&site, step);
            lab.pass(check_starts)?;
            let plan = lab.plan();
            prop_assert!(site.limits != 0 || plan.starts.is_empty());
            check_nobody_is_left(&lab, &site, &plan)?;
            // With limits it may depend on the node: the best spot for a job may be above one, and another below.
            if site.limits == 0 {
                prop_assert_eq!(nudged(&lab, &site).starts, vec![]);
            }
        }
    }

    #[test]
    fn many_nodes_are_planned_as_few_are(
        site in a_site(),
        alike in any::<bool>(),
        moves in prop::collection::vec(a_move(), 1..40),
    ) {
        let mut machines: Vec<Machine> = site.machines.iter().take(4).cloned().collect();
        if alike {
            let kind = machines[0].kind;
            machines.iter_mut().for_each(|machine| machine.kind = kind);
        }
        let weights = Weights { fair_share: 0, ..site.weights };
        let few = Site { machines, weights, ..site };
        let mut lab = few.lab();
        let mut many = with_spares(&lab);
        for step in &moves {
            lab.play(&few, step);
            many.play(&few, step);
            let (a, b) = (lab.start(), many.start());
            prop_assert_eq!(&a.starts, &b.starts);
            let at = |plan: &Plan| plan.outlook.reserved.clone();
            prop_assert_eq!(at(&a), at(&b));
        }
    }
}

#[test]
fn a_reservation_makes_a_node_no_fuller_be_they_few_or_many() {
    let mut few = Lab::new();
    few.policy.depth = Depth::First(1);
    few.node("ws0", 2, 1024, a100s(3));
    few.node("ws1", 4, 2048, a100s(3));
    let many = with_spares(&few);
    let large = |cards| Shape {
        demand: Demand { memory: Memory::Amount(MiB(1536)), ..shape(1, cards).demand },
        ..shape(1, cards)
    };
    for mut lab in [few, many] {
        lab.submit(lasting(Shape { nodelist: vec![name("ws0")], ..shape(1, 1) }, 200));
        lab.submit(large(1));
        let reserved = lab.submit(large(2));
        let last = lab.submit(lasting(shape(1, 1), 120));
        let plan = lab.start();
        assert_eq!(plan.outlook.reserved[&reserved].1, name("ws1"));
        // Two cards are free on both; of cpus there are fewer on this one.
        assert_eq!(lab.node_of(last).as_deref(), Some("ws0"));
    }
}
