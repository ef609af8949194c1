//! The machine of a node: its disk (the log, which forgets what was not synced), its processes (supervisors, scripts, what these leave behind)
//! and its boots.

use crate::{dice::Dice, spool::Spool, truth::Truth};
use gq_model::{
    Assignment, BootId, Card, End, MiB, NodeName, Outcome, Reason, RunKey, Seconds, Timestamp, known_grid,
};
use gq_nodecore::{Control, Stop, StopWhy};
use gq_nodelog::Record;
use gq_supervisor::{Due, Lease};
use std::{collections::BTreeMap, time::Duration};

/// Cpus of every machine.
pub(crate) const CPUS: u32 = 4;

/// The node's log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) records: Vec<Record>,
    /// So many are on the disk for certain.
    synced: usize,
}

impl Log {
    pub(crate) fn append(&mut self, record: Record) {
        self.records.push(record);
    }

    pub(crate) fn sync(&mut self) {
        self.synced = self.records.len();
    }

    /// Whether an end of the run is on the disk for certain.
    pub(crate) fn has_end(&self, key: RunKey) -> bool {
        let is_end = |record: &&Record| matches!(record, Record::Ended { .. } | Record::Refused { .. });
        let on_disk = self.records.iter().take(self.synced);
        on_disk.filter(is_end).any(|record| record.key() == Some(key))
    }

    /// The power fails: the log ends somewhere behind what was synced.
    fn lose_power(&mut self, dice: &mut Dice) {
        let loose = self.records.len() - self.synced;
        self.records.truncate(self.synced + dice.below(loose + 1));
        self.sync();
    }
}

/// How far a supervisor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Born,
    Up,
    Running,
    /// The script is gone, other processes of the run are not.
    Exited,
}

/// A run on this machine, as its processes.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) assignment: Assignment,
    /// Whether its supervisor lives.
    pub(crate) supervised: bool,
    step: Step,
    /// Processes of the run besides the supervisor.
    pub(crate) processes: u32,
    stop: Option<Stop>,
    started: Option<Timestamp>,
    exit: Option<u8>,
    suspended: bool,
    /// So many looks its script takes before it exits by itself.
    patience: u64,
    /// Until when it may live without a word that the controller sees its node.
    lease: Option<Lease>,
    /// Whether it is being ended because that is over.
    is_cut_off: bool,
    /// Whether the log that it writes is gone.
    writes_to_nobody: bool,
    /// Whether its supervisor can be found.
    has_folder: bool,
}

impl Life {
    /// Whether it is being ended.
    const fn is_ending(&self) -> bool {
        self.stop.is_some() || self.is_cut_off
    }

    /// Whether something of the user's lives.
    pub(crate) const fn is_alive(&self) -> bool {
        self.processes > 0
    }
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: NodeName,
    boots: u8,
    pub(crate) log: Log,
    pub(crate) lives: BTreeMap<RunKey, Life>,
    pub(crate) cards: Vec<Card>,
    /// Whether its disk has no room.
    pub(crate) is_full: bool,
    /// Whether the node's folder was removed since it was booted, so that it cannot know of what it was given before.
    pub(crate) has_forgotten: bool,
}

