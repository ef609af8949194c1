//! `gqctl update`: says something anew of jobs, in the words in which `gqsub` says the same.

use super::tell_loudly;
use crate::{
    cancel::loudness,
    select::{named, naming},
    stat::clock::Clock,
    trouble::Trouble,
};
use clap::{Arg, ArgMatches, Command};
use gq_ask::read_change;
use gq_model::Change;
use gq_proto::Ask;

/// What can be said anew: the option, what it takes, and what it says.
const OPTIONS: &[(&str, &str, &str)] = &[
    (
        "time",
        "[+|-]LIMIT",
        "How long they may run; with + or - by how much longer or shorter. A job that runs may be given less by its user, more by an admin",
    ),
    ("partition", "NAME", "Their partition, of jobs that wait"),
    ("priority", "N", "Their priority from now on (admins)"),
    ("nice", "N", "Lower the priority by N; below 0 for admins only"),
    ("array-throttle", "N", "How many tasks of an array run at a time; 0: as many as fit"),
    ("dependency", "TYPE:ID", "What they wait for, as gqsub --dependency takes it; none: nothing any more"),
    ("begin", "TIME", "Do not start them before, as gqsub --begin takes it; none: at any time"),
    ("deadline", "TIME", "By when they must have ended; none: whenever"),
    ("name", "NAME", "Their name"),
    ("comment", "TEXT", "Their comment; an empty one takes it away"),
    (
        "requeue",
        "yes|no|on-lost",
        "Whether they may run again by themselves; on-lost counts from their next run on",
    ),
];

pub(super) fn update_command() -> Command {
    let option = |(name, value, help): &(&'static str, &'static str, &'static str)| {
        Arg::new(*name).long(*name).value_name(*value).allow_hyphen_values(true).help(*help)
    };
    Command::new("update")
        .about("Say something anew of jobs")
        .arg(naming())
        .args(OPTIONS.iter().map(option))
        .args(loudness())
}

/// Asks for the changes that were said.
pub(super) fn update(words: &ArgMatches) -> Result<u8, Trouble> {
    let (select, changes) = (named(words)?, changes(words, &Clock::system())?);
    tell_loudly(words, Ask::Update { select, changes }, "updated")
}

fn changes(words: &ArgMatches, clock: &Clock) -> Result<Vec<Change>, Trouble> {
    let mut changes = Vec::new();
    for (name, ..) in OPTIONS {
        let Some(text) = words.get_one::<String>(name) else { continue };
        let change = read_change(name, text, clock.now, &|| clock.zone.clone());
        changes.push(change.map_err(|e| Trouble::usage(format!("--{name}={text}: {e}")))?);
    }
    if changes.is_empty() {
        let options: Vec<String> = OPTIONS.iter().map(|(name, ..)| format!("--{name}")).collect();
        return Err(Trouble::usage("nothing is said anew").with_hint(options.join(" ")));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{Seconds, Timestamp};

    fn said(line: &str) -> Result<Vec<Change>, Trouble> {
        let words = update_command()
            .try_get_matches_from(line.split('|'))
            .map_err(|e| Trouble::usage(e.to_string()))?;
        named(&words)?;
        changes(&words, &Clock { now: Timestamp::from_secs(100), zone: jiff::tz::TimeZone::UTC })
    }

    #[test]
    fn every_option_changes_something() {
        let line = "update|17|18_[0-3]|--time=+30m|--partition=gpu|--priority|-5|--nice=3|--array-throttle=4|--dependency=afterok:3|\
                    --begin=now+1hour|--deadline=now+2hours|--name=a b|--comment=|--requeue=yes";
        let changes = said(&line.replace("|\n", "|")).unwrap();
        assert_eq!(
            changes,
            [
                Change::TimeLimitBy(1800),
                Change::Partition("gpu".into()),
                Change::Priority(-5),
                Change::Nice(3),
                Change::AtOnce(Some(4)),
                Change::Dependency(Some("afterok:3".parse().unwrap())),
                Change::Begin(Some(Timestamp::from_secs(3700))),
                Change::Deadline(Some(Timestamp::from_secs(7300))),
                Change::Name("a b".into()),
                Change::Comment(String::new()),
                Change::Requeue(gq_model::Requeue::Dead),
            ]
        );
        assert_eq!(changes.len(), OPTIONS.len());
        assert_eq!(said("update|17|--time|-10").unwrap(), [Change::TimeLimitBy(-600)]);
        assert_eq!(said("update|17|--time=2h").unwrap(), [Change::TimeLimit(Some(Seconds(7200)))]);
        for bad in [
            "update|17",
            "update|--time=1",
            "update|x|--time=1",
            "update|17|--time=soon",
            "update|17|--gpus=1",
        ] {
            assert_eq!(said(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
