//! `gqctl priority` and `gqctl shares`: what makes up the place of jobs that wait, and the tree of fair share. Shown as `gqd` computes it.

use crate::{
    link::{Link, conf_of},
    out::Out,
    select::{filters, listed},
    stat::{
        json,
        table::{Column, Table},
    },
    trouble::{NO_SUCH_JOB, Trouble, say},
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use gq_model::JobRef;
use gq_proto::{Ask, PriorityView, Reply, ShareView};
use serde::Serialize;

/// Thousandths of a card times seconds in a card-hour.
const CARD_HOUR: f64 = 3_600_000.0;

/// The options of `gqctl priority`.
pub(super) fn priority_command() -> Command {
    let kept = filters().into_iter().filter(|arg| arg.get_id() != "states");
    Command::new("priority")
        .about("Show what makes up the priority of jobs that wait, the highest first")
        .arg(
            Arg::new("jobs")
                .value_name("JOB")
                .action(ArgAction::Append)
                .help("These jobs: 17, or 17,18; without any, all that wait"),
        )
        .args(kept)
        .arg(super::json_flag())
}

/// The options of `gqctl shares`.
pub(super) fn shares_command() -> Command {
    Command::new("shares")
        .about(
            "Show accounts and users with their shares, what they used of late, and their fair-share factor",
        )
        .arg(super::json_flag())
}

#[derive(Clone, Copy)]
enum Part {
    Job,
    User,
    Account,
    Age,
    FairShare,
    Size,
    Partition,
    Qos,
    Nice,
    Total,
}

#[derive(Serialize)]
struct Priority<'a> {
    id: u64,
    user: &'a str,
    account: Option<&'a str>,
    partition: &'a str,
    age: i64,
    fair_share: i64,
    size: i64,
    partition_priority: i64,
    qos_priority: i64,
    nice: i64,
    budget: i64,
    total: i64,
}

impl<'a> Priority<'a> {
    fn of(view: &'a PriorityView) -> Self {
        Self {
            id: view.id.0,
            user: &view.user,
            account: view.account.as_deref(),
            partition: &view.partition_name,
            age: view.age,
            fair_share: view.fair_share,
            size: view.size,
            partition_priority: view.partition,
            qos_priority: view.qos,
            nice: view.nice,
            budget: view.budget,
            total: view.total,
        }
    }
}

/// Shows priorities; returns the exit code.
pub(super) fn priority(words: &ArgMatches) -> Result<u8, Trouble> {
    let select = listed(words)?;
    let link = Link::open(conf_of(words))?;
    let mut out = Out::stdout()?;
    let mut list = Rows::new(words.get_flag("json"), "jobs", priority_columns());
    let mut unknown: Vec<JobRef> = Vec::new();
    link.ask_in_parts(Ask::Priorities { select }, |part| match part {
        Reply::Priorities { jobs, unknown: some, more } => {
            unknown.extend(some);
            list.print(&jobs, &mut out, priority_cell, Priority::of)?;
            Ok(more)
        }
        _ => Err(link.astray()),
    })?;
    list.end(&mut out)?;
    out.flush()?;
    if unknown.is_empty() {
        return Ok(0);
    }
    let ids: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    say("gqctl", &format!("no such job waits: {}", ids.join(", ")));
    Ok(NO_SUCH_JOB)
}

fn priority_columns() -> Vec<Column<Part>> {
    let mut columns = vec![
        Column::new(Part::Job, "JOBID"),
        Column::new(Part::User, "USER"),
        Column::new(Part::Account, "ACCOUNT"),
        Column::new(Part::Age, "AGE"),
        Column::new(Part::FairShare, "FAIRSHARE"),
        Column::new(Part::Size, "SIZE"),
        Column::new(Part::Partition, "PARTITION"),
        Column::new(Part::Qos, "QOS"),
        Column::new(Part::Nice, "NICE"),
        Column::new(Part::Total, "TOTAL"),
    ];
    for column in &mut columns {
        column.right = !matches!(column.of, Part::User | Part::Account);
        column.roomy = if column.right { 7 } else { 1 };
        column.least = matches!(column.of, Part::User | Part::Account).then_some(5);
    }
    columns
}

fn priority_cell(part: Part, view: &PriorityView, cell: &mut String) {
    let number = match part {
        Part::User => return cell.push_str(&view.user),
        Part::Account => return cell.push_str(view.account.as_deref().unwrap_or("-")),
        Part::Job => return cell.push_str(&view.id.to_string()),
        Part::Age => view.age,
        Part::FairShare => view.fair_share,
        Part::Size => view.size,
        Part::Partition => view.partition,
        Part::Qos => view.qos,
        Part::Nice => view.nice,
        Part::Total => view.total,
    };
    cell.push_str(&number.to_string());
}

#[derive(Clone, Copy)]
enum Of {
    Account,
    User,
    Shares,
    Usage,
    Factor,
}

#[derive(Serialize)]
struct Share<'a> {
    account: Option<&'a str>,
    parent: Option<&'a str>,
    user: Option<&'a str>,
    shares: u64,
    card_hours: f64,
    factor: f64,
}

impl<'a> Share<'a> {
    fn of(view: &'a ShareView) -> Self {
        Self {
            account: view.account.as_deref(),
            parent: view.parent.as_deref(),
            user: view.user.as_deref(),
            shares: view.shares,
            card_hours: view.usage as f64 / CARD_HOUR,
            factor: f64::from(view.factor) / 1000.0,
        }
    }
}

