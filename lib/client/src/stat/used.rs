//! What a job that has ended used of what it held, as its node measured it: in words, and as JSON. Judges nothing.

use super::json::Time;
use gq_model::{CardUsed, MiB, Seconds, Used, format_size};
use gq_proto::JobView;
use serde::Serialize;

/// The largest part of its memory that a job had of any of its cards.
pub(crate) fn card_memory(used: &Used) -> Option<MiB> {
    used.cards.iter().filter_map(|card| card.memory).max()
}

/// The energy of all its cards together, in joules.
pub(crate) fn energy(used: &Used) -> Option<u64> {
    used.cards.iter().filter_map(|card| card.energy).reduce(u64::saturating_add)
}

/// A part of a whole, from thousandths: `47%`.
pub(crate) fn percent(thousandths: u64) -> String {
    format!("{}%", thousandths.saturating_add(5) / 10)
}

/// What is said of it, in lines: a label and words each.
pub(crate) fn lines(job: &JobView, used: &Used) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(cpu) = used.cpu {
        let held = ran(job).saturating_mul(u64::from(job.cpus));
        let part = cpu.saturating_mul(1000).checked_div(held);
        let part = part.map_or_else(String::new, |part| format!(", {} of what it held", percent(part)));
        lines.push(("  cpu time used: ", format!("{}{part}", Seconds(cpu / 1_000_000))));
    }
    if let Some(memory) = used.memory {
        let held =
            if job.memory_mib.0 > 0 { format!(" of {}", format_size(job.memory_mib)) } else { String::new() };
        lines.push(("  memory used at most: ", format!("{}{held}", format_size(memory))));
    }
    for card in &used.cards {
        lines.push(("  card used: ", of_card(job, card)));
    }
    if let (Some(released), Some(end)) = (used.released, job.end_time) {
        let micros = released.micros_since(end);
        lines.push((
            "  free again: ",
            format!("{}.{:03} s after its end", micros / 1_000_000, micros / 1000 % 1000),
        ));
    }
    lines
}

/// How long it ran, in microseconds; the time it was suspended does not count.
fn ran(job: &JobView) -> u64 {
    let span = job.start_time.zip(job.end_time).map_or(0, |(start, end)| end.micros_since(start));
    span.saturating_sub(job.suspended_before)
}

fn of_card(job: &JobView, card: &CardUsed) -> String {
    let slice = job.gpus.iter().find(|gpu| gpu.uuid.is_some() && gpu.uuid == card.uuid);
    let slice =
        slice.and_then(|gpu| gpu.slice.as_ref()).map_or_else(String::new, |slice| format!(":{slice}"));
    let mut words = format!("{}{slice}", card.index);
    match (card.mean, card.peak) {
        _ if card.looks == 0 => {}
        (Some(mean), peak) => {
            words.push_str(&format!(", {} busy on average", percent(u64::from(mean))));
            words.extend(peak.map(|peak| format!(" and {} at most", percent(u64::from(peak)))));
        }
        (None, _) => {
            words.push_str(&format!(", held by a process {} of the time", percent(u64::from(card.held))))
        }
    }
    words.extend(card.memory.map(|memory| format!(", {} of its memory at most", format_size(memory))));
    words.extend(card.energy.map(|joules| format!(", {joules} J")));
    words
}

/// A part of a whole, from thousandths.
fn part(thousandths: u16) -> f64 {
    f64::from(thousandths) / 1e3
}

#[derive(Serialize)]
struct Card<'a> {
    index: u32,
    uuid: Option<&'a str>,
    looks: u32,
    held: Option<f64>,
    utilization: Option<f64>,
    utilization_peak: Option<f64>,
    memory_peak_mib: Option<MiB>,
    energy_joules: Option<u64>,
}

/// What was used, with all its keys.
#[derive(Serialize)]
pub(crate) struct Measured<'a> {
    cpu_seconds: Option<f64>,
    memory_peak_mib: Option<MiB>,
    gpu_utilization: Option<f64>,
    gpus: Vec<Card<'a>>,
    released: Option<Time>,
}

/// What was used, with all its keys.
pub(crate) fn json(used: &Used) -> Measured<'_> {
    Measured {
        cpu_seconds: used.cpu.map(|micros| micros as f64 / 1e6),
        memory_peak_mib: used.memory,
        gpu_utilization: used.busy().map(part),
        gpus: used.cards.iter().map(Card::of).collect(),
        released: used.released.map(Time),
    }
}

impl<'a> Card<'a> {
    fn of(card: &'a CardUsed) -> Self {
        Self {
            index: card.index,
            uuid: card.uuid.as_deref(),
            looks: card.looks,
            held: (card.looks > 0).then(|| part(card.held)),
            utilization: card.mean.map(part),
            utilization_peak: card.peak.map(part),
            memory_peak_mib: card.memory,
            energy_joules: card.energy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::Timestamp;

    #[test]
    fn what_was_used_is_said_beside_what_was_held() {
        let card = CardUsed {
            index: 1,
            uuid: Some("GPU-1".into()),
            looks: 60,
            held: 1000,
            mean: Some(474),
            peak: Some(1000),
            memory: Some(MiB(12 << 10)),
            energy: Some(1200),
        };
        let slice = CardUsed {
            looks: 4,
            held: 750,
            mean: None,
            peak: None,
            energy: None,
            memory: None,
            ..card.clone()
        };
        let used = Used {
            cpu: Some(30_000_000),
            memory: Some(MiB(512)),
            cards: vec![card, slice],
            released: Some(Timestamp(161_250_000)),
        };
        let job = JobView {
            cpus: 2,
            memory_mib: MiB(4096),
            start_time: Some(Timestamp(100_000_000)),
            end_time: Some(Timestamp(160_000_000)),
            ..crate::stat::tests::waiting()
        };
        let said: Vec<String> =
            lines(&job, &used).into_iter().map(|(label, words)| format!("{label}{words}")).collect();
        let expected = [
            "  cpu time used: 0:30, 25% of what it held",
            "  memory used at most: 512M of 4G",
            "  card used: 1, 47% busy on average and 100% at most, 12G of its memory at most, 1200 J",
            "  card used: 1, held by a process 75% of the time",
            "  free again: 1.250 s after its end",
        ];
        assert_eq!(said, expected);
        let told = serde_json::to_value(json(&used)).unwrap();
        assert_eq!(told["gpus"][0]["utilization"], 0.474);
        assert_eq!((&told["cpu_seconds"], &told["gpus"][1]["held"]), (&30.0.into(), &0.75.into()));
        assert_eq!(told["gpu_utilization"], 0.612);
    }
}
