//! Idle cards: whoever holds cards and does nothing with them is warned, and then told of, put back or ended. The daemons and the driver's
//! library are real; what that library tells of is a file.

use super::rig::Rig;
use crate::lab::{Job, until};
use gq_model::{End, JobState, Reason};
use serde_json::Value;
use standin_nvml::Machine;
use std::{os::unix::fs::PermissionsExt, path::Path};

const HOLDS: &str = "trap 'echo told; exit 1' TERM; sleep 600 & wait";

/// A machine with so many cards, of which each is so busy.
fn machine(cards: usize, busy: u32) -> Machine {
    let mut machine = standin_nvml::shipped("eight-whole").unwrap();
    machine.cards.truncate(cards);
    machine.cards.iter_mut().for_each(|card| {
        card.links.clear();
        card.utilization = busy;
    });
    machine
}

/// A program of the site that keeps what it reads under a name of its own, and its line in the conf.
fn keeper(folder: &Path, key: &str) -> String {
    let path = folder.join(key);
    let script = format!("#!/bin/sh\ncd {}; cat >.$$ && mv .$$ $$.{key}.kept\n", folder.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{key} = [\"{}\"]\n", path.display())
}

/// What such a program has kept that has this word in it.
fn kept(folder: &Path, key: &str, word: &str) -> String {
    until(&format!("{key} is told of {word}"), || {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.to_string_lossy().ends_with(&format!(".{key}.kept")));
        files.filter_map(|path| std::fs::read_to_string(path).ok()).find(|text| text.contains(word))
    })
}

/// A rig whose partition says this of idle cards.
fn rig(machine: &Machine, rule: &str) -> Rig {
    Rig::of(machine, &format!("[[partition]]\nname = \"main\"\nidle_after = \"1s\"\n{rule}\n"))
}

fn busy(rig: &Rig, percent: u32) {
    rig.edit(|machine| machine.cards.iter_mut().for_each(|card| card.utilization = percent));
}

/// The job once its cards were found idle.
fn warned(job: &Job<'_>) -> Value {
    job.when("its cards are found idle", |view| view["idle_since"].is_number())
}

/// Waits until the cards were looked at so often from now on.
fn looked_at(rig: &Rig, times: u64) {
    let looks = || std::fs::metadata(rig.driver.path().join("looks")).map_or(0, |file| file.len());
    let before = looks();
    until("the cards are looked at", || (looks() >= before + times).then_some(()));
}

#[test]
fn a_job_whose_cards_stay_idle_is_warned_and_cancelled_and_what_it_gave_back_is_counted() {
    let site = tempfile::tempdir().unwrap();
    let hooks = format!("[hooks]\n{}{}", keeper(site.path(), "mail"), keeper(site.path(), "notify"));
    let rig = rig(
        &machine(2, 0),
        &format!("idle_action = \"cancel\"\nidle_grace = \"1s\"\nidle_below = 1\n{hooks}"),
    );
    let job = rig.lab.submit("--gpus=2 -t 60 --mail-type=IDLE,END", HOLDS).running();
    let view = warned(&job);
    let (since, until) = (view["idle_since"].as_f64().unwrap(), view["idle_until"].as_f64().unwrap());
    assert!(until >= since + 2.0 && until < since + 60.0, "{view}");
    assert_eq!(job.ended(), End::Cancelled);
    assert_eq!(job.reason(), Reason::IdleCards);
    let detail = job.word("reason_detail");
    assert!(detail.starts_with("its cards had been idle for 0:0"), "{detail}");
    assert_eq!(job.out(), "told\n");
    let mail = kept(site.path(), "mail", "its cards are idle");
    assert!(mail.contains("; it is cancelled at ") && mail.contains("\nIdle since: "), "{mail}");
    let mail = kept(site.path(), "mail", ": CANCELLED, ran");
    assert!(mail.contains("IdleCards: its cards had been idle for"), "{mail}");
    assert!(kept(site.path(), "notify", "\"event\":\"idle\"").contains("\"idle_until\":1"));
    let show = rig.lab.say(&format!("gqacct show {}", job.id)).ok();
    assert!(show.contains("IdleCards") && show.contains("its cards had been idle"), "{show}");
    let report: Value = serde_json::from_str(&rig.lab.say("gqacct report --json").ok()).unwrap();
    let main = &report["partitions"][0];
    assert_eq!((&main["idle_runs"], &main["reclaimed_runs"]), (&1.into(), &1.into()), "{main}");
    // Two cards for the most of an hour.
    let back = main["reclaimed_card_hours"].as_f64().unwrap();
    assert!(back > 1.9 && back < 2.0, "{main}");
    let usage = rig.lab.say("gqacct usage").ok();
    assert!(usage.contains("BACK-HOURS"), "{usage}");
}

