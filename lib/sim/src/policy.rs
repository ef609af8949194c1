//! The policy of a conf for the users of a log: the conf may use their names; who is in a group is not known here.

use crate::trace::{Name, Names};
use gq_cluster::{Policy, Serves};
use gq_conf::Config;
use gq_model::Uid;
use gq_policy::People;
use std::collections::BTreeSet;

/// The uid of the first user of a log.
const FIRST_UID: u32 = 1000;

/// The uid of a user of a log.
pub(crate) fn uid_of(user: Name) -> Uid {
    Uid(FIRST_UID.saturating_add(user.0))
}

/// Makes the policy of a conf. Says in `taken_as` what of it cannot be had here.
pub(crate) fn policy_of(config: &Config, names: &mut Names, taken_as: &mut Vec<String>) -> Policy {
    gq_policy::policy_of(config, Serves::Everyone, &mut Logged { names, taken_as })
}

/// The users of a log.
struct Logged<'a> {
    names: &'a mut Names,
    taken_as: &'a mut Vec<String>,
}

impl People for Logged<'_> {
    fn users(&mut self, _place: &str, names: &[String]) -> BTreeSet<Uid> {
        names.iter().map(|user| uid_of(self.names.of(user))).collect()
    }

    fn members(&mut self, place: &str, _groups: &[String]) -> Option<BTreeSet<Uid>> {
        self.taken_as.push(format!("{place}: who is in a group is not known: groups let everybody through"));
        None
    }
}
