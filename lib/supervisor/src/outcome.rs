//! How a run ended: from what was done to it and what its script did.

use gq_host::{StopKind, WaitedFor};
use gq_model::{End, EndReason, Outcome, Reason};

/// What the supervisor did to end a run. The first cause stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The time limit passed.
    TimeLimit,
    /// Somebody wanted it.
    Stop(StopKind),
}

impl Cause {
    /// What the site's epilog is told of it; none when there is nothing to tell. `until_deadline`: whether the time limit was what the
    /// job's deadline left of it.
    pub const fn reason(self, until_deadline: bool) -> Option<EndReason> {
        match self {
            Self::TimeLimit if until_deadline => Some(EndReason::Deadline),
            Self::TimeLimit => Some(EndReason::TimeLimit),
            Self::Stop(StopKind::Cancel) => Some(EndReason::Cancel),
            Self::Stop(StopKind::Requeue) => Some(EndReason::Requeue),
            Self::Stop(StopKind::Stray) => None,
        }
    }
}

/// The outcome of a run whose script ended like `how` (none when it was killed before it began).
pub fn outcome(cause: Option<Cause>, how: Option<WaitedFor>) -> Outcome {
    let (exit_code, signal, core) = match how {
        Some(WaitedFor::Code(code)) => (Some(code), None, false),
        Some(WaitedFor::Signal { number, core }) => (None, Some(number), core),
        None => (None, None, false),
    };
    let (end, reason, detail) = match (cause, exit_code) {
        (Some(Cause::TimeLimit), _) => (End::Timeout, Reason::TimeLimit, ""),
        (Some(Cause::Stop(StopKind::Cancel)), _) => (End::Cancelled, Reason::Cancelled, ""),
        (Some(Cause::Stop(StopKind::Requeue)), _) => (End::Cancelled, Reason::Requeued, ""),
        (Some(Cause::Stop(StopKind::Stray)), _) => {
            (End::Cancelled, Reason::Cancelled, "the controller did not know this run")
        }
        (None, Some(0)) => (End::Completed, Reason::None, ""),
        (None, Some(_)) => (End::Failed, Reason::NonZeroExitCode, ""),
        (None, None) => (End::Failed, Reason::RaisedSignal, if core { "core dumped" } else { "" }),
    };
    Outcome { end, reason, exit_code, signal, detail: detail.to_owned() }
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
            (Some(Cause::Stop(StopKind::Cancel)), code(0), End::Cancelled, 1),
            (Some(Cause::Stop(StopKind::Requeue)), None, End::Cancelled, 1),
        ];
        for (cause, how, end, client) in ends {
            let outcome = outcome(cause, how);
            assert_eq!((outcome.end, outcome.client_code()), (end, client), "{cause:?} {how:?}");
        }
    }
}
