//! One table of the file: reads its keys by their declarations, finds the tables below it, and notes what does not belong.
//! What the values say together is `check`'s business.

use crate::{
    keys::{self, Key},
    mistake::{Notes, Span, nearest},
    value,
};
use toml_edit::{Item, Table, TableLike, Value};

/// One table of the file, and where it begins.
pub(crate) struct Section<'d> {
    pub(crate) table: &'static str,
    pub(crate) at: Span,
    pub(crate) entries: &'d dyn TableLike,
}

/// A value as read, and its place when it was written.
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) at: Option<Span>,
}

impl Section<'_> {
    /// Reads a key; what is absent or wrong becomes the default.
    pub(crate) fn read<T>(&self, key: &Key<T>, notes: &mut Notes<'_>) -> Read<T> {
        debug_assert_eq!(self.table, key.table);
        let absent = || Read { value: (key.default)(), at: None };
        let Some((name, item)) = self.entries.get_key_value(key.name) else { return absent() };
        match item {
            Item::Value(value) => {
                let at = Some(value::span_of(value));
                (key.read)(value, notes).map_or_else(
                    || Read { at: at.clone(), ..absent() },
                    |value| Read { value, at: at.clone() },
                )
            }
            Item::None | Item::Table(_) | Item::ArrayOfTables(_) => {
                let at = name.span().or_else(|| item.span()).unwrap_or_else(|| self.at.clone());
                notes.add(&at, format!("`{}` is a key with a value, no table", key.name), None);
                Read { at: Some(at), ..absent() }
            }
        }
    }

    pub(crate) fn get<T>(&self, key: &Key<T>, notes: &mut Notes<'_>) -> T {
        self.read(key, notes).value
    }

    /// Notes every name that may not stand in this table, with the nearest that may.
    pub(crate) fn refuse_unknown(&self, notes: &mut Notes<'_>) {
        for (name, item) in self.entries.iter() {
            if keys::names_in(self.table).any(|known| known == name) {
                continue;
            }
            let key = self.entries.get_key_value(name).and_then(|(key, _)| key.span());
            let at = key.or_else(|| item.span()).unwrap_or_else(|| self.at.clone());
            let kind = if item.is_value() { "key" } else { "table" };
            let place = if self.table.is_empty() { String::new() } else { format!(" in [{}]", self.table) };
            notes.add(&at, format!("unknown {kind} `{}`{place}", name.escape_debug()), self.suggestion(name));
        }
    }

    fn suggestion(&self, name: &str) -> Option<String> {
        let here = nearest(name, keys::names_in(self.table)).map(|k| format!("`{k}`"));
        let elsewhere = || {
            let mut tables = keys::known_keys().filter(|(_, key, _)| *key == name).map(|(table, ..)| table);
            tables.next().map(|table| format!("`{name}` belongs in [{table}]"))
        };
        let all = || {
            let names: Vec<&str> = keys::names_in(self.table).collect();
            format!("one of {}", names.join(", "))
        };
        Some(here.or_else(elsewhere).unwrap_or_else(all))
    }
}

static NOTHING: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::new);

/// The table `name` below `above`, empty when it is not written.
pub(crate) fn single<'d>(above: &Section<'d>, name: &'static str, notes: &mut Notes<'_>) -> Section<'d> {
    let empty = || Section { table: name, at: 0..0, entries: &*NOTHING };
    let Some((key, item)) = above.entries.get_key_value(name) else { return empty() };
    let at = item.span().or_else(|| key.span()).unwrap_or(0..0);
    let section = match item.as_table_like() {
        Some(entries) => Section { table: name, at, entries },
        None => {
            notes.add(&at, format!("`{name}` stands once: expected [{name}]"), Some(format!("[{name}]")));
            empty()
        }
    };
    section.refuse_unknown(notes);
    section
}

/// All tables of the list `table` (its full name, such as `node.gpu`) below `above`, in the order written.
pub(crate) fn list<'d>(above: &Section<'d>, table: &'static str, notes: &mut Notes<'_>) -> Vec<Section<'d>> {
    let name = table.rsplit('.').next().unwrap_or(table);
    let Some((key, item)) = above.entries.get_key_value(name) else { return Vec::new() };
    let whole = item.span().or_else(|| key.span()).unwrap_or_else(|| above.at.clone());
    let section = |entries: &'d dyn TableLike, at: Option<Span>| {
        let at = at.unwrap_or_else(|| whole.clone());
        Section { table, at, entries }
    };
    let sections: Option<Vec<Section<'d>>> = match item {
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|t| section(t, t.span())).collect()),
        Item::Value(Value::Array(values)) => {
            let inline = |v: &'d Value| v.as_inline_table().map(|t| section(t, t.span()));
            values.iter().map(inline).collect()
        }
        Item::Value(_) | Item::Table(_) | Item::None => None,
    };
    let Some(sections) = sections else {
        let hint = Some(format!("[[{table}]] with two brackets"));
        notes.add(&whole, format!("there may be several of `{table}`: expected [[{table}]]"), hint);
        return Vec::new();
    };
    for section in &sections {
        section.refuse_unknown(notes);
    }
    sections
}
