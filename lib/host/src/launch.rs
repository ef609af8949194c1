//! From supervisor to script: the fork, the session, the exec.

use std::{
    ffi::{CStr, CString},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::Duration,
};
use thiserror::Error;

/// Makes this process a supervisor: closes every inherited descriptor but the first three, keeps its files and memory
/// from others, and becomes the parent of whatever its descendants leave behind.
///
/// # Errors
/// When the kernel refuses.
pub fn settle() -> io::Result<()> {
    close_from_three()?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    nix::sys::prctl::set_dumpable(false)?;
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

fn close_from_three() -> io::Result<()> {
    // SAFETY: closes numbers; this process has no descriptor above 2 that anything still owns.
    let rc = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    if rc == 0 {
        return Ok(());
    }
    // A kernel before 5.9: one by one.
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd >= 3)
        .collect();
    for fd in open {
        // SAFETY: as above; the number of the listing itself is closed by now and gives EBADF.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Forks; the child does `work` and exits with the code it returns. Returns the child's pid.
///
/// Only for a process with a single thread, as a supervisor is.
///
/// # Errors
/// When there is no process or memory left.
pub fn fork(work: impl FnOnce() -> u8) -> io::Result<u32> {
    // SAFETY: one thread: no lock can be held by another that the child does not have.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => u32::try_from(child.as_raw()).map_err(io::Error::other),
        nix::unistd::ForkResult::Child => {
            // A panic must not unwind into what the parent was doing.
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(70);
            // SAFETY: ends this process; nothing of the parent's is flushed a second time.
            unsafe { libc::_exit(i32::from(code)) }
        }
    }
}

/// From now on no program gives this process, or any that it starts, rights that it does not have, as one with a setuid bit would.
///
/// # Errors
/// When the kernel refuses.
pub fn gain_no_rights() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Makes a session of its own for this process.
///
/// # Errors
/// When it leads a process group already.
pub fn own_session() -> io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

/// Sleeps so long, however often it is interrupted, with no descriptor open but the first three.
///
/// # Errors
/// When the kernel refuses.
pub fn sleep_exactly(span: Duration) -> io::Result<()> {
    close_from_three()?;
    std::thread::sleep(span);
    Ok(())
}

/// Why a script was not executed.
#[derive(Debug, Error)]
pub enum ExecTrouble {
    /// The script's own fault: its interpreter, its arguments.
    #[error("{0}")]
    Script(String),
    /// The file system's of its interpreter, which may be a user's own.
    #[error("{0}")]
    Interpreter(String),
    /// The machine's fault.
    #[error("{0}")]
    Machine(String),
}

/// Executes `script` with these arguments (its own path comes first) and this environment. Returns only when that fails.
///
/// Strings with a NUL cannot be handed over and are left out.
pub fn execute(script: &Path, args: &[Vec<u8>], env: &[Vec<u8>]) -> ExecTrouble {
    let strings = |list: &[Vec<u8>]| -> Vec<CString> {
        list.iter().filter_map(|s| CString::new(s.as_slice()).ok()).collect()
    };
    let Ok(path) = CString::new(script.as_os_str().as_bytes()) else {
        return ExecTrouble::Machine("the run's folder has a NUL in its path".into());
    };
    let mut argv = vec![path.clone()];
    argv.extend(strings(args));
    let error = exec(&path, &argv, &strings(env));
    let text = error.desc();
    match error {
        nix::Error::EACCES if on_noexec(script) => ExecTrouble::Machine(format!(
            "{}: its file system is mounted noexec; set node_dir to another",
            script.display()
        )),
        nix::Error::ENOENT => ExecTrouble::Script(format!("the interpreter of its first line: {text}")),
        nix::Error::EACCES => ExecTrouble::Script(format!("the interpreter of its first line: {text}")),
        nix::Error::E2BIG => ExecTrouble::Script(format!("its arguments and environment: {text}")),
        nix::Error::ENOEXEC | nix::Error::ELOOP | nix::Error::ENOTDIR | nix::Error::ENAMETOOLONG => {
            ExecTrouble::Script(format!("its first line: {text}"))
        }
        // Only its owner can have opened it, and only he can have so many processes.
        nix::Error::ETXTBSY => ExecTrouble::Script(format!(
            "{}: a process of this user outside the job has it open for writing",
            script.display()
        )),
        nix::Error::EAGAIN => ExecTrouble::Script("this user has too many processes on this machine".into()),
        _ => ExecTrouble::Interpreter(format!("{}: {text}", script.display())),
    }
}

/// Executes a program with these arguments (its own path comes first) and this environment. Returns only when that fails, with what
/// the kernel said.
///
/// Strings with a NUL cannot be handed over and are left out.
pub fn execute_program(program: &Path, args: &[Vec<u8>], env: &[Vec<u8>]) -> io::Error {
    let strings =
        |list: &[Vec<u8>]| list.iter().filter_map(|s| CString::new(s.as_slice()).ok()).collect::<Vec<_>>();
    match CString::new(program.as_os_str().as_bytes()) {
        Ok(path) => {
            let argv: Vec<CString> = std::iter::once(path.clone()).chain(strings(args)).collect();
            exec(&path, &argv, &strings(env)).into()
        }
        Err(e) => io::Error::other(e),
    }
}

fn exec(path: &CStr, argv: &[CString], env: &[CString]) -> nix::Error {
    match nix::unistd::execve(path, argv, env) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

fn on_noexec(path: &Path) -> bool {
    nix::sys::statvfs::statvfs(path)
        .is_ok_and(|fs| fs.flags().contains(nix::sys::statvfs::FsFlags::ST_NOEXEC))
}
