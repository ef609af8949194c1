//! The border between letters and the engine's own words.

use gq_cluster::{Booked, Booking};
use gq_engine::{Answer, Effect, NodeReport, Order, Refusal, RefusalKind, Selection};
use gq_model::{Epoch, MAX_CARDS_USED, Seq};
use gq_proto::{Failure, Head, OrderBody, Reply, Report, ReportBody, StopWhy, unseal};

pub(crate) fn refusal(refusal: Refusal) -> gq_proto::Refusal {
    gq_proto::Refusal {
        kind: match refusal.kind {
            RefusalKind::Policy => gq_proto::RefusalKind::Policy,
            RefusalKind::Usage => gq_proto::RefusalKind::Usage,
            RefusalKind::NoSuchJob => gq_proto::RefusalKind::NoSuchJob,
            RefusalKind::NotPermitted => gq_proto::RefusalKind::NotPermitted,
        },
        text: refusal.text,
        hint: refusal.hint,
    }
}

pub(crate) fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Submitted(job) => Reply::Submitted { job },
        Answer::Tested { start, partition, cpus } => {
            let (node, start) = start.map_or((None, None), |(node, at)| (Some(node), Some(at)));
            Reply::Tested { node, partition, start, cpus }
        }
        Answer::Done { count, failures } => {
            let failures =
                failures.into_iter().map(|f| Failure { what: f.what, refusal: refusal(f.refusal) });
            Reply::Done { count, failures: failures.collect() }
        }
        Answer::Refused(why) => Reply::Refused(refusal(why)),
    }
}

pub(crate) fn selection(select: gq_proto::Selection) -> Selection {
    let gq_proto::Selection { jobs, users, names, partitions, states } = select;
    Selection { jobs, users, names, partitions, states }
}

/// An advance reservation as it is asked for; whether it can be made is the engine's to say.
pub(crate) fn booking(ask: gq_proto::ReserveAsk) -> Booking {
    let cards = Some(ask.cards).filter(|cards| !cards.is_empty());
    Booking {
        name: ask.name,
        start: ask.start,
        end: ask.end,
        takes: ask.nodes.into_iter().map(|node| Booked { node, cards: cards.clone() }).collect(),
        users: ask.users,
        accounts: ask.accounts,
        maintenance: ask.maintenance,
    }
}

pub(crate) fn order(order: &Order) -> OrderBody {
    match order {
        Order::Start(assignment) => OrderBody::Start(assignment.clone()),
        Order::Cancel(key, reason) => {
            OrderBody::Stop { key: *key, why: StopWhy::Cancel, reason: Some(*reason) }
        }
        Order::Requeue(key, reason) => {
            OrderBody::Stop { key: *key, why: StopWhy::Requeue, reason: Some(*reason) }
        }
        Order::Stray(key) => OrderBody::Stop { key: *key, why: StopWhy::Stray, reason: None },
        Order::Signal(key, signal, to) => OrderBody::Signal { key: *key, signal: *signal, to: *to },
        Order::Warn(key, reason) => OrderBody::Warn { key: *key, reason: *reason },
        Order::Limit(key, limit) => OrderBody::Limit { key: *key, limit: *limit },
        Order::Suspend(key) => OrderBody::Suspend { key: *key },
        Order::Resume(key) => OrderBody::Resume { key: *key },
    }
}

/// The bytes of an order's letter: written once, kept, and sent the same for ever.
pub(crate) fn order_bytes(seq: Seq, epoch: Epoch, order: &Order) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&gq_proto::Order { seq, epoch, body: self::order(order) })
}

/// The orders among effects, with their bytes.
pub(crate) fn letters(
    effects: &[Effect],
    epoch: Epoch,
) -> impl Iterator<Item = Result<(&gq_model::NodeName, Seq, Vec<u8>), serde_json::Error>> {
    effects.iter().filter_map(move |effect| match effect {
        Effect::Order { node, seq, order } => {
            Some(order_bytes(*seq, epoch, order).map(|bytes| (node, *seq, bytes)))
        }
        _ => None,
    })
}

/// The report in a file of a node that says `head` of itself; none when it is not whole yet, or is what an earlier life wrote under the
/// same number: a file server's client may show that for a while.
pub fn report_in(bytes: &[u8], head: &Head) -> Option<Report> {
    unseal::<Report>(bytes).ok().filter(|letter| letter.epoch == head.epoch)
}

/// A report as the engine takes it.
pub fn report(body: ReportBody) -> NodeReport {
    match body {
        ReportBody::Joined { boot, node_id, cpus, memory, cards, unbound, runs, orders_taken: _ } => {
            NodeReport::Joined {
                boot,
                id: node_id,
                cpus,
                memory,
                cards,
                unbound,
                runs: runs.into_iter().map(|run| (run.key, run.started)).collect(),
            }
        }
        ReportBody::Started { key, at } => NodeReport::Started(key, at),
        ReportBody::Suspended { key, at } => NodeReport::Suspended(key, at),
        ReportBody::Resumed { key, at } => NodeReport::Resumed(key, at),
        ReportBody::Idle { key, since } => NodeReport::Idle(key, since),
        ReportBody::Exited { key, at } => NodeReport::Exited(key, at),
        ReportBody::Ended { key, mut outcome, started, ended, epilog } => {
            // Kept with the job for ever: no more of it than a node of ours would say.
            outcome.measured(|used| used.cards.truncate(MAX_CARDS_USED));
            NodeReport::Ended { key, outcome, started, ended, epilog }
        }
        ReportBody::Refused { key, fault, reason, detail } => {
            NodeReport::Refused { key, fault, reason, detail }
        }
        ReportBody::Cards { cards } => NodeReport::Cards(cards),
        ReportBody::Trouble { why } => NodeReport::Trouble(why),
    }
}
