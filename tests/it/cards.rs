//! Cards: who gets which, what a job sees of them, and that no card is handed out twice.

mod failing;
mod idle;
pub mod rig;
mod setback;
mod shares;
mod slices;
mod trial;
mod used;

use crate::lab::{Job, Lab, Plan};
use gq_model::End;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

const SEEN: &str = "echo \"[${CUDA_VISIBLE_DEVICES-not set}]\"";

/// A lab whose node finds the cards of a machine that the stand-in driver describes.
pub fn with_driver(machine: &str) -> (Lab, tempfile::TempDir) {
    let rig = rig::Rig::shipped(machine, "");
    (rig.lab, rig.driver)
}

#[test]
fn a_job_sees_its_own_cards_and_no_others() {
    let lab = Lab::with_cards(2);
    assert_eq!(lab.submit("", SEEN).output(), "[]\n");
    let both = lab.submit("--gpus=2", SEEN);
    assert_eq!(both.output(), "[0,1]\n");
    assert_eq!(
        both.view()["gpus"],
        json!([{"node": "n1", "index": 0, "uuid": null, "slice": null}, {"node": "n1", "index": 1, "uuid": null, "slice": null}])
    );
    let first = lab.submit("--gpus=1", &format!("{SEEN}; sleep 600")).running();
    let second = lab.submit("--gpus=1", SEEN);
    second.ended();
    let holders: Vec<Value> =
        lab.node_view("n1").unwrap()["gpus"].as_array().unwrap().iter().map(|c| c["job"].clone()).collect();
    assert!(holders.contains(&json!(first.id.to_string())), "{holders:?}");
    assert!(lab.say("gqstat --nodes").ok().contains("A100-SXM4-80GB"));
    let mut both = [first.out(), second.out()];
    both.sort();
    assert_eq!(both, ["[0]\n", "[1]\n"]);
}

#[test]
fn cards_are_chosen_by_count_model_and_memory() {
    let node = "cpus = 16\nmemory = \"64G\"\n[[node.gpu]]\nmodel = \"NVIDIA A100-SXM4-80GB\"\nmemory = \"80G\"\n\
                [[node.gpu]]\nmodel = \"NVIDIA GeForce RTX 4090\"\ncount = 2\nmemory = \"24G\"\n";
    let lab = Plan::new().node("n1", node).start();
    for (options, seen) in [
        ("--gpus=a100", "[0]\n"),
        ("--gpus=A100:1", "[0]\n"),
        ("--gres=gpu:4090:2", "[1,2]\n"),
        ("--gpus-per-node=4090:1", "[1]\n"),
        ("--gpu-mem=40G", "[0]\n"),
        ("--gpus=2 --gpu-mem=20G --gpus=4090:2", "[1,2]\n"),
        ("--gpu-mem=20G", "[1]\n"),
        ("--gpus=3", "[0,1,2]\n"),
        ("-n 2 --gpus-per-task=rtx:1", "[1,2]\n"),
    ] {
        assert_eq!(lab.submit(options, SEEN).output(), seen, "{options}");
    }
    lab.say("gqsub --gpus=a100:2 --wrap true").refused(1);
    lab.say("gqsub --gpus=2 --gpu-mem=40G --wrap true").refused(1);
    lab.say("gqsub --gpus=a1 --wrap true").refused(1);
}

/// B137: of a burst of jobs no two ever have the same card at the same time.
#[test]
fn no_card_is_handed_out_twice() {
    let lab = Lab::with_cards(2);
    let command = "a=$(date +%s%N); sleep 0.05; echo $CUDA_VISIBLE_DEVICES $a $(date +%s%N)";
    let jobs: Vec<Job<'_>> = (0..30).map(|_| lab.submit("--gpus=1 -c1 --mem=64M", command)).collect();
    let mut spans: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for job in jobs {
        let out = job.output();
        let words: Vec<&str> = out.split_whitespace().collect();
        spans
            .entry(words[0].to_owned())
            .or_default()
            .push((words[1].parse().unwrap(), words[2].parse().unwrap()));
    }
    assert_eq!(spans.keys().collect::<Vec<_>>(), ["0", "1"]);
    for (card, mut spans) in spans {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "card {card}: {pair:?}");
        }
    }
}

#[test]
fn cards_of_the_driver_are_named_by_uuid() {
    let (lab, _driver) = with_driver("eight-whole");
    let machine = standin_nvml::shipped("eight-whole").unwrap();
    let uuids: Vec<String> = machine.cards.iter().map(|card| card.uuid.clone()).collect();
    let all = lab.submit("--gpus=h100:8", SEEN);
    assert_eq!(all.output(), format!("[{}]\n", uuids.join(",")));
    assert_eq!(all.view()["gpus"][7], json!({"node": "n1", "index": 7, "uuid": uuids[7], "slice": null}));
    assert_eq!(lab.submit("", SEEN).output(), "[]\n");
    let one = lab.submit("--gpu-mem=79G", SEEN).output();
    assert!(uuids.contains(&one.trim().trim_matches(['[', ']']).to_owned()), "{one}");
    lab.say("gqsub --gpus=9 --wrap true").refused(1);
}

/// B143: where the numbers of the usable cards have a gap, each of them comes back again and again.
#[test]
fn a_card_that_fails_is_shown_and_not_handed_out() {
    let (lab, _driver) = with_driver("one-fails");
    let view = lab.node_view("n1").unwrap();
    let failed: Vec<u64> = view["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| !c["failed"].is_null())
        .map(|c| c["index"].as_u64().unwrap())
        .collect();
    assert_eq!(failed, [2], "{view}");
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains("XID 79"), "{table}");
    for _ in 0..2 {
        let jobs: Vec<Job<'_>> =
            (0..3).map(|_| lab.submit("--gpus=1 --mem=64M", "sleep 600").running()).collect();
        let mut held: Vec<u64> =
            jobs.iter().map(|job| job.view()["gpus"][0]["index"].as_u64().unwrap()).collect();
        held.sort_unstable();
        assert_eq!(held, [0, 1, 3]);
        assert_eq!(lab.say("gqcancel --me").code, 0);
        jobs.iter().for_each(|job| assert_eq!(job.ended(), End::Cancelled));
    }
    let fourth = lab.submit("-H --gpus=3", "true");
    assert_eq!(fourth.word("gpu_count"), "3");
}

#[test]
fn slices_are_listed_and_never_handed_out_as_cards() {
    let (lab, driver) = with_driver("two-one-cut");
    let machine = standin_nvml::shipped("two-one-cut").unwrap();
    let view = lab.node_view("n1").unwrap();
    let cut: Vec<&Value> = view["gpus"].as_array().unwrap().iter().filter(|c| c["mig"] == true).collect();
    assert_eq!(cut.len(), 1);
    let slices = cut[0]["slices"].as_array().unwrap();
    assert!(!slices.is_empty());
    let table = lab.say("gqstat --nodes").ok();
    for slice in slices {
        assert!(slice["uuid"].as_str().unwrap().starts_with("MIG-"), "{slice}");
        assert!(table.contains(slice["profile"].as_str().unwrap()), "{table}");
    }
    assert_eq!(machine.cards.len(), 2);
    let words = lab.say("gqsub --gpus=2 --wrap true").refused(1);
    assert!(words.contains("1 NVIDIA"), "{words}");
    let whole = lab.submit("--gpus=1", SEEN).output();
    assert!(whole.starts_with("[GPU-"), "{whole}");
    assert!(fs::exists(driver.path().join("machine.json")).unwrap());
}
