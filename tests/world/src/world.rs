//! The world: who lives, what time it is, and what happens next. What goes wrong is in `faults`.

use crate::{
    checks,
    dice::Dice,
    faults,
    gqd::{CLUSTER, Gqd, Ground},
    gqnode::{At, GqNode},
    machine::Machine,
    spool::Spool,
    truth::Truth,
    users::Users,
    wire::Wire,
};
use gq_engine::{NodeVerb, Verb};
use gq_model::Timestamp;
use gq_store::Place;
use std::path::PathBuf;

/// Events before faults and arrivals stop.
const EVENTS: u64 = 300;
/// Rounds in which everything must come to its end afterwards, and the round from which on nobody is waited for who waits for others.
const ROUNDS: u32 = 500;
const PATIENCE: u32 = 60;
/// So often nodes that gqd refuses are started again, in rounds.
const RESTART: u32 = 30;
/// So many rounds nothing else goes wrong before and while a machine is out of sight: its leases are over by then, and what they were for
/// runs elsewhere.
const SIGHT: u32 = 12;
/// When the world begins: 2027, in seconds.
const DAWN: i64 = 1_800_000_000;

/// What a seed came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Events, those of the end among them.
    pub events: u64,
    /// Processes and machines that died.
    pub kills: u64,
    /// Ids that were printed.
    pub printed: u64,
    /// Scripts that were executed.
    pub executed: u64,
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    /// Microseconds on the clock that never jumps, and by how much the wall clock is off.
    clock: u64,
    pub(crate) skew: i64,
    state: PathBuf,
    pub(crate) spool: Spool,
    pub(crate) gqd: Option<Gqd>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) lives: Vec<Option<GqNode>>,
    wires: Vec<Wire>,
    /// Machines that see nothing of the controller for a while.
    blind: Vec<bool>,
    pub(crate) is_full: bool,
    users: Users,
    truth: Truth,
    _folder: tempfile::TempDir,
}

/// Plays the world of a seed to its end.
///
/// # Panics
/// When a law is broken, or something does not come to its end.
pub fn play(seed: u64) -> Played {
    let mut world = World::new(seed);
    for _ in 0..EVENTS {
        world.step();
        world.look();
    }
    world.come_to_an_end();
    let Truth { told, runs, events, kills } = &world.truth;
    let executed = runs.values().filter(|fate| fate.executed.is_some()).count() as u64;
    Played { events: *events, kills: *kills, printed: told.len() as u64, executed }
}

