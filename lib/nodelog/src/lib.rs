//! The node's log: orders taken, starts and results, appended by `gqnode` and by every `gqstep` of the node.
//!
//! A folder of segments `<16 hex digits>.log` on a local disk. A segment is lines of `crc32 blank json`; each write(2)
//! is whole lines with an empty line before them, so that a line that was torn by a full disk or a dead machine
//! spoils nothing behind it. It decides nothing: what the records mean is `gq-nodecore`'s business.

mod append;
mod line;
mod log;
mod record;
mod scan;
mod segment;
mod watch;

pub use append::Appender;
pub use log::{Log, LogError};
pub use record::{RECORD_VERSION, Record, Taken, Why};
pub use watch::Watch;
