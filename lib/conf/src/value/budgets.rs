//! Readers of budgets and prices: card-hours, periods, amounts of money. Decimal numbers become whole ones of a small unit here.

use super::{account, expected, span_of, word};
use crate::{mistake::Notes, rules::UsedUp};
use gq_model::{CardTime, Period};
use toml_edit::Value;

/// Most card-hours of a period.
const MAX_CARD_HOURS: f64 = 1e9;
/// Highest price of a card-hour.
const MAX_PRICE: f64 = 1e9;

/// A number that may have digits behind the point, from 0 on.
fn decimal(value: &Value, notes: &mut Notes<'_>, most: f64) -> Option<f64> {
    let what = format!("a number from 0 to {most}");
    let number = match value {
        Value::Integer(number) => *number.value() as f64,
        Value::Float(number) => *number.value(),
        _ => {
            let hint = value.as_str().and_then(|s| s.trim().parse::<f64>().ok()).map(|n| n.to_string());
            return expected(value, notes, &what, hint);
        }
    };
    if (0.0..=most).contains(&number) {
        return Some(number);
    }
    notes.add(&span_of(value), format!("expected {what}, found {number}"), None);
    None
}

/// Card-hours.
pub(crate) fn card_hours(value: &Value, notes: &mut Notes<'_>) -> Option<Option<CardTime>> {
    let hours = decimal(value, notes, MAX_CARD_HOURS)?;
    Some(Some(CardTime((hours * CardTime::HOUR.0 as f64).round() as u64)))
}

/// What a card-hour costs, in millionths.
pub(crate) fn price(value: &Value, notes: &mut Notes<'_>) -> Option<Option<u64>> {
    let price = decimal(value, notes, MAX_PRICE)?;
    Some(Some((price * 1e6).round() as u64))
}

/// A period of the calendar.
pub(crate) fn period(value: &Value, notes: &mut Notes<'_>) -> Option<Period> {
    word(value, notes, &Period::ALL.map(|period| (period, period.name())), "")
}

/// What happens when a budget is used up.
pub(crate) fn used_up(value: &Value, notes: &mut Notes<'_>) -> Option<UsedUp> {
    word(value, notes, &UsedUp::ALL, "")
}

/// An account of the system, for what may be absent.
pub(crate) fn some_account(value: &Value, notes: &mut Notes<'_>) -> Option<Option<String>> {
    account(value, notes).map(Some)
}
