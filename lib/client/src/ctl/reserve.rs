//! `gqctl reserve`, `unreserve` and `reservations`: advance reservations and maintenance windows, asked for and shown. Whether one can be
//! made is `gqd`'s to say.

use crate::{
    escape::shown,
    link::{Link, conf_of},
    out::Out,
    select::read_users,
    stat::{
        clock::Clock,
        json::{self, Time},
        table::{Column, Table},
    },
    trouble::Trouble,
};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use gq_model::{JobRef, Timestamp, compress_hosts, expand_hosts, parse_duration};
use gq_proto::{Ask, MAX_RESERVATION_NAME, MAX_RESERVED, Reply, ReservationView, ReserveAsk, ReservedView};
use serde::Serialize;

/// The options of `gqctl reserve`.
pub(super) fn reserve_command() -> Command {
    let text = |id: &'static str, value: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(value).help(help)
    };
    let flag =
        |id: &'static str, help: &'static str| Arg::new(id).long(id).action(ArgAction::SetTrue).help(help);
    Command::new("reserve")
        .about(
            "Keep nodes or cards for some users, accounts or a maintenance window, from a time on; jobs use it with \
             --reservation=NAME",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("Its name: letters, digits, -, _ and ."),
        )
        .arg(text("start", "TIME", "When it begins, as gqsub --begin takes it: now, now+2hours, 16:00, 2027-01-31T08:00").required(true))
        .arg(text("end", "TIME", "When it ends"))
        .arg(text("duration", "TIME", "How long it lasts: 2h, 1-12:00:00"))
        .group(ArgGroup::new("until").args(["end", "duration"]).required(true))
        .arg(text("nodes", "NODES", "Its nodes: ws1, or ws[1-4,7]").required(true))
        .arg(text("cards", "LIST", "Only these cards of each node, by index: 0,2-3; without it the whole nodes"))
        .arg(text("users", "LIST", "Who may use it, by name or user id").action(ArgAction::Append))
        .arg(text("accounts", "LIST", "Jobs of these accounts may use it").action(ArgAction::Append))
        .arg(flag("maintenance", "A maintenance window: nobody's jobs run in it").conflicts_with_all(["users", "accounts"]))
        .arg(flag("ignore-jobs", "Also when jobs that run now could still run when it begins; they are let run on"))
        .arg(flag("replace", "In place of the reservation of this name"))
}

/// The options of `gqctl unreserve`.
pub(super) fn unreserve_command() -> Command {
    Command::new("unreserve")
        .about("Take an advance reservation back; jobs that run in it go on")
        .arg(Arg::new("name").value_name("NAME").required(true).help("Its name"))
}

/// The options of `gqctl reservations`.
pub(super) fn reservations_command() -> Command {
    Command::new("reservations")
        .about("Show advance reservations and maintenance windows")
        .arg(super::json_flag())
}

/// What `gqctl reserve` asks.
pub(super) fn reserve(words: &ArgMatches) -> Result<Ask, Trouble> {
    asked(words, &Clock::system()).map(Ask::Reserve)
}

/// What `gqctl unreserve` asks.
pub(super) fn unreserve(words: &ArgMatches) -> Result<Ask, Trouble> {
    Ok(Ask::Unreserve { name: name(words)? })
}

fn name(words: &ArgMatches) -> Result<String, Trouble> {
    let name = words.get_one::<String>("name").map(String::as_str).unwrap_or_default();
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > MAX_RESERVATION_NAME || !name.bytes().all(good) {
        return Err(Trouble::usage(format!(
            "`{name}` is no name of a reservation: letters, digits, -, _ and ., at most {MAX_RESERVATION_NAME}"
        )));
    }
    Ok(name.to_owned())
}

