//! What an input means: [`decide`] turns it into events and effects and changes nothing; [`Turn`] makes inputs that arrived together
//! durable and only then lets their effects go out.
//!
//! No clock, no file, no thread: the household hands in the time and everything that a decision needs from outside. Rooms:
//! `admit` (is a request taken, and as what), `command` (cancel, hold, release, requeue, signal, drain, resume), `report` (what nodes say), `schedule` (the planning pass),
//! `turn` (batching, commit, roll-back).
#![no_std]
extern crate alloc;

mod admit;
mod command;
mod input;
mod report;
mod schedule;
mod turn;

pub use command::{Selection, Verb};
pub use input::{
    Actor, Answer, ClientId, Context, Decision, Effect, Failure, Input, NodeReport, Order, Refusal,
    RefusalKind, Submission,
};
pub use turn::{Courier, Filing, Keeper, Over, Record, Step, Turn, TurnError};

use gq_cluster::{Cluster, Policy};

/// Decides what `input` means for the cluster as it stands. Changes nothing.
pub fn decide(cluster: &Cluster, policy: &Policy, context: &Context, input: &Input) -> Decision {
    match input {
        Input::Submit { client, submission, known } => {
            admit::submit(cluster, policy, context, *client, submission, *known)
        }
        Input::TestOnly { client, by, spec } => {
            admit::test_only(cluster, policy, context, *client, *by, spec)
        }
        Input::Command { client, by, verb, select, ended } => {
            command::command(cluster, context, *client, *by, verb, select, ended)
        }
        Input::Nodes { client, by, nodes, drain } => {
            command::nodes(cluster, *client, *by, nodes, drain.as_deref())
        }
        Input::Report { node, epoch, seq, body } => {
            report::report(cluster, policy, context, node, *epoch, *seq, body)
        }
        Input::NodeHeard { node, epoch } => report::heard(cluster, node, *epoch),
        Input::NodeSilent { node } => report::silent(cluster, context, node),
        Input::NodeLost { node } => report::lost(cluster, context, node),
        Input::Declared => report::declared(cluster, policy),
        Input::Restarted => report::restarted(cluster, context),
        Input::Schedule => schedule::schedule(cluster, policy, context),
    }
}
