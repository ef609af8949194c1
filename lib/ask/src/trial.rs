//! `--trial`: a request becomes a short run of one task, on the smallest card or slice there is, that shows what to ask for.

use crate::{
    Place, Problem, Submission,
    said::{Said, Wishes},
    values,
};
use gq_model::{ArrayAsk, CardAsk, IndexSet, JobSpec, MAX_NAME, MiB, Requeue, Seconds, TimeAsk};

/// How long a trial takes at most when nothing is said.
const USUAL: Seconds = Seconds(600);
/// What stands behind the name of the job: runs of another name tell nothing of how long its own take.
const BEHIND: &str = ".trial";

/// A trial as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// Its longest run.
    most: Seconds,
    /// Whether the cards it is to have were said beside it, and so count.
    with_cards: bool,
}

/// `[TIME]`.
pub(crate) fn span(text: &str) -> Result<Seconds, Problem> {
    if text.is_empty() { Ok(USUAL) } else { values::some_time(text) }
}

impl Trial {
    pub(crate) fn of(wishes: &Wishes) -> Option<Self> {
        fn is_here<T>(said: Option<&Said<T>>) -> bool {
            said.is_some_and(|said| said.place == Place::CommandLine)
        }
        let most = wishes.trial.as_ref()?.value;
        let cards = [&wishes.gpus, &wishes.gpus_per_node, &wishes.gpus_per_task, &wishes.gres, &wishes.slice];
        let sizes = [&wishes.gpu_mem, &wishes.gpu_share];
        let with_cards = cards.into_iter().any(|said| is_here(said.as_ref()))
            || sizes.into_iter().any(|said| is_here(said.as_ref()));
        Some(Self { most, with_cards })
    }

    /// The request of the trial: what of `asked` has to do with when and how often it runs is left out.
    pub(crate) fn request(self, asked: &JobSpec) -> JobSpec {
        let mut name = asked.name.clone();
        name.truncate(name.floor_char_boundary(MAX_NAME - BEHIND.len()));
        let limit = match asked.time_limit {
            Some(TimeAsk::Limit(limit)) => self.most.min(limit),
            Some(TimeAsk::Longest) | None => self.most,
        };
        let mut spec = JobSpec {
            name: name + BEHIND,
            time_limit: Some(TimeAsk::Limit(limit)),
            time_min: None,
            begin: None,
            deadline: None,
            hold: false,
            max_wait: None,
            requeue: Some(Requeue::Never),
            retry: None,
            mail: None,
            exclusive: false,
            // Its own, so that what the job itself left is not written over.
            checkpoint: asked.checkpoint.as_ref().map(|_| String::new()),
            array: asked.array.as_ref().map(|array| {
                let first = array.tasks.first().unwrap_or(0);
                ArrayAsk::of(IndexSet::range(first, first), None)
            }),
            ..asked.clone()
        };
        if !self.with_cards && spec.cards.count > 0 && spec.cards.share.is_none() {
            // The smallest there is has that much.
            spec.cards = CardAsk { count: 1, memory: Some(MiB(1)), ..CardAsk::default() };
            (spec.gpus_per_node, spec.gpus_per_task) = (None, None);
        }
        spec
    }
}

impl Submission {
    /// Bounds the time limit of a trial by what its partition allows at most.
    pub fn bound_trial(&mut self, most: Seconds) {
        if let (Some(_), Some(TimeAsk::Limit(limit))) = (&self.trial, &mut self.spec.time_limit) {
            *limit = (*limit).min(most);
        }
    }
}
