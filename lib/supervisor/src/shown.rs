//! What a program of the site writes, line by line on its way into the log of `gqnode`: bounded, and safe to show.

use std::{
    fs::File,
    io::{self, Read, Write},
};

/// Most bytes of one program that are shown.
const MOST: usize = 64 << 10;
/// Longest line that is shown, in bytes; longer ones are broken.
const LINE: usize = 1024;
/// Longest last line that is kept, in characters.
const LAST: usize = 200;
/// Most reads in a row, so that a program that never stops writing does not keep its deadline away.
const READS: usize = 16;

/// The output of one program.
#[derive(Debug)]
pub struct Shown {
    /// What every line begins with, and where it goes.
    head: String,
    say: fn(&str),
    /// None once it is at its end.
    pipe: Option<File>,
    line: Vec<u8>,
    said: usize,
    /// The last line that was not empty.
    last: String,
}

impl Shown {
    /// `pipe`: does not wait when there is nothing to read.
    pub const fn new(head: String, say: fn(&str), pipe: File) -> Self {
        Self { head, say, pipe: Some(pipe), line: Vec::new(), said: 0, last: String::new() }
    }

    /// What to wait for; none when nothing more comes.
    pub const fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    /// Reads and shows what is there.
    pub fn read(&mut self) {
        let mut bytes = [0; 4096];
        for _ in 0..READS {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut bytes) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.take(bytes.get(..count).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Shows what is left, and returns the last line that the program wrote.
    pub fn finish(&mut self) -> String {
        self.read();
        self.show();
        std::mem::take(&mut self.last)
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' || self.line.len() >= LINE {
                self.show();
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
    }

    fn show(&mut self) {
        let text = safe(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        if text.trim().is_empty() {
            return;
        }
        if self.said < MOST {
            (self.say)(&format!("{}: {text}", self.head));
            self.said += text.len();
            if self.said >= MOST {
                (self.say)(&format!("{}: what more it writes is left out", self.head));
            }
        }
        self.last = text.trim().chars().take(LAST).collect();
    }
}

/// Brings a line to the log of `gqnode`. A log that is gone is no reason to end a run.
pub fn to_log(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The text with its control characters written out.
fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_kept_and_nothing_is_taken_for_more_than_text() {
        let (reader, mut writer) = gq_host::output_pipe().unwrap();
        let mut shown = Shown::new("x".into(), |_| {}, reader);
        writer.write_all(b"first\n\x1b[2Jcard 3 is \xff gone\n\n").unwrap();
        shown.read();
        assert!(shown.pipe().is_some(), "more may come");
        drop(writer);
        assert_eq!(shown.finish(), "\\u{1b}[2Jcard 3 is \u{fffd} gone");
        assert!(shown.pipe().is_none());
    }

    #[test]
    fn however_much_is_written_only_so_much_is_shown() {
        let (reader, mut writer) = gq_host::output_pipe().unwrap();
        let mut shown = Shown::new("x".into(), |_| {}, reader);
        let writing = std::thread::spawn(move || writer.write_all(&[b'a'; 3 * MOST]));
        while shown.pipe().is_some() {
            shown.read();
        }
        writing.join().unwrap().unwrap();
        assert!((MOST..MOST + 2 * LINE).contains(&shown.said), "{}", shown.said);
        assert_eq!(shown.finish().len(), LAST);
    }
}
