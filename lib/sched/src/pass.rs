//! A pass: jobs in order of priority; who fits starts, the first ones that do not fit get reservations on concrete nodes, cards and
//! slices at the earliest time that can be kept, and later jobs start only where they leave every reservation alone.
//!
//! Source: EASY, Lifka 1995 (one reservation); conservative backfill, Mu'alem & Feitelson 2001 (one for every job). A reservation made in
//! an earlier pass stays in place while the others are looked at, so that nobody is promised a later start than before; a job that goes
//! before the ones it was made for undoes it.
//!
//! Cost of a pass: groups + changed nodes, plus, for each group that could start, the nodes it is tried on, and for each new reservation
//! nodes × runs of a node.

use crate::{
    cards::Choice,
    licences::{self, Licences},
    limits::{Bounds, More},
    lines::{FEW_SEATS, Line},
    memo::Memo,
    need::Need,
    outlook::Outlook,
    place::{Ground, Spot},
    planner::{Kept, Planner, Preemption, Start, depth_of},
    share::Ranks,
};
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{Cluster, Depth, Group, Job, Key, Payer, Policy, Shape, Spending, TOLD_AT, Units};
use gq_model::{JobId, Reason, Seconds, TaskIndex, Timestamp};

/// What a planning pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks to be started now, in order.
    pub starts: Vec<Start>,
    /// Runs that have to make room.
    pub preempt: Vec<Preemption>,
    /// Why the others wait.
    pub outlook: Outlook,
}

/// How many more of a partition's jobs may be reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quota {
    /// So many.
    Left(u32),
    /// None ever, and once a job cannot start nobody passes it.
    Fcfs {
        /// Whether one could not start.
        blocked: bool,
    },
}

/// Whether the first job of a partition that cannot start is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// Nobody is known not to fit.
    Unasked,
    /// Somebody is, and who is the first is not found yet.
    Sought,
    /// It is.
    Found,
}

/// What became of the tasks of a job.
enum Begun {
    /// All were started.
    All,
    /// A limit stands against the next one.
    Barred(Reason),
    /// The next one does not fit.
    Lacks(Lack),
}

/// Why a job does not start now.
enum Lack {
    Room,
    Licences,
}

pub(crate) struct Pass<'a> {
    pub(crate) ground: Ground<'a>,
    pub(crate) memo: &'a mut Memo,
    pub(crate) ranks: &'a Ranks,
    pub(crate) bounds: Bounds<'a>,
    pub(crate) licences: Licences,
    quotas: Vec<Quota>,
    /// How far each partition's first in line that cannot start is found.
    firsts: Vec<First>,
    /// Whether somebody could not start before reservations were reached that may have been in his way.
    passed_over: bool,
    /// Reservations of the pass before whose jobs have not been reached yet.
    pub(crate) old: VecDeque<Kept>,
    /// Jobs that have such a reservation.
    pub(crate) promised: BTreeSet<JobId>,
    /// Those of them that are taken back for the time being.
    pub(crate) lifted: VecDeque<Kept>,
    pub(crate) kept: Vec<Kept>,
    /// Seats where a reservation was given up in this pass.
    pub(crate) freed: Vec<u32>,
    pub(crate) plan: Plan,
}

/// What is further away than this is not foretold: it would be the end of a run without time limit.
pub(crate) const FORESEEN: Seconds = Seconds(300 * 86_400);

/// Most passes in a row that ask for another at once.
const MOST_AT_ONCE: u32 = 16;

