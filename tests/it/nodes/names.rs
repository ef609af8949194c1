//! Names: one name is one node. Whoever is linked is not disturbed by another of its name, and what was put back to an older copy, here or there,
//! starts nothing twice.

use super::{kill_jobs, node_folder, node_is, quick, waiter};
use crate::lab::{Daemon, Lab, Plan, Program, cards, until, until_told};
use gq_ipc::Conn;
use gq_model::{End, Epoch, JobState, NodeId, Seq};
use gq_proto::{ASK_VERSION, Ask, Asked, Head, LETTER_VERSION};
use std::{fs, path::Path, process::Command};

/// Another `gqnode` that is called `n1`, with a disk of its own, as on another machine.
fn twin(lab: &Lab, by_files: bool) -> Daemon {
    let (dir, conf) = (lab.dir().join("twin"), lab.conf());
    let words: [std::ffi::OsString; 6] =
        ["--conf".into(), conf.into(), "--name".into(), "n1".into(), "--dir".into(), dir.into()];
    let mut words = Vec::from(words);
    if by_files {
        words.push("--files".into());
    }
    let how = Program { program: "gqnode", name: "twin".into(), words, env: Vec::new(), owner: None };
    Daemon::new(lab.dir(), how)
}

fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

/// Copies a file or folder as it is. What a daemon writes meanwhile may be gone before it is copied: then once more.
fn copy(from: &Path, to: &Path) {
    until(&format!("{} is copied to {}", from.display(), to.display()), || {
        Command::new("cp").arg("-aT").arg(from).arg(to).status().unwrap().success().then_some(())
    });
}

/// What a node that is called `n1` says of itself.
fn head(lab: &Lab, epoch: u64) -> Head {
    let cluster = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    Head {
        version: LETTER_VERSION,
        cluster: cluster.trim().parse().unwrap(),
        node: "n1".parse().unwrap(),
        epoch: Epoch(epoch),
        boot: None,
        node_id: Some(NodeId([7; 16])),
        beat: 1,
        seen: Default::default(),
        lowest: Seq(1),
        highest: Seq(0),
        ack_epoch: Epoch(0),
        past: Epoch(0),
        ack: Seq(0),
        refusal: None,
        cards: None,
    }
}

fn two_of_one_name((first_by_files, second_by_files): (bool, bool)) {
    let plan = quick(Plan::new().node("n1", &cards(2)));
    let lab = if first_by_files { plan.by_files() } else { plan }.start();
    let lives = waiter(&lab, "--gpus=1");
    let second = twin(&lab, second_by_files);
    second.launch(&[]);
    until_told(|| second.said(), || second.said().contains("gqnode --name").then_some(()));
    // It is tried again and again, and said once; jobs of the first come and go meanwhile.
    for round in 0..4 {
        let job = lab.submit("--gpus=1", "echo $GQ_JOB_ID");
        assert_eq!(job.output(), format!("{}\n", job.id), "round {round}");
        let after = lab.submit("--gpus=1", "exec sleep 1");
        assert_eq!(after.ended(), End::Completed);
    }
    assert_eq!(lives.state(), JobState::Running);
    assert_eq!(count(&second.said(), "no link to gqd"), 1, "{}", second.said());
    assert_eq!(count(&second.said(), "waiting for"), usize::from(first_by_files && second_by_files));
    let turned_away = count(&lab.gqd.said(), "one name is one node");
    // By files alone it never gets so far: it sees the other one's letters.
    assert_eq!(turned_away, usize::from(!(first_by_files && second_by_files)), "{}", lab.gqd.said());
    assert!(!second.said().contains("linked to gqd"), "{}", second.said());
    assert_eq!(lab.supervisors().len(), 1);
    // The first one's machine is gone with all that ran there.
    lab.node("n1").kill9();
    kill_jobs(&lab);
    until_told(|| second.said(), || second.said().contains("linked to gqd").then_some(()));
    lives.when("is out of sight", |view| view["state"] == "UNKNOWN");
    assert_eq!(lab.submit("--gpus=1", "echo new").output(), "new\n");
    assert_eq!(lives.state(), JobState::Unknown);
    lab.ctl("node n1 fence");
    assert_eq!(lives.ended(), End::NodeFail);
    node_is(&lab, "n1", "idle");
    second.discard();
}

#[test]
fn of_two_nodes_of_one_name_the_first_goes_on_over_the_socket() {
    two_of_one_name((false, false));
}

#[test]
fn of_two_nodes_of_one_name_the_first_goes_on_over_the_socket_when_the_other_writes_files() {
    two_of_one_name((false, true));
}

#[test]
fn of_two_nodes_of_one_name_the_first_goes_on_over_files_when_the_other_dials() {
    two_of_one_name((true, false));
}

#[test]
fn of_two_nodes_of_one_name_the_first_goes_on_over_files() {
    two_of_one_name((true, true));
}

/// A link whose node died before it was answered was held for ever.
#[test]
fn a_node_comes_in_after_many_that_said_their_name_and_closed() {
    let lab = quick(Plan::new().node("n1", &cards(1)).absent()).start();
    let hello = |epoch| Asked { v: ASK_VERSION, ask: Ask::Node(head(&lab, epoch)) };
    for epoch in 1..=200 {
        let conn = Conn::connect(&lab.dir().join("run/gqd.sock")).unwrap();
        conn.send(&serde_json::to_vec(&hello(epoch)).unwrap()).unwrap();
        // Some see the answer, most do not wait for it.
        if epoch % 20 == 0 {
            conn.recv(1 << 20).unwrap();
        }
    }
    lab.node("n1").start();
    lab.node_is_there("n1");
    assert_eq!(lab.submit("--gpus=1", "echo here").output(), "here\n");
}

