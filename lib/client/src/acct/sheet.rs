//! The page of a report: everything in one file that any browser shows by itself.

use super::{
    picture::{Colours, bars, distributions, strips, text},
    report::{COLUMNS, Line, Report, Said, cell},
};
use std::fmt::Write;

/// Most rows of the picture of waits.
const MAX_ROWS: usize = 24;

const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#1c2530;max-width:1200px;margin:2em auto;padding:0 1em}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}\
th,td{padding:.2em .6em;text-align:right;border-bottom:1px solid #d8dde3}th:first-child,td:first-child{text-align:left}\
svg{width:100%;height:auto}svg text{font:11px sans-serif;fill:#1c2530}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em}\
.note{color:#5a6572}";

/// The page.
pub(super) fn page(report: &Report) -> String {
    let (from, until) = (text(&report.from), text(&report.until));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Use from {from} to {until}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Use from {from} to {until}</h1>\n\
         <p class=\"note\">Runs count where they ended, every attempt of a task; what still runs does not count yet. Used is how much of what was \
         measured was in use: cards by how busy they were, slices and shares by how long a process held them.</p>\n"
    );
    let colours = Colours::of(report.users.iter().map(|line| line.name.clone()));
    for (heading, head, lines) in [
        ("By partition", "Partition", &report.partitions),
        ("By user", "User", &report.users),
        ("Over time", "Time", &report.times),
    ] {
        let _ = writeln!(page, "<h2>{heading}</h2>");
        table(&mut page, head, lines);
    }
    let _ = writeln!(page, "<h2>Who used what</h2>\n{}", colours.legend(report.users.len() > 9));
    page.push_str(&bars(&report.shares, &colours));
    if let Some(courses) = &report.courses {
        page.push_str("<h2>Card by card</h2>\n");
        if courses.is_cut {
            page.push_str("<p class=\"note\">There was more than is drawn here.</p>\n");
        }
        page.push_str(&strips(courses, (&report.from, &report.until), &colours));
    }
    page.push_str("<h2>Waits</h2>\n");
    let named = |kind: &str, line: &Line| format!("{kind} {}", line.name);
    let rows = report.partitions.iter().map(|line| (named("in", line), &line.waits));
    let rows = rows.chain(report.users.iter().map(|line| (named("of", line), &line.waits)));
    let rows: Vec<_> = rows.filter(|(_, waits)| waits.wait.count > 0).take(MAX_ROWS).collect();
    page.push_str(&distributions(&rows));
    page + "</body>\n</html>\n"
}

fn table(page: &mut String, head: &str, lines: &[Line]) {
    let _ = write!(page, "<div class=\"wide\"><table>\n<thead><tr><th>{head}</th>");
    for (_, name) in COLUMNS {
        let _ = write!(page, "<th>{}</th>", text(name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for line in lines {
        page.push_str("<tr>");
        for said in std::iter::once(Said::Name).chain(COLUMNS.map(|(said, _)| said)) {
            let _ = write!(page, "<td>{}</td>", text(&cell(said, line)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acct::courses::Courses;
    use gq_model::Timestamp;
    use gq_proto::{SpreadView, UsageView, WaitsView};

    #[test]
    fn whatever_somebody_is_called_is_text() {
        let evil = "<script>alert('x')</script>\" onload=\"y\u{202e}&";
        let line = || Line {
            name: evil.to_owned(),
            usage: UsageView { cards: 3_600_000, ..UsageView::default() },
            waits: WaitsView {
                wait: SpreadView { count: 1, counts: vec![1], ..SpreadView::default() },
                ..WaitsView::default()
            },
        };
        let mut courses = Courses::new(Timestamp(0), Timestamp(200));
        let run = serde_json::json!({
            "id": 1, "uid": 1, "user": evil, "partition": "main", "run": 1, "state": "COMPLETED", "reason": "None", "submit_time": 0,
            "allocated": 0, "end_time": 100, "node": "ws1", "cpus": 1, "memory_mib": 1, "worth": 1000,
            "gpus": [{"node": "ws1", "index": 3}],
        });
        courses.add(&serde_json::from_value(run).unwrap());
        let report = Report {
            from: evil.to_owned(),
            until: evil.to_owned(),
            partitions: vec![line()],
            users: vec![line()],
            times: vec![line()],
            shares: vec![(evil.to_owned(), vec![(evil.to_owned(), 1.0)])],
            courses: Some(courses),
        };
        let page = page(&report);
        assert!(
            !page.contains("<script") && !page.contains("onload=\"") && !page.contains('\u{202e}'),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)") && page.contains("&quot; onload=&quot;y"));
        assert!(page.contains("50%") || page.contains("100% held"), "{page}");
    }
}
