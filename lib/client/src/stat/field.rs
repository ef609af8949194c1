//! Fields: everything that can be shown of a job in a column, each declared once with its letter, names and heading.

use super::{
    clock::Clock,
    used::{card_memory, energy, percent},
};
use gq_model::{JobState, MiB, Seconds, Timestamp, Used, compress_hosts, format_limit, format_size};
use gq_proto::{GpuView, JobView};
use std::fmt::Write;

/// How a field is declared.
pub(crate) struct Declared {
    /// Which it is.
    pub field: Field,
    /// Its letter after `%`; a blank when it has none.
    pub letter: char,
    /// Its names, the first for show.
    pub names: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! fields {
    ($($name:ident $letter:literal [$($word:literal)*] $head:literal $help:literal;)*) => {
        /// Something that can be shown of a job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Field { $(#[doc = $help] $name,)* }
        /// All fields, in the order of the manual.
        pub(crate) const FIELDS: &[Declared] = &[$(Declared {
            field: Field::$name, letter: $letter, names: &[$($word),*], help: $help,
        },)*];
        impl Field {
            /// Its heading.
            pub(crate) const fn head(self) -> &'static str { match self { $(Self::$name => $head,)* } }
        }
    };
}
fields! {
    Id 'i' ["jobid" "jobarrayid"] "JOBID" "the job, or the task of an array: 17, 17_3, 17_[4-9%2]";
    Job 'A' ["job"] "JOBID" "the job's number, the same for all tasks of an array";
    Array 'F' ["arrayjobid"] "ARRAY_JOB_ID" "the same as %A";
    Task 'K' ["arraytaskid"] "ARRAY_TASK_ID" "the task or tasks of an array";
    Name 'j' ["name" "jobname"] "NAME" "the job's name";
    Partition 'P' ["partition"] "PARTITION" "its partition";
    User 'u' ["user" "username"] "USER" "whose it is";
    Uid 'U' ["userid" "uid"] "UID" "whose it is, as a number";
    Account 'a' ["account"] "ACCOUNT" "the account it is charged to, or its label for accounting";
    Code 't' ["statecompact" "st"] "ST" "its state as a code: PD, R, CG";
    State 'T' ["state"] "STATE" "its state in full: PENDING, RUNNING";
    Reason 'r' ["reason"] "REASON" "why it waits, or why it ended so";
    Where 'R' ["reasonlist" "where"] "NODELIST(REASON)" "its nodes, or in parentheses why it has none";
    Detail ' ' ["reasondetail"] "REASON_DETAIL" "more about the reason";
    Used 'M' ["timeused" "time"] "TIME" "how long it has run";
    Left 'L' ["timeleft"] "TIME_LEFT" "how long it may still run";
    Limit 'l' ["timelimit"] "TIME_LIMIT" "how long it may run";
    Submit 'V' ["submittime"] "SUBMIT_TIME" "when it was submitted";
    Begin ' ' ["begintime" "eligibletime"] "BEGIN_TIME" "before when it may not start";
    Start 'S' ["starttime"] "START_TIME" "when it started, or is expected to";
    End 'e' ["endtime"] "END_TIME" "when it ended, or has to";
    NodeCount 'D' ["numnodes" "nodecount"] "NODES" "how many nodes";
    Nodes 'N' ["nodelist" "nodes"] "NODELIST" "its nodes";
    BatchHost 'B' ["batchhost"] "EXEC_HOST" "the node on which its script runs";
    ExpectedStart ' ' ["expectedstart" "expected_start"] "EXPECTED_START" "when it is expected to start, while it waits";
    Expected 'Y' ["schednodes" "expectednodes"] "SCHEDNODES" "the node it is expected to get";
    FirstPromise ' ' ["firstpromise" "first_promise"] "FIRST_PROMISE" "the start it was promised first";
    LastPromise ' ' ["lastpromise" "last_promise"] "LAST_PROMISE" "the start it was promised last";
    PromiseError ' ' ["promiseerror" "promise_error"] "PROMISE_ERROR" "by how much it started later than it was promised first; earlier with a -";
    Cpus 'C' ["numcpus" "cpus"] "CPUS" "its cpus";
    Memory 'm' ["minmemory" "memory"] "MIN_MEMORY" "its memory";
    Gres 'b' ["gres" "tres-per-node"] "TRES_PER_NODE" "its cards in the words of --gres";
    Gpus ' ' ["gpus" "gpucount"] "GPUS" "its cards and slices: how many of which; share:10G of a card; what it asks for while it waits";
    GpusAsked ' ' ["gpusasked" "gpus_asked" "slices"] "GPUS_ASKED" "the cards or slices it asks for: 2, a100:1, 1g.10gb:2, gpu-mem>=20G, gpu-share=10G";
    GpuIds ' ' ["gpuids"] "GPU_IDS" "the cards and slices it holds: node:index";
    Features 'f' ["feature" "features"] "FEATURES" "features it asks of its node";
    Share 'h' ["oversubscribe"] "OVER_SUBSCRIBE" "OK, or NO when it wants its node alone";
    Priority 'Q' ["priority" "prioritylong"] "PRIORITY" "its place: higher goes first";
    Fraction 'p' ["prioritynormal"] "PRIORITY" "its place as a fraction of the highest there is";
    Qos 'q' ["qos"] "QOS" "its quality of service (QOS)";
    Exclude 'x' ["excnodes"] "EXC_NODES" "nodes it does not want: not told";
    Dependency 'E' ["dependency"] "DEPENDENCY" "what it waits for: afterok:17, singleton";
    Reservation 'v' ["reservation"] "RESERVATION" "the advance reservation it runs in";
    Licences 'W' ["licenses" "licences"] "LICENSES" "the licences it holds while it runs";
    Command 'o' ["command"] "COMMAND" "its script, as it was named";
    WorkDir 'Z' ["workdir"] "WORK_DIR" "its working directory";
    Stdout ' ' ["stdout"] "STDOUT" "its output file";
    Stderr ' ' ["stderr"] "STDERR" "its error file";
    Comment 'k' ["comment"] "COMMENT" "its comment";
    Exit ' ' ["exitcode" "exit_code"] "EXIT_CODE" "exit code and signal of its script, as 1:0";
    CpuUsed ' ' ["totalcpu" "cpu_used"] "TOTAL_CPU" "the cpu time that it used, once it has ended";
    MemoryUsed ' ' ["maxrss" "memory_used"] "MAX_RSS" "the most memory that it used at a time";
    CardsUsed ' ' ["gpuutil" "gpu_used"] "GPU_UTIL" "how busy its cards were on average; slices and shares: how much of the time a process held them";
    CardMemory ' ' ["gpumem" "gpu_memory_used"] "GPU_MEM" "the most memory that it used of one of its cards";
    Energy ' ' ["consumedenergy" "energy"] "ENERGY" "the energy that its cards took, in joules";
    Released ' ' ["released"] "RELEASED" "when what it held was free again";
    Run ' ' ["run"] "RUN" "attempts so far";
    Restarts ' ' ["restartcnt" "restarts"] "RESTARTS" "how often it was started again";
    Stage ' ' ["stage"] "STAGE" "which of its scripts runs or is next, prep or main, when it has one that runs first";
    Suspended ' ' ["suspended"] "SUSPENDED" "since when it is suspended";
    IdleSince ' ' ["idlesince" "idle_since"] "IDLE_SINCE" "since when its cards are idle, if they are";
    IdleUntil ' ' ["idleuntil" "idle_until"] "IDLE_UNTIL" "when it is ended for that, unless it uses them again";
    Deadline ' ' ["deadline"] "DEADLINE" "by when it must have ended";
    TimeMin ' ' ["timemin" "time_min"] "TIME_MIN" "how far its time limit may be lowered to start it earlier";
    Throttle ' ' ["arraythrottle" "array_throttle"] "ARRAY_THROTTLE" "how many tasks of its array may run at a time";
}

/// What is shown where there is nothing, as Slurm writes it.
const NULL: &str = "(null)";
const NOT_KNOWN: &str = "N/A";

impl Field {
    /// Finds a field by its letter.
    pub(crate) fn of_letter(letter: char) -> Option<Self> {
        FIELDS.iter().find(|d| d.letter == letter && letter != ' ').map(|d| d.field)
    }

