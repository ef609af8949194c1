//! Cards that fail: the driver's errors, cards and slices that are gone, strangers on them, a driver that hangs. It is that card or slice that is
//! not handed out, never the node; it comes back when a later look finds it well. The daemons and the driver's library are real; what that
//! library tells of is a file.

use super::rig::Rig;
use crate::lab::until;
use gq_model::{End, JobState, Reason};
use serde_json::Value;
use standin_nvml::{Code, Machine};
use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

/// A process that nobody of gq knows.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until exactly these cards cannot be had, with these words in each reason.
#[track_caller]
fn fail(rig: &Rig, expected: &[(u64, &str)]) {
    until(&format!("these fail: {expected:?}"), || {
        rig.look();
        let cards = rig.cards();
        let failing: Vec<(u64, &str)> = cards
            .iter()
            .filter_map(|card| Some((card["index"].as_u64()?, card["failed"].as_str()?)))
            .collect();
        let is_so = failing.len() == expected.len()
            && failing.iter().zip(expected).all(|(a, b)| a.0 == b.0 && a.1.contains(b.1));
        is_so.then_some(())
    });
}

fn index_of(view: &Value) -> u64 {
    view["gpus"][0]["index"].as_u64().unwrap()
}

/// A job with one card, which waits for the file `go.ID`, or for its end.
const WAITS: &str = "until [ -e go.$GQ_JOB_ID ]; do sleep 0.02; done";

/// B147: a card disappeared while a job held it; the job was shown running, and new work was placed there.
#[test]
fn a_card_that_fails_under_its_job_is_not_given_on_and_is_what_the_job_failed_for() {
    let rig = Rig::shipped("eight-whole", "");
    let lab = &rig.lab;
    type Edit = fn(&mut Machine);
    let ways: [(Edit, Edit, &str); 3] = [
        (|m| m.cards[0].fails = Some(Code::GpuIsLost), |m| m.cards[0].fails = None, "XID 79"),
        (|m| m.cards[0].fails = Some(Code::Unknown), |m| m.cards[0].fails = None, "internal driver error"),
        (|m| m.cards.rotate_left(1), |m| m.cards.rotate_right(1), ""),
    ];
    for (fail_it, mend_it, words) in ways {
        // The last way: the card is gone from the driver's list, and the others are numbered otherwise.
        let is_gone = words.is_empty();
        let words = if is_gone { "no longer lists it" } else { words };
        let failing = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
        assert_eq!(index_of(&failing.view()), 0, "the first that is free");
        let well = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
        rig.edit(fail_it);
        let gone = rig.edit(|machine| is_gone.then(|| machine.cards.pop().unwrap()));
        fail(&rig, &[(0, words)]);
        // The job goes on as its process does, and what is wrong is told of it.
        assert_eq!(failing.state(), JobState::Running);
        let why = lab.say(&format!("gqstat --why {}", failing.id)).ok();
        assert!(why.contains("card 0 of n1 fails: ") && why.contains(words), "{why}");
        let table = lab.say("gqstat --nodes").ok();
        assert!(table.contains(words), "{table}");
        rig.is_not_drained();
        let all = lab.submit("--gpus=8", "true");
        all.when("it waits for the card", |view| view["reason"] == "ReqGRESNotAvail");
        let why = lab.say(&format!("gqstat --why {}", all.id)).ok();
        assert!(why.contains("card 0 of n1 cannot be had: ") && why.contains(words), "{why}");
        assert_eq!(lab.say(&format!("gqcancel {}", all.id)).code, 0);

        for job in [failing, well] {
            lab.file(&format!("go.{}", job.id), "");
            assert_eq!(job.ended(), End::Failed);
            assert_eq!(job.view()["exit_code"], 3);
        }
        assert_eq!((failing.reason(), well.reason()), (Reason::CardGone, Reason::NonZeroExitCode));
        let detail = failing.word("reason_detail");
        assert!(detail.starts_with("card 0 of n1 failed: ") && detail.contains(words), "{detail}");
        // Seven are there, and the eighth is not among them.
        let seven = lab.submit("--gpus=7", "echo $CUDA_VISIBLE_DEVICES").output();
        let lost = rig.cards()[0]["uuid"].as_str().unwrap().to_owned();
        assert!(seven.split(',').count() == 7 && !seven.contains(&lost), "{seven}");

        rig.edit(|machine| machine.cards.extend(gone));
        rig.edit(mend_it);
        fail(&rig, &[]);
        assert_eq!(lab.submit("--gpus=8", "true").output(), "");
    }
}

