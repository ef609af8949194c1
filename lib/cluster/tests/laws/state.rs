//! The state is had again from its rows and from its events, and refuses what it does not allow.

use crate::{
    history::{History, LICENCES, Move, a_move},
    illegal::illegal,
};
use gq_cluster::{Booking, Cluster, Event, Job, Ledger, Node, Payer, Place, Rows, Shape};
use gq_model::{JobId, Timestamp};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

type Queued = (BTreeMap<(Shape, Payer), Vec<Place>>, usize, Option<(Timestamp, JobId)>, Vec<JobId>);

fn queued(cluster: &Cluster) -> Queued {
    let queue = cluster.queue();
    let groups = queue.groups().map(|(key, group)| {
        assert!(group.jobs.iter().all(|place| cluster.job(place.job).unwrap().group() == key));
        (((*group.shape).clone(), (*group.payer).clone()), group.jobs.iter().copied().collect())
    });
    (groups.collect(), queue.len(), queue.next_ripe(), queue.ripe(Timestamp::NEVER).collect())
}

/// A row in the words that are kept on disk: what is only an index of other rows is not in it.
fn row<T: serde::Serialize>(kept: &T) -> String {
    serde_json::to_string(kept).unwrap()
}

fn assert_same_ledger(a: &Ledger, b: &Ledger) -> Result<(), TestCaseError> {
    prop_assert!(a.payers().eq(b.payers()), "the holdings differ");
    prop_assert!(a.usage().eq(b.usage()), "the usage differs");
    prop_assert!(a.licence_ends().eq(b.licence_ends()), "who holds licences differs");
    for licence in LICENCES {
        prop_assert_eq!(a.licences_used(licence), b.licences_used(licence));
    }
    Ok(())
}

fn assert_same(a: &Cluster, b: &Cluster) -> Result<(), TestCaseError> {
    prop_assert!(a.jobs().map(|job| row(&**job)).eq(b.jobs().map(|job| row(&**job))), "the jobs differ");
    prop_assert_eq!(a.node_count(), b.node_count());
    for (a, b) in by_name(a).into_iter().zip(by_name(b)) {
        prop_assert_eq!(row(&**a), row(&**b));
        prop_assert_eq!((a.used(), a.layout()), (b.used(), b.layout()));
        prop_assert!(a.ends().eq(b.ends()), "what is held of {} differs", a.name);
        prop_assert_eq!(a.held_alone_by(), b.held_alone_by());
    }
    prop_assert_eq!(queued(a), queued(b));
    prop_assert_eq!(a.last_job(), b.last_job());
    prop_assert!(a.bookings().eq(b.bookings()), "the reservations differ");
    prop_assert!(a.preempted().eq(b.preempted()), "who makes room differs");
    prop_assert!(a.reclaims().eq(b.reclaims()), "whose idle cards are taken differs");
    assert_same_ledger(a.ledger(), b.ledger())
}

/// Through the words that are kept on disk, and back.
fn on_disk<T: serde::Serialize + serde::de::DeserializeOwned>(kept: &T) -> T {
    serde_json::from_str(&row(kept)).unwrap()
}

/// All nodes, those that are forgotten too.
fn by_name(cluster: &Cluster) -> Vec<&Arc<Node>> {
    let count = u32::try_from(cluster.node_count()).unwrap();
    let mut nodes: Vec<_> = (0..count).filter_map(|place| cluster.node_at(place)).collect();
    nodes.sort_by_key(|node| node.name.clone());
    nodes
}

/// The rows of a state, as they come back from disk; nodes come in another order than the one they became known in.
fn rows(live: &Cluster) -> Rows {
    Rows {
        last_job: live.last_job(),
        jobs: live.jobs().map(|job| on_disk::<Job>(job)).collect(),
        nodes: by_name(live).iter().map(|node| on_disk::<Node>(node)).collect(),
        bookings: live.bookings().map(|booking| on_disk::<Booking>(booking)).collect(),
        usage: live.ledger().usage().map(|((account, uid), usage)| (account.clone(), *uid, *usage)).collect(),
        spent: live.ledger().spent().map(|(purse, spent)| (purse.clone(), *spent)).collect(),
    }
}

/// Two runs on slices of a card that is one whole by now lie over each other: when one ends, the other has the card still.
#[test]
fn what_lies_over_another_run_has_its_card_when_that_ends() {
    let submit = Move::Submit { tasks: 1, shape: 0, payer: 0, held: false, later: false };
    let find = |cut| Move::Find { node: 1, cpus: 8, cut };
    let give = |first| Move::Allocate { pick: 0, node: 1, cpus: 0, cards: 1, first, exclusive: false };
    for (firsts, other, ended) in (0..64u8).flat_map(|n| [(n, 0, 0), (n, 0, 1), (n, 1, 0), (n, 1, 1)]) {
        let (one, two) = (give(firsts % 8), give(firsts / 8));
        let see = Move::See { node: 1, link: 3 };
        let end = Move::EndRun { pick: ended, again: false, site: false, code: 0 };
        let moves = [find(2), see, submit.clone(), submit.clone(), one, two, find(other), end];
        let history = History::of(&moves).unwrap();
        let live = &history.cluster;
        assert_same(live, &Cluster::restore(rows(live)).unwrap()).unwrap();
    }
}

proptest! {
    #[test]
    fn the_state_is_had_again_from_its_rows_and_from_its_events(moves in prop::collection::vec(a_move(), 1..160)) {
        let history = History::of(&moves)?;
        let live = &history.cluster;

        let restored = Cluster::restore(rows(live));
        prop_assert!(restored.is_ok(), "{restored:?}");
        let restored = restored.unwrap();
        prop_assert!(restored.check().is_ok(), "{:?}", restored.check());
        assert_same(live, &restored)?;

        let mut folded = Cluster::default();
        for event in &history.events {
            prop_assert!(folded.apply(&on_disk(event)).is_ok());
        }
        assert_same(live, &folded)?;
    }

    #[test]
    fn the_events_of_a_job_give_its_row(moves in prop::collection::vec(a_move(), 1..120)) {
        let history = History::of(&moves)?;
        for job in history.cluster.jobs() {
            let mut alone = Cluster::default();
            let its_own = |event: &&Event| event.job().is_none_or(|id| id == job.id);
            for event in history.events.iter().filter(its_own) {
                prop_assert!(alone.apply(event).is_ok());
            }
            prop_assert_eq!(alone.job(job.id).map(|job| row(&**job)), Some(row(&**job)));
        }
    }

    #[test]
    fn what_the_state_does_not_allow_is_refused(moves in prop::collection::vec(a_move(), 1..120)) {
        let history = History::of(&moves)?;
        for event in illegal(&history.cluster) {
            let mut cluster = history.cluster.clone();
            prop_assert!(cluster.apply(&event).is_err(), "{event:?} was let through");
        }
        // What has happened does not happen again.
        for event in &history.events {
            let once = matches!(
                event,
                Event::Submitted(_) | Event::Allocated { .. } | Event::RunEnded { .. } | Event::TasksEnded { .. }
                    | Event::Ordered { .. } | Event::Reported { .. }
            );
            if once {
                let mut cluster = history.cluster.clone();
                prop_assert!(cluster.apply(event).is_err(), "{event:?} happened twice");
            }
        }
    }
}
