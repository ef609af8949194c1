//! The screen: a line of figures, nodes with a map of their cards, jobs, and a line of keys.

use super::{
    Seen,
    view::{FIELDS, Row, View},
};
use crate::{escape::shown, stat::table::places};
use gq_model::{JobState, format_size};
use gq_proto::{CardView, NodeView};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row as Lines, Table},
};

const KEYS: &str = "q quit  s sort  r reverse  m mine  p pause  tab nodes/jobs  ? keys";
const HELP: &str = "\
 q, Esc, ^C     leave
 s              sort by the next: queue, user, partition, state, time, cards
 r              the other way round
 m              my own jobs alone, or all
 tab            move in the nodes, or in the jobs
 j k, arrows    move; PgUp, PgDn, Home, End
 space          look again now
 p              stand still, or go on

 cards          \u{25a0} held  \u{b7} free  ! failing; how busy each is, in percent
                [\u{25a0}\u{b7}] slices of a card  (\u{25a0}\u{b7}) parts of a shared one";
/// Widest column of a table.
const WIDEST: usize = 40;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let nodes = view.seen.as_ref().map_or(0, |seen| seen.nodes.len());
    // Nodes get what they need, and no more than two fifths.
    let most = frame.area().height * 2 / 5;
    let height = u16::try_from(nodes).unwrap_or(u16::MAX).saturating_add(1).min(most);
    let parts =
        [Constraint::Length(1), Constraint::Length(height), Constraint::Min(1), Constraint::Length(1)];
    let [head, upper, lower, foot] = Layout::vertical(parts).areas(frame.area());
    let dress = Dress { colour: view.colour };
    frame.render_widget(Paragraph::new(figures(view, &dress)), head);
    if let Some(seen) = &view.seen {
        let first =
            view.first_node.min(seen.nodes.len().saturating_sub(usize::from(height).saturating_sub(1)));
        draw_nodes(frame, upper, seen.nodes.get(first..).unwrap_or_default(), view.in_nodes, &dress);
    }
    draw_jobs(frame, lower, view, &dress);
    frame.render_widget(Paragraph::new(Line::styled(KEYS, dress.dim())), foot);
    if view.help {
        draw_help(frame);
    }
}

/// How things look; without colours, where none are wanted.
struct Dress {
    colour: bool,
}

impl Dress {
    fn of(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
    fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
    fn head(&self, active: bool) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if active { bold.add_modifier(Modifier::UNDERLINED) } else { bold }
    }
    fn state(&self, state: Option<JobState>) -> Style {
        match state {
            Some(JobState::Pending) => self.of(Color::Yellow),
            Some(JobState::Starting | JobState::Running) => self.of(Color::Green),
            Some(JobState::Suspended | JobState::Completing) => self.of(Color::Cyan),
            Some(JobState::Unknown) => self.of(Color::Magenta),
            Some(JobState::Ended(_)) | None => Style::new(),
        }
    }
    fn node(&self, state: &str) -> Style {
        match state {
            "idle" | "mixed" | "allocated" => Style::new(),
            "draining" | "drained" | "suspect" => self.of(Color::Yellow),
            _ => self.of(Color::Red),
        }
    }
}

/// The first line: which cluster, when, how much of it is at work, and what is wrong.
fn figures<'a>(view: &'a View, dress: &Dress) -> Line<'a> {
    let red = dress.of(Color::Red).add_modifier(Modifier::BOLD);
    let mut line = Vec::new();
    let mut wrong = |words: String| line.push(Span::styled(words, red));
    let Some(seen) = &view.seen else { return Line::default() };
    match (&view.trouble, &seen.degraded) {
        (Some(why), _) => wrong(format!("{}; again every {} s  ", shown(why), view.every.as_secs())),
        (None, Some(why)) => wrong(format!("DEGRADED: no new jobs are taken: {}  ", shown(why))),
        (None, None) => {}
    }
    if view.paused {
        wrong("PAUSED  ".to_owned());
    }
    let time = view.clock.civil(view.clock.now).unwrap_or_default().replace('T', " ");
    line.push(Span::styled(shown(&seen.cluster).into_owned(), Style::new().add_modifier(Modifier::BOLD)));
    line.push(Span::raw(format!(
        "  {time}  {}  by {}{}{}",
        totals(seen),
        view.order.name(),
        if view.reverse { ", reversed" } else { "" },
        if view.mine { ", mine" } else { "" }
    )));
    Line::from(line)
}

fn totals(seen: &Seen) -> String {
    let in_state = |wanted: &[JobState]| {
        seen.jobs.iter().filter(|job| job.state.parse().is_ok_and(|state| wanted.contains(&state))).count()
    };
    let cards: Vec<&CardView> = seen.nodes.iter().flat_map(|node| &node.cards).collect();
    let held = cards.iter().filter(|view| view.is_held()).count();
    let more = if seen.more > 0 { format!(" and {} more", seen.more) } else { String::new() };
    format!(
        "{} run, {} wait{more}; {held} of {} cards held",
        in_state(&[JobState::Starting, JobState::Running, JobState::Suspended, JobState::Completing]),
        in_state(&[JobState::Pending]),
        cards.len()
    )
}

