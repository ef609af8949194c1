//! The reports that are owed: numbered from 1 in each life, kept until acknowledged, sent again on every new link. It
//! never decides what is reported.

use crate::Report;
use alloc::{
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};
use gq_model::{RunKey, Seq};

/// Reports of one life.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Made since the last numbering.
    fresh: Vec<Report>,
    /// Numbered and not acknowledged.
    kept: VecDeque<(Seq, Report)>,
    highest: Seq,
    link: bool,
    again: bool,
}

impl Outbox {
    pub(crate) fn push(&mut self, report: Report) {
        self.fresh.push(report);
    }

    /// The link came (all is to be sent again) or went.
    pub(crate) const fn link(&mut self, up: bool) {
        self.link = up;
        self.again = up;
    }

    pub(crate) const fn highest(&self) -> Seq {
        self.highest
    }

    pub(crate) fn lowest(&self) -> Seq {
        self.kept.front().map_or(Seq(self.highest.0.saturating_add(1)), |(seq, _)| *seq)
    }

    pub(crate) fn owes_cards(&self) -> bool {
        self.owes(|report| matches!(report, Report::Cards(_)))
    }

    pub(crate) fn owes_trouble(&self) -> bool {
        self.owes(|report| matches!(report, Report::Trouble(_)))
    }

    pub(crate) fn owes_idle(&self, of: RunKey) -> bool {
        self.owes(|report| matches!(report, Report::Idle { key, .. } if *key == of))
    }

    fn owes(&self, is_one: impl Fn(&Report) -> bool) -> bool {
        self.fresh.iter().any(&is_one) || self.kept.iter().any(|(_, report)| is_one(report))
    }

    /// Whether all that is fresh is starts: of a quick job the end may follow at once, and both can be said in one breath.
    pub(crate) fn is_patient(&self) -> bool {
        !self.again
            && !self.fresh.is_empty()
            && self.fresh.iter().all(|r| matches!(r, Report::Started { .. }))
    }

    /// Numbers what is fresh and returns what is to be sent now, in order. That a script has ended is not said of a run
    /// whose end is said in the same breath.
    pub(crate) fn number(&mut self) -> Vec<(Seq, Report)> {
        let ends: BTreeSet<RunKey> = self.fresh.iter().filter_map(Report::end_of).collect();
        let before = self.kept.len();
        for report in self.fresh.drain(..) {
            if matches!(&report, Report::Exited { key, .. } if ends.contains(key)) {
                continue;
            }
            self.highest = Seq(self.highest.0.saturating_add(1));
            self.kept.push_back((self.highest, report));
        }
        let from = match (self.link, self.again) {
            (false, _) => return Vec::new(),
            (true, true) => 0,
            (true, false) => before,
        };
        self.again = false;
        self.kept.iter().skip(from).cloned().collect()
    }

    /// The letters numbered after `seq`.
    pub(crate) fn since(&self, seq: Seq) -> impl Iterator<Item = &(Seq, Report)> {
        let from = self.kept.partition_point(|(s, _)| *s <= seq);
        self.kept.range(from..)
    }

    /// Drops what is acknowledged; returns the ends among it.
    pub(crate) fn acked(&mut self, up_to: Seq) -> Vec<(Seq, RunKey)> {
        let mut ends = Vec::new();
        while let Some((seq, report)) = self.kept.pop_front_if(|(seq, _)| *seq <= up_to) {
            ends.extend(report.end_of().map(|key| (seq, key)));
        }
        ends
    }
}
