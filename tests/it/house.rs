//! The house itself: that the map in ARCHITECTURE.md is what the manifests say, and that each room keeps its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Words and minds: no clock, no file, no thread.
const WITHOUT_STD: [&str; 5] = ["model", "cluster", "sched", "engine", "nodecore"];
/// The floor from which on crates import only from floors below, never from their own.
const FIRST_FLOOR_APART: u32 = 2;
/// The floor of the programs, which belong to the root package.
const DOORS: u32 = 4;
/// Longest `main.rs` of a program, in lines.
const MAX_DOOR: usize = 60;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// A row of the import table.
#[derive(Debug, PartialEq)]
struct Row {
    floor: u32,
    name: String,
    imports: BTreeSet<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect())
}

/// Reads the table `| floor | crate | may import |`; an empty floor means that of the row above.
fn table(text: &str) -> Vec<Row> {
    let mut lines = text.lines().skip_while(|line| {
        !cells(line)
            .is_some_and(|cells| cells.starts_with(&["floor".into(), "crate".into(), "may import".into()]))
    });
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no table | floor | crate | may import |");
    let mut rows: Vec<Row> = Vec::new();
    for cells in lines.skip(1).map_while(cells) {
        let [floor, name, imports, ..] = cells.as_slice() else {
            panic!("a row without three cells: {cells:?}")
        };
        let floor = match floor.split(' ').next().filter(|word| !word.is_empty()) {
            Some(word) => word.parse().unwrap_or_else(|_| panic!("no floor number: {floor:?}")),
            None => rows.last().expect("the first row names its floor").floor,
        };
        let imports = imports
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !matches!(name.as_str(), "" | "-" | "–" | "—"))
            .collect();
        rows.push(Row { floor, name: name.clone(), imports });
    }
    rows
}

/// The crates of ours that a manifest depends on, without their `gq-`.
fn depends_on(manifest: &str) -> BTreeSet<String> {
    let manifest: toml_edit::DocumentMut = manifest.parse().expect("a manifest is TOML");
    let Some(dependencies) = manifest.get("dependencies").and_then(|item| item.as_table_like()) else {
        return BTreeSet::new();
    };
    dependencies.iter().filter_map(|(name, _)| name.strip_prefix("gq-").map(str::to_owned)).collect()
}

/// What is wrong with a table, given what the manifests of the crates and of the programs say.
fn lies(rows: &[Row], crates: &Imports, doors: &BTreeSet<String>) -> Vec<String> {
    let mut lies = Vec::new();
    let floors: BTreeMap<&str, u32> = rows.iter().map(|row| (row.name.as_str(), row.floor)).collect();
    let mut compare = |name: &str, said: &BTreeSet<String>, done: &BTreeSet<String>| {
        lies.extend(
            done.difference(said).map(|i| format!("{name} imports {i}, which the table does not allow")),
        );
        lies.extend(said.difference(done).map(|i| format!("{name} may import {i}, and does not")));
    };
    for row in rows.iter().filter(|row| row.floor < DOORS) {
        if let Some(done) = crates.get(&row.name) {
            compare(&row.name, &row.imports, done);
        }
    }
    let through_doors: BTreeSet<String> =
        rows.iter().filter(|row| row.floor == DOORS).flat_map(|row| row.imports.clone()).collect();
    if rows.iter().any(|row| row.floor == DOORS) {
        compare("the root package", &through_doors, doors);
    }
    for row in rows {
        if row.floor < DOORS && !crates.contains_key(&row.name) {
            lies.push(format!("there is no crate {}", row.name));
        }
        if rows.iter().filter(|other| other.floor < DOORS && other.name == row.name).count() > 1 {
            lies.push(format!("{} stands in the table twice", row.name));
        }
        for import in &row.imports {
            match floors.get(import.as_str()) {
                None => lies.push(format!("{}: {import} is not in the table", row.name)),
                Some(floor)
                    if *floor > row.floor || (*floor == row.floor && row.floor >= FIRST_FLOOR_APART) =>
                {
                    lies.push(format!(
                        "{} (floor {}) may not import {import} (floor {floor})",
                        row.name, row.floor
                    ));
                }
                Some(_) => {}
            }
        }
    }
    lies.extend(
        crates
            .keys()
            .filter(|n| !floors.contains_key(n.as_str()))
            .map(|n| format!("{n} is not in the table")),
    );
    lies
}

/// Every `.rs` file below a folder of the house.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn crates() -> Imports {
    std::fs::read_dir(root().join("lib"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("Cargo.toml").exists())
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, depends_on(&read(&folder.join("Cargo.toml"))))
        })
        .collect()
}

#[test]
fn the_map_says_what_the_manifests_say() {
    let rows = table(&read(&root().join("ARCHITECTURE.md")));
    let lies = lies(&rows, &crates(), &depends_on(&read(&root().join("Cargo.toml"))));
    assert!(lies.is_empty(), "ARCHITECTURE.md and the manifests differ:\n{}", lies.join("\n"));
}