/// How busy the cards of a node are, in percent, in their order: `73 - 0`; a `-` where nobody knows. Nothing where nobody knows of any.
pub(super) fn busy_map(node: &NodeView) -> String {
    if node.cards.iter().all(|view| view.busy.is_none()) {
        return String::new();
    }
    let busy = |view: &CardView| view.busy.map_or_else(|| "-".to_owned(), |busy| busy.to_string());
    node.cards.iter().map(busy).collect::<Vec<_>>().join(" ")
}

/// Cards of a node, a letter for each that is whole, and for each slice and part of the others.
pub(super) fn card_map(node: &NodeView) -> String {
    let mark = |held: bool| if held { '\u{25a0}' } else { '\u{b7}' };
    let mut map = String::new();
    for view in &node.cards {
        if !view.card.health.is_good() {
            map.push('!');
        } else if view.card.mig {
            map.push('[');
            map.extend(view.slices.iter().map(|slice| match slice.trouble {
                Some(_) => '!',
                None => mark(slice.job.is_some()),
            }));
            map.push(']');
        } else if let Some(free) = view.free_parts.filter(|_| view.job.is_none()) {
            let free = usize::try_from(free).unwrap_or(0);
            let held = usize::from(view.card.parts).saturating_sub(free);
            map.push('(');
            map.extend(std::iter::repeat_n(mark(true), held).chain(std::iter::repeat_n(mark(false), free)));
            map.push(')');
        } else {
            map.push(mark(view.job.is_some()));
        }
    }
    map
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, nodes: &[NodeView], active: bool, dress: &Dress) {
    let nodes = nodes.get(..usize::from(area.height)).unwrap_or(nodes);
    let cells: Vec<Vec<String>> = nodes
        .iter()
        .map(|node| {
            vec![
                node.name.to_string(),
                node.state.clone(),
                format!("{}/{}", node.cpus_used, node.cpus),
                format!("{}/{}", format_size(node.memory_used_mib), format_size(node.memory_mib)),
                card_map(node),
                busy_map(node),
                shown(node.reason.as_deref().unwrap_or_default()).into_owned(),
            ]
        })
        .collect();
    let styles = nodes.iter().map(|node| dress.node(&node.state));
    let heads = ["NODE", "STATE", "CPUS", "MEMORY", "CARDS", "BUSY%", "REASON"];
    table(frame, area, &heads, &cells, styles, dress.head(active));
}

fn draw_jobs(frame: &mut Frame<'_>, area: Rect, view: &mut View, dress: &Dress) {
    let room = usize::from(area.height.saturating_sub(1));
    view.page = room.max(1);
    // The mark is always in sight, on the page that it is on.
    let first = view.marked / view.page * view.page;
    let rows: Vec<&Row> = view.jobs().skip(first).take(room).collect();
    let marked = view.marked - first;
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells.clone()).collect();
    let styles = rows.iter().enumerate().map(|(at, row)| {
        let style = dress.state(row.state);
        if at == marked && !view.in_nodes { style.add_modifier(Modifier::REVERSED) } else { style }
    });
    let heads = FIELDS.map(crate::stat::field::Field::head);
    table(frame, area, &heads, &cells, styles, dress.head(!view.in_nodes));
}

/// Draws a table whose columns are as wide as what is in them; the last one gets what is left.
fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    heads: &[&str],
    cells: &[Vec<String>],
    styles: impl Iterator<Item = Style>,
    head: Style,
) {
    let width = |column: usize, name: &str| {
        let widest = cells.iter().filter_map(|row| row.get(column)).map(|cell| places(cell)).max();
        u16::try_from(widest.unwrap_or(0).max(places(name)).min(WIDEST)).unwrap_or(u16::MAX)
    };
    let mut widths: Vec<Constraint> =
        heads.iter().enumerate().map(|(column, name)| Constraint::Length(width(column, name))).collect();
    if let Some(last) = widths.last_mut() {
        *last = Constraint::Fill(1);
    }
    let rows = cells.iter().zip(styles).map(|(cells, style)| Lines::new(cells.clone()).style(style));
    let header = Lines::new(heads.iter().map(|name| (*name).to_owned())).style(head);
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(0) + 2;
    let columns = u16::try_from(HELP.lines().map(places).max().unwrap_or(0)).unwrap_or(0) + 3;
    let at = area
        .centered(Constraint::Length(columns.min(area.width)), Constraint::Length(lines.min(area.height)));
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), at);
}
