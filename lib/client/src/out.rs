//! The answer: stdout, buffered, with every failed write noticed. Words for people go to stderr (see `trouble`).

use crate::trouble::Trouble;
use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal, Write},
    os::fd::AsFd,
};

/// Bytes gathered before they are written.
const BUFFER: usize = 64 << 10;

/// Where an answer goes, and what is known of the place.
pub struct Out {
    to: BufWriter<File>,
    /// Columns of the terminal; none when it is no terminal.
    pub width: Option<usize>,
    /// Whether colours are wanted there.
    pub colour: bool,
}

impl Out {
    /// Stdout. Colours: on a terminal, unless `NO_COLOR` is set or the terminal is a dumb one.
    ///
    /// # Errors
    /// When there is no stdout.
    pub fn stdout() -> Result<Self, Trouble> {
        let stdout = io::stdout();
        let width = stdout.is_terminal().then(|| {
            terminal_size::terminal_size_of(&stdout).map_or(80, |(width, _)| usize::from(width.0)).max(1)
        });
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let plain = set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb");
        let fd = stdout.as_fd().try_clone_to_owned().map_err(|e| Trouble::of_output(&e))?;
        let to = BufWriter::with_capacity(BUFFER, File::from(fd));
        Ok(Self { to, width, colour: width.is_some() && !plain })
    }

    #[cfg(test)]
    pub(crate) fn of_file(file: File, width: Option<usize>) -> Self {
        Self { to: BufWriter::with_capacity(BUFFER, file), width, colour: false }
    }

    /// Writes a piece of the answer.
    ///
    /// # Errors
    /// When it cannot be written; [`Trouble::ReaderGone`] when nobody reads it.
    pub fn put(&mut self, text: &str) -> Result<(), Trouble> {
        self.to.write_all(text.as_bytes()).map_err(|e| Trouble::of_output(&e))
    }

    /// Writes what has been gathered so far.
    ///
    /// # Errors
    /// As [`Out::put`].
    pub fn flush(&mut self) -> Result<(), Trouble> {
        self.to.flush().map_err(|e| Trouble::of_output(&e))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
