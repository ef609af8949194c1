//! The tasks of a job as a listing shows them, made as they are sent: what has ended from history, what lives from the board. Nothing is
//! made for each task of an array unless that is asked for.

use crate::{
    door::Door,
    view::{self, Sight},
};
use gq_cluster::{Job, NewJob};
use gq_model::{IndexSet, JobId};
use gq_proto::{JobView, ListAsk};
use gq_store::{EndedRun, StoreError};
use std::sync::Arc;

/// Ended tasks that are read at a time.
const PAGE: usize = 1000;
/// Most waiting tasks of one array that are shown each by itself.
const MAX_APART: usize = 100_000;

/// How tasks are shown.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    /// Each ended one by itself.
    ended: bool,
    /// Each waiting one by itself.
    waiting: bool,
}

impl Split {
    pub(crate) fn of(list: &ListAsk) -> Self {
        Self { ended: list.split, waiting: list.split_waiting }
    }
}

/// Views that are made one by one.
pub(crate) type Views<'a> = Box<dyn Iterator<Item = Result<JobView, StoreError>> + 'a>;

/// A job of which something is shown.
pub(crate) struct Shown<'a> {
    live: Option<&'a Arc<Job>>,
    /// The job as it was accepted, when something of it may have ended.
    past: Option<NewJob>,
    /// The tasks that are meant; none means all.
    only: Option<IndexSet>,
}

impl<'a> Shown<'a> {
    /// What lives of a job.
    pub(crate) fn living(job: &'a Arc<Job>) -> Self {
        Self { live: Some(job), past: None, only: None }
    }

    /// What has ended of a job.
    pub(crate) fn ended(new: NewJob) -> Self {
        Self { live: None, past: Some(new), only: None }
    }

    /// All of a job, as far as `only` these tasks are meant; none when there never was one of this id.
    pub(crate) fn named(
        door: &Door,
        sight: &Sight<'a>,
        id: JobId,
        only: Option<IndexSet>,
    ) -> Result<Option<Self>, StoreError> {
        let live = sight.board.job(id);
        // Of a live job history tells only what does not wait or run.
        let has_past = match (live, &only) {
            (None, _) => true,
            (Some(job), _) if !job.array => false,
            (Some(_), None) => true,
            (Some(job), Some(only)) => {
                let runs: IndexSet = job.runs.keys().map(|task| task.0).collect();
                !only.without(&job.waiting).without(&runs).is_empty()
            }
        };
        let past = if has_past { door.with_history(|history| history.accepted(id))? } else { None };
        Ok((live.is_some() || past.is_some()).then_some(Self { live, past, only }))
    }

    /// The views of it: what has ended, then what waits, then what runs.
    pub(crate) fn views(self, door: &'a Door, sight: &'a Sight<'a>, split: Split) -> Views<'a> {
        let Self { live, past, only } = self;
        let living = live.into_iter().flat_map({
            let only = only.clone();
            move |job| living(sight, job, only.clone(), split)
        });
        match past {
            Some(new) => Box::new(ended(door, new, only, split).chain(living.map(Ok))),
            None => Box::new(living.map(Ok)),
        }
    }
}

/// The views of what lives of a job.
fn living<'a>(
    sight: &'a Sight<'a>,
    job: &'a Job,
    only: Option<IndexSet>,
    split: Split,
) -> impl Iterator<Item = JobView> + 'a {
    let mut room = if split.waiting && job.array { MAX_APART } else { 0 };
    let mut waiting = Vec::new();
    for (tasks, why) in view::waiting_alike(job) {
        let mut together = only.as_ref().map_or_else(|| tasks.clone(), |only| tasks.and(only));
        let apart: IndexSet = together.iter().take(room).collect();
        room = room.saturating_sub(usize::try_from(apart.len()).unwrap_or(usize::MAX));
        together = together.without(&apart);
        waiting.push((apart, together, why));
    }
    let each = waiting.into_iter().flat_map(move |(apart, together, why)| {
        let base = (!apart.is_empty()).then(|| view::waiting(sight, job, &apart, why));
        let rest = (!together.is_empty()).then(|| view::waiting(sight, job, &together, why));
        let apart = base.into_iter().flat_map(move |base| {
            let tasks = apart.ranges().to_vec().into_iter().flat_map(|(first, last)| first..=last);
            tasks.map(move |task| view::waiting_task(job, &base, task))
        });
        apart.chain(rest)
    });
    let runs =
        job.runs.iter().filter(move |(task, _)| only.as_ref().is_none_or(|only| only.contains(task.0)));
    each.chain(runs.map(move |(task, run)| view::running(sight, job, *task, run)))
}

/// The views of what has ended of a job.
fn ended<'a>(door: &'a Door, new: NewJob, only: Option<IndexSet>, split: Split) -> Views<'a> {
    let id = new.id;
    let apart = split.ended && new.array;
    let read = {
        let (new, only) = (new.clone(), only.clone());
        move || {
            let groups = door.with_history(|history| match apart {
                false => history.ends_alike(id, only.as_ref()),
                true => history.never_started(id, only.as_ref()),
            });
            groups.map(|groups| groups.iter().map(|group| view::ended_alike(&new, group)).collect::<Vec<_>>())
        }
    };
    let together = std::iter::once_with(read).flat_map(spread);
    if !apart {
        return Box::new(together);
    }
    let pages = Pages { door, id, next: Some(0), last: u32::MAX }.narrowed(only.as_ref());
    let apart = pages.flat_map(move |page| {
        let page = page.map(|runs| {
            let runs = runs.iter().filter(|run| only.as_ref().is_none_or(|only| only.contains(run.task.0)));
            runs.map(|run| view::ended_task(&new, run)).collect::<Vec<_>>()
        });
        spread(page)
    });
    Box::new(apart.chain(together))
}

/// The items of a list, or the error instead of it.
fn spread<T, E>(list: Result<Vec<T>, E>) -> impl Iterator<Item = Result<T, E>> {
    let (items, error) = match list {
        Ok(items) => (items, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    items.into_iter().map(Ok).chain(error.map(Err))
}

/// Ended tasks, a page at a time.
struct Pages<'a> {
    door: &'a Door,
    id: JobId,
    /// The first task of the next page; none at the end.
    next: Option<u32>,
    last: u32,
}

impl Pages<'_> {
    fn narrowed(self, only: Option<&IndexSet>) -> Self {
        match only {
            None => self,
            Some(only) => Self { next: only.first(), last: only.last().unwrap_or(0), ..self },
        }
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<EndedRun>, StoreError>;
    fn next(&mut self) -> Option<Self::Item> {
        let first = self.next.take().filter(|first| *first <= self.last)?;
        let page = self.door.with_history(|history| history.ends_apart(self.id, (first, self.last), PAGE));
        if let Ok(runs) = &page
            && runs.len() == PAGE
        {
            self.next = runs.last().and_then(|run| run.task.0.checked_add(1));
        }
        Some(page)
    }
}
