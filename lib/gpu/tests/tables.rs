//! The shipped MIG tables: what is built in is what the documents in `conf/mig` say, row by row.
#![expect(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use gq_model::{Grid, MiB, Profile, known_grid, known_grids};
use std::collections::BTreeSet;
use toml_edit::{DocumentMut, Table};

/// A card of a document: its file, models, memory (from, below), grid.
struct Row {
    file: String,
    models: Vec<String>,
    from: MiB,
    below: MiB,
    grid: Grid,
}

fn number(table: &Table, key: &str) -> u64 {
    let value = table.get(key).and_then(|item| item.as_integer());
    u64::try_from(value.unwrap_or_else(|| panic!("{key} is missing in {table:?}"))).unwrap()
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(|item| item.as_str()).unwrap_or_else(|| panic!("{key} is missing in {table:?}"))
}

fn small(table: &Table, key: &str) -> u8 {
    u8::try_from(number(table, key)).unwrap()
}

fn profile(table: &Table) -> Profile {
    for key in ["placement", "memory"] {
        assert!(["printed", "inferred"].contains(&text(table, key)), "{key}: {table:?}");
    }
    let starts = table["starts"].as_array().unwrap().iter();
    Profile {
        name: text(table, "name").to_string(),
        size: small(table, "size"),
        starts: starts.map(|start| u8::try_from(start.as_integer().unwrap()).unwrap()).collect(),
        most: small(table, "most"),
        compute: small(table, "compute"),
        memory: MiB(number(table, "memory_mib")),
    }
}

fn documents() -> Vec<Row> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/mig");
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let document: DocumentMut = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        for card in document["card"].as_array_of_tables().unwrap() {
            for source in ["names", "placements", "memory"] {
                assert!(!text(card, source).is_empty());
            }
            let models = card["models"].as_array().unwrap().iter();
            let profiles = card["profile"].as_array_of_tables().unwrap().iter().map(profile).collect();
            rows.push(Row {
                file: path.display().to_string(),
                models: models.map(|model| model.as_str().unwrap().to_string()).collect(),
                from: MiB(number(card, "from_gib") * 1024),
                below: MiB(number(card, "below_gib") * 1024),
                grid: Grid { units: small(card, "units"), profiles },
            });
        }
    }
    rows
}

#[test]
fn what_is_built_in_is_what_the_documents_say() {
    let rows = documents();
    assert_eq!(rows.len(), known_grids().count());
    for (models, from, below, grid) in known_grids() {
        let row = rows.iter().find(|row| row.models == models && row.from == from);
        let row = row.unwrap_or_else(|| panic!("{models:?} from {from} is in no document"));
        assert_eq!((row.below, &row.grid), (below, &grid), "{}: {models:?}", row.file);
    }
    // And what is looked up is that row, at both ends of its memory.
    for row in &rows {
        for model in &row.models {
            for memory in [row.from, MiB(row.below.0 - 1)] {
                assert_eq!(
                    known_grid(&format!("NVIDIA {model}"), memory).as_ref(),
                    Some(&row.grid),
                    "{model}"
                );
            }
        }
    }
    let files: BTreeSet<&str> = rows.iter().map(|row| row.file.as_str()).collect();
    assert_eq!(files.len(), 3);
}
