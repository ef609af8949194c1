//! The limit on open files. Changes no other limit, and never a hard one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lifts the soft limit on open files to the hard one; what goes wrong is logged and changes nothing.
pub fn raise_nofile() {
    let lifted = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(why) = lifted {
        log::warn!("the limit on open files stays as it is: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_nofile();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(soft, hard);
    }
}
