//! Random sites: nodes with all kinds of cards, partitions, accounts, QOS, licences, weights and limits.

use crate::lab::{Lab, a100s, card, cut, declared, in_parts, name, partition};
use gq_cluster::{Account, Depth, Limits, PartitionState, Qos, Weights};
use gq_model::{Card, CardHealth, Seconds, Uid};
use proptest::prelude::*;

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct Machine {
    pub kind: u8,
    pub cpus: u32,
    pub gib: u64,
    pub features: u8,
}

#[derive(Clone, Debug)]
pub struct Site {
    pub machines: Vec<Machine>,
    pub depth: Depth,
    pub own_depth: Option<Depth>,
    pub weights: Weights,
    /// Which limits there are, one bit each.
    pub limits: u8,
    /// How strict they are.
    pub strict: u64,
}

/// How many kinds of machines there are.
pub const KINDS: u8 = 10;

/// The cards of a kind of machine.
pub fn cards_of(kind: u8) -> Vec<Card> {
    match kind {
        1 => {
            let mut cards = a100s(4);
            for (one, peer) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                cards[one as usize].nvlink = vec![(peer, 4)];
            }
            cards
        }
        2 => vec![card(0, "RTX 3090", 24), card(1, "RTX 3090", 24), card(2, "A100-PCIE-40GB", 40)],
        3 => vec![cut(0, "A100", 80, &[]), card(1, "A100-SXM4-80GB", 80)],
        4 => vec![
            cut(0, "A100", 80, &[("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1)]),
            cut(1, "A30", 24, &[]),
        ],
        5 => vec![cut(0, "RTX PRO 6000", 95, &[("1g.24gb", 9)])],
        6 => vec![declared(0, 3), card(1, "RTX 3090", 24)],
        7 => {
            let mut cards = a100s(8);
            for card in &mut cards {
                card.nvlink = (0..8).filter(|peer| *peer != card.index).map(|peer| (peer, 12)).collect();
            }
            cards
        }
        8 => vec![in_parts(4, card(0, "RTX 3090", 24)), in_parts(8, card(1, "A100-SXM4-80GB", 80))],
        9 => vec![card(0, "RTX 3090", 24), in_parts(3, card(1, "RTX 3090", 24)), cut(2, "A30", 24, &[])],
        _ => Vec::new(),
    }
}

pub fn a_depth() -> impl Strategy<Value = Depth> {
    prop_oneof![
        1 => Just(Depth::Fcfs),
        2 => Just(Depth::First(0)),
        3 => Just(Depth::First(1)),
        2 => Just(Depth::First(3)),
        3 => Just(Depth::All),
    ]
}

pub fn a_machine() -> impl Strategy<Value = Machine> {
    (0..KINDS, 1..13u32, 1..9u64, 0..4u8).prop_map(|(kind, cpus, gib, features)| Machine {
        kind,
        cpus,
        gib,
        features,
    })
}

pub fn machines() -> impl Strategy<Value = Vec<Machine>> {
    prop_oneof![
        4 => prop::collection::vec(a_machine(), 1..5),
        1 => prop::collection::vec(a_machine(), 17..24),
    ]
}

fn some_weights() -> impl Strategy<Value = Weights> {
    let sizes = (-1..2i64, 0..3i64, 0..3i64);
    (0..3i64, 0..3i64, sizes).prop_map(|(age, fair_share, (size, partition, qos))| Weights {
        age: age * 500,
        age_max: Seconds(1_000),
        fair_share: fair_share * 500,
        size: size * 700,
        partition: partition * 100,
        qos: qos * 100,
    })
}

pub fn a_site() -> impl Strategy<Value = Site> {
    let limits = prop_oneof![2 => Just(0u8), 1 => any::<u8>()];
    let depths = (a_depth(), prop::option::weighted(0.2, a_depth()));
    let weights = prop_oneof![1 => Just(Weights::default()), 1 => some_weights()];
    (machines(), depths, weights, limits, 1..4u64).prop_map(
        |(machines, (depth, own_depth), weights, limits, strict)| Site {
            machines,
            depth,
            own_depth,
            weights,
            limits,
            strict,
        },
    )
}

/// A site where order of place never changes and nobody is kept back by limits: reservations are as firm as they can be.
pub fn a_firm_site() -> impl Strategy<Value = Site> {
    let depth = prop_oneof![
        2 => Just(Depth::First(1)),
        1 => Just(Depth::First(2)),
        1 => Just(Depth::First(4)),
        2 => Just(Depth::All)
    ];
    (machines(), depth).prop_map(|(machines, depth)| Site {
        machines,
        depth,
        own_depth: None,
        weights: Weights::default(),
        limits: 0,
        strict: 1,
    })
}

pub fn node_name(at: usize) -> String {
    format!("ws{at}")
}

impl Machine {
    pub fn features(&self) -> Vec<&'static str> {
        let all = [(1, "big"), (2, "fast")];
        all.into_iter().filter(|(bit, _)| self.features & bit != 0).map(|(_, word)| word).collect()
    }
}

impl Site {
    /// Puts a node there, or changes it: `bad` cards have failed (one bit each).
    pub fn put(&self, lab: &mut Lab, at: usize, bad: u8) {
        let machine = &self.machines[at];
        let mut cards = cards_of(machine.kind);
        for card in &mut cards {
            if bad >> (card.index % 8) & 1 == 1 {
                card.health = CardHealth::Failed("Xid 79".into());
            }
        }
        lab.featured(&node_name(at), machine.cpus, machine.gib * 1024, cards, &machine.features());
    }

    pub fn lab(&self) -> Lab {
        let mut lab = Lab::new();
        lab.policy.depth = self.depth;
        lab.policy.weights = self.weights;
        self.partitions(&mut lab);
        self.payers(&mut lab);
        lab.policy.licences = [("ansys".into(), 1), ("matlab".into(), 2)].into();
        for at in 0..self.machines.len() {
            self.put(&mut lab, at, 0);
        }
        lab
    }

    fn limits(&self, bit: u8, limits: Limits) -> Limits {
        if self.limits >> bit & 1 == 1 { limits } else { Limits::default() }
    }

    fn partitions(&self, lab: &mut Lab) {
        let n = self.strict;
        let main = &mut lab.policy.partitions[0];
        main.depth = self.own_depth;
        main.shares = true;
        main.limits = self.limits(0, Limits { max_cpus_per_user: Some(6 * n), ..Limits::default() });
        let mut recut = partition("cut", None, PartitionState::Up);
        recut.recut = true;
        recut.priority = 1;
        recut.limits = self.limits(1, Limits { max_cards: Some(700 * n), ..Limits::default() });
        let mut odd = partition("odd", None, PartitionState::Drain);
        let nodes = (0..self.machines.len()).filter(|at| at % 2 == 1);
        odd.nodes = Some(nodes.map(|at| name(&node_name(at))).collect());
        odd.cards_by_memory = false;
        odd.recut = true;
        odd.limits = self.limits(2, Limits { max_jobs: Some(n), ..Limits::default() });
        let off = partition("off", None, PartitionState::Down);
        lab.policy.partitions.extend([recut, odd, off]);
    }

    fn payers(&self, lab: &mut Lab) {
        let n = self.strict;
        let limits = |bit, limits| self.limits(bit, limits);
        let account = |name: &str, parent: Option<&str>, shares, users: &[u32], limits| Account {
            name: name.into(),
            parent: parent.map(str::to_owned),
            shares,
            users: users.iter().copied().map(Uid).collect(),
            coordinators: Vec::new(),
            limits,
            card_minutes: None,
        };
        let cards = Limits { max_cards: Some(1_500 * n), ..Limits::default() };
        let jobs = Limits { max_jobs: Some(2 * n), max_cards_per_user: Some(800 * n), ..Limits::default() };
        lab.policy.accounts = vec![
            account("physics", None, 3, &[1000, 1001], limits(3, cards)),
            account("optics", Some("physics"), 1, &[1001], limits(4, jobs)),
            account("chemistry", None, 1, &[1002], Limits::default()),
        ];
        if self.limits >> 5 & 1 == 1 {
            lab.policy.accounts[2].card_minutes = Some(n);
        }
        let debug = Limits { max_jobs_per_user: Some(n), max_cpus: Some(5 * n), ..Limits::default() };
        let qos =
            |name: &str, priority, limits| Qos { name: name.into(), priority, limits, ..Qos::default() };
        lab.policy.qos = vec![qos("debug", 3, limits(6, debug)), qos("long", -1, Limits::default())];
    }
}
