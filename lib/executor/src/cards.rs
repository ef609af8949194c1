//! One thread that looks at the cards: at the start, once a minute, and when the conf was read again. A driver that
//! hangs holds up nothing else.

use crate::event::Event;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gq_gpu::Found;
use gq_model::{Card, CardHealth};
use std::{io, path::PathBuf, time::Duration};

/// How often the cards are looked at.
const EVERY: Duration = Duration::from_secs(60);

/// What the conf says of the cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Where the driver's library is, when it is not where the loader looks.
    pub library: Option<PathBuf>,
    /// The declared cards.
    pub cards: Vec<Card>,
}

/// Starts the thread; the cards are told as [`Event::Cards`] after every look. A new conf is given through what is
/// returned.
///
/// # Errors
/// When there are no threads left.
pub fn start(declared: Declared, events: Sender<Event>) -> io::Result<Sender<Declared>> {
    let (give, news) = bounded(1);
    std::thread::Builder::new().name("cards".to_owned()).spawn(move || look(declared, &news, &events))?;
    Ok(give)
}

fn look(mut declared: Declared, news: &Receiver<Declared>, events: &Sender<Event>) {
    let mut driver = None;
    let mut said = false;
    loop {
        let found = driver.take().unwrap_or_else(|| gq_gpu::open(declared.library.as_deref()));
        let cards = match &found {
            Found::Cards(nvml) => nvml.inventory(),
            Found::None { why } => {
                if !said {
                    log::info!("{why}: this node has no cards but those of its conf");
                    said = true;
                }
                Vec::new()
            }
        };
        // A driver that is missing, or that has lost all its cards, may be loaded or replaced until the next look.
        let is_lost = cards.iter().all(|card| card.health != CardHealth::Good);
        driver = Some(found).filter(|found| matches!(found, Found::Cards(_)) && !is_lost);
        if events.send(Event::Cards(gq_gpu::merge(cards, &declared.cards))).is_err() {
            return;
        }
        match news.recv_timeout(EVERY) {
            Ok(new) => {
                if new.library != declared.library {
                    driver = None;
                }
                declared = new;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
