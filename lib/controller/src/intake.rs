//! Takes a job file in the drop box for a submission, after every proof (owner, cluster, token, content), as the site's submit hook lets it pass.

use crate::{
    gate::Gate,
    submit_hook::{Refused, Request, SubmitHook},
};
use gq_cluster::Role;
use gq_engine::{Actor, Submission};
use gq_model::{ClusterId, JobSpec, Token, Uid};
use gq_proto::{JobFileError, JobFileParts, Refusal, RefusalKind, sha256_hex};
use gq_spool::{DropError, Spool};
use nix::unistd::User;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long an account's name is believed.
const NAME_LIFE: Duration = Duration::from_secs(60);
/// Names that are remembered.
const MAX_NAMES: usize = 10_000;

/// Why a file is not taken.
pub(crate) enum NotTaken {
    /// It may become good: it is not there, or cannot be looked at.
    NotYet(Refusal),
    /// It may become good while it is being written.
    Unfinished(Refusal),
    /// It never will.
    Never(Refusal),
}

impl NotTaken {
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::NotYet(refusal) | Self::Unfinished(refusal) | Self::Never(refusal) => refusal,
        }
    }
}

/// What the proofs need.
pub(crate) struct Intake {
    spool: Arc<Spool>,
    cluster: ClusterId,
    hook: Arc<SubmitHook>,
    names: Mutex<HashMap<Uid, (String, Instant)>>,
    /// Before files that are named: each is in memory while it is read.
    gate: Gate,
}

impl Intake {
    pub(crate) fn new(spool: Arc<Spool>, cluster: ClusterId, hook: Arc<SubmitHook>) -> Self {
        Self { spool, cluster, hook, names: Mutex::default(), gate: Gate::default() }
    }

    /// Takes the file `drop_name`, which must hold `token`. With `by`, only a file of that user.
    pub(crate) fn take(
        &self,
        drop_name: &str,
        token: Token,
        by: Option<Uid>,
        role: impl FnOnce(Uid) -> Role,
    ) -> Result<Submission, NotTaken> {
        let _place = by.map(|uid| self.gate.enter(uid));
        let found = self.spool.read_drop(drop_name).map_err(not_read)?;
        if by.is_some_and(|uid| uid != found.uid) {
            let text = format!("the job file belongs to uid {}", found.uid);
            return Err(NotTaken::Never(refusal(RefusalKind::NotPermitted, text)));
        }
        let file = JobFileParts::of(&found.bytes).map_err(|error| match error {
            JobFileError::Torn => {
                NotTaken::Unfinished(refusal(RefusalKind::Policy, format!("the job file is {error}")))
            }
            error => NotTaken::Never(refusal(RefusalKind::Usage, format!("the job file: {error}"))),
        })?;
        let rule = match () {
            () if file.cluster != self.cluster => Some("it was made for another cluster"),
            () if file.uid != found.uid => Some("the uid in it is not its owner's"),
            () if file.token != token => Some("the token in it is not that of its name"),
            () => None,
        };
        if let Some(rule) = rule {
            return Err(NotTaken::Never(refusal(
                RefusalKind::NotPermitted,
                format!("the job file proves nothing: {rule}"),
            )));
        }
        let by = Actor { uid: found.uid, role: role(found.uid) };
        let user = self.name_of(found.uid);
        let request = Request { uid: by.uid, user: &user, admin: by.is_admin(), script: Some(file.script) };
        let passed = self.hook.pass(&request, file.spec).map_err(|no| match no {
            Refused::Said(refusal) => NotTaken::Never(refusal),
            Refused::Failed(refusal) => NotTaken::NotYet(refusal),
        });
        Ok(Submission {
            by,
            token,
            drop_name: drop_name.to_owned(),
            sha256: sha256_hex(&found.bytes),
            spec: Arc::new(passed?),
            user,
        })
    }

    /// The request as the submit hook lets it pass, of somebody who only asks whether it would be taken.
    pub(crate) fn consider(&self, uid: Uid, admin: bool, spec: JobSpec) -> Result<JobSpec, Refusal> {
        let user = self.name_of(uid);
        let request = Request { uid, user: &user, admin, script: None };
        self.hook.pass(&request, spec).map_err(Refused::refusal)
    }

    /// An account's name, or the uid in digits. Asked of the system once a minute at most, and never while others wait for the names.
    pub(crate) fn name_of(&self, uid: Uid) -> String {
        let names = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            names().get(&uid).filter(|(_, since)| since.elapsed() < NAME_LIFE).map(|(name, _)| name.clone());
        if let Some(name) = known {
            return name;
        }
        let found = User::from_uid(nix::unistd::Uid::from_raw(uid.0));
        let name = found.ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
        let mut names = names();
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(uid, (name.clone(), Instant::now()));
        name
    }
}

pub(crate) fn refusal(kind: RefusalKind, text: impl Into<String>) -> Refusal {
    Refusal { kind, text: text.into(), hint: None }
}

fn not_read(error: DropError) -> NotTaken {
    let text = format!("the job file: {error}");
    match error {
        DropError::Missing | DropError::Changing | DropError::Io(_) => {
            NotTaken::NotYet(refusal(RefusalKind::Policy, text))
        }
        DropError::Shut(_) => NotTaken::NotYet(Refusal {
            hint: Some("an admin must put the spool in order".into()),
            ..refusal(RefusalKind::Policy, text)
        }),
        DropError::TooLarge { .. } => NotTaken::Never(refusal(RefusalKind::Usage, text)),
        DropError::NotYours(_) => NotTaken::Never(refusal(RefusalKind::NotPermitted, text)),
    }
}
