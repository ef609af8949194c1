//! Meters: what is counted and timed while `gqd` runs, for whoever watches it. They begin at nothing in each life, as Prometheus expects of
//! counters; labels are names of the conf and states alone, so that nothing a user does makes them more.

use gq_cluster::{Cluster, Event, Job};
use gq_engine::Step;
use gq_model::{End, RunKey, RunNumber, Timestamp};
use prometheus::{
    Error, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    core::Collector, proto::MetricFamily,
};
use std::{sync::Arc, time::Duration};

/// Bounds of waits and of the errors of estimates, in seconds: from a second to a week.
const WAITS: &[f64] =
    &[1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];
/// Bounds of turns, commits and releases, in seconds.
const TURNS: &[f64] = &[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// All of them.
pub(crate) struct Meters {
    registry: Registry,
    submitted: IntCounterVec,
    ended: IntCounterVec,
    wait: HistogramVec,
    error: HistogramVec,
    release: HistogramVec,
    turn: Histogram,
    commit: Histogram,
    passes: IntCounter,
}

impl Meters {
    /// Makes them.
    ///
    /// # Errors
    /// When a name is no name of a metric.
    pub(crate) fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let kept = Kept(&registry);
        Ok(Self {
            submitted: kept.counter(
                "gq_tasks_submitted_total",
                "Tasks that were accepted.",
                &["partition"],
            )?,
            ended: kept.counter(
                "gq_tasks_ended_total",
                "Runs, and tasks that never started, that ended so; runs that are repeated among them.",
                &["partition", "state"],
            )?,
            wait: kept.spans(
                "gq_wait_seconds",
                "From a job's submission to the first start of each of its tasks.",
                &["partition"],
            )?,
            error: kept.spans(
                "gq_start_estimate_error_seconds",
                "How much later or earlier a first start was than the job was first told.",
                &["partition", "side"],
            )?,
            release: kept.histogram(
                "gq_release_seconds",
                "From the end of a run to all that it held being free.",
                &["partition"],
                TURNS,
            )?,
            turn: kept
                .timer("gq_turn_seconds", "Turns of the queue: deciding, planning, keeping and telling.")?,
            commit: kept
                .timer("gq_commit_seconds", "What of a turn was spent on making it durable on disk.")?,
            passes: kept.keep(IntCounter::new("gq_passes_total", "Passes of the plan over what waits.")?)?,
            registry,
        })
    }

    /// Counts what happened in a turn; `cluster` is as it was after.
    pub(crate) fn follow(&self, cluster: &Cluster, steps: &[Step]) {
        for (at, step) in steps.iter().enumerate() {
            // A job that has begun and ended in one turn is gone by now, and stands with its end.
            let job = || {
                let id = step.event.job()?;
                let rest = steps.get(at..).unwrap_or_default();
                let gone = || rest.iter().filter_map(|step| step.before.as_ref()).find(|job| job.id == id);
                cluster.job(id).or_else(gone).map(Arc::clone)
            };
            match &step.event {
                Event::Submitted(new) => {
                    self.submitted.with_label_values(&[&new.shape.partition]).inc_by(new.tasks.len());
                }
                Event::Started { key, at, .. } => {
                    if let Some(job) = job() {
                        self.first_start(&job, *key, *at);
                    }
                }
                Event::RunEnded { outcome, at, .. } => {
                    let job = job();
                    let released = outcome.used.as_ref().and_then(|used| used.released);
                    if let (Some(job), Some(released)) = (&job, released) {
                        let release = self.release.with_label_values(&[&job.shape.partition]);
                        release.observe(seconds(released.micros_since(*at)));
                    }
                    self.ended(job.as_deref(), outcome.end, 1);
                }
                Event::TasksEnded { tasks, outcome, .. } => {
                    self.ended(job().as_deref(), outcome.end, tasks.len());
                }
                _ => {}
            }
        }
    }

    fn first_start(&self, job: &Job, key: RunKey, at: Timestamp) {
        if key.run != RunNumber(1) {
            return;
        }
        let partition = job.shape.partition.as_str();
        self.wait.with_label_values(&[partition]).observe(seconds(at.micros_since(job.submitted)));
        if let Some(promised) = job.first_promise {
            let (late, early) = (at.micros_since(promised), promised.micros_since(at));
            let (side, off) = if at >= promised { ("late", late) } else { ("early", early) };
            self.error.with_label_values(&[partition, side]).observe(seconds(off));
        }
    }

    fn ended(&self, job: Option<&Job>, end: End, count: u64) {
        let Some(job) = job else { return };
        let state = gq_model::JobState::Ended(end).name();
        self.ended.with_label_values(&[job.shape.partition.as_str(), state]).inc_by(count);
    }

    /// Notes a pass of the plan.
    pub(crate) fn pass(&self) {
        self.passes.inc();
    }

    /// Notes a turn, and its commit if it had one.
    pub(crate) fn turn(&self, took: Duration, commit: Option<Duration>) {
        self.turn.observe(took.as_secs_f64());
        if let Some(commit) = commit {
            self.commit.observe(commit.as_secs_f64());
        }
    }

    /// All that was counted.
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

/// Makes meters that a registry knows.
struct Kept<'a>(&'a Registry);

impl Kept<'_> {
    fn keep<T: Collector + Clone + 'static>(&self, meter: T) -> Result<T, Error> {
        self.0.register(Box::new(meter.clone()))?;
        Ok(meter)
    }

    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.keep(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn spans(&self, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec, Error> {
        self.histogram(name, help, labels, WAITS)
    }

    fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[f64],
    ) -> Result<HistogramVec, Error> {
        self.keep(HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), labels)?)
    }

    fn timer(&self, name: &str, help: &str) -> Result<Histogram, Error> {
        self.keep(Histogram::with_opts(HistogramOpts::new(name, help).buckets(TURNS.to_vec()))?)
    }
}
