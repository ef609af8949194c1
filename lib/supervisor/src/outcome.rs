//! How a run ended: from what was done to it and what its script did.

use gq_host::{StopKind, WaitedFor};
use gq_model::{End, MiB, Outcome, Reason};

/// What the supervisor did to end a run. The first cause stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The time limit passed.
    TimeLimit,
    /// Its deadline came.
    Deadline,
    /// Its lease was over: its node is cut off from the controller.
    Lease,
    /// It used so much of the memory of a card that it shares, and had declared less.
    GpuMemory {
        /// What it used.
        used: MiB,
        /// What it had declared.
        declared: MiB,
    },
    /// Somebody wanted it.
    Stop(StopKind),
}

/// The outcome of a run whose script ended like `how` (none when it was killed before it began); `lack`: a process of it was killed because this
/// memory was not enough, whatever the script made of it.
pub fn outcome(cause: Option<Cause>, how: Option<WaitedFor>, lack: Option<MiB>) -> Outcome {
    let (exit_code, signal, core) = match how {
        Some(WaitedFor::Code(code)) => (Some(code), None, false),
        Some(WaitedFor::Signal { number, core }) => (None, Some(number), core),
        None => (None, None, false),
    };
    let (end, reason, detail) = match (cause, exit_code) {
        (Some(Cause::TimeLimit), _) => (End::Timeout, Reason::TimeLimit, ""),
        (Some(Cause::Deadline), _) => (End::Deadline, Reason::Deadline, ""),
        (Some(Cause::Lease), _) => {
            (End::NodeFail, Reason::NodeFailure, "its node was cut off from gqd for as long as its lease")
        }
        (Some(Cause::GpuMemory { used, declared }), _) => {
            let detail = format!("used {} MiB of the card, {} MiB declared", used.0, declared.0);
            let end = Outcome::without_exit(End::OutOfMemory, Reason::GpuMemory, detail);
            return Outcome { exit_code, signal, ..end };
        }
        (Some(Cause::Stop(StopKind::Cancel)), _) => (End::Cancelled, Reason::Cancelled, ""),
        (Some(Cause::Stop(StopKind::Requeue)), _) => (End::Cancelled, Reason::Requeued, ""),
        (Some(Cause::Stop(StopKind::Stray)), _) => {
            (End::Cancelled, Reason::Cancelled, "the controller did not know this run")
        }
        (None, _) if let Some(MiB(lack)) = lack => {
            let detail = format!("a process was killed: it may use {lack} MiB");
            let end = Outcome::without_exit(End::OutOfMemory, Reason::OutOfMemory, detail);
            return Outcome { exit_code, signal, ..end };
        }
        (None, Some(0)) => (End::Completed, Reason::None, ""),
        (None, Some(_)) => (End::Failed, Reason::NonZeroExitCode, ""),
        (None, None) => (End::Failed, Reason::RaisedSignal, if core { "core dumped" } else { "" }),
    };
    Outcome { exit_code, signal, ..Outcome::without_exit(end, reason, detail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_to_a_run_weighs_more_than_what_its_script_says() {
        let code = |n| Some(WaitedFor::Code(n));
        let ends = [
            (None, code(0), End::Completed, 0),
            (None, code(3), End::Failed, 3),
            (None, Some(WaitedFor::Signal { number: 11, core: true }), End::Failed, 139),
            (Some(Cause::TimeLimit), code(0), End::Timeout, 1),
            (Some(Cause::Deadline), code(0), End::Deadline, 1),
            (Some(Cause::Lease), code(0), End::NodeFail, 1),
            (Some(Cause::Stop(StopKind::Cancel)), code(0), End::Cancelled, 1),
            (Some(Cause::GpuMemory { used: MiB(9), declared: MiB(4) }), code(0), End::OutOfMemory, 1),
            (Some(Cause::Stop(StopKind::Requeue)), None, End::Cancelled, 1),
        ];
        for (cause, how, end, client) in ends {
            let outcome = outcome(cause, how, None);
            assert_eq!((outcome.end, outcome.client_code()), (end, client), "{cause:?} {how:?}");
        }
        for (how, client) in
            [(code(0), 1), (code(3), 3), (Some(WaitedFor::Signal { number: 9, core: false }), 137)]
        {
            let killed = outcome(None, how, Some(MiB(64)));
            assert_eq!((killed.end, killed.client_code()), (End::OutOfMemory, client), "{how:?}");
            assert_eq!(outcome(Some(Cause::TimeLimit), how, Some(MiB(64))).end, End::Timeout);
        }
    }
}
