//! Resolving: everything that was said becomes one request.

use crate::{
    AskError, CommandLine, Export, Place, Problem, Script, ScriptName,
    begin::Begin,
    cards, items,
    life::ArrayWord,
    line::{read_directives, read_environment},
    said::{Said, Wishes, is_on, value},
    trial::Trial,
    values, warnings,
};
use clap::Command;
use gq_model::{
    ArrayAsk, CardAsk, IndexSet, JobSpec, MAX_SCRIPT, MailAsk, MemoryAsk, MiB, ResourceLimit, TimeAsk,
    Timestamp,
};
use jiff::tz::TimeZone;
use std::{ffi::OsString, io, path::Path};

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
    /// Reads a file that an option names: so many bytes and, if there are more, one more.
    pub read: &'a dyn Fn(&Path, usize) -> io::Result<Vec<u8>>,
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
    /// The script that runs first (`--prep`); empty when there is none.
    pub prep: Vec<u8>,
    /// What each task of the array is for, by its index (`--each`); empty when that was not said.
    pub items: Vec<Vec<u8>>,
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
    /// What was asked for, when this is a trial of it; then it is waited for, too.
    pub trial: Option<Box<JobSpec>>,
    /// What was said and where, a line each, when `--verbose` was said; else nothing.
    pub spoken: Vec<String>,
    /// What was taken though it changes nothing, or is hardly what was meant, a line each; nothing with `--quiet`.
    pub warnings: Vec<String>,
}

/// How the user wants to be answered.
pub(crate) struct Manner {
    parsable: bool,
    json: bool,
    wait: bool,
    quiet: bool,
    test_only: bool,
    offline: bool,
    trial: Option<Trial>,
    spoken: Vec<String>,
    warnings: Vec<String>,
}

impl Manner {
    pub fn of(wishes: &Wishes) -> Result<Self, AskError> {
        let (wait, test_only, offline) =
            (is_on(&wishes.wait), is_on(&wishes.test_only), is_on(&wishes.offline));
        if offline && (wait || test_only) {
            let other = if wait { "--wait" } else { "--test-only" };
            return Err(general("--offline", Problem::Contradicts(other.into())));
        }
        let trial = Trial::of(wishes);
        if trial.is_some() && (offline || test_only) {
            let other = if offline { "--offline" } else { "--test-only" };
            return Err(general("--trial", Problem::Contradicts(other.into())));
        }
        Ok(Self {
            parsable: is_on(&wishes.parsable),
            json: is_on(&wishes.json),
            wait: wait || trial.is_some(),
            quiet: is_on(&wishes.quiet),
            test_only,
            offline,
            trial,
            spoken: if is_on(&wishes.verbose) { spoken(wishes) } else { Vec::new() },
            warnings: warnings::idle(wishes),
        })
    }

    pub fn submission(
        self,
        spec: JobSpec,
        export: Export,
        script: Vec<u8>,
        args: Vec<OsString>,
        prep: Vec<u8>,
        items: Vec<Vec<u8>>,
    ) -> Submission {
        let Self { parsable, json, wait, quiet, test_only, offline, trial, spoken, mut warnings } = self;
        let (spec, trial) = match trial {
            Some(trial) => (trial.request(&spec), Some(Box::new(spec))),
            None => (spec, None),
        };
        warnings.extend(warnings::shared_files(&spec));
        if quiet {
            warnings.clear();
        }
        Submission {
            spec,
            export,
            script,
            args,
            prep,
            items,
            parsable,
            json,
            wait,
            quiet,
            test_only,
            offline,
            trial,
            spoken,
            warnings,
        }
    }
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
        let mut wishes = self.wishes;
        let manner = Manner::of(&wishes)?;
        let prep = prep(&wishes, context.read)?;
        let (array, items) = array(&mut wishes, context.read)?;
        let (spec, export) = request(wishes, array, &script, context)?;
        Ok(manner.submission(spec, export, script.bytes, self.args, prep, items))
    }
}

/// An error that belongs to the command as a whole.
fn general(what: &str, problem: Problem) -> AskError {
    AskError { place: None, what: what.into(), problem, hint: None }
}

fn spoken(wishes: &Wishes) -> Vec<String> {
    let mut all: Vec<_> = wishes.all.iter().collect();
    all.sort_by_key(|heard| heard.place.rank());
    all.into_iter().map(|heard| format!("{}: {}", heard.place, heard.shown)).collect()
}

type Reader<'a> = &'a dyn Fn(&Path, usize) -> io::Result<Vec<u8>>;

/// The script of `--prep`, checked like the other one.
fn prep(wishes: &Wishes, read: Reader<'_>) -> Result<Vec<u8>, AskError> {
    let Some(said) = &wishes.prep else { return Ok(Vec::new()) };
    let bytes = read(Path::new(&said.value), MAX_SCRIPT)
        .map_err(|e| AskError::new(&said.place, &said.shown, e.into()))?;
    let script = Script { name: ScriptName::File(said.value.clone().into()), bytes };
    script.check()?;
    Ok(script.bytes)
}

