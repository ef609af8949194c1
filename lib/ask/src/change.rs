//! Changes of a job that was submitted, in the words in which a submission says the same.

use crate::{Problem, begin::read_instant, life, values};
use gq_model::{Change, Requeue, Seconds, Timestamp, parse_duration};
use jiff::tz::TimeZone;

/// Reads what an option of `gqctl update` says: `time`, `priority`, `partition`, `array-throttle`, `dependency`, `name`, `comment`,
/// `nice`, `begin`, `deadline` or `requeue`, said at `now` in `zone`.
///
/// # Errors
/// A value that is none, or an option that changes nothing.
pub fn read_change(
    option: &str,
    text: &str,
    now: Timestamp,
    zone: &dyn Fn() -> TimeZone,
) -> Result<Change, Problem> {
    let instant = || match is_none(text) {
        true => Ok(None),
        false => read_instant(text, now, zone()).map(Some),
    };
    Ok(match option {
        "time" => time(text)?,
        "priority" => {
            Change::Priority(text.parse().map_err(|_| Problem::Expected("a whole number, such as 1000"))?)
        }
        "partition" => Change::Partition(values::partition(text)?),
        "array-throttle" => Change::AtOnce(life::throttle(text)?),
        "dependency" if is_none(text) => Change::Dependency(None),
        "dependency" => Change::Dependency(Some(text.parse()?)),
        "name" => Change::Name(values::name(text)?),
        "comment" => Change::Comment(values::comment(text)?),
        "nice" => Change::Nice(values::nice(text)?),
        "begin" => Change::Begin(instant()?),
        "deadline" => match instant()? {
            Some(at) if at <= now => return Err(Problem::Other("that time has passed")),
            at => Change::Deadline(at),
        },
        "requeue" => Change::Requeue(requeue(text)?),
        _ => return Err(Problem::Unknown),
    })
}

fn is_none(text: &str) -> bool {
    text.is_empty() || text.eq_ignore_ascii_case("none")
}

fn requeue(text: &str) -> Result<Requeue, Problem> {
    if text.eq_ignore_ascii_case("on-lost") {
        return Ok(Requeue::OnLost);
    }
    let is_wanted = life::yes_no(text).map_err(|_| Problem::Expected("yes, no or on-lost"))?;
    Ok(if is_wanted { Requeue::Dead } else { Requeue::Never })
}

/// A time limit, or `+` or `-` and by how much it changes.
fn time(text: &str) -> Result<Change, Problem> {
    // No duration is longer than a century.
    let seconds = |Seconds(seconds): Seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => Ok(Change::TimeLimitBy(seconds(parse_duration(more)?))),
        (_, Some(less)) => Ok(Change::TimeLimitBy(-seconds(parse_duration(less)?))),
        (None, None) => Ok(Change::TimeLimit(values::limit(text)?)),
    }
}
