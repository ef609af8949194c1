//! Shares: jobs that declare how much memory of a card they use, several on one card, where the partition allows it, and who is over it is
//! ended. The daemons and the driver's library are real; what that library tells of is a file.

use super::rig::Rig;
use crate::lab::{Job, Plan, cards, until};
use gq_model::{End, JobState, Reason};
use serde_json::json;
use std::process::{Child, Command};

const PARTITIONS: &str =
    "[[partition]]\nname = \"main\"\ngpu_share = true\n[[partition]]\nname = \"strict\"\n";
const SEEN: &str = "echo $CUDA_VISIBLE_DEVICES/$GQ_GPU_SHARE_MEM";
/// A job that waits for the file `go.ID`, or for its end; it tells its pid and what marks its processes.
const WAITS: &str = "echo $$ $GQ_RUN_KEY >at.$GQ_JOB_ID; until [ -e go.$GQ_JOB_ID ]; do sleep 0.02; done";

/// A node with one card, shared in four parts, that a driver's library tells of.
fn rig() -> Rig {
    let mut machine = standin_nvml::shipped("eight-whole").unwrap();
    machine.cards.truncate(1);
    machine.cards[0].links.clear();
    Rig::with(&machine, &format!("{}gpu_share = 4\n", cards(0)), PARTITIONS)
}

/// The pid of a job that says it, and what marks its processes.
fn at(rig: &Rig, job: Job<'_>) -> (u32, String) {
    until("it tells where it is", || {
        let text = rig.lab.read(&format!("at.{}", job.id));
        let (pid, marker) = text.strip_suffix('\n')?.split_once(' ')?;
        Some((pid.parse().ok()?, marker.to_owned()))
    })
}

fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// A process that is killed when the test is over.
struct Left(Child);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn jobs_share_a_card_and_whoever_wants_it_whole_waits_for_them() {
    let node = format!("gpu_share = 4\n{}", cards(1));
    let lab = Plan::new().node("n1", &node).tables(PARTITIONS).start();
    let first = lab.submit("--gpu-share=20G", &format!("{SEEN}; {WAITS}")).running();
    let second = lab.submit("--gpus=a100 --gpu-share=40G", &format!("{SEEN}; {WAITS}")).running();
    let whole = lab.submit("--gpus=1", SEEN);
    assert_eq!(whole.reason(), Reason::Resources);
    assert_eq!(lab.submit("--gpu-share=512M -t 1", SEEN).output(), "0/512\n", "it ends before they do");
    let view = second.view();
    assert_eq!((&view["gpus_asked"], &view["gpu_share_mib"]), (&"a100,gpu-share=40G".into(), &40_960.into()));
    let share = json!({"node": "n1", "index": 0, "uuid": null, "slice": null, "share_mib": 40_960});
    assert_eq!(view["gpus"], json!([share]));
    let card = lab.node_view("n1").unwrap()["gpus"][0].clone();
    assert_eq!((&card["parts"], &card["free_parts"], &card["job"]), (&4.into(), &1.into(), &json!(null)));
    let held = |job: Job<'_>, parts: u32, gib: u32| json!({"job": job.id.to_string(), "parts": parts, "share_mib": gib << 10});
    assert_eq!(card["shares"], json!([held(first, 1, 20), held(second, 2, 40)]));
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains("free: 1 of 4 parts") && table.contains("(shares)"), "{table}");
    assert!(lab.say("gqstat").ok().contains("share:40G"));
    let why = lab.say(&format!("gqstat --why {}", whole.id)).ok();
    assert!(why.contains("1 part of shared cards") && why.contains("2 parts of shared cards"), "{why}");
    for job in [first, second] {
        lab.file(&format!("go.{}", job.id), "");
        assert!(job.output().starts_with("0/"));
    }
    assert_eq!(whole.output(), "0/\n");
}

