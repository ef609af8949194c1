//! The names that the tables of one kind declare: each once, and what may refer to them. Reads no other key.

use crate::{
    keys::Key,
    mistake::{Notes, Span, nearest},
    section::Section,
};
use std::collections::BTreeMap;

/// The names of the tables of one kind.
pub(crate) struct Declared {
    /// What such a table is called, such as `partition`.
    kind: &'static str,
    /// A name, for who left it out.
    sample: &'static str,
    places: BTreeMap<String, Span>,
    /// Whether the names of all could be read; else what is named elsewhere may mean one of the others.
    all_named: bool,
}

impl Declared {
    pub(crate) fn new(kind: &'static str, sample: &'static str) -> Self {
        Self { kind, sample, places: BTreeMap::new(), all_named: true }
    }

    /// Takes the name of a table, and tells it with its place; none when the table has none that counts.
    pub(crate) fn take(
        &mut self,
        section: &Section<'_>,
        key: &Key<String>,
        notes: &mut Notes<'_>,
    ) -> Option<(String, Span)> {
        let kind = self.kind;
        let name = section.read(key, notes);
        let Some(at) = name.at else {
            self.all_named = false;
            let hint = Some(format!("name = \"{}\"", self.sample));
            notes.add_missing(&section.at, format!("this [[{kind}]] has no `name`"), hint);
            return None;
        };
        let name = name.value;
        // An empty name is one that could not be read, which has been told.
        if name.is_empty() {
            self.all_named = false;
            return None;
        }
        if let Some(first) = self.places.get(&name) {
            let line = notes.line(first);
            notes.add(&at, format!("{kind} `{name}` is declared already, in line {line}"), None);
            return None;
        }
        self.places.insert(name.clone(), at.clone());
        Some((name, at))
    }

    /// Notes at `at` that `name` is not declared, if it is not.
    pub(crate) fn check(&self, name: &str, at: &Span, notes: &mut Notes<'_>) {
        if self.places.contains_key(name) || !self.all_named {
            return;
        }
        let near = || nearest(name, self.places.keys().map(String::as_str));
        let kind = self.kind;
        let hint = match if notes.is_full() { None } else { near() } {
            Some(near) => format!("`{near}`, or a [[{kind}]] of this name"),
            None => format!("declare it with a [[{kind}]]"),
        };
        notes.add_missing(at, format!("{kind} `{name}` is not declared"), Some(hint));
    }
}
