//! `gqctl update`: says something anew of jobs, in the words in which `gqsub` says the same, or in those of Slurm's scontrol.

use super::tell_loudly;
use crate::{cancel::loudness, select::read_jobs, stat::clock::Clock, trouble::Trouble};
use clap::{Arg, ArgAction, ArgMatches, Command};
use gq_ask::{ANEW, Anew, behind_job_key, read_change, read_key};
use gq_model::Change;
use gq_proto::{Ask, Selection};

pub(super) fn update_command() -> Command {
    let option = |anew: &'static Anew| {
        let help = format!("{} (in Slurm's words: {}=)", anew.help, anew.keys.join("=, "));
        Arg::new(anew.option).long(anew.option).value_name(anew.takes).allow_hyphen_values(true).help(help)
    };
    let words = Arg::new("words").value_name("ID|KEY=VALUE").action(ArgAction::Append).required(true).help(
        "Jobs: 17, 17_3, 17_[0-4,9] or JobId=17; and changes of them in Slurm's words, such as TimeLimit=60",
    );
    Command::new("update")
        .about("Say something anew of jobs")
        .arg(words)
        .args(ANEW.iter().map(option))
        .args(loudness())
}

/// Asks for the changes that were said.
pub(super) fn update(words: &ArgMatches) -> Result<u8, Trouble> {
    let (select, changes) = said(words, &Clock::system())?;
    tell_loudly(words, Ask::Update { select, changes }, "updated")
}

