//! Random jobs and random histories: what is asked for, and what happens meanwhile.

use crate::{
    lab::{Lab, Wish, name, payer},
    site::{Site, node_name},
};
use gq_cluster::{Booked, Booking, Demand, Event, HeldBy, Link, Memory, Next, Payer, Shape, Stopping};
use gq_model::{
    CardAsk, End, IndexSet, JobId, LicenceAsk, MiB, Outcome, Reason, RunKey, Seconds, Timestamp, Uid,
};
use proptest::prelude::*;

fn some<T: Clone + std::fmt::Debug + 'static>(weight: f64, of: Vec<T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(weight, prop::sample::select(of))
}

pub fn an_ask() -> impl Strategy<Value = (CardAsk, bool)> {
    let whole = (1..5u32, some(0.2, vec!["a100", "rtx"])).prop_map(|(count, model)| {
        (CardAsk { count, model: model.map(str::to_owned), ..CardAsk::default() }, false)
    });
    let by_memory = (1..3u32, prop::sample::select(vec![6u64, 10, 20, 24, 40, 80]), any::<bool>()).prop_map(
        |(count, gib, slices)| {
            (CardAsk { count, memory: Some(MiB(gib * 1024)), ..CardAsk::default() }, slices)
        },
    );
    let profiles = vec!["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.6gb"];
    let profiles = [profiles, vec!["2g.12gb", "1g.24gb", "2g.48gb"]].concat();
    let sliced = (1..3u32, prop::sample::select(profiles)).prop_map(|(count, profile)| {
        (CardAsk { count, profile: Some(profile.into()), ..CardAsk::default() }, false)
    });
    let memories = prop::sample::select(vec![1u64, 6, 8, 10, 24, 40, 80]);
    let shared = (memories, some(0.2, vec!["a100", "rtx"])).prop_map(|(gib, model)| {
        let (share, model) = (Some(MiB(gib * 1024)), model.map(str::to_owned));
        (CardAsk { count: 1, share, model, ..CardAsk::default() }, false)
    });
    prop_oneof![3 => Just((CardAsk::default(), false)), 3 => whole, 2 => by_memory, 3 => sliced, 2 => shared]
}

/// A shape; no licences, reservations, nor other partitions than two.
pub fn a_shape() -> impl Strategy<Value = Shape> {
    let memory = prop_oneof![
        4 => (0..5u64).prop_map(|g| Memory::Amount(MiB(g * 512))),
        1 => Just(Memory::WholeNode)
    ];
    let demand = (1..9u32, memory, an_ask(), prop::bool::weighted(0.1));
    let names = (
        some(0.15, vec!["ws0", "ws1", "ws2"]),
        some(0.15, vec!["ws0", "ws1", "ws2"]),
        some(0.15, vec!["fast", "big"]),
        some(0.4, vec!["cut"]),
        prop::option::weighted(0.9, 1..20u64),
    );
    (demand, names).prop_map(|((cpus, memory, (cards, slices), exclusive), names)| {
        let (list, not, feature, part, limit) = names;
        Shape {
            partition: part.unwrap_or("main").into(),
            demand: Demand { cpus, memory, cards, exclusive },
            time_limit: limit.map(|l| Seconds(l * 10)),
            time_min: None,
            features: feature.map(str::to_owned).into_iter().collect(),
            nodelist: list.map(name).into_iter().collect(),
            exclude: not.map(name).into_iter().collect(),
            licences: Vec::new(),
            reservation: None,
            slices_by_memory: slices,
        }
    })
}

/// A shape that may need licences, in any partition, and may name a reservation.
pub fn any_shape() -> impl Strategy<Value = Shape> {
    let licence = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![("ansys", 1)]),
        1 => (1..3u32).prop_map(|count| vec![("matlab", count)]),
        1 => Just(vec![("ansys", 1), ("matlab", 1)])
    ];
    (a_shape(), licence, some(0.2, vec!["odd", "off"]), some(0.1, vec!["course", "window"])).prop_map(
        |(shape, licences, part, reservation)| Shape {
            licences: licences
                .into_iter()
                .map(|(name, count)| LicenceAsk { name: name.into(), count })
                .collect(),
            partition: part.map_or(shape.partition.clone(), str::to_owned),
            reservation: reservation.map(str::to_owned),
            ..shape
        },
    )
}

