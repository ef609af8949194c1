//! What jobs used of what they held: measured by the node while they run, kept with them for ever. The daemons and the driver's library are
//! real; what that library tells of is a file.

use super::rig::Rig;
use crate::lab::{Job, Lab, until};
use gq_model::End;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// A job that has a cpu busy until its file is there.
const BUSY: &str = "until [ -e go ]; do :; done";
/// A job that tells its pid and waits for its file.
pub const WAITS: &str = "echo $$ >at; until [ -e go ]; do sleep 0.02; done";

pub fn pid(rig: &Rig) -> u32 {
    until("it tells its pid", || rig.lab.read("at").strip_suffix('\n')?.parse().ok())
}

/// Waits until the card was looked at while the driver said what it says now.
pub fn looked_at(rig: &Rig) {
    let looks = || std::fs::metadata(rig.driver.path().join("looks")).map_or(0, |file| file.len());
    let before = looks();
    // The look that is under way may have begun before, and one may be for what is shown of all cards.
    until("the card is looked at", || (looks() >= before + 3).then_some(()));
}

fn end(rig: &Rig, job: &Job<'_>) -> Value {
    rig.lab.file("go", "");
    assert_eq!(job.ended(), End::Completed, "{}", job.view());
    job.view()["used"].clone()
}

#[test]
fn a_job_is_told_what_cpus_and_memory_it_used() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("--gpus=1 -c1", BUSY).running();
    let supervisor = lab.supervisors()[0];
    until("it has used a cpu for a while", || {
        let child = lab.processes().into_iter().find(|pid| *pid != supervisor && ticks(*pid) >= 5);
        child.map(drop)
    });
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed);
    let view = job.view();
    let used = &view["used"];
    assert!(used["cpu_seconds"].as_f64().unwrap() >= 0.04, "{used}");
    assert!(used["memory_peak_mib"].as_u64().unwrap() >= 1, "{used}");
    assert_eq!(used["gpus"], json!([]), "nobody can measure a declared card");
    let (released, ended) = (used["released"].as_f64().unwrap(), view["end_time"].as_f64().unwrap());
    assert!(released >= ended, "{released} {ended}");
    let words = lab.say(&format!("gqstat --why {}", job.id)).ok();
    for word in ["cpu time used: ", "memory used at most: ", "s after its end"] {
        assert!(words.contains(word), "{words}");
    }
    let row = lab.say(&format!("gqstat -h -j {} -o totalcpu,maxrss:9,gpuutil", job.id)).ok();
    assert!(row.contains("0:00") && row.contains('M') && row.contains("N/A"), "{row}");
    assert!(lab.submit("-H", "true").view()["used"].is_null());
}

/// Clock ticks that a process has had on cpus.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn a_whole_card_is_measured_by_how_busy_it_is() {
    let mut machine = standin_nvml::shipped("eight-whole").unwrap();
    machine.cards.truncate(1);
    machine.cards[0].links.clear();
    machine.cards[0].energy_mj = Some(5_000);
    let rig = Rig::of(&machine, "");
    let job = rig.lab.submit("--gpus=1", WAITS).running();
    let pid = pid(&rig);
    rig.edit(|machine| {
        let card = &mut machine.cards[0];
        card.pids = vec![pid];
        card.used_mib = [(pid, 700)].into();
        card.utilization = 80;
    });
    looked_at(&rig);
    rig.edit(|machine| {
        let card = &mut machine.cards[0];
        (card.utilization, card.energy_mj) = (40, Some(255_000));
    });
    looked_at(&rig);
    rig.edit(|machine| machine.cards[0].pids.clear());
    let used = end(&rig, &job);
    let card = &used["gpus"][0];
    let uuid = machine.cards[0].uuid.as_str();
    assert_eq!(
        (&card["index"], &card["uuid"], &card["memory_peak_mib"]),
        (&0.into(), &uuid.into(), &700.into())
    );
    assert_eq!((&card["utilization_peak"], &card["energy_joules"]), (&0.8.into(), &250.into()), "{used}");
    let mean = card["utilization"].as_f64().unwrap();
    assert!(mean > 0.0 && mean < 0.8 && card["looks"].as_u64().unwrap() >= 2, "{used}");
    assert_eq!(used["gpu_utilization"], card["utilization"]);
    let words = rig.lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(words.contains("80% at most, 700M of its memory at most, 250 J"), "{words}");
}

/// No driver tells how busy a slice is: what counts is whether a process holds it.
#[test]
fn a_slice_is_measured_by_who_holds_it_and_a_new_gqnode_begins_anew() {
    let rig = Rig::shipped("two-one-cut", "");
    let job = rig.lab.submit("--slice=1g.10gb", WAITS).running();
    let pid = pid(&rig);
    looked_at(&rig);
    assert_eq!(rig.lab.node("n1").stop(), Some(0));
    let uuid = job.view()["gpus"][0]["uuid"].as_str().unwrap().to_owned();
    rig.edit(|machine| {
        let card =
            machine.cards.iter_mut().find(|card| card.slices.iter().flatten().any(|it| it.uuid == uuid));
        let card = card.unwrap();
        card.used_mib = [(pid, 300)].into();
        let mut slices = card.slices.iter_mut().flatten();
        slices.find(|it| it.uuid == uuid).unwrap().pids = vec![pid];
    });
    rig.lab.node("n1").start();
    looked_at(&rig);
    rig.edit(|machine| {
        machine.cards.iter_mut().flat_map(|card| &mut card.slices).flatten().for_each(|it| it.pids.clear());
    });
    let used = end(&rig, &job);
    let slice = &used["gpus"][0];
    assert_eq!((&slice["uuid"], &slice["memory_peak_mib"]), (&uuid.as_str().into(), &300.into()), "{used}");
    assert!(slice["utilization"].is_null() && slice["energy_joules"].is_null(), "{used}");
    // The looks before it was held were those of a gqnode that is gone.
    assert!(slice["held"].as_f64().unwrap() > 0.4, "{used}");
}

