//! Changes of a job that was submitted: what may be said anew, by which option of `gqctl update` and by which keys of Slurm's, and what the
//! words mean. One table serves parser, help and man page.

use crate::{AskError, Place, Problem, begin::read_instant, life, shown, unbuilt::likest, values};
use gq_model::{Change, Requeue, Seconds, Timestamp, parse_duration};
use jiff::tz::TimeZone;

/// Something that may be said anew of a job.
pub struct Anew {
    /// The option; its name is a key, too.
    pub option: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Slurm's keys for it (`TimeLimit=60`), in any case; the usual one first.
    pub keys: &'static [&'static str],
    read: fn(&str, &Clock<'_>) -> Result<Change, Problem>,
}

/// When and where something is said.
struct Clock<'a> {
    now: Timestamp,
    zone: &'a dyn Fn() -> TimeZone,
}

/// All that may be said anew, in the order of the help text.
#[rustfmt::skip]
pub static ANEW: &[Anew] = &[
    Anew { option: "time", takes: "[+|-]LIMIT", keys: &["TimeLimit"], read: |text, _| time(text), help: "How long they may run; UNLIMITED or 0: as long as the partition allows; with + or - by how much longer or shorter. A job that runs may be given less by its user, more by an admin" },
    Anew { option: "partition", takes: "NAME", keys: &["Partition"], read: |text, _| Ok(Change::Partition(values::partition(text)?)), help: "Their partition, of jobs that wait" },
    Anew { option: "priority", takes: "N", keys: &["Priority"], read: |text, _| priority(text), help: "Their priority from now on (admins)" },
    Anew { option: "nice", takes: "N", keys: &["Nice"], read: |text, _| Ok(Change::Nice(values::nice(text)?)), help: "Lower the priority by N; below 0 for admins only" },
    Anew { option: "array-throttle", takes: "N", keys: &["ArrayTaskThrottle"], read: |text, _| Ok(Change::AtOnce(life::throttle(text)?)), help: "How many tasks of an array run at a time; 0: as many as fit" },
    Anew { option: "dependency", takes: "TYPE:ID", keys: &["Dependency"], read: |text, _| dependency(text), help: "What they wait for, as gqsub --dependency takes it; none: nothing any more" },
    Anew { option: "begin", takes: "TIME", keys: &["StartTime", "EligibleTime"], read: |text, clock| Ok(Change::Begin(instant(text, clock)?)), help: "Do not start them before, as gqsub --begin takes it; none: at any time" },
    Anew { option: "deadline", takes: "TIME", keys: &["Deadline"], read: deadline, help: "By when they must have ended, of jobs that wait; none: whenever" },
    Anew { option: "name", takes: "NAME", keys: &["Name", "JobName"], read: |text, _| Ok(Change::Name(values::name(text)?)), help: "Their name" },
    Anew { option: "comment", takes: "TEXT", keys: &["Comment"], read: |text, _| Ok(Change::Comment(values::comment(text)?)), help: "Their comment; an empty one takes it away" },
    Anew { option: "idle-ok", takes: "REASON", keys: &["IdleOk"], read: |text, _| idle_ok(text), help: "Why their cards may be idle, also of jobs that run, where the partition takes that as an excuse; an empty one takes it away" },
    Anew { option: "requeue", takes: "yes|no|on-lost", keys: &["Requeue"], read: |text, _| Ok(Change::Requeue(requeue(text)?)), help: "Whether they may run again by themselves; on-lost counts from their next run on" },
];

/// Slurm's keys for the jobs themselves.
const JOBS: &[&str] = &["JobId", "Job"];

/// Slurm's keys of jobs that cannot be said anew here.
const UNBUILT: &[&str] = &[
    "Account",
    "BurstBuffer",
    "Contiguous",
    "CpusPerTask",
    "ExcNodeList",
    "Features",
    "Gres",
    "Licenses",
    "MailType",
    "MailUser",
    "MinCPUsNode",
    "MinMemoryCPU",
    "MinMemoryNode",
    "MinTmpDiskNode",
    "NodeList",
    "NumCPUs",
    "NumNodes",
    "NumTasks",
    "OverSubscribe",
    "Prefer",
    "QOS",
    "ReqNodeList",
    "Shared",
    "StdErr",
    "StdIn",
    "StdOut",
    "TimeMin",
    "TresPerNode",
    "UserID",
    "WCKey",
    "WorkDir",
];

/// Slurm's keys of other things than jobs, and how these are changed here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("NodeName", "gqctl drain NODES --reason TEXT, or gqctl resume NODES"),
    ("State", "gqctl drain NODES --reason TEXT, or gqctl resume NODES"),
    ("Reason", "gqctl drain NODES --reason TEXT, or gqctl resume NODES"),
    ("PartitionName", "the conf file says what partitions are; after a change of it gqctl reload"),
    ("Reservation", "gqctl reserve NAME --replace"),
    ("ReservationName", "gqctl reserve NAME --replace"),
];

