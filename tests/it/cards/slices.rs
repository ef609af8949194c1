//! Slices: cut for the jobs that ask for them, handed out where they exist, gone under jobs that wait for them, and never twice whoever
//! is killed. The daemons and the driver's library are real; what that library tells of is a file.

use super::rig::{Rig, SEEN, Seen};
use crate::lab::{Dice, Job, Lab, Plan, cards, until};
use gq_model::{End, JobState, Reason};
use serde_json::Value;
use standin_nvml::{Bare, Code, Machine, Place};
use std::{collections::BTreeMap, fs, thread, time::Duration};

const RECUT: &str = "[[partition]]\nname = \"main\"\nrecut = true\n";

#[test]
fn slices_are_cut_where_large_ones_stay_possible_and_cut_anew_when_idle() {
    let rig = Rig::shipped("a100-empty", RECUT);
    let (first, seen) = rig.holder("--slice=1g.10gb");
    assert_eq!(rig.start_of(seen.one("1g.10gb")), 6);
    let (second, seen) = rig.holder("--slice=1g.10gb");
    assert!([4, 5].contains(&rig.start_of(seen.one("1g.10gb"))), "{:?}", rig.real());
    let (four, seen) = rig.holder("--slice=4g.40gb");
    assert_eq!(rig.start_of(seen.one("4g.40gb")), 0);
    let shown = rig.shows(0, &["1g.10gb", "1g.10gb", "4g.40gb"]);
    assert!(shown.iter().all(|slice| slice.job.is_some()), "{shown:?}");
    let table = rig.lab.say("gqstat --nodes").ok();
    assert!(table.contains("(slices)") && table.contains("free: 1g.10gb\n"), "{table}");

    let three = rig.lab.submit("--slice=3g.40gb -t 10", &format!("{SEEN}; sleep 600"));
    assert_eq!(three.reason(), Reason::Resources);
    rig.cancel(&[first, second]);
    let seen = until("it tells what it sees", || {
        fs::read_to_string(three.out_path()).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(rig.start_of(Seen::of(&seen).one("3g.40gb")), 4);
    assert_eq!(rig.shows(0, &["3g.40gb", "4g.40gb"]).len(), rig.real().len(), "nothing else is left");

    // A whole card's slice waits for both, and then takes the place of what they leave.
    let seven = rig.lab.submit("--slice=7g.80gb", SEEN);
    assert_eq!(seven.reason(), Reason::Resources);
    rig.cancel(&[three, four]);
    let seen = Seen::of(&seven.output());
    assert_eq!(rig.start_of(seen.one("7g.80gb")), 0);
    let shown = rig.shows(0, &["7g.80gb"]);
    assert_eq!((shown[0].uuid.as_deref(), &shown[0].job), (Some(seen.one("7g.80gb")), &None));
}

#[test]
fn several_slices_go_one_to_a_task_and_memory_takes_the_smallest() {
    let rig = Rig::shipped("a100-empty", RECUT);
    let (two, seen) = rig.holder("--gres=gpu:1g.10gb:2 -n 2");
    assert_eq!(seen.profiles, ["1g.10gb", "1g.10gb"]);
    assert_eq!(seen.visible, seen.slices);
    assert!(seen.slices[0] != seen.slices[1] && seen.slices.iter().all(|uuid| uuid.starts_with("MIG-")));
    // What was cut for a job is shown with it, by name.
    let view = two.when("its slices are named", |view| !view["gpus"][1]["uuid"].is_null());
    let gpus = view["gpus"].as_array().unwrap();
    let shown: Vec<&str> = gpus.iter().map(|gpu| gpu["uuid"].as_str().unwrap()).collect();
    assert_eq!(shown, seen.slices, "{view}");
    assert!(gpus.iter().all(|gpu| gpu["slice"] == "1g.10gb" && gpu["index"] == 0), "{view}");
    let shown = rig.shows(0, &["1g.10gb", "1g.10gb"]);
    assert!(
        shown.iter().all(|slice| slice.job == Some(two.id.to_string()) && slice.uuid.is_some()),
        "{shown:?}"
    );

    for (options, profiles) in [
        ("--gpu-mem=10G", &["1g.10gb"][..]),
        ("--gpu-mem=20G", &["1g.20gb", "2g.20gb"]),
        ("--gpu-mem=21G", &["3g.40gb", "4g.40gb"]),
    ] {
        let seen = Seen::of(&rig.lab.submit(options, SEEN).output());
        assert!(profiles.contains(&seen.profiles[0].as_str()), "{options}: {seen:?}");
        assert_eq!(seen.slices.len(), 1, "{options}: {seen:?}");
    }
    let large = rig.lab.submit("--gpu-mem=79G", SEEN);
    assert_eq!(large.reason(), Reason::Resources);
    rig.cancel(&[two]);
    assert_eq!(Seen::of(&large.output()).profiles, ["7g.80gb"]);
    let view = large.view();
    assert_eq!(view["gpus"][0]["slice"], "7g.80gb", "{view}");
}

#[test]
fn without_leave_to_cut_only_what_is_there_is_handed_out() {
    let rig = Rig::shipped("two-one-cut", "");
    let before = rig.real();
    let (first, _) = rig.holder("--slice=1g.10gb");
    let (second, _) = rig.holder("--slice=1g.10gb");
    let third = rig.lab.submit("--slice=1G.10GB", SEEN);
    assert_eq!(third.reason(), Reason::Resources);
    let why = rig.lab.say(&format!("gqstat --why {}", third.id)).ok();
    assert!(why.contains(&format!("held by: job {}", first.id)), "{why}");
    rig.cancel(&[first]);
    Seen::of(&third.output()).one("1g.10gb");
    rig.cancel(&[second]);
    assert_eq!(rig.real(), before, "nothing was cut");
}

#[test]
fn what_no_card_can_be_is_refused_with_what_there_is() {
    let fixed = Rig::shipped("two-one-cut", "");
    let recut = Rig::shipped("a100-empty", RECUT);
    let whole = Lab::with_cards(2);
    for (lab, options, code, words) in [
        (
            &fixed.lab,
            "--slice=9g.80gb",
            1,
            &["no card here has the profile 9g.80gb", "profiles of partition main: 1g.10gb 2g.20gb 3g.40gb"]
                [..],
        ),
        (
            &fixed.lab,
            "--slice=7g.80gb",
            1,
            &["no card is cut so at present", "does not have its cards cut anew", "1g.10gb 2g.20gb 3g.40gb"],
        ),
        (&fixed.lab, "--slice=1g.10gb:3 -n 3", 1, &["holds more than 2 of them together"]),
        (&fixed.lab, "--slice=1g.10gb --gpus=1", 2, &["--slice", "--gpus", "whole cards or slices"]),
        (&fixed.lab, "--slice=1g", 2, &["--slice=1g"]),
        (&fixed.lab, "--slice=1g.10gb:0", 2, &["--slice=1g.10gb:0"]),
        (&fixed.lab, "--slice=1g.10gb --gpu-mem=20G", 2, &["--gpu-mem", "--slice", "one of the two"]),
        (&fixed.lab, "--gpu-mem=200G", 1, &["at least 200G", "cut into"]),
        (&recut.lab, "--slice=1g.5gb", 1, &["no card here has the profile 1g.5gb", "7g.80gb"]),
        (&recut.lab, "--slice=1g.10gb:8 -n 8", 1, &["holds more than 7 of them together"]),
        (&recut.lab, "--slice=3g.40gb:3 -n 3", 1, &["holds more than 2 of them together"]),
        (&recut.lab, "--slice=4g.40gb:2 -n 2", 1, &["holds more than 1 of them together"]),
        (&recut.lab, "--slice=1g.10gb+me:2 -n 2", 1, &["holds more than 1 of them together"]),
        (&recut.lab, "--gpus=1", 1, &["1 whole card", "for slices 1g.10gb"]),
        (
            &whole,
            "--slice=1g.10gb",
            1,
            &["no card here has the profile", "no card of partition main is cut into slices"],
        ),
    ] {
        let said = lab.say(&format!("gqsub {options} --wrap true")).refused(code);
        for word in words {
            assert!(said.contains(word), "{options}: no {word:?} in {said}");
        }
    }
}

#[test]
fn whole_cards_and_slices_of_one_node_go_to_those_who_ask_for_them() {
    let mut machine = standin_nvml::shipped("a100-empty").unwrap();
    machine.cards.push(standin_nvml::shipped("two-one-cut").unwrap().cards.remove(0));
    machine.cards[1].links.clear();
    machine.cards[1].minor = Some(1);
    let rig = Rig::of(&machine, RECUT);
    let (whole, seen) = rig.holder("--gpus=1");
    assert_eq!((seen.visible, seen.slices.len()), (vec![machine.cards[1].uuid.clone()], 0));
    let (slice, seen) = rig.holder("--slice=2g.20gb");
    assert_eq!(rig.start_of(seen.one("2g.20gb")), 4);
    let waits = rig.lab.submit("--gpus=1", SEEN);
    assert_eq!(waits.reason(), Reason::Resources);
    // So much memory has a slice as well as a card: the slice, as long as there is room.
    let (large, seen) = rig.holder("--gpu-mem=40G");
    assert!(rig.start_of(&seen.slices[0]) == 0, "{seen:?}");
    let neither = rig.lab.submit("--gpu-mem=40G", SEEN);
    assert_eq!(neither.reason(), Reason::Priority);
    rig.cancel(&[whole]);
    assert_eq!(Seen::of(&waits.output()).visible, [machine.cards[1].uuid.as_str()]);
    assert_eq!(Seen::of(&neither.output()).visible, [machine.cards[1].uuid.as_str()]);
    rig.cancel(&[slice, large]);
}

#[test]
fn a_slice_that_disappears_holds_up_only_the_job_that_needs_it() {
    let rig = Rig::shipped("two-one-cut", "");
    let (holder, seen) = rig.holder("--slice=3g.40gb");
    let large = seen.one("3g.40gb").to_owned();
    let waits = rig.lab.submit("--slice=3g.40gb", SEEN);
    assert_eq!(waits.reason(), Reason::Resources);
    let gone = rig.edit(|machine| {
        let slot = machine.cards[1].slices.iter_mut().find(|s| s.as_ref().is_some_and(|s| s.uuid == large));
        slot.and_then(Option::take).unwrap()
    });
    // Nobody has looked yet: it is given to the next job, and the node finds it gone.
    rig.cancel(&[holder]);
    waits.when("it waits for what is gone", |view| view["reason"] == "ReqGRESNotAvail");
    assert_eq!(waits.state(), JobState::Pending);
    let why = rig.lab.say(&format!("gqstat --why {}", waits.id)).ok();
    assert!(why.contains("3g.40gb"), "{why}");
    rig.shows(1, &["2g.20gb", "1g.10gb", "1g.10gb"]);
    rig.is_not_drained();
    // Others run on, on the same card too, and in the other's stead.
    for options in ["--slice=1g.10gb", "--slice=2g.20gb", "--gpus=1", ""] {
        rig.lab.submit(options, SEEN).output();
    }
    assert_eq!(waits.state(), JobState::Pending);
    // Made anew it has another name.
    let uuid = "MIG-11111111-2222-5333-8444-555555555555";
    rig.edit(|machine| {
        machine.cards[1].slices.push(Some(standin_nvml::Slice { uuid: uuid.to_owned(), ..gone }));
    });
    rig.look();
    assert_eq!(Seen::of(&waits.output()).one("3g.40gb"), uuid);
    rig.is_not_drained();
}

#[test]
fn a_slice_that_disappears_under_its_job_is_not_handed_out_and_hurts_nobody_else() {
    let rig = Rig::shipped("two-one-cut", "");
    let (under, seen) = rig.holder("--slice=2g.20gb");
    let (other, _) = rig.holder("--slice=1g.10gb");
    rig.edit(|machine| {
        let is =
            |slot: &&mut Option<standin_nvml::Slice>| slot.as_ref().is_some_and(|s| s.uuid == seen.slices[0]);
        *machine.cards[1].slices.iter_mut().find(is).unwrap() = None;
    });
    rig.look();
    // The job goes on as its process does; what it holds is shown with it, after what the driver still tells of.
    let last = until("it is known to be gone", || {
        let last = rig.slices(1).pop()?;
        (last.profile == "2g.20gb").then_some(last)
    });
    assert_eq!(last.job, Some(under.id.to_string()));
    let words = rig.lab.say("gqsub --slice=2g.20gb --wrap true").refused(1);
    assert!(words.contains("no card is cut so at present") && words.contains("1g.10gb 3g.40gb"), "{words}");
    assert_eq!((under.state(), other.state()), (JobState::Running, JobState::Running));
    rig.is_not_drained();
    rig.lab.submit("--slice=3g.40gb", SEEN).output();
    rig.cancel(&[under, other]);
    rig.shows(1, &["3g.40gb", "1g.10gb", "1g.10gb"]);
}

/// A card that fails altogether, and a driver that is gone: slices are not handed out and what cards there are is not forgotten, the node
/// goes on, and who waits is served when they are back.
#[test]
fn slices_of_a_card_that_fails_are_waited_for() {
    type Edit = fn(&mut Machine);
    let ways: [(Edit, Edit, &str); 2] = [
        (
            |machine| machine.cards[0].fails = Some(Code::GpuIsLost),
            |machine| machine.cards[0].fails = None,
            "XID 79",
        ),
        (
            |machine| machine.fails = Some(Code::DriverNotLoaded),
            |machine| machine.fails = None,
            "the NVIDIA driver does not answer",
        ),
    ];
    let rig = Rig::shipped("a100-empty", RECUT);
    rig.lab.submit("--slice=1g.10gb", SEEN).output();
    for (fail, mend, words) in ways {
        rig.edit(fail);
        let waits = rig.lab.submit("--slice=2g.20gb", SEEN);
        waits.when("it waits for the card", |view| view["reason"] == "ReqGRESNotAvail");
        // It stays so from look to look, and more of them may come.
        rig.look();
        let more = rig.lab.submit("--slice=1g.20gb", SEEN);
        assert_eq!(more.reason(), Reason::CardsUnavailable);
        let table = rig.lab.say("gqstat --nodes").ok();
        assert!(table.contains(words) && table.contains("A100-SXM4-80GB"), "{table}");
        rig.is_not_drained();
        rig.lab.submit("", SEEN).output();
        rig.edit(mend);
        rig.look();
        Seen::of(&waits.output()).one("2g.20gb");
        Seen::of(&more.output()).one("1g.20gb");
    }
}

#[test]
fn declared_slices_need_no_driver_and_are_never_cut() {
    let card = "cpus = 16\nmemory = \"64G\"\n[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\nmemory = \"80G\"\nmig = true\n";
    let lab = Plan::new().node("n1", card).tables(RECUT).start();
    let jobs: Vec<Job<'_>> = (0..7)
        .map(|_| lab.submit("--slice=1g.10gb --mem=64M", &format!("{SEEN}; sleep 600")).running())
        .collect();
    let eighth = lab.submit("--slice=1g.10gb --mem=64M", SEEN);
    assert_eq!(eighth.reason(), Reason::Resources);
    assert_eq!(lab.say(&format!("gqcancel {}", jobs[3].id)).code, 0);
    assert_eq!(eighth.output(), "0/0/1g.10gb/0\n");
    let view = jobs[0].view();
    assert_eq!(
        (&view["gpus"][0]["slice"], &view["gpus"][0]["uuid"]),
        (&"1g.10gb".into(), &Value::Null),
        "{view}"
    );
    assert_eq!(lab.say("gqcancel --me").code, 0);
    assert_eq!(lab.submit("--slice=3g.40gb:2 -n 2", SEEN).output(), "0/0,0/3g.40gb,3g.40gb/0\n");
    lab.say("gqsub --gpus=1 --wrap true").refused(1);
}

/// A card has one slice with the media engines, however many places there are for it.
#[test]
fn what_a_card_can_have_but_once_goes_from_one_job_to_the_next() {
    let mut machine = standin_nvml::shipped("a100-empty").unwrap();
    machine.cards.push(machine.cards[0].clone());
    machine.cards[1].uuid = "GPU-5c3a1f0e-2b77-5d14-8a9f-6f1a0e4b7c22".to_owned();
    (machine.cards[1].minor, machine.cards[1].bus) = (Some(1), 11);
    let rig = Rig::of(&machine, RECUT);
    let (both, seen) = rig.holder("--slice=1g.10gb+me:2 -n 2");
    assert_eq!(seen.profiles, ["1g.10gb+me", "1g.10gb+me"]);
    // What was cut has a name as soon as the node has told of it.
    until("both are told of", || {
        let all = [rig.slices(0), rig.slices(1)].concat();
        (all.len() == 2 && all.iter().all(|slice| slice.uuid.is_some())).then_some(())
    });
    let next = rig.lab.submit("--slice=1g.10gb+me", SEEN);
    assert_eq!(next.reason(), Reason::Resources);
    rig.lab.submit("--slice=1g.10gb -t 1", SEEN).output();
    assert_eq!(next.state(), JobState::Pending);
    rig.cancel(&[both]);
    Seen::of(&next.output()).one("1g.10gb+me");
    let node = rig.lab.node("n1").said();
    assert!(!node.contains("cannot be launched"), "it was not tried in vain: {node}");
}

/// The conf may tell of a card that the driver knows: that it is in MIG mode, but not how it is cut when it is cut anew.
#[test]
fn a_declared_card_is_cut_unless_its_slices_are_declared() {
    let declared = "[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\nmemory = \"80G\"\n";
    let start = |more: &str| {
        let machine = standin_nvml::shipped("a100-empty").unwrap();
        Rig::with(&machine, &format!("{}{declared}{more}\n", cards(0)), RECUT)
    };
    let rig = start("mig = true");
    let seen = Seen::of(&rig.lab.submit("--slice=2g.20gb", SEEN).output());
    assert_eq!(rig.start_of(seen.one("2g.20gb")), 4);

    let rig = start("slices = [\"3g.40gb\"]");
    let table = until("the card fails", || {
        let table = rig.lab.say("gqstat --nodes").ok();
        table.contains("declared with more slices 3g.40gb than it has").then_some(table)
    });
    assert!(table.contains("change [[node.gpu]], or leave it out"), "{table}");
    assert_eq!(rig.lab.submit("--slice=3g.40gb", SEEN).reason(), Reason::CardsUnavailable);
    assert!(rig.real().is_empty());
    rig.is_not_drained();
}

/// Daemons are killed while the driver is being asked to cut, and between that and the start.
#[test]
fn who_dies_while_a_slice_is_cut_starts_the_job_once() {
    let rig = Rig::shipped("a100-empty", RECUT);
    let node = rig.lab.node("n1");
    let once = "echo $GQ_RUN $CUDA_VISIBLE_DEVICES >>ran.$GQ_JOB_ID";

    // The driver holds still: whoever cuts takes this lock.
    let lock_file = rig.driver.path().join("machine.lock");
    let lock = fs::OpenOptions::new().create(true).append(true).open(&lock_file).unwrap();
    let gqd = &rig.lab.gqd;
    for (round, victims) in [vec![node], vec![gqd], vec![gqd, node], vec![node]].into_iter().enumerate() {
        lock.lock().unwrap();
        let job = rig.lab.submit("--slice=2g.20gb", once);
        until("the node cuts", || {
            let files = fs::read_dir(format!("/proc/{}/fd", node.pid())).ok()?;
            files.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == lock_file)).then_some(())
        });
        if round == 3 {
            // It may cut on, one step at a time: it dies with half an instance made, or a whole one.
            until("something is made", || {
                lock.unlock().unwrap();
                lock.lock().unwrap();
                let now = fs::read_to_string(rig.driver.path().join("machine.json")).unwrap();
                (now.contains("\"bare\"") || now.contains("MIG-")).then_some(())
            });
        }
        victims.iter().for_each(|daemon| daemon.kill9());
        lock.unlock().unwrap();
        victims.iter().for_each(|daemon| daemon.start());
        job.output();
        let ran = fs::read_to_string(rig.lab.work(format!("ran.{}", job.id))).unwrap();
        assert_eq!(ran.lines().count(), 1, "round {round}: {ran}");
        let real = rig.real();
        assert!(real.len() == 1 && ran.contains(&real[0].uuid), "round {round}: {ran} {real:?}");
        assert_eq!(rig.edit(|machine| machine.cards[0].bare.len()), 0, "round {round}");
        rig.edit(|machine| machine.cards[0].slices.clear());
        rig.look();
        rig.shows(0, &[]);
    }

    // Half of an instance is left where the next job is to be.
    rig.edit(|machine| {
        machine.cards[0].slices.clear();
        machine.cards[0].bare.push(Bare { id: 1, profile: 0, placement: Place { start: 0, size: 8 } });
    });
    let job = rig.lab.submit("--slice=2g.20gb", once);
    job.output();
    assert_eq!((rig.real().len(), rig.edit(|machine| machine.cards[0].bare.len())), (1, 0));
}

