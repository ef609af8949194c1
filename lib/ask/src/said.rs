//! What was said, option by option, with where it was said. Only the highest place that speaks of an option is kept.

use crate::{
    Place, Problem,
    begin::Begin,
    cards::CardWord,
    export::Export,
    life::{ArrayWord, Propagate},
};
use gq_model::{
    Dependency, JobId, LicenceAsk, MailOn, MaxWait, MiB, NodeName, OpenMode, Requeue, RetryAsk, Seconds,
    SignalAsk, TestRun, TimeAsk,
};
use std::ffi::{OsStr, OsString};

/// One word of one option, as it comes from a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    /// The value; empty for a switch that stands alone.
    pub raw: &'a OsStr,
    /// The option and its value, fit to be shown.
    pub shown: &'a str,
    /// Where it was said.
    pub place: &'a Place,
}

impl<'a> Word<'a> {
    /// The value as text.
    pub fn text(self) -> Result<&'a str, Problem> {
        self.raw.to_str().ok_or(Problem::NotText)
    }
}

/// A value with where it was said.
#[derive(Clone, Debug)]
pub(crate) struct Said<T> {
    /// The value.
    pub value: T,
    /// The option and its value, fit to be shown.
    pub shown: String,
    /// Where it was said.
    pub place: Place,
}

impl<T> Said<T> {
    /// Whether `self` was said at a place that counts less than `rank`.
    pub fn is_below(&self, rank: u8) -> bool {
        self.place.rank() < rank
    }
}

/// Keeps `value` unless a higher place has spoken already; at the same place the later word counts.
pub(crate) fn put<T>(slot: &mut Option<Said<T>>, word: Word<'_>, value: T) {
    if slot.as_ref().is_none_or(|old| old.place.rank() <= word.place.rank()) {
        *slot = Some(Said { value, shown: word.shown.to_owned(), place: word.place.clone() });
    }
}

/// Everything that can be said.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub job_name: Option<Said<String>>,
    pub partition: Option<Said<String>>,
    pub time: Option<Said<TimeAsk>>,
    pub ntasks: Option<Said<u32>>,
    pub ntasks_per_node: Option<Said<u32>>,
    pub cpus_per_task: Option<Said<u32>>,
    pub mem: Option<Said<MiB>>,
    pub mem_per_cpu: Option<Said<MiB>>,
    pub mem_per_gpu: Option<Said<MiB>>,
    pub gpus: Option<Said<CardWord>>,
    pub gpus_per_node: Option<Said<CardWord>>,
    pub gpus_per_task: Option<Said<CardWord>>,
    pub gres: Option<Said<CardWord>>,
    pub slice: Option<Said<CardWord>>,
    pub gpu_mem: Option<Said<MiB>>,
    pub gpu_share: Option<Said<MiB>>,
    pub output: Option<Said<String>>,
    pub error: Option<Said<String>>,
    pub input: Option<Said<String>>,
    pub open_mode: Option<Said<OpenMode>>,
    pub chdir: Option<Said<String>>,
    pub export: Option<Said<Export>>,
    pub hold: Option<Said<bool>>,
    pub begin: Option<Said<Begin>>,
    pub nice: Option<Said<i32>>,
    pub comment: Option<Said<String>>,
    pub account: Option<Said<String>>,
    pub qos: Option<Said<String>>,
    pub reservation: Option<Said<String>>,
    pub licences: Option<Said<Vec<LicenceAsk>>>,
    pub nodelist: Option<Said<Vec<NodeName>>>,
    pub exclude: Option<Said<Vec<NodeName>>>,
    pub constraint: Option<Said<Vec<String>>>,
    pub exclusive: Option<Said<bool>>,
    pub array: Option<Said<ArrayWord>>,
    pub each: Option<Said<String>>,
    pub dependency: Option<Said<Dependency>>,
    pub kill_on_invalid_dep: Option<Said<bool>>,
    pub prep: Option<Said<String>>,
    pub time_min: Option<Said<Seconds>>,
    pub deadline: Option<Said<Begin>>,
    pub signal: Option<Said<SignalAsk>>,
    pub max_wait: Option<Said<MaxWait>>,
    pub requeue: Option<Said<Requeue>>,
    pub retry: Option<Said<RetryAsk>>,
    pub checkpoint: Option<Said<String>>,
    pub get_user_env: Option<Said<Seconds>>,
    pub propagate: Option<Said<Propagate>>,
    pub container: Option<Said<String>>,
    pub mail_type: Option<Said<Vec<MailOn>>>,
    pub mail_user: Option<Said<String>>,
    pub idle_ok: Option<Said<String>>,
    pub rerun_failed: Option<Said<JobId>>,
    pub wckey: Option<Said<()>>,
    pub hint: Option<Said<()>>,
    pub parsable: Option<Said<bool>>,
    pub json: Option<Said<bool>>,
    pub test_only: Option<Said<bool>>,
    pub trial: Option<Said<Seconds>>,
    pub wait: Option<Said<bool>>,
    pub verbose: Option<Said<bool>>,
    pub quiet: Option<Said<bool>>,
    pub offline: Option<Said<bool>>,
    pub test_run: Option<Said<TestRun>>,
    pub wrap: Option<Said<OsString>>,
    pub conf: Option<Said<OsString>>,
    /// Every word in the order it was read.
    pub all: Vec<Heard>,
}

/// A word that was said, for `--verbose` and for what lets only some be said.
#[derive(Debug)]
pub(crate) struct Heard {
    /// The option's long name.
    pub long: &'static str,
    /// The option and its value, fit to be shown.
    pub shown: String,
    /// Where it was said.
    pub place: Place,
}

/// The value of a slot, taken out.
pub(crate) fn value<T>(slot: Option<Said<T>>) -> Option<T> {
    slot.map(|said| said.value)
}

/// Whether a switch is on.
pub(crate) fn is_on(slot: &Option<Said<bool>>) -> bool {
    slot.as_ref().is_some_and(|said| said.value)
}
