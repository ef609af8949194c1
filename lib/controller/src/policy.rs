//! The policy as the daemon has it: names of the conf are accounts of this system and of its groups; what has none is logged and passed
//! over. What a conf means else is `gq-policy`'s.

use gq_cluster::{Policy, Serves};
use gq_conf::Config;
use gq_model::{Calendar, Timestamp, Uid};
use gq_policy::People;
use jiff::tz::TimeZone;
use nix::unistd::{Group, User, geteuid};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Where primary groups are looked up: no library lists the members of a group that is theirs by their account alone.
const PASSWD: &str = "/etc/passwd";

/// Makes the policy of a conf, for the user that this process is.
pub(crate) fn policy_of(config: &Config, serves: Serves) -> Policy {
    let mut policy = gq_policy::policy_of(config, serves, &mut Names::default());
    policy.admins.insert(Uid(geteuid().as_raw()));
    policy.calendar = calendar();
    policy
}

/// Most shifts of clocks that are looked up: two a year for all that is foreseen.
const MOST_SHIFTS: usize = 256;

/// The calendar of this host, from last year on.
fn calendar() -> Calendar {
    let zone = TimeZone::system();
    let begin =
        jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(366 * 24)).unwrap_or_default();
    let before = |at| i64::from(zone.to_offset(at).seconds());
    let shifts = zone.following(begin).take(MOST_SHIFTS);
    let shifts = shifts
        .map(|shift| (Timestamp(shift.timestamp().as_microsecond()), i64::from(shift.offset().seconds())));
    Calendar::new(before(begin), shifts.collect())
}

/// Names of the system, each asked for once.
#[derive(Default)]
struct Names {
    users: BTreeMap<String, Option<Uid>>,
    /// Users by their primary group.
    by_group: Option<BTreeMap<u32, Vec<Uid>>>,
}

impl Names {
    fn user(&mut self, place: &str, name: &str) -> Option<Uid> {
        if let Some(known) = self.users.get(name) {
            return *known;
        }
        let found = match User::from_name(name) {
            Ok(Some(user)) => Some(Uid(user.uid.as_raw())),
            // A number is a uid, as it is for every program of the system.
            Ok(None) => uid_in(name),
            Err(error) => {
                log::warn!("{place}: {name:?}: {error}");
                None
            }
        };
        if found.is_none() {
            log::warn!("{place}: there is no account {name:?} on this host");
        }
        self.users.insert(name.to_owned(), found);
        found
    }
}

impl People for Names {
    fn users(&mut self, place: &str, names: &[String]) -> BTreeSet<Uid> {
        names.iter().filter_map(|name| self.user(place, name)).collect()
    }

    /// Those whose primary group it is are among them.
    fn members(&mut self, place: &str, groups: &[String]) -> Option<BTreeSet<Uid>> {
        let mut all = BTreeSet::new();
        for name in groups {
            match Group::from_name(name) {
                Ok(Some(group)) => {
                    let gid = group.gid.as_raw();
                    all.extend(self.users(&format!("{place}: {name}"), &group.mem));
                    let primary = self.by_group.get_or_insert_with(|| by_primary_group(place));
                    all.extend(primary.get(&gid).into_iter().flatten());
                }
                Ok(None) => log::warn!("{place}: there is no group {name:?} on this host"),
                Err(error) => log::warn!("{place}: {name:?}: {error}"),
            }
        }
        Some(all)
    }
}

/// The uid that a number is; the last one is no user's.
fn uid_in(name: &str) -> Option<Uid> {
    let is_number = !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit());
    name.parse().ok().filter(|uid| is_number && *uid != u32::MAX).map(Uid)
}

fn by_primary_group(place: &str) -> BTreeMap<u32, Vec<Uid>> {
    let text = fs::read(PASSWD).unwrap_or_else(|error| {
        log::warn!("{place}: {PASSWD}: {error}: only members that the group itself names are known");
        Vec::new()
    });
    let mut all: BTreeMap<u32, Vec<Uid>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let mut fields = line.split(':').skip(2);
        let mut number = || fields.next()?.parse::<u32>().ok();
        if let (Some(uid), Some(gid)) = (number(), number()) {
            all.entry(gid).or_default().push(Uid(uid));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_cluster::Access;

    fn policy(text: &str) -> Policy {
        let base = "[cluster]\nname = \"lab\"\nspool_dir = \"/x/spool\"\nstate_dir = \"/x/state\"\nrun_dir = \"/x/run\"\n";
        let config = gq_conf::parse(&format!("{base}{text}"), std::path::Path::new("gq.conf")).unwrap();
        policy_of(&config, Serves::Everyone)
    }

    #[test]
    fn limits_count_cards_in_thousandths() {
        let policy = policy("[[partition]]\nname = \"main\"\nmax_cards_per_user = 2\nmax_jobs = 7\n");
        let limits = &policy.partitions[0].limits;
        assert_eq!(
            (limits.max_cards_per_user, limits.max_jobs, limits.max_cards),
            (Some(2000), Some(7), None)
        );
    }

    #[test]
    fn lists_of_names_become_uids_and_what_is_unknown_lets_nobody_through() {
        let policy = policy(
            "[[partition]]\nname = \"main\"\n[[partition]]\nname = \"root\"\nallow_groups = [\"root\"]\n\
             [[partition]]\nname = \"none\"\nallow_users = [\"no-such-user-here\"]\n\
             [[partition]]\nname = \"few\"\ndeny_users = [\"root\", \"no-such-user-here\"]\n",
        );
        let access = |name: &str| policy.partition(name).unwrap().access.clone();
        assert_eq!(access("main"), Access::default());
        assert_eq!(access("root").allow_users, Some(BTreeSet::from([Uid(0)])), "his primary group");
        assert_eq!(access("none").allow_users, Some(BTreeSet::new()));
        assert_eq!(access("few").deny_users, BTreeSet::from([Uid(0)]));
    }

    #[test]
    fn a_number_is_a_uid_and_only_the_conf_says_who_may_what() {
        let policy = policy(
            "operators = [\"54321\", \"4294967295\", \"no-such-user-here\"]\nprivate_data = [\"jobs\"]\n\
             [[account]]\nname = \"lab\"\ncoordinators = [\"54322\"]\n",
        );
        assert_eq!(policy.operators, BTreeSet::from([Uid(54_321)]));
        assert_eq!(policy.account("lab").unwrap().coordinators, [Uid(54_322)]);
        assert!(policy.private.jobs && !policy.private.usage && !policy.private.reservations);
    }

    #[test]
    fn a_partition_for_an_account_is_one_for_those_below_it() {
        let policy = policy(
            "[[account]]\nname = \"lab\"\n[[account]]\nname = \"vision\"\nparent = \"lab\"\nusers = [\"root\"]\n\
             [[account]]\nname = \"other\"\n[[partition]]\nname = \"main\"\nallow_accounts = [\"lab\"]\n",
        );
        let allowed = policy.partitions[0].access.allow_accounts.clone().unwrap();
        assert_eq!(allowed, BTreeSet::from(["lab".to_owned(), "vision".to_owned()]));
        assert_eq!(policy.account("vision").unwrap().users, [Uid(0)]);
    }
}