/// What would have fitted: the smallest slice here that has the memory it used, and the time and cpus that it really took.
#[test]
fn a_job_is_told_what_to_ask_for_next_time() {
    let rig = Rig::shipped("two-one-cut", "");
    let whole = rig.cards().iter().position(|card| card["mig"] == false).unwrap();
    let job = rig.lab.submit("-J train -t 60 --gpu-mem=70G --mem=4G", WAITS).running();
    let pid = pid(&rig);
    assert_eq!(job.view()["gpus"][0]["index"], whole);
    rig.edit(|machine| {
        let card = &mut machine.cards[whole];
        (card.pids, card.used_mib, card.utilization) = (vec![pid], [(pid, 7000)].into(), 60);
    });
    looked_at(&rig);
    rig.edit(|machine| machine.cards[whole].pids.clear());
    end(&rig, &job);
    let said: Value = serde_json::from_str(&rig.lab.say("gqacct advise -n train --json").ok()).unwrap();
    let advice = said["advice"][0]["advice"].as_array().unwrap();
    let of = |head: &str| advice.iter().find(|one| one["option"].as_str().unwrap().starts_with(head));
    let memory = of("--gpu-mem=").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(
        (&memory["option"], &memory["smallest"]),
        (&"--gpu-mem=9G".into(), &"1g.10gb".into()),
        "{said}"
    );
    assert!(of("-t ").is_some() && of("--mem=").is_some(), "{said}");
    assert_eq!((&said["advice"][0]["user"], &said["advice"][0]["runs"]), (&job.view()["user"], &1.into()));
    let words = rig.lab.say("gqacct advise").ok();
    assert!(words.contains("--gpu-mem=") && words.contains("that is a 1g.10gb here"), "{words}");
    let tested = rig.lab.say("gqsub -J train -t 60 --gpu-mem=70G --test-only --wrap true").err;
    assert!(tested.contains("would fit into -t 1:00 ") && tested.contains(" --gpu-mem=9G "), "{tested}");
    let tested = rig.lab.say("gqsub -J other -t 60 --test-only --wrap true").err;
    assert!(!tested.contains("would fit"), "{tested}");
    // It can be said so, and gets that slice.
    let small = rig.lab.submit("-J train -t 1 --gpu-mem=9G", "true");
    assert_eq!(small.ended(), End::Completed);
    assert_eq!(small.view()["gpus"][0]["slice"], "1g.10gb", "{}", small.view());
}

/// The message about the end says it too, of the run and of those before it of the same name; and says nothing where nothing would be better.
#[test]
fn the_message_about_the_end_says_what_would_have_fitted() {
    let site = tempfile::tempdir().unwrap();
    let mail = site.path().join("mail");
    std::fs::write(&mail, format!("#!/bin/sh\ncd {} && cat >.$$ && mv .$$ $$.mail\n", site.path().display()))
        .unwrap();
    std::fs::set_permissions(&mail, PermissionsExt::from_mode(0o755)).unwrap();
    let rig = Rig::shipped("two-one-cut", &format!("[hooks]\nmail = [\"{}\"]", mail.display()));
    let message_about = |job: &Job<'_>| {
        let head = format!("gq job {} ", job.id);
        until("its message", || {
            let files = std::fs::read_dir(site.path()).unwrap().map(|file| file.unwrap().path());
            let mails = files.filter(|file| file.extension().is_some_and(|ending| ending == "mail"));
            mails.map(|file| std::fs::read_to_string(file).unwrap()).find(|mail| mail.contains(&head))
        })
    };
    let whole = rig.cards().iter().position(|card| card["mig"] == false).unwrap();
    let job = rig.lab.submit("-J train -t 60 --gpu-mem=70G --mem=4G --mail-type=END", WAITS).running();
    let pid = pid(&rig);
    rig.edit(|machine| {
        let card = &mut machine.cards[whole];
        (card.pids, card.used_mib, card.utilization) = (vec![pid], [(pid, 7000)].into(), 60);
    });
    looked_at(&rig);
    rig.edit(|machine| machine.cards[whole].pids.clear());
    end(&rig, &job);
    let text = message_about(&job);
    assert!(text.contains("\nWhat this run used would have fitted into:\n    -t 1:00 "), "{text}");
    assert!(
        text.contains("\n    --gpu-mem=9G ") && text.contains("; that is a 1g.10gb here (10G)\n"),
        "{text}"
    );
    // A run that needs nothing hears of what those of its name before it needed.
    let next = rig.lab.submit("-J train -t 60 --mem=4G --mail-type=END", "true");
    assert_eq!(next.ended(), End::Completed);
    let text = message_about(&next);
    assert!(
        text.contains("\nWhat 2 runs of this name used would") && text.contains(" --gpu-mem=9G "),
        "{text}"
    );
    // What asked for just what it needs, and what never ran, is told nothing.
    let never = rig.lab.submit("-J train -H --mail-type=END,FAIL", "true");
    rig.lab.say(&format!("gqcancel {}", never.id)).ok();
    let fits = rig.lab.submit("-J other -t 1 -c1 --mem=64M --mail-type=END,FAIL", "exit 3");
    assert_eq!(fits.ended(), End::Failed);
    for job in [never, fits] {
        let text = message_about(&job);
        assert!(!text.contains("would have fitted"), "{text}");
    }
}
