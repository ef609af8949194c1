//! The view: what was seen last, in which order, and where in it its user is. Keys change it; it draws nothing.

use super::Seen;
use crate::{
    escape::shown,
    stat::{clock::Clock, field::Field},
};
use gq_model::{JobState, Uid};
use gq_proto::JobView;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// The columns of jobs.
pub(super) const FIELDS: [Field; 9] = [
    Field::Id,
    Field::Partition,
    Field::Name,
    Field::User,
    Field::Code,
    Field::Used,
    Field::Start,
    Field::Gpus,
    Field::Where,
];

/// In which order jobs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Queue,
    User,
    Partition,
    State,
    Time,
    Cards,
}

impl Order {
    const ALL: [Self; 6] = [Self::Queue, Self::User, Self::Partition, Self::State, Self::Time, Self::Cards];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::User => "user",
            Self::Partition => "partition",
            Self::State => "state",
            Self::Time => "time",
            Self::Cards => "cards",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL.get(at + 1).copied().unwrap_or(Self::Queue)
    }
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    None,
    /// Look again, at once.
    Look,
    Leave,
}

/// A line of the table of jobs.
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) state: Option<JobState>,
    uid: Uid,
    seconds: u64,
    cards: u32,
    /// Its place in the queue.
    place: usize,
}

/// What is shown.
pub(super) struct View {
    pub(super) every: Duration,
    pub(super) colour: bool,
    pub(super) clock: Clock,
    pub(super) seen: Option<Seen>,
    /// Why nothing new is seen.
    pub(super) trouble: Option<String>,
    pub(super) order: Order,
    pub(super) reverse: bool,
    pub(super) mine: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Whether nodes are what the keys move in.
    pub(super) in_nodes: bool,
    /// Of nodes, the first that is shown.
    pub(super) first_node: usize,
    /// Of the shown jobs, the one that is marked.
    pub(super) marked: usize,
    /// Lines that a page has; known when it was drawn.
    pub(super) page: usize,
    rows: Vec<Row>,
    /// Of the rows those that are shown, in order.
    shown: Vec<usize>,
    me: Uid,
}

impl View {
    pub(super) fn new(me: Uid, every: Duration, colour: bool) -> Self {
        Self {
            every,
            colour,
            clock: Clock::system(),
            seen: None,
            trouble: None,
            order: Order::Queue,
            reverse: false,
            mine: false,
            paused: false,
            help: false,
            in_nodes: false,
            first_node: 0,
            marked: 0,
            page: 10,
            rows: Vec::new(),
            shown: Vec::new(),
            me,
        }
    }

    /// The jobs that are shown, in order.
    pub(super) fn jobs(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|at| &self.rows[*at])
    }

    /// Takes what was seen, or why nothing was. The mark stays on its job.
    pub(super) fn take(&mut self, seen: Result<Seen, String>) {
        let seen = match seen {
            Err(why) => return self.trouble = Some(why),
            Ok(_) if self.paused => return,
            Ok(seen) => seen,
        };
        self.trouble = None;
        self.clock = Clock::system();
        let clock = &self.clock;
        let marked = self.marked_id();
        self.rows = seen.jobs.iter().enumerate().map(|(place, job)| row(place, job, clock)).collect();
        self.seen = Some(seen);
        self.arrange(marked);
    }

    fn marked_id(&self) -> Option<String> {
        self.shown.get(self.marked).and_then(|at| self.rows[*at].cells.first().cloned())
    }

    /// Chooses and sorts the rows anew, with the mark on the same job, if that is still there.
    fn arrange(&mut self, marked: Option<String>) {
        let (rows, order) = (&self.rows, self.order);
        let mut shown: Vec<usize> =
            (0..rows.len()).filter(|at| !self.mine || rows[*at].uid == self.me).collect();
        let cell = |at: usize, field: Field| {
            let column = FIELDS.iter().position(|it| *it == field).unwrap_or(0);
            rows[at].cells[column].as_str()
        };
        shown.sort_by(|a, b| {
            let (one, other) = (&rows[*a], &rows[*b]);
            match order {
                Order::Queue => one.place.cmp(&other.place),
                Order::User => cell(*a, Field::User).cmp(cell(*b, Field::User)),
                Order::Partition => cell(*a, Field::Partition).cmp(cell(*b, Field::Partition)),
                Order::State => cell(*a, Field::Code).cmp(cell(*b, Field::Code)),
                // Who has most comes first.
                Order::Time => other.seconds.cmp(&one.seconds),
                Order::Cards => other.cards.cmp(&one.cards),
            }
        });
        if self.reverse {
            shown.reverse();
        }
        let is_marked = |at: &usize| Some(&rows[*at].cells[0]) == marked.as_ref();
        let last = shown.len().saturating_sub(1);
        self.marked = shown.iter().position(is_marked).unwrap_or(self.marked.min(last));
        self.shown = shown;
    }

    /// Heeds a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Deed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if std::mem::take(&mut self.help) && !matches!(key.code, KeyCode::Char('q')) {
            return Deed::None;
        }
        match key.code {
            KeyCode::Char('c') if control => return Deed::Leave,
            KeyCode::Char('q') | KeyCode::Esc => return Deed::Leave,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(' ') => return Deed::Look,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Tab => self.in_nodes = !self.in_nodes,
            KeyCode::Char('s') => self.rearrange(|view| view.order = view.order.next()),
            KeyCode::Char('r') => self.rearrange(|view| view.reverse = !view.reverse),
            KeyCode::Char('m') => self.rearrange(|view| view.mine = !view.mine),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(self.page.cast_signed()),
            KeyCode::PageUp => self.step(-self.page.cast_signed()),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            _ => {}
        }
        Deed::None
    }

    fn rearrange(&mut self, how: impl FnOnce(&mut Self)) {
        let marked = self.marked_id();
        how(self);
        self.arrange(marked);
    }

    fn step(&mut self, by: isize) {
        let nodes = self.seen.as_ref().map_or(0, |seen| seen.nodes.len());
        let (at, count) = match self.in_nodes {
            true => (&mut self.first_node, nodes),
            false => (&mut self.marked, self.shown.len()),
        };
        *at = at.saturating_add_signed(by).min(count.saturating_sub(1));
    }
}

fn row(place: usize, job: &JobView, clock: &Clock) -> Row {
    let cell = |field: Field| {
        let mut text = String::new();
        field.write(job, clock, &mut text);
        shown(&text).into_owned()
    };
    let seconds = job.start_time.map_or(0, |at| clock.now.micros_since(at) / 1_000_000);
    let cards = match job.gpus.is_empty() {
        true => job.gpu_count,
        false => u32::try_from(job.gpus.len()).unwrap_or(u32::MAX),
    };
    Row {
        cells: FIELDS.map(cell).to_vec(),
        state: job.state.parse().ok(),
        uid: job.uid,
        seconds,
        cards,
        place,
    }
}
