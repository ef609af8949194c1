//! Standard input, output and error of a job: opened by a process that already is the job's user.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

/// The error number of opening a FIFO that nobody reads (or a socket) for writing.
pub const NO_READER: i32 = libc::ENXIO;

/// Takes standard output as an owned descriptor. Call once; print nothing to standard output in this process.
pub fn take_stdout() -> OwnedFd {
    // SAFETY: descriptor 1 is open (the runtime sees to that at the start), and by contract nobody else uses it.
    unsafe { OwnedFd::from_raw_fd(1) }
}

/// Sets the umask of this process.
pub fn set_umask(umask: u32) {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(umask & 0o777));
}

/// Lets `/dev/null` take the place of standard input, output and error. After it no path such as `/dev/stdout` leads to
/// what the supervisor held there.
///
/// # Errors
/// When there is no `/dev/null`.
pub fn detach_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    install_stdio(Some(&null), &null, &null)
}

/// Makes these three standard input, output and error; without `input`, standard input stays what it is.
///
/// # Errors
/// When the kernel refuses.
pub fn install_stdio(input: Option<&File>, output: &File, error: &File) -> io::Result<()> {
    input.map_or(Ok(()), nix::unistd::dup2_stdin)?;
    nix::unistd::dup2_stdout(output)?;
    nix::unistd::dup2_stderr(error)?;
    Ok(())
}

/// Opens an input file; does not wait for the writer of a FIFO.
///
/// # Errors
/// When it cannot be opened.
pub fn open_input(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    make_blocking(&file, OFlag::empty())?;
    Ok(file)
}

/// Opens an output file, made when it is not there; its old content goes unless `append`. Does not wait for the reader
/// of a FIFO.
///
/// # Errors
/// When it cannot be opened; `ENXIO` says that it is a FIFO that nobody reads, or a socket.
pub fn open_output(path: &Path, append: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .append(append)
        .truncate(!append)
        .mode(0o666)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    make_blocking(&file, if append { OFlag::O_APPEND } else { OFlag::empty() })?;
    Ok(file)
}

/// Whether two open files are one file, whatever the paths they were opened by.
///
/// # Errors
/// When the kernel refuses.
pub fn same_file(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok(a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Takes `O_NONBLOCK` away, from regular files too: io_uring would heed it there. `flags`: those of the flags that can be
/// changed which the file was opened with.
fn make_blocking(file: &File, flags: OFlag) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFL(flags))?;
    Ok(())
}
