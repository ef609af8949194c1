//! Nodes that fall silent, die, come back, come back as others, and two that have one name. The laws: what may live keeps what it holds,
//! nothing lives twice, and a node gets nothing new before what was given up there is gone.

mod leases;
mod many;
mod names;

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::{End, JobState, Reason};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{fs, path::PathBuf};

/// Signs of life and patience as short as they can be said.
fn quick(plan: Plan) -> Plan {
    plan.cluster("beat = \"1s\"\nsuspect_after = \"2s\"\nlost_after = \"3s\"")
}

fn node_is(lab: &Lab, node: &str, state: &str) -> Value {
    until(&format!("{node} is {state}"), || lab.node_view(node).filter(|view| view["state"] == state))
}

/// What a node keeps on its own disk.
fn node_folder(lab: &Lab, node: &str) -> PathBuf {
    let cluster = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    lab.dir().join("state/node").join(cluster.trim()).join(node)
}

/// Kills all that a node has running, as a boot does.
pub fn kill_all_of(lab: &Lab, node: &str) {
    lab.node(node).kill9();
    kill_jobs(lab);
}

/// Kills every supervisor and every process of a job.
fn kill_jobs(lab: &Lab) {
    until("no job lives", || {
        let is_daemon = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            ["gqd", "gqnode"].contains(&name.trim())
        };
        let jobs: Vec<i32> = lab.processes().into_iter().filter(|pid| !is_daemon(pid)).collect();
        for pid in &jobs {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        jobs.is_empty().then_some(())
    });
}

/// A job that waits for the file `go`, having said so.
fn waiter<'a>(lab: &'a Lab, options: &str) -> Job<'a> {
    let job =
        lab.submit(options, "echo $GQ_RUN >>up.$GQ_JOB_ID; until [ -e go ]; do sleep 0.05; done; echo done");
    job.running()
}

pub fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("left out: only root can have a machine boot");
    }
    is_root
}

#[test]
fn what_ended_while_its_node_was_lost_ends_so_and_what_lives_runs_on() {
    let lab = quick(Plan::new().node("n1", &cards(2))).start();
    let lives = waiter(&lab, "--gpus=1");
    let ends = lab.submit("--gpus=1", "until [ -e end ]; do sleep 0.02; done; exit 7").running();
    lab.node("n1").kill9();
    node_is(&lab, "n1", "suspect");
    for job in [lives, ends] {
        job.when("is out of sight", |view| view["state"] == "UNKNOWN");
    }
    lab.file("end", "");
    until("one job has ended", || (lab.processes().len() < 5).then_some(()));
    lab.node("n1").start();
    assert_eq!((ends.ended(), ends.view()["exit_code"].clone()), (End::Failed, 7.into()));
    lives.when("is in sight", |view| view["state"] == "RUNNING");
    lab.file("go", "");
    assert_eq!(lives.output(), "done\n");
}

/// B155: a node that was silent stayed down for ever, and an admin's drain was taken for the same.
#[test]
fn a_lost_node_is_used_again_by_itself_and_a_drained_one_when_an_admin_says_so() {
    let lab = quick(Plan::new().node("n1", &cards(1)).node("n2", &cards(1))).start();
    lab.ctl("drain n2 --reason fan");
    for node in ["n1", "n2"] {
        lab.node(node).kill9();
    }
    for node in ["n1", "n2"] {
        node_is(&lab, node, "lost");
        lab.node(node).start();
    }
    node_is(&lab, "n1", "idle");
    assert_eq!(lab.submit("--gpus=1", "echo $GQ_NODELIST").output(), "n1\n");
    assert_eq!(node_is(&lab, "n2", "drained")["reason"], "fan");
    lab.ctl("resume n2");
    assert_eq!(lab.submit("-w n2", "echo $GQ_NODELIST").output(), "n2\n");
}

