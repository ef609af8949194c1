//! The limit on open files: lifted, and told. Changes no other limit, and never a hard one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lifts the soft limit on open files to the hard one; what goes wrong is logged and changes nothing.
///
/// # Errors
/// Words for people, when fewer than `least` may be open all the same.
pub fn raise_nofile(least: usize) -> Result<(), String> {
    let lifted = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(why) = lifted {
        log::warn!("the limit on open files stays as it is: {why}");
    }
    match open_files() {
        most if most < least => Err(format!(
            "at most {most} files may be open here, and {least} must be\n  try: ulimit -Hn, or LimitNOFILE= in the unit"
        )),
        _ => Ok(()),
    }
}

/// How many files this process may have open; as many as a number can say when there is no limit.
pub fn open_files() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_nofile(64).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(soft, hard);
        assert!(raise_nofile(usize::MAX).is_err() || hard == u64::MAX);
    }
}