fn asked(words: &ArgMatches, clock: &Clock) -> Result<ReserveAsk, Trouble> {
    let said = |id: &str| words.get_one::<String>(id).map(String::as_str);
    let instant = |id: &str, text: &str| {
        gq_ask::read_instant(text, clock.now, clock.zone.clone())
            .map_err(|e| Trouble::usage(format!("--{id}={text}: {e}")))
    };
    let start = instant("start", said("start").unwrap_or_default())?;
    let end = match (said("end"), said("duration")) {
        (Some(end), _) => instant("end", end)?,
        (None, Some(text)) => {
            let span = parse_duration(text).map_err(|e| Trouble::usage(format!("--duration={text}: {e}")))?;
            start.after(span)
        }
        (None, None) => return Err(Trouble::usage("--end or --duration is missing")),
    };
    if end <= start || end <= clock.now {
        let why = if end <= start { "before it begins" } else { "in the past" };
        return Err(Trouble::usage(format!("the reservation would end {why}"))
            .with_hint("--duration, or a later --end"));
    }
    let nodes = said("nodes").unwrap_or_default();
    let nodes = expand_hosts(nodes).map_err(|e| Trouble::usage(format!("--nodes={nodes}: {e}")))?;
    let cards = said("cards").map(cards).transpose()?.unwrap_or_default();
    let lists = |id: &str| -> Vec<&str> {
        words.get_many::<String>(id).into_iter().flatten().map(String::as_str).collect()
    };
    let users = match lists("users").as_slice() {
        [] => Vec::new(),
        lists => read_users("--users", lists)?,
    };
    let accounts: Vec<String> = lists("accounts")
        .iter()
        .flat_map(|list| list.split(','))
        .map(|account| account.trim().to_owned())
        .filter(|account| !account.is_empty())
        .collect();
    if nodes.len().max(users.len()).max(accounts.len()) > MAX_RESERVED {
        return Err(Trouble::usage(format!(
            "a reservation names at most {MAX_RESERVED} nodes, users or accounts"
        )));
    }
    let maintenance = words.get_flag("maintenance");
    if !maintenance && users.is_empty() && accounts.is_empty() {
        return Err(Trouble::usage("nobody but admins could use the reservation")
            .with_hint("--users=LIST, --accounts=LIST, or --maintenance"));
    }
    Ok(ReserveAsk {
        name: name(words)?,
        start,
        end,
        nodes,
        cards,
        users,
        accounts,
        maintenance,
        ignore_jobs: words.get_flag("ignore-jobs"),
        replace: words.get_flag("replace"),
    })
}

/// Reads indices of cards, as the tasks of an array are written.
fn cards(text: &str) -> Result<Vec<u32>, Trouble> {
    let wrong = || Trouble::usage(format!("--cards={text}: expected indices of cards such as 0,2-3"));
    let tasks: JobRef = format!("0_[{}]", text.trim()).parse().map_err(|_| wrong())?;
    let set = tasks.tasks.unwrap_or_default();
    if set.is_empty() || set.len() > MAX_RESERVED as u64 {
        return Err(wrong());
    }
    Ok(set.iter().collect())
}

#[derive(Serialize)]
struct Reservations<'a> {
    reservations: Vec<Reservation<'a>>,
}

#[derive(Serialize)]
struct Reservation<'a> {
    name: &'a str,
    start_time: Time,
    end_time: Time,
    takes: &'a [ReservedView],
    users: &'a [String],
    accounts: &'a [String],
    maintenance: bool,
    jobs: &'a [String],
}

impl<'a> Reservation<'a> {
    fn of(view: &'a ReservationView) -> Self {
        Self {
            name: &view.name,
            start_time: Time(view.start),
            end_time: Time(view.end),
            takes: &view.takes,
            users: &view.users,
            accounts: &view.accounts,
            maintenance: view.maintenance,
            jobs: &view.jobs,
        }
    }
}

#[derive(Clone, Copy)]
enum Of {
    Name,
    Start,
    End,
    State,
    Takes,
    For,
    Jobs,
}

/// Shows reservations; returns the exit code.
pub(super) fn reservations(words: &ArgMatches) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    let Reply::Reservations(views) = link.ask(Ask::Reservations)? else { return Err(link.astray()) };
    let mut out = Out::stdout()?;
    if words.get_flag("json") {
        let all = Reservations { reservations: views.iter().map(Reservation::of).collect() };
        json::write(&mut out, &all).map_err(|e| Trouble::of_output(&e))?;
        out.put("\n")?;
    } else {
        print(&views, &Clock::system(), &mut out)?;
    }
    out.flush()?;
    Ok(0)
}

fn print(views: &[ReservationView], clock: &Clock, out: &mut Out) -> Result<(), Trouble> {
    let mut columns = vec![
        Column::new(Of::Name, "NAME"),
        Column::new(Of::Start, "START"),
        Column::new(Of::End, "END"),
        Column::new(Of::State, "STATE"),
        Column::new(Of::Takes, "NODES"),
        Column::new(Of::For, "FOR"),
        Column::new(Of::Jobs, "JOBS"),
    ];
    for column in &mut columns {
        column.least = matches!(column.of, Of::Takes | Of::For).then_some(8);
    }
    let when = |at: Timestamp| clock.civil(at).unwrap_or_else(|| "N/A".to_owned());
    let cell = |of, view: &ReservationView, cell: &mut String| match of {
        Of::Name => cell.push_str(&view.name),
        Of::Start => cell.push_str(&when(view.start)),
        Of::End => cell.push_str(&when(view.end)),
        Of::State => cell.push_str(match () {
            () if clock.now >= view.end => "over",
            () if clock.now >= view.start => "open",
            () => "to come",
        }),
        Of::Takes => cell.push_str(&takes(&view.takes)),
        Of::For => cell.push_str(&whom(view)),
        Of::Jobs => cell.push_str(&view.jobs.join(",")),
    };
    Table::new(columns, true).print(views, out, cell, |_, _| None)
}

