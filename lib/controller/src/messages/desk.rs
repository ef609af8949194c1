//! The desk: the thread that has messages and notices sent, one program of each kind at a time, and watches time limits. It waits for no
//! program: each kind has a thread that does.

use super::{
    Counts, Setting, Word,
    advice::Adviser,
    allowance::Allowances,
    lane::{Lane, Parcel},
    limits::Limits,
    note::Note,
    notice,
    scribe::Scribe,
};
use crate::{
    board::Wall,
    program::{Failed, Program},
};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use gq_model::Epoch;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Most notices that a program gets at a time, a line each.
const TOGETHER: usize = 256;
/// How often what was dropped, and what fails, is logged.
const PAUSE: Duration = Duration::from_secs(60);
/// Longest sleep.
const NAP: Duration = Duration::from_secs(60);
/// Exit codes of mail programs after which another try is in vain: bad data, no such user, no such host. Source: sysexits.h.
const IN_VAIN: [i32; 3] = [65, 67, 68];
/// Stack of the threads that wait for programs, and look up what is said of a job's end.
const STACK: usize = 1 << 20;

/// What a program is to read.
struct Work {
    program: Program,
    text: Vec<u8>,
    /// About what advice is to stand below it.
    advice: Option<Arc<Note>>,
}

/// One kind: what waits for its program, and the thread that runs it.
struct Office {
    what: &'static str,
    lane: Lane,
    program: Option<Program>,
    work: Sender<Work>,
    done: Receiver<Result<(), Failed>>,
    /// What the program is at.
    at: Option<Parcel>,
    /// When its trouble was logged last.
    logged: Option<Instant>,
}

