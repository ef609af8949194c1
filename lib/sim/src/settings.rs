//! Settings: conf keys from the command line, put into the text of a conf before it is read. What they mean is `gq-conf`'s to say.
//!
//! `TABLE.KEY=VALUE` for a table that stands once, `TABLE[NAME].KEY=VALUE` for one of several, `node[NAME].gpu[N].KEY=VALUE` for the Nth
//! kind of card of a node. A key that is not there yet is added, and so is the next kind of card; a name that no table has is refused. A
//! value that is no TOML is a text.

use crate::trouble::Trouble;
use gq_conf::Partition;
use gq_model::{NodeName, compress_hosts, expand_hosts};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

/// Most entries that a number may reach: cards of a node.
const MAX_ENTRIES: usize = 64;
/// Most names that are told.
const MAX_TOLD: usize = 16;

/// One step of a path into a conf.
#[derive(Debug, PartialEq, Eq)]
struct Step<'t> {
    name: &'t str,
    /// What stands in brackets behind it.
    which: Option<&'t str>,
}

/// Puts settings into the text of a conf, one after the other.
///
/// # Errors
/// When the conf is no TOML, or a setting does not say what it sets.
pub(crate) fn apply(conf: &str, settings: &[String], file: &str) -> Result<String, Trouble> {
    if settings.is_empty() {
        return Ok(conf.to_owned());
    }
    let mut document: DocumentMut =
        conf.parse().map_err(|e: toml_edit::TomlError| Trouble::usage(format!("{file}: {e}")))?;
    for setting in settings {
        set(document.as_table_mut(), setting).map_err(|why| {
            Trouble::usage(format!("--set {setting}: {why}")).hint(
                "--set scheduler.backfill=easy, --set node[ws1].cpus=64, --set node[ws1].gpu[0].count=4",
            )
        })?;
    }
    Ok(document.to_string())
}

fn set(root: &mut Table, setting: &str) -> Result<(), String> {
    let (path, value) = split(setting)?;
    let mut table = root;
    let (last, tables) = path.split_last().ok_or("no key is named")?;
    for step in tables {
        table = match step.which {
            None => single(table, step.name)?,
            Some(which) => one_of(table, step.name, which)?,
        };
    }
    if tables.is_empty() || last.which.is_some() {
        return Err("expected TABLE.KEY=VALUE".to_owned());
    }
    let value: Value = value.parse().unwrap_or_else(|_| Value::from(value));
    table.insert(last.name, Item::Value(value));
    Ok(())
}

/// The steps of a setting, and its value.
fn split(setting: &str) -> Result<(Vec<Step<'_>>, &str), String> {
    let mut steps = Vec::new();
    let mut rest = setting;
    loop {
        let end = rest.find(['.', '=', '[']).ok_or("expected TABLE.KEY=VALUE")?;
        let (name, mut behind) = rest.split_at(end);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
            return Err(format!("`{}` is no name of a table or key", name.escape_debug()));
        }
        let mut which = None;
        if let Some(inside) = behind.strip_prefix('[') {
            let close = closing(inside).ok_or("a bracket is not closed")?;
            which = Some(inside.split_at(close).0);
            behind = inside.get(close + 1..).unwrap_or_default();
        }
        steps.push(Step { name, which });
        match behind.chars().next() {
            Some('=') => return Ok((steps, behind.get(1..).unwrap_or_default().trim())),
            Some('.') => rest = behind.get(1..).unwrap_or_default(),
            _ => return Err("expected TABLE.KEY=VALUE".to_owned()),
        }
    }
}

/// Where the bracket closes that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1u32;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

fn single<'t>(above: &'t mut Table, name: &str) -> Result<&'t mut Table, String> {
    let item = above.entry(name).or_insert_with(|| Item::Table(Table::new()));
    if let Some(inline) = item.as_inline_table() {
        *item = Item::Table(inline.clone().into_table());
    }
    item.as_table_mut().ok_or_else(|| format!("there may be several of `{name}`: say {name}[NAME]"))
}