pub fn a_payer() -> impl Strategy<Value = Payer> {
    let account = some(0.7, vec!["physics", "optics", "chemistry"]);
    (1000..1003u32, account, some(0.4, vec!["debug", "long"])).prop_map(|(uid, account, qos)| Payer {
        account: account.map(str::to_owned),
        qos: qos.map(str::to_owned),
        ..payer(uid, "")
    })
}

/// A wish for this shape.
fn wish_for(shape: impl Strategy<Value = Shape>) -> impl Strategy<Value = Wish> {
    let rest = (-2..3i64, prop::bool::weighted(0.1), prop::bool::weighted(0.1), 1..4u32);
    (shape, a_payer(), rest).prop_map(|(shape, payer, (priority, held, later, tasks))| {
        let payer = Payer { partition: shape.partition.clone(), ..payer };
        let held = held.then_some(HeldBy::Admin);
        // Counted from the time of submission.
        let not_before = later.then(|| Timestamp::from_secs(100));
        Wish { shape, payer, priority, held, not_before, tasks }
    })
}

pub fn any_wish() -> impl Strategy<Value = Wish> {
    wish_for(any_shape())
}

/// A wish that only other jobs keep from starting: never held, never later, all of one priority.
pub fn a_plain_wish(shape: impl Strategy<Value = Shape>) -> impl Strategy<Value = Wish> {
    wish_for(shape).prop_map(|wish| Wish { priority: 0, held: None, not_before: None, ..wish })
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Move {
    Submit(Box<Wish>),
    /// Goes on to the next end.
    Run,
    /// A run ends early.
    Early(prop::sample::Index),
    /// Time passes.
    Wait(u64),
    See(prop::sample::Index, u8),
    Drain(prop::sample::Index, bool),
    /// Its cards are looked at again: some may have failed.
    Cards(prop::sample::Index, u8),
    Hold(prop::sample::Index),
    Release(prop::sample::Index),
    /// The waiting tasks of a job are cancelled.
    Cancel(prop::sample::Index),
    /// A run is to be started again elsewhere: its start failed.
    Fail(prop::sample::Index),
    Requeue(prop::sample::Index),
    Book(prop::sample::Index, BookingWish),
    Unbook(bool),
    /// A run whose start was slow starts now.
    Begin(prop::sample::Index),
}

#[derive(Clone, Debug)]
pub struct BookingWish {
    pub window: bool,
    pub whole: bool,
    pub after: u64,
    pub lasts: u64,
    pub user: u32,
}

pub fn a_booking() -> impl Strategy<Value = BookingWish> {
    (any::<bool>(), any::<bool>(), 0..100u64, 1..200u64, 1000..1003u32)
        .prop_map(|(window, whole, after, lasts, user)| BookingWish { window, whole, after, lasts, user })
}

/// Moves in which nodes stay as they are and nobody makes bookings.
pub fn a_calm_move(wish: impl Strategy<Value = Wish> + 'static) -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => wish.prop_map(|wish| Move::Submit(Box::new(wish))),
        3 => Just(Move::Run),
        2 => any::<prop::sample::Index>().prop_map(Move::Early),
        1 => (1..30u64).prop_map(Move::Wait),
    ]
}

pub fn a_move() -> impl Strategy<Value = Move> {
    use any as a;
    type Pick = prop::sample::Index;
    let of_nodes = prop_oneof![
        (a::<Pick>(), 0..4u8).prop_map(|(n, link)| Move::See(n, link)),
        (a::<Pick>(), a::<bool>()).prop_map(|(n, on)| Move::Drain(n, on)),
        (a::<Pick>(), 0..4u8).prop_map(|(n, bad)| Move::Cards(n, bad)),
        (a::<Pick>(), a_booking()).prop_map(|(n, wish)| Move::Book(n, wish)),
        a::<bool>().prop_map(Move::Unbook),
    ];
    let of_jobs = prop_oneof![
        a::<Pick>().prop_map(Move::Hold),
        a::<Pick>().prop_map(Move::Release),
        a::<Pick>().prop_map(Move::Cancel),
        a::<Pick>().prop_map(Move::Fail),
        a::<Pick>().prop_map(Move::Requeue),
        a::<Pick>().prop_map(Move::Begin),
    ];
    prop_oneof![10 => a_calm_move(any_wish()), 3 => of_nodes, 3 => of_jobs]
}

/// The one that is meant, if there is any.
fn pick<T: Copy>(index: &prop::sample::Index, of: &[T]) -> Option<T> {
    if of.is_empty() { None } else { Some(*index.get(of)) }
}