impl Office {
    fn open(what: &'static str, lane: Lane, program: Option<Program>, adviser: Adviser) -> io::Result<Self> {
        let (work, inbox) = bounded::<Work>(1);
        let (tell, done) = bounded(1);
        let runs = move || {
            for mut work in inbox {
                let advice = work.advice.map(|note| adviser.advise(&note)).unwrap_or_default();
                work.text.extend(advice.into_bytes());
                if tell.send(work.program.run(&work.text).map(drop)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name(what.into()).stack_size(STACK).spawn(runs)?;
        Ok(Self { what, lane, program, work, done, at: None, logged: None })
    }

    fn is_free(&self) -> bool {
        self.at.is_none()
    }

    /// Logs trouble, unless it was a moment ago.
    fn complain(&mut self, words: &str) {
        if self.logged.is_none_or(|at| at.elapsed() >= PAUSE) {
            self.logged = Some(Instant::now());
            let name = self.program.as_ref().map_or("", Program::name);
            log::warn!("{} {name}: {words}", self.what);
        }
    }

    /// Has its program do this: how many notes were given up, for want of one.
    fn begin(&mut self, parcel: Parcel, text: Vec<u8>, advice: Option<Arc<Note>>) -> u64 {
        let work = self.program.clone().map(|program| Work { program, text, advice });
        if work.is_some_and(|work| self.work.try_send(work).is_ok()) {
            self.at = Some(parcel);
            return 0;
        }
        self.lane.done(&parcel);
        parcel.notes.len() as u64
    }

    /// Its program has ended: how many notes were given up.
    fn ended(&mut self, result: Result<(), Failed>) -> u64 {
        let Some(parcel) = self.at.take() else { return 0 };
        let Err(failed) = result else {
            self.lane.done(&parcel);
            return 0;
        };
        let count = parcel.notes.len() as u64;
        let in_vain = matches!(&failed, Failed::Ended(status, _) if status.code().is_some_and(|c| IN_VAIN.contains(&c)));
        if in_vain {
            self.lane.done(&parcel);
            self.complain(&format!("{failed}; it is dropped"));
            return count;
        }
        match self.lane.again(parcel, Instant::now()) {
            Some(pause) => {
                self.complain(&format!("{failed}; it is tried again in {pause} s"));
                0
            }
            None => {
                self.complain(&format!("{failed}; it is dropped after the last try"));
                count
            }
        }
    }
}

/// What the thread has.
pub(super) struct Desk {
    words: Receiver<Word>,
    wall: Wall,
    life: Epoch,
    counts: Arc<Counts>,
    setting: Setting,
    mail: Office,
    notify: Office,
    allowances: Allowances,
    limits: Limits,
    /// Numbers the notes that are made here: above all others.
    scribe: Scribe,
    /// Who wants to know when all is sent that can be.
    finishing: Option<Sender<()>>,
    /// How many were dropped when that was logged last, and when.
    logged: (u64, Option<Instant>),
}

impl Desk {
    pub(super) fn new(
        words: Receiver<Word>,
        (adviser, life): (Adviser, Epoch),
        counts: Arc<Counts>,
        setting: Setting,
    ) -> io::Result<Self> {
        let wall = adviser.wall.clone();
        let mail = Office::open("mail", Lane::new(false, 1), setting.mail.clone(), adviser.clone())?;
        let notify = Office::open("notify", Lane::new(true, TOGETHER), setting.notify.clone(), adviser)?;
        Ok(Self {
            words,
            wall,
            life,
            counts,
            setting,
            mail,
            notify,
            allowances: Allowances::default(),
            limits: Limits::default(),
            scribe: Scribe::numbering_from(1 << 62),
            finishing: None,
            logged: (0, None),
        })
    }

    /// Works until nobody speaks to it any more, or it was told to finish and has.
    pub(super) fn run(mut self) {
        loop {
            let now = Instant::now();
            self.look_at_limits(now);
            self.tell_of_left_out(now);
            self.hand_out(now);
            self.log_dropped();
            if self.is_finished() {
                return;
            }
            let words = self.words.clone();
            select! {
                recv(words) -> word => match word {
                    Ok(word) => self.hear(word),
                    Err(_) => return,
                },
                recv(self.mail.done) -> done => match done {
                    Ok(done) => {
                        let dropped = self.mail.ended(done);
                        self.drop_some(dropped);
                    }
                    Err(_) => return log::error!("no messages are sent any more: their thread is gone"),
                },
                recv(self.notify.done) -> done => match done {
                    Ok(done) => {
                        let dropped = self.notify.ended(done);
                        self.drop_some(dropped);
                    }
                    Err(_) => return log::error!("no notices are sent any more: their thread is gone"),
                },
                default(self.nap(now)) => {}
            }
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Note(note) => self.take(Arc::new(*note)),
            Word::Watch { run, earlier } => {
                self.limits.watch(run, &self.wall.look(), earlier, gq_daemon::now());
            }
            Word::Setting(setting) => {
                self.mail.program = setting.mail.clone();
                self.notify.program = setting.notify.clone();
                self.setting = *setting;
                for office in [&mut self.mail, &mut self.notify] {
                    if office.program.is_none() {
                        let gone = office.lane.clear() as u64;
                        self.counts.dropped.fetch_add(gone, Ordering::Relaxed);
                    }
                }
            }
            Word::Finish(done) => self.finishing = Some(done),
        }
    }

    /// Puts a note where it belongs.
    fn take(&mut self, note: Arc<Note>) {
        let now = Instant::now();
        let mut dropped = 0;
        if note.notify && self.notify.program.is_some() && !self.notify.lane.put(Arc::clone(&note), now) {
            dropped += 1;
        }
        if note.mail
            && self.mail.program.is_some()
            && self.allowances.may(&note, now)
            && !self.mail.lane.put(note, now)
        {
            dropped += 1;
        }
        self.drop_some(dropped);
    }

    fn look_at_limits(&mut self, now: Instant) {
        if self.limits.next().is_none_or(|at| at > now) {
            return;
        }
        let at = gq_daemon::now();
        for what in self.limits.look(&self.wall.look(), at) {
            let note = self.scribe.note(at, what, (true, self.notify.program.is_some()));
            self.take(Arc::new(note));
        }
    }

    /// Who was sent too many, and nothing since, is told how many he did not get.
    fn tell_of_left_out(&mut self, now: Instant) {
        if self.mail.lane.is_fresh() {
            return;
        }
        for last in self.allowances.untold(now) {
            let Some(note) = self.scribe.left_out(&last) else { continue };
            if !self.mail.lane.put(Arc::new(note), now) {
                self.drop_some(1);
            }
        }
    }

    /// Gives the programs what is due.
    fn hand_out(&mut self, now: Instant) {
        while self.mail.is_free()
            && let Some(mut parcel) = self.mail.lane.take(now)
        {
            let Some(note) = parcel.notes.first().cloned() else { continue };
            parcel.left_out += self.allowances.left_out(&note);
            match self.setting.origin.message(&note, parcel.left_out) {
                Ok(text) => {
                    let dropped = self.mail.begin(parcel, text, Some(note));
                    self.drop_some(dropped);
                }
                Err(why) => {
                    self.mail.lane.done(&parcel);
                    self.mail.complain(&why);
                    self.drop_some(1);
                }
            }
        }
        while self.notify.is_free()
            && let Some(parcel) = self.notify.lane.take(now)
        {
            let line = |note: &Arc<Note>| notice::line(note, &self.setting.origin.cluster, self.life);
            let text = parcel.notes.iter().filter_map(line).flatten().collect();
            let dropped = self.notify.begin(parcel, text, None);
            self.drop_some(dropped);
        }
    }

    fn drop_some(&self, count: u64) {
        self.counts.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn log_dropped(&mut self) {
        let dropped = self.counts.dropped();
        let (before, at) = self.logged;
        if dropped > before && at.is_none_or(|at| at.elapsed() >= PAUSE) {
            log::warn!("{} messages and notices were dropped, {dropped} since the start", dropped - before);
            self.logged = (dropped, Some(Instant::now()));
        }
    }

    fn nap(&self, now: Instant) -> Duration {
        let free = |office: &Office| if office.is_free() { office.lane.next() } else { None };
        let left_out = self.allowances.next().filter(|_| !self.mail.lane.is_fresh());
        let dropped = self.logged.1.filter(|_| self.counts.dropped() > self.logged.0).map(|at| at + PAUSE);
        let next = [free(&self.mail), free(&self.notify), self.limits.next(), left_out, dropped];
        next.into_iter().flatten().map(|at| at.saturating_duration_since(now)).fold(NAP, Duration::min)
    }

    /// Whether it was told to finish, and has sent what was not tried yet.
    fn is_finished(&self) -> bool {
        let idle = |office: &Office| office.is_free() && !office.lane.is_fresh();
        let Some(done) = self.finishing.as_ref().filter(|_| idle(&self.mail) && idle(&self.notify)) else {
            return false;
        };
        let _ = done.try_send(());
        true
    }
}