/// Whoever fails is found out before a start, without anybody having looked in between; and a node that is begun anew knows what it has lost.
#[test]
fn a_card_is_looked_at_before_each_start_and_not_forgotten_when_it_is_gone() {
    let rig = Rig::shipped("eight-whole", "");
    let lab = &rig.lab;
    rig.edit(|machine| machine.cards[0].fails = Some(Code::GpuIsLost));
    let job = lab.submit("--gpus=1", "echo $CUDA_VISIBLE_DEVICES");
    let seen = job.output();
    assert!(!rig.cards()[0]["failed"].is_null() && job.view()["run"] == 2, "{}", job.view());
    assert!(!seen.contains(rig.cards()[0]["uuid"].as_str().unwrap()));
    rig.is_not_drained();

    // Held by a job when the node is begun anew, and the driver lists the others alone.
    let holds = lab.submit("--gpus=1", WAITS).running();
    assert_eq!(index_of(&holds.view()), 1);
    let gone = rig.edit(|machine| machine.cards.remove(0));
    lab.node("n1").kill9();
    lab.node("n1").start();
    lab.node_is_there("n1");
    let uuid = |card: &Value| card["uuid"].as_str().unwrap().to_owned();
    let failing = until("the card is shown as failing", || {
        let cards = rig.cards();
        let failing: Vec<Value> = cards.iter().filter(|card| !card["failed"].is_null()).cloned().collect();
        (cards.len() == 8 && failing.len() == 1).then_some(failing)
    });
    assert_eq!(uuid(&failing[0]), gone.uuid);
    let holder = rig.cards().into_iter().find(|card| !card["job"].is_null()).unwrap();
    assert_eq!(uuid(&holder), holds.view()["gpus"][0]["uuid"].as_str().unwrap());
    let six = lab.submit("--gpus=6", "echo $CUDA_VISIBLE_DEVICES").output();
    assert!(!six.contains(&uuid(&holder)) && !six.contains(&gone.uuid), "{six}");
    rig.edit(|machine| {
        machine.cards.insert(0, Machine { cards: vec![gone], ..machine.clone() }.cards.remove(0))
    });
    rig.edit(|machine| machine.cards[0].fails = None);
    fail(&rig, &[]);
    lab.file(&format!("go.{}", holds.id), "");
    holds.output();
    lab.submit("--gpus=8", "true").output();
}

/// B139: what a process outside the queue uses was handed out.
#[test]
fn a_stranger_on_a_card_or_slice_keeps_it_from_being_handed_out_until_he_is_gone() {
    let rig = Rig::shipped("two-one-cut", "");
    let lab = &rig.lab;
    let stranger = Stranger::new();
    let pid = stranger.0.id();
    let on_all = |machine: &mut Machine, pids: Vec<u32>| {
        machine.cards[0].pids.clone_from(&pids);
        machine.cards[1].slices[0].as_mut().unwrap().pids = pids;
    };
    // A job's own processes are no strangers, on a card and on a slice.
    let jobs = [
        lab.submit("--gpus=1", &format!("echo $$ >pid.$GQ_JOB_ID; {WAITS}")).running(),
        lab.submit("--slice=3g.40gb", &format!("echo $$ >pid.$GQ_JOB_ID; {WAITS}")).running(),
    ];
    let own = jobs.map(|job| {
        let file = format!("pid.{}", job.id);
        until("its pid is known", || lab.read(&file).trim().parse::<u32>().ok())
    });
    rig.edit(|machine| {
        machine.cards[0].pids = vec![own[0]];
        machine.cards[1].slices[0].as_mut().unwrap().pids = vec![own[1]];
    });
    rig.look();
    for job in jobs {
        lab.file(&format!("go.{}", job.id), "");
    }
    // A driver that tells of them for a moment longer than they live is waited for, and nobody who is next gets what they are on.
    jobs[0].when("it is about to end", |_| !std::path::Path::new(&format!("/proc/{}", own[0])).exists());
    let next = lab.submit("--gpus=1", "echo next");
    assert_eq!(jobs[0].state(), JobState::Running);
    rig.edit(|machine| on_all(machine, Vec::new()));
    jobs.iter().for_each(|job| assert_eq!(job.ended(), End::Completed));
    assert_eq!(next.output(), "next\n");

    rig.edit(|machine| on_all(machine, vec![pid]));
    // He is found before a start, without another look.
    let card = lab.submit("--gpus=1", "echo card");
    let slice = lab.submit("--slice=3g.40gb", "echo slice");
    for job in [card, slice] {
        job.when("it waits for the card", |view| view["reason"] == "ReqGRESNotAvail");
    }
    let cards = rig.cards();
    let words = format!("process {pid} (sleep, uid {})", nix::unistd::getuid());
    assert!(cards[0]["failed"].as_str().unwrap().contains(&words), "{cards:?}");
    assert!(cards[1]["failed"].is_null(), "it is on the slice alone: {cards:?}");
    assert!(cards[1]["slices"][0]["failed"].as_str().unwrap().contains(&words), "{cards:?}");
    let table = lab.say("gqstat --nodes").ok();
    assert_eq!(table.matches(&words).count(), 2, "{table}");
    let why = lab.say(&format!("gqstat --why {}", slice.id)).ok();
    assert!(why.contains("slice 3g.40gb of card 1") && why.contains(&words), "{why}");
    rig.is_not_drained();
    for options in ["--slice=1g.10gb", "--slice=2g.20gb", ""] {
        lab.submit(options, "true").output();
    }
    rig.edit(|machine| on_all(machine, Vec::new()));
    rig.look();
    assert_eq!((card.output(), slice.output()), ("card\n".to_owned(), "slice\n".to_owned()));
}

