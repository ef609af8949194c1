//! Tests of how shares of cards are shown: of a job, and of the card.

use super::{answered, clock, house, running, waiting};
use crate::stat::{field::Field, json};
use gq_model::{Card, MiB};
use gq_proto::{CardView, GpuView, JobView, NodeView, PartView, Reply};

const TEN: MiB = MiB(10 << 10);

fn cell(field: Field, job: &JobView) -> String {
    let mut cell = String::new();
    field.write(job, &clock(), &mut cell);
    cell
}

#[test]
fn a_share_is_shown_as_it_is_asked_for_and_held() {
    let waits = JobView { gpu_count: 1, gpu_share_mib: Some(TEN), ..waiting() };
    assert_eq!(cell(Field::Gpus, &waits), "gpu-share=10G");
    let named = JobView { gpu_model: Some("a100".into()), ..waits };
    assert_eq!(cell(Field::GpusAsked, &named), "a100,gpu-share=10G");
    assert_eq!(serde_json::to_value(json::job(&named)).unwrap()["gpu_share_mib"], 10_240);
    let whole = running();
    let gpu = GpuView { share_mib: Some(TEN), ..whole.gpus[0].clone() };
    let runs = JobView { gpus: vec![gpu], ..whole };
    assert_eq!(cell(Field::Gpus, &runs), "share:10G");
    assert_eq!(cell(Field::GpuIds, &runs), "ws1:0:share:10G");
    let value = serde_json::to_value(json::job(&runs)).unwrap();
    assert_eq!(value["gpus"][0]["share_mib"], 10_240);
    let value = serde_json::to_value(json::job(&running())).unwrap();
    assert!(value["gpus"][0].get("share_mib").is_none() && value["gpu_share_mib"].is_null());
}

#[test]
fn a_shared_card_is_shown_with_who_holds_parts_of_it() {
    let mut node = house();
    let whole = node.cards.remove(0);
    let part = |job: &str, parts| PartView { job: job.into(), parts, memory_mib: TEN };
    let shared = CardView {
        card: Card { parts: 8, ..whole.card },
        job: None,
        parts: vec![part("17", 1), part("18_3", 1)],
        free_parts: Some(6),
        ..whole
    };
    let idle = CardView { parts: Vec::new(), free_parts: Some(8), ..shared.clone() };
    let node = NodeView { cards: vec![shared, idle], ..node };
    let (text, ..) = answered("shares", "gqstat --nodes", None, vec![Reply::Nodes(vec![node.clone()])]);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines[1..],
        [
            "0 A100-SXM4-80GB 80G (shares) free: 6 of 8 parts",
            "0:0 share 10G 17",
            "0:1 share 10G 18_3",
            "0 A100-SXM4-80GB 80G - free: 8 of 8 parts",
        ]
    );
    let (text, ..) = answered("shares-json", "gqstat --nodes --json", None, vec![Reply::Nodes(vec![node])]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let card = &value["nodes"][0]["gpus"][0];
    assert_eq!((&card["parts"], &card["free_parts"]), (&8.into(), &6.into()));
    assert_eq!(card["shares"][1], serde_json::json!({"job": "18_3", "parts": 1, "share_mib": 10_240}));
}
