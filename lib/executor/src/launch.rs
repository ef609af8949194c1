//! Launching a run that is to be launched: its slices, its user's account, its folder, its supervisor. A run waits for its slices and
//! its account; the deciding thread never does.

use crate::{
    accounts::Entry,
    fitting::{Fitting, Misfit},
    household::Household,
};
use gq_host::{Account, Becoming, SpawnRequest, lock_folder, spawn_supervisor};
use gq_model::{Assignment, CardUse, Reason, RunKey, Uid};
use gq_nodecore::{Effect, Input, Serves};
use std::{
    fs::DirBuilder,
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    time::Instant,
};

/// Why a run is not launched whose user could not be looked up in time.
const NO_ANSWER: &str =
    "account lookup does not answer; look at this node's directory service (nsswitch.conf)";
/// Why a run is not launched whose slices did not come in time.
const DRIVER_HANGS: &str = "the NVIDIA driver does not answer: its slices were neither found nor cut";

impl Household {
    /// Launches a run: now, if it needs no slices and its user's account is known, else when they are there.
    pub(crate) fn launch(&mut self, assignment: &Assignment, todo: &mut Vec<Effect>) {
        let key = assignment.key;
        self.runs.hold(key, &assignment.cards);
        if !Fitting::is_needed(assignment) {
            return self.launch_fitted(assignment, todo);
        }
        let held = self.runs.held_beside(key, |other| self.node.lives(other));
        if !self.fitting.enter(assignment, held, Instant::now()) {
            self.loose.later.push(Effect::Launch(Box::new(assignment.clone())));
        }
    }

    /// Launches a run whose slices are there.
    fn launch_fitted(&mut self, assignment: &Assignment, todo: &mut Vec<Effect>) {
        match self.accounts.enter(assignment, Instant::now()) {
            Entry::Known(account) => self.launch_as(assignment, Some(account), todo),
            Entry::Waits => {}
            Entry::Busy => self.not_launched(assignment.key, Reason::LaunchFailure, NO_ANSWER, todo),
        }
    }

    /// Launches the run whose slices are there now, or gives it up.
    pub(crate) fn fitted(
        &mut self,
        key: RunKey,
        fitted: Result<Vec<CardUse>, Misfit>,
        todo: &mut Vec<Effect>,
    ) {
        match fitted {
            Ok(cards) => {
                if let Some(assignment) = self.fitting.told(key, cards) {
                    self.runs.hold(key, &assignment.cards);
                    self.launch_fitted(&assignment, todo);
                }
            }
            Err(Misfit { reason, detail }) => {
                if self.fitting.give_up(key) {
                    self.not_launched(key, reason, &detail, todo);
                }
            }
        }
    }

    /// Launches what waited for this answer.
    pub(crate) fn account_told(
        &mut self,
        uid: Uid,
        found: &Result<Option<Account>, String>,
        todo: &mut Vec<Effect>,
    ) {
        let account = found.as_ref().ok().and_then(Option::as_ref);
        for assignment in self.accounts.told(uid, account, Instant::now()) {
            match found {
                // A supervisor of a user who has no account says so, or does without.
                Ok(account) => self.launch_as(&assignment, account.clone(), todo),
                Err(why) => self.not_launched(assignment.key, Reason::LaunchFailure, why, todo),
            }
        }
    }

    /// Gives up the launches that have waited long enough for an account, or for their slices.
    pub(crate) fn give_up_launches(&mut self, todo: &mut Vec<Effect>) {
        for assignment in self.accounts.overdue(Instant::now()) {
            self.not_launched(assignment.key, Reason::LaunchFailure, NO_ANSWER, todo);
        }
        for key in self.fitting.overdue(Instant::now()) {
            self.not_launched(key, Reason::LaunchFailure, DRIVER_HANGS, todo);
        }
    }

    fn launch_as(&mut self, assignment: &Assignment, account: Option<Account>, todo: &mut Vec<Effect>) {
        if let Err(e) = self.try_to_launch(assignment, account) {
            self.not_launched(assignment.key, Reason::LaunchFailure, &e.to_string(), todo);
        }
    }

    fn not_launched(&mut self, key: RunKey, reason: Reason, why: &str, todo: &mut Vec<Effect>) {
        log::error!("run {key} cannot be launched: {why}");
        self.decide(Input::LaunchFailed { key, reason, detail: why.to_owned() }, todo);
    }

    fn try_to_launch(&mut self, assignment: &Assignment, account: Option<Account>) -> io::Result<()> {
        let key = assignment.key;
        if self.ballast.is_spent() {
            let words =
                format!("the disk of {} is full; what is left is for results", self.site.folder.display());
            return Err(io::Error::new(io::ErrorKind::StorageFull, words));
        }
        let run_folder = self.run_folder(key, assignment.uid)?;
        let supervisor = spawn_supervisor(SpawnRequest {
            exe: &self.site.gqstep,
            key,
            assignment_json: &serde_json::to_string(assignment)?,
            becoming: &Becoming { account, oom_protected: self.site.oom_protected },
            spool_dir: &self.site.config.cluster.spool_dir,
            run_folder,
            log: self.log.hand_out(key).map_err(io::Error::other)?,
            serves_root: matches!(self.site.serves, Serves::Only(uid) if uid.0 == 0),
            lease: self.node.leased_until(key),
            around: &self.site.around(),
        })?;
        self.runs.enter(assignment);
        self.runs.watch(key, supervisor, &mut self.watcher);
        Ok(())
    }

    /// The run's folder, locked: a spare one of its user, else a new one.
    fn run_folder(&mut self, key: RunKey, uid: Uid) -> io::Result<OwnedFd> {
        let folder = self.folder_of(key);
        if let Some(lock) = self.spares.take(uid, &folder) {
            return Ok(lock);
        }
        match DirBuilder::new().mode(0o711).create(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        lock_folder(&folder)?.ok_or_else(|| io::Error::other("a supervisor of this run lives already"))
    }
}