#[test]
fn what_cannot_be_shared_is_refused_with_words() {
    let node = format!("gpu_share = 4\n{}", cards(1));
    let lab = Plan::new().node("n1", &node).tables(PARTITIONS).start();
    for (options, words) in [
        ("-p strict --gpu-share=10G", "jobs of partition strict do not share cards"),
        ("-p strict --gpu-share=10G", "partitions whose jobs do: main"),
        ("--gpu-share=100G", "100G of a shared card"),
        ("--gpu-share=100G", "(80G) shared in 4 parts"),
        ("--gpus=h100 --gpu-share=1G", "1G of a shared h100 card"),
    ] {
        let text = lab.say(&format!("gqsub {options} --wrap true")).refused(1);
        assert!(text.contains(words), "{options}: {text}");
    }
    for (options, words) in [
        ("--gpus=2 --gpu-share=1G", "contradicts --gpus=2"),
        ("--slice=1g.10gb --gpu-share=1G", "contradicts --slice=1g.10gb"),
        ("--gres=shard:4", "--gpu-share=SIZE"),
    ] {
        let text = lab.say(&format!("gqsub {options} --wrap true")).refused(2);
        assert!(text.contains(words), "{options}: {text}");
    }
}

/// All processes of a job count together, and nobody else's do.
#[test]
fn a_job_over_its_memory_is_ended_with_that_reason_and_its_neighbour_runs_on() {
    let rig = rig();
    let lab = &rig.lab;
    let greedy =
        lab.submit("--gpu-share=10G", &format!("sleep 600 & echo $! >child; {SEEN}; {WAITS}")).running();
    let modest = lab.submit("--gpu-share=10G", &format!("{SEEN}; {WAITS}")).running();
    let ((greedy_pid, _), (modest_pid, _)) = (at(&rig, greedy), at(&rig, modest));
    let child = lab.read("child").trim().parse::<u32>().unwrap();
    rig.edit(|machine| {
        let card = &mut machine.cards[0];
        card.pids = vec![greedy_pid, child, modest_pid];
        card.used_mib = [(greedy_pid, 6_000), (child, 4_240), (modest_pid, 10_240)].into();
    });
    rig.edit(|machine| machine.cards[0].used_mib.insert(child, 4_241));
    until("it is ended", || (is_gone(greedy_pid) && is_gone(child)).then_some(()));
    rig.edit(|machine| machine.cards[0].pids = vec![modest_pid]);
    assert_eq!(greedy.ended(), End::OutOfMemory);
    assert_eq!(greedy.reason(), Reason::GpuMemory);
    assert_eq!(greedy.word("reason_detail"), "used 10241 MiB of the card, 10240 MiB declared");
    assert_eq!(modest.state(), JobState::Running);
    lab.file(&format!("go.{}", modest.id), "");
    until("it is gone", || is_gone(modest_pid).then_some(()));
    rig.edit(|machine| machine.cards[0].pids.clear());
    let uuid = rig.edit(|machine| machine.cards[0].uuid.clone());
    assert_eq!(modest.output(), format!("{uuid}/10240\n"));
}

#[test]
fn what_is_left_of_a_job_keeps_its_share_until_it_is_gone_and_not_that_of_its_neighbour() {
    let rig = rig();
    let lab = &rig.lab;
    let first = lab.submit("--gpu-share=40G", WAITS).running();
    let second = lab.submit("--gpu-share=20G", WAITS).running();
    let ((_, marker), (second_pid, _)) = (at(&rig, first), at(&rig, second));
    // One that its supervisor does not find.
    let left = Left(Command::new("sleep").arg("600").env("GQ_RUN_KEY", marker).spawn().unwrap());
    rig.edit(|machine| machine.cards[0].pids = vec![left.0.id(), second_pid]);
    let next = lab.submit("--gpu-share=60G", "echo next");
    lab.file(&format!("go.{}", first.id), "");
    until("its script has ended", || is_gone(at(&rig, first).0).then_some(()));
    // The neighbour's process keeps nothing but its own.
    lab.file(&format!("go.{}", second.id), "");
    until("it is gone", || is_gone(second_pid).then_some(()));
    rig.edit(|machine| machine.cards[0].pids.retain(|pid| *pid != second_pid));
    assert_eq!(second.ended(), End::Completed);
    assert_eq!(next.state(), JobState::Pending, "half of the card is all that is free");
    let ended = |job: Job<'_>| matches!(job.state(), JobState::Ended(_));
    assert!(!ended(first), "its share is not free");
    drop(left);
    rig.edit(|machine| machine.cards[0].pids.clear());
    assert_eq!((first.ended(), next.output().as_str()), (End::Completed, "next\n"));
}
