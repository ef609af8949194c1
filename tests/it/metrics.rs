//! Metrics: what `gqctl metrics` tells, as a parser of Prometheus reads it.

use crate::{
    cards::rig::Rig,
    lab::{Lab, Plan, cards, finish, until},
};
use gq_model::End;
use prometheus_parse::{Scrape, Value};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

/// All that is told, by name and labels: `gq_tasks{partition="main",state="RUNNING"}`; of a histogram, how many it has seen.
fn read(text: &str) -> BTreeMap<String, f64> {
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let sample = |sample: prometheus_parse::Sample| {
        let mut labels: Vec<String> =
            sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.sort();
        let figure = match sample.value {
            Value::Counter(figure) | Value::Gauge(figure) => figure,
            Value::Histogram(buckets) => buckets.last().unwrap().count,
            Value::Untyped(figure)
                if sample.metric.ends_with("_sum") || sample.metric.ends_with("_count") =>
            {
                figure
            }
            other => panic!("{}: {other:?}", sample.metric),
        };
        (format!("{} {}", sample.metric, labels.join(" ")).trim().to_owned(), figure)
    };
    scrape.samples.into_iter().map(sample).collect()
}

fn told(lab: &Lab) -> BTreeMap<String, f64> {
    read(&lab.say("gqctl metrics").ok())
}

#[test]
fn what_is_queued_held_and_ended_is_told_to_prometheus() {
    let tables = "[[partition]]\nname = \"main\"\n[[partition]]\nname = \"other\"\n";
    let lab = Plan::new().node("n1", &cards(2)).tables(tables).start();
    let before = told(&lab);
    let waits = "until [ -e go ]; do sleep 0.02; done";
    let first = lab.submit("-t 5 --gpus=1 -c 2 --mem=100M", waits).running();
    lab.submit("-t 5 -p other --gpus=1", waits).running();
    lab.submit("-t 5 --array=0-4 --gpus=1", "true");
    lab.submit("-H", "true");
    let now = told(&lab);
    for (name, figure) in [
        ("gq_info cluster=lab version=".to_owned() + env!("CARGO_PKG_VERSION"), 1.0),
        ("gq_degraded".into(), 0.0),
        ("gq_tasks partition=main state=RUNNING".into(), 1.0),
        ("gq_tasks partition=main state=PENDING".into(), 6.0),
        ("gq_tasks partition=other state=RUNNING".into(), 1.0),
        ("gq_tasks partition=other state=PENDING".into(), 0.0),
        ("gq_tasks_submitted_total partition=main".into(), 7.0),
        ("gq_wait_seconds partition=main".into(), 1.0),
        ("gq_node_state node=n1 state=mixed".into(), 1.0),
        ("gq_node_cpus_held node=n1".into(), 3.0),
        ("gq_cards model=A100-SXM4-80GB node=n1 state=held".into(), 2.0),
        ("gq_cards_held node=n1".into(), 2.0),
        ("gq_reserve_bytes".into(), f64::from(64 << 20)),
    ] {
        assert_eq!(now.get(&name), Some(&figure), "{name}: {now:#?}");
    }
    assert!(now["gq_oldest_wait_seconds partition=main"] > 0.0);
    assert_eq!(now["gq_oldest_wait_seconds partition=other"], 0.0);
    assert!(now["gq_passes_total"] > before["gq_passes_total"]);
    assert!(now["gq_turn_seconds"] > before["gq_turn_seconds"] && now["gq_commit_seconds"] > 0.0);
    assert!(now["gq_state_bytes file=database"] > 0.0 && now["gq_state_free_bytes"] > 0.0);
    lab.file("go", "");
    first.ended();
    let failed = lab.submit("", "exit 3");
    assert_eq!(failed.ended(), End::Failed);
    until("all have ended", || {
        let now = told(&lab);
        (now.get("gq_tasks_ended_total partition=main state=COMPLETED") == Some(&6.0)).then_some(())
    });
    let now = told(&lab);
    assert_eq!(now["gq_tasks_ended_total partition=main state=FAILED"], 1.0);
    assert_eq!(now["gq_tasks partition=main state=RUNNING"], 0.0);
    assert_eq!(now["gq_tasks partition=main state=PENDING"], 1.0, "the held one");
    assert_eq!(now["gq_wait_seconds partition=main"], 7.0);
    assert_eq!(now["gq_release_seconds partition=main"], 7.0);
    assert_eq!(now["gq_cards_held node=n1"], 0.0);
    // The job that had to wait for a card was told when it would start.
    let told_of: f64 = ["late", "early"]
        .iter()
        .filter_map(|side| now.get(&format!("gq_start_estimate_error_seconds partition=main side={side}")))
        .sum();
    assert!(told_of >= 1.0, "{now:#?}");
}

#[test]
fn slices_are_told_by_profile() {
    let rig = Rig::shipped("two-one-cut", "");
    let lab = &rig.lab;
    let slices = |state: &str| {
        let now = told(lab);
        let of = now
            .iter()
            .filter(|(name, _)| name.starts_with("gq_slices ") && name.ends_with(&format!("state={state}")));
        of.map(|(_, figure)| figure).sum::<f64>()
    };
    let (free, held) = (slices("free"), slices("held"));
    assert!(free > 0.0 && held == 0.0);
    let job = lab.submit("--gpus=1g.10gb", "exec sleep 600").running();
    assert_eq!((slices("free"), slices("held")), (free - 1.0, 1.0));
    lab.say(&format!("gqcancel {}", job.id)).ok();
    job.ended();
}

#[test]
fn the_file_for_a_collector_appears_whole_and_can_be_read_by_it() {
    let lab = Plan::new().node("n1", &cards(0)).start();
    let path = lab.work("gq.prom");
    lab.file("gq.prom", "old");
    lab.say(&format!("gqctl metrics --output {}", path.display())).ok();
    let text = fs::read_to_string(&path).unwrap();
    assert!(read(&text).contains_key("gq_degraded"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    // Where it cannot be written the old one stays, and nothing is left beside it.
    let said = finish(lab.client("gqctl").args(["metrics", "-o", "/nonexistent/gq.prom"]));
    assert!(said.code == 1 && said.err.contains("/nonexistent/gq.prom: No such file"), "{said:?}");
    let beside = fs::read_dir(lab.work("")).unwrap().flatten();
    assert!(
        beside.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with(".gq-metrics"))
    );
}
