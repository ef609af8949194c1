//! Launching a run that is to be launched: its cards, its user's account, its folder, its supervisor. A run waits for its cards and
//! its account; the deciding thread never does. And what comes after it: its cards are looked at before they are given on.

use crate::{accounts::Entry, cards::Watch, fitting::Misfit, household::Household, sharing::Sharer};
use gq_daemon::now;
use gq_failpoint::{Step, step};
use gq_gpu::Used;
use gq_host::{Account, Becoming, SpawnRequest, lock_folder, spawn_supervisor};
use gq_model::{Assignment, CardUse, CardUsed, Reason, RunKey, Timestamp, Uid};
use gq_nodecore::{Effect, Input, Serves};
use gq_nodelog::LogError;
use std::{
    fs::DirBuilder,
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    time::Instant,
};

/// Why a run is not launched whose user could not be looked up in time.
const NO_ANSWER: &str =
    "account lookup does not answer; look at this node's directory service (nsswitch.conf)";
/// Why a run is not launched whose cards could not be looked at in time.
const DRIVER_HANGS: &str = "the NVIDIA driver does not answer: its cards were neither looked at nor cut";

impl Household {
    /// Launches a run: now, if it needs no cards that the driver knows and its user's account is known, else when they were looked at and it is.
    pub(crate) fn launch(&mut self, assignment: &Assignment, todo: &mut Vec<Effect>) {
        let key = assignment.key;
        self.runs.hold(key, &assignment.cards);
        self.runs.judge(key, assignment.idle);
        if !assignment.cards.iter().any(|one| self.health.is_real(one)) {
            return self.launch_fitted(assignment, todo);
        }
        if self.health.hangs() {
            return self.not_fitted(key, Misfit::gone(DRIVER_HANGS.to_owned()), todo);
        }
        let held = self.runs.held_beside(Some(key), |other| self.node.lives(other));
        if !self.fitting.enter(assignment, held, Instant::now()) {
            self.loose.later.push(Effect::Launch(Box::new(assignment.clone())));
        }
    }

    /// Launches a run whose cards are there.
    fn launch_fitted(&mut self, assignment: &Assignment, todo: &mut Vec<Effect>) {
        match self.accounts.enter(assignment, Instant::now()) {
            Entry::Known(account) => self.launch_as(assignment, Some(account), todo),
            Entry::Waits => {}
            Entry::Busy => self.not_launched(assignment.key, Reason::LaunchFailure, NO_ANSWER, todo),
        }
    }

    /// Launches the run whose cards are there now, or gives it up.
    pub(crate) fn fitted(
        &mut self,
        key: RunKey,
        fitted: Result<Vec<CardUse>, Misfit>,
        todo: &mut Vec<Effect>,
    ) {
        let others = self.runs.held_beside(Some(key), |other| self.node.lives(other));
        let fitted = fitted.and_then(|cards| match self.health.trouble(&cards, &others) {
            Some(words) => Err(Misfit::gone(words)),
            None => Ok(cards),
        });
        match fitted {
            Ok(cards) => {
                if let Some(assignment) = self.fitting.told(key, cards) {
                    self.runs.hold(key, &assignment.cards);
                    self.launch_fitted(&assignment, todo);
                }
            }
            Err(misfit) => {
                if self.fitting.give_up(key) {
                    self.not_fitted(key, misfit, todo);
                }
            }
        }
    }

    /// A run does not get its cards: what is wrong with them is told before that it was not launched.
    fn not_fitted(&mut self, key: RunKey, Misfit { reason, detail }: Misfit, todo: &mut Vec<Effect>) {
        self.runs.release(key);
        self.tell_cards(todo);
        self.not_launched(key, reason, &detail, todo);
    }

    /// Has the cards of a run looked at that has ended, before its end is said.
    pub(crate) fn vacate(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        let held = self.runs.held_by(key);
        let real: Vec<CardUse> = held.iter().filter(|one| self.health.is_real(one)).cloned().collect();
        if real.is_empty() || self.health.hangs() {
            self.vacated(key, Vec::new(), todo);
        } else if !self.fitting.leave(key, real) {
            self.loose.later.push(Effect::Vacate(key));
        }
    }

    /// The cards of a run that has ended were looked at, or cannot be; `used`: what it used of them.
    pub(crate) fn vacated(&mut self, key: RunKey, used: Vec<CardUsed>, todo: &mut Vec<Effect>) {
        self.runs.release(key);
        self.health.left(key);
        self.tell_cards(todo);
        self.decide(Input::Vacated { key, used, at: now() }, todo);
    }

    /// Tells the cards as they are now, by the last look and by what runs hold.
    pub(crate) fn tell_cards(&mut self, todo: &mut Vec<Effect>) {
        let cards = self.health.cards(&self.held());
        self.decide(Input::Cards(cards), todo);
    }

    /// The runs that share cards.
    pub(crate) fn sharers(&self) -> Vec<Sharer> {
        self.runs.sharers(|key| self.node.lives(key), |key| self.site.group(key))
    }

    /// Has the cards watched that runs hold now, and above all those that are shared.
    pub(crate) fn watch_cards(&mut self) {
        let held = self.runs.held_by_name(|key| self.node.lives(key), |card| self.health.slice_at(card));
        let ruled = self.runs.ruled(|key| self.node.is_at_work(key));
        let watch = Watch { sharers: self.sharers(), held, ruled };
        self.fitting.watch(watch);
    }

    /// Finds out who uses more of a card's memory than he declared.
    pub(crate) fn weigh(&mut self, used: &[Used], todo: &mut Vec<Effect>) {
        for sharer in self.sharers() {
            if let Some(used) = sharer.over(used) {
                self.decide(Input::Overused { key: sharer.key, used }, todo);
            }
        }
    }

