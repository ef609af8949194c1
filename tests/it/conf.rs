//! The conf file: all its mistakes at once, and taken anew while `gqd` runs.

use crate::lab::{Lab, until};
use nix::sys::signal::Signal;
use std::fs;

#[test]
fn all_mistakes_of_a_file_are_told_with_their_places() {
    let lab = Lab::with_cards(0);
    let bad = "[cluster]\nnmae = \"lab\"\nspool_dir = \"relative\"\n\n[scheduler]\nkill_wait = \"soon\"\nbackfill = \"hard\"\n\n\
               [[partition]]\nname = \"main\"\nstate = \"upp\"\nnodes = [\"n9\"]\n\n[[node]]\nname = \"n1\"\ncpus = 0\nmemory = \"lots\"\n\n\
               [[node.gpu]]\nmodel = \"A100\"\n";
    let file = lab.file("bad.conf", bad);
    let said = lab.run("gqctl", &["check-conf", file.to_str().unwrap()]);
    let words = said.refused(2);
    let mistakes = [
        (2, 1, "`name`"),
        (3, 13, "an absolute path"),
        (6, 13, "a duration"),
        (7, 12, "conservative"),
        (11, 9, "drain"),
        (12, 10, "not declared"),
        (16, 8, "a whole number"),
        (17, 10, "a size"),
        (19, 1, "no `memory`"),
    ];
    for (line, column, word) in mistakes {
        let found = words.contains(&format!("bad.conf:{line}:{column}:")) && words.contains(word);
        assert!(found, "{line}:{column} {word}\n{words}");
    }
    let broken = lab.file("broken.conf", "[cluster\nname = 3\n");
    assert!(
        lab.run("gqctl", &["check-conf", broken.to_str().unwrap()]).refused(2).contains("broken.conf:1:")
    );
    lab.say("gqctl check-conf nowhere.conf").refused(2);
    assert!(lab.ctl("check-conf").contains("good"));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    for example in ["workstation.conf", "lab-mig.conf", "render-farm.conf"] {
        lab.run("gqctl", &["check-conf", root.join(example).to_str().unwrap()]).ok();
    }
}

#[test]
fn a_good_file_is_taken_and_a_bad_one_changes_nothing() {
    let lab = Lab::with_cards(1);
    let good = fs::read_to_string(lab.conf()).unwrap();
    // Clients read the file too, and do not go on with a bad one.
    let kept = lab.file("kept.conf", &good);
    let kept = kept.to_str().unwrap();
    let partitions = || lab.run("gqstat", &["--partitions", "--conf", kept]).ok();
    let long = |limit: &str| format!("{good}\n[[partition]]\nname = \"long\"\nmax_time = \"{limit}\"\n");
    fs::write(lab.conf(), long("2d")).unwrap();
    lab.ctl("reload");
    assert!(partitions().contains("long") && !partitions().contains("main"), "{}", partitions());
    let job = lab.submit("-p long", "echo in $SLURM_JOB_PARTITION");
    assert_eq!(job.output(), "in long\n");

    fs::write(lab.conf(), long("never")).unwrap();
    for conf in [kept, lab.conf().to_str().unwrap()] {
        let words = lab.run("gqctl", &["reload", "--conf", conf]).refused(2);
        assert!(words.contains("gq.conf:25:12") && words.contains("`never`"), "{words}");
    }
    assert!(partitions().contains("long"));
    lab.gqd.signal(Signal::SIGHUP);
    until("it says so", || lab.gqd.said().contains("the conf stays as it was").then_some(()));
    fs::write(lab.conf(), long("3d")).unwrap();
    assert!(partitions().contains("2-00:00:00") || partitions().contains("2d"), "{}", partitions());

    lab.gqd.signal(Signal::SIGHUP);
    until("it is taken", || {
        (!partitions().contains("2-00:00:00") && partitions().contains('3')).then_some(())
    });
    assert_eq!(lab.gqd.stop(), Some(0));
    fs::write(lab.conf(), long("never")).unwrap();
    lab.gqd.launch(&[]);
    assert_eq!(lab.gqd.wait(), Some(2), "a daemon does not start on a bad file");
    fs::write(lab.conf(), &good).unwrap();
    lab.gqd.start();
    assert!(partitions().contains("main"));
}

#[test]
fn an_empty_state_is_refused_without_init_and_a_second_controller_always() {
    let lab = Lab::with_cards(0);
    let second = |words: &[&str]| {
        let mut command = lab.client("gqd");
        crate::lab::finish(command.arg("--conf").arg(lab.conf()).args(words))
    };
    assert_eq!(second(&[]).code, 1);
    assert_eq!(second(&["--init"]).code, 1);
    assert!(lab.ctl("ping").contains("answers"));
    assert_eq!(lab.gqd.stop(), Some(0));
    let again = second(&["--init"]);
    assert_eq!(again.code, 1, "a queue is not made anew over an old one: {}", again.err);
    fs::rename(lab.dir().join("state"), lab.dir().join("old")).unwrap();
    let fresh = second(&[]);
    assert!(fresh.code == 1 && fresh.err.contains("--init"), "{fresh:?}");
    fs::remove_dir_all(lab.dir().join("state")).ok();
    fs::rename(lab.dir().join("old"), lab.dir().join("state")).unwrap();
    lab.gqd.start();
}
