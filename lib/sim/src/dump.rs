//! The dump: the number and the start of each job, a line for each, in the order of the log.

use crate::{metrics::Fate, trace::TraceJob, trouble::Trouble};
use flate2::{Compression, write::GzEncoder};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Writes the dump. Jobs that never started have `-1`.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(path: &Path, jobs: &[TraceJob], fates: &[Fate]) -> Result<(), Trouble> {
    let whole = || -> io::Result<()> {
        let file = BufWriter::with_capacity(64 << 10, File::create(path)?);
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut to = GzEncoder::new(file, Compression::default());
            lines(&mut to, jobs, fates)?;
            to.finish()?.flush()
        } else {
            let mut to = file;
            lines(&mut to, jobs, fates)?;
            to.flush()
        }
    };
    whole().map_err(|e| Trouble::unwritten(path, &e))
}

fn lines(to: &mut impl Write, jobs: &[TraceJob], fates: &[Fate]) -> io::Result<()> {
    jobs.iter().zip(fates).try_for_each(|(job, fate)| writeln!(to, "{} {}", job.id, fate.start.unwrap_or(-1)))
}
