//! Refusals: what is refused for want of rights, or of what lies in the drop box, stands in the log, a line for each, but of one user no
//! more lines than can be read: the rest is counted. Never decides who may.

use crate::{board::Board, door::Door, viewer::Viewer};
use gq_model::{JobRef, Uid};
use gq_proto::{Failure, RefusalKind, Reply};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Most lines of one user in each [`SPAN`].
const LINES: u32 = 10;
/// How long a user's lines are counted.
const SPAN: Duration = Duration::from_secs(60);
/// Most users whose lines are counted each by themselves; all others share one count.
const MAX_USERS: usize = 1024;
/// Most bytes of what is said of one refusal.
const MAX_WORDS: usize = 300;
/// Most ids of one request that are looked up to know whether they are hidden.
const MAX_LOOKED_UP: usize = 16;

/// Lines of one user.
struct Count {
    since: Instant,
    lines: u32,
    /// Refusals without a line.
    silent: u64,
}

/// How much each user has had logged of late; none is whoever is one too many.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<Option<Uid>, Count>>);

impl Refusals {
    /// Logs one refusal.
    pub(crate) fn log(&self, uid: Uid, words: &str) {
        for line in self.lines(Instant::now(), uid, words) {
            log::warn!("{line}");
        }
    }

    /// The lines that are to be logged of a refusal now; those of users whose time is over come first.
    fn lines(&self, now: Instant, uid: Uid, words: &str) -> Vec<String> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        counts.retain(|whose, count| {
            let lives = now.saturating_duration_since(count.since) < SPAN;
            if !lives && count.silent > 0 {
                let whose = whose.map_or_else(|| "other users".to_owned(), |uid| format!("uid {uid}"));
                lines.push(format!("{whose}: refused {} times more", count.silent));
            }
            lives
        });
        let key = Some(uid).filter(|uid| counts.len() < MAX_USERS || counts.contains_key(&Some(*uid)));
        let count = counts.entry(key).or_insert(Count { since: now, lines: 0, silent: 0 });
        if count.lines < LINES {
            count.lines += 1;
            lines.push(format!("uid {uid}: refused: {}", shortened(words)));
        } else {
            count.silent = count.silent.saturating_add(1);
        }
        lines
    }
}

fn shortened(words: &str) -> &str {
    let end = (0..=MAX_WORDS.min(words.len())).rev().find(|at| words.is_char_boundary(*at));
    end.and_then(|end| words.get(..end)).unwrap_or_default()
}

impl Door {
    /// Logs what an answer refuses for want of rights, be it that the asker is told that there is no such job.
    pub(crate) fn note(&self, board: &Board, uid: Uid, verb: &str, reply: &Reply) {
        let told = match reply {
            Reply::Refused(refusal) if refusal.kind == RefusalKind::NotPermitted => refusal.text.clone(),
            Reply::Done { failures, .. } => {
                let viewer = Viewer::new(&board.policy, uid);
                let looked_up = failures.iter().take(MAX_LOOKED_UP);
                let hidden = looked_up.filter(|failure| self.hides(board, &viewer, failure));
                let hidden = hidden.map(|failure| (&failure.what, "it is hidden from this user"));
                let may_not = failures.iter().filter(|f| f.refusal.kind == RefusalKind::NotPermitted);
                let may_not = may_not.map(|failure| (&failure.what, failure.refusal.text.as_str()));
                let mut all = may_not.chain(hidden);
                let Some((what, text)) = all.next() else { return };
                let first = format!("{what}: {text}");
                match all.count() {
                    0 => first,
                    more => format!("{first}, and {more} more"),
                }
            }
            _ => return,
        };
        self.refusals.log(uid, &format!("{verb}: {told}"));
    }

    /// Whether a failure keeps from its reader that there is such a job.
    fn hides(&self, board: &Board, viewer: &Viewer<'_>, failure: &Failure) -> bool {
        failure.refusal.kind == RefusalKind::NoSuchJob
            && failure
                .what
                .parse::<JobRef>()
                .is_ok_and(|named| self.is_hidden(board, viewer, named.job).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_fills_the_log_and_what_is_left_out_is_counted() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        let mut lines = Vec::new();
        for _ in 0..100_000 {
            lines.extend(refusals.lines(begin, Uid(7), "cancel: 17: job 17 belongs to ann"));
        }
        assert_eq!(lines, vec!["uid 7: refused: cancel: 17: job 17 belongs to ann"; LINES as usize]);
        let other = refusals.lines(begin, Uid(8), "reload: only admins may do this");
        assert_eq!(
            other,
            ["uid 8: refused: reload: only admins may do this"],
            "others have lines of their own"
        );
        let later = refusals.lines(begin + SPAN, Uid(8), "x");
        assert_eq!(later, ["uid 7: refused 99990 times more", "uid 8: refused: x"]);
        let users: usize =
            (0..100_000).map(|uid| refusals.lines(begin + SPAN, Uid(1000 + uid), "x").len()).sum();
        assert!(users <= MAX_USERS + LINES as usize, "{users}");
        assert!(refusals.0.lock().unwrap().len() <= MAX_USERS + 1);
    }

    #[test]
    fn a_line_is_short_whatever_is_in_it() {
        let refusals = Refusals::default();
        let line = refusals.lines(Instant::now(), Uid(7), &"\u{fc}".repeat(100_000)).remove(0);
        assert!(line.len() < 2 * MAX_WORDS, "{}", line.len());
        assert_eq!((shortened(""), shortened("short")), ("", "short"));
    }
}
