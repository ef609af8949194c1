//! The log on standard error: one line per record, whatever text is in it. Keeps no files and rotates nothing.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// Starts the log of `program`: level from `GQ_LOG` (`warn`, `debug`, `gq_store=trace,info`), else `info`.
///
/// A second call changes nothing.
pub fn init_log(program: &'static str) {
    let filters = std::env::var("GQ_LOG").ok().filter(|text| !text.is_empty());
    let started = env_logger::Builder::new()
        .parse_filters(filters.as_deref().unwrap_or("info"))
        .target(env_logger::Target::Stderr)
        .format(move |line, record| {
            let at = line.timestamp_millis();
            let level = record.level();
            writeln!(line, "{at} {program} {level:<5} {}", OneLine(*record.args()))
        })
        .try_init();
    if started.is_err() {
        log::debug!("the log was started before");
    }
}

/// Text shown with what could forge a line, or move the cursor of who reads it, escaped.
struct OneLine<T>(T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What errors say on a line of its own, on what to do, stays legible.
        write!(Escaper(f), "{}", self.0.to_string().replace("\n  try: ", "; try: "))
    }
}

struct Escaper<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, bad)) = rest.char_indices().find(|(_, c)| is_dangerous(*c)) {
            let (good, tail) = rest.split_at(at);
            self.0.write_str(good)?;
            write!(self.0, "{}", bad.escape_default())?;
            rest = tail.strip_prefix(bad).unwrap_or_default();
        }
        self.0.write_str(rest)
    }
}

/// Control characters, line separators, and the marks that turn the direction of text.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_forges_a_line() {
        let name = "x\n2026-01-01T00:00:00Z gqd ERROR all is lost\r\u{1b}[2J\u{9b}\u{202e}é\t";
        let shown = OneLine(format_args!("job {name} ended")).to_string();
        assert!(!shown.chars().any(is_dangerous), "{shown:?}");
        assert!(shown.starts_with("job x\\n2026") && shown.contains("\\u{1b}[2J") && shown.contains('é'));
    }

    #[test]
    fn what_to_do_stands_on_the_same_line() {
        assert_eq!(OneLine("no state here\n  try: gqd --init").to_string(), "no state here; try: gqd --init");
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(OneLine("gqd: ready – 3 nodes").to_string(), "gqd: ready – 3 nodes");
    }
}
