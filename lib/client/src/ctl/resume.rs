//! `gqctl resume`: lets suspended jobs go on, or has drained nodes used again; what a word looks like says which is meant.

use super::PROGRAM;
use crate::{
    cancel::{done, loudness},
    link::{Link, conf_of},
    select::read_jobs,
    trouble::Trouble,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use gq_model::{JobRef, NodeName, expand_hosts};
use gq_proto::{Ask, Selection};

pub(super) fn resume_command() -> Command {
    Command::new("resume")
        .about("Let suspended jobs go on, or use drained nodes again")
        .arg(
            Arg::new("what")
                .value_name("ID|NODES")
                .action(ArgAction::Append)
                .required(true)
                .help("Jobs: 17, 17_3 or 17_[0-4]; or nodes: ws1, or ws[1-4,7]"),
        )
        .args(loudness())
}

/// Asks for it, of jobs first.
pub(super) fn resume(words: &ArgMatches) -> Result<u8, Trouble> {
    let said: Vec<&str> =
        words.get_many::<String>("what").into_iter().flatten().map(String::as_str).collect();
    let (jobs, nodes) = sorted(&said)?;
    let link = Link::open(conf_of(words))?;
    let mut code = 0;
    if !jobs.is_empty() {
        let select = Selection { jobs, ..Selection::default() };
        code = done(&link, link.ask(Ask::Continue { select })?, PROGRAM, "resumed", words)?;
    }
    if !nodes.is_empty() {
        code = code.max(done(&link, link.ask(Ask::Resume { nodes })?, PROGRAM, "resumed", words)?);
    }
    Ok(code)
}

/// Which jobs and which nodes are meant: a word that begins with digits and has nothing but digits before a `_`, or begins
/// with `JobId=`, is a job.
fn sorted(said: &[&str]) -> Result<(Vec<JobRef>, Vec<NodeName>), Trouble> {
    let (mut jobs, mut nodes) = (Vec::new(), Vec::new());
    for word in said {
        let first = word.split(['_', ',']).next().unwrap_or_default();
        let is_number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
        if is_number || gq_ask::behind_job_key(word).is_some() {
            jobs.extend(read_jobs(&[word])?);
        } else {
            nodes.extend(expand_hosts(word).map_err(|e| Trouble::usage(format!("`{word}`: {e}")))?);
        }
    }
    Ok((jobs, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_job_or_a_node_by_its_form() {
        let read = |said: &[&str]| {
            sorted(said).map(|(jobs, nodes)| {
                let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                (jobs.join(" "), nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" "))
            })
        };
        for (said, jobs, nodes) in [
            (&["17"][..], "17", ""),
            (&["JobId=17,18_3", "ws1"], "17 18_3", "ws1"),
            (&["17_3", "18_[0-4]", "19,20"], "17_3 18_[0-4] 19 20", ""),
            (&["ws1"], "", "ws1"),
            (&["ws[1-2],gpu_3"], "", "ws1 ws2 gpu_3"),
            (&["17", "2nd-floor"], "17", "2nd-floor"),
        ] {
            assert_eq!(read(said).unwrap(), (jobs.to_owned(), nodes.to_owned()), "{said:?}");
        }
        for bad in ["17_", "17_x", "", "ws[1"] {
            assert_eq!(read(&[bad]).unwrap_err().code(), 2, "{bad}");
        }
    }
}