impl Lab {
    /// Does what a move says; the plan is not asked.
    pub fn play(&mut self, site: &Site, step: &Move) {
        let jobs: Vec<JobId> = self.cluster.jobs().map(|job| job.id).collect();
        let runs: Vec<RunKey> = self.due().into_iter().map(|(_, key)| key).collect();
        match step {
            Move::Submit(wish) => {
                let not_before = wish.not_before.map(|at| Timestamp(at.0 + self.now.0));
                self.submit(Wish { not_before, ..(**wish).clone() });
            }
            Move::Run => drop(self.let_one_end()),
            Move::Early(index) => pick(index, &runs).into_iter().for_each(|key| self.end(key)),
            Move::Wait(seconds) => self.go_to(self.now.after(Seconds(*seconds))),
            Move::Hold(index) => pick(index, &jobs)
                .into_iter()
                .for_each(|job| self.apply(Event::Held { job, by: HeldBy::User })),
            Move::Release(index) => {
                pick(index, &jobs).into_iter().for_each(|job| self.apply(Event::Released { job }));
            }
            Move::Cancel(index) => self.cancel(pick(index, &jobs)),
            Move::Fail(index) => self.fail(pick(index, &runs)),
            Move::Requeue(index) => {
                if let Some(key) = pick(index, &runs) {
                    self.apply(Event::Stopped { key, why: Stopping::Requeue, by: None });
                }
            }
            Move::Begin(index) => {
                if let Some(key) = pick(index, &runs) {
                    self.apply(Event::Started { key, at: self.now, counted: self.now });
                }
            }
            Move::Unbook(window) => {
                let name = if *window { "window" } else { "course" };
                if self.cluster.booking(name).is_some() {
                    self.apply(Event::Unbooked { name: name.into() });
                }
            }
            Move::See(..) | Move::Drain(..) | Move::Cards(..) | Move::Book(..) => self.on_node(site, step),
        }
    }

    fn cancel(&mut self, job: Option<JobId>) {
        let Some(job) = job.and_then(|id| self.cluster.job(id)).filter(|job| !job.waiting.is_empty()) else {
            return;
        };
        let tasks: IndexSet = job.waiting.iter().collect();
        let outcome = Outcome::without_exit(End::Cancelled, Reason::Cancelled, "");
        self.apply(Event::TasksEnded { job: job.id, tasks, outcome, at: self.now });
    }

    fn fail(&mut self, key: Option<RunKey>) {
        let Some(key) = key else { return };
        let outcome = Outcome::without_exit(End::LaunchFailed, Reason::LaunchFailure, "");
        let next = Next::Again { not_before: None, site_fault: true, retry: false, held: None };
        self.apply(Event::RunEnded { key, outcome, started: None, at: self.now, next });
    }

    fn on_node(&mut self, site: &Site, step: &Move) {
        let count = site.machines.len();
        let since = self.now;
        match step {
            Move::See(at, link) => {
                let link = match link {
                    0 => Link::Suspect { since },
                    1 => Link::Lost { since },
                    _ => Link::Up,
                };
                self.see(&node_name(at.index(count)), link);
            }
            Move::Drain(at, on) => {
                let node = name(&node_name(at.index(count)));
                self.apply(if *on {
                    Event::NodeDrained { node, reason: "fan".into() }
                } else {
                    Event::NodeResumed { node }
                });
            }
            Move::Cards(at, bad) => site.put(self, at.index(count), *bad),
            Move::Book(at, wish) => self.book(&node_name(at.index(count)), wish),
            _ => {}
        }
    }

    pub fn book(&mut self, node: &str, wish: &BookingWish) {
        let start = self.now.after(Seconds(wish.after));
        self.apply(Event::Booked(Box::new(Booking {
            name: if wish.window { "window".into() } else { "course".into() },
            start,
            end: start.after(Seconds(wish.lasts)),
            takes: vec![Booked { node: name(node), cards: (!wish.whole).then(|| vec![0]) }],
            users: vec![Uid(wish.user)],
            accounts: vec!["chemistry".into()],
            maintenance: wish.window && wish.whole,
        })));
    }

    /// Everything that keeps jobs back is taken away.
    pub fn clear(&mut self, site: &Site) {
        for at in 0..site.machines.len() {
            site.put(self, at, 0);
            self.apply(Event::NodeResumed { node: name(&node_name(at)) });
        }
        let ids: Vec<JobId> = self.cluster.jobs().map(|job| job.id).collect();
        for job in ids {
            self.apply(Event::Released { job });
            self.apply(Event::Ripened { job, at: self.now });
        }
    }
}
