//! The picture: use of the machine and length of the queue over time, as SVG. Drawn from what became of the jobs; knows no policy.

use crate::{
    metrics::{Capacity, Fate, counts_cards, held},
    trace::TraceJob,
    trouble::Trouble,
};
use std::{fmt::Write, fs, path::Path};

/// The drawing's width and the height of each of its two parts, in points.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;
/// Room beside, above and between.
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const GAP: f64 = 60.0;
/// How many steps of time are drawn: each shows the mean of its span.
const STEPS: usize = 1000;

/// Something over time: the mean of each step.
struct Course {
    means: Vec<f64>,
    span: f64,
}

impl Course {
    /// The course of a sum that `changes` (time and amount) make.
    fn of(mut changes: Vec<(i64, i64)>, first: i64, last: i64) -> Self {
        changes.sort_unstable();
        let span = (last.saturating_sub(first)).max(1) as f64;
        let mut sums = vec![0.0; STEPS];
        let mut level = 0i64;
        let mut since = first;
        for (at, amount) in changes.into_iter().chain([(last, 0)]) {
            let at = at.clamp(first, last.max(first));
            spread(
                &mut sums,
                since.saturating_sub(first) as f64 / span,
                at.saturating_sub(first) as f64 / span,
                level as f64,
            );
            (level, since) = (level.saturating_add(amount), at);
        }
        Self { means: sums, span }
    }

    fn top(&self) -> f64 {
        self.means.iter().copied().fold(0.0, f64::max)
    }
}

/// Adds `level`, held from one part of the whole to another, to the means of the steps it touches.
fn spread(sums: &mut [f64], from: f64, to: f64, level: f64) {
    let (from, to) = (from * STEPS as f64, to * STEPS as f64);
    let first = from.floor().max(0.0) as usize;
    for (step, sum) in sums.iter_mut().enumerate().skip(first) {
        let (begin, end) = (step as f64, step as f64 + 1.0);
        if begin >= to {
            break;
        }
        *sum += level * (to.min(end) - from.max(begin)).max(0.0);
    }
}

/// Draws what became of the jobs into a file.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(
    path: &Path,
    title: &str,
    jobs: &[TraceJob],
    fates: &[Fate],
    capacity: Capacity,
) -> Result<(), Trouble> {
    fs::write(path, draw(title, jobs, fates, capacity)).map_err(|e| Trouble::unwritten(path, &e))
}

fn draw(title: &str, jobs: &[TraceJob], fates: &[Fate], capacity: Capacity) -> String {
    let cards = counts_cards(jobs, capacity);
    let first = jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    let ends = fates.iter().filter_map(|fate| fate.end);
    let last = ends.chain(jobs.iter().map(|job| job.submit)).max().unwrap_or(first);
    let (mut used, mut queued) = (Vec::new(), Vec::new());
    for (job, fate) in jobs.iter().zip(fates).filter(|(_, fate)| !fate.refused) {
        queued.push((job.submit, 1));
        queued.extend(fate.start.map(|at| (at, -1)));
        let amount = i64::try_from(held(job, cards)).unwrap_or(i64::MAX);
        used.extend(fate.start.map(|at| (at, amount)));
        used.extend(fate.start.and(fate.end).map(|at| (at, -amount)));
    }
    let (unit, there, scale) = if cards {
        ("cards in use", capacity.milli as f64 / 1000.0, 1000.0)
    } else {
        ("processors in use", capacity.cpus as f64, 1.0)
    };
    let mut used = Course::of(used, first, last);
    used.means.iter_mut().for_each(|mean| *mean /= scale);
    let queue = Course::of(queued, first, last);
    let full = LEFT + WIDTH + 20.0;
    let height = TOP + 2.0 * HEIGHT + GAP + 40.0;
    let mut svg = String::new();
    // Writing to a text does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{full}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    part(&mut svg, TOP, &used, there.max(1.0), unit, "#2f6f9f");
    part(&mut svg, TOP + HEIGHT + GAP, &queue, queue.top().max(1.0), "jobs waiting", "#b5651d");
    svg.push_str("</svg>\n");
    svg
}

/// One part: axes, a scale from 0 to `top`, and the filled course.
fn part(svg: &mut String, above: f64, course: &Course, top: f64, name: &str, colour: &str) {
    let below = above + HEIGHT;
    let right = LEFT + WIDTH;
    for quarter in 0..=4 {
        let y = below - HEIGHT * f64::from(quarter) / 4.0;
        let value = top * f64::from(quarter) / 4.0;
        let shown = if top < 8.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{shown}</text>\n",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = write!(svg, "<path fill=\"{colour}\" fill-opacity=\"0.75\" d=\"M{LEFT} {below:.1}");
    let mut last = f64::NAN;
    for (step, mean) in course.means.iter().enumerate() {
        let y = below - HEIGHT * (mean / top).clamp(0.0, 1.0);
        if (y - last).abs() > 0.05 || last.is_nan() {
            let _ = write!(svg, "H{:.1}V{y:.1}", LEFT + WIDTH * step as f64 / STEPS as f64);
            last = y;
        }
    }
    let _ =
        write!(svg, "H{right}V{below:.1}Z\"/>\n<text x=\"{LEFT}\" y=\"{:.1}\">{name}</text>\n", above - 6.0);
    for tick in 0..=5 {
        let x = LEFT + WIDTH * f64::from(tick) / 5.0;
        let days = course.span * f64::from(tick) / 5.0 / 86_400.0;
        let shown = if course.span < 5.0 * 86_400.0 {
            format!("{:.1} h", days * 24.0)
        } else {
            format!("day {days:.0}")
        };
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{shown}</text>",
            below + 16.0
        );
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit: i64, run: i64, cpus: u32) -> TraceJob {
        TraceJob { submit, run, estimate: run, cpus, ..TraceJob::default() }
    }

    #[test]
    fn means_keep_the_area_under_the_course() {
        let course = Course::of(vec![(10, 4), (30, -4), (30, 2), (77, -2)], 10, 110);
        let area: f64 = course.means.iter().sum::<f64>() / STEPS as f64 * 100.0;
        assert!((area - (4.0 * 20.0 + 2.0 * 47.0)).abs() < 1e-6, "{area}");
        assert_eq!(course.means[0], 4.0);
        assert_eq!(course.means[STEPS - 1], 0.0);
    }

    #[test]
    fn the_drawing_is_whole_and_its_title_harmless() {
        let jobs = [job(0, 100, 2), job(5, 50, 3)];
        let fate = |start, end| Fate { start: Some(start), end: Some(end), ..Fate::default() };
        let capacity = Capacity { cpus: 4, milli: 0 };
        let svg = draw("<a & b>", &jobs, &[fate(0, 100), fate(100, 150)], capacity);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;a &amp; b&gt;") && svg.contains("processors in use"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let empty = draw("", &[], &[], Capacity::default());
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}
