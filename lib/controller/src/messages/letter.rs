//! Messages to users as mail: head and text. Whatever users typed is made harmless in the head, and shown as it is meant in the text.

use super::{
    budget::News,
    note::{Happened, Note, Subject, Tasks, What},
};
use gq_cluster::Idleness;
use gq_model::{JobState, Seconds, Timestamp, Used, parse_recipients};
use jiff::{ZonedDateTime, tz::TimeZone};
use std::fmt::Write;

/// Longest value in the text, in characters.
const MAX_VALUE: usize = 800;
/// Longest line of a value in the head that stands as it is, in bytes.
const MAX_PLAIN: usize = 66;
/// Most bytes of a text in one encoded word, which may have 75 characters.
const MAX_WORD: usize = 42;
/// Most cards that are told by name.
const MAX_CARDS: usize = 16;

/// Who sends messages, and where users get them.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) cluster: String,
    /// From whom messages are.
    pub(crate) from: String,
    /// What stands behind the `@` of users.
    pub(crate) domain: Option<String>,
    /// The name of this host, for numbers of messages.
    pub(crate) host: String,
}

impl Origin {
    fn address(&self, name: &str) -> String {
        match &self.domain {
            Some(domain) if !name.contains('@') => format!("{name}@{domain}"),
            Some(_) | None => name.to_owned(),
        }
    }

    /// The recipients of a user's messages.
    ///
    /// # Errors
    /// When what he is called is no address.
    fn recipients(&self, subject: &Subject) -> Result<String, String> {
        let asked = subject.spec.mail.as_ref().and_then(|mail| mail.to.as_deref());
        self.known(asked.unwrap_or(&subject.user))
    }

    /// Names as addresses.
    fn known(&self, names: &str) -> Result<String, String> {
        let all = parse_recipients(names).map_err(|e| format!("{names:?} gets no messages: {e}"))?;
        Ok(all.into_iter().map(|name| self.address(name)).collect::<Vec<_>>().join(", "))
    }

    /// A whole message. `left_out`: how many before it were not sent.
    ///
    /// # Errors
    /// When it is for nobody.
    pub(crate) fn message(&self, note: &Note, left_out: u64) -> Result<Vec<u8>, String> {
        let (topic, text, to) = match &note.what {
            What::Job(happened, subject) => (
                topic(*happened, subject),
                body(*happened, subject, &self.cluster),
                self.recipients(subject)?,
            ),
            What::LeftOut(subject) => (
                "messages were left out".to_owned(),
                "Too many messages at a time.\n".to_owned(),
                self.recipients(subject)?,
            ),
            What::Budget(news) => {
                let topic = format!("{} % of budget {} are used", news.percent, news.budget);
                (topic, of_budget(news), self.known(&news.to)?)
            }
            What::Node(..) => return Err("nobody gets messages about nodes".into()),
        };
        let title = match &note.what {
            What::Job(_, subject) => {
                format!("gq job {} ({}) of {}: {topic}", subject.name(), subject.spec.name, self.cluster)
            }
            What::LeftOut(_) | What::Node(..) | What::Budget(_) => format!("gq of {}: {topic}", self.cluster),
        };
        let mut message = format!(
            "From: \"gq {}\" <{}>\nTo: {}\nSubject: {}\nDate: {}\nMessage-ID: <{}.{}@{}>\nAuto-Submitted: auto-generated\n\
             MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{text}",
            self.cluster,
            self.address(&self.from),
            to,
            head_value(&title),
            date(note.at),
            note.at.0,
            note.number,
            self.host,
        );
        if left_out > 0 {
            let _ = write!(
                message,
                "\n{left_out} messages about your jobs before this one were left out: too many came at a time.\n\
                 gqstat tells of all jobs.\n"
            );
        }
        Ok(message.into_bytes())
    }
}

/// What happened, in a few words.
fn topic(happened: Happened, subject: &Subject) -> String {
    match happened {
        Happened::Submitted => "was accepted".into(),
        Happened::Begin => {
            let node = subject.place.as_ref().map(|place| format!(" on {}", place.node)).unwrap_or_default();
            let waited = subject.started.map(|at| between(subject.submitted, at)).unwrap_or_default();
            format!("started{node} after {waited}")
        }
        Happened::End => ended(subject),
        Happened::Requeue => format!("waits again, after it ended: {}", how(subject)),
        Happened::TimeLimit(percent) => format!("{percent} % of its time limit are over"),
        Happened::Waited => "still waits".into(),
        Happened::Idle(idle) => format!("its cards are idle; {}", then(idle)),
    }
}