#[test]
fn a_map_that_lies_is_found_out() {
    let map = "\
words before
| floor | crate | may import | rule |
|---|---|---|---|
| 0 words | `model` | – | no_std |
| 1 minds | sched | model | |
| | engine | model, sched | |
| 2 hands | spool | `model` | |
| 4 doors | bins | spool | |

| another | table | here |";
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<String>>();
    let manifests: Imports = [
        ("model", set(&[])),
        ("sched", set(&["model"])),
        ("engine", set(&["model", "sched"])),
        ("spool", set(&["model"])),
    ]
    .map(|(name, imports)| (name.to_owned(), imports))
    .into();
    let rows = table(map);
    assert_eq!(rows.len(), 5);
    assert_eq!(lies(&rows, &manifests, &set(&["spool"])), Vec::<String>::new());
    let mut changed = manifests.clone();
    changed.insert("spool".into(), set(&["model", "engine"]));
    changed.insert("sched".into(), set(&[]));
    changed.insert("new".into(), set(&[]));
    assert_eq!(
        lies(&rows, &changed, &set(&[])),
        [
            "sched may import model, and does not",
            "spool imports engine, which the table does not allow",
            "the root package may import spool, and does not",
            "new is not in the table",
        ]
    );
    let upwards = table(
        &map.replace("`model` | – ", "model | spool ").replace("spool | `model`", "spool | model, spool"),
    );
    let found = lies(&upwards, &manifests, &set(&["spool"]));
    assert!(found.contains(&"model (floor 0) may not import spool (floor 2)".to_owned()), "{found:?}");
    assert!(found.contains(&"spool (floor 2) may not import spool (floor 2)".to_owned()), "{found:?}");
    let manifest = "[dependencies]\ngq-model.workspace = true\nnix = \"1\"\n[dependencies.gq-conf]\npath = \"x\"\n[dev-dependencies]\ngq-store = \"1\"\n";
    assert_eq!(depends_on(manifest), set(&["conf", "model"]));
}

#[test]
fn words_and_minds_do_without_std() {
    for name in WITHOUT_STD {
        let text = read(&root().join("lib").join(name).join("src/lib.rs"));
        assert!(text.lines().any(|line| line.trim() == "#![no_std]"), "gq-{name} is not #![no_std]");
    }
}

#[test]
fn every_file_says_first_what_it_owns() {
    let silent: Vec<PathBuf> = ["lib", "bins", "tests"]
        .into_iter()
        .flat_map(sources)
        .filter(|path| !read(path).starts_with("//! "))
        .collect();
    assert!(silent.is_empty(), "these do not begin with //! and what they own: {silent:#?}");
}

#[test]
fn doors_are_short() {
    for path in sources("bins").iter().filter(|path| path.ends_with("main.rs")) {
        let lines = read(path).lines().count();
        assert!(lines <= MAX_DOOR, "{}: {lines} lines, {MAX_DOOR} at most", path.display());
    }
}

#[test]
fn only_a_door_ends_the_process() {
    for path in sources("lib") {
        for (number, line) in read(&path).lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            assert!(
                !(is_code && line.contains("process::exit")),
                "{}:{}: {line}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn every_durable_step_has_one_place_and_one_name() {
    let table = root().join("lib/failpoint/src/table.rs");
    let rows: Vec<(String, String)> = read(&table)
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(" \""))
        .filter_map(|(step, rest)| Some((step.to_owned(), rest.split_once('"')?.0.to_owned())))
        .collect();
    let names: BTreeSet<&String> = rows.iter().map(|(_, name)| name).collect();
    assert!(rows.len() > 50 && names.len() == rows.len(), "{rows:?}");
    let sources: Vec<String> =
        sources("lib").iter().filter(|path| **path != table).map(|path| read(path)).collect();
    let word = |text: &str, at: usize| !text[at..].starts_with(|c: char| c.is_ascii_alphanumeric());
    for (step, name) in rows {
        let wanted = format!("Step::{step}");
        let places = sources
            .iter()
            .flat_map(|text| text.match_indices(&wanted).filter(|(at, found)| word(text, at + found.len())));
        assert_eq!(places.count(), 1, "the step {name} is done at one place: {wanted}");
    }
}

#[test]
fn no_build_has_failpoints_but_one_that_asks_for_them() {
    for path in ["Cargo.toml", "lib/controller/Cargo.toml", "lib/failpoint/Cargo.toml"] {
        let manifest: toml_edit::DocumentMut = read(&root().join(path)).parse().unwrap();
        let features = manifest["features"].as_table_like().unwrap();
        assert!(features.get("default").is_none() && features.get("failpoints").is_some(), "{path}");
    }
    for name in crates().keys().filter(|name| !["controller", "failpoint"].contains(&name.as_str())) {
        let manifest = read(&root().join("lib").join(name).join("Cargo.toml"));
        assert!(!manifest.contains("failpoints") && !manifest.contains("fail."), "{name}");
    }
    let manifest = read(&root().join("lib/failpoint/Cargo.toml"));
    assert!(manifest.contains("fail = { workspace = true, optional = true }"));
}