/// The jobs that are meant, and what is said of them.
fn said(words: &ArgMatches, clock: &Clock) -> Result<(Selection, Vec<Change>), Trouble> {
    let (mut jobs, mut keyed) = (Vec::new(), Vec::new());
    for word in words.get_many::<String>("words").into_iter().flatten() {
        match read_key(word).filter(|_| behind_job_key(word).is_none()) {
            None => jobs.extend(read_jobs(&[word])?),
            Some(read) => {
                let (anew, value) = read?;
                keyed.push((anew.option, value, word.clone()));
            }
        }
    }
    let mut changes = Vec::new();
    for Anew { option, .. } in ANEW {
        let by_option =
            words.get_one::<String>(option).map(|text| (text.clone(), format!("--{option}={text}")));
        let by_key = keyed.iter().filter(|(other, ..)| other == option);
        let by_key = by_key.map(|(_, value, word)| (value.clone(), word.clone()));
        let mut all = by_option.into_iter().chain(by_key);
        let Some((text, typed)) = all.next() else { continue };
        if let Some((_, again)) = all.next() {
            return Err(Trouble::usage(format!("{typed} and {again} say the same thing twice")));
        }
        let change = read_change(option, &text, clock.now, &|| clock.zone.clone());
        changes.push(change.map_err(|e| Trouble::usage(format!("{typed}: {e}")))?);
    }
    if jobs.is_empty() {
        return Err(Trouble::usage("no jobs are named").with_hint("gqctl update 17 --time=2h"));
    }
    if changes.is_empty() {
        let options: Vec<String> = ANEW.iter().map(|anew| format!("--{}", anew.option)).collect();
        return Err(Trouble::usage("nothing is said anew").with_hint(options.join(" ")));
    }
    Ok((Selection { jobs, ..Selection::default() }, changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{Requeue, Seconds, TimeAsk, Timestamp};

    fn read(line: &str) -> Result<(Selection, Vec<Change>), Trouble> {
        let words = update_command()
            .try_get_matches_from(line.split('|'))
            .map_err(|e| Trouble::usage(e.to_string()))?;
        super::said(&words, &Clock { now: Timestamp::from_secs(100), zone: jiff::tz::TimeZone::UTC })
    }

    fn said(line: &str) -> Result<Vec<Change>, Trouble> {
        read(line).map(|(_, changes)| changes)
    }

    #[test]
    fn every_option_changes_something() {
        let line = "update|17|18_[0-3]|--time=+30m|--partition=gpu|--priority|-5|--nice=3|--array-throttle=4|--dependency=afterok:3|\
                    --begin=now+1hour|--deadline=now+2hours|--name=a b|--comment=|--idle-ok=tea|--requeue=yes";
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
                Change::IdleOk("tea".into()),
                Change::Requeue(Requeue::Dead),
            ]
        );
        assert_eq!(changes.len(), ANEW.len());
        assert_eq!(said("update|17|--time|-10").unwrap(), [Change::TimeLimitBy(-600)]);
        assert_eq!(said("update|17|--time=2h").unwrap(), [Change::TimeLimit(TimeAsk::Limit(Seconds(7200)))]);
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

    /// Whoever has typed `scontrol update` for years is understood.
    #[test]
    fn slurms_keys_say_what_our_options_say() {
        let line = "update|JobId=17,18_3|TimeLimit=+30|partition=gpu|PRIORITY=-5|Nice=3|ArrayTaskThrottle=4|\
                    Dependency=afterok:3|StartTime=now+1hour|Deadline=now+2hours|JobName=a b|Comment=|IdleOk=tea|Requeue=0|19";
        let (select, changes) = read(line).unwrap();
        let jobs: Vec<String> = select.jobs.iter().map(ToString::to_string).collect();
        assert_eq!(jobs, ["17", "18_3", "19"]);
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
                Change::IdleOk("tea".into()),
                Change::Requeue(Requeue::Never),
            ]
        );
        for anew in ANEW {
            for key in anew.keys.iter().chain([&anew.option]) {
                let (meant, _) = read_key(&format!("{}=1", key.to_uppercase())).unwrap().unwrap();
                assert_eq!(meant.option, anew.option, "{key}");
            }
        }
        assert_eq!(
            said("update|17|TimeLimit=60").unwrap(),
            [Change::TimeLimit(TimeAsk::Limit(Seconds(3600)))]
        );
        assert_eq!(said("update|17|TimeLimit+=30").unwrap(), [Change::TimeLimitBy(1800)]);
        assert_eq!(said("update|17|timelimit-=1:00:00").unwrap(), [Change::TimeLimitBy(-3600)]);
        assert_eq!(said("update|17|--time|60|Name=x").unwrap().len(), 2);
        assert_eq!(said("update|17|Dependency=").unwrap(), [Change::Dependency(None)]);
    }

    #[test]
    fn a_key_that_says_nothing_here_is_refused_with_what_to_do() {
        for (line, words, hint) in [
            ("update|17|TimeLimt=60", "TimeLimt=: no such key", "TimeLimit="),
            ("update|17|Foo=60", "Foo=: no such key", "TimeLimit Partition Priority"),
            ("update|17|=60", "=: no such key", "TimeLimit Partition"),
            (
                "update|JobId=17|NumNodes=2",
                "NumNodes= (to change it after the submission) is not built yet",
                "gqcancel",
            ),
            (
                "update|NodeName=ws1|State=DRAIN",
                "NodeName=: gqctl update changes jobs, not this",
                "gqctl drain NODES",
            ),
            ("update|17|TimeLimit=soon", "TimeLimit=soon: ", ""),
            ("update|17|Nice+=3", "Nice+=3: expected = behind it", ""),
            ("update|17|--time=1|TimeLimit=2", "--time=1 and TimeLimit=2 say the same thing twice", ""),
            ("update|17|Name=a|JobName=b", "Name=a and JobName=b say the same thing twice", ""),
            ("update|TimeLimit=60", "no jobs are named", "gqctl update 17"),
            ("update|JobId=17", "nothing is said anew", "--time"),
            ("update|JobId=|TimeLimit=60", "`JobId=`: expected a job id", ""),
        ] {
            let Err(Trouble::Told { code, text, hint: told }) = said(line) else { panic!("{line}") };
            assert_eq!(code, 2, "{line}");
            assert!(text.contains(words), "{line}: {text}");
            assert!(told.unwrap_or_default().contains(hint), "{line}");
        }
    }
}
