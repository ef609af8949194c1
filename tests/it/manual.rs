//! The manual: that the committed pages of the daemons and of the simulator are those of their option tables, and that every page renders.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("man")
}

/// `GQ_BLESS=1` writes the pages anew.
#[test]
fn the_pages_of_daemons_and_simulator_are_those_of_their_options() {
    for (name, command, section) in [
        ("gqd", gq_controller::command(), "8"),
        ("gqnode", gq_executor::command(), "8"),
        ("gqsim", gq_sim::command(), "1"),
    ] {
        let page = gq_client::page::man_page(command, section);
        let file = folder().join(name).with_extension(section);
        if std::env::var_os("GQ_BLESS").is_some() {
            fs::write(&file, &page).unwrap();
        }
        let committed = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(
            committed == page,
            "{} is not what the options of {name} say: GQ_BLESS=1 cargo nextest run -p gq --test it manual",
            file.display()
        );
    }
}

fn rendered(page: &PathBuf) -> Option<(&'static str, Output)> {
    let run = |program: &str, words: &[&str]| {
        Command::new(program)
            .args(words)
            .arg(page)
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .ok()
    };
    let man = run("man", &["--warnings", "-l"]);
    match man.filter(|done| done.status.success()) {
        Some(done) => Some(("man", done)),
        None => Some(("mandoc", run("mandoc", &["-T", "lint", "-W", "error"])?)),
    }
}

#[test]
fn every_page_renders_without_a_warning() {
    let mut count = 0;
    for page in fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()) {
        let Some((program, done)) = rendered(&page) else {
            eprintln!("neither man nor mandoc is here: the pages are not rendered");
            return;
        };
        let words = String::from_utf8_lossy(&done.stderr);
        assert_eq!(words, "", "{program} {}", page.display());
        if program == "mandoc" {
            assert_eq!(String::from_utf8_lossy(&done.stdout), "", "{}", page.display());
        }
        count += 1;
    }
    assert!(count >= 9, "{count} pages");
}