/// Shows the tree of fair share; returns the exit code.
pub(super) fn shares(words: &ArgMatches) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    let mut out = Out::stdout()?;
    let mut columns = vec![
        Column::new(Of::Account, "ACCOUNT"),
        Column::new(Of::User, "USER"),
        Column::new(Of::Shares, "SHARES"),
        Column::new(Of::Usage, "CARD-HOURS"),
        Column::new(Of::Factor, "FACTOR"),
    ];
    for column in &mut columns {
        column.right = matches!(column.of, Of::Shares | Of::Usage | Of::Factor);
    }
    let mut list = Rows::new(words.get_flag("json"), "shares", columns);
    let mut tree = Tree::default();
    link.ask_in_parts(Ask::Shares, |part| match part {
        Reply::Shares { shares, more } => {
            shares.iter().for_each(|share| tree.learn(share));
            let cell = |of, share: &ShareView, cell: &mut String| share_cell(of, share, &tree, cell);
            list.print(&shares, &mut out, cell, Share::of)?;
            Ok(more)
        }
        _ => Err(link.astray()),
    })?;
    list.end(&mut out)?;
    out.flush()?;
    Ok(0)
}

/// How deep each account lies below the top.
#[derive(Default)]
struct Tree(std::collections::BTreeMap<String, usize>);

impl Tree {
    fn learn(&mut self, share: &ShareView) {
        if let (Some(account), None) = (&share.account, &share.user) {
            let depth =
                share.parent.as_ref().and_then(|parent| self.0.get(parent)).map_or(0, |depth| depth + 1);
            self.0.insert(account.clone(), depth);
        }
    }
    fn depth(&self, share: &ShareView) -> usize {
        let account = share.account.as_ref().and_then(|account| self.0.get(account)).copied();
        account.map_or(0, |depth| depth + usize::from(share.user.is_some()))
    }
}

fn share_cell(of: Of, share: &ShareView, tree: &Tree, cell: &mut String) {
    match of {
        Of::Account => {
            cell.extend(std::iter::repeat_n(' ', tree.depth(share)));
            cell.push_str(share.account.as_deref().unwrap_or("-"));
        }
        Of::User => cell.push_str(share.user.as_deref().unwrap_or("")),
        Of::Shares => cell.push_str(&share.shares.to_string()),
        Of::Usage => cell.push_str(&format!("{:.2}", share.usage as f64 / CARD_HOUR)),
        Of::Factor => cell.push_str(&format!("{:.3}", f64::from(share.factor) / 1000.0)),
    }
}

/// Rows on their way out, as a table or as `{"<key>":[…]}`.
struct Rows<T> {
    json: bool,
    key: &'static str,
    first: bool,
    table: Table<T>,
}

impl<T: Copy> Rows<T> {
    fn new(json: bool, key: &'static str, columns: Vec<Column<T>>) -> Self {
        Self { json, key, first: true, table: Table::new(columns, true) }
    }

    fn print<'a, R, J: Serialize>(
        &mut self,
        rows: &'a [R],
        out: &mut Out,
        cell: impl Fn(T, &R, &mut String),
        object: impl Fn(&'a R) -> J,
    ) -> Result<(), Trouble> {
        if !self.json {
            return self.table.print(rows, out, cell, |_, _| None);
        }
        for row in rows {
            out.put(&if self.first { format!("{{\"{}\":[", self.key) } else { ",\n".to_owned() })?;
            self.first = false;
            json::write(out, &object(row)).map_err(|e| Trouble::of_output(&e))?;
        }
        Ok(())
    }

    fn end(&self, out: &mut Out) -> Result<(), Trouble> {
        match (self.json, self.first) {
            (false, _) => Ok(()),
            (true, true) => out.put(&format!("{{\"{}\":[]}}\n", self.key)),
            (true, false) => out.put("]}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::JobId;

    #[test]
    fn an_account_stands_below_the_one_it_is_a_part_of_and_its_users_below_it() {
        let share = |account: Option<&str>, parent: Option<&str>, user: Option<&str>| ShareView {
            account: account.map(str::to_owned),
            parent: parent.map(str::to_owned),
            user: user.map(str::to_owned),
            shares: 2,
            usage: 5_400_000,
            factor: 250,
        };
        let rows = [
            share(Some("lab"), None, None),
            share(Some("vision"), Some("lab"), None),
            share(Some("vision"), Some("lab"), Some("ann")),
            share(None, None, Some("bob")),
        ];
        let mut tree = Tree::default();
        rows.iter().for_each(|row| tree.learn(row));
        let cells = |of| -> Vec<String> {
            let cell = |row| {
                let mut cell = String::new();
                share_cell(of, row, &tree, &mut cell);
                cell
            };
            rows.iter().map(cell).collect()
        };
        assert_eq!(cells(Of::Account), ["lab", " vision", "  vision", "-"]);
        assert_eq!(cells(Of::User), ["", "", "ann", "bob"]);
        assert_eq!((&*cells(Of::Usage)[0], &*cells(Of::Factor)[0]), ("1.50", "0.250"));
        assert_eq!(serde_json::to_value(Share::of(&rows[2])).unwrap()["card_hours"], 1.5);
    }

    #[test]
    fn every_part_of_a_priority_has_a_column() {
        let view = PriorityView {
            id: JobId(17),
            user: "ann".into(),
            account: None,
            partition_name: "main".into(),
            age: 1,
            fair_share: 2,
            size: -3,
            partition: 4,
            qos: 5,
            nice: -6,
            budget: 0,
            total: 3,
        };
        let cells: Vec<String> = priority_columns()
            .iter()
            .map(|column| {
                let mut cell = String::new();
                priority_cell(column.of, &view, &mut cell);
                cell
            })
            .collect();
        assert_eq!(cells, ["17", "ann", "-", "1", "2", "-3", "4", "5", "-6", "3"]);
        let value = serde_json::to_value(Priority::of(&view)).unwrap();
        assert_eq!((&value["partition"], &value["partition_priority"]), (&"main".into(), &4.into()));
    }
}
