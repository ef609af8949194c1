//! `gqcancel`: ends jobs, or sends them a signal. Which of them may be ended is `gqd`'s to say.

use crate::{
    link::{Link, conf_of, conf_option},
    select::{picked, picking},
    trouble::{Trouble, run, say, say_hint},
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use gq_model::SignalTo;
use gq_proto::{Ask, Failure, Reply};
use nix::libc::SIGKILL;
use std::ffi::OsString;

/// The option table of `gqcancel`.
pub fn command() -> Command {
    Command::new("gqcancel")
        .version(env!("CARGO_PKG_VERSION"))
        .about("End jobs, or send them a signal")
        .override_usage(
            "gqcancel [OPTIONS] <ID>...\n       gqcancel [OPTIONS] [-u LIST | --me] [-p LIST] [-n NAME] [-t LIST]",
        )
        .long_about(
            "Ends jobs: a job that waits leaves the queue; one that runs gets SIGTERM, then SIGKILL when it is still \
             there after the cluster's kill_wait; one that has ended stays as it is, and that is no error. Jobs are named by id, or by what they are: then those are meant \
             that fit every option given. Jobs of others are passed over; where --user names their owners, they are refused. With \
             --signal, jobs that run get that signal and nothing else: all their processes but the \
             script's own shell (that shell when it is alone), or as --batch and --full say. KILL goes to all of them.",
        )
        .args(picking())
        .arg(
            Arg::new("signal")
                .long("signal")
                .short('s')
                .value_name("SIGNAL")
                .value_parser(read_signal)
                .help("Send this signal instead of ending the jobs: TERM, SIGTERM or 15"),
        )
        .arg(
            Arg::new("batch")
                .long("batch")
                .short('b')
                .action(ArgAction::SetTrue)
                .requires("signal")
                .help("Send the signal to the script's own shell alone"),
        )
        .arg(
            Arg::new("full")
                .long("full")
                .short('f')
                .action(ArgAction::SetTrue)
                .requires("signal")
                .conflicts_with("batch")
                .help("Send the signal to all processes, the script's own shell with them"),
        )
        .args(loudness())
        .arg(conf_option())
}

/// The options for more and for fewer words.
pub(crate) fn loudness() -> [Arg; 2] {
    [
        Arg::new("quiet")
            .long("quiet")
            .short('Q')
            .action(ArgAction::SetTrue)
            .conflicts_with("verbose")
            .help("Say nothing about those for which it was not done; the exit code still does"),
        Arg::new("verbose")
            .long("verbose")
            .short('v')
            .action(ArgAction::SetTrue)
            .help("Say on stderr for how many jobs it was done"),
    ]
}

/// Runs `gqcancel`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    run(command(), argv, |words| {
        let select = picked(words)?;
        let signal = words.get_one::<u8>("signal").copied();
        let link = Link::open(conf_of(words))?;
        let deed = if signal.is_some() { "signalled" } else { "cancelled" };
        let to = whom(signal, words.get_flag("batch"), words.get_flag("full"));
        done(&link, link.ask(Ask::Cancel { select, signal, to })?, "gqcancel", deed, words)
    })
}

/// Shows for how many jobs something was done, and for which not; returns the exit code, that of the worst.
pub(crate) fn done(
    link: &Link,
    reply: Reply,
    program: &str,
    deed: &str,
    words: &ArgMatches,
) -> Result<u8, Trouble> {
    let Reply::Done { count, failures } = reply else { return Err(link.astray()) };
    if !words.get_flag("quiet") {
        failures.iter().for_each(|failure| tell(program, failure));
    }
    if words.get_flag("verbose") {
        say(program, &format!("{deed}: {count}"));
    }
    Ok(worst(&failures))
}

/// Says what was not done.
pub(crate) fn tell(program: &str, failure: &Failure) {
    say(program, &format!("{}: {}", failure.what, failure.refusal.text));
    if let Some(hint) = &failure.refusal.hint {
        say_hint(hint);
    }
}

