//! Tests of budgets and prices as they are read and refused.

use super::{bad, good};
use crate::{UsedUp, Whose};
use gq_model::{CardTime, Period};

#[test]
fn budgets_and_prices_are_read_as_whole_numbers_of_small_units() {
    let config = good(
        r#"
[[account]]
name = "lab"
[[budget]]
name = "all"
account = "lab"
card_hours = 5000
[[budget]]
name = "ann"
user = "ann"
card_hours = 0.0005
period = "Week"
when_used_up = "low_priority"
[[budget]]
name = "each"
every_user = true
card_hours = 0
period = "year"
when_used_up = "refuse"
[[price]]
model = "a100"
card_hour = 1.25
[[price]]
model = "h100"
card_hour = 3
currency = "EUR"
"#,
    );
    let whose: Vec<&Whose> = config.budgets.iter().map(|budget| &budget.whose).collect();
    assert_eq!(whose, [&Whose::Account("lab".into()), &Whose::User("ann".into()), &Whose::EveryUser]);
    let said: Vec<_> =
        config.budgets.iter().map(|budget| (budget.most, budget.period, budget.then)).collect();
    let expected = [
        (CardTime(5000 * CardTime::HOUR.0), Period::Month, UsedUp::Report),
        (CardTime(1_800_000), Period::Week, UsedUp::LowPriority),
        (CardTime(0), Period::Year, UsedUp::Refuse),
    ];
    assert_eq!(said, expected);
    let prices: Vec<_> = config.prices.iter().map(|price| (price.model.as_str(), price.card_hour)).collect();
    assert_eq!(prices, [("a100", 1_250_000), ("h100", 3_000_000)]);
    assert_eq!(config.currency.as_deref(), Some("EUR"));
}

#[test]
fn mistakes_of_budgets_are_told_at_once_where_they_are() {
    let text = r#"[[budget]]
account = "lab"
card_hours = "many"
[[budget]]
name = "b"
period = "fortnight"
when_used_up = "stop"
[[budget]]
name = "c"
user = "ann"
every_user = true
card_hours = -1
[[price]]
card_hour = 1e12
currency = "EUR"
[[price]]
model = "A100"
card_hour = 1
currency = "USD"
[[price]]
model = "a100"
card_hour = 1
"#;
    let told: Vec<(usize, String)> = bad(text).into_iter().map(|(line, _, text, _)| (line, text)).collect();
    let expected = [
        (1, "this [[budget]] has no `name`"),
        (2, "account `lab` is not declared"),
        (3, "expected a number from 0 to 1000000000, found a text"),
        (4, "this [[budget]] has no `card_hours`"),
        (4, "this [[budget]] says not whose it is"),
        (6, "expected one of \"day\", \"week\", \"month\", \"quarter\", \"year\", found `fortnight`"),
        (7, "expected one of \"report\", \"low_priority\", \"refuse\", found `stop`"),
        (11, "a budget has one of `account`, `user` and `every_user`"),
        (12, "expected a number from 0 to 1000000000, found -1"),
        (13, "this [[price]] has no `model`"),
        (14, "expected a number from 0 to 1000000000, found 1000000000000"),
        (19, "prices are in `EUR` already: all have one currency"),
        (21, "model `a100` has a price already"),
    ];
    for (line, words) in expected {
        assert!(told.contains(&(line, words.to_owned())), "{line}: {words}\n{told:#?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}
