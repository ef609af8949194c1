//! Budgets and prices: whose card time counts, how much there is of it, and what it costs. Never says what is used.

use super::declared::Declared;
use crate::{
    keys,
    mistake::Notes,
    rules::{Budget, Price, Whose},
    section::{Section, list},
};

/// The `[[budget]]` tables.
pub(crate) fn read(top: &Section<'_>, accounts: &Declared, notes: &mut Notes<'_>) -> Vec<Budget> {
    let mut declared = Declared::new("budget", "vision");
    let mut all = Vec::new();
    for section in list(top, "budget", notes) {
        let name = declared.take(&section, &keys::BUDGET_NAME, notes);
        let whose = whose(&section, accounts, notes);
        let most = section.read(&keys::CARD_HOURS, notes);
        if most.at.is_none() {
            let hint = Some("card_hours = 5000".to_string());
            notes.add_missing(&section.at, "this [[budget]] has no `card_hours`", hint);
        }
        let period = section.get(&keys::PERIOD, notes);
        let then = section.get(&keys::WHEN_USED_UP, notes);
        if let (Some((name, _)), Some(whose), Some(most)) = (name, whose, most.value) {
            all.push(Budget { name, whose, most, period, then });
        }
    }
    all
}

/// Whose a budget is: one account's, one user's or each user's.
fn whose(section: &Section<'_>, accounts: &Declared, notes: &mut Notes<'_>) -> Option<Whose> {
    let account = section.read(&keys::BUDGET_ACCOUNT, notes);
    let user = section.read(&keys::BUDGET_USER, notes);
    let every = section.read(&keys::EVERY_USER, notes);
    let every_at = every.at.filter(|_| every.value);
    let said: Vec<_> = [&account.at, &user.at, &every_at].into_iter().flatten().collect();
    if let Some(second) = said.get(1) {
        let text = "a budget has one of `account`, `user` and `every_user`";
        notes.add(second, text.to_string(), Some("a [[budget]] of its own".to_string()));
        return None;
    }
    if said.is_empty() {
        let text = "this [[budget]] says not whose it is";
        notes.add_missing(
            &section.at,
            text,
            Some("account = \"lab\", user = \"ann\" or every_user = true".to_string()),
        );
    }
    if let (Some(name), Some(at)) = (&account.value, &account.at) {
        accounts.check(name, at, notes);
    }
    let everyone = every_at.is_some().then_some(Whose::EveryUser);
    account.value.map(Whose::Account).or(user.value.map(Whose::User)).or(everyone)
}

/// The `[[price]]` tables, and in what is paid.
pub(crate) fn prices(top: &Section<'_>, notes: &mut Notes<'_>) -> (Vec<Price>, Option<String>) {
    let mut all: Vec<Price> = Vec::new();
    let mut currency: Option<String> = None;
    for section in list(top, "price", notes) {
        let model = section.read(&keys::PRICE_MODEL, notes);
        let price = section.read(&keys::CARD_HOUR, notes);
        let paid = section.read(&keys::CURRENCY, notes);
        for (key, is_missing, hint) in [
            ("model", model.at.is_none(), "model = \"a100\""),
            ("card_hour", price.at.is_none(), "card_hour = 1.5"),
        ] {
            if is_missing {
                notes.add_missing(
                    &section.at,
                    format!("this [[price]] has no `{key}`"),
                    Some(hint.to_string()),
                );
            }
        }
        if let (Some(name), Some(at)) = (&paid.value, &paid.at) {
            match &currency {
                Some(other) if other != name => {
                    notes.add(at, format!("prices are in `{other}` already: all have one currency"), None);
                }
                _ => currency = Some(name.clone()),
            }
        }
        if let (Some(name), Some(at)) = (&model.value, &model.at)
            && all.iter().any(|price| price.model.eq_ignore_ascii_case(name))
        {
            notes.add(at, format!("model `{name}` has a price already"), None);
            continue;
        }
        if let (Some(model), Some(card_hour)) = (model.value, price.value) {
            all.push(Price { model, card_hour });
        }
    }
    (all, currency)
}
