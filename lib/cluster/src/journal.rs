//! The journal: which nodes changed since when, so that a plan looks again only at those.

use alloc::collections::VecDeque;

/// Most changes that are remembered; whoever comes later looks at everything.
const MOST: usize = 4096;

/// Places of nodes in the order they changed.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    changes: VecDeque<u32>,
    count: u64,
}

impl Journal {
    /// How many changes there have been.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The places of nodes that changed after so many changes, some several times; none when that is too long ago to tell.
    pub fn since(&self, count: u64) -> Option<impl Iterator<Item = u32> + '_> {
        let back = usize::try_from(self.count.checked_sub(count)?).ok()?;
        let skip = self.changes.len().checked_sub(back)?;
        Some(self.changes.range(skip..).copied())
    }

    pub(crate) fn note(&mut self, place: u32) {
        self.count = self.count.saturating_add(1);
        if self.changes.len() >= MOST {
            self.changes.pop_front();
        }
        self.changes.push_back(place);
    }
}
