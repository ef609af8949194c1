//! What a site does around its runs, as `gqnode` tells it to its supervisors: where their control groups are, programs before and after,
//! and the command that runs a script in an image. The words alone; `hook` runs programs.

use crate::{devices::Devices, groups::Ground};
use gq_model::Seconds;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Variable of a supervisor's environment: what the site does around runs, as JSON; see [`Around`]. Not set when that is nothing.
pub const ENV_AROUND: &str = "GQSTEP_AROUND";

/// What a site does around each run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    /// Where its control group is made.
    pub ground: Ground,
    /// So many processes and threads it may have at once, where groups bound them.
    pub processes: u32,
    /// The devices that are kept from it, and its own.
    pub devices: Devices,
    /// The folders of which it sees its own.
    pub private: Vec<PathBuf>,
    /// Whether programs give its processes no other rights.
    pub no_new_privs: bool,
    /// The programs before it.
    pub prolog: Option<HookFolder>,
    /// The programs after it.
    pub epilog: Option<HookFolder>,
    /// How a script is run in an image; none when it is not.
    pub container: Option<ContainerCommand>,
}

/// A folder of programs that are run in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookFolder {
    /// The folder.
    pub dir: PathBuf,
    /// How long they may take together.
    pub time: Seconds,
}

/// How a script is run in an image: lists of arguments with words in braces for what is of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What takes the place of `{gpus}` when the job holds cards.
    pub gpus: Vec<String>,
    /// What takes the place of `{each_gpu}`, once for each card.
    pub each_gpu: Vec<String>,
    /// What takes the place of `{checkpoint}` when the job has a folder for checkpoints.
    pub checkpoint: Vec<String>,
    /// What takes the place of `{env}`, once for each variable.
    pub env: Vec<String>,
}
