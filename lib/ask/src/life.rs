//! What is asked of a job's life: its tasks, warnings, waiting, retries, limits and messages. What the words mean, and never which count;
//! see `resolve`.

use crate::{Problem, values::number};
use gq_model::{
    ArrayAsk, MAX_RETRIES, MAX_SIGNAL, MailOn, MaxWait, RESOURCE_LIMITS, Requeue, ResourceLimit, RetryAsk,
    Seconds, SignalAsk, WaitEnd, parse_duration, parse_recipients,
};
use nix::sys::signal::Signal;

/// How long before the time limit a signal comes when that is not said, as in Slurm.
const USUAL_WARNING: Seconds = Seconds(60);
/// The longest that can be said, as in Slurm.
const LONGEST_WARNING: u32 = 65_535;
/// How long a login is waited for when that is not said, and the longest that can be.
const LOGIN: (Seconds, u32) = (Seconds(10), 3600);

/// What `--array` says: the tasks; or, beside `--each`, only how many run at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArrayWord {
    Tasks(ArrayAsk),
    AtOnce(Option<u32>),
}

/// `0-99%10`, or `%10` alone.
pub(crate) fn array(text: &str) -> Result<ArrayWord, Problem> {
    match text.strip_prefix('%') {
        Some(most) => throttle(most).map(ArrayWord::AtOnce),
        None => Ok(ArrayWord::Tasks(text.parse()?)),
    }
}

/// How many tasks may run at a time; 0 means as many as fit.
pub(crate) fn throttle(text: &str) -> Result<Option<u32>, Problem> {
    let most = number(text, "how many tasks may run at a time: a whole number, 0 for as many as fit")?;
    Ok(Some(most).filter(|most| *most > 0))
}

/// `yes` or `no`.
pub(crate) fn yes_no(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "1" | "true" => Ok(true),
        "no" | "n" | "0" | "false" => Ok(false),
        _ => Err(Problem::Expected("yes or no")),
    }
}

/// `--requeue`, alone or with when; in the environment also a switch.
pub(crate) fn requeue(text: &str) -> Result<Requeue, Problem> {
    if text.eq_ignore_ascii_case("on-lost") {
        return Ok(Requeue::OnLost);
    }
    let is_wanted = crate::values::switch(text).map_err(|_| Problem::Expected("on-lost, or no value"))?;
    Ok(if is_wanted { Requeue::Dead } else { Requeue::Never })
}

/// `--no-requeue`.
pub(crate) fn no_requeue(text: &str) -> Result<Requeue, Problem> {
    Ok(if crate::values::switch(text)? { Requeue::Never } else { Requeue::Dead })
}

/// A signal by name, with or without `SIG`, in any case, or by number.
///
/// # Errors
/// What is none.
pub fn read_signal(text: &str) -> Result<u8, Problem> {
    const WHAT: &str = "a signal such as TERM, SIGUSR1 or 15";
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let number = text.parse().map_err(|_| Problem::Expected(WHAT))?;
        return if (1..=MAX_SIGNAL).contains(&number) {
            Ok(number)
        } else {
            Err(Problem::Expected("a signal's number from 1 to 64"))
        };
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let signal: Signal = format!("SIG{name}").parse().map_err(|_| Problem::Expected(WHAT))?;
    u8::try_from(signal as i32).map_err(|_| Problem::Expected(WHAT))
}

/// `[B:]SIGNAL[@SECONDS]`.
pub(crate) fn signal(text: &str) -> Result<SignalAsk, Problem> {
    let (to, rest) = text.split_once(':').map_or((None, text), |(to, rest)| (Some(to), rest));
    let batch = match to {
        None => false,
        Some("B" | "b") => true,
        Some("R" | "r" | "BR" | "RB") => {
            return Err(Problem::NotBuilt("--signal=R: (leave to overlap a reservation)".into()));
        }
        Some(_) => return Err(Problem::Expected("[B:]SIGNAL[@SECONDS], such as USR1@90 or B:TERM@60")),
    };
    let (name, before) = rest.split_once('@').map_or((rest, None), |(name, at)| (name, Some(at)));
    let before = match before {
        None => USUAL_WARNING,
        Some(text) => {
            const WHAT: &str = "behind @ a whole number of seconds from 0 to 65535";
            let seconds = number(text, WHAT)?;
            if seconds > LONGEST_WARNING {
                return Err(Problem::Expected(WHAT));
            }
            Seconds(seconds.into())
        }
    };
    Ok(SignalAsk { signal: read_signal(name)?, before, batch })
}

/// `DURATION[:notify|boost|cancel]`.
pub(crate) fn max_wait(text: &str) -> Result<MaxWait, Problem> {
    const WHAT: &str = "DURATION[:notify|boost|cancel], such as 4h or 2d:cancel";
    let deed = text.rsplit_once(':').filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let (duration, then) = match deed {
        None => (text, WaitEnd::Notify),
        Some((duration, word)) => {
            let then = match word.to_ascii_lowercase().as_str() {
                "notify" => WaitEnd::Notify,
                "boost" => WaitEnd::Boost,
                "cancel" => WaitEnd::Cancel,
                _ => return Err(Problem::Expected(WHAT)),
            };
            (duration, then)
        }
    };
    match parse_duration(duration)? {
        Seconds(0) => Err(Problem::Expected(WHAT)),
        after => Ok(MaxWait { after, then }),
    }
}