#[test]
fn a_gqnode_that_is_stopped_is_out_of_sight_though_its_socket_is_open() {
    let lab = quick(Plan::new().node("n1", &cards(1))).start();
    let job = waiter(&lab, "--gpus=1");
    lab.node("n1").signal(Signal::SIGSTOP);
    node_is(&lab, "n1", "lost");
    assert_eq!(job.state(), JobState::Unknown);
    lab.node("n1").signal(Signal::SIGCONT);
    job.when("is in sight", |view| view["state"] == "RUNNING");
    lab.file("go", "");
    assert_eq!(job.output(), "done\n");
}

#[test]
fn a_boot_ends_what_ran_and_some_of_it_runs_again() {
    if !is_root() {
        return;
    }
    for by_files in [false, true] {
        let plan = quick(Plan::new().node("n1", &cards(2)));
        let lab = if by_files { plan.by_files() } else { plan }.start();
        let (once, again) = (waiter(&lab, "--gpus=1"), waiter(&lab, "--gpus=1 --requeue"));
        kill_all_of(&lab, "n1");
        for job in [once, again] {
            job.when("is out of sight", |view| view["state"] == "UNKNOWN");
        }
        lab.node("n1").start_in_boot("0123456789abcdef0123456789abcdef");
        assert_eq!((once.ended(), once.reason()), (End::NodeFail, Reason::NodeFailure));
        again.when("runs again", |view| view["state"] == "RUNNING" && view["run"] == 2);
        lab.file("go", "");
        assert_eq!(again.output(), "done\n");
    }
}

/// B159: whoever waited for a job whose node was lost was told that all was well. B153: a node that came back ended the job that ran
/// elsewhere by then.
#[test]
fn a_fenced_node_frees_what_it_held_and_ends_what_lives_there_when_it_is_back() {
    let lab = quick(Plan::new().node("n1", &cards(1)).node("n2", &cards(1))).start();
    lab.say("gqctl node n1 fence").refused(1);
    lab.say("gqctl node n9 fence").refused(1);
    let again = waiter(&lab, "--gpus=1 --requeue -w n1,n2");
    let first = again.view()["nodes"][0].as_str().unwrap().to_owned();
    let other = if first == "n1" { "n2" } else { "n1" };
    // A client that waits for a job of the same node.
    let mut wait = lab.client("gqsub");
    wait.args(["--wait", "-w", &first, "--wrap", "echo >waited; exec sleep 600"]);
    let mut wait = wait.stdout(std::process::Stdio::null()).spawn().unwrap();
    lab.until_file("waited");
    lab.node(&first).kill9();
    node_is(&lab, &first, "lost");
    assert_eq!(lab.ctl(&format!("node {first} fence")), "");
    assert_eq!(wait.wait().unwrap().code(), Some(1));
    again.when("runs elsewhere", |view| view["nodes"][0] == *other && view["state"] == "RUNNING");
    // The old one lives yet: nobody ended it. When its node is back, it is ended, and the new one goes on.
    until("both runs live", || (lab.read(&format!("up.{}", again.id)) == "1\n2\n").then_some(()));
    lab.node(&first).start();
    node_is(&lab, &first, "idle");
    assert_eq!((again.state(), again.view()["run"].clone()), (JobState::Running, 2.into()));
    let supervisors = lab.supervisors();
    assert_eq!(supervisors.len(), 1, "the old runs are gone before their node is offered");
    assert_eq!(lab.submit(&format!("--gpus=1 -w {first}"), "echo free").output(), "free\n");
    lab.file("go", "");
    assert_eq!(again.output(), "done\n");
    // The job's story tells who ended what.
    let failed = lab.list("-t NODE_FAIL");
    assert!(failed[0]["reason_detail"].as_str().unwrap().contains("vouched"), "{failed:?}");
}