/// Reads what an option of [`ANEW`] says, said at `now` in `zone`.
///
/// # Errors
/// A value that is none, or an option that changes nothing.
pub fn read_change(
    option: &str,
    text: &str,
    now: Timestamp,
    zone: &dyn Fn() -> TimeZone,
) -> Result<Change, Problem> {
    let anew = ANEW.iter().find(|anew| anew.option == option).ok_or(Problem::Unknown)?;
    (anew.read)(text, &Clock { now, zone })
}

/// What stands behind `JobId=`, in any case.
pub fn behind_job_key(word: &str) -> Option<&str> {
    let (key, value) = word.split_once('=')?;
    is_one_of(JOBS, key).then_some(value)
}

/// Reads a word such as `TimeLimit=60`: what is said anew, and its value, as the option takes it. None for a word that has no key.
///
/// # Errors
/// A key that changes nothing here.
pub fn read_key(word: &str) -> Option<Result<(&'static Anew, String), AskError>> {
    let (key, value) = word.split_once('=')?;
    // As in Slurm, `TimeLimit+=30` is `TimeLimit=+30`.
    let (key, sign) = match key.strip_suffix(['+', '-']) {
        Some(short) => (short, key.get(short.len()..).unwrap_or_default()),
        None => (key, ""),
    };
    let said = |anew: &Anew| anew.option.eq_ignore_ascii_case(key) || is_one_of(anew.keys, key);
    let Some(anew) = ANEW.iter().find(|anew| said(anew)) else { return Some(Err(stranger(key))) };
    if !sign.is_empty() && anew.option != "time" {
        let problem = Problem::Expected("= behind it: a time limit alone is changed by so much");
        return Some(Err(AskError::new(&Place::CommandLine, shown(word), problem)));
    }
    Some(Ok((anew, format!("{sign}{value}"))))
}

fn is_one_of(keys: &[&str], key: &str) -> bool {
    keys.iter().any(|known| known.eq_ignore_ascii_case(key))
}

/// What is wrong with a key that changes nothing of a job, and what to do.
fn stranger(key: &str) -> AskError {
    let error = |problem| AskError::new(&Place::CommandLine, format!("{}=", shown(key)), problem);
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)) {
        return error(Problem::Other("gqctl update changes jobs, not this")).hint(*instead);
    }
    if let Some(known) = UNBUILT.iter().find(|known| known.eq_ignore_ascii_case(key)) {
        return error(Problem::NotBuilt(format!("{known}= (to change it after the submission)")))
            .hint("gqcancel, and submit it anew");
    }
    let keys = || ANEW.iter().flat_map(|anew| anew.keys.iter().copied());
    error(Problem::Other("no such key")).hint(match likest(key, keys()) {
        Some(near) => format!("{near}="),
        None => keys().collect::<Vec<_>>().join(" "),
    })
}

fn is_none(text: &str) -> bool {
    text.is_empty() || text.eq_ignore_ascii_case("none")
}

fn idle_ok(text: &str) -> Result<Change, Problem> {
    Ok(Change::IdleOk(if text.is_empty() { String::new() } else { values::excuse(text)? }))
}

fn requeue(text: &str) -> Result<Requeue, Problem> {
    if text.eq_ignore_ascii_case("on-lost") {
        return Ok(Requeue::OnLost);
    }
    let is_wanted = life::yes_no(text).map_err(|_| Problem::Expected("yes, no or on-lost"))?;
    Ok(if is_wanted { Requeue::Dead } else { Requeue::Never })
}

/// A time limit, or `+` or `-` and by how much it changes.
fn time(text: &str) -> Result<Change, Problem> {
    // No duration is longer than a century.
    let seconds = |Seconds(seconds): Seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => Ok(Change::TimeLimitBy(seconds(parse_duration(more)?))),
        (_, Some(less)) => Ok(Change::TimeLimitBy(-seconds(parse_duration(less)?))),
        (None, None) => Ok(Change::TimeLimit(values::limit(text)?)),
    }
}

fn priority(text: &str) -> Result<Change, Problem> {
    text.parse().map(Change::Priority).map_err(|_| Problem::Expected("a whole number, such as 1000"))
}

fn dependency(text: &str) -> Result<Change, Problem> {
    Ok(Change::Dependency(if is_none(text) { None } else { Some(text.parse()?) }))
}

fn instant(text: &str, clock: &Clock<'_>) -> Result<Option<Timestamp>, Problem> {
    match is_none(text) {
        true => Ok(None),
        false => read_instant(text, clock.now, (clock.zone)()).map(Some),
    }
}

fn deadline(text: &str, clock: &Clock<'_>) -> Result<Change, Problem> {
    match instant(text, clock)? {
        Some(at) if at <= clock.now => Err(Problem::Other("that time has passed")),
        at => Ok(Change::Deadline(at)),
    }
}
