//! Options: what `gqsim` can be asked, and the words of the command line as values. Reads no file.

use crate::{read::Format, trouble::Trouble};
use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use std::{path::PathBuf, str::FromStr};

/// Most processors of a pool: as many as a node may have.
const MAX_PROCS: i64 = 1 << 16;

/// The option table of `gqsim`.
pub fn command() -> Command {
    let text = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    let file = |id, help| text(id, "FILE", help).value_parser(value_parser!(PathBuf));
    let flag = |id: &'static str, help| Arg::new(id).long(id).action(ArgAction::SetTrue).help(help);
    let one_of = |words: &'static [&'static str]| PossibleValuesParser::new(words);
    Command::new("gqsim")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Show how a cluster would have served a workload")
        .long_about(
            "Plays a log of jobs against the controller's own mind, under a virtual clock and on virtual nodes, and says how \
             long jobs waited, how full the machine was and how true the promised starts were. The cluster is one pool of processors \
             (--procs), a list of nodes (--nodes), or what a conf file declares; any key of the conf can be set anew (--set), so that \
             a change can be tried before it is made. What a node would find is not known here: a conf, or --set, must say the cpus of \
             each node.",
        )
        .after_long_help(EXAMPLES)
        .arg(
            Arg::new("log")
                .value_name("LOG")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The log, compressed by gzip or not: SWF, the CSV of Philly or Alibaba, or a gq.db"),
        )
        .arg(
            text("procs", "N", "One pool of N processors, without conf; a log of cards takes a card as a processor")
                .value_parser(value_parser!(u32).range(1..=MAX_PROCS))
                .conflicts_with_all(["conf", "nodes"]),
        )
        .arg(file("nodes", "The nodes of Alibaba's list, without conf").conflicts_with("conf"))
        .arg(file("conf", "The cluster that this conf file declares"))
        .arg(
            text("set", "TABLE.KEY=VALUE", "Set a key of the conf, such as scheduler.backfill=easy or node[ws1].cpus=64")
                .action(ArgAction::Append),
        )
        .arg(text(
            "policy",
            "POLICY",
            "fcfs, greedy, easy, conservative, a number of reservations: without conf plainly in order of submission; or default: gq's own, or as the conf says",
        ))
        .arg(text("format", "FORMAT", "The form of the log, when it is not plain").value_parser(one_of(&FORMATS)))
        .arg(text("first", "K", "Only the first K jobs that are not left out").value_parser(value_parser!(u64).range(1..)))
        .arg(text("load", "F", "Let jobs arrive F times as fast"))
        .arg(text("fill", "F", "Let jobs of the log arrive in a random order until they ask for F times all cards; none ends"))
        .arg(
            text("placement", "WAY", "How slices are chosen, for comparison: the planner's own way (frag), or a plain rule, which with --fill chooses nodes and cards, too")
                .value_parser(one_of(&PLACEMENTS)),
        )
        .arg(text("seed", "N", "The seed of all that is random").value_parser(value_parser!(u64)).default_value("1"))
        .arg(flag("strict", "Refuse a log with a line that does not parse"))
        .arg(flag("json", "Answer in JSON"))
        .arg(file("dump", "Write the number and the start of each job to FILE, in the order of the log; compressed if it ends in .gz"))
        .arg(file("picture", "Draw the use of the machine and the queue over time to FILE, which ends in .svg"))
}

/// The names of the forms.
const FORMATS: [&str; 4] =
    [Format::Swf.name(), Format::Philly.name(), Format::Alibaba.name(), Format::History.name()];
/// The names of the plain rules of placement.
const PLACEMENTS: [&str; 4] = [
    PlacementAsk::Frag.name(),
    PlacementAsk::Best.name(),
    PlacementAsk::First.name(),
    PlacementAsk::Random.name(),
];

const EXAMPLES: &str = "Examples:
  gqsim KTH-SP2.swf.gz --procs 100 --policy easy
  gqsim HPC2N.swf.gz --procs 240 --policy conservative --first 10000 --dump starts.gz --json
  gqsim /var/lib/gq/gq.db --set 'node[ws3].gpu[0].count=4' --picture week.svg
  gqsim pods.csv.gz --nodes nodes.csv.gz --fill 1.3 --policy greedy --placement random --seed 7";

/// Where the cluster comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// One pool of processors.
    Pool(u32),
    /// A list of nodes.
    Nodes(PathBuf),
    /// A conf file; none means the usual one.
    Conf(Option<PathBuf>),
}

/// How far the plan promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyAsk {
    /// As the conf says, or as it is when a conf says nothing.
    Default,
    /// In order of submission; nobody passes the first that cannot start.
    Fcfs,
    /// Whatever fits starts.
    Greedy,
    /// The first that cannot start has a reservation.
    Easy,
    /// Everybody has one.
    Conservative,
    /// So many have one.
    Depth(u32),
}

impl FromStr for PolicyAsk {
    type Err = Trouble;
    fn from_str(word: &str) -> Result<Self, Trouble> {
        Ok(match word {
            "default" => Self::Default,
            "fcfs" => Self::Fcfs,
            "greedy" => Self::Greedy,
            "easy" => Self::Easy,
            "conservative" => Self::Conservative,
            number => Self::Depth(number.parse().map_err(|_| {
                Trouble::usage(format!("--policy={}: there is no such policy", word.escape_debug()))
                    .hint("fcfs, greedy, easy, conservative, default, or a number of reservations")
            })?),
        })
    }
}

