//! Keeps the spool's directories: the drop box that users write to, accepted job files, letters as files.
//!
//! Every check of an untrusted file is made on the opened file, never on a name. What is in a job file or a letter is
//! not looked at here: bytes come in and bytes go out.

mod cluster_id;
mod drop_client;
mod folder;
mod intake;
mod jobs;
mod letters;
mod refusal;
mod root;
mod scan;
#[cfg(test)]
mod tests;
mod watch;

pub use cluster_id::read_cluster_id;
pub use drop_client::{DropClient, drop_name};
pub use folder::{check_file_way, check_way};
pub use intake::Dropped;
pub use letters::{LetterKind, LetterReader, LetterWriter, MAX_HEAD, MAX_LETTER};
pub use refusal::{DropError, SpoolError};
pub use root::Spool;
pub use scan::{Cleaned, Litter, MAX_READY, MAX_READY_PER_USER, Ready, STALE};
pub use watch::{Watch, watch};
