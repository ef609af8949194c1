//! Facts of the machine: its boot, its clocks, its cpus and its memory.

use gq_model::{BootId, MiB, Timestamp};
use std::{
    fs,
    io::{self, Read},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Reads which boot of the machine this is.
///
/// # Errors
/// When `/proc` is not there or holds something else.
pub fn boot_id() -> io::Result<BootId> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    text.trim().replace('-', "").parse().map_err(io::Error::other)
}

/// So many bytes that nobody can foretell.
///
/// # Errors
/// When `/dev/urandom` cannot be read.
pub fn random_bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// How long ago the machine was booted, suspensions included. A change of the wall clock does not move it.
///
/// # Errors
/// When the kernel has no such clock.
pub fn boot_clock() -> io::Result<Duration> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)?;
    Ok(Duration::from(time))
}

/// The wall clock.
pub fn now() -> Timestamp {
    let micros = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    Timestamp(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or_else(|before| micros(before.duration()).saturating_neg(), micros),
    )
}

/// How many cpus this process may use (affinity and cgroup quota counted); at least 1.
pub fn cpu_count() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// So many processes and threads a run may have for each cpu of the machine: libraries start a thread for each, in each of several processes.
const PROCESSES_PER_CPU: u32 = 512;
/// What stays for others of all that there can be: all but one part in so many.
const PART_OF_PROCESSES: u32 = 3;

/// How many processes and threads a run may have at once, so that others find the machine answering beside one that makes as many as it can.
///
/// # Errors
/// When the kernel does not tell how many there can be.
pub fn processes_of_a_run() -> io::Result<u32> {
    let number = |file: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(file))?;
        text.trim().parse::<u32>().map_err(io::Error::other)
    };
    let all = number("pid_max")?.min(number("threads-max")?);
    Ok(cpu_count().saturating_mul(PROCESSES_PER_CPU).min(all / PART_OF_PROCESSES))
}

/// How much memory the machine has.
///
/// # Errors
/// When `/proc/meminfo` is not there or holds no total.
pub fn memory() -> io::Result<MiB> {
    let text = fs::read_to_string("/proc/meminfo")?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map(|kib| MiB(kib / 1024))
        .ok_or_else(|| io::Error::other("/proc/meminfo: no line MemTotal"))
}

/// The words of an error without its number, as `No such file or directory`.
pub fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

/// Says of an error where it was; its kind stays.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{}: {}", path.display(), words(&e)))
}

/// Whether an error says that the machine has no room, processes, descriptors or memory left.
pub fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
        || matches!(
            error.raw_os_error(),
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC | libc::EROFS)
        )
}

/// Whether an error says that the machine or a file system is short of something or away, and so is nobody's mistake.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::EIO
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ENOSPC
                | libc::ENOTCONN
                | libc::ESTALE
                | libc::ETIMEDOUT
        )
    )
}