#[test]
fn a_forgotten_node_is_listed_no_more_until_it_comes_again() {
    let lab = quick(Plan::new().node("n1", &cards(1)).node("n2", &cards(1))).start();
    assert_eq!(lab.submit("-w n2", "true").ended(), End::Completed);
    lab.say("gqctl node n2 forget").refused(1);
    lab.node("n2").kill9();
    node_is(&lab, "n2", "lost");
    assert!(lab.say("gqctl node n2 forget").refused(1).contains("the conf declares"));
    let conf = fs::read_to_string(lab.conf()).unwrap();
    let without = conf.split("[[node]]\nname = \"n2\"").next().unwrap();
    fs::write(lab.conf(), without).unwrap();
    lab.ctl("reload");
    lab.ctl("node n2 forget");
    assert_eq!(lab.node_view("n2"), None);
    assert!(lab.say("gqsub -w n2 --wrap true").refused(1).contains("n2"));
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(lab.node_view("n2"), None);
    lab.node("n2").start();
    node_is(&lab, "n2", "idle");
    assert_eq!(lab.submit("-w n2", "echo here").output(), "here\n");
}

#[test]
fn runs_of_a_node_whose_disk_was_wiped_are_unknown_until_it_boots_or_is_fenced() {
    if !is_root() {
        return;
    }
    for by_files in [false, true] {
        let plan = quick(Plan::new().node("n1", &cards(2)));
        let lab = if by_files { plan.by_files() } else { plan }.start();
        let (booted, fenced) = (waiter(&lab, "--gpus=1 --requeue"), waiter(&lab, "--gpus=1"));
        for (job, boots) in [(fenced, false), (booted, true)] {
            lab.node("n1").kill9();
            fs::remove_dir_all(node_folder(&lab, "n1")).unwrap();
            lab.node("n1").start();
            // It is here, and knows nothing; its old jobs live on and nobody can tell.
            until("it is linked", || lab.gqd.said().contains("its log is new").then_some(()));
            lab.node_is_there("n1");
            assert_eq!((job.state(), job.view()["run"].clone()), (JobState::Unknown, 1.into()));
            assert_eq!(lab.submit("-n1", "echo beside").output(), "beside\n", "the rest of it is used");
            assert_eq!(job.state(), JobState::Unknown);
            if boots {
                kill_all_of(&lab, "n1");
                lab.node("n1").start_in_boot("0123456789abcdef0123456789abcdef");
                job.when("runs again", |view| view["state"] == "RUNNING" && view["run"] == 2);
            } else {
                kill_jobs(&lab);
                lab.ctl("node n1 fence");
                assert_eq!((job.ended(), job.reason()), (End::NodeFail, Reason::NodeFailure));
                booted.when("runs again", |view| view["state"] == "RUNNING" && view["run"] == 2);
                break;
            }
        }
        lab.file("go", "");
        assert_eq!(booted.output(), "done\n");
    }
}

/// B161: a node whose supervisors and daemon were killed was used again while processes of its jobs lived.
#[test]
fn what_killed_supervisors_left_is_gone_before_its_cards_are_given_on() {
    let lab = quick(Plan::new().node("n1", &cards(1))).start();
    let script = "#!/bin/bash\ntrap '' TERM HUP\n(setsid sleep 1000 &)\n( ( exec -a other sleep 1001 ) & ) &\n\
                  setsid bash -c 'cd /; (sleep 1002 &) ; sleep 1003' &\necho >up.$GQ_JOB_ID\nsleep 1004\n";
    for (node_dies, is_back_late) in [(false, false), (true, false), (true, true)] {
        let job = lab.script("--gpus=1", script).running();
        lab.until_file(&format!("up.{}", job.id));
        let next = lab.submit("--gpus=1", "ls /proc/*/exe >/dev/null 2>&1; echo next");
        if node_dies {
            lab.node("n1").kill9();
        }
        super::crash::kill_the_supervisor(&lab);
        if is_back_late {
            node_is(&lab, "n1", "lost");
            assert_eq!((job.state(), next.state()), (JobState::Unknown, JobState::Pending));
        }
        if node_dies {
            assert!(lab.processes().len() > 3, "its processes outlive both");
            lab.node("n1").start();
        }
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost), "{}", job.view());
        assert_eq!(next.output(), "next\n");
        until("nothing is left", || (lab.processes().len() == 2).then_some(()));
    }
}
