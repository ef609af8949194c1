//! Selections: which jobs are meant, from ids and from words about them. The options are declared here once for all
//! commands that take them.

use crate::trouble::Trouble;
use clap::{Arg, ArgAction, ArgMatches};
use gq_model::{JobRef, JobState, Uid};
use gq_proto::{JobView, Selection};

/// Splits a list at its commas (not at those in brackets) and blanks.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let mut depth = 0u32;
    list.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_ascii_whitespace())
    })
    .filter(|part| !part.is_empty())
    .collect()
}

/// Reads one list or more of an option; a list without a word in it is a mistake.
fn read<T>(
    lists: &[&str],
    what: &str,
    one: impl Fn(&str) -> Result<Vec<T>, Trouble>,
) -> Result<Vec<T>, Trouble> {
    let mut all = Vec::new();
    for list in lists {
        let parts = split(list);
        if parts.is_empty() {
            return Err(Trouble::usage(format!("{what}: an empty list")));
        }
        for part in parts {
            all.extend(one(part)?);
        }
    }
    Ok(all)
}

/// Reads job ids: `17`, `17_3`, `17_[0-4,9]`, several with commas; `JobId=17`, as Slurm's scontrol has it, is one.
///
/// # Errors
/// Wrong words (exit code 2).
pub fn read_jobs(lists: &[&str]) -> Result<Vec<JobRef>, Trouble> {
    read(lists, "job ids", |part| match gq_ask::behind_job_key(part).unwrap_or(part).parse() {
        Ok(job) => Ok(vec![job]),
        Err(e) => Err(Trouble::usage(format!("`{part}`: {e}"))),
    })
}

/// Reads users: login names of this host, or uids; `option` is where they stand.
///
/// # Errors
/// A name that nobody has here (exit code 2).
pub fn read_users(option: &str, lists: &[&str]) -> Result<Vec<Uid>, Trouble> {
    read(lists, option, |part| {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            let uid =
                part.parse().map_err(|_| Trouble::usage(format!("{option}: `{part}` is no user id")))?;
            return Ok(vec![Uid(uid)]);
        }
        match nix::unistd::User::from_name(part) {
            Ok(Some(user)) => Ok(vec![Uid(user.uid.as_raw())]),
            Ok(None) => Err(Trouble::usage(format!("{option}: nobody on this host is called `{part}`"))
                .with_hint("the user's id in digits")),
            Err(e) => Err(Trouble::usage(format!("{option}: cannot look up `{part}`: {e}"))),
        }
    })
}

/// Reads states by name or code; `all` means every one.
///
/// # Errors
/// A word that is no state (exit code 2).
pub fn read_states(lists: &[&str]) -> Result<Vec<JobState>, Trouble> {
    let states = read(lists, "--states", |part| {
        if part.eq_ignore_ascii_case("all") {
            return Ok(JobState::all().collect());
        }
        match part.parse() {
            Ok(state) => Ok(vec![state]),
            Err(e) => Err(Trouble::usage(format!("--states: `{part}`: {e}"))
                .with_hint(JobState::all().map(JobState::name).collect::<Vec<_>>().join(" "))),
        }
    })?;
    let mut seen = std::collections::BTreeSet::new();
    Ok(states.into_iter().filter(|state| seen.insert(*state)).collect())
}

/// The user who asks.
pub fn me() -> Uid {
    Uid(nix::unistd::getuid().as_raw())
}

/// The options that pick jobs by what they are, for every command.
pub fn filters() -> Vec<Arg> {
    let list = |id: &'static str, short: char, value: &'static str, help: &'static str| {
        Arg::new(id).long(id).short(short).value_name(value).action(ArgAction::Append).help(help)
    };
    vec![
        list("user", 'u', "LIST", "Jobs of these users, by name or user id"),
        Arg::new("me").long("me").action(ArgAction::SetTrue).help("Your own jobs"),
        list("partition", 'p', "LIST", "Jobs of these partitions"),
        list("name", 'n', "NAME", "Jobs of this name"),
        list(
            "states",
            't',
            "LIST",
            "Jobs in these states, by name or code, such as PENDING or PD; all for every state",
        )
        .visible_alias("state"),
    ]
}

/// The ids and filters of a command that does something to jobs. One of them must be there: nothing is done to all jobs
/// by saying nothing.
pub fn picking() -> Vec<Arg> {
    let ids = Arg::new("jobs")
        .value_name("ID")
        .action(ArgAction::Append)
        .conflicts_with_all(["user", "me", "partition", "name", "states"])
        .help("Jobs or tasks of arrays: 17, 17_3 or 17_[0-4,9]");
    let mut all = vec![ids];
    all.extend(filters());
    all
}