    /// Finds a field by one of its names, in any case.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        FIELDS.iter().find(|d| d.names.iter().any(|n| n.eq_ignore_ascii_case(name))).map(|d| d.field)
    }

    /// Whether its column is read from the right: numbers and spans.
    pub(crate) const fn is_right(self) -> bool {
        matches!(
            self,
            Self::Id
                | Self::Job
                | Self::Array
                | Self::Uid
                | Self::Used
                | Self::Left
                | Self::Limit
                | Self::NodeCount
                | Self::Cpus
                | Self::Memory
                | Self::Priority
                | Self::Fraction
                | Self::Run
                | Self::CpuUsed
                | Self::MemoryUsed
                | Self::CardsUsed
                | Self::CardMemory
                | Self::Energy
                | Self::Restarts
                | Self::Throttle
                | Self::TimeMin
                | Self::PromiseError
        )
    }

    /// Whether it tells of starts to come.
    pub(crate) const fn foretells(self) -> bool {
        matches!(
            self,
            Self::Start
                | Self::End
                | Self::ExpectedStart
                | Self::Expected
                | Self::FirstPromise
                | Self::LastPromise
        )
    }

    /// Writes what the field says of `job` behind `out`, unescaped.
    pub(crate) fn write(self, job: &JobView, clock: &Clock, out: &mut String) {
        let or_null = |text: &Option<String>, out: &mut String| out.push_str(text.as_deref().unwrap_or(NULL));
        // Writing to a string does not fail.
        let _ = match self {
            Self::Id => write_id(job, out),
            Self::Job | Self::Array => write!(out, "{}", job.id),
            Self::Task => match (&job.array_tasks, job.array_task_id) {
                (Some(tasks), _) => out.write_str(tasks),
                (None, Some(task)) => write!(out, "{task}"),
                (None, None) => out.write_str(NOT_KNOWN),
            },
            Self::Uid => write!(out, "{}", job.uid),
            Self::Reason => out.write_str(job.reason.word()),
            Self::Where => write_where(job, out),
            Self::Used => write!(out, "{}", used(job, clock.now)),
            Self::Left => out.write_str(&format_limit(left(job, clock.now))),
            Self::NodeCount => write!(out, "{}", job.nodes.len().max(1)),
            Self::Cpus => write!(out, "{}", job.cpus),
            Self::Gres if (job.gpus.is_empty() && job.gpu_count == 0) || prepares(job) => {
                out.write_str(NOT_KNOWN)
            }
            Self::Gres if job.gpus.is_empty() => match job.gpu_profile.as_ref().or(job.gpu_model.as_ref()) {
                None => write!(out, "gpu:{}", job.gpu_count),
                Some(kind) => write!(out, "gpu:{kind}:{}", job.gpu_count),
            },
            Self::Gres => write_cards(job, out, |count, slice, out| match slice {
                None => write!(out, "gpu:{count}"),
                Some(profile) => write!(out, "gpu:{profile}:{count}"),
            }),
            Self::GpusAsked => write_asked(job, out),
            Self::Gpus if prepares(job) => out.write_str("0"),
            Self::Gpus if job.gpus.is_empty() => write_asked(job, out),
            Self::Gpus if let Some(share) = share(job) => write!(out, "share:{}", format_size(share)),
            Self::Gpus => write_cards(job, out, |count, slice, out| match slice {
                None => write!(out, "{count}"),
                Some(profile) => write!(out, "{count}x{profile}"),
            }),
            Self::GpuIds => write_card_ids(&job.gpus, out),
            Self::Priority => write!(out, "{}", job.priority),
            Self::Fraction => write!(out, "{:.14}", job.priority as f64 / f64::from(u32::MAX)),
            Self::Run => write!(out, "{}", job.run),
            Self::Exit => write_exit(job, out),
            Self::Name => out.write_str(&job.name),
            Self::Partition => out.write_str(&job.partition),
            Self::User => out.write_str(&job.user),
            Self::Code => match job.state.parse::<JobState>() {
                Ok(state) => out.write_str(state.code()),
                Err(_) => out.write_str(&job.state),
            },
            Self::State => out.write_str(&job.state),
            Self::Limit => out.write_str(&format_limit(job.time_limit)),
            Self::Submit => write_time(Some(job.submit_time), clock, out),
            Self::Begin => write_time(job.begin_time, clock, out),
            Self::Start => write_time(job.start_time.or(job.expected_start), clock, out),
            Self::End => write_time(end(job, clock.now), clock, out),
            Self::Nodes => out.write_str(&compress_hosts(&job.nodes)),
            Self::BatchHost => out.write_str(job.nodes.first().map_or(NOT_KNOWN, |node| node.as_str())),
            Self::Memory => out.write_str(&format_size(job.memory_mib)),
            Self::Features if job.features.is_empty() => out.write_str(NULL),
            Self::Features => out.write_str(&job.features.join("&")),
            Self::Share => out.write_str(if job.exclusive { "NO" } else { "OK" }),
            Self::Stdout => out.write_str(&job.stdout),
            Self::Stderr => out.write_str(&job.stderr),
            Self::WorkDir => out.write_str(&job.work_dir),
            Self::ExpectedStart => write_time(job.expected_start, clock, out),
            Self::Expected => out.write_str(job.expected_node.as_ref().map_or(NULL, |node| node.as_str())),
            Self::FirstPromise => write_time(job.first_promise, clock, out),
            Self::LastPromise => write_time(job.last_promise, clock, out),
            Self::PromiseError => write_span(job.promise_error(), out),
            Self::Licences if job.licences.is_empty() => out.write_str(NULL),
            Self::Licences => write_licences(job, out),
            Self::Qos => return or_null(&job.qos, out),
            Self::Reservation => return or_null(&job.reservation, out),
            Self::Account => return or_null(&job.account, out),
            Self::Detail => return or_null(&job.reason_detail, out),
            Self::Command => return or_null(&job.command, out),
            Self::Comment => return or_null(&job.comment, out),
            Self::Dependency => return or_null(&job.dependency, out),
            Self::Restarts => write!(out, "{}", job.restarts),
            Self::Stage => return or_null(&job.stage, out),
            Self::Suspended => write_time(job.suspended, clock, out),
            Self::IdleSince => write_time(job.idle_since, clock, out),
            Self::IdleUntil => write_time(job.idle_until, clock, out),
            Self::Deadline => write_time(job.deadline, clock, out),
            Self::TimeMin => {
                out.write_str(&job.time_min.map_or_else(|| NOT_KNOWN.into(), |t| format_limit(Some(t))))
            }
            Self::Throttle => match job.array_throttle {
                Some(most) => write!(out, "{most}"),
                None => out.write_str(NOT_KNOWN),
            },
            Self::Exclude => out.write_str(NULL),
            Self::CpuUsed
            | Self::MemoryUsed
            | Self::CardsUsed
            | Self::CardMemory
            | Self::Energy
            | Self::Released => self.write_used(job.used.as_deref(), clock, out),
        };
    }
}

