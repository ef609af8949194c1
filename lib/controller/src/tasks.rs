//! The tasks of a job as a listing shows them, made as they are sent: what has ended from history, what lives from the board. Nothing is
//! made for each task of an array unless that is asked for.

use crate::{
    door::Door,
    view::{self, Apart, Sight},
};
use gq_cluster::{Job, NewJob, Owner};
use gq_model::{IndexSet, JobId};
use gq_proto::{JobView, ListAsk};
use gq_store::{EndedRun, StoreError};
use std::sync::Arc;

/// Ended tasks that are read at a time.
const PAGE: usize = 1000;
/// Most waiting tasks of one array that are shown each by itself; the rest is shown together.
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
        let mut past = if has_past { door.with_history(|history| history.accepted(id))? } else { None };
        if let (Some(new), Some(job)) = (&mut past, live) {
            // Its ended tasks are called as the job is called now.
            (new.spec, new.shape, new.payer) =
                (Arc::clone(&job.spec), Arc::clone(&job.shape), Arc::clone(&job.payer));
            (new.main, new.at_once) = (job.main.clone(), job.at_once);
        }
        Ok((live.is_some() || past.is_some()).then_some(Self { live, past, only }))
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> Option<Owner<'_>> {
        self.live.map(|job| job.owner()).or_else(|| self.past.as_ref().map(NewJob::owner))
    }

    /// Those of the tasks that are meant which it never had.
    pub(crate) fn strange(&self) -> Option<IndexSet> {
        let spec = self.live.map(|job| &job.spec).or(self.past.as_ref().map(|new| &new.spec))?;
        let strange = self.only.as_ref()?.without(&spec.tasks());
        (!strange.is_empty()).then_some(strange)
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
    let named = only.clone();
    let mut left = if split.waiting && job.array { MAX_APART } else { 0 };
    let waits = view::waiting_alike(job).into_iter().flat_map(move |(tasks, apart)| {
        let together = match &named {
            None => tasks,
            Some(named) => tasks.and(named),
        };
        let each: IndexSet = together.iter().take(left).collect();
        left -= usize::try_from(each.len()).unwrap_or(left);
        waiting(sight, job, each, &together, apart)
    });
    let runs =
        job.runs.iter().filter(move |(task, _)| only.as_ref().is_none_or(|only| only.contains(task.0)));
    waits.chain(runs.map(move |(task, run)| view::running(sight, job, *task, run)))
}

/// The views of tasks that wait for the same: of `each` by itself, and of the rest of `together`.
fn waiting<'a>(
    sight: &'a Sight<'a>,
    job: &'a Job,
    each: IndexSet,
    together: &IndexSet,
    apart: Apart,
) -> impl Iterator<Item = JobView> + use<'a> {
    let of_all = |tasks: &IndexSet| (!tasks.is_empty()).then(|| view::waiting(sight, job, tasks, apart));
    let (base, rest) = (of_all(&each), of_all(&together.without(&each)));
    let each = base.into_iter().flat_map(move |base| {
        let tasks = each.ranges().to_vec().into_iter().flat_map(|(first, last)| first..=last);
        tasks.map(move |task| view::waiting_task(job, &base, task))
    });
    each.chain(rest)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{board::Board, snapshot::Snapshot, standing::Standing};
    use gq_cluster::{Cluster, Demand, Event, Memory, Payer, Policy, Shape};
    use gq_model::{ArrayAsk, CardAsk, ClusterId, JobSpec, MiB, Timestamp, Token, Uid};
    use std::time::{Duration, Instant};

    /// A cluster in which these arrays wait, of so many tasks each, two of each at a time.
    fn pending(arrays: u64, tasks: u32) -> Cluster {
        let mut cluster = Cluster::default();
        for id in 1..=arrays {
            let indices = IndexSet::range(0, tasks - 1);
            let spec = JobSpec {
                name: "render".into(),
                work_dir: "/shots".into(),
                array: Some(ArrayAsk::of(indices.clone(), Some(2))),
                ..JobSpec::default()
            };
            let demand = Demand {
                cpus: 1,
                memory: Memory::Amount(MiB(64)),
                cards: CardAsk::default(),
                exclusive: false,
            };
            let shape = serde_json::json!({"partition": "main", "demand": demand, "time_limit": 60});
            let shape: Shape = serde_json::from_value(shape).unwrap();
            let payer = Payer { uid: Uid(7), partition: "main".into(), account: None, qos: None };
            let new = serde_json::json!({
                "id": id, "uid": 7, "user": "ann", "token": Token([id as u8; 16]), "spec": spec,
                "job_file": "jobs/00/1.job", "sha256": "00", "at": 0, "shape": shape, "payer": payer, "priority": 0,
                "array": true, "at_once": 2, "tasks": indices,
            });
            let new = Box::new(serde_json::from_value(new).unwrap());
            cluster.apply(&Event::Submitted(new)).unwrap();
        }
        cluster
    }

    /// Shows what waits in it.
    fn shown<T>(cluster: &Cluster, show: impl FnOnce(&Sight<'_>) -> T) -> T {
        let policy = Arc::new(Policy::plain("lab"));
        let board = Board::of(cluster, Arc::clone(&policy), ClusterId([1; 16]));
        let snapshot = Snapshot::of(cluster, &policy, &gq_sched::Planner::default());
        let standing = Standing::of_snapshot(&snapshot);
        show(&Sight { board: &board, standing: &standing, told: None, now: Timestamp(0) })
    }

    #[test]
    fn a_million_tasks_that_wait_are_one_line_in_no_time() {
        let cluster = pending(10, 1_000_000);
        let split = Split { ended: false, waiting: false };
        let (lines, took) = shown(&cluster, |sight| {
            let began = Instant::now();
            let views = sight.board.jobs().flat_map(|job| living(sight, job, None, split));
            (views.map(|view| view.array_tasks.unwrap()).collect::<Vec<_>>(), began.elapsed())
        });
        assert_eq!(lines, vec!["0-999999%2"; 10]);
        assert!(took < Duration::from_millis(50), "{took:?}");
    }

    #[test]
    fn tasks_that_wait_are_shown_by_themselves_up_to_a_bound() {
        let cluster = pending(1, 100_003);
        let split = Split { ended: true, waiting: true };
        shown(&cluster, |sight| {
            let job = sight.board.job(JobId(1)).unwrap();
            let mut views = living(sight, job, None, split);
            for task in 0..MAX_APART as u32 {
                let view = views.next().unwrap();
                assert_eq!((view.array_task_id, &view.array_tasks), (Some(task), &None));
                assert_eq!(view.stdout, format!("/shots/gq-1_{task}.out"));
            }
            assert_eq!(views.next().unwrap().array_tasks.as_deref(), Some("100000-100002%2"));
            assert!(views.next().is_none());
            let some = |text: &str, split| {
                let only = Some(IndexSet::read(text).unwrap().0);
                let views = living(sight, job, only, split);
                views.map(|view| (view.array_task_id, view.array_tasks)).collect::<Vec<_>>()
            };
            assert_eq!(some("7,100002", split), [(Some(7), None), (Some(100_002), None)]);
            let together = Split { ended: true, waiting: false };
            assert_eq!(some("7-9,200000", together), [(None, Some("7-9%2".into()))]);
            assert_eq!(some("200000", split), []);
        });
    }
}