fn card(index: u32, mig: bool) -> Card {
    let text = format!(r#"{{"index":{index},"model":"A100","memory":81920,"mig":{mig}}}"#);
    let card: Card = serde_json::from_str(&text).expect("a card");
    Card { grid: known_grid("A100", MiB(81_920)).filter(|_| mig), ..card }
}

impl Machine {
    pub(crate) fn new(name: &str, mig: bool) -> Self {
        Self {
            name: name.parse().expect("a name"),
            boots: 1,
            log: Log::default(),
            lives: BTreeMap::new(),
            cards: vec![card(0, mig), card(1, false)],
            is_full: false,
            has_forgotten: false,
        }
    }

    pub(crate) const fn boot(&self) -> BootId {
        BootId([self.boots; 16])
    }

    /// The power fails and comes back: nothing lives, and what was not synced may be gone; all of it when the disk is `wiped`.
    pub(crate) fn lose_power(&mut self, wiped: bool, dice: &mut Dice) {
        self.boots = self.boots.wrapping_add(1);
        self.lives.clear();
        self.has_forgotten = false;
        self.log.lose_power(dice);
        if wiped {
            self.log = Log::default();
        }
    }

    /// The node's log is removed while the machine goes on, and the folders of its runs with it or not; what supervisors write from then on is
    /// seen by nobody.
    pub(crate) fn lose_log(&mut self, keeps_folders: bool) {
        self.log = Log::default();
        self.has_forgotten = true;
        for life in self.lives.values_mut() {
            life.writes_to_nobody = true;
            life.has_folder &= keeps_folders;
        }
    }

    /// Supervisors that live, of which the log does not tell.
    pub(crate) fn survivors(&self) -> Vec<Assignment> {
        let told = |key: RunKey| self.log.records.iter().any(|record| record.key() == Some(key));
        let living =
            self.lives.iter().filter(|(key, life)| life.supervised && life.has_folder && !told(**key));
        living.map(|(_, life)| life.assignment.clone()).collect()
    }

    /// A supervisor writes.
    fn write(&mut self, key: RunKey, record: Record) {
        if !self.lives.get(&key).is_some_and(|life| life.writes_to_nobody) {
            self.log.append(record);
        }
    }

    /// Supervisors end runs whose leases are over at `clock`, in microseconds after the boot: they need nobody's word for it, and no disk.
    pub(crate) fn keep_leases(&mut self, clock: u64) {
        for life in self.lives.values_mut().filter(|life| life.supervised) {
            while let Some(due) =
                life.lease.as_mut().and_then(|lease| lease.due(Duration::from_micros(clock)))
            {
                life.is_cut_off = true;
                if due == Due::End && life.step >= Step::Running {
                    (life.step, life.processes) = (Step::Exited, 0);
                }
            }
        }
    }

    /// A supervisor begins to live.
    pub(crate) fn launch(&mut self, assignment: Assignment, until: Option<Seconds>) {
        let lease = assignment.lease.map(|span| {
            let until =
                until.unwrap_or_else(|| panic!("{} is launched before its lease begins", assignment.key));
            Lease::new(span, until, assignment.kill_wait)
        });
        let life = Life {
            lease,
            is_cut_off: false,
            writes_to_nobody: false,
            has_folder: true,
            supervised: true,
            step: Step::Born,
            processes: 0,
            stop: None,
            started: None,
            exit: None,
            suspended: false,
            patience: 0,
            assignment,
        };
        let key = life.assignment.key;
        let twin = self.lives.insert(key, life);
        assert!(
            twin.is_none_or(|twin| !twin.supervised && !twin.is_alive()),
            "{key} was launched beside itself"
        );
    }

    /// A supervisor is told something. False: nobody is there to be told.
    pub(crate) fn control(&mut self, key: RunKey, control: Control, now: Timestamp, clock: u64) -> bool {
        let Some(life) = self.lives.get_mut(&key).filter(|life| life.supervised) else { return false };
        match control {
            Control::Stop(stop) => life.stop = life.stop.or(Some(stop)),
            Control::Lease(Seconds(until)) => {
                if let Some(lease) = &mut life.lease {
                    lease.renew(u32::try_from(until).expect("a short life"), Duration::from_micros(clock));
                }
            }
            Control::Suspend if life.step == Step::Running && !life.suspended => {
                life.suspended = true;
                self.write(key, Record::Suspended { key, at: now });
            }
            Control::Resume if life.suspended => {
                life.suspended = false;
                self.write(key, Record::Resumed { key, at: now });
            }
            _ => {}
        }
        true
    }

    /// Runs whose supervisor lives.
    pub(crate) fn supervised(&self) -> Vec<RunKey> {
        self.lives.iter().filter(|(_, life)| life.supervised).map(|(key, _)| *key).collect()
    }

    /// Runs whose supervisor lives, and is not all that keeps a lease.
    pub(crate) fn mortal(&self) -> Vec<RunKey> {
        let is_mortal = |life: &Life| life.supervised && life.lease.is_none();
        self.lives.iter().filter(|(_, life)| is_mortal(life)).map(|(key, _)| *key).collect()
    }

    /// The next thing that the supervisor of `key` does. True: it is gone then.
    pub(crate) fn go_on(
        &mut self,
        key: RunKey,
        now: Timestamp,
        spool: &Spool,
        truth: &mut Truth,
        dice: &mut Dice,
    ) -> bool {
        let Some(life) = self.lives.get_mut(&key).filter(|life| life.supervised) else { return false };
        if self.is_full {
            // What it has to say waits for room.
            return false;
        }
        match life.step {
            Step::Born => {
                life.step = Step::Up;
                self.write(key, Record::Up { key, pid: 1, pid_start: 1 });
            }
            Step::Up if life.is_ending() => return self.end(key, now, truth),
            Step::Up => {
                let file = spool.file(&life.assignment.job_file);
                assert!(file.is_some_and(|file| file.uid == life.assignment.uid), "{key} has no job file");
                let fate = truth.runs.entry(key).or_default();
                assert_eq!(fate.executed.replace(now), None, "{key} was executed twice");
                (life.step, life.processes) = (Step::Running, 1 + dice.roll(3) as u32);
                // Whoever has a lease works for long enough to be cut off.
                life.patience = dice.roll(if life.lease.is_some() { 200 } else { 3 });
                life.started = Some(now);
                self.write(key, Record::Started { key, at: now, session: 1 });
            }
            Step::Running if life.suspended && !life.is_ending() => {}
            Step::Running if life.patience > 0 && !life.is_ending() => life.patience -= 1,
            Step::Running => {
                life.exit = (!life.is_ending()).then(|| dice.roll(4).saturating_sub(1) as u8);
                life.processes -= 1;
                life.step = Step::Exited;
                if life.processes > 0 {
                    self.write(key, Record::Exited { key, at: now });
                }
            }
            Step::Exited if life.processes > 0 => life.processes -= 1,
            Step::Exited => return self.end(key, now, truth),
        }
        false
    }

    /// Nothing of the run is left: its supervisor says how it ended, and is gone.
    fn end(&mut self, key: RunKey, now: Timestamp, truth: &mut Truth) -> bool {
        let Some(life) = self.lives.get_mut(&key) else { return false };
        let (end, reason) = match (life.stop.map(|stop| stop.why), life.exit) {
            _ if life.is_cut_off => (End::NodeFail, Reason::NodeFailure),
            (Some(StopWhy::Requeue), _) => (End::Cancelled, Reason::Requeued),
            (Some(StopWhy::Cancel | StopWhy::Stray), _) => (End::Cancelled, Reason::Cancelled),
            (None, Some(0)) => (End::Completed, Reason::None),
            (None, _) => (End::Failed, Reason::NonZeroExitCode),
        };
        let outcome = Outcome { exit_code: life.exit, ..Outcome::without_exit(end, reason, "") };
        truth.runs.entry(key).or_default().written = Some(outcome.clone());
        let started = life.started;
        life.supervised = false;
        self.write(key, Record::Ended { key, outcome, started, ended: now, epilog: None });
        true
    }

    /// A supervisor is killed; what it held together lives on.
    pub(crate) fn kill_supervisor(&mut self, key: RunKey) {
        if let Some(life) = self.lives.get_mut(&key) {
            life.supervised = false;
        }
    }

    /// Kills what is left of a run, as far as it goes at once. How many are left.
    pub(crate) fn sweep(&mut self, key: RunKey, dice: &mut Dice) -> u32 {
        let Some(life) = self.lives.get_mut(&key) else { return 0 };
        assert!(!life.supervised, "{key} is swept while its supervisor lives");
        life.processes = life.processes.saturating_sub(1 + dice.roll(3) as u32);
        life.processes
    }

    /// Whether a supervisor of the run lives: it holds the lock of its folder.
    pub(crate) fn is_supervised(&self, key: RunKey) -> bool {
        self.lives.get(&key).is_some_and(|life| life.supervised)
    }
}