/// What is done about idle cards.
fn then(idle: Idleness) -> String {
    let what = if idle.again { "put back into the queue" } else { "cancelled" };
    idle.due.map_or_else(|| "it runs on".to_owned(), |due| format!("it is {what} at {}", local(due)))
}

fn ended(subject: &Subject) -> String {
    if !subject.tally.is_empty() {
        let counts = subject.tally.iter().map(|(end, count)| format!("{count} {}", JobState::Ended(*end)));
        return format!("all tasks have ended, {}", counts.collect::<Vec<_>>().join(", "));
    }
    let ran = subject.ran().map_or_else(|| "never started".to_owned(), |ran| format!("ran {ran}"));
    let exit = exit_of(subject).map(|exit| format!(", {exit}")).unwrap_or_default();
    format!("{}, {ran}{exit}", subject.state)
}

fn how(subject: &Subject) -> String {
    let Some(outcome) = &subject.outcome else { return "not known".into() };
    format!("{}, {}", JobState::Ended(outcome.end), outcome.reason.word())
}

fn exit_of(subject: &Subject) -> Option<String> {
    let outcome = subject.outcome.as_ref()?;
    let signal = outcome.signal.map(|signal| format!("signal {signal}"));
    signal.or_else(|| outcome.exit_code.map(|code| format!("exit code {code}")))
}

/// The text: a sentence, then what is known, a line each.
fn body(happened: Happened, subject: &Subject, cluster: &str) -> String {
    let mut text = format!("Job {} of {cluster}: {}.\n\n", subject.name(), topic(happened, subject));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "{:<18}{}", format!("{name}:"), shown(&value));
        }
    };
    let place = subject.place.as_ref();
    let outcome = subject.outcome.as_ref();
    line("Job", Some(subject.name()));
    line("Name", Some(subject.spec.name.clone()));
    line("User", Some(subject.user.clone()));
    line("Account", subject.payer.account.clone());
    line("Partition", Some(subject.shape.partition.clone()));
    line("State", Some(subject.state.to_string()).filter(|_| subject.tally.is_empty()));
    let reason = outcome.map(|o| o.reason.word()).filter(|word| *word != "None");
    line("Reason", reason.map(|word| join(word, outcome.map_or("", |o| &o.detail))));
    line("Exit", exit_of(subject));
    line("Node", place.map(|place| place.node.to_string()));
    line("Cards", place.map(|place| cards(&place.cards)));
    line("Submitted", Some(local(subject.submitted)));
    line("Started", subject.started.map(local));
    line("Ended", subject.ended.map(local));
    line("Ran", subject.ran().map(|ran| ran.to_string()));
    let used = outcome.and_then(|outcome| outcome.used.as_deref());
    line("Cpu time used", used.and_then(|used| used.cpu).map(|cpu| Seconds(cpu / 1_000_000).to_string()));
    line("Memory used", used.and_then(|used| used.memory).map(|memory| format!("{memory} at most")));
    line("Cards used", used.and_then(cards_used));
    line("Time limit", subject.shape.time_limit.map(|limit| limit.to_string()));
    line("Run", Some(subject.run.to_string()).filter(|_| subject.run.0 > 1));
    line("Output", subject.stdout());
    line("Directory", Some(subject.spec.work_dir.clone()));
    if let Happened::Idle(idle) = happened {
        let _ = writeln!(text, "{:<18}{}", "Idle since:", local(idle.since));
        text.push_str(
            "\nAll its cards are used for less than counts as use. Whoever uses them again keeps them; --idle-ok=REASON\n\
             excuses a job where its partition takes that.\n",
        );
    }
    if subject.array && subject.tasks == Tasks::All {
        text.push_str(
            "\nOne message for the whole array: --mail-type=ARRAY_TASKS asks for one about each task.\n",
        );
    }
    text
}

