//! What sums are made by: the words of `--by`, and the calendar's spans that they are about.

use super::{
    picked,
    when::{self, Period},
};
use crate::{select::split, stat::clock::Clock, trouble::Trouble};
use clap::{Arg, ArgMatches};
use gq_model::Timestamp;
use gq_proto::{UsageAsk, UsageBy};
use serde_json::{Map, Value};

/// What sums can be made by, with the heading.
pub(super) const BY: [(&str, Key, &str); 8] = [
    ("user", Key::Of(UsageBy::User), "USER"),
    ("account", Key::Of(UsageBy::Account), "ACCOUNT"),
    ("partition", Key::Of(UsageBy::Partition), "PARTITION"),
    ("node", Key::Of(UsageBy::Node), "NODE"),
    ("state", Key::Of(UsageBy::State), "STATE"),
    ("name", Key::Of(UsageBy::Name), "NAME"),
    ("month", Key::In(Period::Month), "MONTH"),
    ("day", Key::In(Period::Day), "DAY"),
];

/// What a word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Something that runs have in common.
    Of(UsageBy),
    /// The span of time in which they ended.
    In(Period),
}

impl Key {
    /// How `gqd` is asked for it.
    pub(super) const fn letter(self) -> UsageBy {
        match self {
            Self::Of(by) => by,
            Self::In(_) => UsageBy::Period,
        }
    }
}

/// A word that sums can be made by, what it means, and its heading.
pub(super) type By = (&'static str, Key, &'static str);

/// The option `--by`.
pub(super) fn by_option(usual: &'static str) -> Arg {
    Arg::new("by").long("by").value_name("LIST").default_value(usual).help(
        "Sum up by these, in that order: user account partition node state name month day; all for one sum",
    )
}

/// Spans of time, by their begins, with their names.
pub(super) type Periods = Vec<(Timestamp, String)>;

fn read_by(list: &str) -> Result<Vec<By>, Trouble> {
    if list.eq_ignore_ascii_case("all") {
        return Ok(Vec::new());
    }
    let mut all: Vec<By> = Vec::new();
    for word in split(list) {
        let Some(by) = BY.iter().find(|(name, ..)| name.eq_ignore_ascii_case(word)) else {
            let known: Vec<&str> = BY.iter().map(|(name, ..)| *name).collect();
            return Err(
                Trouble::usage(format!("--by: sums cannot be made by `{word}`")).with_hint(known.join(" "))
            );
        };
        if all.iter().any(|(_, key, _)| key.letter() == by.1.letter()) {
            return Err(Trouble::usage(format!("--by: `{word}` contradicts what stands before it")));
        }
        all.push(*by);
    }
    if all.is_empty() { Err(Trouble::usage("--by: an empty list")) } else { Ok(all) }
}

/// What is asked: by what, over which spans of time.
pub(super) fn asked(words: &ArgMatches, clock: &Clock) -> Result<(Vec<By>, Periods, UsageAsk), Trouble> {
    let by = read_by(words.get_one::<String>("by").map_or("all", String::as_str))?;
    let period = by.iter().find_map(|(_, key, _)| match key {
        Key::In(period) => Some(*period),
        Key::Of(_) => None,
    });
    let usual = if period == Some(Period::Month) { when::Start::Year } else { when::Start::Month };
    let select = picked(words, clock, usual)?;
    let periods = match period {
        None => Vec::new(),
        Some(period) => {
            let from = select.from.ok_or_else(|| {
                Trouble::usage(format!(
                    "--by={}: --start is missing",
                    if period == Period::Day { "day" } else { "month" }
                ))
            })?;
            when::periods(period, from, select.until.unwrap_or(clock.now), clock)?
        }
    };
    let ask = UsageAsk {
        select,
        by: by.iter().map(|(_, key, _)| key.letter()).collect(),
        periods: periods.iter().map(|(begin, _)| *begin).collect(),
    };
    Ok((by, periods, ask))
}

/// The keys of a row in JSON.
pub(super) fn row_of(by: &[By], keys: &[Option<String>]) -> Map<String, Value> {
    let named = by.iter().zip(keys);
    named
        .map(|((name, ..), key)| ((*name).to_owned(), key.clone().map_or(Value::Null, Value::String)))
        .collect()
}

/// Names the span of time among keys.
pub(super) fn name_period(by: &[By], periods: &[(Timestamp, String)], keys: &mut [Option<String>]) {
    let at = by.iter().position(|(_, key, _)| matches!(key, Key::In(_)));
    let Some(key) = at.and_then(|at| keys.get_mut(at)).and_then(Option::as_mut) else { return };
    if let Some((_, name)) = key.parse::<usize>().ok().and_then(|number| periods.get(number)) {
        key.clone_from(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sums_are_made_by_is_said_once() {
        let names =
            |list: &str| read_by(list).map(|by| by.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        assert_eq!(names("month,user").unwrap(), ["month", "user"]);
        assert!(names("all").unwrap().is_empty());
        for bad in ["", "moon", "user,user", "month,day"] {
            assert_eq!(names(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
