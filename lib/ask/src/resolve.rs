//! Resolving: everything that was said becomes one request.

use crate::{
    AskError, CommandLine, Export, Place, Problem, Script, cards,
    line::{read_directives, read_environment},
    said::{Said, Wishes, is_on, value},
    values,
};
use clap::Command;
use gq_model::{CardAsk, JobSpec, MemoryAsk, MiB, ResourceLimit, Timestamp};
use jiff::tz::TimeZone;
use std::{ffi::OsString, path::Path};

/// The world around a submission, as far as a request depends on it.
pub struct Context<'a> {
    /// Now.
    pub now: Timestamp,
    /// Gives the user's time zone; asked only when a request needs it.
    pub zone: &'a dyn Fn() -> TimeZone,
    /// The working directory; absolute.
    pub directory: &'a Path,
    /// This host's name.
    pub host: &'a str,
    /// The umask.
    pub umask: u32,
    /// The resource limits.
    pub limits: Vec<ResourceLimit>,
}

/// A submission: the request, what goes with it, and how the user wants to be answered.
#[derive(Debug)]
pub struct Submission {
    /// The request.
    pub spec: JobSpec,
    /// Which variables go with it.
    pub export: Export,
    /// The script.
    pub script: Vec<u8>,
    /// The script's arguments.
    pub args: Vec<OsString>,
    /// Print the number only.
    pub parsable: bool,
    /// Print JSON; wins over `parsable`.
    pub json: bool,
    /// Wait for the end.
    pub wait: bool,
    /// Print no line of words.
    pub quiet: bool,
    /// Submit nothing, say when and where.
    pub test_only: bool,
    /// Leave the job in the drop box.
    pub offline: bool,
    /// What was said and where, a line each, when `--verbose` was said; else nothing.
    pub spoken: Vec<String>,
}

impl CommandLine {
    /// Makes the submission: command line, `GQSUB_*` variables out of `environment`, and directives of `script`.
    ///
    /// # Errors
    /// [`AskError`] when the script or anything said about it is not as it should be.
    pub fn resolve(
        mut self,
        command: &mut Command,
        environment: impl Iterator<Item = (OsString, OsString)>,
        script: Script,
        context: Context<'_>,
    ) -> Result<Submission, AskError> {
        read_environment(environment, &mut self.wishes)?;
        script.check()?;
        if self.wishes.wrap.is_none() {
            read_directives(command, &script, &mut self.wishes)?;
        }
        let wishes = self.wishes;
        let (wait, test_only, offline) =
            (is_on(&wishes.wait), is_on(&wishes.test_only), is_on(&wishes.offline));
        if offline && (wait || test_only) {
            let other = if wait { "--wait" } else { "--test-only" };
            return Err(general("--offline", Problem::Contradicts(other.into())));
        }
        let spoken = if is_on(&wishes.verbose) { spoken(&wishes) } else { Vec::new() };
        let (parsable, json, quiet) = (is_on(&wishes.parsable), is_on(&wishes.json), is_on(&wishes.quiet));
        let (spec, export) = request(wishes, &script, context)?;
        let (script, args) = (script.bytes, self.args);
        Ok(Submission { spec, export, script, args, parsable, json, wait, quiet, test_only, offline, spoken })
    }
}

/// An error that belongs to the command as a whole.
fn general(what: &str, problem: Problem) -> AskError {
    AskError { place: None, what: what.into(), problem, hint: None }
}

fn spoken(wishes: &Wishes) -> Vec<String> {
    let mut all: Vec<_> = wishes.all.iter().collect();
    all.sort_by_key(|(_, place)| place.rank());
    all.into_iter().map(|(shown, place)| format!("{place}: {shown}")).collect()
}

