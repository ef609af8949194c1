//! The table of options: the one place where an option is declared. Parser, environment, directives, help, man page and
//! completions come from it.

use crate::{
    Problem,
    begin::Begin,
    cards,
    export::Export,
    licences::licences,
    life::{self, Propagate},
    said::{Wishes, Word, put},
    trial, values,
};
use clap::{Arg, ArgAction, Command, ValueHint, builder::OsStringValueParser};

/// What the names of variables that say options begin with: `GQSUB_CPUS_PER_TASK` says `--cpus-per-task`.
pub const ENV_PREFIX: &str = "GQSUB_";

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing: a switch.
    Nothing,
    /// A value of this name.
    Value(&'static str),
    /// A value of this name, behind `=`, or none.
    Maybe(&'static str),
}

/// An option.
pub(crate) struct Row {
    pub long: &'static str,
    pub alias: Option<&'static str>,
    pub short: Option<char>,
    pub takes: Takes,
    pub help: &'static str,
    /// Whether it counts on the command line only.
    pub here_only: bool,
    pub hidden: bool,
    pub set: fn(&mut Wishes, Word<'_>) -> Result<(), Problem>,
}

/// The setter that reads a value with `$read` and keeps it as `$field`.
macro_rules! keep {
    ($field:ident, $read:expr) => {
        |wishes, word| {
            put(&mut wishes.$field, word, $read(word.text()?)?);
            Ok(())
        }
    };
}

const fn row(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    help: &'static str,
    set: fn(&mut Wishes, Word<'_>) -> Result<(), Problem>,
) -> Row {
    Row { long, alias: None, short, takes, help, here_only: false, hidden: false, set }
}

use Takes::{Maybe, Nothing, Value};

/// All options, in the order of the help text.
#[rustfmt::skip]
pub(crate) static TABLE: &[Row] = &[
    row("job-name", Some('J'), Value("NAME"), "Name of the job; the script's file name when not said", keep!(job_name, values::name)),
    row("partition", Some('p'), Value("NAME"), "Partition to run in", keep!(partition, values::partition)),
    row("time", Some('t'), Value("LIMIT"), "Longest run: minutes, M:SS, H:MM:SS, D-H, D-H:MM[:SS], or 90s 30m 4h 2d; UNLIMITED or 0: as long as the partition allows", keep!(time, values::limit)),
    row("nodes", Some('N'), Value("N[-M]"), "Number of nodes; a job has one node in this version", |_, word| values::nodes(word.text()?)),
    row("ntasks", Some('n'), Value("N"), "Number of processes the job means to launch", keep!(ntasks, values::count)),
    row("cpus-per-task", Some('c'), Value("N"), "Cpus for each of these processes", keep!(cpus_per_task, values::count)),
    Row { alias: Some("tasks-per-node"), ..row("ntasks-per-node", None, Value("N"), "Number of processes on each node", keep!(ntasks_per_node, values::count)) },
    row("mem", None, Value("SIZE"), "Memory on the node: 512M, 40G, 1T, a bare number means MiB; 0: all of it", keep!(mem, values::memory)),
    row("mem-per-cpu", None, Value("SIZE"), "Memory for each cpu", keep!(mem_per_cpu, values::some_memory)),
    row("mem-per-gpu", None, Value("SIZE"), "Memory of the node for each card or slice", keep!(mem_per_gpu, values::some_memory)),
    row("gpus", Some('G'), Value("[MODEL:]N"), "Cards for the job: 2, a100 or a100:2; or slices: 1g.10gb:2", keep!(gpus, cards::cards)),
    row("gpus-per-node", None, Value("[MODEL:]N"), "Cards on each node", keep!(gpus_per_node, cards::cards)),
    row("gpus-per-task", None, Value("[MODEL:]N"), "Cards for each process (see --ntasks)", keep!(gpus_per_task, cards::cards)),
    row("gres", None, Value("gpu[:MODEL][:N]"), "Cards on each node, in the words of Slurm: gpu:a100:2, or gpu:1g.10gb:2 for slices", keep!(gres, cards::gres)),
    row("slice", None, Value("PROFILE[:N]"), "Slices (MIG instances) in place of cards: 1g.10gb or 1g.10gb:2; a process can use one", keep!(slice, cards::slices)),
    row("gpu-mem", None, Value("SIZE"), "Least memory of each card or slice, as it is sold; alone, it asks for one", keep!(gpu_mem, values::some_memory)),
    row("gpu-share", None, Value("SIZE"), "A share of one card with so much of its memory, where the partition allows it; a job that uses more is ended", keep!(gpu_share, values::some_memory)),
    row("output", Some('o'), Value("PATTERN"), "File for standard output, with %j %A %a %x %u %N %n %t %%; gq-%j.out when not said, gq-%A_%a.out in an array", keep!(output, values::path)),
    row("error", Some('e'), Value("PATTERN"), "File for standard error; the one for standard output when not said", keep!(error, values::path)),
    row("input", Some('i'), Value("PATTERN"), "File for standard input; /dev/null when not said", keep!(input, values::path)),
    row("open-mode", None, Value("MODE"), "append or truncate: what happens to output files that exist; truncate when not said", keep!(open_mode, values::open_mode)),
    row("chdir", Some('D'), Value("DIR"), "Directory to run in; the present one when not said", keep!(chdir, values::path)),
    row("export", None, Value("LIST"), "Environment of the job: ALL (when not said), NONE, ALL,NAME=value,NAME or NAME=value,NAME; a value with commas in quotes", |wishes, word| {
        put(&mut wishes.export, word, Export::read(word.raw)?);
        Ok(())
    }),
    row("hold", Some('H'), Nothing, "Hold the job until it is released", keep!(hold, values::switch)),
    row("begin", None, Value("TIME"), "Do not start before: 16:00, noon, midnight, teatime, today, tomorrow, 2027-01-31[T16:00[:00]], 01/31[/27], 013127, now+2hours", keep!(begin, Begin::read)),
    row("nice", None, Maybe("N"), "Lower the priority by N (100 when not said); below 0 for admins only", keep!(nice, values::nice)),
    row("array", Some('a'), Value("INDICES[%N]"), "Make the job an array of a task for each index: 0-99, 1-9:2, 1,4,7-9; at most N run at a time; %N alone goes with --each", keep!(array, life::array)),
    row("each", None, Value("FILE"), "Make the job an array of a task for each line of this file; the task finds its line in GQ_ITEM", keep!(each, values::path)),
    row("dependency", Some('d'), Value("TYPE:ID[:ID...]"), "Wait for other jobs: after[:ID+MINUTES], afterany, afterok, afternotok, aftercorr, singleton; joined by , all of them, by ? one of them", keep!(dependency, str::parse)),
    row("kill-on-invalid-dep", None, Value("yes|no"), "End the job, or keep it waiting, when its dependency can no longer be met", keep!(kill_on_invalid_dep, life::yes_no)),
    row("prep", None, Value("SCRIPT"), "Run this script first, on cpus alone; the cards are taken only when it has ended well; of an array once for all tasks, as its first one", keep!(prep, values::path)),
    row("time-min", None, Value("LIMIT"), "The time limit may be lowered so far when the job starts earlier by that", keep!(time_min, values::some_time)),
    row("deadline", None, Value("TIME"), "End the job when it cannot end by then; as --begin", keep!(deadline, Begin::read)),
    row("signal", None, Value("[B:]SIGNAL[@SECONDS]"), "Send this signal so long (60 s when not said) before the time limit; with B: to the script's shell alone, else to all other processes", keep!(signal, life::signal)),
    row("max-wait", None, Value("DURATION[:notify|boost|cancel]"), "When the job has waited so long: tell its user (when not said), give it the priority of the longest wait, or cancel it", keep!(max_wait, life::max_wait)),
    row("requeue", None, Maybe("on-lost"), "Run the job again when its node failed or it made room for another; with on-lost also when its node is cut off: the run then ends itself", keep!(requeue, life::requeue)),
    row("no-requeue", None, Nothing, "Never run the job again by itself", keep!(requeue, life::no_requeue)),
    row("retry", None, Value("N[:EXIT[,EXIT...]]"), "Try a task that failed so often again, with growing pauses; after these exit codes only", keep!(retry, life::retry)),
    row("checkpoint", None, Maybe("DIR"), "Folder that stays through all runs of the job, its name in GQ_CHECKPOINT_DIR; a usual one below the job's directory when not named", keep!(checkpoint, values::folder)),
    row("container", None, Value("IMAGE"), "Run in this container image, by the site's container runtime", keep!(container, values::image)),
    row("get-user-env", None, Maybe("SECONDS"), "Give the job the environment of a login, and wait so long for it (10 s when not said)", keep!(get_user_env, life::login)),
    row("propagate", None, Maybe("LIMITS"), "Which limits of the shell go with the job: ALL (when not said), NONE, or some of AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK", keep!(propagate, Propagate::read)),
    row("mail-type", None, Value("LIST"), "Send messages: NONE, BEGIN, END, FAIL, REQUEUE, IDLE, ALL (these five), TIME_LIMIT_50, TIME_LIMIT_80, TIME_LIMIT_90, ARRAY_TASKS (for each task)", keep!(mail_type, life::mail_type)),
    row("mail-user", None, Value("ADDRESS"), "Whom messages go to; you when not said", keep!(mail_user, life::mail_user)),
    row("idle-ok", None, Value("REASON"), "Why the cards of the job may be idle, where the partition takes that as an excuse; listings show it", keep!(idle_ok, values::excuse)),
    row("comment", None, Value("TEXT"), "A comment that listings show", keep!(comment, values::comment)),
    row("account", Some('A'), Value("NAME"), "Account that the use is counted for", keep!(account, values::label)),
    row("qos", Some('q'), Value("NAME"), "Quality of service; the partition's when not said", keep!(qos, values::qos)),
    row("reservation", None, Value("NAME"), "Run in this advance reservation", keep!(reservation, values::reservation)),
    Row { alias: Some("licences"), ..row("licenses", Some('L'), Value("NAME[:N],..."), "Licences of the cluster to hold while the job runs: houdini:2,denoiser", keep!(licences, licences)) },
    row("nodelist", Some('w'), Value("NODES"), "Run on one of these nodes: ws1,ws[3-5]", keep!(nodelist, values::hosts)),
    row("exclude", Some('x'), Value("NODES"), "Run on none of these nodes", keep!(exclude, values::hosts)),
    row("constraint", Some('C'), Value("FEATURES"), "Run on a node with all these features: a or a&b", keep!(constraint, values::features)),
    row("exclusive", None, Maybe("WHO"), "Let no other job run on the node", keep!(exclusive, values::exclusive)),
    row("parsable", None, Nothing, "Print the job's number only", keep!(parsable, values::switch)),
    row("json", None, Nothing, "Print one JSON object", keep!(json, values::switch)),
    row("test-only", None, Nothing, "Submit nothing; say when and where the job would start", keep!(test_only, values::switch)),
    Row { here_only: true, ..row("trial", None, Maybe("TIME"), "Run the script (of an array its first task) for so long at most (10m when not said), on the smallest card or slice, or on what cards are asked for beside it; wait for the end, and say what to ask for", keep!(trial, trial::span)) },
    row("wait", Some('W'), Nothing, "Wait for the end of the job and exit with its code", keep!(wait, values::switch)),
    Row { here_only: true, ..row("wrap", None, Value("COMMAND"), "Run this shell command instead of a script", |wishes, word| {
        put(&mut wishes.wrap, word, word.raw.to_owned());
        Ok(())
    }) },
    Row { here_only: true, ..row("rerun-failed", None, Value("JOB"), "Submit the tasks of this job that did not complete again, with its script, environment and options; without a script", keep!(rerun_failed, values::job)) },
    row("offline", None, Nothing, "Leave the job in the drop box for a gqd that cannot be reached now, and print its token", keep!(offline, values::switch)),
    row("verbose", Some('v'), Nothing, "Say on standard error which options count and where they were said", keep!(verbose, values::switch)),
    row("quiet", Some('Q'), Nothing, "Print neither the line with the job's number (--parsable and --json still do) nor warnings", keep!(quiet, values::switch)),
    row("wckey", None, Value("NAME"), "Taken for scripts that name one: there are no workload keys here", keep!(wckey, |_| Ok::<_, Problem>(()))),
    row("hint", None, Value("nomultithread"), "Taken for scripts that name it: a cpu here is what the node counts as one", keep!(hint, life::hint)),
    Row { here_only: true, ..row("conf", None, Value("FILE"), "Conf file; $GQ_CONF or /etc/gq/gq.conf when not said", |wishes, word| {
        values::path(word.text()?)?;
        put(&mut wishes.conf, word, word.raw.to_owned());
        Ok(())
    }) },
    Row { hidden: true, ..row("test-run", None, Value("DURATION[:EXIT]"), "Run a sleeper instead of the script", keep!(test_run, values::test_run)) },
];

/// The long names of all options that are shown.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(|row| !row.hidden).map(|row| row.long)
}

/// The option of this long name or alias.
pub(crate) fn find(long: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.long == long || row.alias == Some(long))
}

/// The command line of `gqsub`, made from the table: for parsing, help, man page and completions.
pub fn command() -> Command {
    let script = Arg::new(SCRIPT)
        .value_names(["SCRIPT", "ARG"])
        .num_args(1..)
        .trailing_var_arg(true)
        .value_parser(OsStringValueParser::new())
        .value_hint(ValueHint::CommandWithArguments)
        .help("The script and its arguments; standard input when there is none, or -");
    Command::new("gqsub")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Submit a batch script to gq")
        .override_usage("gqsub [OPTIONS] [SCRIPT [ARG]...]\n       gqsub [OPTIONS] --wrap COMMAND\n       gqsub [OPTIONS] --rerun-failed JOB")
        .after_help(AFTER)
        .args_override_self(true)
        .args(TABLE.iter().map(arg))
        .arg(script)
}

/// The id of the script and its arguments.
pub(crate) const SCRIPT: &str = "script";

const AFTER: &str = "Options are also read from lines of the script that begin with #GQ or #SBATCH, in the comments before its first \
command, and from variables such as GQSUB_CPUS_PER_TASK. The command line wins over variables, variables over the \
script; within the script the last line counts. What Slurm has and gq has not built yet is refused by name.\n\n\
Exit codes: 0 submitted; 1 refused; 2 usage, script or conf error; 3 gqd cannot be reached; 5 not permitted; with \
--wait the job's own.";

fn arg(row: &'static Row) -> Arg {
    let arg = Arg::new(row.long).long(row.long).help(row.help).hide(row.hidden);
    let arg = match row.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    let arg = match row.alias {
        Some(alias) => arg.visible_alias(alias),
        None => arg,
    };
    let valued = |arg: Arg, name: &'static str| {
        arg.action(ArgAction::Append).value_name(name).value_parser(OsStringValueParser::new())
    };
    match row.takes {
        Nothing => arg.action(ArgAction::SetTrue),
        Value(name) => valued(arg, name).allow_hyphen_values(true).value_hint(hint(name)),
        Maybe(name) => valued(arg, name).num_args(0..=1).require_equals(true).default_missing_value(""),
    }
}

fn hint(name: &str) -> ValueHint {
    match name {
        "PATTERN" | "FILE" | "SCRIPT" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        "COMMAND" => ValueHint::CommandString,
        _ => ValueHint::Other,
    }
}
