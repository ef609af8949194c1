//! Fields: everything that can be shown of a run in a column, each declared once with its names and heading; sacct's names where the meaning is
//! the same.

use crate::{
    select::split,
    stat::{
        clock::Clock,
        table::Column,
        used::{card_memory, energy, percent},
    },
    trouble::Trouble,
};
use gq_model::{Seconds, Timestamp, Used, format_limit, format_size};
use gq_proto::RunView;

struct Declared {
    field: Field,
    names: &'static [&'static str],
    help: &'static str,
}

macro_rules! fields {
    ($($name:ident [$($word:literal)*] $head:literal $right:literal $help:literal;)*) => {
        /// Something that can be shown of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field { $(#[doc = $help] $name,)* }
        const FIELDS: &[Declared] = &[$(Declared { field: Field::$name, names: &[$($word),*], help: $help },)*];
        impl Field {
            /// Its heading.
            const fn head(self) -> &'static str { match self { $(Self::$name => $head,)* } }
            /// Whether its column is read from the right.
            const fn is_right(self) -> bool { match self { $(Self::$name => $right,)* } }
        }
    };
}
fields! {
    Id ["jobid"] "JOBID" true "the job, or the task of an array: 17, 17_3; 17_[4-9] never started";
    Job ["jobidraw" "job"] "JOB" true "the job's number, the same for all tasks of an array";
    Name ["jobname" "name"] "NAME" false "the job's name";
    User ["user"] "USER" false "whose it is";
    Uid ["uid"] "UID" true "whose it is, as a number";
    Account ["account"] "ACCOUNT" false "the account it was charged to, or its label for accounting";
    Partition ["partition"] "PARTITION" false "its partition";
    Qos ["qos"] "QOS" false "its quality of service (QOS)";
    State ["state"] "STATE" false "the state in which it ended";
    Reason ["reason"] "REASON" false "why it ended so";
    Detail ["reasondetail"] "REASON_DETAIL" false "more about the reason";
    Exit ["exitcode"] "EXIT" true "exit code and signal of its script, as 1:0";
    Run ["run"] "RUN" true "which attempt it was";
    Again ["again"] "AGAIN" false "yes when its task went on afterwards";
    Restarts ["restarts"] "RESTARTS" true "how often its script was begun before";
    Submit ["submit"] "SUBMIT" false "when its job was submitted";
    Start ["start"] "START" false "when its script was started";
    End ["end"] "END" false "when it ended";
    Planned ["planned" "wait"] "PLANNED" true "how long its job had waited when it was given its resources";
    Elapsed ["elapsed"] "ELAPSED" true "how long its script ran";
    ElapsedRaw ["elapsedraw"] "ELAPSED_RAW" true "the same in seconds";
    Suspended ["suspended"] "SUSPENDED" true "how long it was suspended";
    Limit ["timelimit"] "TIMELIMIT" true "how long it might run";
    Node ["nodelist" "node"] "NODE" false "where it ran";
    Cpus ["alloccpus" "ncpus" "cpus"] "CPUS" true "the cpus it held";
    Memory ["reqmem" "memory"] "MEMORY" true "the memory it held";
    Gpus ["gpus"] "GPUS" false "the cards and slices it held: how many of which";
    GpuIds ["gpuids"] "GPU_IDS" false "which: index, or index:profile";
    Cards ["cards"] "CARDS" true "what they are worth in cards: a slice is its part of one";
    CpuTime ["cputime"] "CPUTIME" true "cpus times the time that it held them";
    CpuTimeRaw ["cputimeraw"] "CPUTIME_RAW" true "the same in seconds";
    CpuUsed ["totalcpu"] "TOTAL_CPU" true "the cpu time that it used";
    MemoryUsed ["maxrss"] "MAX_RSS" true "the most memory that it used at a time";
    CardsUsed ["gpuutil"] "GPU_UTIL" true "how busy its cards were on average; slices and shares: how much of the time a process held them";
    CardMemory ["gpumem"] "GPU_MEM" true "the most memory that it used of one of its cards";
    Energy ["consumedenergy"] "ENERGY" true "the energy that its cards took, in joules";
    Release ["release"] "RELEASE" true "from its end to all it held being free again, in seconds";
    FirstPromise ["firstpromise"] "FIRST_PROMISE" false "the start that its job was promised first";
    LastPromise ["lastpromise"] "LAST_PROMISE" false "the start that it was promised last";
    PromiseError ["promiseerror"] "PROMISE_ERROR" true "by how much it started later than was promised first; earlier with a -";
}

/// What is shown in a table where there is nothing.
const NOTHING: &str = "-";

/// All fields, as a text of the manual.
pub(super) fn help() -> String {
    let mut text = String::from("Fields:\n");
    for declared in FIELDS {
        text.push_str(&format!("  {}: {}\n", declared.names.join(" or "), declared.help));
    }
    text
}

/// Reads a list of fields.
///
/// # Errors
/// A name that is none (exit code 2).
pub(super) fn columns(list: &str) -> Result<Vec<Column<Field>>, Trouble> {
    let mut columns = Vec::new();
    for word in split(list) {
        let is_it = |declared: &&Declared| declared.names.iter().any(|name| name.eq_ignore_ascii_case(word));
        let Some(declared) = FIELDS.iter().find(is_it) else {
            let known: Vec<&str> =
                FIELDS.iter().filter_map(|declared| declared.names.first().copied()).collect();
            return Err(Trouble::usage(format!("--format: `{word}` is no field")).with_hint(known.join(" ")));
        };
        let field = declared.field;
        columns.push(Column { right: field.is_right(), ..Column::new(field, field.head()) });
    }
    if columns.is_empty() {
        return Err(Trouble::usage("--format: an empty list"));
    }
    Ok(columns)
}