/// The exit code of many refusals: the highest, 0 when there are none.
pub(crate) fn worst(failures: &[Failure]) -> u8 {
    failures.iter().map(|failure| failure.refusal.kind.exit_code()).max().unwrap_or(0)
}

/// Who of a job gets a signal, as in Slurm.
fn whom(signal: Option<u8>, batch: bool, full: bool) -> SignalTo {
    match (batch, full) {
        (true, _) => SignalTo::Batch,
        (_, true) => SignalTo::All,
        _ if signal.is_none_or(|signal| i32::from(signal) == SIGKILL) => SignalTo::All,
        _ => SignalTo::Steps,
    }
}

fn read_signal(text: &str) -> Result<u8, String> {
    gq_ask::read_signal(text).map_err(|problem| problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_proto::{Refusal, RefusalKind};

    #[test]
    fn signals_are_read_by_name_and_number() {
        for text in ["TERM", "SIGTERM", "sigterm", "term", "15"] {
            assert_eq!(read_signal(text), Ok(15), "{text}");
        }
        assert_eq!(read_signal("USR1"), Ok(10));
        assert_eq!(read_signal("64"), Ok(64));
        for bad in ["", "0", "65", "-1", "256", "SIG", "SIGSIGTERM", "NOPE", "+15x"] {
            assert!(read_signal(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signal_goes_to_whom_slurm_sends_it() {
        let of = |line: &str| {
            let words = command().try_get_matches_from(line.split(' ')).ok()?;
            Some(whom(words.get_one("signal").copied(), words.get_flag("batch"), words.get_flag("full")))
        };
        for (line, to) in [
            ("gqcancel -s USR1 17", Some(SignalTo::Steps)),
            ("gqcancel -s KILL 17", Some(SignalTo::All)),
            ("gqcancel -b -s USR1 17", Some(SignalTo::Batch)),
            ("gqcancel --batch --signal=KILL 17", Some(SignalTo::Batch)),
            ("gqcancel -fs TERM 17", Some(SignalTo::All)),
            ("gqcancel 17", Some(SignalTo::All)),
            ("gqcancel -b 17", None),
            ("gqcancel -f 17", None),
            ("gqcancel -bfs TERM 17", None),
        ] {
            assert_eq!(of(line), to, "{line}");
        }
    }

    #[test]
    fn the_worst_refusal_gives_the_code() {
        let failure =
            |kind| Failure { what: "17".into(), refusal: Refusal { kind, text: String::new(), hint: None } };
        assert_eq!(worst(&[]), 0);
        assert_eq!(worst(&[failure(RefusalKind::NoSuchJob), failure(RefusalKind::NotPermitted)]), 5);
        assert_eq!(worst(&[failure(RefusalKind::NoSuchJob), failure(RefusalKind::Policy)]), 4);
    }

    #[test]
    fn what_was_not_done_gives_the_code_and_the_rest_is_done() {
        let failure = Failure {
            what: "18".into(),
            refusal: Refusal {
                kind: RefusalKind::NotPermitted,
                text: "it belongs to bob".into(),
                hint: None,
            },
        };
        let reply = Reply::Done { count: 1, failures: vec![failure] };
        let (code, ask) = crate::tests::answered("cancel", &[reply], |place| {
            let line = ["gqcancel", "-s", "usr1", "17_[0-4]", "18", "-v", "--conf", &place.conf()];
            main(line.iter().map(OsString::from).collect())
        });
        assert_eq!(code, 5);
        let Ask::Cancel { select, signal, to } = ask else { panic!("{ask:?}") };
        assert_eq!((select.jobs.len(), signal, to), (2, Some(10), SignalTo::Steps));
    }

    #[test]
    fn saying_nothing_cancels_nothing_and_wrong_words_are_usage() {
        for line in
            [&["gqcancel"][..], &["gqcancel", "x"], &["gqcancel", "-s", "NOPE", "17"], &["gqcancel", "-Q"]]
        {
            assert_eq!(main(line.iter().map(OsString::from).collect()), 2, "{line:?}");
        }
        command().debug_assert();
    }
}