impl PolicyAsk {
    /// What it is as a value of `backfill` in a conf; none when the conf decides.
    pub(crate) fn key(self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Fcfs => Some("\"fcfs\"".to_owned()),
            Self::Greedy => Some("\"greedy\"".to_owned()),
            Self::Easy => Some("\"easy\"".to_owned()),
            Self::Conservative => Some("\"conservative\"".to_owned()),
            Self::Depth(n) => Some(n.to_string()),
        }
    }
}

/// A rule of placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlacementAsk {
    /// The planner's own: fewest options lost.
    #[default]
    Frag,
    /// Where the least is left free.
    Best,
    /// The first that fits.
    First,
    /// Any that fits.
    Random,
}

impl PlacementAsk {
    /// All rules.
    const ALL: [Self; 4] = [Self::Frag, Self::Best, Self::First, Self::Random];

    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Frag => "frag",
            Self::Best => "best",
            Self::First => "first",
            Self::Random => "random",
        }
    }
}

/// The words of the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) log: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) settings: Vec<String>,
    pub(crate) policy: PolicyAsk,
    pub(crate) format: Option<Format>,
    pub(crate) first: Option<usize>,
    pub(crate) load: f64,
    pub(crate) fill: Option<f64>,
    pub(crate) placement: PlacementAsk,
    pub(crate) seed: u64,
    pub(crate) strict: bool,
    pub(crate) json: bool,
    pub(crate) dump: Option<PathBuf>,
    pub(crate) picture: Option<PathBuf>,
}

impl Options {
    /// Reads the words.
    pub(crate) fn of(words: &ArgMatches) -> Result<Self, Trouble> {
        let path = |id: &str| words.get_one::<PathBuf>(id).cloned();
        let word = |id: &str| words.get_one::<String>(id).map(String::as_str);
        let machine = match (words.get_one::<u32>("procs"), path("nodes")) {
            (Some(procs), _) => Machine::Pool(*procs),
            (None, Some(nodes)) => Machine::Nodes(nodes),
            (None, None) => Machine::Conf(path("conf")),
        };
        let picture = path("picture");
        if let Some(file) = picture.as_ref().filter(|file| file.extension().is_none_or(|end| end != "svg")) {
            let text = format!("--picture={}: the picture is SVG: its name ends in .svg", file.display());
            return Err(Trouble::usage(text).hint("--picture week.svg"));
        }
        let format = word("format").and_then(|name| Format::ALL.into_iter().find(|f| f.name() == name));
        Ok(Self {
            log: path("log").unwrap_or_default(),
            machine,
            settings: words.get_many::<String>("set").into_iter().flatten().cloned().collect(),
            policy: word("policy").unwrap_or("default").parse()?,
            format,
            first: words.get_one::<u64>("first").map(|k| usize::try_from(*k).unwrap_or(usize::MAX)),
            load: factor("load", word("load"))?.unwrap_or(1.0),
            fill: factor("fill", word("fill"))?,
            placement: PlacementAsk::ALL
                .into_iter()
                .find(|rule| word("placement") == Some(rule.name()))
                .unwrap_or_default(),
            seed: words.get_one::<u64>("seed").copied().unwrap_or(1),
            strict: words.get_flag("strict"),
            json: words.get_flag("json"),
            dump: path("dump"),
            picture,
        })
    }
}

/// A factor that stretches something.
fn factor(option: &str, word: Option<&str>) -> Result<Option<f64>, Trouble> {
    let Some(word) = word else { return Ok(None) };
    let number = word.parse().ok().filter(|n: &f64| (0.001..=1000.0).contains(n));
    let wrong = || format!("--{option}={}: expected a number from 0.001 to 1000", word.escape_debug());
    number.map(Some).ok_or_else(|| Trouble::usage(wrong()).hint(format!("--{option} 1.3")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Result<Options, String> {
        let argv = std::iter::once("gqsim").chain(words.iter().copied());
        let words = command().try_get_matches_from(argv).map_err(|e| e.to_string())?;
        Options::of(&words).map_err(|t| t.to_string())
    }

    #[test]
    fn the_table_is_whole() {
        command().debug_assert();
    }

    #[test]
    fn the_plain_call_is_understood() {
        let said = options(&[
            "a.swf.gz", "--procs", "100", "--policy", "easy", "--first", "10", "--dump", "x", "--json",
        ]);
        let said = said.unwrap();
        assert_eq!((said.machine, said.policy), (Machine::Pool(100), PolicyAsk::Easy));
        assert_eq!((said.first, said.dump, said.json), (Some(10), Some("x".into()), true));
        assert_eq!(options(&["a", "--policy", "7"]).unwrap().policy, PolicyAsk::Depth(7));
        assert_eq!(options(&["a"]).unwrap().policy, PolicyAsk::Default);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            &["a", "--policy", "fast"][..],
            &["a", "--load", "0"],
            &["a", "--load", "nan"],
            &["a", "--fill", "x"],
            &["a", "--procs", "0"],
            &["a", "--procs", "9", "--conf", "b"],
            &["a", "--first", "0"],
            &["a", "--format", "xml"],
            &["a", "--picture", "week.png"],
            &["a", "--picture", "svg"],
            &[],
        ] {
            assert!(options(bad).is_err(), "{bad:?}");
        }
    }
}