#[test]
fn a_job_is_put_back_for_it_and_runs_again() {
    let rig = rig(&machine(1, 0), "idle_action = \"requeue\"\nidle_grace = \"0s\"");
    let job = rig.lab.submit("--gpus=1 -t 60", "[ $GQ_RUN = 2 ] || sleep 600");
    assert_eq!(job.ended(), End::Completed);
    let report: Value = serde_json::from_str(&rig.lab.say("gqacct report --json").ok()).unwrap();
    let main = &report["partitions"][0];
    assert_eq!([&main["runs"], &main["again"], &main["reclaimed_runs"]], [2, 1, 1], "{main}");
    let never = rig.lab.submit("--gpus=1 -t 60 --no-requeue", "sleep 600");
    assert_eq!((never.ended(), never.word("run")), (End::Cancelled, "1".into()));
}

#[test]
fn where_idle_cards_are_only_told_of_the_job_runs_on() {
    let rig = rig(&machine(1, 4), "");
    let job = rig.lab.submit("--gpus=1", HOLDS).running();
    let view = warned(&job);
    assert!(view["idle_until"].is_null() && view["reason"] == "IdleCards", "{view}");
    let table = rig.lab.say("gqstat").ok();
    assert!(table.contains("n1(IdleCards)"), "{table}");
    let why = rig.lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(why.contains("its cards are idle since: ") && why.contains("--idle-ok"), "{why}");
    // 4 % are nothing, 5 % are something; and what is nothing again is told again.
    busy(&rig, 5);
    job.when("they are in use again", |view| view["idle_since"].is_null() && view["reason"] == "None");
    busy(&rig, 0);
    warned(&job);
    assert_eq!(job.state(), JobState::Running);
    rig.cancel(&[job]);
    let report: Value = serde_json::from_str(&rig.lab.say("gqacct report --json").ok()).unwrap();
    let main = &report["partitions"][0];
    assert_eq!((&main["idle_runs"], &main["reclaimed_runs"]), (&1.into(), &0.into()), "{main}");
    let table = rig.lab.say("gqacct report").ok();
    assert!(table.contains("RECLAIMED"), "{table}");
}

/// What is not due any more is never done: that is a law of `gq-engine`.
#[test]
fn whoever_uses_his_cards_again_in_time_keeps_them() {
    let rig = rig(&machine(2, 0), "idle_action = \"cancel\"\nidle_grace = \"1h\"\nidle_below = 10");
    let job = rig.lab.submit("--gpus=2", HOLDS).running();
    assert!(warned(&job)["idle_until"].is_number());
    // One of them is enough.
    rig.edit(|machine| machine.cards[0].utilization = 60);
    let view = job.when("they are in use again", |view| view["idle_since"].is_null());
    assert!(view["idle_until"].is_null() && view["reason"] == "None", "{view}");
    looked_at(&rig, 4);
    let view = job.view();
    assert!(view["state"] == "RUNNING" && view["idle_since"].is_null(), "{view}");
}

#[test]
fn memory_in_use_is_use_where_the_conf_says_so() {
    let rig = rig(&machine(1, 0), "idle_memory_is_use = true");
    let job = rig.lab.submit("--gpus=1", &format!("echo $$ >at; {HOLDS}")).running();
    let pid = rig.lab.read("at").trim().parse::<u32>().unwrap();
    rig.edit(|machine| {
        let card = &mut machine.cards[0];
        (card.pids, card.used_mib) = (vec![pid], [(pid, 700)].into());
    });
    // It may have been found idle before the driver told of its memory.
    job.when("it uses memory", |view| view["idle_since"].is_null());
    looked_at(&rig, 4);
    assert!(job.view()["idle_since"].is_null(), "{}", job.view());
    rig.edit(|machine| machine.cards[0].pids.clear());
    warned(&job);
}

