//! Pictures: charts as SVG that stands in a page: no script, nothing from elsewhere. Whatever people typed is made text first.

use super::{
    courses::{Courses, STEPS},
    report::Span,
};
use crate::escape::shown;
use gq_proto::WaitsView;
use std::{collections::BTreeMap, fmt::Write};

/// Colours of those who used most, and of all others.
const COLOURS: [&str; 9] =
    ["#2563a8", "#d1772b", "#3a8f4d", "#a83a4f", "#7a5aa6", "#8a6d3b", "#c2569b", "#5c9aa6", "#9aa037"];
const OTHERS: &str = "#8a8f98";
const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;

/// A text as it stands between tags or in an attribute.
pub(super) fn text(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in shown(words).chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            c => text.push(c),
        }
    }
    text
}

/// Who has which colour: the first few that are named.
pub(super) struct Colours(BTreeMap<String, &'static str>);

impl Colours {
    /// `users`: who used most first.
    pub(super) fn of(users: impl Iterator<Item = String>) -> Self {
        Self(users.zip(COLOURS).collect())
    }
    fn get(&self, user: &str) -> &'static str {
        self.0.get(user).copied().unwrap_or(OTHERS)
    }

    /// Which colour is whose.
    pub(super) fn legend(&self, others: bool) -> String {
        let mut legend = String::from("<p class=\"legend\">");
        let others = others.then_some(("others", OTHERS));
        for (user, colour) in self.0.iter().map(|(user, colour)| (user.as_str(), *colour)).chain(others) {
            let _ =
                write!(legend, "<span class=\"key\" style=\"background:{colour}\"></span>{} ", text(user));
        }
        legend + "</p>\n"
    }
}

fn begin(out: &mut String, height: f64, what: &str) {
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>",
        text(what)
    );
}

fn rect(out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, title: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {fill}><title>{}</title></rect>",
        text(title)
    );
}

fn label(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", text(words));
}

/// Hours with as many places behind the point as tell something.
fn short(hours: f64) -> String {
    match hours {
        10.0.. => format!("{hours:.0}"),
        0.1.. => format!("{hours:.1}"),
        _ => format!("{hours:.4}"),
    }
}

/// Bars of card-hours over time, by user: `spans` by name, with what each user had, in the order of users.
pub(super) fn bars(spans: &[Span], colours: &Colours) -> String {
    const HEIGHT: f64 = 240.0;
    const FLOOR: f64 = HEIGHT - 30.0;
    let mut out = String::new();
    begin(&mut out, HEIGHT, "Card-hours over time, by user");
    let total = |parts: &[(String, f64)]| parts.iter().map(|(_, hours)| hours).sum::<f64>();
    let top = spans.iter().map(|(_, parts)| total(parts)).fold(0.0, f64::max).max(1e-9);
    let step = (WIDTH - LEFT) / spans.len().max(1) as f64;
    for (at, (name, parts)) in spans.iter().enumerate() {
        let (x, mut y) = (LEFT + at as f64 * step, FLOOR);
        for (user, hours) in parts.iter().filter(|(_, hours)| *hours > 0.0) {
            let height = hours / top * (FLOOR - 20.0);
            y -= height;
            let fill = format!("fill=\"{}\"", colours.get(user));
            rect(
                &mut out,
                (x, y),
                ((step - 1.0).max(0.5), height),
                &fill,
                &format!("{name}: {user}, {} card-hours", short(*hours)),
            );
        }
        // As many names as have room.
        if at.is_multiple_of(spans.len().div_ceil(10).max(1)) {
            label(&mut out, (x, FLOOR + 16.0), "start", name);
        }
    }
    label(&mut out, (LEFT - 6.0, 24.0), "end", &format!("{} h", short(top)));
    label(&mut out, (LEFT - 6.0, FLOOR), "end", "0");
    out + "</svg>\n"
}

/// A strip for each card: who held it when.
pub(super) fn strips(courses: &Courses, (from, until): (&str, &str), colours: &Colours) -> String {
    const ROW: f64 = 16.0;
    let rows: Vec<_> = courses.rows().collect();
    let height = rows.len() as f64 * ROW + 24.0;
    let mut out = String::new();
    begin(&mut out, height, "Who held which card when");
    let step = (WIDTH - LEFT) / STEPS as f64;
    for (at, (card, steps)) in rows.iter().enumerate() {
        let y = at as f64 * ROW;
        label(&mut out, (LEFT - 6.0, y + ROW - 5.0), "end", card);
        let mut first = 0;
        // Steps that look alike are one.
        for alike in steps.chunk_by(|a, b| look(*a) == look(*b)) {
            if let (Some((user, part)), Some(&[Some((held_by, held)), ..])) = (look(alike[0]), Some(alike)) {
                let fill =
                    format!("fill=\"{}\" fill-opacity=\"{:.1}\"", colours.get(user), f64::from(part) / 10.0);
                let (x, width) = (LEFT + first as f64 * step, alike.len() as f64 * step);
                let title = format!("{card}: {held_by}, {:.0}% held", held * 100.0);
                rect(&mut out, (x, y + 1.0), (width, ROW - 3.0), &fill, &title);
            }
            first += alike.len();
        }
    }
    label(&mut out, (LEFT, height - 6.0), "start", from);
    label(&mut out, (WIDTH, height - 6.0), "end", until);
    out + "</svg>\n"
}

/// What a step looks like: whose, and how full in tenths.
fn look(step: Option<(&str, f64)>) -> Option<(&str, u8)> {
    step.map(|(user, part)| (user, (part * 10.0).ceil().clamp(1.0, 10.0) as u8))
}

/// A row of bars for each: which part of the tasks waited how long.
pub(super) fn distributions(rows: &[(String, &WaitsView)]) -> String {
    const ROW: f64 = 70.0;
    const NAMES: [&str; 9] = ["<1 s", "<10 s", "<1 min", "<10 min", "<1 h", "<6 h", "<1 d", "<7 d", "more"];
    let height = rows.len() as f64 * ROW + 24.0;
    let mut out = String::new();
    begin(&mut out, height, "How long tasks waited");
    let step = (WIDTH - LEFT) / NAMES.len() as f64;
    for (at, (name, waits)) in rows.iter().enumerate() {
        let floor = (at + 1) as f64 * ROW;
        label(&mut out, (LEFT - 6.0, floor - 4.0), "end", name);
        let all = waits.wait.count.max(1) as f64;
        for (place, (count, span)) in waits.wait.counts.iter().zip(NAMES).enumerate() {
            if *count == 0 {
                continue;
            }
            let part = *count as f64 / all;
            let (x, tall) = (LEFT + place as f64 * step, part * (ROW - 22.0));
            let title = format!("{name}: {count} of {} tasks waited {span}", waits.wait.count);
            rect(&mut out, (x, floor - tall), (step - 6.0, tall), "fill=\"#2563a8\"", &title);
            let above = (x + step / 2.0 - 3.0, floor - tall - 4.0);
            label(&mut out, above, "middle", &format!("{:.0}%", part * 100.0));
        }
    }
    for (place, span) in NAMES.iter().enumerate() {
        label(&mut out, (LEFT + (place as f64 + 0.5) * step - 3.0, height - 6.0), "middle", span);
    }
    out + "</svg>\n"
}
