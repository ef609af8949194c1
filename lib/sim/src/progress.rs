//! The progress bar: on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};

/// Jobs between two moves of the bar.
const STRIDE: u64 = 1024;

/// How far a simulation is.
pub(crate) struct Progress {
    bar: ProgressBar,
    done: u64,
}

impl Progress {
    /// A bar of `total` jobs on stderr; none when that is no terminal.
    pub(crate) fn new(total: u64) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template("{bar:40} {percent:>3} %  {pos}/{len} jobs  {per_sec}, {eta} left");
        let bar = ProgressBar::with_draw_target(Some(total), target);
        Self { bar: style.map(|style| bar.clone().with_style(style)).unwrap_or(bar), done: 0 }
    }

    /// A job has ended.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STRIDE) {
            self.bar.set_position(self.done);
        }
    }

    /// All is done: the bar goes.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
