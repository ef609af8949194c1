//! Escapes: what people typed, made harmless for a terminal. Controls and marks that turn or hide text become `\x1b`
//! or `\u{202e}`; everything else stays as it is.

use std::{borrow::Cow, fmt::Write};

/// Whether a character could move the cursor, change colours, break the line, or turn or hide text.
pub(crate) fn is_harmful(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// The text with everything harmful written out.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) || !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let code = u32::from(c);
        let done = match c {
            _ if !is_harmful(c) => {
                out.push(c);
                Ok(())
            }
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ => write!(out, "\\u{{{code:x}}}"),
        };
        debug_assert!(done.is_ok(), "writing to a string does not fail");
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_harmful_reaches_a_terminal_and_nothing_else_is_changed() {
        for (typed, seen) in [
            ("plain name", "plain name"),
            ("größe 漢字 🙂", "größe 漢字 🙂"),
            ("\x1b[31mred", "\\x1b[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{9b}31m", "\\x9b31m"),
            ("txt\u{202e}exe", "txt\\u{202e}exe"),
            ("\u{2066}\u{2069}\u{200b}", "\\u{2066}\\u{2069}\\u{200b}"),
            ("\0\x7f", "\\x00\\x7f"),
        ] {
            assert_eq!(shown(typed), seen, "{typed:?}");
        }
        for c in '\0'..='\u{ffff}' {
            let text = format!("ä{c}");
            assert!(!shown(&text).chars().any(char::is_control), "{c:?}");
        }
    }
}
