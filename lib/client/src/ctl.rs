//! `gqctl`: what admins, and owners of jobs, tell `gqd`. Who may is `gqd`'s to say.

mod check;
mod metrics;
mod papers;
mod reserve;
mod resume;
mod standing;
mod update;

use crate::{
    cancel::{done, loudness},
    escape::shown,
    link::{Link, conf_of, conf_option},
    out::Out,
    select::{picked, picking},
    trouble::{Trouble, run},
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use gq_model::{NodeName, expand_hosts};
use gq_proto::{Ask, Reply};
use std::{ffi::OsString, time::Duration};

const PROGRAM: &str = "gqctl";
/// How long `ping` waits for an answer.
const PING_PATIENCE: Duration = Duration::from_secs(10);
/// Longest reason of a drain, in bytes.
const MAX_REASON: usize = 1024;

/// The option table of `gqctl`.
pub fn command() -> Command {
    let jobs = |name: &'static str, about: &'static str| {
        Command::new(name).about(about).args(picking()).args(loudness())
    };
    let nodes = || Arg::new("nodes").value_name("NODES").required(true).help("Nodes: ws1, or ws[1-4,7]");
    Command::new(PROGRAM)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Control gqd, nodes and jobs")
        .long_about(
            "Tells gqd what to do. Jobs may be held, released, requeued, changed, suspended and resumed by whoever they \
             belong to, by who coordinates their account, by operators and by admins; nodes are drained and resumed by operators \
             and admins; everything else that changes something is for admins: root, the user gqd runs as, and the \
             admins of the conf file. See RIGHTS in gq(7).",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(conf_option())
        .subcommand(Command::new("ping").about("Say whether gqd answers, and what it is"))
        .subcommand(
            Command::new("check-conf")
                .about("Read a conf file and tell all its mistakes")
                .arg(check::file_argument()),
        )
        .subcommand(Command::new("reload").about("Have gqd read its conf file again; each gqnode does so on SIGHUP"))
        .subcommand(Command::new("shutdown").about("Stop gqd; jobs go on"))
        .subcommand(
            Command::new("drain")
                .about("Start nothing more on these nodes; what runs there goes on")
                .arg(nodes())
                .arg(
                    Arg::new("reason")
                        .long("reason")
                        .short('r')
                        .value_name("TEXT")
                        .conflicts_with("words")
                        .help("Why, for everybody to see"),
                )
                .arg(
                    Arg::new("words")
                        .value_name("TEXT")
                        .action(ArgAction::Append)
                        .help("The same without an option"),
                )
                .args(loudness()),
        )
        .subcommand(resume::resume_command())
        .subcommand(
            Command::new("node")
                .about(
                    "Fence nodes: vouch that they are dead, so that their runs end (NODE_FAIL) or run again and what they hold is free; one \
                     that answers is refused, and one that comes back ends those runs before it gets others. Or forget them: list them no \
                     more until they come again; refused while runs are there or the conf declares them",
                )
                .arg(nodes())
                .arg(
                    Arg::new("deed")
                        .value_name("fence|forget")
                        .required(true)
                        .value_parser(["fence", "forget"])
                        .hide_possible_values(true)
                        .help("What is to be done"),
                )
                .args(loudness()),
        )
        .subcommand(jobs("suspend", "Stop jobs that run in place; they keep what they hold, and their time limit does not count meanwhile"))
        .subcommand(jobs("hold", "Keep jobs that wait from starting"))
        .subcommand(jobs("release", "Let held jobs start"))
        .subcommand(
            jobs("requeue", "End jobs that run and put them back into the queue; what waits is refused").arg(
                Arg::new("hold")
                    .long("hold")
                    .action(ArgAction::SetTrue)
                    .help("Hold them there until they are released; also what waits"),
            ),
        )
        .subcommand(jobs("requeuehold", "The same as requeue --hold"))
        .subcommand(update::update_command())
        .subcommand(reserve::reserve_command())
        .subcommand(reserve::unreserve_command())
        .subcommand(reserve::reservations_command())
        .subcommand(standing::priority_command())
        .subcommand(standing::shares_command())
        .subcommand(metrics::metrics_command())
        .subcommand(show_command())
        .subcommand(papers::completions_command())
        .subcommand(papers::man_command())
}

/// Runs `gqctl`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    run(command(), argv, |words| {
        let (name, words) = words.subcommand().ok_or_else(|| Trouble::usage("a command is missing"))?;
        match name {
            "ping" => ping(words),
            "check-conf" => check::check(words),
            "completions" => papers::completions(words),
            "man" => papers::man(words),
            "reload" => tell(words, Ask::Reload),
            "shutdown" => tell(words, Ask::Shutdown),
            "drain" => {
                tell_loudly(words, Ask::Drain { nodes: nodes_of(words)?, reason: reason(words)? }, "drained")
            }
            "resume" => resume::resume(words),
            "node" => {
                let nodes = nodes_of(words)?;
                match words.get_one::<String>("deed").map(String::as_str) {
                    Some("fence") => tell_loudly(words, Ask::Fence { nodes }, "fenced"),
                    _ => tell_loudly(words, Ask::Forget { nodes }, "forgotten"),
                }
            }
            "suspend" => tell_loudly(words, Ask::Suspend { select: picked(words)? }, "suspended"),
            "hold" => tell_loudly(words, Ask::Hold { select: picked(words)? }, "held"),
            "release" => tell_loudly(words, Ask::Release { select: picked(words)? }, "released"),
            "requeue" => {
                let hold = words.get_flag("hold");
                tell_loudly(words, Ask::Requeue { select: picked(words)?, hold }, "requeued")
            }
            "requeuehold" => {
                tell_loudly(words, Ask::Requeue { select: picked(words)?, hold: true }, "requeued and held")
            }
            "update" => update::update(words),
            "reserve" => tell(words, reserve::reserve(words)?),
            "unreserve" => tell(words, reserve::unreserve(words)?),
            "reservations" => reserve::reservations(words),
            "priority" => standing::priority(words),
            "shares" => standing::shares(words),
            "metrics" => metrics::metrics(words),
            "show" => Err(Trouble::usage("gqstat shows what there is")
                .with_hint("gqstat -j 17, --why 17, --nodes, --partitions; gqctl reservations")),
            other => Err(Trouble::usage(format!("`{other}` is no command"))),
        }
    })
}

