//! The border between the node's mind and the others: words of `gq-nodecore` to letters, records and controls, and
//! back. Decides nothing.

use gq_host::StopKind;
use gq_model::{Seconds, Seq};
use gq_nodecore as core;
use gq_nodelog as disk;
use gq_proto::{Head, OrderBody, Report, ReportBody};

/// A record of the log as the mind reads it.
pub fn from_disk(record: disk::Record) -> core::Record {
    match record {
        disk::Record::Life { controller, taken, epoch: _, boot: _, node_id: _ } => {
            core::Record::Life { controller, taken }
        }
        disk::Record::Taken { seq, controller, what } => {
            core::Record::Taken { seq, controller, order: from_taken(what) }
        }
        disk::Record::Up { key, pid: _, pid_start: _ } => core::Record::Up { key },
        disk::Record::Started { key, at, session: _ } => core::Record::Started { key, at },
        disk::Record::Suspended { key, at } => core::Record::Suspended { key, at },
        disk::Record::Resumed { key, at } => core::Record::Resumed { key, at },
        disk::Record::Exited { key, at } => core::Record::Exited { key, at },
        disk::Record::Ended { key, outcome, started, ended, epilog } => {
            core::Record::Ended { key, outcome, started, ended, epilog }
        }
        disk::Record::Refused { key, fault, reason, detail } => {
            core::Record::Refused { key, fault, reason, detail }
        }
        disk::Record::Vacated { key, used, at } => core::Record::Vacated { key, used, at },
        disk::Record::Acked { key } => core::Record::Acked { key },
    }
}

fn from_taken(what: disk::Taken) -> core::Order {
    match what {
        disk::Taken::Start(assignment) => core::Order::Start(assignment),
        disk::Taken::Stop { key, why, reason } => {
            let why = match why {
                disk::Why::Cancel => core::StopWhy::Cancel,
                disk::Why::Requeue => core::StopWhy::Requeue,
                disk::Why::Stray => core::StopWhy::Stray,
            };
            core::Order::Stop(key, core::Stop { why, reason })
        }
        disk::Taken::Signal { key, signal, to } => core::Order::Signal(key, signal, to),
        disk::Taken::Warn { key, reason } => core::Order::Warn(key, reason),
        disk::Taken::Limit { key, limit } => core::Order::Limit(key, limit),
        disk::Taken::Suspend { key } => core::Order::Suspend(key),
        disk::Taken::Resume { key } => core::Order::Resume(key),
    }
}

fn to_taken(order: core::Order) -> disk::Taken {
    match order {
        core::Order::Start(assignment) => disk::Taken::Start(assignment),
        core::Order::Stop(key, core::Stop { why, reason }) => {
            let why = match why {
                core::StopWhy::Cancel => disk::Why::Cancel,
                core::StopWhy::Requeue => disk::Why::Requeue,
                core::StopWhy::Stray => disk::Why::Stray,
            };
            disk::Taken::Stop { key, why, reason }
        }
        core::Order::Signal(key, signal, to) => disk::Taken::Signal { key, signal, to },
        core::Order::Warn(key, reason) => disk::Taken::Warn { key, reason },
        core::Order::Limit(key, limit) => disk::Taken::Limit { key, limit },
        core::Order::Suspend(key) => disk::Taken::Suspend { key },
        core::Order::Resume(key) => disk::Taken::Resume { key },
    }
}

/// A record that the mind wants appended; none for those that only supervisors (or a new life) write.
pub fn to_disk(record: core::Record) -> Option<disk::Record> {
    Some(match record {
        core::Record::Taken { seq, controller, order } => {
            disk::Record::Taken { seq, controller, what: to_taken(order) }
        }
        core::Record::Ended { key, outcome, started, ended, epilog } => {
            disk::Record::Ended { key, outcome, started, ended, epilog }
        }
        core::Record::Refused { key, fault, reason, detail } => {
            disk::Record::Refused { key, fault, reason, detail }
        }
        core::Record::Vacated { key, used, at } => disk::Record::Vacated { key, used, at },
        core::Record::Acked { key } => disk::Record::Acked { key },
        core::Record::Life { .. }
        | core::Record::Up { .. }
        | core::Record::Started { .. }
        | core::Record::Suspended { .. }
        | core::Record::Resumed { .. }
        | core::Record::Exited { .. } => return None,
    })
}