impl Field {
    fn write_used(self, used: Option<&Used>, clock: &Clock, out: &mut String) -> std::fmt::Result {
        let words = used.and_then(|used| match self {
            Self::CpuUsed => Some(Seconds(used.cpu? / 1_000_000).to_string()),
            Self::MemoryUsed => Some(format_size(used.memory?)),
            Self::CardsUsed => Some(percent(u64::from(used.busy()?))),
            Self::CardMemory => Some(format_size(card_memory(used)?)),
            Self::Energy => Some(energy(used)?.to_string()),
            _ => clock.civil(used.released?),
        });
        out.write_str(words.as_deref().unwrap_or(NOT_KNOWN))
    }
}

/// Writes a job as people name it: `17`, `17_3`, `17_[4-9%2]`.
pub(crate) fn write_id(job: &JobView, out: &mut String) -> std::fmt::Result {
    match (&job.array_tasks, job.array_task_id) {
        (Some(tasks), _) => write!(out, "{}_[{tasks}]", job.id),
        (None, Some(task)) => write!(out, "{}_{task}", job.id),
        (None, None) => write!(out, "{}", job.id),
    }
}

fn write_where(job: &JobView, out: &mut String) -> std::fmt::Result {
    use gq_model::{End, Reason};
    let ended_badly = matches!(job.state.parse(), Ok(JobState::Ended(end)) if end != End::Completed);
    let tells_reason = job.reason != Reason::None && (ended_badly || job.nodes.is_empty());
    if tells_reason {
        return write!(out, "({})", job.reason);
    }
    out.write_str(&compress_hosts(&job.nodes))?;
    // Whoever looks at his jobs sees it before it is too late.
    if job.idle_since.is_some() { write!(out, "({})", Reason::IdleCards) } else { Ok(()) }
}