    /// Tells of runs whose cards are idle, or not any more.
    pub(crate) fn found_idle(&mut self, changes: Vec<(RunKey, Option<Timestamp>)>, todo: &mut Vec<Effect>) {
        for (key, since) in changes {
            match since {
                Some(_) => log::info!("the cards of run {key} are idle"),
                None => log::info!("the cards of run {key} are not idle any more, or are not judged"),
            }
            self.decide(Input::Idle { key, since }, todo);
        }
    }

    /// What all runs hold.
    pub(crate) fn held(&self) -> Vec<CardUse> {
        self.runs.held_beside(None, |key| self.node.lives(key))
    }

    /// Notices a driver that hangs: whoever waits for cards does not wait any longer, and none of them is handed out.
    pub(crate) fn look_after_driver(&mut self, todo: &mut Vec<Effect>) {
        if !self.health.begins_to_hang(Instant::now()) {
            return;
        }
        let (waiting, leaving) = self.fitting.give_all_up();
        for key in waiting {
            self.not_fitted(key, Misfit::gone(DRIVER_HANGS.to_owned()), todo);
        }
        for key in leaving {
            self.vacated(key, Vec::new(), todo);
        }
        self.tell_cards(todo);
        self.tell_now(Vec::new());
    }

    /// Launches what waited for this answer.
    pub(crate) fn account_told(
        &mut self,
        uid: Uid,
        found: &io::Result<Option<Account>>,
        todo: &mut Vec<Effect>,
    ) {
        let account = found.as_ref().ok().and_then(Option::as_ref);
        for assignment in self.accounts.told(uid, account, Instant::now()) {
            match found {
                // A supervisor of a user who has no account says so, or does without.
                Ok(account) => self.launch_as(&assignment, account.clone(), todo),
                Err(e) => {
                    let why = format!("looking up uid {uid}: {}", gq_host::words(e));
                    self.failed_to_launch(assignment.key, e, &why, todo);
                }
            }
        }
    }

    /// Gives up the launches that have waited long enough for an account, or for their cards.
    pub(crate) fn give_up_launches(&mut self, todo: &mut Vec<Effect>) {
        for assignment in self.accounts.overdue(Instant::now()) {
            self.not_launched(assignment.key, Reason::LaunchFailure, NO_ANSWER, todo);
        }
        for key in self.fitting.overdue(Instant::now()) {
            self.not_fitted(key, Misfit::gone(DRIVER_HANGS.to_owned()), todo);
        }
    }

    fn launch_as(&mut self, assignment: &Assignment, account: Option<Account>, todo: &mut Vec<Effect>) {
        if let Err(e) = self.try_to_launch(assignment, account) {
            self.failed_to_launch(assignment.key, &e, &e.to_string(), todo);
        }
    }

    /// What this run lacks the next one would lack too: that is told first, so that none is sent.
    fn failed_to_launch(&mut self, key: RunKey, error: &io::Error, why: &str, todo: &mut Vec<Effect>) {
        let is_short = self.trouble.note(error, Instant::now());
        self.tell_trouble(todo);
        let reason = if is_short { Reason::NodeTrouble } else { Reason::LaunchFailure };
        self.not_launched(key, reason, why, todo);
    }

    /// Tells whether anything can be started now.
    pub(crate) fn tell_trouble(&mut self, todo: &mut Vec<Effect>) {
        let why = self.trouble.now(self.ballast.trouble(), Instant::now());
        self.decide(Input::Trouble(why), todo);
    }

    fn not_launched(&mut self, key: RunKey, reason: Reason, why: &str, todo: &mut Vec<Effect>) {
        log::error!("run {key} cannot be launched: {why}");
        self.decide(Input::LaunchFailed { key, reason, detail: why.to_owned() }, todo);
    }

    fn try_to_launch(&mut self, assignment: &Assignment, account: Option<Account>) -> io::Result<()> {
        let key = assignment.key;
        if let Some(words) = self.ballast.trouble() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, words));
        }
        let run_folder = self.run_folder(key, assignment.uid)?;
        let around = self.site.around_with(self.health.devices(&assignment.cards)?);
        let request = SpawnRequest {
            exe: &self.site.gqstep,
            key,
            assignment_json: &serde_json::to_string(assignment)?,
            becoming: &Becoming {
                account,
                oom_protected: self.site.oom_protected,
                cluster: Some(self.site.parties.cluster),
            },
            spool_dir: &self.site.config.cluster.spool_dir,
            run_folder,
            log: self.log.hand_out(key).map_err(|e| match e {
                LogError::Open(_, source) => source,
                other => io::Error::other(other),
            })?,
            serves_root: matches!(self.site.serves, Serves::Only(uid) if uid.0 == 0),
            lease: self.node.leased_until(key),
            around: &around,
        };
        let supervisor = step(Step::RunSpawn, || spawn_supervisor(request))?;
        self.runs.enter(assignment);
        match supervisor {
            Some(supervisor) => self.runs.watch(key, supervisor, &mut self.watcher),
            None => self.runs.find(key, &mut self.watcher),
        }
        Ok(())
    }

    /// The run's folder, locked: a spare one of its user, else a new one.
    fn run_folder(&mut self, key: RunKey, uid: Uid) -> io::Result<OwnedFd> {
        let folder = self.folder_of(key);
        if let Some(lock) = self.spares.take(uid, &folder) {
            return Ok(lock);
        }
        match step(Step::RunFolder, || DirBuilder::new().mode(0o711).create(&folder)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        lock_folder(&folder)?.ok_or_else(|| io::Error::other("a supervisor of this run lives already"))
    }
}
