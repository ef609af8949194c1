//! Starts daemons again whenever they were killed, and kills some of its own accord. A daemon that ends by itself is a fault.

use crate::lab::{Daemon, Dice, Lab, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    os::unix::process::ExitStatusExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often daemons are looked after.
const LOOK: Duration = Duration::from_millis(5);

/// How many were killed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    /// Daemons.
    pub daemons: usize,
    /// Supervisors.
    pub supervisors: usize,
}

/// Kills at random, with these dice.
pub struct Killer {
    pub dice: Dice,
    /// Longest pause from one murder to the next.
    pub pause: Duration,
    /// How long a daemon stays dead at most.
    pub death: Duration,
}

/// A daemon, and until when it stays dead if it was struck.
struct Patient<'a> {
    daemon: &'a Daemon,
    struck: Option<Instant>,
}

impl Patient<'_> {
    /// Starts it; a queue that is not there yet is made.
    fn launch(&mut self, lab: &Lab) {
        let is_new = self.daemon.name() == "gqd" && !lab.dir().join("state/gq.db").exists();
        self.daemon.launch(if is_new { &["--init"] } else { &[] });
        self.struck = None;
    }

    /// Starts it again if it has ended and the time has come; says whether it did. `at_once`: who was struck is waited for.
    fn tend(&mut self, lab: &Lab, at_once: bool) -> bool {
        let ended = match self.struck {
            Some(_) if at_once => Some(until("who was struck ends", || self.daemon.has_ended())),
            Some(dead_until) if Instant::now() < dead_until => None,
            Some(_) | None => self.daemon.has_ended(),
        };
        let Some(status) = ended else { return false };
        // Whoever is asked to stop before it can listen dies of that.
        let is_stopped = status.code() == Some(0) || status.signal() == Some(15);
        let is_killed = status.signal() == Some(9) || (self.struck.is_some() && is_stopped);
        let said = self.daemon.said_now();
        assert!(is_killed, "{} ended by itself ({status}): {said}", self.daemon.name());
        self.daemon.wait();
        self.launch(lab);
        true
    }
}

/// Keeps the daemons of a lab alive until it is told to stop; they live then.
pub fn tend(lab: &Lab, stop: &AtomicBool, mut killer: Option<Killer>) -> Deaths {
    let mut deaths = Deaths::default();
    let mut next = Instant::now();
    let mut patients =
        [&lab.gqd, lab.node("n1"), lab.node("n2")].map(|daemon| Patient { daemon, struck: None });
    patients.iter_mut().for_each(|patient| patient.launch(lab));
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        if let Some(killer) = killer.as_mut().filter(|_| !is_over && next <= Instant::now()) {
            killer.strike(lab, &mut patients, &mut deaths);
            next = Instant::now() + killer.some(killer.pause);
        }
        for patient in &mut patients {
            deaths.daemons += usize::from(patient.tend(lab, is_over));
        }
        if is_over {
            return deaths;
        }
        thread::sleep(LOOK);
    }
}

impl Killer {
    fn some(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.dice.roll(usize::try_from(most.as_millis()).unwrap()) as u64)
    }

    /// Kills a supervisor, or a daemon, or two; one in four is asked to stop.
    fn strike(&mut self, lab: &Lab, patients: &mut [Patient<'_>], deaths: &mut Deaths) {
        let victims = patients.len();
        let (first, second) = (self.dice.roll(victims + 1), self.dice.roll(victims * 2));
        if first == victims {
            deaths.supervisors += usize::from(self.kill_a_supervisor(lab));
        }
        for at in [first, second] {
            let (gently, death) = (self.dice.roll(4) == 0, self.some(self.death));
            if let Some(patient) = patients.get_mut(at) {
                patient.struck = Some(Instant::now() + death);
                patient.daemon.strike(if gently { Signal::SIGTERM } else { Signal::SIGKILL });
            }
        }
    }

    fn kill_a_supervisor(&mut self, lab: &Lab) -> bool {
        let all = lab.supervisors();
        let chosen = self.dice.roll(all.len().max(1));
        all.get(chosen).is_some_and(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok())
    }
}
