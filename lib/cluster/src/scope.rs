//! Scopes: what limits are of, and whose jobs count there. Never decides whether one is reached.

use crate::{Account, Limits, Partition, Payer, Policy, Qos};

/// Whose limits they are.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// A partition's.
    Partition(&'a Partition),
    /// A QOS's.
    Qos(&'a Qos),
    /// An account's; those below it count there too.
    Account(&'a Account),
}

impl Scope<'_> {
    /// The limits.
    pub fn limits(&self) -> &Limits {
        match self {
            Self::Partition(partition) => &partition.limits,
            Self::Qos(qos) => &qos.limits,
            Self::Account(account) => &account.limits,
        }
    }

    /// Whether the jobs of a payer count here.
    pub fn has(&self, policy: &Policy, payer: &Payer) -> bool {
        match self {
            Self::Partition(partition) => payer.partition == partition.name,
            Self::Qos(qos) => payer.qos.as_ref() == Some(&qos.name),
            Self::Account(account) => {
                payer.account.as_deref().is_some_and(|name| policy.is_within(name, &account.name))
            }
        }
    }
}

impl Policy {
    /// The scopes in which the jobs of a payer count: his partition, his QOS, his account and those above it, nearest first.
    pub fn scopes<'a>(&'a self, payer: &'a Payer) -> impl Iterator<Item = Scope<'a>> {
        let partition = self.partition(&payer.partition).map(Scope::Partition);
        let qos = payer.qos.as_deref().and_then(|name| self.qos(name)).map(Scope::Qos);
        let accounts = payer.account.as_deref().into_iter().flat_map(|name| self.accounts_above(name));
        partition.into_iter().chain(qos).chain(accounts.map(Scope::Account))
    }
}
