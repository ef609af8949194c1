//! The archive: has what ended long ago moved out of the state into the files of years, in a thread of its own. It copies; the state's own thread says what
//! counts where and removes, in pieces so small that nobody waits for them.

use crate::{
    board::Wall,
    hub::{Word, ago},
};
use crossbeam_channel::{Sender, bounded};
use gq_model::Seconds;
use gq_store::{Archivist, Parting};
use std::{
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

/// Longest pause between looks.
const LOOK: Seconds = Seconds(3600);
/// So many times as long as the state's own thread took for a piece it is left alone afterwards.
const REST: u32 = 4;

/// What the thread needs.
pub(crate) struct Archive {
    pub(crate) database: PathBuf,
    pub(crate) wall: Wall,
    pub(crate) words: Sender<Word>,
    /// How long what has ended stays in the state.
    pub(crate) keep: Seconds,
}

/// What the state's own thread is asked for.
pub(crate) enum Move {
    /// From now on these jobs count in the file of their year.
    Part(Parting),
    /// Some of their rows in the state may go.
    Forget,
}

/// Moves what is old for ever.
pub(crate) fn run(archive: &Archive) {
    let mut told = None;
    loop {
        let trouble = archive.move_all().err();
        if let Some(why) = trouble.as_ref().filter(|_| trouble != told) {
            log::warn!("what ended long ago stays in the state for now: {why}");
        }
        told = trouble;
        sleep(Duration::from_secs(LOOK.min(archive.keep).0.max(1)));
    }
}

impl Archive {
    fn move_all(&self) -> Result<(), String> {
        let mut archivist = Archivist::open(&self.database).map_err(|e| e.to_string())?;
        let mut count = 0;
        loop {
            while self.ask(Move::Forget)? {}
            let before = ago(gq_daemon::now(), self.keep);
            // A disk without room is not asked for more than it must hold.
            if self.wall.look().degraded.is_some() {
                break;
            }
            let Some(parting) = archivist.copy(before).map_err(|e| e.to_string())? else { break };
            count += parting.jobs().len();
            self.ask(Move::Part(parting))?;
        }
        if count > 0 {
            log::info!(
                "{count} jobs that ended more than {} ago are in the files of their years now",
                self.keep
            );
        }
        Ok(())
    }

    /// Has the state's own thread do something, and leaves it alone for a while; whether there is more of it.
    fn ask(&self, what: Move) -> Result<bool, String> {
        let (reply, answer) = bounded(1);
        let gone = || "gqd ends".to_owned();
        let begun = Instant::now();
        self.words.send(Word::Archive { what, reply }).map_err(|_| gone())?;
        let more = answer.recv().map_err(|_| gone())??;
        sleep(begun.elapsed() * REST);
        Ok(more)
    }
}
