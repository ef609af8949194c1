//! Fair share: who has used less than his share goes first. The accounts are a tree; among siblings the one whose use is smallest for
//! its share ranks first, and its members with it.
//!
//! Source: the idea of Slurm's Fair Tree (level fairness = share ÷ use among siblings, depth first), in whole numbers.

use crate::decay::decay;
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::cmp::Ordering;
use gq_cluster::{Cluster, Payer, Policy};
use gq_model::{Timestamp, Uid};

/// A line of the tree: an account, or a user of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The account; none for users without one.
    pub account: Option<String>,
    /// The user; none for the account itself.
    pub uid: Option<Uid>,
    /// How deep in the tree; 0 at the top.
    pub depth: u32,
    /// Its share among its siblings.
    pub shares: u64,
    /// Use as of now, in thousandths of a card times seconds.
    pub usage: u64,
    /// Its rank among users, in thousandths: 1000 goes first. For an account that of its best user.
    pub factor: u32,
}

/// A user on an account.
type Member = (Option<String>, Uid);

/// What everybody has used as of `now`, runs that live included.
fn used(cluster: &Cluster, policy: &Policy, now: Timestamp) -> BTreeMap<Member, u64> {
    let mut used: BTreeMap<Member, u64> = BTreeMap::new();
    for ((account, uid), usage) in cluster.ledger().usage() {
        used.insert((account.clone(), *uid), decay(*usage, now, policy.half_life).charge);
    }
    for (payer, holdings) in cluster.ledger().payers() {
        let sum = used.entry((payer.account.clone(), payer.uid)).or_default();
        *sum = sum.saturating_add(holdings.accrued(now));
    }
    for account in &policy.accounts {
        for uid in &account.users {
            used.entry((Some(account.name.clone()), *uid)).or_default();
        }
    }
    used
}

/// One child of a level: an account with what is below it, or a user.
struct Child {
    account: Option<String>,
    uid: Option<Uid>,
    shares: u64,
    usage: u64,
}

impl Child {
    /// Who has less use for his share goes first; nobody's use is less than none.
    fn compare(&self, other: &Self) -> Ordering {
        let mine = u128::from(self.usage).saturating_mul(u128::from(other.shares.max(1)));
        let other_s = u128::from(other.usage).saturating_mul(u128::from(self.shares.max(1)));
        mine.cmp(&other_s)
    }
}

/// Puts siblings in order of rank, equal ones by name.
fn sort(children: &mut [Child]) {
    children.sort_by(|a, b| a.compare(b).then_with(|| (&a.account, a.uid).cmp(&(&b.account, b.uid))));
}

/// The fair-share tree as of `now`, from the top down, siblings in order of rank.
pub fn shares(cluster: &Cluster, policy: &Policy, now: Timestamp) -> Vec<Share> {
    let used = used(cluster, policy, now);
    let tree = Tree { policy, used: &used };
    let mut lines = Vec::new();
    tree.walk(None, 0, &mut lines);
    let mut places = BTreeMap::new();
    tree.rank(tree.children(None, 0), 0, &mut places);
    let users = places.len().max(1) as u64;
    let factor =
        |place: u64| u32::try_from(users.saturating_sub(place).saturating_mul(1000) / users).unwrap_or(0);
    for line in &mut lines {
        let member = line.uid.map(|uid| (line.account.clone(), uid));
        line.factor = member.and_then(|member| places.get(&member)).map_or(0, |place| factor(*place));
    }
    // An account has the rank of its best user.
    for at in (0..lines.len()).rev() {
        let Some(line) = lines.get(at).filter(|line| line.uid.is_none()) else { continue };
        let depth = line.depth;
        let below = lines.iter().skip(at + 1).take_while(|line| line.depth > depth);
        let best = below.map(|line| line.factor).max().unwrap_or(1000);
        if let Some(line) = lines.get_mut(at) {
            line.factor = best;
        }
    }
    lines
}