fn lists_of<'a>(words: &'a ArgMatches, id: &str) -> Vec<&'a str> {
    // Not every command takes every filter.
    words.try_get_many::<String>(id).ok().flatten().into_iter().flatten().map(String::as_str).collect()
}

/// Reads the filters of a command. Names are taken whole, with their commas.
///
/// # Errors
/// Wrong words (exit code 2).
pub fn filtered(words: &ArgMatches) -> Result<Selection, Trouble> {
    let mut users = read_users("--user", &lists_of(words, "user"))?;
    if words.get_flag("me") {
        users.push(me());
    }
    let owned = |part: &str| Ok(vec![part.to_owned()]);
    Ok(Selection {
        jobs: Vec::new(),
        users,
        names: lists_of(words, "name").into_iter().map(str::to_owned).collect(),
        partitions: read(&lists_of(words, "partition"), "--partition", owned)?,
        states: read_states(&lists_of(words, "states"))?,
    })
}

/// Reads what [`picking`] declares.
///
/// # Errors
/// Wrong words, or none at all (exit code 2).
pub fn picked(words: &ArgMatches) -> Result<Selection, Trouble> {
    let mut select = filtered(words)?;
    select.jobs = read_jobs(&lists_of(words, "jobs"))?;
    if select == Selection::default() {
        return Err(Trouble::usage("no jobs are named")
            .with_hint("an id such as 17 or 17_3, or one of --me --user --partition --name --states"));
    }
    Ok(select)
}

/// Reads what a listing is asked for: `--jobs` beside the filters, and names with commas between them.
///
/// # Errors
/// Wrong words (exit code 2).
pub fn listed(words: &ArgMatches) -> Result<Selection, Trouble> {
    let mut select = filtered(words)?;
    select.jobs = read_jobs(&lists_of(words, "jobs"))?;
    select.names = select.names.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
    Ok(select)
}

/// Whether a job fits every word of a selection but its ids.
pub fn fits(job: &JobView, select: &Selection) -> bool {
    let any = |none: bool, found: bool| none || found;
    any(select.users.is_empty(), select.users.contains(&job.uid))
        && any(select.names.is_empty(), select.names.contains(&job.name))
        && any(select.partitions.is_empty(), select.partitions.contains(&job.partition))
        && any(select.states.is_empty(), select.states.iter().any(|state| state.name() == job.state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn picked_from(line: &str) -> Result<Selection, Trouble> {
        let command = Command::new("x").args(picking());
        let words =
            command.try_get_matches_from(line.split('|')).map_err(|e| Trouble::usage(e.to_string()))?;
        picked(&words)
    }

    #[test]
    fn ids_are_read_alone_in_lists_and_with_brackets() {
        let ids =
            |lists: &[&str]| read_jobs(lists).map(|v| v.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            ids(&["17", "18,19_3", "20_[0-4,9],21 22"]).unwrap(),
            ["17", "18", "19_3", "20_[0-4,9]", "21", "22"]
        );
        assert_eq!(ids(&["JobId=17,18", "jobid=19_3", "JOB=20"]).unwrap(), ["17", "18", "19_3", "20"]);
        for bad in ["", ",", "x", "17_", "17_[1", "-3", "JobId=", "JobName=x", "id=17"] {
            assert_eq!(ids(&[bad]).unwrap_err().code(), 2, "{bad}");
        }
    }

    #[test]
    fn states_are_read_by_name_or_code_and_all_means_all() {
        assert_eq!(read_states(&["pd,RUNNING", "r"]).unwrap(), [JobState::Pending, JobState::Running]);
        assert_eq!(read_states(&["all"]).unwrap().len(), 15);
        assert_eq!(read_states(&["ASLEEP"]).unwrap_err().code(), 2);
    }

    #[test]
    fn users_are_read_by_name_or_number() {
        assert_eq!(read_users("--user", &["root,4711"]).unwrap(), [Uid(0), Uid(4711)]);
        for bad in ["no-such-user-here", "", "99999999999"] {
            let said = read_users("--users", &[bad]).unwrap_err();
            assert_eq!(said.code(), 2, "{bad}");
            assert!(said.to_string().starts_with("--users: "), "{said}");
        }
    }

    #[test]
    fn what_is_done_to_jobs_is_never_done_to_all_by_saying_nothing() {
        assert_eq!(picked_from("x").unwrap_err().code(), 2);
        assert_eq!(picked_from("x|17|--me").unwrap_err().code(), 2);
        assert_eq!(picked_from("x|17|18_[0-4]").unwrap().jobs.len(), 2);
        let select = picked_from("x|--me|-p|a,b|-n|one, two|-t|PD").unwrap();
        assert_eq!(select.users, [me()]);
        assert_eq!(select.partitions, ["a", "b"]);
        assert_eq!(select.names, ["one, two"]);
        assert_eq!(select.states, [JobState::Pending]);
    }
}
