//! Directives: finds the `#GQ` and `#SBATCH` lines of a script and cuts them into words, as Slurm does.
//!
//! They stand at the very beginning of a line, in the comments before the first command. Words are parted by blanks;
//! quotes of both kinds hold words together; a backslash, in quotes too, takes the next character as it is; an unquoted `#` begins a
//! comment. A script that means something else by one of these is refused rather than half understood.

use crate::Problem;

const MARKS: [&[u8]; 2] = [b"#GQ", b"#SBATCH"];

/// The directive lines of a script: line number from 1, and what stands behind the mark.
pub(crate) fn lines(script: &[u8]) -> impl Iterator<Item = (usize, Result<&str, Problem>)> {
    let is_comment = |line: &&[u8]| matches!(line.trim_ascii_start().first(), None | Some(b'#'));
    let numbered = script.split(|b| *b == b'\n').zip(1..).skip(1);
    numbered
        .take_while(move |(line, _)| is_comment(line))
        .filter_map(|(line, number)| directive(line).map(|found| (number, found)))
}

fn directive(line: &[u8]) -> Option<Result<&str, Problem>> {
    let rest = MARKS.into_iter().find_map(|mark| line.strip_prefix(mark))?;
    match rest.first() {
        None => None,
        Some(b) if b.is_ascii_whitespace() || *b == b'\x0b' => {
            Some(std::str::from_utf8(rest).map_err(|_| Problem::NotText))
        }
        // `#SBATCH--time=5` is a directive with a mistake; `#SBATCHES` and `#GQ2` are comments.
        Some(b'-') => Some(Err(Problem::Expected("a blank behind #GQ or #SBATCH"))),
        Some(_) => None,
    }
}

/// Cuts what stands behind the mark into words.
pub(crate) fn words(line: &str) -> Result<Vec<String>, Problem> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => match chars.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => {
                    return Err(Problem::Other(
                        "the line ends in a backslash, but directives do not go on in the next line",
                    ));
                }
            },
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Problem::Other("a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}