/// The table that `which` names: by its number for cards, else by its name. A node that shares an entry with others gets one of its own.
/// Only the next kind of card is added, and the partition that a conf without any has unsaid.
fn one_of<'t>(above: &'t mut Table, name: &str, which: &str) -> Result<&'t mut Table, String> {
    let item = above.entry(name).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    if let Some(array) = item.as_array() {
        let tables = array.iter().filter_map(|v| v.as_inline_table()).map(|t| t.clone().into_table());
        *item = Item::ArrayOfTables(tables.collect());
    }
    let tables =
        item.as_array_of_tables_mut().ok_or_else(|| format!("`{name}` stands once: say {name}.KEY"))?;
    let at = match (name, which.parse::<usize>()) {
        ("gpu", Ok(number)) if number < MAX_ENTRIES && number <= tables.len() => number,
        ("gpu", _) => {
            return Err(format!(
                "{name}[{which}]: expected a number from 0 to {}, the next one",
                tables.len().min(MAX_ENTRIES - 1)
            ));
        }
        ("node", _) => node(tables, which)?,
        _ => named(tables, name, which)?,
    };
    if at == tables.len() {
        let mut new = Table::new();
        if name != "gpu" {
            new.insert("name", Item::Value(Value::from(which)));
        }
        tables.push(new);
    }
    tables.get_mut(at).ok_or_else(|| format!("{name}[{which}] is not there"))
}

/// The place of the table of this name. The partition that a conf without any has is not written yet: its place is the first.
fn named(tables: &ArrayOfTables, name: &str, which: &str) -> Result<usize, String> {
    let called = |table: &Table| table.get("name").and_then(Item::as_str).map(str::to_owned);
    let at = tables.iter().position(|table| called(table).as_deref() == Some(which));
    let unsaid = Partition::of_every_node().name;
    let is_partition = name == "partition" && tables.is_empty();
    if is_partition && which == unsaid {
        return Ok(0);
    }
    let mut there: Vec<String> = tables.iter().filter_map(called).collect();
    there.extend(Some(unsaid).filter(|_| is_partition));
    at.ok_or_else(|| missing(name, which, there))
}

/// Words for a name that no table has.
fn missing(name: &str, which: &str, mut there: Vec<String>) -> String {
    let which = which.escape_debug();
    if there.is_empty() {
        return format!("no {name} is called `{which}`: the conf has no [[{name}]]");
    }
    if there.len() > MAX_TOLD {
        there.truncate(MAX_TOLD);
        there.push("...".to_owned());
    }
    format!("no {name} is called `{which}`; there is: {}", there.join(" "))
}

/// The place of the entry of these nodes and of no others; those that an entry names beside them keep an entry without them.
fn node(tables: &mut ArrayOfTables, which: &str) -> Result<usize, String> {
    let wanted = expand_hosts(which).map_err(|e| e.to_string())?;
    let has = |table: &Table| names(table).iter().any(|name| wanted.contains(name));
    let Some(at) = tables.iter().position(has) else {
        let all: Vec<NodeName> = tables.iter().flat_map(names).collect();
        let there = if all.is_empty() { Vec::new() } else { vec![compress_hosts(&all)] };
        return Err(missing("node", which, there));
    };
    let all = tables.get(at).map(names).unwrap_or_default();
    if let Some(other) = wanted.iter().find(|name| !all.contains(name)) {
        return Err(format!("node {other} is not declared together with the others: set them one by one"));
    }
    let rest: Vec<NodeName> = all.into_iter().filter(|name| !wanted.contains(name)).collect();
    if rest.is_empty() {
        return Ok(at);
    }
    let Some(entry) = tables.get_mut(at) else { return Ok(tables.len()) };
    let mut own = entry.clone();
    entry.insert("name", Item::Value(Value::from(compress_hosts(&rest))));
    own.insert("name", Item::Value(Value::from(which)));
    own.set_position(None);
    tables.push(own);
    Ok(tables.len() - 1)
}

