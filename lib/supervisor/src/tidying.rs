//! Tidying up after the last process of a run: its private folder is emptied, and the folder for checkpoints goes when nothing is in
//! it. First as the user, then, what is left on the node's own disk, as the supervisor.

use crate::{
    checkpoint::Checkpoint,
    errand::{Errand, Master},
};
use gq_model::RunKey;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How long the user's part may take, and the supervisor's. A run holds what it was given so long, and its user can make it last; what is not
/// done then `gqnode` does when the run is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far it is.
#[derive(Debug)]
pub enum Tidying {
    /// Nothing of it was done.
    Owed,
    /// The user's part is being done; then the rest of the private folder is the supervisor's.
    Errand(Errand, Option<OwnedFd>),
    /// All is done that could be.
    Done,
}

/// Begins; `checkpoint` is the folder that may go, and whether the job has completed.
pub fn begin(
    key: RunKey,
    folder: BorrowedFd<'_>,
    checkpoint: Option<(&Checkpoint, bool)>,
    master: Master<'_>,
) -> Tidying {
    let scratch = gq_host::open_scratch(folder).unwrap_or_else(|e| {
        eprintln!("gqstep {key}: its private folder cannot be opened: {e}");
        None
    });
    let scratch = scratch.filter(|scratch| !gq_host::is_empty_folder(scratch.as_fd()).unwrap_or(false));
    if scratch.is_none() && checkpoint.is_none() {
        return Tidying::Done;
    }
    let work = || {
        let removed = checkpoint.map_or(Ok(()), |(checkpoint, is_complete)| checkpoint.remove(is_complete));
        let until = Instant::now() + PATIENCE;
        scratch.as_ref().map_or(Ok(()), |scratch| gq_host::empty_folder(scratch.as_fd(), until)).and(removed)
    };
    match Errand::send(master, PATIENCE, work) {
        Ok(errand) => Tidying::Errand(errand, scratch),
        Err(e) => {
            eprintln!("gqstep {key}: no process to tidy up: {e}");
            finish(key, scratch)
        }
    }
}

/// Ends it, when the user's part is done or has taken too long.
pub fn finish(key: RunKey, scratch: Option<OwnedFd>) -> Tidying {
    let until = Instant::now() + PATIENCE;
    if let Some(scratch) = scratch
        && let Err(e) = gq_host::empty_folder(scratch.as_fd(), until)
    {
        eprintln!("gqstep {key}: its private folder cannot be emptied: {e}");
    }
    Tidying::Done
}
