//! Which test answers which public report of another queue's fault, which fault of the matrix, and which attack; and why some have none. The reports
//! are those of the themes that make up the life of a job and the loss of anything; the tests tell of the faults where they stand.

mod attacks;
mod life;
mod loss;
mod matrix;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// What answers a report or a fault.
struct Answer {
    /// The number of the report, or the fault in words.
    what: &'static str,
    /// `CRATE::MODULE::NAME`; `it` is this crate, `world` the simulator, the others are in `lib`.
    tests: &'static [&'static str],
    /// Why there is none, or not all of one.
    words: &'static str,
}

const fn by(what: &'static str, tests: &'static [&'static str]) -> Answer {
    Answer { what, tests, words: "" }
}

const fn not_yet(what: &'static str, words: &'static str) -> Answer {
    Answer { what, tests: &[], words }
}

/// The files of a module of a crate: `MODULE.rs`, wherever it lies.
fn files(folder: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path, module));
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().is_some_and(|s| s == module)
        {
            found.push(path);
        }
    }
    found
}

/// Whether there is a test of this name.
fn exists(test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words: Vec<&str> = test.split("::").collect();
    let [krate, module, name] = words[..] else { return false };
    let folder = match krate {
        "it" | "world" | "fuzz" => root.join("tests").join(krate),
        _ => root.join("lib").join(krate),
    };
    let head = format!("fn {name}()");
    files(&folder, module).iter().any(|path| {
        let text = fs::read_to_string(path).unwrap();
        let before = text.split_once(&head).map(|(before, _)| before.trim_end());
        // Attributes that say more may stand between the two.
        before.is_some_and(|before| {
            let lines = before.lines().rev().map(str::trim);
            lines
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| line == "#[test]")
        })
    })
}

/// What is wrong with answers to these.
fn wrong<'a>(asked: &BTreeSet<&'a str>, answers: impl IntoIterator<Item = &'a Answer>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut answered = BTreeSet::new();
    for Answer { what, tests, words } in answers {
        if !asked.contains(what) {
            wrong.push(format!("{what} is not asked"));
        }
        if !answered.insert(*what) {
            wrong.push(format!("{what} is answered twice"));
        }
        if tests.is_empty() && words.is_empty() {
            wrong.push(format!("{what} has neither a test nor a word why not"));
        }
        let missing = tests.iter().filter(|test| !exists(test));
        wrong.extend(missing.map(|test| format!("{what}: there is no test {test}")));
    }
    wrong.extend(asked.difference(&answered).map(|what| format!("{what} is not answered")));
    wrong
}

#[test]
fn every_report_has_a_test_or_a_word_why_not() {
    let themes = || life::THEMES.iter().chain(loss::THEMES).flat_map(|(_, reports)| reports.iter().copied());
    let reports: BTreeSet<&str> = themes().collect();
    assert_eq!(reports.len(), themes().count());
    let wrong = wrong(&reports, life::ANSWERS.iter().chain(loss::ANSWERS));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_fault_of_the_matrix_has_a_test_or_a_word_why_not() {
    let faults = matrix::ANSWERS.iter().map(|answer| answer.what).collect();
    let wrong = wrong(&faults, matrix::ANSWERS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_attack_has_a_test_or_a_word_why_not() {
    let attacks: BTreeSet<&str> = attacks::ANSWERS.iter().map(|answer| answer.what).collect();
    assert_eq!(attacks.len(), 35, "as many as are known");
    let wrong = wrong(&attacks, attacks::ANSWERS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_answer_that_is_none_is_found_out() {
    let answers = [
        by(
            "B001",
            &["it::reports::every_report_has_a_test_or_a_word_why_not", "it::reports::nobody_wrote_this"],
        ),
        by("B002", &["it::reports::exists", "it::reports", "no::such::test"]),
        by("B003", &[]),
        not_yet("B004", "words"),
        not_yet("B004", "words"),
        not_yet("B006", "words"),
    ];
    let found = wrong(&BTreeSet::from(["B001", "B002", "B003", "B004", "B005"]), &answers);
    let expected = [
        "B001: there is no test it::reports::nobody_wrote_this",
        "B002: there is no test it::reports::exists",
        "B002: there is no test it::reports",
        "B002: there is no test no::such::test",
        "B003 has neither a test nor a word why not",
        "B004 is answered twice",
        "B006 is not asked",
        "B005 is not answered",
    ];
    assert_eq!(found, expected);
}
