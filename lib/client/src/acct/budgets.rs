//! `gqacct budgets`: how much card time accounts and users have in a period, and how much of it is used. `gqd` counts; it is shown here.

use super::{forms, rows::Forms};
use crate::{
    link::{Link, conf_of},
    out::Out,
    stat::{clock::Clock, table::Column},
    trouble::Trouble,
};
use clap::{ArgMatches, Command};
use gq_model::Timestamp;
use gq_proto::{Ask, BudgetView, Reply};
use serde_json::{Value, json};

/// The options of `gqacct budgets`.
pub(super) fn budgets_command() -> Command {
    Command::new("budgets")
        .about("Show budgets of card-hours, and how much of them is used")
        .long_about(
            "Shows the budgets of the conf that you may see, in their order, each in its present period. USED counts the runs that have ended in \
             it and those that hold cards now, a slice or a share as its part of a card; runs that their node failed count nothing. CARDS is what \
             is held now.",
        )
        .disable_help_flag(true)
        .args(forms())
}

/// Shows budgets.
pub(super) fn budgets(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    let mut all: Vec<BudgetView> = Vec::new();
    link.ask_in_parts(Ask::Budgets, |part| {
        let Reply::Budgets { budgets, more } = part else { return Err(link.astray()) };
        all.extend(budgets);
        Ok(more)
    })?;
    print(words, clock, &all, out)?;
    Ok(0)
}

/// What is said of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    Account,
    User,
    Period,
    From,
    Until,
    Hours,
    Used,
    Percent,
    Cards,
    Then,
}

/// The columns, with their keys in CSV and JSON.
const PARTS: [(Part, &str, &str); 11] = [
    (Part::Name, "BUDGET", "budget"),
    (Part::Account, "ACCOUNT", "account"),
    (Part::User, "USER", "user"),
    (Part::Period, "PERIOD", "period"),
    (Part::From, "FROM", "from"),
    (Part::Until, "UNTIL", "until"),
    (Part::Hours, "CARD-HOURS", "card_hours"),
    (Part::Used, "USED", "used"),
    (Part::Percent, "PERCENT", "percent"),
    (Part::Cards, "CARDS", "cards"),
    (Part::Then, "WHEN-USED-UP", "when_used_up"),
];

fn cell(part: Part, budget: &BudgetView, clock: &Clock) -> String {
    let or_none = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    match part {
        Part::Name => budget.name.clone(),
        Part::Account => or_none(&budget.account),
        Part::User => or_none(&budget.user),
        Part::Period => budget.period.clone(),
        Part::From => day(budget.from, clock),
        Part::Until => day(budget.until, clock),
        Part::Hours => budget.most.to_string(),
        Part::Used => budget.used.to_string(),
        Part::Percent => format!("{}%", budget.used.percent_of(budget.most)),
        Part::Cards => thousandths(budget.cards),
        Part::Then => budget.when_used_up.clone(),
    }
}

/// A time that is most often a midnight.
fn day(at: Timestamp, clock: &Clock) -> String {
    let civil = clock.civil(at).unwrap_or_else(|| "-".to_owned());
    civil.strip_suffix("T00:00:00").map_or_else(|| civil.clone(), str::to_owned)
}

/// `2`, `0.5`, `1.125`.
fn thousandths(count: u64) -> String {
    let text = format!("{}.{:03}", count / 1000, count % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn print(words: &ArgMatches, clock: &Clock, all: &[BudgetView], out: &mut Out) -> Result<(), Trouble> {
    let value = |part, budget: &BudgetView| match part {
        Part::Account => budget.account.clone().unwrap_or_default(),
        Part::User => budget.user.clone().unwrap_or_default(),
        Part::Percent => budget.used.percent_of(budget.most).to_string(),
        part => cell(part, budget, clock),
    };
    let is_number = |part| matches!(part, Part::Hours | Part::Used | Part::Percent | Part::Cards);
    let column = |(part, head, _)| Column { right: is_number(part), ..Column::new(part, head) };
    let forms = Forms {
        json: &|| json!({ "budgets": all.iter().map(row).collect::<Vec<Value>>() }),
        names: PARTS.map(|(.., name)| name).to_vec(),
        line: &|budget: &BudgetView| PARTS.map(|(part, ..)| value(part, budget)).to_vec(),
        columns: PARTS.map(column).to_vec(),
        cell: &|part, budget: &BudgetView| cell(part, budget, clock),
    };
    forms.print(words, all, out)
}

fn row(budget: &BudgetView) -> Value {
    json!({
        "budget": budget.name, "account": budget.account, "user": budget.user, "period": budget.period,
        "from": budget.from.0 as f64 / 1e6, "until": budget.until.0 as f64 / 1e6,
        "card_hours": budget.most.hours(), "used": budget.used.hours(),
        "percent": budget.used.percent_of(budget.most), "cards": budget.cards as f64 / 1e3,
        "when_used_up": budget.when_used_up,
    })
}

/// What somebody is told of a budget of his when he looks at his jobs.
pub(crate) fn told(budget: &BudgetView, clock: &Clock) -> String {
    let whose = match (&budget.account, &budget.user) {
        (Some(account), _) => format!("account {account}"),
        (None, user) => format!("user {}", user.as_deref().unwrap_or("-")),
    };
    let follows = match (budget.used >= budget.most, budget.when_used_up.as_str()) {
        (true, "refuse") => "; jobs that ask for cards are neither taken nor started",
        (true, "low_priority") => "; jobs that ask for cards stand behind all others",
        _ => "",
    };
    format!(
        "budget {} of {whose}: {} % used, {} of {} card-hours until {}{follows}",
        budget.name,
        budget.used.percent_of(budget.most),
        budget.used,
        budget.most,
        day(budget.until, clock),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::CardTime;
    use jiff::tz::TimeZone;

    #[test]
    fn a_budget_is_told_in_hours_and_days() {
        let clock = Clock { now: Timestamp(0), zone: TimeZone::UTC };
        let budget = BudgetView {
            name: "vision".into(),
            account: Some("lab".into()),
            user: None,
            period: "month".into(),
            from: Timestamp::from_secs(0),
            until: Timestamp::from_secs(31 * 86_400),
            most: CardTime::of(5_000_000, 3_600_000_000),
            used: CardTime::of(4_250_500, 3_600_000_000),
            cards: 1125,
            when_used_up: "refuse".into(),
        };
        let said: Vec<String> = PARTS.iter().map(|(part, ..)| cell(*part, &budget, &clock)).collect();
        let expected = [
            "vision",
            "lab",
            "-",
            "month",
            "1970-01-01",
            "1970-02-01",
            "5000",
            "4250.5",
            "85%",
            "1.125",
            "refuse",
        ];
        assert_eq!(said, expected);
        let line = "budget vision of account lab: 85 % used, 4250.5 of 5000 card-hours until 1970-02-01";
        assert_eq!(told(&budget, &clock), line);
        assert!(
            told(&BudgetView { used: budget.most, ..budget }, &clock).ends_with("neither taken nor started")
        );
    }
}
