//! Runs in JSON: all keys always there, null for what is absent, times in seconds since 1970 as everywhere.

use crate::{
    out::Out,
    stat::{json, json::Time, used},
    trouble::Trouble,
};
use gq_model::{MiB, Seconds};
use gq_proto::RunView;
use serde::Serialize;

#[derive(Serialize)]
struct Run<'a> {
    id: u64,
    array_task_id: Option<u32>,
    array_tasks: Option<&'a str>,
    name: Option<&'a str>,
    user: &'a str,
    uid: u32,
    account: Option<&'a str>,
    partition: &'a str,
    qos: Option<&'a str>,
    run: u32,
    again: bool,
    state: &'a str,
    reason: &'static str,
    reason_detail: Option<&'a str>,
    exit_code: Option<u8>,
    signal: Option<u8>,
    submit_time: Time,
    allocated_time: Option<Time>,
    start_time: Option<Time>,
    end_time: Time,
    elapsed: f64,
    held: f64,
    first_promise: Option<Time>,
    last_promise: Option<Time>,
    time_limit: Option<Seconds>,
    node: Option<&'a str>,
    cpus: u32,
    memory_mib: MiB,
    gpus: Vec<json::Gpu<'a>>,
    cards: f64,
    restarts: u32,
    suspended_time: f64,
    idle_times: u32,
    reclaimed_card_seconds: Option<f64>,
    used: Option<used::Measured<'a>>,
}

/// A run with all its keys.
pub(super) fn run(run: &RunView) -> impl Serialize + '_ {
    let seconds = |micros: u64| micros as f64 / 1e6;
    Run {
        id: run.id.0,
        array_task_id: run.array_task_id,
        array_tasks: run.array_tasks.as_deref(),
        name: run.name.as_deref(),
        user: &run.user,
        uid: run.uid.0,
        account: run.account.as_deref(),
        partition: &run.partition,
        qos: run.qos.as_deref(),
        run: run.run,
        again: run.again,
        state: &run.state,
        reason: run.reason.word(),
        reason_detail: run.reason_detail.as_deref(),
        exit_code: run.exit_code,
        signal: run.signal,
        submit_time: Time(run.submit_time),
        allocated_time: run.allocated.map(Time),
        start_time: run.start_time.map(Time),
        end_time: Time(run.end_time),
        elapsed: seconds(run.ran()),
        held: seconds(run.held()),
        first_promise: run.first_promise.map(Time),
        last_promise: run.last_promise.map(Time),
        time_limit: run.time_limit,
        node: run.node.as_ref().map(|node| node.as_str()),
        cpus: run.cpus,
        memory_mib: run.memory_mib,
        gpus: run.gpus.iter().map(json::Gpu::of).collect(),
        cards: f64::from(run.worth) / 1e3,
        restarts: run.restarts,
        suspended_time: seconds(run.suspended),
        idle_times: run.idle_times,
        reclaimed_card_seconds: run.given_back.map(|back| back as f64 / 1e3),
        used: run.used.as_deref().map(used::json),
    }
}

/// Shows runs as they come: `{"runs":[…`; [`end`] is owed.
pub(super) fn list() -> impl FnMut(&[RunView], &mut Out) -> Result<(), Trouble> {
    let (mut is_new, mut is_first) = (true, true);
    move |runs, out| {
        if std::mem::take(&mut is_new) {
            out.put("{\"runs\":[")?;
        }
        for one in runs {
            if !std::mem::take(&mut is_first) {
                out.put(",\n")?;
            }
            json::write(out, &run(one)).map_err(|e| Trouble::of_output(&e))?;
        }
        Ok(())
    }
}

/// What is owed behind the last run.
pub(super) fn end(out: &mut Out) -> Result<(), Trouble> {
    out.put("]}\n")
}
