//! One thread that looks at the cards and cuts them: at the start, once a minute, when the conf was read again, before a run is given some
//! and after it has had them; and every second at what runs use of them. A driver that hangs holds up nothing else. It decides neither who gets a slice nor where it lies.

use crate::{
    event::Event,
    fitting::fit,
    health::is_on,
    meter::{Held, Meter, Ruled},
    sharing::Sharer,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gq_gpu::{Found, Look, Nvml, User};
use gq_model::{Card, CardHealth, CardUse, RunKey};
use gq_proto::{CardNow, MAX_CARDS_NOW};
use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// How often the cards are looked at, and how often while one of them is failing.
const EVERY: Duration = Duration::from_secs(60);
const EVERY_FAILING: Duration = Duration::from_secs(10);
/// How long whoever uses the cards of a run that has ended is waited for, and how often is looked meanwhile: a driver tells of a process
/// for a moment longer than it lives.
const LEAVING: Duration = Duration::from_secs(10);
const LEAVING_LOOK: Duration = Duration::from_millis(200);
/// How often is looked how much of the cards is used that runs hold.
const WATCH: Duration = Duration::from_secs(1);
/// How often is looked what all cards do.
const GLANCE: Duration = Duration::from_secs(3);
/// Most wishes that wait for the thread.
const MAX_WISHES: usize = 256;

/// What the conf says of the cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Where the driver's library is, when it is not where the loader looks.
    pub library: Option<PathBuf>,
    /// The declared cards.
    pub cards: Vec<Card>,
    /// In how many parts those that are whole may be shared; 0 for not at all.
    pub parts: u8,
    /// Whether whole cards are set back when whoever held one is gone.
    pub set_back: bool,
}

/// What is watched between looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The runs that share cards: how much of their memory each uses is told.
    pub sharers: Vec<Sharer>,
    /// All that runs hold: what is used of it is measured.
    pub held: Vec<Held>,
    /// The runs of which is judged whether their cards are idle.
    pub ruled: Vec<Ruled>,
}

impl Watch {
    /// Nothing at all.
    pub const NOTHING: Self = Self { sharers: Vec::new(), held: Vec::new(), ruled: Vec::new() };
}

/// What the thread is asked for.
#[derive(Debug)]
pub enum Wish {
    /// Look, now that the conf says this.
    Look(Declared),
    /// See to the cards of a run that is to be launched.
    Fit {
        /// Which run.
        key: RunKey,
        /// What it is to hold.
        cards: Vec<CardUse>,
        /// What others hold.
        held: Vec<CardUse>,
    },
    /// Watch what is used of the cards that runs hold.
    Watch(Watch),
    /// See that nobody uses the cards of a run that has ended.
    Vacate {
        /// Which run.
        key: RunKey,
        /// What it held.
        cards: Vec<CardUse>,
    },
}

/// Starts the thread; each look is told as [`Event::Looking`], [`Event::Looked`] and, after what waited for it, [`Event::Rests`]. In between come
/// [`Event::Vacated`] for cards that are free again, and [`Event::Fitted`] for runs that can be launched. [`Event::Used`] comes as long as cards
/// are shared.
///
/// # Errors
/// When there are no threads left.
pub fn start(declared: Declared, events: Sender<Event>) -> io::Result<Sender<Wish>> {
    let (give, wishes) = bounded(MAX_WISHES);
    let looker = Looker {
        declared,
        driver: None,
        said: false,
        known: Vec::new(),
        leaving: Vec::new(),
        sharers: Vec::new(),
        meter: Meter::default(),
        watch_due: Instant::now(),
        glance_due: Instant::now(),
    };
    std::thread::Builder::new().name("cards".to_owned()).spawn(move || looker.live(&wishes, &events))?;
    Ok(give)
}

struct Looker {
    declared: Declared,
    driver: Option<Nvml>,
    /// Whether it was said that there is no driver.
    said: bool,
    /// The cards as the driver listed them last, in this life of the node.
    known: Vec<Card>,
    /// Runs whose cards are not known to be free.
    leaving: Vec<Leaving>,
    /// Runs that share cards.
    sharers: Vec<Sharer>,
    /// What runs use of what they hold.
    meter: Meter,
    /// When that is looked at next.
    watch_due: Instant,
    /// When is looked next what all cards do.
    glance_due: Instant,
}

/// A run that is to be launched: what it is to hold, what others hold.
type Fit = (RunKey, Vec<CardUse>, Vec<CardUse>);
/// A run that has ended: what it held, and until when whoever uses that is waited for.
type Leaving = (RunKey, Vec<CardUse>, Instant);