/// How long the job has run, in whole seconds; the time it was suspended does not count.
pub(crate) fn used(job: &JobView, now: Timestamp) -> Seconds {
    let until = job.end_time.or(job.suspended).unwrap_or(now);
    let ran = |start| until.micros_since(start).saturating_sub(job.suspended_before);
    Seconds(job.start_time.map_or(0, |start| ran(start) / 1_000_000))
}

/// How long it may still run; none means without end. Its deadline comes nearer, whether it runs or is suspended.
fn left(job: &JobView, now: Timestamp) -> Option<Seconds> {
    let limit = job.time_limit.map(|limit| Seconds(limit.0.saturating_sub(used(job, now).0)));
    let runs = job.start_time.is_some() && job.end_time.is_none();
    let deadline = job.deadline.filter(|_| runs).map(|at| Seconds(at.micros_since(now) / 1_000_000));
    limit.into_iter().chain(deadline).min()
}

fn write_exit(job: &JobView, out: &mut String) -> std::fmt::Result {
    match (job.exit_code, job.signal) {
        (None, None) => out.write_str(NOT_KNOWN),
        (code, signal) => write!(out, "{}:{}", code.unwrap_or(0), signal.unwrap_or(0)),
    }
}

/// When the job ended, or has to end once it runs (or starts when it is expected to); who is suspended, if he went on now.
fn end(job: &JobView, now: Timestamp) -> Option<Timestamp> {
    let lasts = job.suspended.map_or(0, |since| now.micros_since(since));
    let still = i64::try_from(job.suspended_before.saturating_add(lasts)).unwrap_or(i64::MAX);
    let planned = || {
        let start = job.start_time.or(job.expected_start)?;
        let limit = job.time_limit.map(|limit| Timestamp(start.after(limit).0.saturating_add(still)));
        limit.into_iter().chain(job.deadline).min()
    };
    job.end_time.or_else(planned)
}