impl Field {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        let declared = FIELDS.iter().find(|declared| declared.field == self);
        declared.and_then(|declared| declared.names.first().copied()).unwrap_or_default()
    }

    /// Writes what it says of a run into a cell of a table, unescaped.
    pub(super) fn write(self, run: &RunView, clock: &Clock, cell: &mut String) {
        cell.push_str(&self.text(run, clock).unwrap_or_else(|| NOTHING.to_owned()));
    }

    /// The same where nothing is nothing.
    pub(super) fn plain(self, run: &RunView, clock: &Clock) -> String {
        self.text(run, clock).unwrap_or_default()
    }

    fn text(self, run: &RunView, clock: &Clock) -> Option<String> {
        let time = |at: Option<Timestamp>| at.and_then(|at| clock.civil(at));
        let span = |micros: u64| Some(Seconds(micros / 1_000_000).to_string());
        match self {
            Self::Id => Some(id(run)),
            Self::Job => Some(run.id.to_string()),
            Self::Name => run.name.clone(),
            Self::User => Some(run.user.clone()),
            Self::Uid => Some(run.uid.to_string()),
            Self::Account => run.account.clone(),
            Self::Partition => Some(run.partition.clone()),
            Self::Qos => run.qos.clone(),
            Self::State => Some(run.state.clone()),
            Self::Reason => Some(run.reason.word().to_owned()),
            Self::Detail => run.reason_detail.clone(),
            Self::Exit => exit(run),
            Self::Run => Some(run.run.to_string()),
            Self::Again => Some(if run.again { "yes" } else { "no" }.to_owned()),
            Self::Restarts => Some(run.restarts.to_string()),
            Self::Submit => time(Some(run.submit_time)),
            Self::Start => time(run.start_time),
            Self::End => time(Some(run.end_time)),
            Self::Planned => span(run.allocated.or(run.start_time)?.micros_since(run.submit_time)),
            Self::Elapsed => span(run.ran()),
            Self::ElapsedRaw => Some((run.ran() / 1_000_000).to_string()),
            Self::Suspended => span(run.suspended),
            Self::Limit => Some(format_limit(run.time_limit)),
            Self::Node => run.node.as_ref().map(ToString::to_string),
            Self::Cpus => Some(run.cpus.to_string()),
            Self::Memory => Some(format_size(run.memory_mib)),
            Self::Gpus => Some(gpus(run)),
            Self::GpuIds => gpu_ids(run),
            Self::Cards => Some(format!("{:.3}", f64::from(run.worth) / 1e3)),
            Self::CpuTime => span(run.held().saturating_mul(u64::from(run.cpus))),
            Self::CpuTimeRaw => {
                Some((run.held().saturating_mul(u64::from(run.cpus)) / 1_000_000).to_string())
            }
            Self::FirstPromise => time(run.first_promise),
            Self::LastPromise => time(run.last_promise),
            Self::PromiseError => late(run),
            Self::CpuUsed
            | Self::MemoryUsed
            | Self::CardsUsed
            | Self::CardMemory
            | Self::Energy
            | Self::Release => self.used(run, run.used.as_deref()?),
        }
    }

    fn used(self, run: &RunView, used: &Used) -> Option<String> {
        match self {
            Self::CpuUsed => Some(Seconds(used.cpu? / 1_000_000).to_string()),
            Self::MemoryUsed => Some(format_size(used.memory?)),
            Self::CardsUsed => Some(percent(u64::from(used.busy()?))),
            Self::CardMemory => Some(format_size(card_memory(used)?)),
            Self::Energy => Some(energy(used)?.to_string()),
            _ => Some(format!("{:.3}", used.released?.micros_since(run.end_time) as f64 / 1e6)),
        }
    }
}

/// A run as people name its job or task.
pub(super) fn id(run: &RunView) -> String {
    match (&run.array_tasks, run.array_task_id) {
        (Some(tasks), _) => format!("{}_[{tasks}]", run.id),
        (None, Some(task)) => format!("{}_{task}", run.id),
        (None, None) => run.id.to_string(),
    }
}

fn exit(run: &RunView) -> Option<String> {
    match (run.exit_code, run.signal) {
        (None, None) => None,
        (code, signal) => Some(format!("{}:{}", code.unwrap_or(0), signal.unwrap_or(0))),
    }
}

/// `0`, `2`, `1x1g.10gb,1`, `share:10G`.
fn gpus(run: &RunView) -> String {
    let mut kinds: Vec<(String, u32)> = Vec::new();
    for gpu in &run.gpus {
        let kind = match (&gpu.slice, gpu.share_mib) {
            (Some(profile), _) => format!("x{profile}"),
            (None, Some(share)) => format!("share:{}", format_size(share)),
            (None, None) => String::new(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let words = kinds.into_iter().map(|(kind, count)| match kind.starts_with("share") {
        true => kind,
        false => format!("{count}{kind}"),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "0".to_owned() } else { words.join(",") }
}

fn gpu_ids(run: &RunView) -> Option<String> {
    let one = |gpu: &gq_proto::GpuView| match &gpu.slice {
        Some(profile) => format!("{}:{profile}", gpu.index),
        None => gpu.index.to_string(),
    };
    let all: Vec<String> = run.gpus.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn late(run: &RunView) -> Option<String> {
    let micros = run.start_time?.0.saturating_sub(run.first_promise?.0);
    let seconds = Seconds(micros.unsigned_abs() / 1_000_000);
    Some(format!("{}{seconds}", if micros < 0 && seconds.0 > 0 { "-" } else { "" }))
}
