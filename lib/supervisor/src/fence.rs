//! The fence around a run: what holds all its processes together. It is the process tree: the supervisor is the subreaper, so that
//! whatever the run starts, in whatever session or group, descends from it until it is dead. And it is the run's control group, where there
//! are any, which also bounds what the run uses.

use gq_host::{Group, Reaped, Spent};
use gq_model::{RunKey, SignalTo, Used};
use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

/// Time between two rounds of killing that find nothing new, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// When so many processes end at once, it is looked whether the run makes as many as it can. Then so many are taken at a time while its script
/// lives, with a pause between, so that their numbers are not free at once for others of its kind and the machine has time for other users.
const CROWD: usize = 8;
const CROWD_PAUSE: Duration = Duration::from_millis(100);

/// The fence of one run.
#[derive(Debug)]
pub struct Fence {
    key: RunKey,
    /// The process that becomes the script, and leads its group; not reaped yet.
    main: Option<u32>,
    group: Group,
    /// Whether its processes were stopped by a signal each.
    stopped: bool,
    /// Whether a process of it was killed because its memory was not enough; seen when nothing of it is left.
    ran_out_of_memory: bool,
    /// What those of its processes used that were waited for.
    spent: Spent,
    /// What it used; seen as the last.
    used: Used,
    killing: Option<Killing>,
    /// When the next processes are taken of a run that makes as many as it can.
    crowded_until: Option<Instant>,
}

/// All is being killed, in rounds.
#[derive(Debug)]
struct Killing {
    next: Instant,
    pause: Duration,
    /// What the last round found.
    found: BTreeSet<u32>,
}

impl Fence {
    pub fn new(key: RunKey, main: u32, group: Group) -> Self {
        let (spent, used) = (Spent::default(), Used::default());
        let main = Some(main);
        Self {
            key,
            main,
            group,
            stopped: false,
            ran_out_of_memory: false,
            spent,
            used,
            killing: None,
            crowded_until: None,
        }
    }

    /// Sends a signal to processes of the run.
    pub fn signal(&self, signal: i32, to: SignalTo) {
        let main = self.main.unwrap_or(0);
        let sent = match to {
            SignalTo::All => gq_host::signal_descendants(signal).map(drop),
            SignalTo::Batch => gq_host::signal_descendant(main, signal),
            SignalTo::Steps => match gq_host::signal_descendants_but(main, signal) {
                // It has become the program that it was to start.
                Ok(0) => gq_host::signal_descendant(main, signal),
                sent => sent.map(drop),
            },
        };
        if let Err(e) = sent {
            eprintln!("gqstep {}: signal {signal} did not reach every process: {e}", self.key);
        }
    }

    /// Stops all processes of the run in place: by their group, so that nobody lets them go on, or else by a signal each.
    pub fn stop(&mut self) {
        let frozen = self.group.freeze().unwrap_or_else(|e| {
            eprintln!("gqstep {}: its processes are stopped by signals: {e}", self.key);
            self.thaw();
            false
        });
        self.stopped = !frozen;
        if self.stopped
            && let Err(e) = gq_host::stop_descendants()
        {
            eprintln!("gqstep {}: not every process was stopped: {e}", self.key);
        }
    }

    /// Lets them go on.
    pub fn go_on(&mut self) {
        self.thaw();
        if std::mem::take(&mut self.stopped) {
            self.signal(number::CONT, SignalTo::All);
        }
    }

    fn thaw(&self) {
        if let Err(e) = self.group.thaw() {
            eprintln!("gqstep {}: its processes do not go on: {e}", self.key);
        }
    }

    /// Asks all processes of the run to end, stopped ones too.
    pub fn terminate(&mut self) {
        self.signal(number::TERM, SignalTo::All);
        self.thaw();
        // Also those that stopped themselves.
        self.stopped = false;
        self.signal(number::CONT, SignalTo::All);
    }

    /// Begins to kill all processes of the run; rounds follow until none is left.
    pub fn kill(&mut self, now: Instant) {
        if self.killing.is_none() {
            self.killing = Some(Killing { next: now, pause: PAUSES.0, found: BTreeSet::new() });
        }
    }