/// `gqd` and `gqnode` are killed at random while slices are cut. `GQ_SEED` gives the storm again.
#[test]
fn no_slice_is_handed_out_twice_whoever_is_killed() {
    let mut dice = Dice::new();
    let rig = Rig::shipped("a100-empty", RECUT);
    let now = "$(date +%s%N)";
    let command = format!(
        "echo begins {now} $CUDA_VISIBLE_DEVICES >>ran.$GQ_JOB_ID; sleep 0.2; echo ends {now} x >>ran.$GQ_JOB_ID"
    );
    let kinds = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "1g.20gb", "7g.80gb"];
    let mut jobs = Vec::new();
    for round in 0..12 {
        for _ in 0..3 {
            let options = format!("--slice={} --mem=64M", kinds[dice.roll(kinds.len())]);
            jobs.push(rig.lab.submit(&options, &command));
        }
        let cut = rig.real().len();
        if round % 2 == 0 {
            thread::sleep(Duration::from_millis(dice.roll(120) as u64));
        } else {
            // Right after a cut, if there is one.
            let end = std::time::Instant::now() + Duration::from_millis(500);
            while rig.real().len() == cut && std::time::Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let (gqd, node) = (&rig.lab.gqd, rig.lab.node("n1"));
        let victims = [vec![node], vec![gqd], vec![gqd, node], vec![node, gqd]][dice.roll(4)].clone();
        victims.iter().for_each(|daemon| daemon.kill9());
        victims.iter().for_each(|daemon| daemon.launch(&[]));
        rig.lab.gqd.wait_for_answer();
    }
    let mut spans: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for job in &jobs {
        assert_eq!(job.ended(), End::Completed, "{}", job.view());
        let ran = fs::read_to_string(rig.lab.work(format!("ran.{}", job.id))).unwrap();
        let lines: Vec<Vec<&str>> = ran.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 2, "job {}: {ran}", job.id);
        assert!(lines[0][2].starts_with("MIG-") && !lines[0][2].contains(','), "{ran}");
        let span = (lines[0][1].parse().unwrap(), lines[1][1].parse().unwrap());
        spans.entry(lines[0][2].to_owned()).or_default().push(span);
    }
    for (slice, mut spans) in spans {
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{slice}: {spans:?}");
    }
    rig.is_not_drained();
}

/// A monitor that holds an idle instance open is in the way of those alone who ask for its place.
#[test]
fn what_somebody_else_holds_is_waited_for() {
    let rig = Rig::shipped("a100-empty", RECUT);
    rig.lab.submit("--slice=1g.10gb", SEEN).output();
    rig.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().in_use = true);
    let jobs = [rig.lab.submit("--slice=7g.80gb", SEEN), rig.lab.submit("--slice=7g.80gb", SEEN)];
    let node = rig.lab.node("n1");
    for job in jobs {
        until("it was tried", || node.said_now().contains(&format!("run {}.", job.id)).then_some(()));
        job.when("it waits again", |view| view["state"] == "PENDING");
    }
    assert!(node.said_now().contains("DCGM"), "{}", node.said_now());
    rig.is_not_drained();
    assert_eq!(rig.start_of(Seen::of(&rig.lab.submit("--slice=4g.40gb", SEEN).output()).one("4g.40gb")), 0);
    rig.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().in_use = false);
    for job in jobs {
        assert_eq!(rig.start_of(Seen::of(&job.output()).one("7g.80gb")), 0);
    }
}
