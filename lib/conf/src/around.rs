//! What a site does around its jobs: the fence, programs before and after each run, and the command that runs a script in an image. Only
//! the words of the conf; nothing here is run.

use gq_model::Seconds;
use std::path::PathBuf;

/// What holds a run together, and keeps it from what is not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Whether runs get control groups, where a node may make some.
    pub cgroups: bool,
    /// So many processes and threads a run may have at once; none means what the machine bears.
    pub processes: Option<u32>,
    /// Folders of which each run sees its own, empty at first.
    pub private: Vec<PathBuf>,
    /// Whether programs that would give a run's processes other rights do not.
    pub no_new_privs: bool,
    /// Whether a card's compute mode and clocks are set back after each run that held it whole.
    pub set_back_cards: bool,
}

/// What nodes run before and after each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHooks {
    /// Folder of the programs before each run.
    pub prolog_dir: Option<PathBuf>,
    /// How long these may take together.
    pub prolog_time: Seconds,
    /// Folder of the programs after each run.
    pub epilog_dir: Option<PathBuf>,
    /// How long these may take together.
    pub epilog_time: Seconds,
}

/// How a script is run in an image. Words such as `{image}` stand for what is of the job; all of them are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// What takes the place of `{gpus}` when the job holds cards.
    pub gpus: Vec<String>,
    /// What takes the place of `{each_gpu}`, once for each card of the job.
    pub each_gpu: Vec<String>,
    /// What takes the place of `{checkpoint}` when the job has a folder for checkpoints.
    pub checkpoint: Vec<String>,
    /// What takes the place of `{env}`, once for each variable of the job.
    pub env: Vec<String>,
}