struct Tree<'a> {
    policy: &'a Policy,
    used: &'a BTreeMap<Member, u64>,
}

impl Tree<'_> {
    /// Use of an account with all accounts below it.
    fn usage_below(&self, account: &str, depth: u32) -> u64 {
        if depth > 32 {
            return 0;
        }
        let own = self.used.iter().filter(|((a, _), _)| a.as_deref() == Some(account)).map(|(_, used)| *used);
        let below = self.policy.accounts.iter().filter(|a| a.parent.as_deref() == Some(account));
        own.chain(below.map(|a| self.usage_below(&a.name, depth + 1))).fold(0, u64::saturating_add)
    }

    fn children(&self, of: Option<&str>, depth: u32) -> Vec<Child> {
        let known = |name: &str| self.policy.account(name).is_some();
        let accounts = self.policy.accounts.iter().filter(|a| a.parent.as_deref() == of).map(|a| Child {
            account: Some(a.name.clone()),
            uid: None,
            shares: a.shares,
            usage: self.usage_below(&a.name, depth),
        });
        // Users whose account is not in the tree stand at the top.
        let users = self.used.iter().filter(|((account, _), _)| match of {
            Some(name) => account.as_deref() == Some(name),
            None => account.as_deref().is_none_or(|name| !known(name)),
        });
        let users = users.map(|((account, uid), usage)| Child {
            account: account.clone(),
            uid: Some(*uid),
            shares: 1,
            usage: *usage,
        });
        let mut children: Vec<Child> = accounts.chain(users).collect();
        sort(&mut children);
        children
    }

    /// Ranks the users below these children: who has used less for his share first. Whoever is equal to his siblings shares a rank with them,
    /// and the members of equal accounts are ranked as siblings.
    fn rank(&self, mut children: Vec<Child>, depth: u32, places: &mut BTreeMap<Member, u64>) {
        if depth > 32 {
            return;
        }
        sort(&mut children);
        for equal in children.chunk_by(|a, b| a.compare(b) == Ordering::Equal) {
            let place = places.len() as u64;
            let mut below = Vec::new();
            for child in equal {
                match (child.uid, &child.account) {
                    (Some(uid), account) => drop(places.insert((account.clone(), uid), place)),
                    (None, Some(account)) => below.extend(self.children(Some(account), depth + 1)),
                    (None, None) => {}
                }
            }
            self.rank(below, depth + 1, places);
        }
    }

    fn walk(&self, of: Option<&str>, depth: u32, lines: &mut Vec<Share>) {
        if depth > 32 {
            return;
        }
        for child in self.children(of, depth) {
            let is_account = child.uid.is_none();
            let name = child.account.clone();
            lines.push(Share {
                account: child.account,
                uid: child.uid,
                depth,
                shares: child.shares,
                usage: child.usage,
                factor: 0,
            });
            if is_account {
                self.walk(name.as_deref(), depth + 1, lines);
            }
        }
    }
}

/// Ranks of users, looked up again at most once a minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    minute: Option<i64>,
    ranks: BTreeMap<Member, u32>,
}

impl Ranks {
    pub(crate) fn refresh(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) {
        let minute = now.0.div_euclid(60_000_000);
        if policy.weights.fair_share == 0 || self.minute == Some(minute) {
            return;
        }
        self.minute = Some(minute);
        let lines = shares(cluster, policy, now).into_iter();
        self.ranks = lines.filter_map(|line| Some(((line.account, line.uid?), line.factor))).collect();
    }

    /// Which ranking it is: another one whenever ranks are looked up again.
    pub(crate) fn number(&self) -> i64 {
        self.minute.unwrap_or(i64::MIN)
    }

    /// The rank of a payer in thousandths; who has used nothing goes first.
    pub(crate) fn of(&self, payer: &Payer) -> i64 {
        let found =
            if self.ranks.is_empty() { None } else { self.ranks.get(&(payer.account.clone(), payer.uid)) };
        found.copied().map_or(1000, i64::from)
    }
}
