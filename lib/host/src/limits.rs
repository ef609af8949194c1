//! Resource limits: the soft ones of the submitting shell, never above the hard ones of this process.

use gq_model::ResourceLimit;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use std::io;

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "as" => Resource::RLIMIT_AS,
        "core" => Resource::RLIMIT_CORE,
        "cpu" => Resource::RLIMIT_CPU,
        "data" => Resource::RLIMIT_DATA,
        "fsize" => Resource::RLIMIT_FSIZE,
        "locks" => Resource::RLIMIT_LOCKS,
        "memlock" => Resource::RLIMIT_MEMLOCK,
        "msgqueue" => Resource::RLIMIT_MSGQUEUE,
        "nice" => Resource::RLIMIT_NICE,
        "nofile" => Resource::RLIMIT_NOFILE,
        "nproc" => Resource::RLIMIT_NPROC,
        "rss" => Resource::RLIMIT_RSS,
        "rtprio" => Resource::RLIMIT_RTPRIO,
        "rttime" => Resource::RLIMIT_RTTIME,
        "sigpending" => Resource::RLIMIT_SIGPENDING,
        "stack" => Resource::RLIMIT_STACK,
        _ => return None,
    })
}

/// Sets the soft limits; hard limits stay as they are, and a soft limit above its hard one becomes the hard one. A limit
/// that this system does not know is left out.
///
/// # Errors
/// When the kernel refuses.
pub fn apply_limits(limits: &[ResourceLimit]) -> io::Result<()> {
    for limit in limits {
        let Some(resource) = resource(&limit.name) else { continue };
        let (_, hard) = getrlimit(resource)?;
        // Unlimited is the largest number there is, so the smaller of the two is right in every case.
        setrlimit(resource, limit.soft.unwrap_or(RLIM_INFINITY).min(hard), hard)?;
    }
    Ok(())
}
