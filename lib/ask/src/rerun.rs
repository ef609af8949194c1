//! `--rerun-failed`: a job that was submitted becomes a request again, for the tasks of it that did not complete.

use crate::{
    AskError, CommandLine, Context, Export, Place, Problem, Submission,
    life::ArrayWord,
    resolve::{Manner, instant, memory},
    said::{Wishes, is_on, value},
};
use gq_model::{ArrayAsk, IndexSet, JobSpec, MemoryAsk};

/// What may be said anew beside `--rerun-failed`.
const ANEW: &[&str] = &[
    "rerun-failed",
    "conf",
    "parsable",
    "json",
    "wait",
    "quiet",
    "verbose",
    "test-only",
    "job-name",
    "partition",
    "account",
    "qos",
    "reservation",
    "time",
    "time-min",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "array",
    "dependency",
    "begin",
    "deadline",
    "hold",
    "nice",
    "comment",
    "nodelist",
    "exclude",
    "retry",
    "max-wait",
    "mail-type",
    "mail-user",
];

/// A job of which something failed.
pub struct Failed {
    /// What was asked for it.
    pub spec: JobSpec,
    /// Its script.
    pub script: Vec<u8>,
    /// Its arguments.
    pub args: Vec<std::ffi::OsString>,
    /// The script that prepares it; empty when there is none.
    pub prep: Vec<u8>,
    /// What each task is for, by its index; empty when that was not said.
    pub items: Vec<Vec<u8>>,
    /// The tasks that did not complete.
    pub tasks: IndexSet,
    /// Whether it is an array.
    pub array: bool,
}

impl CommandLine {
    /// Makes the submission of the tasks of `old` that failed: its request, less what was for the first time only, with what the command
    /// line says anew. Variables and directives do not count.
    ///
    /// # Errors
    /// [`AskError`] when something is said that cannot be said of a job that has its script.
    pub fn again(self, old: Failed, context: Context<'_>) -> Result<Submission, AskError> {
        let mut wishes = self.wishes;
        if let Some(heard) = wishes.all.iter().find(|heard| !ANEW.contains(&heard.long)) {
            let problem = Problem::Other("cannot be said anew beside --rerun-failed");
            return Err(AskError::new(&heard.place, &heard.shown, problem)
                .hint("a new submission, or leave it out: what was said then counts"));
        }
        let manner = Manner::of(&wishes)?;
        let mut spec = JobSpec { begin: None, hold: false, dependency: None, ..old.spec };
        spec.deadline = spec.deadline.filter(|deadline| *deadline > context.now);
        let at_once = at_once(&mut wishes, &spec, old.array)?;
        spec.array = old.array.then(|| ArrayAsk::of(old.tasks, at_once));
        say_anew(&mut wishes, &mut spec, &context)?;
        Ok(manner.submission(spec, Export::default(), old.script, old.args, old.prep, old.items))
    }
}

/// How many tasks may run at a time: `--array=%N`, else as before.
fn at_once(wishes: &mut Wishes, spec: &JobSpec, array: bool) -> Result<Option<u32>, AskError> {
    let before = spec.array.as_ref().and_then(|array| array.at_once);
    match wishes.array.take() {
        None => Ok(before),
        Some(said) => match said.value {
            ArrayWord::AtOnce(most) if array => Ok(most),
            ArrayWord::AtOnce(_) | ArrayWord::Tasks(_) => Err(AskError::new(
                &said.place,
                &said.shown,
                Problem::Other("the tasks are those that failed; only %N can be said, of an array"),
            )),
        },
    }
}

fn say_anew(wishes: &mut Wishes, spec: &mut JobSpec, context: &Context<'_>) -> Result<(), AskError> {
    macro_rules! anew {
        ($($said:ident => $field:ident),*) => { $(if let Some(said) = wishes.$said.take() {
            spec.$field = said.value.into();
        })* };
    }
    if let Some(begin) = &wishes.begin {
        spec.begin = Some(instant(begin, context)?);
    }
    if let Some(deadline) = &wishes.deadline {
        spec.deadline = Some(instant(deadline, context)?);
    }
    match memory(wishes, spec.cards.count)? {
        MemoryAsk::Default => {}
        asked => spec.memory = asked,
    }
    spec.hold = is_on(&wishes.hold);
    anew!(
        job_name => name, partition => partition, account => account, qos => qos, reservation => reservation,
        time => time_limit, time_min => time_min, dependency => dependency, nice => nice, comment => comment,
        nodelist => nodelist, exclude => exclude, max_wait => max_wait
    );
    if let Some(retry) = value(wishes.retry.take()) {
        spec.retry = Some(retry).filter(|retry| retry.times > 0);
    }
    let mut mail = spec.mail.take().unwrap_or_default();
    if let Some(on) = value(wishes.mail_type.take()) {
        mail.on = on;
    }
    mail.to = value(wishes.mail_user.take()).or(mail.to);
    spec.mail = Some(mail).filter(|mail| !mail.on.is_empty());
    // What the command line says is to be as sound as it would be in a new request.
    crate::resolve::check_times(spec, context.now, &Place::CommandLine)
}