/// The array, and what each of its tasks is for: of `--array` and `--each` the one that was said at the higher place.
fn array(wishes: &mut Wishes, read: Reader<'_>) -> Result<(Option<ArrayAsk>, Vec<Vec<u8>>), AskError> {
    let (array, each) = (wishes.array.take(), wishes.each.take());
    let Some(each) = each else {
        return match array {
            None => Ok((None, Vec::new())),
            Some(Said { value: ArrayWord::Tasks(tasks), .. }) => Ok((Some(tasks), Vec::new())),
            Some(Said { value: ArrayWord::AtOnce(_), shown, place }) => {
                Err(AskError::new(&place, shown, Problem::Other("which tasks there are is not said"))
                    .hint("indices such as 0-99%4, or --each=FILE beside it"))
            }
        };
    };
    let at_once = match array {
        None => None,
        Some(Said { value: ArrayWord::AtOnce(most), .. }) => most,
        Some(Said { value: ArrayWord::Tasks(tasks), place, .. }) if place.rank() > each.place.rank() => {
            return Ok((Some(tasks), Vec::new()));
        }
        Some(tasks) if tasks.is_below(each.place.rank()) => None,
        Some(tasks) => {
            let other = cards::with_place(&tasks.shown, &tasks.place);
            return Err(AskError::new(&each.place, &each.shown, Problem::Contradicts(other))
                .hint("--array=%N beside it says how many run at a time"));
        }
    };
    let bytes = read(Path::new(&each.value), items::MAX_ITEMS)
        .map_err(|e| AskError::new(&each.place, &each.shown, e.into()))?;
    let items = items::read(&bytes).map_err(|(line, problem)| match line {
        0 => AskError::new(&each.place, &each.shown, problem),
        _ => AskError::new(&Place::Script { name: crate::shown(&each.value).into(), line }, "", problem),
    })?;
    // There are no more than `MAX_TASKS` of them.
    let last = u32::try_from(items.len().saturating_sub(1)).unwrap_or(u32::MAX);
    Ok((Some(ArrayAsk::of(IndexSet::range(0, last), at_once)), items))
}

/// The instant that was said.
pub(crate) fn instant(said: &Said<Begin>, context: &Context<'_>) -> Result<Timestamp, AskError> {
    said.value
        .instant(context.now, (context.zone)())
        .map_err(|problem| AskError::new(&said.place, &said.shown, problem))
}

/// Refuses times that no job could keep.
pub(crate) fn check_times(spec: &JobSpec, now: Timestamp, place: &Place) -> Result<(), AskError> {
    let refused = |what: &str, problem| Err(AskError::new(place, what, problem));
    match spec.deadline {
        Some(deadline) if deadline <= now => {
            return refused("--deadline", Problem::Other("that time has passed"));
        }
        Some(deadline) if spec.begin.is_some_and(|begin| begin >= deadline) => {
            return refused("--deadline", Problem::Contradicts("--begin, which is not before it".into()));
        }
        _ => {}
    }
    match (spec.time_min, spec.time_limit) {
        (Some(least), Some(TimeAsk::Limit(limit))) if least > limit => {
            refused("--time-min", Problem::Contradicts(format!("--time={limit}, which is less")))
        }
        _ => Ok(()),
    }
}

/// Makes the request.
fn request(
    mut wishes: Wishes,
    array: Option<ArrayAsk>,
    script: &Script,
    context: Context<'_>,
) -> Result<(JobSpec, Export), AskError> {
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
    let at = |said: &Option<Said<Begin>>| said.as_ref().map(|said| instant(said, &context)).transpose();
    let (begin, deadline) = (at(&wishes.begin)?, at(&wishes.deadline)?);
    let place = wishes.deadline.as_ref().map(|said| said.place.clone());
    let place = place.or_else(|| wishes.time_min.as_ref().map(|said| said.place.clone()));
    let limits = match value(wishes.propagate.take()) {
        None => context.limits,
        Some(chosen) => chosen.choose(context.limits),
    };
    let mail = MailAsk {
        on: value(wishes.mail_type.take()).unwrap_or_default(),
        to: value(wishes.mail_user.take()),
    };
    let mut spec = JobSpec {
        name,
        account: value(wishes.account.take()),
        comment: value(wishes.comment.take()).filter(|text| !text.is_empty()),
        qos: value(wishes.qos.take()),
        reservation: value(wishes.reservation.take()),
        licences: value(wishes.licences.take()).unwrap_or_default(),
        partition: value(wishes.partition.take()),
        time_limit: value(wishes.time.take()),
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
        limits,
        submit_host: context.host.to_owned(),
        submit_dir: here,
        command: script.path().map(|path| path.to_string_lossy().into_owned()),
        array,
        dependency: value(wishes.dependency.take()),
        kill_on_invalid_dep: value(wishes.kill_on_invalid_dep.take()),
        prep: wishes.prep.is_some(),
        time_min: value(wishes.time_min.take()),
        deadline,
        signal: value(wishes.signal.take()),
        max_wait: value(wishes.max_wait.take()),
        requeue: value(wishes.requeue.take()),
        retry: value(wishes.retry.take()).filter(|retry| retry.times > 0),
        checkpoint: value(wishes.checkpoint.take()),
        get_user_env: value(wishes.get_user_env.take()),
        container: value(wishes.container.take()),
        mail: Some(mail).filter(|mail| !mail.on.is_empty()),
        idle_ok: value(wishes.idle_ok.take()),
        test_run: value(wishes.test_run.take()),
    };
    check_times(&spec, context.now, place.as_ref().unwrap_or(&Place::CommandLine))?;
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
pub(crate) fn memory(wishes: &Wishes, cards: u32) -> Result<MemoryAsk, AskError> {
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