/// What Slurm's scontrol shows is gqstat's to show: whoever asks here is told so.
fn show_command() -> Command {
    let words = Arg::new("words").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new("show").hide(true).about("See gqstat").arg(words)
}

/// The option `--json` of commands that show something.
fn json_flag() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Answer in JSON")
}

/// Asks for something that is done as a whole or not at all.
fn tell(words: &ArgMatches, ask: Ask) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    let Reply::Done { failures, .. } = link.ask(ask)? else { return Err(link.astray()) };
    failures.iter().for_each(|failure| crate::cancel::tell(PROGRAM, failure));
    Ok(crate::cancel::worst(&failures))
}

/// Asks for something that is done to many.
fn tell_loudly(words: &ArgMatches, ask: Ask, deed: &str) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    done(&link, link.ask(ask)?, PROGRAM, deed, words)
}

fn ping(words: &ArgMatches) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    link.wait_for(Some(PING_PATIENCE))?;
    let Reply::Pong(cluster) = link.ask(Ask::Ping)? else { return Err(link.astray()) };
    let mut out = Out::stdout()?;
    out.put(&format!(
        "gqd {} of cluster {} ({}) answers, process {}\n",
        shown(&cluster.version),
        shown(&cluster.name),
        cluster.id,
        cluster.pid
    ))?;
    if let Some(why) = &cluster.degraded {
        out.put(&format!("DEGRADED: no new jobs are taken: {}\n", shown(why)))?;
    }
    if cluster.dropped > 0 {
        out.put(&format!("{} messages and notices were dropped: its log says why\n", cluster.dropped))?;
    }
    out.flush()?;
    Ok(0)
}

fn nodes_of(words: &ArgMatches) -> Result<Vec<NodeName>, Trouble> {
    let list = words.get_one::<String>("nodes").map(String::as_str).unwrap_or_default();
    expand_hosts(list).map_err(|e| Trouble::usage(e.to_string()))
}

