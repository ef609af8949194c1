//! Messages to users and notices to the site: what happened, told by programs of the site, in threads of their own. The state's own thread
//! hands over what there is to tell, once it is durable, and never waits: what finds no room is dropped, and counted.

mod advice;
mod allowance;
mod budget;
mod desk;
mod lane;
mod letter;
mod limits;
mod note;
mod notice;
mod scribe;

use crate::{
    board::Wall,
    program::{Program, Surroundings},
};
use advice::Adviser;
use budget::News;
use crossbeam_channel::{Receiver, Sender, bounded};
use desk::Desk;
use gq_cluster::{Cluster, Policy};
use gq_conf::Hooks;
use gq_engine::Step;
use gq_model::{Epoch, RunKey};
use letter::Origin;
use note::Note;
use scribe::Scribe;
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// Words that may wait for the desk.
const MAX_WORDS: usize = 10_000;
/// How long a `gqd` that ends waits for the last messages.
const PATIENCE: Duration = Duration::from_secs(2);
/// Stack of the desk's thread.
const STACK: usize = 1 << 20;

/// What came to nothing, since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    dropped: AtomicU64,
}

impl Counts {
    /// How many messages and notices were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What the conf says of messages and notices.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    mail: Option<Program>,
    notify: Option<Program>,
    origin: Origin,
}

impl Setting {
    pub(crate) fn new(hooks: &Hooks, cluster: &str, around: &Surroundings) -> Self {
        let host =
            nix::unistd::gethostname().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default();
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let host = hooks.mail_domain.clone().unwrap_or(host);
        Self {
            mail: Program::new(&hooks.mail, hooks.mail_time, around),
            notify: Program::new(&hooks.notify, hooks.notify_time, around),
            origin: Origin {
                cluster: cluster.to_owned(),
                from: hooks.mail_from.clone(),
                domain: hooks.mail_domain.clone(),
                host: if !host.is_empty() && host.chars().all(good) { host } else { "localhost".into() },
            },
        }
    }
}

/// What the desk is told.
enum Word {
    Note(Box<Note>),
    /// The time limit of a run is to be watched, which began in an earlier life of `gqd`, or now.
    Watch {
        run: RunKey,
        earlier: bool,
    },
    Setting(Box<Setting>),
    Finish(Sender<()>),
}

/// The side of the state's own thread.
pub(crate) struct Herald {
    scribe: Scribe,
    words: Sender<Word>,
    counts: Arc<Counts>,
    /// Whether there is a program that is told of everything.
    notify: bool,
}

/// Whoever ends `gqd` waits for the last messages by it.
pub(crate) struct Farewell(Sender<Word>);

impl Herald {
    /// Starts the desk. Of the jobs that live, what is past is not told again. `database`: where the past is read.
    pub(crate) fn start(
        cluster: &Cluster,
        (wall, database): (Wall, PathBuf),
        life: Epoch,
        setting: Setting,
    ) -> io::Result<Self> {
        let (words, inbox): (Sender<Word>, Receiver<Word>) = bounded(MAX_WORDS);
        let counts = Arc::new(Counts::default());
        let notify = setting.notify.is_some();
        let desk = Desk::new(inbox, (Adviser { database, wall }, life), Arc::clone(&counts), setting)?;
        thread::Builder::new().name("messages".into()).stack_size(STACK).spawn(move || desk.run())?;
        let (scribe, watch) = Scribe::begin(cluster);
        let herald = Self { scribe, words, counts, notify };
        watch.into_iter().for_each(|run| herald.say(Word::Watch { run, earlier: true }));
        Ok(herald)
    }

    /// Tells of a turn that is durable and shown.
    pub(crate) fn tell(&mut self, cluster: &Cluster, policy: &Policy, steps: &[Step]) {
        let mut told = self.scribe.read(cluster, steps, gq_daemon::now(), self.notify);
        for news in steps.iter().filter_map(|step| News::of(policy, cluster, steps, &step.event)) {
            log::warn!("{}", news.0.sentence());
            told.notes.extend(self.scribe.budget(gq_daemon::now(), news, self.notify));
        }
        told.watch.into_iter().for_each(|run| self.say(Word::Watch { run, earlier: false }));
        told.notes.into_iter().for_each(|note| self.say(Word::Note(Box::new(note))));
    }

    /// Goes by what the conf says now.
    pub(crate) fn change(&mut self, setting: Setting) {
        self.notify = setting.notify.is_some();
        if self.words.send_timeout(Word::Setting(Box::new(setting)), PATIENCE).is_err() {
            log::warn!("messages and notices go by the old conf: their thread does not hear");
        }
    }

    /// What came to nothing, to be shown.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// To wait by for the last messages.
    pub(crate) fn farewell(&self) -> Farewell {
        Farewell(self.words.clone())
    }

    fn say(&self, word: Word) {
        if self.words.try_send(word).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Farewell {
    /// Waits a moment for what was not tried yet; what failed before is given up.
    pub(crate) fn wait(self) {
        let (done, finished) = bounded(1);
        let sent = self.0.send_timeout(Word::Finish(done), PATIENCE).is_ok();
        if sent && finished.recv_timeout(PATIENCE).is_err() {
            log::warn!("some messages were not sent before the end");
        }
    }
}

#[cfg(test)]
mod tests;