/// That nobody listens any more.
struct Deaf;
impl<T> From<crossbeam_channel::SendError<T>> for Deaf {
    fn from(_: crossbeam_channel::SendError<T>) -> Self {
        Self
    }
}

impl Looker {
    fn live(mut self, wishes: &Receiver<Wish>, events: &Sender<Event>) {
        let mut fits = Vec::new();
        while let Ok(cut) = self.round(std::mem::take(&mut fits), events)
            && (cut || matches!(self.wait(wishes, &mut fits, events), Ok(true)))
        {}
    }

    /// One look, and what waited for it. Says whether anything was cut, so that the next look is due at once.
    fn round(&mut self, fits: Vec<Fit>, events: &Sender<Event>) -> Result<bool, Deaf> {
        events.send(Event::Looking)?;
        self.read_energy();
        let (found, look) = self.look();
        events.send(Event::Looked(look.clone()))?;
        let now = Instant::now();
        let sharers = &self.sharers;
        let is_neighbour = |key: RunKey, one: &CardUse, pid: u32| {
            let mut others = sharers.iter().filter(|it| it.key != key && one.uuid.as_ref() == Some(&it.uuid));
            one.share.is_some() && others.any(|it| it.owns(pid))
        };
        let stays = |(key, cards, until): &Leaving| {
            let is_left = |user: &User| {
                let is_its = |one: &&CardUse| is_on(user, one, &look.cards);
                cards.iter().find(is_its).is_some_and(|one| !is_neighbour(*key, one, user.pid))
            };
            now < *until && look.users.iter().any(is_left)
        };
        let (stay, gone) = std::mem::take(&mut self.leaving).into_iter().partition(stays);
        self.leaving = stay;
        let gone: Vec<Leaving> = gone;
        for (key, cards, _) in gone {
            self.set_back(&cards);
            events.send(Event::Vacated(key, self.meter.take(key)))?;
        }
        let mut touched = false;
        for (key, cards, held) in fits {
            events.send(Event::Looking)?;
            let (fitted, cut) = fit(self.driver.as_ref(), &found, &look.cards, cards, held);
            touched |= cut || fitted.is_err();
            events.send(Event::Fitted(key, fitted))?;
        }
        events.send(Event::Rests)?;
        Ok(touched)
    }

    /// Sets the cards of a run that is gone back, where the conf wants it. What others hold parts of is left as it is.
    fn set_back(&self, cards: &[CardUse]) {
        let Some(nvml) = self.driver.as_ref().filter(|_| self.declared.set_back) else { return };
        let whole = cards.iter().filter(|one| one.slice.is_none() && one.share.is_none());
        for uuid in whole.filter_map(|one| one.uuid.as_deref()) {
            if let Err(why) = nvml.set_back(uuid) {
                log::warn!("card {uuid} is not set back: {why}");
            }
        }
    }