/// `N[:EXIT[,EXIT...]]`; 0 means never.
pub(crate) fn retry(text: &str) -> Result<RetryAsk, Problem> {
    const WHAT: &str = "N[:EXIT[,EXIT...]]: at most 1000 retries, after exit codes from 1 to 255";
    let (times, exits) = text.split_once(':').map_or((text, None), |(times, exits)| (times, Some(exits)));
    let times = number(times, WHAT)?;
    let read = |text: &str| match number(text, WHAT)?.try_into() {
        Ok(0) | Err(_) => Err(Problem::Expected(WHAT)),
        Ok(exit) => Ok(exit),
    };
    let mut exits: Vec<u8> =
        exits.map_or(Ok(Vec::new()), |list| list.split(',').map(read).collect::<Result<_, _>>())?;
    exits.sort_unstable();
    exits.dedup();
    if times > MAX_RETRIES { Err(Problem::Expected(WHAT)) } else { Ok(RetryAsk { times, exits }) }
}

/// `[SECONDS][L]`: how long a login is waited for.
pub(crate) fn login(text: &str) -> Result<Seconds, Problem> {
    const WHAT: &str = "a whole number of seconds from 1 to 3600";
    let text = match text.strip_suffix(['S', 's']) {
        Some(_) => {
            return Err(Problem::NotBuilt("--get-user-env with mode S (a shell that is no login)".into()));
        }
        None => text.strip_suffix(['L', 'l']).unwrap_or(text),
    };
    if text.is_empty() {
        return Ok(LOGIN.0);
    }
    match number(text, WHAT)? {
        seconds if (1..=LOGIN.1).contains(&seconds) => Ok(Seconds(seconds.into())),
        _ => Err(Problem::Expected(WHAT)),
    }
}

/// Which limits of the submitting shell go with the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Propagate {
    All,
    These(Vec<&'static str>),
}

impl Propagate {
    /// `ALL` (or nothing), `NONE`, or names of limits.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "" | "all" => return Ok(Self::All),
            "none" => return Ok(Self::These(Vec::new())),
            _ => {}
        }
        let find = |word: &str| {
            let name = word.strip_prefix("rlimit_").unwrap_or(word);
            RESOURCE_LIMITS.into_iter().find(|limit| *limit == name).ok_or(Problem::Expected(
                "ALL, NONE, or some of AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK",
            ))
        };
        Ok(Self::These(lower.split(',').map(find).collect::<Result<_, _>>()?))
    }

    /// Those of `limits` that go along.
    pub fn choose(&self, limits: Vec<ResourceLimit>) -> Vec<ResourceLimit> {
        match self {
            Self::All => limits,
            Self::These(names) => {
                limits.into_iter().filter(|limit| names.contains(&limit.name.as_str())).collect()
            }
        }
    }
}

/// What messages are wanted about; none for `NONE`.
pub(crate) fn mail_type(text: &str) -> Result<Vec<MailOn>, Problem> {
    let upper = text.to_ascii_uppercase();
    if upper == "NONE" {
        return Ok(Vec::new());
    }
    let mut on = Vec::new();
    for word in upper.split(',') {
        match word {
            "BEGIN" => on.push(MailOn::Begin),
            // Whose limit passes has ended.
            "END" | "TIME_LIMIT" => on.push(MailOn::End),
            "FAIL" => on.push(MailOn::Fail),
            "REQUEUE" => on.push(MailOn::Requeue),
            "ALL" => on.extend([MailOn::Begin, MailOn::End, MailOn::Fail, MailOn::Requeue, MailOn::Idle]),
            "IDLE" => on.push(MailOn::Idle),
            "TIME_LIMIT_50" => on.push(MailOn::Half),
            "TIME_LIMIT_80" => on.push(MailOn::Eighty),
            "TIME_LIMIT_90" => on.push(MailOn::Ninety),
            "ARRAY_TASKS" => on.push(MailOn::EachTask),
            "INVALID_DEPEND" | "STAGE_OUT" => {
                return Err(Problem::NotBuilt(format!("--mail-type={word}")));
            }
            _ => {
                return Err(Problem::Expected(
                    "NONE, ALL, or some of BEGIN END FAIL REQUEUE IDLE TIME_LIMIT TIME_LIMIT_90 TIME_LIMIT_80 \
                     TIME_LIMIT_50 ARRAY_TASKS with commas between them",
                ));
            }
        }
    }
    on.sort_unstable();
    on.dedup();
    Ok(on)
}

/// Whom messages go to.
pub(crate) fn mail_user(text: &str) -> Result<String, Problem> {
    parse_recipients(text)?;
    crate::values::label(text)
}

/// `nomultithread`, which is what a cpu of gq is for anyway.
pub(crate) fn hint(text: &str) -> Result<(), Problem> {
    match text {
        "nomultithread" => Ok(()),
        _ => Err(Problem::NotBuilt("--hint with anything but nomultithread".into())),
    }
}
