//! Bookings: advance reservations and maintenance windows that admins make. Never decides who starts.

use crate::{Cluster, IllegalEvent, Policy};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use gq_model::{NodeName, Timestamp, Uid};
use serde::{Deserialize, Serialize};

/// What a booking takes of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked {
    /// The node.
    pub node: NodeName,
    /// Indices of cards; none means the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<u32>>,
}

/// An advance reservation. Jobs of others that could still run when it begins do not start on what it takes; jobs that name it
/// run nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// What it takes; no node twice.
    pub takes: Vec<Booked>,
    /// Who may use it, besides admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Uid>,
    /// Members of these accounts may use it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// A maintenance window: nobody runs in it.
    #[serde(default)]
    pub maintenance: bool,
}

impl Booking {
    /// Whether a job of this user and account may run in it.
    pub fn admits(&self, uid: Uid, account: Option<&str>) -> bool {
        !self.maintenance
            && (self.users.contains(&uid) || account.is_some_and(|a| self.accounts.iter().any(|b| b == a)))
    }
    /// Whether a job of this user and account may run in it, where what is for an account is for those below it too.
    pub fn admits_below(&self, policy: &Policy, uid: Uid, account: Option<&str>) -> bool {
        let mut above = account.into_iter().flat_map(|name| policy.accounts_above(name));
        self.admits(uid, account) || above.any(|account| self.admits(uid, Some(&account.name)))
    }
    /// What it takes of a node.
    pub fn of_node(&self, node: &NodeName) -> Option<&Booked> {
        self.takes.iter().find(|booked| booked.node == *node)
    }
}

impl Cluster {
    /// The booking of this name.
    pub fn booking(&self, name: &str) -> Option<&Arc<Booking>> {
        self.bookings.get(name)
    }
    /// All bookings, by name.
    pub fn bookings(&self) -> impl Iterator<Item = &Arc<Booking>> {
        self.bookings.values()
    }

    pub(crate) fn booked(&mut self, booking: &Booking) {
        self.bookings.insert(booking.name.clone(), Arc::new(booking.clone()));
        self.revision = self.revision.wrapping_add(1);
    }

    pub(crate) fn unbooked(&mut self, name: &str) -> Result<(), IllegalEvent> {
        self.revision = self.revision.wrapping_add(1);
        let gone = self.bookings.remove(name).map(drop);
        gone.ok_or_else(|| IllegalEvent(format!("there is no reservation {name}")))
    }
}