/// Makes the request.
fn request(mut wishes: Wishes, script: &Script, context: Context<'_>) -> Result<(JobSpec, Export), AskError> {
    let name = match value(wishes.job_name.take()) {
        Some(name) => name,
        None => default_name(script)?,
    };
    let here = directory(context.directory)?;
    let work_dir = match &wishes.chdir {
        None => here.clone(),
        Some(said) if said.value.starts_with('/') => said.value.clone(),
        Some(said) => format!("{}/{}", here.trim_end_matches('/'), said.value),
    };
    let begin = match &wishes.begin {
        None => None,
        Some(said) => Some(
            said.value
                .instant(context.now, (context.zone)())
                .map_err(|problem| AskError::new(&said.place, &said.shown, problem))?,
        ),
    };
    let mut spec = JobSpec {
        name,
        account: value(wishes.account.take()),
        comment: value(wishes.comment.take()).filter(|text| !text.is_empty()),
        qos: value(wishes.qos.take()),
        reservation: value(wishes.reservation.take()),
        licences: value(wishes.licences.take()).unwrap_or_default(),
        partition: value(wishes.partition.take()),
        time_limit: value(wishes.time.take()).flatten(),
        begin,
        hold: is_on(&wishes.hold),
        nice: value(wishes.nice.take()).unwrap_or(0),
        ntasks: wishes.ntasks.as_ref().map(|said| said.value),
        ntasks_per_node: wishes.ntasks_per_node.as_ref().map(|said| said.value),
        cpus_per_task: value(wishes.cpus_per_task.take()),
        memory: MemoryAsk::Default,
        cards: CardAsk::default(),
        gpus_per_node: None,
        gpus_per_task: None,
        features: value(wishes.constraint.take()).unwrap_or_default(),
        nodelist: value(wishes.nodelist.take()).unwrap_or_default(),
        exclude: value(wishes.exclude.take()).unwrap_or_default(),
        exclusive: is_on(&wishes.exclusive),
        work_dir,
        stdout: value(wishes.output.take()),
        stderr: value(wishes.error.take()),
        stdin: value(wishes.input.take()),
        open_mode: value(wishes.open_mode.take()).unwrap_or_default(),
        umask: context.umask,
        limits: context.limits,
        submit_host: context.host.to_owned(),
        submit_dir: here,
        command: script.path().map(|path| path.to_string_lossy().into_owned()),
        test_run: value(wishes.test_run.take()),
        ..JobSpec::default()
    };
    one_node(&wishes)?;
    let cards = cards::together(&wishes, spec.process_count())?;
    spec.memory = memory(&wishes, cards.ask.count)?;
    (spec.cards, spec.gpus_per_node, spec.gpus_per_task) = (cards.ask, cards.per_node, cards.per_task);
    Ok((spec, value(wishes.export.take()).unwrap_or_default()))
}

fn default_name(script: &Script) -> Result<String, AskError> {
    let name = script.job_name();
    values::name(&name).map_err(|problem| {
        AskError::new(&Place::CommandLine, "the job's name, taken from the script's file name", problem)
            .hint("--job-name=NAME")
    })
}

fn directory(path: &Path) -> Result<String, AskError> {
    let text = path.to_str().ok_or(Problem::NotText).and_then(values::path);
    text.map_err(|problem| {
        let what = format!("the working directory {}", crate::shown(&path.to_string_lossy()));
        general(&what, problem)
    })
}

/// Refuses what would need more than one node.
fn one_node(wishes: &Wishes) -> Result<(), AskError> {
    let (Some(tasks), Some(each)) = (&wishes.ntasks, &wishes.ntasks_per_node) else { return Ok(()) };
    if tasks.value <= each.value {
        return Ok(());
    }
    let what = format!("{} with {} (a job on more than one node)", tasks.shown, each.shown);
    let place = if tasks.place.rank() <= each.place.rank() { &tasks.place } else { &each.place };
    Err(AskError::new(place, "", Problem::NotBuilt(what)))
}

/// The memory that the options of the highest place ask for: one of the three.
fn memory(wishes: &Wishes, cards: u32) -> Result<MemoryAsk, AskError> {
    let per_node = |size| if size == MiB(0) { MemoryAsk::WholeNode } else { MemoryAsk::PerNode(size) };
    type Way<'a> = (&'a Option<Said<MiB>>, fn(MiB) -> MemoryAsk);
    let ways: [Way<'_>; 3] = [
        (&wishes.mem, per_node),
        (&wishes.mem_per_cpu, MemoryAsk::PerCpu),
        (&wishes.mem_per_gpu, MemoryAsk::PerCard),
    ];
    let ways = ways.into_iter().filter_map(|(way, make)| way.as_ref().map(|said| (said, make)));
    let top = ways.clone().map(|(said, _)| said.place.rank()).max().unwrap_or(0);
    let mut found: Option<(&Said<MiB>, MemoryAsk)> = None;
    for (said, make) in ways.filter(|(said, _)| !said.is_below(top)) {
        if let Some((other, _)) = found {
            let other = cards::with_place(&other.shown, &other.place);
            return Err(AskError::new(&said.place, &said.shown, Problem::Contradicts(other)));
        }
        found = Some((said, make(said.value)));
    }
    match found {
        Some((said, MemoryAsk::PerCard(_))) if cards == 0 => {
            Err(AskError::new(&said.place, &said.shown, Problem::Other("the job asks for no cards"))
                .hint("--mem=SIZE, or --gpus=N"))
        }
        found => Ok(found.map_or(MemoryAsk::Default, |(_, ask)| ask)),
    }
}