/// A folder in memory where there is one: the store waits for its disk in every turn.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = folder();
        let state = folder.path().join("state");
        drop(Place::init(&state, CLUSTER, "the world").unwrap_or_else(|error| panic!("{error}")));
        let mut dice = Dice::new(seed);
        let machines: Vec<Machine> = (0..3).map(|n| Machine::new(&format!("ws{n}"), n == 0)).collect();
        let users = Users::new(dice.one_in(4));
        let wires = (0..3).map(|n| Wire::new(dice.one_in(2), n)).collect();
        Self {
            dice,
            clock: 0,
            skew: 0,
            state,
            spool: Spool::default(),
            gqd: None,
            lives: machines.iter().map(|_| None).collect(),
            blind: vec![false; machines.len()],
            machines,
            wires,
            is_full: false,
            users,
            truth: Truth::default(),
            _folder: folder,
        }
    }

    fn now(&self) -> Timestamp {
        let clock = i64::try_from(self.clock).unwrap_or(i64::MAX);
        Timestamp(DAWN * 1_000_000 + clock + self.skew)
    }

    /// Time passes: seconds.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.tick(seconds * 1_000_000);
    }

    fn tick(&mut self, micros: u64) {
        self.clock += micros;
        self.machines.iter_mut().for_each(|machine| machine.keep_leases(self.clock));
    }

    /// The next thing happens.
    fn step(&mut self) {
        self.truth.events += 1;
        let micros = self.dice.roll(2_000_000);
        self.tick(micros);
        let at = self.dice.below(self.machines.len());
        match self.dice.roll(40) {
            0..=3 => self.users.submit(&mut self.spool, &mut self.dice),
            4 | 5 => self.ask(),
            6 => self.scan(),
            7 | 8 => self.command(),
            9..=15 => self.turn(),
            16..=21 => self.carry(at),
            22..=25 => self.node_turn(at),
            26..=32 => self.supervisor(at),
            33 => self.sweep(at),
            34 | 35 => self.revive(),
            36 | 37 => self.pass(5),
            _ => faults::strike(self),
        }
        self.bury();
    }

    /// Whoever burnt down is dead.
    fn bury(&mut self) {
        if self.gqd.as_ref().is_some_and(|gqd| gqd.fuse.is_burnt()) {
            self.kill_gqd();
        }
        for at in 0..self.lives.len() {
            if self.lives[at].as_ref().is_some_and(|life| life.fuse.is_burnt()) {
                self.kill_gqnode(at);
            }
        }
    }

    /// The laws, after every event.
    fn look(&self) {
        checks::one_life(&self.machines);
        if let Some(gqd) = &self.gqd {
            checks::sound(gqd);
        }
    }

    fn ask(&mut self) {
        if let Some(gqd) = &mut self.gqd {
            self.users.ask(gqd, &mut self.spool, &mut self.truth, &mut self.dice);
        }
    }

    fn scan(&mut self) {
        if let Some(gqd) = &mut self.gqd {
            Users::scan(gqd, &self.spool, self.users.tokens());
        }
    }

    fn command(&mut self) {
        if let Some(gqd) = &mut self.gqd {
            self.users.command(gqd, &mut self.dice);
        }
    }

    fn turn(&mut self) {
        let (now, clock, is_full) = (self.now(), self.clock, self.is_full);
        let Some(gqd) = &mut self.gqd else { return };
        gqd.notice_time(now, clock, is_full);
        let mut ground = Ground { spool: &mut self.spool, dice: &mut self.dice, is_full, now, clock };
        let answers = gqd.turn(&mut ground);
        self.users.hear(answers, &mut self.spool, &mut self.truth);
    }

    fn with_node(&mut self, at: usize, act: impl FnOnce(&mut At<'_>)) {
        let (now, clock) = (self.now(), self.clock);
        let Self { lives, machines, dice, .. } = self;
        let Some(life) = &mut lives[at] else { return };
        act(&mut At { life, machine: &mut machines[at], dice, now, clock });
    }

    fn node_turn(&mut self, at: usize) {
        self.with_node(at, |at| at.turn());
    }

    fn sweep(&mut self, at: usize) {
        self.with_node(at, |at| {
            at.judge();
            at.sweep();
        });
    }

    /// The next letter goes its way.
    fn carry(&mut self, at: usize) {
        if self.blind[at] {
            return;
        }
        let (now, clock) = (self.now(), self.clock);
        let Self { lives, machines, dice, wires, gqd, .. } = self;
        let wire = &mut wires[at];
        let Some(life) = &mut lives[at] else { return };
        let mut node = At { life, machine: &mut machines[at], dice, now, clock };
        match gqd {
            Some(gqd) if !wire.files => wire.carry(gqd, &mut node, clock),
            None if !wire.files => node.life.unlink(),
            Some(gqd) if node.dice.one_in(2) => wire.controller_looks(gqd, &mut node, clock),
            Some(_) | None => wire.node_looks(&mut node),
        }
    }

    fn supervisor(&mut self, at: usize) {
        let now = self.now();
        let machine = &mut self.machines[at];
        let Some(key) = self.dice.pick(&machine.supervised()) else { return };
        let is_gone = machine.go_on(key, now, &self.spool, &mut self.truth, &mut self.dice);
        if let Some(life) = self.lives[at].as_mut().filter(|_| is_gone) {
            life.gone.push(key);
        }
    }

    /// Whoever is dead comes back.
    fn revive(&mut self) {
        let (now, clock, is_full) = (self.now(), self.clock, self.is_full);
        if self.gqd.is_none() {
            let mut ground = Ground { spool: &mut self.spool, dice: &mut self.dice, is_full, now, clock };
            self.gqd = Gqd::begin(&self.state, &mut ground);
            if let Some(gqd) = &self.gqd {
                checks::all_known(gqd, &self.truth);
                checks::same_as_rows(gqd);
            }
        }
        for at in 0..self.lives.len() {
            if self.lives[at].is_none() && !self.machines[at].is_full {
                self.lives[at] = Some(GqNode::begin(&mut self.machines[at], &mut self.dice, now, clock));
            }
        }
    }

    pub(crate) fn kill_gqd(&mut self) {
        if self.gqd.take().is_some() {
            self.truth.kills += 1;
            self.wires.iter_mut().for_each(Wire::controller_died);
            self.users.controller_died();
        }
    }

    pub(crate) fn lose_power_of_gqd(&mut self) {
        self.kill_gqd();
        self.spool.lose_power(&mut self.dice);
    }

    pub(crate) fn kill_gqnode(&mut self, at: usize) {
        if self.lives[at].is_some() {
            self.truth.kills += 1;
            if !self.wires[at].files {
                self.cut(at);
            }
            self.lives[at] = None;
        }
    }

    pub(crate) fn kill_a_supervisor(&mut self, at: usize) {
        let Some(key) = self.dice.pick(&self.machines[at].mortal()) else { return };
        self.truth.kills += 1;
        self.machines[at].kill_supervisor(key);
        if let Some(life) = &mut self.lives[at] {
            life.gone.push(key);
        }
    }

    pub(crate) fn lose_power_of_node(&mut self, at: usize, is_wiped: bool) {
        self.kill_gqnode(at);
        self.truth.kills += 1;
        self.machines[at].lose_power(is_wiped, &mut self.dice);
    }

    pub(crate) fn cut(&mut self, at: usize) {
        let (now, clock) = (self.now(), self.clock);
        let Self { lives, machines, dice, wires, gqd, .. } = self;
        let Some(life) = &mut lives[at] else { return };
        let mut node = At { life, machine: &mut machines[at], dice, now, clock };
        wires[at].cut(gqd.as_mut(), Some(&mut node), clock);
    }

    /// A machine sees nothing of the controller, and is not seen, until it is not blind any more.
    pub(crate) fn blind(&mut self, at: usize) {
        self.blind[at] = !self.blind[at];
        if self.blind[at] && !self.wires[at].files {
            self.cut(at);
        }
    }

    /// A machine at work goes out of sight, and goes on, while all is well elsewhere.
    pub(crate) fn lose_sight(&mut self, at: usize) {
        self.blind.fill(false);
        (0..SIGHT).for_each(|_| self.round(0));
        self.blind(at);
        (0..SIGHT).for_each(|_| self.round(0));
    }

    /// A node is found dead, and an admin says so before it comes back.
    pub(crate) fn fence(&mut self, at: usize) {
        self.lose_power_of_node(at, false);
        self.steer(at, NodeVerb::Fence);
        self.turn();
    }

    /// The log of a node is removed under its runs.
    pub(crate) fn lose_log(&mut self, at: usize) {
        self.kill_gqnode(at);
        self.machines[at].lose_log(self.dice.one_in(2));
    }

    pub(crate) fn steer(&mut self, at: usize, verb: NodeVerb) {
        if let Some(gqd) = &mut self.gqd {
            self.users.steer(gqd, &self.machines[at].name, verb);
        }
    }

    /// Faults and arrivals stop: everything comes to its end by itself, but for what people keep from it.
    fn come_to_an_end(&mut self) {
        (self.skew, self.is_full) = (0, false);
        for at in 0..self.machines.len() {
            self.machines[at].is_full = false;
            self.blind[at] = false;
            let share = &mut self.wires[at].share;
            (share.orders.is_prompt, share.reports.is_prompt) = (true, true);
        }
        for round in 0..ROUNDS {
            self.round(round);
            if self.is_over() {
                return self.reckon();
            }
        }
        panic!("nothing comes to its end: {}", self.what_is_left());
    }

    fn round(&mut self, round: u32) {
        self.truth.events += 1;
        self.pass(20);
        if round % RESTART == RESTART - 1 {
            self.restart_the_refused();
        }
        self.revive();
        self.ask();
        self.scan();
        if let Some(gqd) = &mut self.gqd {
            self.users.order_all(gqd, Verb::Release);
            self.users.order_all(gqd, Verb::Continue);
            let waits = |job: &&std::sync::Arc<gq_cluster::Job>| job.waits.is_some();
            if round >= PATIENCE && gqd.cluster.jobs().any(|job| waits(&job)) {
                self.users.order_all(gqd, Verb::Cancel);
            }
        }
        for at in 0..self.machines.len() {
            self.steer(at, NodeVerb::Resume);
        }
        self.turn();
        self.bury();
        for at in 0..self.machines.len() {
            for _ in 0..8 {
                self.carry(at);
                self.bury();
                self.supervisor(at);
            }
            self.node_turn(at);
            self.bury();
            self.sweep(at);
            self.turn();
            self.bury();
        }
        self.look();
    }

    /// A node that lost its disk while its clock was behind passes for a copy of itself, until somebody starts it again. Of what ran on one that
    /// lost its folder nobody knows until it is booted.
    fn restart_the_refused(&mut self) {
        for at in 0..self.machines.len() {
            if self.machines[at].has_forgotten {
                self.lose_power_of_node(at, false);
            } else if !self.wires[at].is_linked() {
                self.kill_gqnode(at);
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_done =
            self.gqd.as_ref().is_some_and(|gqd| gqd.cluster.job_count() == 0 && gqd.inputs.is_empty());
        let is_still = |at: usize| {
            let machine = &self.machines[at];
            machine.supervised().is_empty()
                && !machine.lives.values().any(crate::machine::Life::is_alive)
                && self.lives[at]
                    .as_ref()
                    .is_some_and(|life| !life.is_busy(machine) && life.node.kept().next().is_none())
        };
        is_done && self.users.is_quiet() && (0..self.machines.len()).all(is_still)
    }

    fn what_is_left(&self) -> String {
        let jobs: Vec<String> = self
            .gqd
            .iter()
            .flat_map(|gqd| gqd.cluster.jobs())
            .map(|job| serde_json::to_string(&**job).unwrap_or_default())
            .collect();
        let nodes: Vec<String> = self
            .gqd
            .iter()
            .flat_map(|gqd| gqd.cluster.nodes())
            .map(|node| serde_json::to_string(&**node).unwrap_or_default())
            .collect();
        let kept: Vec<Vec<gq_model::RunKey>> =
            self.lives.iter().flatten().map(|life| life.node.kept().collect()).collect();
        let linked: Vec<(bool, bool)> =
            self.wires.iter().map(|wire| (wire.files, wire.is_linked())).collect();
        format!("jobs {jobs:#?}\nnodes {nodes:#?}\nkept {kept:?}\nlinks {linked:?}\nusers {:?}", self.users)
    }

    /// The accounts are what happened.
    fn reckon(&self) {
        let Some(gqd) = &self.gqd else { return };
        checks::all_known(gqd, &self.truth);
        checks::same_as_rows(gqd);
        assert!(
            gqd.cluster.nodes().all(|node| node.runs().len() == 0 && node.cpus_used() == 0),
            "something is held"
        );
        checks::accounts(gqd, &self.state.join("gq.db"), &self.truth);
    }
}
