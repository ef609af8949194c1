//! One thread that looks at the cards and cuts them: at the start, once a minute, when the conf was read again, and when a run wants slices.
//! A driver that hangs holds up nothing else. It decides neither who gets a slice nor where it lies.

use crate::{
    event::Event,
    fitting::{Misfit, fit},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gq_gpu::{Found, Nvml};
use gq_model::{Card, CardHealth, CardUse, RunKey};
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// How often the cards are looked at.
const EVERY: Duration = Duration::from_secs(60);
/// Most wishes that wait for the thread.
const MAX_WISHES: usize = 256;

/// What the conf says of the cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Where the driver's library is, when it is not where the loader looks.
    pub library: Option<PathBuf>,
    /// The declared cards.
    pub cards: Vec<Card>,
}

/// What the thread is asked for.
#[derive(Debug)]
pub enum Wish {
    /// Look, now that the conf says this.
    Look(Declared),
    /// See to the slices of a run that is to be launched.
    Fit {
        /// Which run.
        key: RunKey,
        /// What it is to hold.
        cards: Vec<CardUse>,
        /// What others hold.
        held: Vec<CardUse>,
    },
}

/// Starts the thread; the cards are told as [`Event::Cards`] after every look, slices as [`Event::Fitted`].
///
/// # Errors
/// When there are no threads left.
pub fn start(declared: Declared, events: Sender<Event>) -> io::Result<Sender<Wish>> {
    let (give, wishes) = bounded(MAX_WISHES);
    let looker = Looker { declared, driver: None, said: false, known: Vec::new(), told: Vec::new() };
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
    /// The cards as they were told last.
    told: Vec<Card>,
}

impl Looker {
    fn live(mut self, wishes: &Receiver<Wish>, events: &Sender<Event>) {
        loop {
            let (_, merged) = self.look();
            self.told.clone_from(&merged);
            if events.send(Event::Cards(merged)).is_err() {
                return;
            }
            let until = Instant::now() + EVERY;
            let mut changed = false;
            // What waits is served before the cards are reported anew, once for all that was cut.
            while !changed || !wishes.is_empty() {
                match wishes.recv_deadline(until) {
                    Ok(Wish::Look(declared)) => {
                        if declared.library != self.declared.library {
                            self.driver = None;
                            self.known.clear();
                        }
                        self.declared = declared;
                        changed = true;
                    }
                    Ok(Wish::Fit { key, cards, held }) => {
                        let (fitted, touched) = self.fit(cards, held);
                        changed |= touched || fitted.is_err();
                        if events.send(Event::Fitted(key, fitted)).is_err() {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    /// The cards as the driver lists them, and with what the conf declares. Cards that were there are failing, not forgotten, when their
    /// driver is gone or was opened anew: what waits for them waits on, and what they are is still shown.
    fn look(&mut self) -> (Vec<Card>, Vec<Card>) {
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
        let found = self.driver.as_ref().map_or_else(|| self.known.clone(), Nvml::inventory);
        self.known.clone_from(&found);
        // A driver that is missing, or that has lost all its cards, may be loaded or replaced until the next look.
        if found.iter().all(|card| card.health != CardHealth::Good) {
            self.driver = None;
        }
        let merged = gq_gpu::merge(found.clone(), &self.declared.cards);
        (found, merged)
    }

    fn fit(&mut self, cards: Vec<CardUse>, held: Vec<CardUse>) -> (Result<Vec<CardUse>, Misfit>, bool) {
        // No driver is asked for what only the conf knows.
        let is_declared = |one: &CardUse| {
            let card = self.told.iter().find(|card| card.index == one.index);
            one.uuid.is_none() && card.is_some_and(|card| card.uuid.is_none())
        };
        if cards.iter().all(is_declared) {
            return (Ok(cards), false);
        }
        let (found, merged) = self.look();
        fit(self.driver.as_ref(), &found, &merged, cards, held)
    }
}