    /// Waits until the next look is due, and takes in what it is for; meanwhile it watches what is used. False when nobody wants
    /// a look any more.
    fn wait(
        &mut self,
        wishes: &Receiver<Wish>,
        fits: &mut Vec<Fit>,
        events: &Sender<Event>,
    ) -> Result<bool, Deaf> {
        let is_well = |card: &Card| card.health.is_good() && card.slices.iter().all(|it| it.health.is_good());
        let pause = match (self.leaving.is_empty(), self.known.iter().all(is_well)) {
            (false, _) => LEAVING_LOOK,
            (true, true) => EVERY,
            (true, false) => EVERY_FAILING,
        };
        let due = Instant::now() + pause;
        loop {
            let is_idle = self.sharers.is_empty() && self.meter.is_idle();
            let watch = (!is_idle).then_some(self.watch_due);
            let glance = self.driver.is_some().then_some(self.glance_due);
            let next = watch.into_iter().chain(glance).fold(due, Instant::min);
            match wishes.recv_deadline(next) {
                Ok(Wish::Watch(watch)) => {
                    self.begin_to_watch(watch, events)?;
                    if self.meter.owes_energy() {
                        events.send(Event::Looking)?;
                        self.read_energy();
                        events.send(Event::Rests)?;
                    }
                }
                Ok(wish) => {
                    self.take(wish, fits, events)?;
                    break;
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= due => return Ok(true),
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if watch.is_some_and(|at| at <= now) {
                        self.watch(events)?;
                    }
                    if glance.is_some_and(|at| at <= now) {
                        self.glance(events)?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        for wish in wishes.try_iter() {
            self.take(wish, fits, events)?;
        }
        Ok(true)
    }

    fn begin_to_watch(&mut self, watch: Watch, events: &Sender<Event>) -> Result<(), Deaf> {
        let Watch { sharers, held, ruled } = watch;
        if self.sharers.is_empty() && self.meter.is_idle() {
            self.watch_due = Instant::now() + WATCH;
        }
        self.sharers = sharers;
        self.meter.hold(held);
        let unruled = self.meter.rule(ruled, Instant::now());
        if !unruled.is_empty() {
            events.send(Event::Idle(unruled.into_iter().map(|key| (key, None)).collect()))?;
        }
        Ok(())
    }

    /// Reads the energy of cards that runs have got or given back.
    fn read_energy(&mut self) {
        let driver = &self.driver;
        self.meter.read_energy(|uuid| driver.as_ref()?.energy(uuid));
    }

    /// Looks how much is used of the cards that runs hold.
    fn watch(&mut self, events: &Sender<Event>) -> Result<(), Deaf> {
        self.watch_due = Instant::now() + WATCH;
        let Some(nvml) = &self.driver else { return Ok(()) };
        events.send(Event::Looking)?;
        self.meter.look(nvml, &self.sharers, Instant::now());
        if !self.sharers.is_empty() {
            let uuids: BTreeSet<&str> = self.sharers.iter().map(|sharer| sharer.uuid.as_str()).collect();
            events.send(Event::Used(nvml.used(uuids.into_iter())))?;
        }
        events.send(Event::Rests)?;
        let now = gq_daemon::now();
        let meter = &mut self.meter;
        let changes = meter.idle_changes().into_iter().map(|(key, is_idle)| {
            let since = meter.rule_of(key).filter(|_| is_idle);
            (key, since.map(|rule| now.before(rule.after)))
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            events.send(Event::Idle(changes))?;
        }
        Ok(())
    }

    /// Looks what all cards do; what was looked at for the runs that hold them is not asked again.
    fn glance(&mut self, events: &Sender<Event>) -> Result<(), Deaf> {
        self.glance_due = Instant::now() + GLANCE;
        let Some(nvml) = &self.driver else { return Ok(()) };
        events.send(Event::Looking)?;
        let well = self.known.iter().filter(|card| card.health.is_good());
        let now = well.filter_map(|card| card.uuid.clone()).take(MAX_CARDS_NOW).map(|uuid| {
            let (busy, memory) = self.meter.seen(&uuid).unwrap_or_else(|| nvml.glance(&uuid));
            CardNow { uuid, busy, memory }
        });
        events.send(Event::CardsNow(now.collect()))?;
        events.send(Event::Rests)?;
        Ok(())
    }

    fn take(&mut self, wish: Wish, fits: &mut Vec<Fit>, events: &Sender<Event>) -> Result<(), Deaf> {
        match wish {
            Wish::Look(declared) => {
                if declared.library != self.declared.library {
                    self.driver = None;
                    self.known.clear();
                }
                self.declared = declared;
            }
            Wish::Watch(watch) => self.begin_to_watch(watch, events)?,
            Wish::Fit { key, cards, held } => fits.push((key, cards, held)),
            Wish::Vacate { key, cards } => {
                self.meter.end(key);
                self.leaving.push((key, cards, Instant::now() + LEAVING));
            }
        }
        Ok(())
    }

    /// The cards as the driver lists them, and with what the conf declares. Cards that were there are failing, not forgotten, when their
    /// driver is gone or was opened anew: what waits for them waits on, and what they are is still shown.
    fn look(&mut self) -> (Vec<Card>, Look) {
        if self.driver.is_none() {
            match gq_gpu::open(self.declared.library.as_deref()) {
                Found::Cards(nvml) => {
                    nvml.recall(&self.known);
                    self.driver = Some(nvml);
                }
                Found::None { why } => {
                    if !std::mem::replace(&mut self.said, true) {
                        log::info!("{why}: this node has no cards but those of its conf");
                    }
                    for card in &mut self.known {
                        card.health = CardHealth::Failed(why.clone());
                    }
                }
            }
        }
        let look = self.driver.as_ref().map(Nvml::look);
        let look = look.unwrap_or_else(|| Look { cards: self.known.clone(), users: Vec::new() });
        self.known.clone_from(&look.cards);
        // A driver that is missing, or that has lost all its cards, may be loaded or replaced until the next look.
        if look.cards.iter().all(|card| !card.health.is_good()) {
            self.driver = None;
        }
        let mut cards = gq_gpu::merge(look.cards.clone(), &self.declared.cards);
        gq_model::share_in(&mut cards, self.declared.parts);
        (look.cards, Look { cards, users: look.users })
    }
}
