//! Recipients of messages: `ann`, `ann@example.org`, several with commas between. Checked strictly, since they stand in the head of a
//! message that a mail program reads: nothing with blanks, quotes, brackets, comments or the ways of old to name a program or a file.

use alloc::vec::Vec;
use core::fmt;

/// Most recipients of one job's messages.
pub const MAX_RECIPIENTS: usize = 8;
/// Longest recipient, in bytes.
const MAX_LENGTH: usize = 254;
/// Longest part before the `@`, in bytes.
const MAX_LOCAL: usize = 64;

/// Why a text is no list of recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipientError {
    /// One of them is none.
    Syntax,
    /// There are too many.
    TooMany,
}

impl fmt::Display for RecipientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str(
                "expected a user or an address, such as ann or ann@example.org; several with commas between, no blanks",
            ),
            Self::TooMany => write!(f, "more than {MAX_RECIPIENTS} recipients"),
        }
    }
}
impl core::error::Error for RecipientError {}

/// Reads a list of recipients: at least one, with commas between.
///
/// # Errors
/// [`RecipientError`].
pub fn parse_recipients(text: &str) -> Result<Vec<&str>, RecipientError> {
    let mut all = Vec::new();
    for part in text.split(',') {
        if all.len() == MAX_RECIPIENTS {
            return Err(RecipientError::TooMany);
        }
        if !is_recipient(part) {
            return Err(RecipientError::Syntax);
        }
        all.push(part);
    }
    Ok(all)
}

/// A user's name, or an address of plain letters, digits and a few signs.
fn is_recipient(text: &str) -> bool {
    let (local, domain) = text.split_once('@').map_or((text, None), |(local, domain)| (local, Some(domain)));
    let good_local = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '=' | '~' | '#' | '&' | '\'')
    };
    let good_domain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    text.len() <= MAX_LENGTH
        && !local.is_empty()
        && local.len() <= MAX_LOCAL
        && !local.starts_with(['-', '.'])
        && local.chars().all(good_local)
        && domain.is_none_or(|d| !d.is_empty() && !d.starts_with(['-', '.']) && d.chars().all(good_domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_more_than_an_address_is_none() {
        for good in ["ann", "ann@example.org", "a.b+gq@x-1.org", "o'brien@x", "ann,ben@x,c_d", "x#1@y"] {
            assert!(parse_recipients(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ",",
            "ann,",
            "-oQ/tmp",
            "ann,-bs",
            "ann ben",
            "ann\n",
            "ann\r\nBcc: x@y",
            "a@b@c",
            "@x",
            "x@",
            "x@-y",
            "|/bin/sh",
            "/etc/passwd",
            ":include:/x",
            "\"a\"@x",
            "a(b)@x",
            "<a@x>",
            "a;b",
            "a:b;",
            "a\\b",
            "a`b`",
            "a$b",
            "é@x",
            "a@é",
            "a%b@c",
            "a!b",
            "a@[::1]",
            "ann\0",
            "ann\t",
        ] {
            assert_eq!(parse_recipients(bad), Err(RecipientError::Syntax), "{bad:?}");
        }
        let long = alloc::format!("{}@x", "a".repeat(65));
        assert_eq!(parse_recipients(&long), Err(RecipientError::Syntax));
        assert_eq!(parse_recipients("a,a,a,a,a,a,a,a,a"), Err(RecipientError::TooMany));
    }
}
