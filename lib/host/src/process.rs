//! Processes as `/proc` shows them, and pidfds. A pid alone names nobody: its owner may have died and the number may
//! have been given again, so everything here goes by a pidfd opened first and a look at `/proc` after it.

use gq_model::Uid;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// No `/proc/PID/stat` is longer: a name and 50 numbers.
const LONGEST_STAT: usize = 2048;

/// What `/proc/PID/stat` says of a process, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub state: u8,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// How many threads it has; a dead one has its first alone.
    pub threads: u32,
    /// When it began, in clock ticks after boot.
    pub start: u64,
}

impl Stat {
    /// Whether nothing of it runs any more: its first thread may have ended alone, and the others go on.
    pub const fn is_dead(&self) -> bool {
        self.threads <= 1 && matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// When process `pid` began, in clock ticks after boot; none when there is no such process. With the boot id it names a
/// process for ever.
pub fn process_start(pid: u32) -> Option<u64> {
    stat(pid).map(|s| s.start)
}

pub fn stat(pid: u32) -> Option<Stat> {
    // The kernel hands the line over whole: one read instead of the five of a file whose length nobody knows.
    let mut line = [0; LONGEST_STAT];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(line.get(..length)?)
}

/// The second field is the program's name in parentheses and may itself hold blanks and parentheses.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|b| *b == b')')?;
    let mut fields = std::str::from_utf8(text.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // The state is field 3, the session field 6, the number of threads field 20, the start field 22.
    let threads = fields.nth(13)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, parent, group, session, threads, start })
}

/// All processes there are.
pub fn all() -> io::Result<Vec<u32>> {
    Ok(fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The process's real uid; none when it is gone.
pub fn real_uid(pid: u32) -> Option<u32> {
    let text = fs::read(format!("/proc/{pid}/status")).ok()?;
    text.split(|b| *b == b'\n').find_map(|line| {
        let rest = std::str::from_utf8(line.strip_prefix(b"Uid:")?).ok()?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// The program's name and the real uid of a living process; none when there is none, or it is dead and waits to be reaped.
pub fn living_process(pid: u32) -> Option<(String, Uid)> {
    stat(pid).filter(|stat| !stat.is_dead())?;
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some((String::from_utf8_lossy(name.trim_ascii_end()).into_owned(), Uid(real_uid(pid)?)))
}

/// The environment that a process was executed with; empty, too, at the moment of its exec. A first thread that has ended alone shows none: the
/// others do.
pub fn environment(pid: u32) -> Vec<u8> {
    let own = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !own.is_empty() {
        return own;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut shown = threads.filter_map(|thread| fs::read(thread.path().join("environ")).ok());
    shown.find(|environment| !environment.is_empty()).unwrap_or_default()
}

/// The value of a variable of an environment.
pub fn variable(environment: &[u8], name: &str) -> Option<Vec<u8>> {
    environment
        .split(|b| *b == 0)
        .find_map(|entry| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
}

/// Opens a pidfd; none when there is no such process.
pub fn pidfd_open(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: takes two integers, returns a new descriptor (close-on-exec by definition) or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match libc::c_int::try_from(fd) {
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(fd) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            e => Err(e),
        },
    }
}

/// Sends a signal; says whether there was anybody to receive it.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32, info: Option<&libc::siginfo_t>) -> io::Result<bool> {
    let info = info.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `info` is null or points to a whole siginfo_t that outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, info, 0) };
    if rc == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let line =
            b"12 (a) R 3 (x) S 7 8 9 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 109323 3133440 414 18446\n";
        assert_eq!(
            parse_stat(line),
            Some(Stat { state: b'S', parent: 7, group: 8, session: 9, threads: 1, start: 109_323 })
        );
        assert_eq!(parse_stat(b"12 (a"), None);
        assert_eq!(parse_stat(b"12 (a) S 1"), None);
    }

    #[test]
    fn this_process_is_known_to_itself() {
        let me = std::process::id();
        assert_eq!(stat(me).unwrap().parent, std::os::unix::process::parent_id());
        assert_eq!(real_uid(me), Some(nix::unistd::getuid().as_raw()));
        assert!(all().unwrap().contains(&me) && pidfd_open(me).unwrap().is_some());
        assert!(pidfd_open(i32::MAX as u32).unwrap().is_none());
    }
}
