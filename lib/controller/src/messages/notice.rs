//! Notices: what happened as JSON, for the notify program. The form is told in gq(7); fields are added, and none changes its meaning.

use super::{
    budget::News,
    note::{Change, Happened, Note, Subject, Tasks, What},
};
use gq_model::{Epoch, NodeName, TaskIndex, Timestamp};
use serde_json::{Map, Value, json};

/// The version of the form.
const VERSION: u32 = 1;

/// One line of JSON; none for what is told by mail alone.
pub(crate) fn line(note: &Note, cluster: &str, life: Epoch) -> Option<Vec<u8>> {
    let (event, key, about) = match &note.what {
        What::Job(happened, subject) => (job_event(*happened), "job", job(subject)),
        What::Node(name, change) => (node_event(change), "node", node(name, change)),
        What::Budget(news) => {
            (if news.percent < 100 { "budget_80" } else { "budget_100" }, "budget", budget(news))
        }
        What::LeftOut(_) => return None,
    };
    let mut notice = json!({
        "v": VERSION,
        "id": format!("{life}-{}", note.number),
        "time": seconds(note.at),
        "cluster": cluster,
        "event": event,
    });
    if let Some(all) = notice.as_object_mut() {
        all.insert(key.to_owned(), about);
        if let What::Job(Happened::TimeLimit(percent), _) = &note.what {
            all.insert("percent".to_owned(), (*percent).into());
        }
        if let What::Job(Happened::Idle(idle), _) = &note.what {
            all.insert("idle_since".to_owned(), seconds(idle.since).into());
            all.insert("idle_until".to_owned(), idle.due.map(seconds).into());
        }
    }
    Some(format!("{notice}\n").into_bytes())
}

fn job_event(happened: Happened) -> &'static str {
    match happened {
        Happened::Submitted => "submitted",
        Happened::Begin => "begin",
        Happened::End => "end",
        Happened::Requeue => "requeue",
        Happened::TimeLimit(_) => "time_limit",
        Happened::Waited => "waited",
        Happened::Idle(_) => "idle",
    }
}

fn node_event(change: &Change) -> &'static str {
    match change {
        Change::Drained(_) => "node_drained",
        Change::Resumed => "node_resumed",
        Change::Up => "node_up",
        Change::Lost => "node_lost",
    }
}

fn node(name: &NodeName, change: &Change) -> Value {
    let reason = match change {
        Change::Drained(reason) => Some(reason),
        Change::Resumed | Change::Up | Change::Lost => None,
    };
    json!({"name": name, "reason": reason})
}

fn budget(news: &News) -> Value {
    json!({
        "name": news.budget,
        "account": news.account,
        "user": news.user,
        "percent": news.percent,
        "used": news.used.hours(),
        "card_hours": news.most.hours(),
        "period": news.period.name(),
        "from": seconds(news.from),
        "until": seconds(news.until),
        "when_used_up": news.then.name(),
    })
}

fn job(subject: &Subject) -> Value {
    let (task, tasks) = match &subject.tasks {
        Tasks::All => (None, None),
        Tasks::One(TaskIndex(task)) => (Some(*task), None),
        Tasks::Some(tasks) => (None, Some(tasks.to_string())),
    };
    let place = subject.place.as_ref();
    let outcome = subject.outcome.as_ref();
    let gpus = place.map(|place| {
        let card = |card: &gq_model::CardUse| {
            json!({"node": place.node, "index": card.index, "uuid": card.uuid, "slice": card.slice})
        };
        place.cards.iter().map(card).collect::<Vec<Value>>()
    });
    let mut job = json!({
        "id": subject.id,
        "array": subject.array,
        "array_task_id": task,
        "array_tasks": tasks,
        "name": subject.spec.name,
        "user": subject.user,
        "uid": subject.uid,
        "account": subject.payer.account,
        "qos": subject.payer.qos,
        "partition": subject.shape.partition,
        "state": subject.state.name(),
        "reason": outcome.map(|outcome| outcome.reason.word()),
        "reason_detail": outcome.map(|outcome| &outcome.detail).filter(|detail| !detail.is_empty()),
        "exit_code": outcome.and_then(|outcome| outcome.exit_code),
        "signal": outcome.and_then(|outcome| outcome.signal),
        "run": subject.run,
        "node": place.map(|place| &place.node),
        "cpus": place.map(|place| place.cpus),
        "memory_mib": place.map(|place| place.memory),
        "gpus": gpus.unwrap_or_default(),
        "submit_time": seconds(subject.submitted),
        "start_time": subject.started.map(seconds),
        "end_time": subject.ended.map(seconds),
        "time_limit": subject.shape.time_limit,
        "work_dir": subject.spec.work_dir,
        "stdout": subject.stdout(),
        "comment": subject.spec.comment,
    });
    if !subject.tally.is_empty()
        && let Some(all) = job.as_object_mut()
    {
        let ends = subject
            .tally
            .iter()
            .map(|(end, count)| (gq_model::JobState::Ended(*end).name().to_owned(), Value::from(*count)));
        all.insert("tally".to_owned(), Value::Object(ends.collect::<Map<String, Value>>()));
    }
    job
}

/// Seconds since 1970, as all JSON of gq has them.
fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1e6
}