/// What is said of a budget.
fn of_budget(news: &News) -> String {
    let mut text = format!("{}.\n\n{}\n\n", shown(&news.sentence()), news.what_follows());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{:<18}{}", format!("{name}:"), shown(&value));
    };
    line("Budget", news.budget.clone());
    line("Of", news.whose());
    line("Used", format!("{} card-hours", news.used));
    line("There are", format!("{} card-hours", news.most));
    line("Since", local(news.from));
    line("Begins anew", local(news.until));
    text.push_str("\ngqacct budgets tells of all budgets, gqacct usage of who used what.\n");
    text
}

/// How busy cards were, and the most of the memory of one that was used.
fn cards_used(used: &Used) -> Option<String> {
    let busy = used.busy()?;
    let memory = used.cards.iter().filter_map(|card| card.memory).max();
    let memory = memory.map(|memory| format!(", {memory} of one at most")).unwrap_or_default();
    Some(format!("{}.{} % busy{memory}", busy / 10, busy % 10))
}

fn join(word: &str, detail: &str) -> String {
    if detail.is_empty() { word.to_owned() } else { format!("{word}: {detail}") }
}

fn cards(cards: &[gq_model::CardUse]) -> String {
    let name = |card: &gq_model::CardUse| {
        let slice = card.slice.as_ref().map(|slice| format!(" {slice}")).unwrap_or_default();
        let uuid = card.uuid.as_ref().map(|uuid| format!(" ({uuid})")).unwrap_or_default();
        format!("{}{slice}{uuid}", card.index)
    };
    let mut names: Vec<String> = cards.iter().take(MAX_CARDS).map(name).collect();
    if cards.len() > MAX_CARDS {
        names.push(format!("and {} more", cards.len() - MAX_CARDS));
    }
    names.join(", ")
}

fn between(from: Timestamp, to: Timestamp) -> Seconds {
    Seconds(to.micros_since(from) / 1_000_000)
}

fn zoned(at: Timestamp) -> Option<ZonedDateTime> {
    jiff::Timestamp::from_microsecond(at.0).ok().map(|at| at.to_zoned_datetime(TimeZone::system()))
}

/// A time as it is written in a head.
fn date(at: Timestamp) -> String {
    let text = zoned(at).and_then(|zoned| jiff::fmt::rfc2822::to_string(&zoned).ok());
    text.unwrap_or_else(|| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned())
}

/// A time for people of this place.
fn local(at: Timestamp) -> String {
    zoned(at).map_or_else(|| at.0.to_string(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}

/// A value of the text: on one line, of no great length.
pub(super) fn shown(value: &str) -> String {
    let mut text = String::new();
    for (count, c) in value.chars().enumerate() {
        if count == MAX_VALUE {
            text.push('…');
            break;
        }
        if is_harmless(c) { text.push(c) } else { text.extend(c.escape_default()) }
    }
    text
}

/// Not what ends a line, or turns the direction of text.
fn is_harmless(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

/// A value of the head: as it is when it is of plain letters, on several lines if need be; else in encoded words. Source: RFC 2047.
fn head_value(value: &str) -> String {
    let value = shown(value);
    let plain = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-/^_`{|}~.,:=()".contains(c);
    if value.chars().all(plain)
        && !value.contains("=?")
        && let Some(lines) = folded(&value)
    {
        return lines;
    }
    let mut words = Vec::new();
    let mut word = String::new();
    for c in value.chars() {
        if word.len() + c.len_utf8() > MAX_WORD {
            words.push(encoded(&std::mem::take(&mut word)));
        }
        word.push(c);
    }
    words.push(encoded(&word));
    words.join("\n ")
}

/// Text on lines that are not too long, parted before words; none when some word is too long for that.
fn folded(value: &str) -> Option<String> {
    let (mut lines, mut length) = (String::new(), 0);
    for (at, word) in value.split(' ').enumerate() {
        if at > 0 && length + 1 + word.len() > MAX_PLAIN && !word.is_empty() {
            lines.push('\n');
            length = 0;
        }
        if at > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
        if length > MAX_PLAIN {
            return None;
        }
    }
    Some(lines)
}

fn encoded(word: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("=?UTF-8?B?");
    for three in word.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for at in 0..4usize {
            let letter = LETTERS.get(((bits >> (18 - 6 * at)) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if at > three.len() { '=' } else { char::from(letter) });
        }
    }
    text.push_str("?=");
    text
}
