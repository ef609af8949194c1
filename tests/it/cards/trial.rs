//! Trials: a script runs for a moment on the smallest card or slice, and what it is to ask for is told.

use super::{
    rig::Rig,
    used::{WAITS, looked_at, pid},
};
use crate::lab::{Lab, Said, until};
use serde_json::Value;
use std::thread;

/// Has a trial of a script run while `meanwhile` is done, which gets the job as it is listed; then the script is let go.
fn trial(rig: &Rig, words: &[&str], meanwhile: impl FnOnce(&Value)) -> Said {
    thread::scope(|threads| {
        let waits = threads.spawn(|| rig.lab.run("gqsub", &[words, &["train.sh"]].concat()));
        let view = until("it runs", || rig.lab.list("-t R").pop());
        meanwhile(&view);
        rig.lab.file("go", "");
        waits.join().unwrap()
    })
}

/// The process of the job holds the slice that the job has, with so much memory.
fn holds(rig: &Rig, view: &Value, mib: u64) {
    let (pid, uuid) = (pid(rig), view["gpus"][0]["uuid"].as_str().unwrap());
    rig.edit(|machine| {
        let is_it = |slice: &&mut standin_nvml::Slice| slice.uuid == uuid;
        for card in &mut machine.cards {
            if let Some(slice) = card.slices.iter_mut().flatten().find(is_it) {
                slice.pids = vec![pid];
                card.used_mib = [(pid, mib)].into();
            }
        }
    });
    looked_at(rig);
}

fn lets_go(rig: &Rig) {
    rig.edit(|machine| {
        machine.cards.iter_mut().flat_map(|card| &mut card.slices).flatten().for_each(|it| it.pids.clear());
    });
}

#[test]
fn a_trial_takes_the_smallest_slice_and_says_what_to_ask_for() {
    let rig = Rig::shipped("two-one-cut", "");
    let asks = "#SBATCH -J train -t 60 --gpus=1 --mem=4G --begin=now+1hour --hold\n";
    rig.lab.file("train.sh", format!("#!/bin/sh\n{asks}{WAITS}\n"));
    let said = trial(&rig, &["--trial=5m"], |view| {
        assert_eq!((&view["name"], &view["time_limit"]), (&"train.trial".into(), &300.into()), "{view}");
        assert_eq!(view["gpus"][0]["slice"], "1g.10gb", "{view}");
        holds(&rig, view, 300);
        lets_go(&rig);
    });
    let words = said.ok();
    for part in [
        "Submitted batch job ",
        "with a 1g.10gb, and ended as COMPLETED.\nIt used ",
        " 300M of the memory of its card at most",
        "\nAsk for:\n    -t 1:00 ",
        "\n    --mem=64M ",
        "\n    --gpu-mem=384M      at most 300M of a card were used; that is a 1g.10gb here (10G)\n",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("nearly all"), "{words}");
    // It is no measure of how long the job itself takes.
    let tested = rig.lab.say("gqsub -J train -t 60 --test-only --wrap true").err;
    assert!(!tested.contains("would fit"), "{tested}");
}

#[test]
fn a_card_that_is_nearly_full_is_told_of_and_a_larger_one_may_be_asked_for() {
    let rig = Rig::shipped("two-one-cut", "");
    rig.lab.file("train.sh", format!("#!/bin/sh\n#SBATCH -J train -t 60 --gpus=1\n{WAITS}\n"));
    let said = trial(&rig, &["--trial", "--json"], |view| {
        holds(&rig, view, 9_600);
        lets_go(&rig);
    });
    let told: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!((&told["card"], &told["card_nearly_full"]), (&"1g.10gb".into(), &true.into()), "{told}");
    assert_eq!((&told["state"], &told["cut_off"]), (&"COMPLETED".into(), &false.into()), "{told}");
    let advice = told["advice"].as_array().unwrap();
    let card = advice.iter().find(|one| one["option"] == "--gpu-mem=12G").unwrap_or_else(|| panic!("{told}"));
    assert!(card["smallest"].is_string() && card["smallest"] != "1g.10gb", "{told}");
    std::fs::remove_file(rig.lab.work("go")).unwrap();
    // What cards are asked for beside it counts.
    let said = trial(&rig, &["--trial", "--gpu-mem=70G"], |view| {
        assert!(view["gpus"][0]["slice"].is_null(), "{view}")
    });
    assert!(said.ok().contains("The trial ran "));
}

#[test]
fn a_trial_that_is_cut_off_is_none_that_failed_and_one_that_fails_says_so() {
    let lab = Lab::with_cards(1);
    lab.file("long.sh", "#!/bin/sh\n#SBATCH --gpus=1 --requeue --retry=3 --mail-type=ALL\nexec sleep 600\n");
    let words = lab.say("gqsub --trial=1s long.sh").ok();
    assert!(words.contains("was cut off then: how long the job takes is not known."), "{words}");
    assert!(!words.contains(" -t "), "{words}");
    lab.file("fails.sh", "#!/bin/sh\n#SBATCH --array=4-9\necho $GQ_ARRAY_TASK_ID >tried\nexit 3\n");
    let said = lab.say("gqsub --trial fails.sh");
    assert_eq!((said.code, lab.read("tried")), (3, "4\n".to_owned()), "{}", said.err);
    assert!(said.out.contains("and ended as FAILED."), "{}", said.out);
    for other in ["--test-only", "--offline"] {
        let words = lab.say(&format!("gqsub --trial {other} fails.sh")).refused(2);
        assert!(words.contains("--trial") && words.contains(other), "{words}");
    }
    lab.say("gqsub --trial=0 fails.sh").refused(2);
}

#[test]
fn a_trial_is_no_longer_than_its_script_and_its_partition_allow() {
    let tables = "[[partition]]\nname = \"main\"\ndefault = true\n[[partition]]\nname = \"short\"\nmax_time = \"1s\"\n";
    let lab = crate::lab::Plan::new().node("n1", &crate::lab::cards(0)).tables(tables).start();
    lab.file("long.sh", "#!/bin/sh\nexec sleep 600\n");
    let words = lab.say("gqsub --trial -p short long.sh").ok();
    assert!(words.contains("The trial ran 0:01 on n1, and was cut off"), "{words}");
    let words = lab.say("gqsub --trial -t 1s long.sh").ok();
    assert!(words.contains("was cut off"), "{words}");
}
