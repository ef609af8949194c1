//! The health of the cards as it is told: what the driver says of each, whether it says anything at all, and who uses what no run holds. Asks
//! no driver; `cards` does.

use crate::sharing::Sharer;
use gq_gpu::{Look, User};
use gq_host::{Devices, OwnCard};
use gq_model::{Card, CardHealth, CardUse, RunKey};
use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant},
};

/// How long a look at the cards may take before the driver is said to hang.
pub const HANGS: Duration = Duration::from_secs(20);

/// What was seen of the cards last.
#[derive(Debug)]
pub struct Health {
    look: Look,
    /// Who used them in the look before.
    before: Vec<User>,
    /// Whose the processes on shared cards are, by the card's index and the pid: none of a process that belongs to no run.
    owners: BTreeMap<(u32, u32), Option<RunKey>>,
    /// Since when the driver is being asked.
    since: Option<Instant>,
    /// Whether that takes too long.
    hangs: bool,
}

impl Default for Health {
    /// Nothing was seen yet.
    fn default() -> Self {
        let look = Look { cards: Vec::new(), users: Vec::new() };
        Self { look, before: Vec::new(), owners: BTreeMap::new(), since: None, hangs: false }
    }
}

impl Health {
    /// The driver is being asked.
    pub const fn looking(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// They were looked at, while these runs shared some.
    pub fn looked(&mut self, look: Look, sharers: &[Sharer]) {
        self.before = std::mem::replace(&mut self.look, look).users;
        self.find_owners(sharers);
        self.rests();
    }

    /// Finds out whose the processes on shared cards are. One that cannot be seen from here may be anybody's who has parts of its card.
    fn find_owners(&mut self, sharers: &[Sharer]) {
        let before = std::mem::take(&mut self.owners);
        for user in &self.look.users {
            let card = self.look.cards.iter().find(|card| card.index == user.card);
            let uuid = card.and_then(|card| card.uuid.as_deref());
            let of_card = || sharers.iter().filter(|it| Some(it.uuid.as_str()) == uuid);
            if of_card().next().is_none() {
                continue;
            }
            let at = (user.card, user.pid);
            let owner = of_card().find(|sharer| sharer.owns(user.pid)).map(|sharer| sharer.key);
            let was_left = before.get(&at) == Some(&None);
            if owner.is_some() || was_left || gq_host::living_process(user.pid).is_some() {
                self.owners.insert(at, owner);
            }
        }
    }

    /// A run is over: what is left of its processes belongs to nobody.
    pub fn left(&mut self, key: RunKey) {
        self.owners.values_mut().filter(|owner| **owner == Some(key)).for_each(|owner| *owner = None);
    }

    /// Whether a process on a shared card is none of those who share it.
    fn is_left(&self, user: &User) -> bool {
        self.owners.get(&(user.card, user.pid)) == Some(&None)
    }

    /// The driver is asked nothing at present.
    pub fn rests(&mut self) {
        if std::mem::take(&mut self.hangs) {
            log::info!("the NVIDIA driver answers again");
        }
        self.since = None;
    }

    /// Whether the driver hangs.
    pub const fn hangs(&self) -> bool {
        self.hangs
    }

    /// Whether the driver was found to hang just now.
    pub fn begins_to_hang(&mut self, now: Instant) -> bool {
        let is_late = self.since.is_some_and(|since| now.duration_since(since) >= HANGS);
        if !is_late || std::mem::replace(&mut self.hangs, true) {
            return false;
        }
        log::error!("the NVIDIA driver does not answer; its cards are not handed out until it does");
        true
    }

    /// Whether the driver has to be asked about what a run holds: not about what only the conf knows.
    pub fn is_real(&self, held: &CardUse) -> bool {
        let is_declared = |card: &Card| card.index == held.index && card.uuid.is_none();
        held.uuid.is_some() || !self.look.cards.iter().any(is_declared)
    }

    /// The device files that a run is kept from which holds these cards, and those it is to have. It is kept from none when it cannot be told
    /// which are its own: a declared card has no number.
    ///
    /// # Errors
    /// When it cannot be read what the driver has.
    pub fn devices(&self, held: &[CardUse]) -> io::Result<Devices> {
        let own = |one: &CardUse| {
            let card = self.look.cards.iter().find(|card| card.index == one.index)?;
            let slice = card.slices.iter().find(|slice| slice.uuid.is_some() && slice.uuid == one.uuid);
            let slice = slice.and_then(|slice| slice.gpu_instance.zip(slice.compute_instance));
            Some(OwnCard { minor: card.minor?, slice })
        };
        let Some(own) = held.iter().map(own).collect::<Option<Vec<_>>>() else {
            return Ok(Devices::default());
        };
        Devices::of_run(self.look.cards.iter().any(|card| card.minor.is_some()), &own)
    }

    /// The UUID of the slice that a run holds by its place alone.
    pub fn slice_at(&self, held: &CardUse) -> Option<String> {
        let card = self.look.cards.iter().find(|card| card.index == held.index)?;
        let is_it = |slice: &&gq_model::Slice| {
            held.slice.as_ref() == Some(&slice.profile) && slice.placement == held.placement
        };
        card.slices.iter().find(is_it)?.uuid.clone()
    }

    /// The cards as they are to be told, when runs hold `held`.
    pub fn cards(&self, held: &[CardUse]) -> Vec<Card> {
        let mut cards = self.look.cards.clone();
        if self.hangs {
            let why = format!("the NVIDIA driver has not answered for {} s", HANGS.as_secs());
            for card in cards.iter_mut().filter(|card| card.uuid.is_some()) {
                card.health = CardHealth::Failed(why.clone());
            }
            return cards;
        }
        let is_held = |user: &&User| {
            let is_left = self.is_left(user);
            held.iter().any(|one| is_on(user, one, &self.look.cards) && !(one.share.is_some() && is_left))
        };
        for user in self.look.users.iter().filter(|user| !is_held(user)) {
            let Some(words) = self.stranger(user) else { continue };
            let Some(card) = cards.iter_mut().find(|card| card.index == user.card) else { continue };
            let health = match &user.slice {
                None => &mut card.health,
                Some(_) => match card.slices.iter_mut().find(|slice| slice.uuid == user.slice) {
                    Some(slice) => &mut slice.health,
                    None => continue,
                },
            };
            // Trouble of its own is the worse one, and the first of several is enough.
            if health.is_good() {
                *health = CardHealth::Used(words);
            }
        }
        cards
    }

    /// What is wrong with what a run is given, when other runs hold `held`.
    pub fn trouble(&self, given: &[CardUse], held: &[CardUse]) -> Option<String> {
        let cards = self.cards(held);
        given.iter().filter(|one| self.is_real(one)).find_map(|one| {
            let is_it = |card: &&Card| match (&one.slice, &one.uuid) {
                (None, Some(_)) => card.uuid == one.uuid,
                (Some(_), _) | (None, None) => card.index == one.index,
            };
            let index = one.index;
            let Some(card) = cards.iter().find(is_it) else { return Some(format!("card {index} is gone")) };
            if let Some(words) = card.health.trouble() {
                return Some(format!("card {index} cannot be had: {words}"));
            }
            let slice = card.slices.iter().find(|slice| one.uuid.is_some() && slice.uuid == one.uuid)?;
            let words = slice.health.trouble()?;
            Some(format!("slice {} of card {index} cannot be had: {words}", slice.profile))
        })
    }

    /// Who a user of a card is that no run holds. Drivers tell of a process for a moment longer than it lives.
    fn stranger(&self, user: &User) -> Option<String> {
        let pid = user.pid;
        match gq_host::living_process(pid) {
            Some((name, uid)) => {
                let why = if self.is_left(user) { "is of no job that shares it" } else { "no job holds it" };
                Some(format!("process {pid} ({name}, uid {uid}) uses it, and {why}"))
            }
            None if self.before.contains(user) => {
                Some(format!("process {pid}, which cannot be seen from here, uses it, and no job holds it"))
            }
            None => None,
        }
    }
}

/// Whether somebody uses what a run holds, or held.
pub fn is_on(user: &User, held: &CardUse, cards: &[Card]) -> bool {
    let Some(card) = cards.iter().find(|card| card.index == user.card) else { return false };
    match (&held.slice, &user.slice) {
        (None, _) if held.uuid.is_some() => held.uuid == card.uuid,
        (None, _) => held.index == card.index,
        (Some(_), None) => false,
        (Some(_), Some(_)) if held.uuid.is_some() => held.uuid == user.slice,
        // A slice that is known by its place alone, as after a new start.
        (Some(_), slice) => {
            let place = card.slices.iter().find(|it| it.uuid == *slice).and_then(|it| it.placement);
            let is_there = held.placement.zip(place).is_none_or(|(at, place)| at.overlaps(place));
            held.index == card.index && is_there
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(index: u32, slices: &[&str]) -> Card {
        let slices: Vec<_> = slices
            .iter()
            .map(|uuid| serde_json::json!({"profile": "1g.10gb", "uuid": uuid, "memory": 1}))
            .collect();
        let json = serde_json::json!({
            "index": index, "uuid": format!("GPU-{index}"), "model": "A100", "memory": 1,
            "mig": !slices.is_empty(), "slices": slices
        });
        serde_json::from_value(json).unwrap()
    }

    fn whole(index: u32) -> CardUse {
        CardUse::whole(index, Some(format!("GPU-{index}")))
    }

    fn slice(uuid: &str) -> CardUse {
        CardUse { slice: Some("1g.10gb".to_owned()), ..CardUse::whole(1, Some(uuid.to_owned())) }
    }

    fn user(card: u32, slice: Option<&str>, pid: u32) -> User {
        User { card, slice: slice.map(str::to_owned), pid }
    }

    #[test]
    fn whoever_uses_what_no_run_holds_is_named_and_keeps_it_from_being_handed_out() {
        let me = std::process::id();
        let mut health = Health::default();
        health.looked(
            Look {
                cards: vec![card(0, &[]), card(1, &["MIG-a", "MIG-b"])],
                users: vec![user(0, None, me), user(1, Some("MIG-b"), me)],
            },
            &[],
        );
        let cards = health.cards(&[]);
        let CardHealth::Used(words) = &cards[0].health else { panic!("{cards:?}") };
        assert!(words.starts_with(&format!("process {me} (")) && words.contains("uid "), "{words}");
        assert!(cards[1].health.is_good() && cards[1].slices[0].health.is_good());
        assert!(!cards[1].slices[1].health.is_good(), "the slice alone");
        // What a run holds is its own to use.
        let held = [whole(0), slice("MIG-b")];
        assert_eq!(health.cards(&held), health.look.cards);
        assert!(health.trouble(&[whole(0)], &[slice("MIG-b")]).is_some());
        assert_eq!(health.trouble(&[slice("MIG-a")], &[whole(0)]), None);
        assert!(
            health.trouble(&[slice("MIG-b")], &[whole(0)]).unwrap().starts_with("slice 1g.10gb of card 1")
        );
    }

    /// Neighbours on a card are no strangers to each other; what is left of one that is over is, until it is gone.
    #[test]
    fn processes_on_a_shared_card_are_those_of_the_runs_that_share_it() {
        let key = |job: u64| -> RunKey { format!("{job}.0.1").parse().unwrap() };
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let sharer = |job: u64, supervisor: u32| Sharer {
            key: key(job),
            uuid: "GPU-0".to_owned(),
            declared: gq_model::MiB(10),
            remains: gq_host::Remains { marker: "none".to_owned(), uid: gq_model::Uid(0), session: None },
            group: gq_host::Group::default(),
            supervisor: Some(supervisor),
        };
        // The child is the first one's; the second, whose supervisor it is, has no process.
        let sharers = [sharer(1, me), sharer(2, child.id())];
        let share = gq_model::Share { parts: 1, of: 4, memory: gq_model::MiB(10) };
        let held = [CardUse { share: Some(share), ..whole(0) }];
        let look = Look { cards: vec![card(0, &[])], users: vec![user(0, None, child.id())] };
        let mut health = Health::default();
        health.looked(look.clone(), &sharers);
        assert!(health.cards(&held)[0].health.is_good(), "it is of one of them");
        health.left(key(2));
        assert!(health.cards(&held)[0].health.is_good());
        health.left(key(1));
        let CardHealth::Used(words) = &health.cards(&held)[0].health else { panic!("it belongs to nobody") };
        assert!(words.ends_with("is of no job that shares it"), "{words}");
        health.looked(look.clone(), &sharers[1..]);
        assert!(!health.cards(&held)[0].health.is_good(), "it is still there");
        // How much each uses is that of its own processes.
        let used = |uuid: &str, memory| gq_gpu::Used {
            uuid: uuid.to_owned(),
            pid: child.id(),
            memory: gq_model::MiB(memory),
        };
        let all = [used("GPU-0", 8), used("GPU-0", 3), used("GPU-1", 100)];
        assert_eq!((sharers[0].over(&all), sharers[1].over(&all)), (Some(gq_model::MiB(11)), None));
        assert_eq!(sharers[0].over(&all[1..]), None);
        child.kill().unwrap();
        child.wait().unwrap();
        health.looked(Look { users: Vec::new(), ..look }, &sharers[1..]);
        assert!(health.cards(&held)[0].health.is_good());
    }

    #[test]
    fn a_process_that_is_dead_counts_when_the_driver_tells_of_it_twice() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let look = Look { cards: vec![card(0, &[])], users: vec![user(0, None, pid)] };
        let mut health = Health::default();
        health.looked(look.clone(), &[]);
        assert!(health.cards(&[])[0].health.is_good());
        health.looked(look, &[]);
        assert!(!health.cards(&[])[0].health.is_good());
    }

    #[test]
    fn a_driver_that_hangs_is_said_to_once_and_its_cards_fail_until_it_answers() {
        let (mut health, begin) = (Health::default(), Instant::now());
        let look = Look { cards: vec![card(0, &[]), Card { uuid: None, ..card(1, &[]) }], users: Vec::new() };
        health.looked(look.clone(), &[]);
        health.looking(begin);
        assert!(!health.begins_to_hang(begin) && health.cards(&[])[0].health.is_good());
        assert!(health.begins_to_hang(begin + HANGS) && !health.begins_to_hang(begin + HANGS));
        let cards = health.cards(&[whole(0)]);
        assert!(!cards[0].health.is_good() && cards[1].health.is_good(), "{cards:?}");
        health.looked(look, &[]);
        assert!(health.cards(&[])[0].health.is_good() && !health.begins_to_hang(begin + 2 * HANGS));
    }
}