/// The nodes that an entry names, in a text or in a list of them.
fn names(table: &Table) -> Vec<NodeName> {
    let one = |text: &str| expand_hosts(text).unwrap_or_default();
    match table.get("name").and_then(Item::as_value) {
        Some(Value::String(text)) => one(text.value()),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).flat_map(one).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "[scheduler]\nbackfill = \"easy\"\n\n[[node]]\nname = \"ws[1-3]\"\ncpus = 32\n\n[[node.gpu]]\nmodel = \"A100\"\ncount = 2\n";

    fn with(settings: &[&str]) -> Result<DocumentMut, String> {
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        let text = apply(CONF, &settings, "gq.conf").map_err(|t| t.to_string())?;
        Ok(text.parse().unwrap())
    }

    #[test]
    fn a_key_is_set_where_it_belongs() {
        let conf =
            with(&["scheduler.backfill=conservative", "scheduler.max_job_count=7", "cluster.name=\"x\""]);
        let conf = conf.unwrap();
        assert_eq!(conf["scheduler"]["backfill"].as_str(), Some("conservative"));
        assert_eq!(conf["scheduler"]["max_job_count"].as_integer(), Some(7));
        assert_eq!(conf["cluster"]["name"].as_str(), Some("x"));
    }

    #[test]
    fn a_node_is_taken_out_of_its_entry_and_keeps_what_it_had() {
        let conf =
            with(&["node[ws2].cpus=64", "node[ws2].gpu[0].count=4", "partition[main].nodes=[\"ws2\"]"]);
        let conf = conf.unwrap();
        let nodes = conf["node"].as_array_of_tables().unwrap();
        let seen: Vec<_> = nodes
            .iter()
            .map(|n| (n["name"].as_str().unwrap().to_owned(), n["cpus"].as_integer().unwrap()))
            .collect();
        assert_eq!(seen, [("ws[1,3]".to_owned(), 32), ("ws2".to_owned(), 64)]);
        let count = |at: usize| nodes.get(at).unwrap()["gpu"][0]["count"].as_integer();
        assert_eq!((count(0), count(1)), (Some(2), Some(4)));
        assert_eq!(conf["partition"][0]["name"].as_str(), Some("main"));
    }

    #[test]
    fn a_name_that_nothing_has_is_refused_and_what_there_is_is_told() {
        let two = format!("{CONF}[[partition]]\nname = \"few\"\n[[partition]]\nname = \"all\"\n");
        for (conf, setting, told) in [
            (
                two.as_str(),
                "partition[nope].max_time=30s",
                "no partition is called `nope`; there is: few all",
            ),
            (
                two.as_str(),
                "partition[main].max_time=30s",
                "no partition is called `main`; there is: few all",
            ),
            (CONF, "partition[nope].max_time=30s", "no partition is called `nope`; there is: main"),
            (CONF, "qos[high].priority=1", "no qos is called `high`: the conf has no [[qos]]"),
            (CONF, "node[ws9].cpus=1", "no node is called `ws9`; there is: ws[1-3]"),
            ("", "node[ws9].cpus=1", "no node is called `ws9`: the conf has no [[node]]"),
        ] {
            let said = apply(conf, &[setting.to_owned()], "gq.conf").unwrap_err().to_string();
            assert_eq!(said, format!("--set {setting}: {told}"));
        }
        let conf = apply(&two, &["partition[all].max_time=30s".to_owned()], "gq.conf").unwrap();
        let conf: DocumentMut = conf.parse().unwrap();
        assert_eq!(conf["partition"][1]["max_time"].as_str(), Some("30s"));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for bad in [
            "",
            "scheduler",
            "scheduler=1",
            "x.y",
            "node.cpus=1",
            "node[ws1.cpus=1",
            "node[ws1].gpu[7].count=1",
            "scheduler[a].b=1",
            "a b.c=1",
            "node[ws3,ws4].cpus=1",
            "node[ws1]=2",
        ] {
            assert!(with(&[bad]).is_err(), "{bad}");
        }
    }
}
