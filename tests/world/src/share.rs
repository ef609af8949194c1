//! A shared directory with one writer and one reader on another host: what was written is seen late, in any order, and sometimes half.

use crate::dice::Dice;
use std::collections::{BTreeMap, BTreeSet};

/// One folder of letters.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// All that ever stood under each name; none where it was removed.
    written: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    /// How much of that the reader's host has heard of.
    seen: BTreeMap<String, usize>,
    /// Whether everything is seen at once.
    pub(crate) is_prompt: bool,
}

impl Folder {
    /// Writes a file under its name, whole, as by a rename.
    pub(crate) fn write(&mut self, name: &str, bytes: Vec<u8>) {
        self.written.entry(name.to_owned()).or_default().push(Some(bytes));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if self.stands(name) {
            self.written.entry(name.to_owned()).or_default().push(None);
        }
    }

    fn stands(&self, name: &str) -> bool {
        self.written.get(name).and_then(|all| all.last()).is_some_and(Option::is_some)
    }

    /// The names that stand there, for the writer.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.written.keys().filter(|name| self.stands(name)).cloned().collect()
    }

    /// What the reader sees under a name: never older than what he saw before.
    pub(crate) fn read(&mut self, name: &str, dice: &mut Dice) -> Option<Vec<u8>> {
        let all = self.written.get(name)?;
        let seen = self.seen.entry(name.to_owned()).or_default();
        let behind = all.len() - *seen;
        *seen += if self.is_prompt { behind } else { dice.below(behind + 1) };
        let bytes = all.get(seen.checked_sub(1)?)?.as_ref()?;
        let is_torn = !self.is_prompt && dice.one_in(16);
        let shown = if is_torn { dice.below(bytes.len()) } else { bytes.len() };
        bytes.get(..shown).map(<[u8]>::to_vec)
    }
}

/// The two folders of a node, and what stands in them by name.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// From the controller to the node.
    pub(crate) orders: Folder,
    /// From the node to the controller.
    pub(crate) reports: Folder,
}

pub(crate) const HEAD: &str = "HEAD";

/// The name of a letter.
pub(crate) fn letter(seq: gq_model::Seq) -> String {
    format!("{:016x}", seq.0)
}
