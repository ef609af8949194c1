//! Failpoints: every durable step of a program stands in [`step`], just before and just after which a test build may be killed. Without the
//! feature `failpoints` a step is what it does and nothing else, and no program holds the name of one.

#[cfg(feature = "failpoints")]
mod armed;
mod table;

pub use table::Step;

/// Does a durable step.
///
/// A test build looks before it for the failpoint `NAME.before` and behind it for `NAME.after`, whether it was done well or not.
#[inline]
pub fn step<T>(step: Step, act: impl FnOnce() -> T) -> T {
    #[cfg(feature = "failpoints")]
    armed::reach(step, "before");
    #[cfg(not(feature = "failpoints"))]
    let _ = step;
    let done = act();
    #[cfg(feature = "failpoints")]
    armed::reach(step, "after");
    done
}

/// Takes up what a test build is told of its failpoints by the variable `FAILPOINTS` (see the crate `fail`): `NAME.before=return` kills the
/// program there as `kill -9` does; `NAME.before=return(N FILE)` appends a byte to FILE at each passing, of whatever process, and kills whoever
/// makes it N bytes long.
///
/// True when `words`, the program's arguments without its name, are `--list-failpoints`: its failpoints are printed, and nothing else is wanted.
#[inline]
pub fn begin(program: &str, words: &[impl AsRef<std::ffi::OsStr>]) -> bool {
    #[cfg(feature = "failpoints")]
    return armed::begin(program, words);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = (program, words);
        false
    }
}

/// What a supervisor is to be told of its failpoints, whose environment is made anew: the variable and its value.
#[inline]
pub fn handed_on() -> Option<(&'static str, std::ffi::OsString)> {
    #[cfg(feature = "failpoints")]
    return std::env::var_os(armed::VARIABLE).map(|value| (armed::VARIABLE, value));
    #[cfg(not(feature = "failpoints"))]
    None
}
