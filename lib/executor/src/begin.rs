//! The beginning of a life of `gqnode`: it takes over what an earlier one left, and joins.

use crate::{
    broom::Task,
    event::Event,
    health::HANGS,
    household::{Household, Stop},
};
use gq_daemon::now;
use gq_host::lock_folder;
use gq_model::RunKey;
use gq_nodecore::Input;
use std::{collections::BTreeSet, io, time::Instant};

impl Household {
    /// Takes over what an earlier life left, and joins.
    pub fn begin(&mut self) -> Result<(), Stop> {
        self.wait_for_cards();
        let mut todo = Vec::new();
        self.read_log(&mut todo)?;
        for key in self.node.unsure().collect::<Vec<_>>() {
            let alive = self.is_alive(key);
            if alive {
                self.runs.find(key, &mut self.watcher);
            }
            self.decide(Input::Adopted { key, alive, at: now() }, &mut todo);
        }
        let cards = self.health.cards(&self.held());
        self.decide(Input::Join(self.site.machine(cards)), &mut todo);
        self.remove_strangers();
        self.ballast.look();
        self.tell_trouble(&mut todo);
        self.settle(todo)?;
        self.shorten_log()
    }

    /// Waits for the first look at the cards. The log cannot have grown by more than is read after it, and nobody else speaks before the link is
    /// started.
    fn wait_for_cards(&mut self) {
        let until = Instant::now() + HANGS;
        loop {
            match self.events.recv_deadline(until) {
                Ok(Event::Looking) => self.health.looking(Instant::now()),
                Ok(Event::Looked(look)) => {
                    let sharers = self.sharers();
                    return self.health.looked(look, &sharers);
                }
                Ok(_) => {}
                Err(_) => return log::error!("the NVIDIA driver hangs: this node joins without its cards"),
            }
        }
    }

    /// Whether a living supervisor holds the lock of a run's folder.
    pub(crate) fn is_alive(&self, key: RunKey) -> bool {
        match lock_folder(&self.folder_of(key)) {
            Ok(lock) => lock.is_none(),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
            Err(e) => {
                // Not to see it is not to see it dead. It is looked at again.
                log::error!("the folder of run {key} cannot be looked at: {e}");
                true
            }
        }
    }

    /// Removes folders of runs that nobody knows: their ends were acknowledged in a life that was cut short.
    fn remove_strangers(&self) {
        let kept: BTreeSet<RunKey> = self.node.kept().collect();
        let entries = match std::fs::read_dir(self.site.folder.join("runs")) {
            Ok(entries) => entries,
            Err(e) => return log::warn!("the folders of runs cannot be listed: {e}"),
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let key = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            let is_stranger = key.is_some_and(|key| !kept.contains(&key));
            if is_stranger && matches!(lock_folder(&path), Ok(Some(_))) {
                // A full broom leaves it to the next start.
                let _ = self.broom.try_send(Task::Remove(path));
            }
        }
    }
}
