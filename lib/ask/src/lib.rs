//! Turns options and script directives into a job's request. Reads no file, no clock and no environment: all of it is
//! handed in.
//!
//! One table of options (`table`) serves the command line, the `GQSUB_*` environment, `#GQ` and `#SBATCH` lines, the
//! help text, the man page and the completions. A request is made in two steps, because the command line names the
//! script whose directives count too: [`read_command_line`], then [`CommandLine::resolve`]. The command line wins over
//! the environment, the environment over the script; within the script the last line counts.
//!
//! What gq does not do yet is refused by name, never ignored (`unbuilt`). What sbatch options say and gq does anyway (`-N1`,
//! `--nodes=1-4`, `--export=ALL`, `--open-mode=truncate`) is an option of the table like any other. The two that scripts carry
//! along and that change nothing (`--wckey`, `--hint=nomultithread`) are taken with a word about it.

mod begin;
mod cards;
mod change;
mod directives;
mod error;
mod export;
mod items;
mod licences;
mod life;
mod line;
mod rerun;
mod resolve;
mod said;
mod script;
mod table;
mod trial;
mod unbuilt;
mod values;
mod warnings;

pub use begin::read_instant;
pub use change::{ANEW, Anew, behind_job_key, read_change, read_key};
pub use error::{AskError, Place, Problem};
pub use export::Export;
pub use life::read_signal;
pub use line::{CommandLine, Early, read_command_line};
pub use rerun::Failed;
pub use resolve::{Context, Submission};
pub use script::{Script, ScriptName};
pub use table::{ENV_PREFIX, command, option_names};

/// Longest comment, in bytes.
pub const MAX_COMMENT: usize = gq_model::MAX_COMMENT;

/// Writes what somebody typed so that it can be shown: control characters written out, and not more than 120 characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let mut out = String::with_capacity(text.len().min(MOST));
    for (count, c) in text.chars().enumerate() {
        if count == MOST {
            out.push('…');
            break;
        }
        // Quotes and backslashes stay as they were typed; what could move the cursor or turn the text does not.
        if values::is_unprintable(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}
