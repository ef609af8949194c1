//! Reading letters that stand as files, in the order of their numbers, none skipped that its writer keeps. How a file is read, whoever asks knows.

use crate::{Head, Letter};
use gq_model::Seq;

/// How far one direction of letters was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    next: Seq,
}

/// What a look at a direction brought.
#[derive(Debug)]
pub struct Look<B> {
    /// Letters, in order.
    pub letters: Vec<Letter<B>>,
    /// The first that is announced and could not be seen. It is never skipped.
    pub missing: Option<Seq>,
}

impl Reading {
    /// Everything up to `last` was read before.
    pub const fn after(last: Seq) -> Self {
        Self { next: Seq(last.0.saturating_add(1)) }
    }

    /// Reads on, up to `most` letters of those that `head` announces, as far as they can be seen. A writer that lost its tail goes on from
    /// the lowest that it kept.
    ///
    /// `read`: the letter of a number; none when it cannot be seen, or not whole.
    ///
    /// # Errors
    /// Those of `read`; what was read before is then read again.
    pub fn look<B, E>(
        &mut self,
        head: &Head,
        most: usize,
        mut read: impl FnMut(Seq) -> Result<Option<Letter<B>>, E>,
    ) -> Result<Look<B>, E> {
        let mut look = Look { letters: Vec::new(), missing: None };
        let mut next = self.next.max(head.lowest);
        // The last number there is has none behind it, and would be read for ever.
        let highest = head.highest.min(Seq(u64::MAX - 1));
        while next <= highest && look.letters.len() < most {
            let Some(letter) = read(next)?.filter(|letter| letter.seq == next) else {
                look.missing = Some(next);
                break;
            };
            look.letters.push(letter);
            next = Seq(next.0.saturating_add(1));
        }
        self.next = next;
        Ok(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LETTER_VERSION, Report, ReportBody};
    use gq_model::{Beat, ClusterId, Epoch};
    use std::convert::Infallible;

    fn head(lowest: u64, highest: u64) -> Head {
        Head {
            version: LETTER_VERSION,
            cluster: ClusterId([1; 16]),
            node: "ws1".parse().unwrap(),
            epoch: Epoch(1),
            boot: None,
            node_id: None,
            seen: Beat(0),
            refusal: None,
            cards: None,
            past: Epoch(0),
            beat: 1,
            lowest: Seq(lowest),
            highest: Seq(highest),
            ack_epoch: Epoch(1),
            ack: Seq(0),
        }
    }

    fn numbers(reading: &mut Reading, head: &Head, most: usize, seen: &[u64]) -> (Vec<u64>, Option<u64>) {
        let letter =
            |seq: Seq| Report { seq, epoch: Epoch(1), body: ReportBody::Cards { cards: Vec::new() } };
        let read = |seq: Seq| Ok::<_, Infallible>(seen.contains(&seq.0).then(|| letter(seq)));
        let Ok(look) = reading.look(head, most, read);
        (look.letters.iter().map(|letter| letter.seq.0).collect(), look.missing.map(|seq| seq.0))
    }

    #[test]
    fn letters_are_read_in_order_and_none_is_skipped() {
        let mut reading = Reading::after(Seq(2));
        assert_eq!(numbers(&mut reading, &head(1, 6), 9, &[3, 4, 6]), (vec![3, 4], Some(5)));
        assert_eq!(numbers(&mut reading, &head(1, 6), 9, &[3, 4, 6]), (vec![], Some(5)));
        assert_eq!(numbers(&mut reading, &head(1, 6), 1, &[5, 6]), (vec![5], None));
        assert_eq!(numbers(&mut reading, &head(1, 6), 9, &[5, 6]), (vec![6], None));
        assert_eq!(numbers(&mut reading, &head(1, 6), 9, &[5, 6, 7]), (vec![], None));
        // Its writer keeps nothing below 9.
        assert_eq!(numbers(&mut reading, &head(9, 9), 9, &[7, 8, 9]), (vec![9], None));
    }

    #[test]
    fn at_the_end_of_numbers_no_letter_is_read_twice() {
        let mut reading = Reading::after(Seq(0));
        let (last, end) = (u64::MAX - 1, u64::MAX);
        assert_eq!(numbers(&mut reading, &head(last, end), 9, &[last, end]), (vec![last], None));
        assert_eq!(numbers(&mut reading, &head(last, end), 9, &[last, end]), (vec![], None));
        assert_eq!(numbers(&mut Reading::after(Seq(end)), &head(0, end), 9, &[last, end]), (vec![], None));
    }
}