/// An order as the mind takes it.
pub fn from_order(body: OrderBody) -> core::Order {
    match body {
        OrderBody::Start(assignment) => core::Order::Start(assignment),
        OrderBody::Stop { key, why, reason } => {
            let why = match why {
                gq_proto::StopWhy::Cancel => core::StopWhy::Cancel,
                gq_proto::StopWhy::Requeue => core::StopWhy::Requeue,
                gq_proto::StopWhy::Stray => core::StopWhy::Stray,
            };
            core::Order::Stop(key, core::Stop { why, reason })
        }
        OrderBody::Signal { key, signal, to } => core::Order::Signal(key, signal, to),
        OrderBody::Warn { key, reason } => core::Order::Warn(key, reason),
        OrderBody::Limit { key, limit } => core::Order::Limit(key, limit),
        OrderBody::Suspend { key } => core::Order::Suspend(key),
        OrderBody::Resume { key } => core::Order::Resume(key),
    }
}

/// What the mind wants to know of a controller's head.
pub const fn from_head(head: &Head) -> core::HeadSeen {
    core::HeadSeen {
        epoch: head.epoch,
        lowest: head.lowest,
        highest: head.highest,
        ack_epoch: head.ack_epoch,
        ack: head.ack,
    }
}

/// A numbered report as a letter of the life `epoch`.
pub fn to_letter(seq: Seq, epoch: gq_model::Epoch, report: core::Report) -> Report {
    let body = match report {
        core::Report::Joined { boot, id, machine, runs, taken } => ReportBody::Joined {
            boot,
            node_id: Some(id),
            cpus: machine.cpus,
            memory: machine.memory,
            cards: machine.cards,
            unbound: machine.unbound,
            runs: runs
                .into_iter()
                .map(|run| gq_proto::LiveRun { key: run.key, started: run.started })
                .collect(),
            orders_taken: taken,
        },
        core::Report::Started { key, at } => ReportBody::Started { key, at },
        core::Report::Suspended { key, at } => ReportBody::Suspended { key, at },
        core::Report::Resumed { key, at } => ReportBody::Resumed { key, at },
        core::Report::Idle { key, since } => ReportBody::Idle { key, since },
        core::Report::Exited { key, at } => ReportBody::Exited { key, at },
        core::Report::Ended { key, outcome, started, ended, epilog } => {
            ReportBody::Ended { key, outcome, started, ended, epilog }
        }
        core::Report::Refused { key, fault, reason, detail } => {
            ReportBody::Refused { key, fault, reason, detail }
        }
        core::Report::Cards(cards) => ReportBody::Cards { cards },
        core::Report::Trouble(why) => ReportBody::Trouble { why },
    };
    Report { seq, epoch, body }
}

/// What a supervisor is told, as the host sends it.
pub fn to_host(control: core::Control) -> gq_host::Control {
    use gq_host::Control;
    match control {
        core::Control::Stop(core::Stop { why, reason }) => {
            let kind = match why {
                core::StopWhy::Cancel => StopKind::Cancel,
                core::StopWhy::Requeue => StopKind::Requeue,
                core::StopWhy::Stray => StopKind::Stray,
            };
            Control::Stop(kind, reason)
        }
        core::Control::Signal(n, to) => Control::Signal(n, to),
        core::Control::Warn(reason) => Control::Warn(reason),
        // A limit that no word can say is none for any machine.
        core::Control::Limit(limit) => {
            Control::Limit(limit.and_then(|Seconds(s)| u32::try_from(s).ok().filter(|s| *s < u32::MAX)))
        }
        core::Control::Suspend => Control::Suspend,
        core::Control::Resume => Control::Resume,
        core::Control::Overused(used) => Control::Overused(used),
        core::Control::Lease(Seconds(until)) => Control::Lease(u32::try_from(until).unwrap_or(u32::MAX)),
    }
}
