//! What `gqd` refuses to start on, in words, and touches nothing of.

use crate::lab::{Lab, Plan, cards};
use rusqlite::Connection;
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

/// Starts `gqd`, which has to refuse; its words.
#[track_caller]
fn refused(lab: &Lab, more: &[&str]) -> String {
    let before = lab.gqd.said().len();
    lab.gqd.launch(more);
    assert_eq!(lab.gqd.wait(), Some(1), "{}", lab.gqd.said());
    lab.gqd.said()[before..].to_owned()
}

#[track_caller]
fn says(words: &str, all: &[&str]) {
    for word in all {
        assert!(words.contains(word), "{word:?} is not in: {words}");
    }
}

fn database(lab: &Lab) -> PathBuf {
    lab.dir().join("state/gq.db")
}

fn alter(lab: &Lab, statement: &str) {
    let db = Connection::open(database(lab)).unwrap();
    assert_eq!(db.execute(statement, []).unwrap(), 1);
    db.close().unwrap();
}

/// The format of the state, as this gqd wrote it.
fn format(lab: &Lab) -> i64 {
    let db = Connection::open(database(lab)).unwrap();
    db.query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| row.get(0)).unwrap()
}

#[test]
fn gqd_refuses_what_is_not_its_queue() {
    let lab = Plan::new().node("n1", &cards(0)).ready();
    let state = lab.dir().join("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    says(&refused(&lab, &[]), &[state.to_str().unwrap(), "no state here", "try: gqd --init"]);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0, "it is left as it was");
    fs::write(state.join("letter"), "somebody's").unwrap();
    says(&refused(&lab, &["--init"]), &["not empty, and no state of gq"]);
    says(&refused(&lab, &[]), &["not empty, and no state of gq"]);
    fs::remove_file(state.join("letter")).unwrap();

    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    let second = Plan::new().node("n1", &cards(0)).ready();
    fs::write(second.conf(), fs::read_to_string(lab.conf()).unwrap()).unwrap();
    let pid = format!("pid {}", lab.gqd.pid());
    says(&refused(&second, &[]), &["another gqd holds this state", &pid]);
    assert!(lab.ctl("ping").contains("answers"));
    assert_eq!(lab.gqd.stop(), Some(0));
    says(&refused(&lab, &["--init"]), &["there is a queue here already", "try: gqd without --init"]);

    // A spool of another cluster, and none at all.
    let id = lab.dir().join("spool/cluster.uuid");
    let own = fs::read_to_string(&id).unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&id, own.replace(|c: char| c.is_ascii_hexdigit(), "7")).unwrap();
    says(&refused(&lab, &[]), &["spool", "belongs to another queue"]);
    fs::write(&id, own).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    says(&refused(&lab, &[]), &["mode 755 lets others in", "chmod 700"]);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    lab.gqd.start();
}

#[test]
fn folders_that_others_may_write_are_refused() {
    let lab = Plan::new().node("n1", &cards(0)).ready();
    fs::set_permissions(lab.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    says(
        &refused(&lab, &["--init"]),
        &[lab.dir().to_str().unwrap(), "may write in it (mode 0777)", "chmod go-w"],
    );
    assert!(!lab.dir().join("state").exists());
    fs::set_permissions(lab.dir(), fs::Permissions::from_mode(0o700)).unwrap();
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    assert_eq!(lab.gqd.stop(), Some(0));
    let run = lab.dir().join("run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
    says(&refused(&lab, &[]), &["run", "may write in it (mode 0777)"]);
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    // A parent that came to be open after the start is the same danger.
    fs::set_permissions(lab.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    says(&refused(&lab, &[]), &[lab.dir().to_str().unwrap(), "may write", "chmod go-w"]);
    fs::set_permissions(lab.dir(), fs::Permissions::from_mode(0o700)).unwrap();
    lab.gqd.start();
}

#[test]
fn a_state_that_is_newer_or_older_or_damaged_is_refused_with_the_place_named() {
    let lab = Lab::with_cards(0);
    let (a, b) = (lab.submit("-H", "true"), lab.submit("-H", "true"));
    assert_eq!(lab.gqd.stop(), Some(0));
    let format = format(&lab);
    let older = ["reads formats from", "let the old gq finish its jobs", "gqd --init in an empty state_dir"];
    for (other, words) in [(99, &["knows formats up to"][..]), (1, &older)] {
        alter(&lab, &format!("UPDATE meta SET value = {other} WHERE key = 'format'"));
        let before = fs::read(database(&lab)).unwrap();
        let said = refused(&lab, &[]);
        says(&said, &["gq.db", &format!("state of format {other};"), "nothing was touched"]);
        says(&said, words);
        assert!(fs::read(database(&lab)).unwrap() == before, "a state of format {other} is left untouched");
    }
    alter(&lab, &format!("UPDATE meta SET value = {format} WHERE key = 'format'"));

    let row = format!("UPDATE job SET body = replace(body, '{{', '(') WHERE id = {}", b.id);
    alter(&lab, &row);
    says(&refused(&lab, &[]), &["gq.db", &format!("job {}", b.id)]);
    alter(&lab, &format!("UPDATE job SET body = replace(body, '(', '{{') WHERE id = {}", b.id));
    lab.gqd.start();
    assert_eq!(lab.list("").len(), 2);
    assert_eq!(lab.say(&format!("gqcancel {} {}", a.id, b.id)).code, 0);

    assert_eq!(lab.gqd.stop(), Some(0));
    alter(&lab, "UPDATE node SET body = substr(body, 2)");
    says(&refused(&lab, &[]), &["gq.db", "node n1"]);
}