#[test]
fn orders_that_were_obeyed_and_are_put_back_from_a_backup_start_nothing() {
    let lab = quick(Plan::new().node("n1", &cards(1)).by_files()).start();
    let (orders, backup) = (lab.dir().join("spool/nodes/n1/in"), lab.dir().join("backup"));
    // The node is stopped while its order is copied.
    lab.node("n1").signal(nix::sys::signal::Signal::SIGSTOP);
    let job = lab.submit("--gpus=1", "echo $GQ_RUN >>ran");
    let order = until("the order is written", || {
        fs::read_dir(&orders).unwrap().flatten().find(|e| e.path().extension().is_some_and(|x| x == "order"))
    });
    copy(&orders, &backup);
    lab.node("n1").signal(nix::sys::signal::Signal::SIGCONT);
    assert_eq!(job.ended(), End::Completed);
    until("the order is removed", || (!order.path().exists()).then_some(()));
    let put_back = || {
        for file in fs::read_dir(&backup).unwrap().flatten() {
            fs::copy(file.path(), orders.join(".put")).unwrap();
            fs::rename(orders.join(".put"), orders.join(file.file_name())).unwrap();
        }
    };
    put_back();
    assert_eq!(lab.submit("--gpus=1", "echo next").output(), "next\n");
    // The same before a new life of the node, one without a memory, and a gqd that is away.
    for forgets in [false, true] {
        lab.node("n1").kill9();
        lab.gqd.kill9();
        put_back();
        if forgets {
            fs::remove_dir_all(node_folder(&lab, "n1")).unwrap();
        }
        lab.node("n1").start();
        until("it looks", || lab.node("n1").said_now().contains("life").then_some(()));
        lab.gqd.start();
        lab.node_is_there("n1");
        assert_eq!(lab.submit("--gpus=1", "echo next").output(), "next\n");
    }
    assert_eq!(lab.read("ran"), "1\n");
}

#[test]
fn a_node_whose_log_was_put_back_to_an_older_copy_is_another_node() {
    for by_files in [false, true] {
        let plan = quick(Plan::new().node("n1", &cards(2)));
        let lab = if by_files { plan.by_files() } else { plan }.start();
        let (folder, backup) = (node_folder(&lab, "n1"), lab.dir().join("backup"));
        assert_eq!(lab.submit("--gpus=1", "true").ended(), End::Completed);
        lab.node("n1").kill9();
        copy(&folder, &backup);
        lab.node("n1").start();
        lab.node_is_there("n1");
        let done = lab.submit("--gpus=1", "echo $GQ_RUN >>ran");
        assert_eq!(done.ended(), End::Completed);
        let lives = waiter(&lab, "--gpus=1 --requeue");
        lab.node("n1").kill9();
        fs::remove_dir_all(&folder).unwrap();
        copy(&backup, &folder);
        // It finds out that its log does not tell all, says so, and is another node from its next start on.
        lab.node("n1").launch(&[]);
        assert_ne!(lab.node("n1").wait(), Some(0));
        let said = lab.node("n1").said();
        assert!(said.contains("it is an old copy"), "{said}");
        lab.node("n1").start();
        lab.node_is_there("n1");
        lives.when("cannot be told of", |view| view["state"] == "UNKNOWN");
        assert_eq!(lab.submit("--gpus=1", "echo new").output(), "new\n");
        assert_eq!(lab.read("ran"), "1\n");
        assert_eq!(lab.read(&format!("up.{}", lives.id)), "1\n");
        kill_jobs(&lab);
        lab.ctl("node n1 fence");
        lives.when("runs again", |view| view["run"] == 2 && view["state"] == "RUNNING");
        lab.file("go", "");
        assert_eq!(lives.output(), "done\n");
    }
}

#[test]
fn a_gqd_whose_state_was_put_back_to_an_older_copy_speaks_to_no_node_and_says_what_to_do() {
    let lab = quick(Plan::new().node("n1", &cards(1)).node("n2", &cards(1)).by_files()).start();
    let (state, backup) = (lab.dir().join("state"), lab.dir().join("backup"));
    let database = |folder: &Path| {
        let files = fs::read_dir(folder).unwrap().flatten();
        let names = files.map(|file| file.file_name()).filter(|name| name != "node");
        names.collect::<Vec<_>>()
    };
    lab.gqd.stop();
    fs::create_dir(&backup).unwrap();
    for name in database(&state) {
        copy(&state.join(&name), &backup.join(&name));
    }
    lab.gqd.start();
    for node in ["n1", "n2"] {
        node_is(&lab, node, "idle");
    }
    let lives = waiter(&lab, "--gpus=1");
    assert_eq!(lab.submit("--gpus=1", "echo $GQ_RUN >>ran").ended(), End::Completed);
    lab.gqd.kill9();
    for name in database(&state) {
        fs::remove_file(state.join(&name)).unwrap();
    }
    for name in database(&backup) {
        copy(&backup.join(&name), &state.join(&name));
    }
    lab.gqd.start();
    for node in ["n1", "n2"] {
        let words = format!("node {node} is turned away: ");
        until(&words, || lab.gqd.said_now().contains(&words).then_some(()));
        let said = || lab.node(node).said();
        until_told(said, || said().contains("put back gqd's newer state").then_some(()));
        assert_eq!(count(&said(), "put back gqd's newer state"), 1, "{}", said());
        assert_eq!(count(&lab.gqd.said_now(), &words), 1);
    }
    assert_eq!(lab.supervisors().len(), 1, "what lives goes on: {}", lives.id);
    assert_eq!(lab.read("ran"), "1\n");
}