#[test]
fn a_slice_is_idle_when_no_process_holds_it() {
    let shipped = standin_nvml::shipped("two-one-cut").unwrap();
    let rig = rig(&shipped, "idle_action = \"cancel\"\nidle_grace = \"0s\"");
    let job = rig.lab.submit("--slice=1g.10gb", &format!("echo $$ >at; {HOLDS}"));
    assert_eq!((job.ended(), job.reason()), (End::Cancelled, Reason::IdleCards));
}

#[test]
fn a_job_that_was_warned_may_be_excused_while_it_runs() {
    let rig = rig(&machine(1, 0), "idle_action = \"cancel\"\nidle_grace = \"1h\"\nidle_ok = true");
    let job = rig.lab.submit("--gpus=1", HOLDS).running();
    assert!(!warned(&job)["idle_until"].is_null());
    let update = |excuse: &str| rig.lab.say(&format!("gqctl update {} --idle-ok={excuse}", job.id)).ok();
    update("debugging");
    let view = job.view();
    assert_eq!((&view["idle_ok"], &view["idle_until"]), (&"debugging".into(), &Value::Null), "{view}");
    update("");
    let view = job.view();
    assert!(view["idle_ok"].is_null() && !view["idle_until"].is_null(), "{view}");
}

#[test]
fn an_excuse_counts_where_the_partition_takes_it() {
    let strict = "[[partition]]\nname = \"strict\"\nidle_after = \"1s\"\nidle_action = \"cancel\"";
    let rig = rig(
        &machine(2, 0),
        &format!("idle_action = \"cancel\"\nidle_grace = \"0s\"\nidle_ok = true\n{strict}"),
    );
    let excused = rig.lab.submit("--gpus=1 --idle-ok=licence", HOLDS).running();
    let idle = rig.lab.submit("--gpus=1", HOLDS);
    assert_eq!((idle.ended(), idle.reason()), (End::Cancelled, Reason::IdleCards));
    looked_at(&rig, 4);
    let view = excused.view();
    assert_eq!((&view["idle_ok"], &view["state"]), (&"licence".into(), &"RUNNING".into()), "{view}");
    assert!(view["idle_since"].is_null(), "{view}");
    let words = rig.lab.say("gqsub -p strict --gpus=1 --idle-ok=x --wrap true").refused(1);
    assert!(words.contains("partition strict takes no excuse for idle cards"), "{words}");
    assert!(words.contains("idle_ok = true"), "{words}");
    let why = rig.lab.say(&format!("gqstat --why {}", excused.id)).ok();
    assert!(why.contains("its cards may be idle: licence"), "{why}");
}

#[test]
fn the_grace_goes_on_over_a_new_gqd_and_a_new_gqnode_judges_anew() {
    let rig = rig(&machine(1, 0), "idle_action = \"cancel\"\nidle_grace = \"1h\"");
    let job = rig.lab.submit("--gpus=1", HOLDS).running();
    let before = warned(&job)["idle_until"].clone();
    assert_eq!(rig.lab.gqd.stop(), Some(0));
    rig.lab.gqd.start();
    let view = job.when("gqd has it again", |view| view["state"] == "RUNNING");
    assert_eq!(view["idle_until"], before, "{view}");
    // What its node says again then is the same.
    rig.lab.node_is_there("n1");
    assert_eq!(job.view()["idle_until"], before);
    busy(&rig, 90);
    assert_eq!(rig.lab.node("n1").stop(), Some(0));
    rig.lab.node("n1").start();
    job.when("nobody knows any more", |view| view["idle_since"].is_null());
    busy(&rig, 0);
    let after = warned(&job)["idle_until"].clone();
    assert!(after.as_f64() > before.as_f64(), "{after} {before}");
    assert_eq!(job.state(), JobState::Running);
}
