//! What keeps this node from starting anything at present: a disk without room, a machine that is short of something. It decides nothing else of them.

use std::{
    io,
    time::{Duration, Instant},
};

/// How long no other start is tried after one that found something short.
const PAUSE: Duration = Duration::from_secs(5);

/// The trouble of a node.
#[derive(Debug, Default)]
pub struct Trouble {
    /// What a start found short, and when.
    short: Option<(String, Instant)>,
}

impl Trouble {
    /// A start failed; says whether for want of something that others will want too.
    pub fn note(&mut self, error: &io::Error, now: Instant) -> bool {
        let is_short = gq_host::is_exhausted(error);
        if is_short {
            self.short = Some((error.to_string(), now));
        }
        is_short
    }

    /// A supervisor found something short.
    pub fn found(&mut self, words: &str, now: Instant) {
        self.short = Some((words.to_owned(), now));
    }

    /// Why nothing can be started now. `disk`: what is wrong with the node's own disk.
    pub fn now(&mut self, disk: Option<String>, now: Instant) -> Option<String> {
        self.short.take_if(|(_, since)| now.duration_since(*since) >= PAUSE);
        disk.or_else(|| {
            self.short.as_ref().map(|(words, _)| format!("this node is short of something: {words}"))
        })
    }
}