fn reason(words: &ArgMatches) -> Result<String, Trouble> {
    let said: Vec<&str> =
        words.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect();
    let reason = words.get_one::<String>("reason").cloned().unwrap_or_else(|| said.join(" "));
    match reason.trim() {
        "" => Err(Trouble::usage("a reason is missing").with_hint("gqctl drain NODES --reason TEXT")),
        reason if reason.len() > MAX_REASON => {
            Err(Trouble::usage(format!("a reason may have {MAX_REASON} bytes")))
        }
        reason => Ok(reason.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> u8 {
        main(line.split('|').map(OsString::from).collect())
    }

    #[test]
    fn the_option_table_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn wrong_words_are_usage() {
        for line in [
            "gqctl",
            "gqctl|nonsense",
            "gqctl|show|job|17",
            "gqctl|drain|ws1",
            "gqctl|drain|ws1|--reason| ",
            "gqctl|drain|ws[1|fan",
            "gqctl|resume",
            "gqctl|resume|17_[",
            "gqctl|node|ws1",
            "gqctl|node|ws1|reboot",
            "gqctl|node|ws[1|fence",
            "gqctl|suspend",
            "gqctl|update|17",
            "gqctl|requeuehold|x",
            "gqctl|hold",
            "gqctl|requeue|x",
            "gqctl|check-conf|/no/such/file",
            "gqctl|reserve",
            "gqctl|reserve|a|--start=now|--nodes=ws1|--maintenance",
            "gqctl|reserve|a|--start=now|--duration=1h|--nodes=ws1|--maintenance|--users=root",
            "gqctl|unreserve|a b",
            "gqctl|priority|x",
        ] {
            assert_eq!(code(line), 2, "{line}");
        }
    }

    /// The code of `gqctl` with this answer, and what it asked.
    fn asked(name: &str, line: &str, reply: Reply) -> (u8, Ask) {
        crate::tests::answered(&format!("ctl-{name}"), &[reply], |place| {
            code(&format!("gqctl|--conf|{}|{line}", place.conf()))
        })
    }

    fn done(count: u64) -> Reply {
        Reply::Done { count, failures: vec![] }
    }

    #[test]
    fn each_command_asks_what_it_says() {
        let ws1: NodeName = "ws1".parse().unwrap();
        for (line, ask) in [
            ("reload", Ask::Reload),
            ("shutdown", Ask::Shutdown),
            ("drain|ws1|--reason|fan", Ask::Drain { nodes: vec![ws1.clone()], reason: "fan".into() }),
            ("node|ws1|fence", Ask::Fence { nodes: vec![ws1.clone()] }),
            ("node|ws1|forget", Ask::Forget { nodes: vec![ws1.clone()] }),
            ("resume|ws1|-v", Ask::Resume { nodes: vec![ws1] }),
            ("unreserve|class", Ask::Unreserve { name: "class".into() }),
        ] {
            assert_eq!(asked(ask_name(&ask), line, done(1)), (0, ask.clone()));
        }
        for (line, name) in [
            ("hold|17", "hold"),
            ("release|-u|root", "release"),
            ("requeue|-t|R", "requeue"),
            ("requeue|--hold|17", "requeue and hold"),
            ("requeuehold|17_3", "requeue and hold"),
            ("suspend|17_[0-4]", "suspend"),
            ("resume|17_3,18", "continue"),
            ("update|17|--time=+30", "update"),
            ("update|JobId=17|TimeLimit=60|Name=x", "update"),
            ("hold|JobId=17", "hold"),
            ("release|jobid=17_3,18", "release"),
            ("requeue|JobId=17", "requeue"),
            ("suspend|JobId=17", "suspend"),
            ("resume|JobId=17", "continue"),
        ] {
            let (code, ask) = asked(name, line, done(0));
            assert_eq!(code, 0);
            assert_eq!(ask_name(&ask), name);
        }
    }

    #[test]
    fn what_is_shown_is_asked_for_and_may_come_in_parts() {
        let (given, ask) =
            asked("reserve", "reserve|class|--start=now|--duration=1h|--nodes=ws1|--users=root", done(1));
        assert_eq!((given, ask_name(&ask)), (0, "reserve"));
        assert_eq!(
            asked("reservations", "reservations", Reply::Reservations(vec![])),
            (0, Ask::Reservations)
        );
        let parts =
            [Reply::Shares { shares: vec![], more: true }, Reply::Shares { shares: vec![], more: false }];
        let answer = crate::tests::answered("ctl-shares", &parts, |place| {
            code(&format!("gqctl|shares|--json|--conf|{}", place.conf()))
        });
        assert_eq!(answer, (0, Ask::Shares));
        let none = Reply::Priorities { jobs: vec![], unknown: vec!["17".parse().unwrap()], more: false };
        let (given, ask) = asked("priority", "priority|17", none);
        assert_eq!((given, ask_name(&ask)), (4, "priority"));
    }

    fn ask_name(ask: &Ask) -> &'static str {
        match ask {
            Ask::Reload => "reload",
            Ask::Shutdown => "shutdown",
            Ask::Drain { .. } => "drain",
            Ask::Resume { .. } => "resume",
            Ask::Fence { .. } => "fence",
            Ask::Forget { .. } => "forget",
            Ask::Hold { .. } => "hold",
            Ask::Release { .. } => "release",
            Ask::Requeue { hold: false, .. } => "requeue",
            Ask::Requeue { hold: true, .. } => "requeue and hold",
            Ask::Suspend { .. } => "suspend",
            Ask::Continue { .. } => "continue",
            Ask::Update { .. } => "update",
            Ask::Reserve(_) => "reserve",
            Ask::Unreserve { .. } => "unreserve",
            Ask::Reservations => "reservations",
            Ask::Priorities { .. } => "priority",
            Ask::Shares => "shares",
            _ => "another",
        }
    }

    #[test]
    fn ping_says_whether_gqd_answers() {
        let cluster = gq_proto::ClusterView {
            name: "lab".into(),
            id: gq_model::ClusterId::default(),
            version: "0.1.0".into(),
            pid: 1,
            degraded: Some("the disk is full".into()),
            dropped: 3,
        };
        assert_eq!(asked("ping", "ping", Reply::Pong(cluster)), (0, Ask::Ping));
        let place = crate::tests::Place::new("ctl-nobody");
        assert_eq!(code(&format!("gqctl|ping|--conf|{}", place.conf())), 3);
        assert_eq!(code(&format!("gqctl|check-conf|{}", place.conf())), 0);
    }

    #[test]
    fn the_words_behind_a_node_are_the_reason() {
        let command = command();
        let matches =
            command.try_get_matches_from(["gqctl", "drain", "ws[1-2]", "fan", "is", "loud"]).unwrap();
        let (_, words) = matches.subcommand().unwrap();
        assert_eq!(reason(words).unwrap(), "fan is loud");
        assert_eq!(nodes_of(words).unwrap().len(), 2);
    }
}