    /// Ends the killing when nothing is left: whatever comes now is no process of the run.
    pub fn rest(&mut self) {
        self.killing = None;
        self.ran_out_of_memory = self.group.ran_out_of_memory();
        let (cpu, memory) = self.group.spent();
        self.used.cpu = Some(cpu.unwrap_or(self.spent.cpu));
        self.used.memory = Some(memory.unwrap_or(self.spent.memory));
        if let Err(e) = self.group.remove() {
            eprintln!("gqstep {}: its control group cannot be removed: {e}", self.key);
        }
    }

    /// Whether a process of the run was killed because its memory was not enough.
    pub const fn ran_out_of_memory(&self) -> bool {
        self.ran_out_of_memory
    }

    /// What the run used, once it rests.
    pub fn used(&self) -> Used {
        self.used.clone()
    }

    /// Does the round of killing that is due; returns when the next one is.
    pub fn round(&mut self, now: Instant) -> Option<Instant> {
        let killing = self.killing.as_mut()?;
        if killing.next > now {
            return Some(killing.next);
        }
        let found = kill_all(&self.group).unwrap_or_else(|e| {
            eprintln!("gqstep {}: its processes cannot be killed: {e}", self.key);
            BTreeSet::new()
        });
        // Who forks is hunted without a pause; who cannot die yet is left in peace for longer and longer.
        let pause = if found.is_subset(&killing.found) { killing.pause } else { PAUSES.0 };
        *killing = Killing { next: now + pause, pause: (pause * 2).min(PAUSES.1), found };
        Some(now + pause)
    }

    /// When ended processes are taken that were left for later.
    pub const fn takes_more(&self) -> Option<Instant> {
        self.crowded_until
    }

    /// Takes the processes that have ended; `left` says whether any process of the run is left. When the script is
    /// among them, its group is killed before it is taken, while the group's number is surely its own.
    pub fn reap(&mut self, now: Instant) -> Reaped {
        if let Some(main) = self.main
            && gq_host::has_ended(main).unwrap_or(true)
        {
            self.main = None;
            if let Err(e) = gq_host::kill_group(main) {
                eprintln!("gqstep {}: its process group cannot be killed: {e}", self.key);
            }
        }
        let is_patient = self.main.is_some() && self.killing.is_none();
        if is_patient && self.crowded_until.is_some_and(|until| now < until) {
            return Reaped { left: true, ..Reaped::default() };
        }
        let most = if is_patient { CROWD } else { usize::MAX };
        let mut reaped = self.take(most);
        self.crowded_until = None;
        if is_patient && reaped.ended.len() == most {
            if self.group.is_crowded() {
                self.crowded_until = Some(now + CROWD_PAUSE);
            } else {
                let more = self.take(usize::MAX);
                reaped.ended.extend(more.ended);
                reaped.left = more.left;
            }
        }
        if !reaped.left {
            reaped.left = !self.group.is_empty().unwrap_or_else(|e| {
                eprintln!("gqstep {}: its control group cannot be looked at: {e}", self.key);
                true
            });
        }
        reaped
    }

    /// Takes so many at most of the processes that have ended.
    fn take(&mut self, most: usize) -> Reaped {
        let reaped = gq_host::reap_children(most).unwrap_or_else(|e| {
            eprintln!("gqstep {}: its processes cannot be waited for: {e}", self.key);
            Reaped { left: true, ..Reaped::default() }
        });
        self.spent.add(reaped.spent);
        reaped
    }
}

/// Kills all that is in the group or descends from this process.
fn kill_all(group: &Group) -> io::Result<BTreeSet<u32>> {
    let (grouped, mut found) = (group.kill(), gq_host::kill_descendants()?);
    found.extend(grouped?);
    Ok(found)
}

/// Numbers of the signals used here; the same on every Linux.
pub mod number {
    pub const KILL: i32 = 9;
    pub const TERM: i32 = 15;
    pub const CONT: i32 = 18;
}
