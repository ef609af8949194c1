//! What an input means: [`decide`] turns it into events and effects and changes nothing; [`Turn`] makes inputs that arrived together
//! durable and only then lets their effects go out.
//!
//! No clock, no file, no thread: the household hands in the time and everything that a decision needs from outside. Rooms:
//! `admit` (is a request taken, and as what), `access` (who may use what, on whose account), `limits` (bounds of what may be submitted), `bounds` (counts and lengths, whoever wrote them),
//! `possible` (could it ever run here), `command` (which jobs a request means), `nodes` (drain, resume, fence, forget; leases), `acts` (cancel, requeue, suspend, signal, hold, release), `update` (what is
//! said anew of a job), `dependency` (what jobs wait for of others), `book` (advance
//! reservations), `report` (what nodes say), `found` (what they have), `ending` (what comes after a run), `charge` (what ended runs cost), `preempt` (runs that make room), `idle` (runs whose cards are idle), `promise` (first
//! promises), `schedule` (the planning pass), `turn` (batching, commit, roll-back).
#![no_std]
extern crate alloc;

mod access;
mod acts;
mod admit;
mod book;
mod bounds;
mod charge;
mod command;
mod dependency;
mod ending;
mod found;
mod idle;
mod input;
mod limits;
mod nodes;
mod possible;
mod preempt;
mod promise;
mod report;
mod schedule;
mod turn;
mod update;

pub use command::{Selection, Verb};
pub use dependency::Past;
pub use input::{
    Actor, Answer, ClientId, Context, Decision, Effect, Failure, Gone, Input, NodeReport, Order, Refusal,
    RefusalKind, Submission,
};
pub use nodes::NodeVerb;
pub use turn::{Courier, Filing, Keeper, Over, Record, Step, Turn, TurnError};

use gq_cluster::{Cluster, Policy};
use gq_sched::Planner;

/// Decides what `input` means for the cluster as it stands. Changes nothing. The planning pass is the turn's own last step.
pub fn decide(cluster: &Cluster, policy: &Policy, context: &Context, input: &Input) -> Decision {
    match input {
        Input::Submit { client, submission, known, past } => {
            admit::submit(cluster, policy, context, *client, submission, *known, past)
        }
        Input::TestOnly { client, by, spec } => {
            admit::test_only(cluster, policy, context, *client, *by, spec, &Planner::default())
        }
        Input::Command { client, by, verb, select, ended, past } => {
            let asked = command::Asked { by: *by, verb, select, ended, past };
            command::command(cluster, policy, context, *client, &asked)
        }
        Input::Nodes { client, by, verb, nodes } => {
            nodes::Asked { cluster, policy, context, by: *by }.perform(*client, verb, nodes)
        }
        Input::Book { client, by, booking, replace, ignore_jobs } => {
            book::book(cluster, policy, context, *client, *by, booking, (*replace, *ignore_jobs))
        }
        Input::Unbook { client, by, name } => book::unbook(cluster, *client, *by, name),
        Input::Promise { starts } => promise::forecast(cluster, starts),
        Input::Report { node, epoch, seq, body } => {
            report::report(cluster, policy, context, node, *epoch, *seq, body)
        }
        Input::NodeHeard { node, epoch } => report::heard(cluster, node, *epoch),
        Input::NodeSilent { node } => report::silent(cluster, context, node),
        Input::NodeLost { node } => report::lost(cluster, context, node),
        Input::LeaseOver { node, silence } => nodes::lease_over(cluster, policy, context, node, *silence),
        Input::Declared => found::declared(cluster, policy),
        Input::Restarted => report::restarted(cluster, context),
        Input::Schedule => Decision::default(),
    }
}