/// A slice that does not answer fails alone, also under its job, and a card in MIG mode that is cut anew is not cut where it lies.
#[test]
fn a_slice_that_fails_is_not_handed_out_and_the_card_goes_on() {
    let rig = Rig::shipped("two-one-cut", "[[partition]]\nname = \"main\"\nrecut = true\n");
    let lab = &rig.lab;
    let job = lab.submit("--slice=3g.40gb", &format!("{WAITS}; exit 5")).running();
    rig.edit(|machine| machine.cards[1].slices[0].as_mut().unwrap().fails = Some(Code::Unknown));
    until("the slice fails", || {
        rig.look();
        (!rig.cards()[1]["slices"][0]["failed"].is_null()).then_some(())
    });
    assert!(rig.cards()[1]["failed"].is_null());
    lab.file(&format!("go.{}", job.id), "");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::CardGone));
    let waits = lab.submit("--slice=3g.40gb", "true");
    waits.when("it waits", |view| view["reason"] != "Scheduling" && view["state"] == "PENDING");
    lab.submit("--slice=1g.10gb", "true").output();
    assert_eq!(waits.state(), JobState::Pending);
    rig.is_not_drained();
    rig.edit(|machine| machine.cards[1].slices[0].as_mut().unwrap().fails = None);
    rig.look();
    waits.output();
}

/// The driver hangs: what needs no card goes on, whoever asks for one waits in words, an end is told all the same, and all goes on when it answers.
#[test]
fn a_driver_that_hangs_stops_nobody_who_needs_no_card() {
    let rig = Rig::shipped("eight-whole", "");
    let lab = &rig.lab;
    let ends = lab.submit("--gpus=1", &format!("{WAITS}; exit 4")).running();
    let goes_on = lab.submit("--gpus=1", WAITS).running();
    rig.edit(|machine| machine.hangs = true);
    let begin = Instant::now();
    lab.file(&format!("go.{}", ends.id), "");
    let asks = lab.submit("--gpus=1", "echo served");
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
    assert!(begin.elapsed() < Duration::from_secs(10), "nobody else waits: {:?}", begin.elapsed());
    // It took as long as a look may take.
    assert_eq!((ends.ended(), ends.view()["exit_code"].clone()), (End::Failed, 4.into()));
    asks.when("it waits in words", |view| view["reason"] == "ReqGRESNotAvail");
    let cards = rig.cards();
    assert!(
        cards.iter().all(|card| card["failed"].as_str().unwrap().contains("has not answered")),
        "{cards:?}"
    );
    assert_eq!(goes_on.state(), JobState::Running);
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
    rig.is_not_drained();
    rig.edit(|machine| machine.hangs = false);
    assert_eq!(asks.output(), "served\n");
    fail(&rig, &[]);
    lab.file(&format!("go.{}", goes_on.id), "");
    goes_on.output();
    assert_eq!(lab.submit("--gpus=8", "true").output(), "");
}