fn write_time(at: Option<Timestamp>, clock: &Clock, out: &mut String) -> std::fmt::Result {
    match at.and_then(|at| clock.civil(at)) {
        Some(text) => out.write_str(&text),
        None => out.write_str(NOT_KNOWN),
    }
}

/// Writes a span of time, cut to whole seconds: `0:12`, `-1:00:00`.
fn write_span(micros: Option<i64>, out: &mut String) -> std::fmt::Result {
    let Some(micros) = micros else { return out.write_str(NOT_KNOWN) };
    let seconds = Seconds(micros.unsigned_abs() / 1_000_000);
    write!(out, "{}{seconds}", if micros < 0 && seconds.0 > 0 { "-" } else { "" })
}

fn write_licences(job: &JobView, out: &mut String) -> std::fmt::Result {
    for (at, ask) in job.licences.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(out, "{comma}{}", ask.name)?;
        if ask.count != 1 {
            write!(out, ":{}", ask.count)?;
        }
    }
    Ok(())
}

/// Writes the cards or slices a job asks for: `0`, `2`, `a100:1`, `1g.10gb:2`, `gpu-mem>=20G`, `a100:2,gpu-mem>=80G`,
/// `gpu-share=10G`.
pub(crate) fn write_asked(job: &JobView, out: &mut String) -> std::fmt::Result {
    let count = job.gpu_count;
    let kind = job.gpu_profile.as_ref().or(job.gpu_model.as_ref());
    if let Some(share) = job.gpu_share_mib {
        let model = kind.map(|model| format!("{model},")).unwrap_or_default();
        return write!(out, "{model}gpu-share={}", format_size(share));
    }
    match (kind, job.gpu_memory_mib) {
        (None, None) => write!(out, "{count}"),
        (Some(kind), None) => write!(out, "{kind}:{count}"),
        (None, Some(memory)) if count == 1 => write!(out, "gpu-mem>={}", format_size(memory)),
        (None, Some(memory)) => write!(out, "{count},gpu-mem>={}", format_size(memory)),
        (Some(kind), Some(memory)) => write!(out, "{kind}:{count},gpu-mem>={}", format_size(memory)),
    }
}

/// Whether its first script of two has a node: it holds none of the cards that the job asks for.
fn prepares(job: &JobView) -> bool {
    job.stage.as_deref() == Some("prep") && !job.nodes.is_empty()
}

/// The memory of the card that it shares.
fn share(job: &JobView) -> Option<MiB> {
    job.gpus.iter().find_map(|gpu| gpu.share_mib)
}

/// Writes how many cards and slices a job holds.
fn write_cards(
    job: &JobView,
    out: &mut String,
    one: impl Fn(usize, Option<&str>, &mut String) -> std::fmt::Result,
) -> std::fmt::Result {
    let mut kinds: Vec<(Option<&str>, usize)> = Vec::new();
    for gpu in &job.gpus {
        let slice = gpu.slice.as_deref();
        match kinds.iter_mut().find(|(kind, _)| *kind == slice) {
            Some((_, count)) => *count += 1,
            None => kinds.push((slice, 1)),
        }
    }
    for (at, (slice, count)) in kinds.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        one(count, slice, out)?;
    }
    Ok(())
}

fn write_card_ids(gpus: &[GpuView], out: &mut String) -> std::fmt::Result {
    for (at, gpu) in gpus.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(out, "{comma}{}:{}", gpu.node, gpu.index)?;
        if let Some(slice) = &gpu.slice {
            write!(out, ":{slice}")?;
        }
        if let Some(share) = gpu.share_mib {
            write!(out, ":share:{}", format_size(share))?;
        }
    }
    Ok(())
}
