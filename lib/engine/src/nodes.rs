//! What operators and admins ask for nodes: drained, resumed, vouched to be dead, forgotten; and what their silence means for runs that end themselves.

use crate::{
    Actor, Answer, ClientId, Context, Decision, Effect, Failure, Order, Refusal, RefusalKind, bounds,
    charge::Charges, ending, schedule::Orders,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gq_cluster::{Cluster, Event, Job, Link, Node, Policy, Run};
use gq_model::{End, NodeName, Outcome, Reason, RunKey, Seconds};

/// What is to be done to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerb {
    /// Nothing new is started there, for this reason.
    Drain(String),
    /// They are used again.
    Resume,
    /// They are dead, an admin vouches: their runs are over.
    Fence,
    /// They are not listed until they come again.
    Forget,
}

/// What a request about nodes sees.
pub(crate) struct Asked<'a> {
    pub cluster: &'a Cluster,
    pub policy: &'a Policy,
    pub context: &'a Context,
    pub by: Actor,
}

impl Asked<'_> {
    /// Does what is wanted to each of the nodes; what cannot be done to one is said of that one alone.
    pub(crate) fn perform(&self, client: ClientId, verb: &NodeVerb, names: &[NodeName]) -> Decision {
        if let Err(refusal) = self.may(verb) {
            return Decision::reply(client, Answer::Refused(refusal));
        }
        if let NodeVerb::Drain(reason) = verb
            && let Err(refusal) = bounds::reason(reason)
        {
            return Decision::reply(client, Answer::Refused(refusal));
        }
        let mut decision = Decision::default();
        let mut orders = Orders::of(self.cluster);
        let (mut count, mut failures) = (0u64, Vec::new());
        for name in names {
            let done = match self.cluster.node(name).filter(|node| node.link != Link::Forgotten) {
                Some(node) => self.do_to(node, verb, &mut decision, &mut orders),
                None => Err(Refusal::new(RefusalKind::Policy, format!("there is no node {name}"))
                    .hint("gqstat --nodes lists them")),
            };
            match done {
                Ok(()) => count = count.saturating_add(1),
                Err(refusal) => failures.push(Failure { what: name.to_string(), refusal }),
            }
        }
        decision.effects.push(Effect::Reply(client, Answer::Done { count, failures }));
        decision
    }

    /// Whether who asks may do that: to vouch for what nobody can look at is for admins.
    fn may(&self, verb: &NodeVerb) -> Result<(), Refusal> {
        let (may, text, hint) = match verb {
            NodeVerb::Drain(_) | NodeVerb::Resume => (
                self.by.is_operator(),
                "only operators and admins drain and resume nodes",
                "they are named in the conf: [cluster] operators and admins",
            ),
            NodeVerb::Fence | NodeVerb::Forget => (
                self.by.is_admin(),
                "only admins fence and forget nodes",
                "admins are named in the conf: [cluster] admins",
            ),
        };
        if may { Ok(()) } else { Err(Refusal::new(RefusalKind::NotPermitted, text).hint(hint)) }
    }

    fn do_to<'c>(
        &'c self,
        node: &Node,
        verb: &NodeVerb,
        decision: &mut Decision,
        orders: &mut Orders<'c>,
    ) -> Result<(), Refusal> {
        let name = node.name.clone();
        match verb {
            NodeVerb::Drain(reason) => {
                decision.events.push(Event::NodeDrained { node: name, reason: reason.clone() });
            }
            NodeVerb::Resume => decision.events.push(Event::NodeResumed { node: name }),
            NodeVerb::Fence => {
                let detail = format!("an admin (uid {}) vouched that node {name} is dead", self.by.uid);
                let dead = self.dead_runs(node)?;
                give_up((self.cluster, self.policy, self.context), dead, &detail, decision, orders);
            }
            NodeVerb::Forget => {
                self.may_forget(node)?;
                decision.events.push(Event::NodeSeen { node: name, link: Link::Forgotten });
            }
        }
        Ok(())
    }

    /// The runs that are over when the node is dead. One that answers is not; but it may be another node by the name of one that is.
    fn dead_runs<'c>(&'c self, node: &Node) -> Result<Vec<(RunKey, &'c Job, &'c Run)>, Refusal> {
        let all = runs_of(self.cluster, node);
        let dead: Vec<_> = match node.link {
            Link::Up => all.into_iter().filter(|(_, _, run)| node.is_blind_to(run)).collect(),
            Link::Absent | Link::Suspect { .. } | Link::Lost { .. } | Link::Forgotten => return Ok(all),
        };
        if dead.is_empty() {
            let text = format!("node {} answers: it is not dead", node.name);
            return Err(Refusal::new(RefusalKind::Policy, text)
                .hint("gqcancel or gqctl requeue ends its jobs; a machine that is to be fenced is switched off first"));
        }
        Ok(dead)
    }

    fn may_forget(&self, node: &Node) -> Result<(), Refusal> {
        let refuse = |text: String, hint: String| Err(Refusal::new(RefusalKind::Policy, text).hint(hint));
        let name = &node.name;
        if node.runs().len() > 0 {
            let text = format!("{} runs hold something of node {name}", node.runs().len());
            return refuse(text, format!("gqctl node {name} fence ends them, when that node is dead"));
        }
        if self.policy.declared.contains_key(name) {
            let text = format!("the conf declares node {name}");
            return refuse(text, "take it out there, and gqctl reload".into());
        }
        if node.link == Link::Up {
            return refuse(format!("node {name} answers"), "stop its gqnode first".into());
        }
        Ok(())
    }
}

/// The runs that hold something of a node.
fn runs_of<'c>(cluster: &'c Cluster, node: &Node) -> Vec<(RunKey, &'c Job, &'c Run)> {
    let of = |(id, task)| {
        let job = cluster.job(id)?;
        let run = job.runs.get(&task)?;
        Some((RunKey { job: id, task, run: run.number }, &**job, run))
    };
    node.runs().filter_map(of).collect()
}

/// Runs of a node that is out of sight end themselves when their leases are over; then they are over here too. A node that is in sight
/// again tells of its runs itself.
pub(crate) fn lease_over(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    name: &NodeName,
    silence: Seconds,
) -> Decision {
    let mut decision = Decision::default();
    let Some(node) = cluster.node(name).filter(|node| node.link != Link::Up) else { return decision };
    let over = runs_of(cluster, node).into_iter().filter(|(_, _, run)| run.is_over_after(silence)).collect();
    let detail = format!("node {name} was out of sight for longer than the lease of this run");
    give_up((cluster, policy, context), over, &detail, &mut decision, &mut Orders::of(cluster));
    decision
}

/// Runs are over here of which their node has not said so. It is told to end them, if ever it comes back, and gets no others before it
/// has said that they are gone.
fn give_up<'c>(
    (cluster, policy, context): (&'c Cluster, &Policy, &Context),
    runs: Vec<(RunKey, &Job, &Run)>,
    why: &str,
    decision: &mut Decision,
    orders: &mut Orders<'c>,
) {
    let mut charges = Charges::default();
    for (key, job, run) in runs {
        let outcome = Outcome::without_exit(End::NodeFail, Reason::NodeFailure, why);
        let times = (run.started(), context.now);
        let mut events = ending::ended(policy, context, job, run, key, outcome, times);
        // What it cost is the very next thing that is known of it.
        let rest = events.split_off(1);
        events.extend(charges.charge(cluster, policy, context, &run.node, key));
        events.extend(rest);
        events.push(Event::Strayed { node: run.node.clone(), key });
        decision.events.append(&mut events);
        orders.write(decision, &run.node, Order::Stray(key));
    }
}
