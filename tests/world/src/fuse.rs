//! A fuse: how many more steps that are seen from outside a process does before it dies. Whoever is dead changes nothing any more.

use std::cell::Cell;

/// The fuse of one process.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    left: Cell<Option<u64>>,
    dead: Cell<bool>,
}

impl Fuse {
    /// Lets the process die after `steps` more.
    pub(crate) fn light(&self, steps: u64) {
        self.left.set(Some(steps));
    }

    /// Whether the process lives to do its next step.
    pub(crate) fn step(&self) -> bool {
        match self.left.get() {
            Some(0) => self.dead.set(true),
            Some(left) => self.left.set(Some(left - 1)),
            None => {}
        }
        !self.dead.get()
    }

    /// Whether the process is dead.
    pub(crate) fn is_burnt(&self) -> bool {
        self.dead.get()
    }
}