/// `ws[1-4]`, or `ws[1-2] gpus 0-1` where only cards are taken.
fn takes(takes: &[ReservedView]) -> String {
    let mut groups: Vec<(&Option<Vec<u32>>, Vec<&gq_model::NodeName>)> = Vec::new();
    for taken in takes {
        match groups.iter_mut().find(|(cards, _)| **cards == taken.cards) {
            Some((_, nodes)) => nodes.push(&taken.node),
            None => groups.push((&taken.cards, vec![&taken.node])),
        }
    }
    let text = groups.into_iter().map(|(cards, nodes)| {
        let nodes = compress_hosts(nodes);
        match cards {
            None => nodes,
            Some(cards) => {
                let cards: Vec<String> = cards.iter().map(ToString::to_string).collect();
                format!("{nodes} gpus {}", cards.join(","))
            }
        }
    });
    text.collect::<Vec<_>>().join("; ")
}

/// Who may use a reservation.
fn whom(view: &ReservationView) -> String {
    if view.maintenance {
        return "nobody (maintenance)".to_owned();
    }
    let accounts = view.accounts.iter().map(|account| format!("account {account}"));
    let all: Vec<String> = view.users.iter().cloned().chain(accounts).collect();
    if all.is_empty() { "admins".to_owned() } else { shown(&all.join(",")).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{NodeName, Uid};

    fn read(line: &str) -> Result<ReserveAsk, Trouble> {
        let clock = Clock { now: Timestamp::from_secs(1_000_000), zone: jiff::tz::TimeZone::UTC };
        let words = reserve_command().try_get_matches_from(line.split('|')).unwrap();
        asked(&words, &clock)
    }

    #[test]
    fn a_reservation_is_read_with_its_times_nodes_and_people() {
        let ask = read(
            "reserve|class|--start=now+1hour|--duration=2h|--nodes=ws[1-2]|--cards=0,2-3|--users=root,4711|--accounts=x, y",
        )
        .unwrap();
        let node = |name: &str| -> NodeName { name.parse().unwrap() };
        assert_eq!(ask.start, Timestamp::from_secs(1_003_600));
        assert_eq!(ask.end, Timestamp::from_secs(1_010_800));
        assert_eq!((ask.nodes, ask.cards), (vec![node("ws1"), node("ws2")], vec![0, 2, 3]));
        assert_eq!((ask.users, ask.accounts), (vec![Uid(0), Uid(4711)], vec!["x".into(), "y".into()]));
        assert!(!ask.maintenance && !ask.ignore_jobs && !ask.replace);
        let ask =
            read("reserve|fix|--start=1970-01-20|--end=1970-01-21|--nodes=ws1|--maintenance|--ignore-jobs")
                .unwrap();
        assert_eq!(ask.start, Timestamp::from_secs(19 * 86_400));
        assert_eq!(ask.end, Timestamp::from_secs(20 * 86_400));
        assert!(ask.maintenance && ask.ignore_jobs && ask.cards.is_empty());
    }

    #[test]
    fn wrong_words_are_told_with_their_option() {
        for (line, word) in [
            ("reserve|a b|--start=now|--duration=1h|--nodes=ws1|--maintenance", "no name"),
            ("reserve|a|--start=soon|--duration=1h|--nodes=ws1|--maintenance", "--start=soon"),
            ("reserve|a|--start=now|--duration=x|--nodes=ws1|--maintenance", "--duration=x"),
            ("reserve|a|--start=now|--duration=0|--nodes=ws1|--maintenance", "before it begins"),
            ("reserve|a|--start=now|--end=1970-01-01|--nodes=ws1|--maintenance", "before it begins"),
            ("reserve|a|--start=now|--duration=1h|--nodes=ws[1|--maintenance", "--nodes=ws[1"),
            ("reserve|a|--start=now|--duration=1h|--nodes=ws1|--cards=x|--maintenance", "--cards=x"),
            (
                "reserve|a|--start=now|--duration=1h|--nodes=ws1|--users=no-such-user-here",
                "no-such-user-here",
            ),
            ("reserve|a|--start=now|--duration=1h|--nodes=ws1", "nobody but admins"),
        ] {
            let trouble = read(line).unwrap_err();
            assert_eq!(trouble.code(), 2, "{line}");
            assert!(trouble.to_string().contains(word), "{line}: {trouble}");
        }
    }

    #[test]
    fn what_is_taken_and_for_whom_is_told_in_few_words() {
        let taken = |name: &str, cards| ReservedView { node: name.parse().unwrap(), cards };
        assert_eq!(takes(&[taken("ws1", None), taken("ws2", None)]), "ws[1-2]");
        assert_eq!(takes(&[taken("ws1", Some(vec![0, 1])), taken("ws3", None)]), "ws1 gpus 0,1; ws3");
        let mut view = ReservationView {
            name: "class".into(),
            start: Timestamp(0),
            end: Timestamp(1),
            takes: vec![],
            users: vec!["ann".into()],
            accounts: vec!["lab".into()],
            maintenance: false,
            jobs: vec![],
        };
        assert_eq!(whom(&view), "ann,account lab");
        view.maintenance = true;
        assert_eq!(whom(&view), "nobody (maintenance)");
    }
}