/// Runs one pass.
pub(crate) fn run(planner: &mut Planner, cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan {
    let mut pass = Pass::begin(planner, cluster, policy, now);
    pass.walk();
    crate::preempt::make_room(&mut pass);
    let budgets = pass.bounds.take_budgets();
    let (kept, mut plan) = (core::mem::take(&mut pass.kept), core::mem::take(&mut pass.plan));
    let mut freed = core::mem::take(&mut pass.freed);
    plan.outlook.effort.fits = pass.ground.asked;
    // Whoever was looked at before a reservation was given up may have missed the room: the next pass looks there again.
    let again = !freed.is_empty() && (kept.len() > 1 || pass.passed_over);
    // Should a plan not come to rest, it waits for the next event all the same.
    planner.at_once = if again { planner.at_once.saturating_add(1) } else { 0 };
    if again && !planner.at_once.is_multiple_of(MOST_AT_ONCE) {
        plan.outlook.look_again = Some(now);
    }
    freed.sort_unstable();
    freed.dedup();
    let edges = cluster.bookings().flat_map(|booking| [booking.start, booking.end]).filter(|at| *at > now);
    let changes = budgets.iter().filter_map(|spending| turns(cluster, policy, spending, now));
    let steps = budgets.iter().filter_map(|spending| spending.next_step(now));
    plan.outlook.tell_again = steps.filter(|at| *at > now).min();
    let soon = plan.outlook.look_again.into_iter().chain(edges).chain(changes).min();
    let first_told = u64::from(TOLD_AT[0]);
    plan.outlook.budgets = budgets.into_iter().filter(|spending| spending.percent() >= first_told).collect();
    plan.outlook.look_again = soon;
    planner.kept = kept;
    planner.reopened = freed;
    plan
}

/// When a budget begins, or ceases, to hold back jobs that wait, by time alone.
fn turns(cluster: &Cluster, policy: &Policy, spending: &Spending, now: Timestamp) -> Option<Timestamp> {
    let at = spending.turns(now).filter(|at| *at > now)?;
    let waits = |group: &Group| group.shape.demand.cards.count > 0 && spending.is_of(policy, &group.payer);
    cluster.queue().groups().any(|(_, group)| waits(group)).then_some(at)
}

impl<'a> Pass<'a> {
    /// A pass that has looked at nobody yet.
    pub(crate) fn begin(
        planner: &'a mut Planner,
        cluster: &'a Cluster,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let Planner { seats, memo, kept, ranks, options, .. } = planner;
        let mut bookings: BTreeMap<u32, Vec<&Arc<gq_cluster::Booking>>> = BTreeMap::new();
        for booking in cluster.bookings().filter(|booking| booking.end > now) {
            for booked in &booking.takes {
                let seat = cluster.node(&booked.node).and_then(|node| seats.of_place(node.place()));
                if let Some(seat) = seat {
                    bookings.entry(seat).or_default().push(booking);
                }
            }
        }
        let partitions = 0..u32::try_from(policy.partitions.len()).unwrap_or(u32::MAX);
        let quota = |partition| match depth_of(policy, partition) {
            Depth::Fcfs => Quota::Fcfs { blocked: false },
            Depth::First(n) => Quota::Left(n),
            Depth::All => Quota::Left(u32::MAX),
        };
        let ground = Ground {
            cluster,
            policy,
            now,
            seats,
            timelines: BTreeMap::new(),
            started: BTreeMap::new(),
            bookings,
            options,
            asked: 0,
        };
        let mut pass = Self {
            ground,
            memo,
            ranks,
            bounds: Bounds::of(cluster, policy, now),
            licences: Licences::of(cluster, policy, now),
            quotas: partitions.map(quota).collect(),
            firsts: alloc::vec![First::Unasked; policy.partitions.len()],
            passed_over: false,
            old: VecDeque::new(),
            promised: kept.iter().map(|kept| kept.job).collect(),
            lifted: VecDeque::new(),
            kept: Vec::new(),
            freed: Vec::new(),
            plan: Plan::default(),
        };
        for one in core::mem::take(kept) {
            pass.bring(one);
        }
        pass
    }

    /// Whether anything is still to be done for jobs that cannot start: a reservation, or standing in the way of others.
    fn minds_blocked(&self) -> bool {
        let minds = |quota: &Quota| match quota {
            Quota::Left(left) => *left > 0,
            Quota::Fcfs { blocked } => !blocked,
        };
        self.firsts.contains(&First::Sought) || self.quotas.iter().any(minds)
    }

    pub(crate) fn walk(&mut self) {
        let cluster = self.ground.cluster;
        let mut lines = self.lines();
        // Looked up when it is needed: in a first pass every seat counts, and nobody failed before.
        let mut most = None;
        loop {
            if !lines.not.is_empty() && !self.minds_blocked() {
                self.drop_old();
                self.wake(&mut lines);
            }
            let Some(mut line) = lines.next(cluster) else { break };
            if line.failed {
                // What has been started or given up since it was put in line counts.
                let most = *most.get_or_insert_with(|| self.most_room());
                let known = self.memo.at(line.group.shape_key);
                line.may_fit = known.is_some_and(|known| self.glance(known, most));
                if !line.may_fit {
                    self.memo.failed(line.group.shape_key);
                }
            }
            self.plan.outlook.effort.looked_at += 1;
            let begun = (self.plan.starts.len(), self.freed.len());
            let kept = self.kept.len();
            let goes_on = self.look_at(&mut line);
            if !self.lifted.is_empty() {
                self.lay_back(begun.0 != self.plan.starts.len() || kept != self.kept.len());
            }
            if (self.plan.starts.len(), self.freed.len()) != begun {
                most = None;
                if lines.failed > 0 && self.ground.seats.opened.len() + self.freed.len() <= FEW_SEATS {
                    self.thin_out(&mut lines);
                }
            }
            if !goes_on {
                continue;
            }
            let done = (line.order.1, line.order.2);
            let rest = line.rest.get_or_insert_with(|| {
                let mut all = line.group.jobs.iter();
                all.find(|place| (place.submitted, place.job) == done);
                all
            });
            if let Some(place) = rest.next().copied() {
                line.order = self.order(line.key, line.group, place);
                lines.may.push(line);
            }
        }
        // Reservations of jobs that were not reached hold nothing any more.
        self.drop_old();
    }

    /// Keeps in mind that a job of this partition is known not to fit.
    pub(crate) fn note_blocked(&mut self, partition: u32) {
        if let Some(first @ First::Unasked) = self.firsts.get_mut(partition as usize) {
            *first = First::Sought;
        }
    }

    /// Looks at the next job of a group; says whether the one behind it needs a look too.
    fn look_at(&mut self, line: &mut Line<'a>) -> bool {
        let (cluster, shape, payer) = (self.ground.cluster, &line.group.shape, &line.group.payer);
        let Some(job) = cluster.job(line.order.2) else { return true };
        let Some(partition) = self.memo.at(line.group.shape_key).and_then(|known| known.partition) else {
            return false;
        };
        if self.quotas.get(partition as usize) == Some(&(Quota::Fcfs { blocked: true })) {
            return false;
        }
        let old = self.take_old(job);
        let barred = self.bounds.reached(payer, More::of(shape)).or_else(|| self.barred(shape, payer));
        if let Some(reason) = barred {
            self.plan.outlook.groups.insert(line.key, reason);
            self.freed.extend(old.map(|kept| kept.seat));
            return false;
        }
        // When the time comes that it was promised, nothing need have ended just then.
        if old.as_ref().is_some_and(|kept| kept.at <= self.ground.now) {
            (line.may_fit, line.failed) = (true, false);
        }
        // Before those that were reserved for when it was not there yet it is asked as if it were new.
        if old.is_none() && self.old.iter().any(|kept| kept.seen < job.id) {
            (line.may_fit, line.failed) = (true, false);
        }
        let mut lack = Lack::Room;
        if line.may_fit {
            match self.start_tasks(line, job, old.as_ref()) {
                Begun::All => return true,
                Begun::Barred(reason) => {
                    self.plan.outlook.groups.insert(line.key, reason);
                    self.freed.extend(old.map(|kept| kept.seat));
                    return false;
                }
                Begun::Lacks(why) => lack = why,
            }
            line.may_fit = false;
            // Licences come back on whatever node: who lacks them is asked again.
            if matches!(lack, Lack::Room) {
                self.memo.failed(line.group.shape_key);
            }
        }
        self.reserve(line, job, partition, old, &lack)
    }

    /// Starts the tasks of a job, as many as can be. `old`: the reservation that it had.
    fn start_tasks(&mut self, line: &Line<'a>, job: &Arc<Job>, old: Option<&Kept>) -> Begun {
        let (shape, payer) = (&line.group.shape, &line.group.payer);
        let mut first: Option<(u32, Units)> = None;
        let mut begun = Begun::All;
        let ready = job.ready();
        for task in ready.iter().take(job.room()).map(TaskIndex) {
            if let Some(reason) = self.bounds.reached(payer, More::of(shape)) {
                begun = Begun::Barred(reason);
                break;
            }
            let mut spot = self.spot_now(job, line);
            // Whoever goes before those that were reserved for starts beside them if that can be, else instead of them.
            if spot.is_err() && old.is_none() && self.lift(job.id) {
                spot = self.spot_now(job, line);
            }
            let spot = spot.map(|spot| (spot, None)).or_else(|why| self.spot_for_less(job, line).ok_or(why));
            match spot {
                Ok((spot, limit)) => {
                    if let Some(reason) = self.over_limit(spot.seat, spot.choice.units, shape, payer) {
                        begun = Begun::Barred(reason);
                        break;
                    }
                    first.get_or_insert((spot.seat, spot.choice.units));
                    self.start(job, task, spot, limit, old.map(|kept| kept.at));
                }
                Err(why) => {
                    begun = Begun::Lacks(why);
                    break;
                }
            }
        }
        if let (Some(at), Some(kept)) = (first, old)
            && at != (kept.seat, kept.units)
        {
            self.freed.push(kept.seat);
        }
        begun
    }

    /// What keeps a shape from starting that has nothing to do with room.
    fn barred(&self, shape: &Shape, payer: &Payer) -> Option<Reason> {
        let policy = self.ground.policy;
        let most = policy.partition(&shape.partition).and_then(|p| p.max_time);
        if most.is_some_and(|most| crate::need::span(shape.time_limit) > most) {
            return Some(Reason::PartitionTimeLimit);
        }
        if let Some(name) = &shape.reservation {
            let admits = |booking: &Arc<gq_cluster::Booking>| {
                booking.admits_below(policy, payer.uid, payer.account.as_deref())
                    || (policy.is_admin(payer.uid) && !booking.maintenance)
            };
            if !self.ground.cluster.booking(name).is_some_and(admits) {
                return Some(Reason::Reservation);
            }
        }
        (!shape.licences.is_empty() && !licences::exist(policy, &shape.licences)).then_some(Reason::Licences)
    }

    /// The best spot for a task now.
    fn spot_now(&mut self, job: &Job, line: &Line<'a>) -> Result<Spot, Lack> {
        let shape = &line.group.shape;
        let span = crate::need::span(shape.time_limit);
        if !shape.licences.is_empty() && !self.licences.are_free(&shape.licences, self.ground.now, span) {
            return Err(Lack::Licences);
        }
        let Some(known) = self.memo.at(line.group.shape_key) else { return Err(Lack::Room) };
        if line.failed && self.memo.is_sure() && shape.licences.is_empty() {
            let mut more: Vec<u32> = self.ground.seats.opened.iter().chain(&self.freed).copied().collect();
            more.retain(|seat| known.may_be_on(*seat));
            return self.ground.best_of(&more, shape, None).ok_or(Lack::Room);
        }
        // What could not be started on one node is tried on another, if another has room.
        let others =
            (job.launch_failures > 0).then(|| self.ground.best_now(known, shape, Some(job.id))).flatten();
        others.or_else(|| self.ground.best_now(known, shape, None)).ok_or(Lack::Room)
    }

    /// The best spot for a task now if its time limit is lowered (`--time-min`), and the longest limit (to the minute) that it can have
    /// there.
    fn spot_for_less(&mut self, job: &Job, line: &Line<'a>) -> Option<(Spot, Option<Seconds>)> {
        let shape = &line.group.shape;
        let least = shape.time_min?;
        let most = crate::need::span(shape.time_limit);
        let mut at = |limit: Seconds| {
            let shape = Shape { time_limit: Some(limit), ..Shape::clone(shape) };
            if !shape.licences.is_empty() && !self.licences.are_free(&shape.licences, self.ground.now, limit)
            {
                return None;
            }
            let known = self.memo.at(line.group.shape_key)?;
            self.ground.best_now(known, &shape, (job.launch_failures > 0).then_some(job.id))
        };
        let (mut found, mut low, mut high) = (at(least)?, least, most);
        while high.0.saturating_sub(low.0) > 60 {
            let middle = Seconds(low.0 + (high.0 - low.0) / 2);
            match at(middle) {
                Some(spot) => (found, low) = (spot, middle),
                None => high = middle,
            }
        }
        Some((found, Some(low)))
    }

    fn start(
        &mut self,
        job: &Job,
        task: TaskIndex,
        spot: Spot,
        limit: Option<Seconds>,
        promised: Option<Timestamp>,
    ) {
        let Some(seat) = self.ground.seats.get(spot.seat) else { return };
        let Some(node) = self.ground.node(seat) else { return };
        let shape = &job.shape;
        let mut need = Need::of(shape, node);
        need.span = limit.unwrap_or(need.span);
        let Choice { units, .. } = spot.choice;
        let worth = node.layout().worth(units);
        let rate = worth.saturating_add(need.cpus.saturating_mul(self.ground.policy.cpu_charge));
        self.plan.starts.push(Start {
            job: job.id,
            task,
            node: node.name.clone(),
            cpus: need.cpus,
            memory: gq_model::MiB(need.memory),
            cards: spot.choice.uses((&**node).into()),
            exclusive: shape.demand.exclusive,
            rate,
            promised,
            backfilled: !self.plan.outlook.first.is_empty(),
            limit,
        });
        let claim = need.claim(units, self.ground.now);
        self.ground.start(spot.seat, claim);
        self.bounds.take(&job.payer, need.cpus, worth);
        self.licences.claim(&shape.licences, self.ground.now, need.span);
    }

    /// Says why a job cannot start now, and makes or keeps a reservation for it while its partition has some left; says whether the next
    /// job of its group may get one too.
    fn reserve(
        &mut self,
        line: &Line<'a>,
        job: &Arc<Job>,
        partition: u32,
        old: Option<Kept>,
        lack: &Lack,
    ) -> bool {
        let (shape, key) = (&line.group.shape, line.group.shape_key);
        if let Some(reason) = self.unable(shape, key) {
            // Nothing in sight could ever run it: it waits for a node, holds up nobody, and gets no promise.
            self.plan.outlook.groups.insert(line.key, reason);
            self.freed.extend(old.map(|kept| kept.seat));
            return false;
        }
        if matches!(lack, Lack::Licences) {
            self.plan.outlook.groups.insert(line.key, Reason::Licences);
        }
        self.passed_over |= !self.old.is_empty();
        // Who waits for his advance reservation to begin stands in nobody's way.
        let is_early = shape
            .reservation
            .as_deref()
            .and_then(|name| self.ground.cluster.booking(name))
            .is_some_and(|booking| booking.start > self.ground.now);
        if is_early {
            self.plan.outlook.groups.insert(line.key, Reason::Reservation);
        } else {
            self.note_first(job, partition);
        }
        if !self.may_reserve(line, partition) {
            self.freed.extend(old.map(|kept| kept.seat));
            return false;
        }
        let had = old.is_some();
        if !had {
            self.lift(job.id);
        }
        let Some(kept) = self.place_later(job, shape, key, old) else {
            if shape.reservation.is_some() {
                self.plan.outlook.groups.insert(line.key, Reason::Reservation);
            }
            return false;
        };
        if let Some(reason) = self.over_limit(kept.seat, kept.units, shape, &job.payer) {
            self.plan.outlook.groups.insert(line.key, reason);
            self.plan.outlook.first.remove(&job.id);
            if had {
                self.freed.push(kept.seat);
            }
            return false;
        }
        if kept.at <= self.ground.now {
            // There is room after all, that nobody looked for: the next pass does.
            self.freed.push(kept.seat);
            self.passed_over = true;
        }
        self.claim(&kept, shape);
        if !self.ground.bookings.is_empty()
            && shape.reservation.is_none()
            && self.would_fit_without_bookings(shape, key)
        {
            self.plan.outlook.groups.insert(line.key, Reason::Reservation);
        }
        if let Some(node) = self.ground.seats.get(kept.seat).and_then(|seat| self.ground.node(seat)) {
            // Behind what has no time limit nobody can say when.
            if kept.at < self.ground.now.after(FORESEEN) {
                self.plan.outlook.reserved.insert(job.id, (kept.at, node.name.clone()));
            }
        }
        self.kept.push(kept);
        match self.quotas.get_mut(partition as usize) {
            Some(Quota::Left(left)) => {
                *left = left.saturating_sub(u32::from(!is_early));
                *left > 0
            }
            Some(Quota::Fcfs { .. }) | None => false,
        }
    }

    /// Whether a partition has a reservation left. First come, first served, there is none, and whoever cannot start blocks those behind him.
    fn may_reserve(&mut self, line: &Line<'a>, partition: u32) -> bool {
        match self.quotas.get_mut(partition as usize) {
            Some(Quota::Left(left)) => *left > 0,
            Some(Quota::Fcfs { blocked }) => {
                // Who waits for his advance reservation to begin stands in nobody's way.
                let waits_for_time = line.group.shape.reservation.is_some();
                *blocked |= !waits_for_time;
                if waits_for_time {
                    self.plan.outlook.groups.insert(line.key, Reason::Reservation);
                }
                false
            }
            None => false,
        }
    }

    /// Keeps in mind the first job of each partition that cannot start.
    fn note_first(&mut self, job: &Job, partition: u32) {
        if let Some(first) = self.firsts.get_mut(partition as usize) {
            *first = First::Found;
        }
        let (cluster, partition) = (self.ground.cluster, &job.shape.partition);
        let first = &mut self.plan.outlook.first;
        let is_of = |id: &JobId| cluster.job(*id).is_some_and(|other| other.shape.partition == *partition);
        if !first.iter().any(is_of) {
            first.insert(job.id);
        }
    }

    /// Why no node in sight could run a shape even when empty, if none could.
    fn unable(&mut self, shape: &Shape, key: Key) -> Option<Reason> {
        let health = self.ground.seats.health;
        let known = self.memo.at(key)?;
        let is_unable =
            known.unable == health || !known.seats().any(|seat| self.ground.could_now(seat, shape));
        if !is_unable {
            return None;
        }
        let is_open = |seat| self.ground.seats.get(seat).is_some_and(|seat| seat.open);
        let lacks_cards = known.seats().any(is_open)
            // What it asks for was there once: the nodes are there still, without it.
            || (known.seats().next().is_none() && self.ground.has_open_but_for_cards(shape));
        self.memo.unable(key, health);
        Some(if lacks_cards && shape.demand.cards.count > 0 {
            Reason::CardsUnavailable
        } else {
            Reason::NodesUnavailable
        })
    }

    fn would_fit_without_bookings(&mut self, shape: &Shape, key: Key) -> bool {
        let Some(known) = self.memo.at(key) else { return false };
        let booked: Vec<u32> =
            self.ground.bookings.keys().copied().filter(|seat| known.may_be_on(*seat)).collect();
        booked.into_iter().any(|seat| self.ground.fits_now(seat, shape, false).is_some())
    }
}
