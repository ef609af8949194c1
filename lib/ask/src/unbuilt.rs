//! Options that this version refuses by name: Slurm's, and those gq promises. An option that is built leaves this list.

use crate::{Problem, table};

/// Long name, and short name where there is one.
const UNBUILT: &[(&str, Option<char>)] = &[
    ("batch", None),
    ("bb", None),
    ("bbf", None),
    ("cluster", None),
    ("cluster-constraint", None),
    ("clusters", Some('M')),
    ("consolidate-segments", None),
    ("container-id", None),
    ("contiguous", None),
    ("core-spec", Some('S')),
    ("cores-per-socket", None),
    ("cpu-bind", None),
    ("cpu-freq", None),
    ("cpus-per-gpu", None),
    ("delay-boot", None),
    ("distribution", Some('m')),
    ("export-file", None),
    ("extra", None),
    ("extra-node-info", Some('B')),
    ("gid", None),
    ("gpu-bind", None),
    ("gpu-freq", None),
    ("gres-flags", None),
    ("ignore-pbs", None),
    ("mcs-label", None),
    ("mem-bind", None),
    ("mincpus", None),
    ("network", None),
    ("no-kill", Some('k')),
    ("nodefile", Some('F')),
    ("ntasks-per-core", None),
    ("ntasks-per-gpu", None),
    ("ntasks-per-socket", None),
    ("oom-kill-step", None),
    ("overcommit", Some('O')),
    ("oversubscribe", Some('s')),
    ("power", None),
    ("prefer", None),
    ("priority", None),
    ("profile", None),
    ("reboot", None),
    ("resv-ports", None),
    ("segment", None),
    ("share", None),
    ("sockets-per-node", None),
    ("spread-job", None),
    ("stepmgr", None),
    ("switches", None),
    ("thread-spec", None),
    ("threads-per-core", None),
    ("tmp", None),
    ("tres-bind", None),
    ("tres-per-task", None),
    ("uid", None),
    ("use-min-nodes", None),
    ("wait-all-nodes", None),
    ("x11", None),
];

/// What to do without them, where there is something better than to leave them out.
const INSTEAD: &[(&str, &str)] = &[
    ("batch", "--constraint: a job has one node, and its script runs there"),
    ("cpus-per-gpu", "--cpus-per-task"),
    ("mincpus", "--cpus-per-task"),
    ("ntasks-per-gpu", "--ntasks"),
    ("export-file", "--export=NAME=value,..., or source the file in the script"),
];

/// Names that options had elsewhere or long ago.
const RENAMED: &[(&str, &str)] =
    &[("workdir", "chdir"), ("timelimit", "time"), ("memory", "mem"), ("walltime", "time")];

/// What is wrong with an option that the table lacks, and the name that was meant, if one is near.
///
/// `option`: without dashes; a single character is a short name.
pub(crate) fn problem(option: &str) -> (Problem, Option<&'static str>) {
    let mut chars = option.chars();
    let short = chars.next().filter(|_| chars.next().is_none());
    let found =
        UNBUILT.iter().find(|(long, letter)| *long == option || (short.is_some() && *letter == short));
    match found {
        Some((long, Some(letter))) if short.is_some() => {
            (Problem::NotBuilt(format!("-{letter} (--{long})")), None)
        }
        Some((long, _)) => (Problem::NotBuilt(format!("--{long}")), None),
        None => (Problem::Unknown, if short.is_some() { None } else { nearest(option) }),
    }
}

/// What to do instead of an option that is not built.
///
/// `option`: without dashes; a single character is a short name.
pub(crate) fn instead(option: &str) -> Option<&'static str> {
    let long = UNBUILT.iter().find(|(_, short)| short.is_some_and(|letter| option.chars().eq([letter])));
    let long = long.map_or(option, |(long, _)| long);
    INSTEAD.iter().find(|(name, _)| *name == long).map(|(_, words)| *words)
}

fn nearest(option: &str) -> Option<&'static str> {
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == option) {
        return Some(new);
    }
    likest(option, table::option_names().chain(UNBUILT.iter().map(|(long, _)| *long)))
}

/// Which of the known words is most like one that is not, in any case, if any is like enough to be meant.
pub(crate) fn likest(word: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    /// Least likeness (0 to 1) that is worth a word.
    const LIKE: f64 = 0.8;
    let word = word.to_ascii_lowercase();
    known
        .map(|name| (strsim::jaro_winkler(&name.to_ascii_lowercase(), &word), name))
        .filter(|(like, _)| *like > LIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_instead_is_said_of_options_that_are_not_built() {
        for (name, _) in INSTEAD {
            assert!(UNBUILT.iter().any(|(long, _)| long == name), "{name}");
        }
        assert!(instead("export-file").is_some() && instead("M").is_none());
    }

    #[test]
    fn nothing_is_both_built_and_refused() {
        for (long, short) in UNBUILT {
            assert!(table::find(long).is_none(), "{long}");
            assert!(
                short.is_none_or(|letter| table::TABLE.iter().all(|row| row.short != Some(letter))),
                "{long}"
            );
        }
    }
}
