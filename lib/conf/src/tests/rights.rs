//! Tests of weights, bounds, access, QOS, accounts and licences as they are read and refused.

use super::{bad, good, of_repository};
use crate::{Access, Backfill, Licence, Limits, Preempt, Private, Weights, known_keys};
use gq_model::Seconds;

const ALL: &str = r#"
[scheduler]
backfill = "fcfs"
priority_age = 10
priority_age_max = "1d"
priority_fair_share = 1000
priority_size = -5
priority_partition = 2
priority_qos = 3
half_life = "14d"
cpu_charge = 0
preempt_exempt = "5m"

[[qos]]
name = "urgent"
priority = 100
tier = 3
preempt = "off"
grace = "10s"
max_time = "1h"
max_jobs_per_user = 2

[[qos]]
name = "spare"

[[account]]
name = "lab"
shares = 3
users = ["alice"]
coordinators = ["dora", "54321"]
max_cards = 8
card_minutes = 10000

[[account]]
name = "students"
parent = "lab"
users = ["bob", "alice"]

[[licence]]
name = "houdini"
count = 5

[[partition]]
name = "main"
backfill = "greedy"
recut = true
gpu_mem_slices = false
gpu_mem_cards = false
gpu_share = true
allow_users = ["alice", "bob"]
allow_groups = ["staff"]
allow_accounts = ["lab"]
deny_users = ["eve"]
deny_groups = ["guests"]
deny_accounts = []
qos = "spare"
allow_qos = ["urgent", "spare"]
tier = 2
preempt = "Requeue"
grace = "30s"
max_jobs_per_user = 1
max_cards_per_user = 2
max_cpus_per_user = 3
max_submit_per_user = 4
max_jobs = 5
max_cards = 6
max_cpus = 7
max_submit = 8
max_cards_per_job = 9
max_cpus_per_job = 0
"#;

#[test]
fn everything_about_rights_is_read() {
    let conf = good(ALL);
    let scheduler = &conf.scheduler;
    let weights = Weights {
        priority_age: 10,
        priority_age_max: Seconds(86_400),
        priority_fair_share: 1000,
        priority_size: -5,
        priority_partition: 2,
        priority_qos: 3,
    };
    assert_eq!((scheduler.backfill, scheduler.weights), (Backfill::Fcfs, weights));
    assert_eq!(
        (scheduler.half_life, scheduler.cpu_charge, scheduler.preempt_exempt),
        (Seconds(1_209_600), 0, Seconds(300))
    );
    let main = conf.partition("main").unwrap();
    assert_eq!(main.backfill, Some(Backfill::Depth(0)));
    assert_eq!(
        (main.recut, main.gpu_mem_slices, main.gpu_mem_cards, main.gpu_share),
        (true, false, false, true)
    );
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let access = Access {
        allow_users: list(&["alice", "bob"]),
        allow_groups: list(&["staff"]),
        allow_accounts: list(&["lab"]),
        deny_users: list(&["eve"]),
        deny_groups: list(&["guests"]),
        deny_accounts: Vec::new(),
    };
    assert_eq!(main.access, access);
    assert!(!access.is_open() && Access::default().is_open());
    assert_eq!((main.qos.as_deref(), &main.allow_qos), (Some("spare"), &list(&["urgent", "spare"])));
    assert_eq!((main.tier, main.preempt, main.grace), (2, Preempt::Requeue, Seconds(30)));
    let limits = Limits {
        max_jobs_per_user: Some(1),
        max_cards_per_user: Some(2),
        max_cpus_per_user: Some(3),
        max_submit_per_user: Some(4),
        max_jobs: Some(5),
        max_cards: Some(6),
        max_cpus: Some(7),
        max_submit: Some(8),
        max_cards_per_job: Some(9),
        max_cpus_per_job: Some(0),
    };
    assert_eq!(main.limits, limits);
    let urgent = conf.qos("urgent").unwrap();
    assert_eq!((urgent.priority, urgent.tier, urgent.preempt), (100, Some(3), Some(Preempt::Off)));
    assert_eq!((urgent.grace, urgent.max_time), (Some(Seconds(10)), Some(Seconds(3600))));
    assert_eq!(urgent.limits, Limits { max_jobs_per_user: Some(2), ..Limits::default() });
    let spare = conf.qos("spare").unwrap();
    assert_eq!((spare.tier, spare.preempt, spare.grace, spare.limits), (None, None, None, Limits::default()));
    let lab = conf.account("lab").unwrap();
    assert_eq!((lab.parent.as_deref(), lab.shares, lab.card_minutes), (None, 3, Some(10_000)));
    assert_eq!(lab.limits, Limits { max_cards: Some(8), ..Limits::default() });
    assert_eq!(lab.coordinators, ["dora", "54321"]);
    let students = conf.account("students").unwrap();
    assert_eq!((students.parent.as_deref(), students.shares, students.card_minutes), (Some("lab"), 1, None));
    let default = |user| conf.default_account(user).map(|account| account.name.as_str());
    assert_eq!((default("alice"), default("bob"), default("eve")), (Some("lab"), Some("students"), None));
    assert_eq!(conf.licences, [Licence { name: "houdini".to_string(), count: 5 }]);
    assert!(conf.licence("houdini").is_some() && conf.licence("maya").is_none());
}

#[test]
fn what_is_private_is_said_in_words_each_once() {
    let conf =
        good("[cluster]\noperators = [\"carol\"]\nprivate_data = [\"Usage\", \"jobs\", \"reservations\"]\n");
    assert_eq!(conf.cluster.operators, ["carol"]);
    assert_eq!(conf.cluster.private, [Private::Usage, Private::Jobs, Private::Reservations]);
    for (list, words) in
        [("[\"job\"]", "`job`"), ("[\"jobs\", \"jobs\"]", "already"), ("\"jobs\"", "a list of words")]
    {
        let found = bad(&format!("[cluster]\nprivate_data = {list}\n"));
        assert!(found.len() == 1 && found[0].2.contains(words), "{found:?}");
    }
}

#[test]
fn what_is_not_said_is_as_it_was() {
    let conf = good("");
    assert!(conf.cluster.operators.is_empty() && conf.cluster.private.is_empty());
    let scheduler = &conf.scheduler;
    assert_eq!((scheduler.backfill, scheduler.weights), (Backfill::Easy, Weights::default()));
    assert_eq!(
        (scheduler.half_life, scheduler.cpu_charge, scheduler.preempt_exempt),
        (Seconds(604_800), 10, Seconds(0))
    );
    assert!(conf.qos.is_empty() && conf.accounts.is_empty() && conf.licences.is_empty());
    let plain = good("[[partition]]\nname = \"main\"\n");
    assert_eq!(plain.partitions, conf.partitions);
}

#[test]
fn depths_have_words_and_numbers() {
    for (text, want) in [
        ("\"fcfs\"", Backfill::Fcfs),
        ("\"Greedy\"", Backfill::Depth(0)),
        ("\"easy\"", Backfill::Easy),
        ("\"conservative\"", Backfill::Conservative),
        ("0", Backfill::Depth(0)),
        ("1", Backfill::Depth(1)),
        ("1000000", Backfill::Depth(1_000_000)),
    ] {
        let conf = good(&format!(
            "[scheduler]\nbackfill = {text}\n[[partition]]\nname = \"p\"\nbackfill = {text}\n"
        ));
        assert_eq!((conf.scheduler.backfill, conf.partitions[0].backfill), (want, Some(want)), "{text}");
    }
}

#[test]
fn mistakes_of_rights_are_told_at_once_where_they_are() {
    let text = r#"[scheduler]
priority_age = "much"
half_life = "0s"
cpu_charge = -1
priority_siz = 3
[[qos]]
name = "high"
preempt = "kill"
tier = -1
[[qos]]
name = "high"
max_job = 3
[[qos]]
priority = 1
[[account]]
name = "lab"
parent = "uni"
shares = 0
[[account]]
name = "a"
parent = "b"
[[account]]
name = "b"
parent = "c"
[[account]]
name = "c"
parent = "b"
[[account]]
name = "lab"
users = ["alice", "alice"]
[[licence]]
name = "houdini"
[[license]]
name = "x"
[[partition]]
name = "p"
allow_users = []
allow_accounts = ["lab", "labs"]
grace = "2d"
max_jobs = -1
max_cards_per_jobs = 1
recut = 1
"#;
    let expected = [
        (2, 16, "expected a whole number from -1000000000 to 1000000000, found a text", ""),
        (3, 13, "expected a duration longer than 0", ""),
        (4, 14, "expected a whole number from 0 to 1000000, found -1", ""),
        (5, 1, "unknown key `priority_siz` in [scheduler]", "`priority_size`"),
        (8, 11, "expected one of \"off\", \"cancel\", \"requeue\", found `kill`", ""),
        (9, 8, "expected a whole number from 0 to 1000000, found -1", ""),
        (11, 8, "qos `high` is declared already, in line 7", ""),
        (12, 1, "unknown key `max_job` in [qos]", "`max_jobs`"),
        (13, 1, "this [[qos]] has no `name`", "name = \"normal\""),
        (17, 10, "account `uni` is not declared", "declare it with a [[account]]"),
        (18, 10, "expected a whole number from 1 to 1000000, found 0", ""),
        (24, 10, "account `b` is a part of itself: b in c in b", "leave `parent` out at the top"),
        (29, 8, "account `lab` is declared already, in line 16", ""),
        (30, 19, "`alice` stands in this list already", ""),
        (31, 1, "this [[licence]] has no `count`", "count = 1"),
        (33, 3, "unknown table `license`", "`licence`"),
        (37, 15, "this list lets nothing through", "leave it out to let everything through"),
        (38, 26, "account `labs` is not declared", "`lab`, or a [[account]] of this name"),
        (39, 9, "expected a day at most", ""),
        (40, 12, "expected a whole number from 0 to 4294967295, found -1", ""),
        (41, 1, "unknown key `max_cards_per_jobs` in [partition]", "`max_cards_per_job`"),
        (42, 9, "expected true or false without quotes, found a whole number", ""),
    ];
    let found = bad(text);
    for (at, (line, column, text, hint)) in expected.iter().enumerate() {
        let (l, c, t, h) = found.get(at).unwrap_or_else(|| panic!("{text} is not told"));
        assert!((l, c, h.as_str()) == (line, column, hint) && t.contains(text), "{:?}", (l, c, t, h));
    }
    assert_eq!(found.len(), expected.len(), "{:?}", &found[expected.len()..]);
}

#[test]
fn a_partition_names_qos_that_are_there() {
    let qos = "[[qos]]\nname = \"high\"\n[[qos]]\nname = \"low\"\n";
    let one = |lines: &str| bad(&format!("{qos}[[partition]]\nname = \"p\"\n{lines}\n"));
    let hint = "`high`, or a [[qos]] of this name".to_string();
    assert_eq!(one("qos = \"hihg\""), [(7, 7, "qos `hihg` is not declared".to_string(), hint)]);
    let hint = "declare it with a [[qos]]".to_string();
    assert_eq!(
        one("allow_qos = [\"high\", \"zzz\"]"),
        [(7, 22, "qos `zzz` is not declared".to_string(), hint)]
    );
    let text = "qos `low` is not in `allow_qos` of this partition".to_string();
    assert_eq!(one("qos = \"low\"\nallow_qos = [\"high\"]"), [(7, 7, text, String::new())]);
    // Without any, too; and not when a name that could not be read may be the one.
    assert_eq!(bad("[[partition]]\nname = \"p\"\nqos = \"high\"\n").len(), 1);
    assert_eq!(bad("[[qos]]\nname = 3\n[[partition]]\nname = \"p\"\nqos = \"high\"\n").len(), 1);
}

#[test]
fn the_tree_of_accounts_has_an_end() {
    let chain = |levels: usize| {
        let link = |at: usize| format!("[[account]]\nname = \"a{at}\"\nparent = \"a{}\"\n", at - 1);
        "[[account]]\nname = \"a0\"\n".to_string() + &(1..levels).map(link).collect::<String>()
    };
    good(&chain(32));
    let found = bad(&chain(33));
    assert_eq!((found.len(), found[0].2.as_str()), (1, "account `a32` is more than 32 levels deep"));
    let found = bad("[[account]]\nname = \"a\"\nparent = \"a\"\n");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].2.as_str()), (3, "account `a` is a part of itself: a in a"));
    let ring: String = (0..3000)
        .map(|at| format!("[[account]]\nname = \"a{at}\"\nparent = \"a{}\"\n", (at + 1) % 3000))
        .collect();
    assert_eq!(bad(&ring).len(), 201, "a ring that is longer than any tree may be deep is told as too deep");
}

#[test]
fn bounds_may_stand_in_partitions_qos_and_accounts_alike() {
    let bounds = |table: &str| {
        known_keys()
            .filter(|(t, name, _)| *t == table && name.starts_with("max_") && *name != "max_time")
            .count()
    };
    assert_eq!(["partition", "qos", "account"].map(bounds), [10; 3]);
    let page = of_repository("man/gq.conf.5");
    assert!(page.contains("thousandths"), "how slices count is told");
}

#[test]
fn no_part_of_it_makes_it_panic() {
    for end in 0..ALL.len() {
        let _ = crate::parse(&ALL[..end], std::path::Path::new("x"));
        let _ = crate::parse(&ALL[end..], std::path::Path::new("x"));
    }
}

#[test]
fn the_examples_show_all_of_it_in_their_optional_lines() {
    let all = |name: &str| {
        let text = of_repository(&format!("conf/{name}.conf"));
        let bare = |line: &str| {
            line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_string()
        };
        good(&text.lines().map(|line| bare(line) + "\n").collect::<String>())
    };
    let lab = all("lab-mig");
    assert_eq!((lab.qos.len(), lab.accounts.len()), (2, 3));
    assert!(lab.partition("slices").unwrap().recut);
    assert!(lab.qos("urgent").unwrap().tier > lab.qos("spare").unwrap().tier);
    for slice in lab.nodes.iter().flat_map(|node| &node.cards).flat_map(|card| &card.slices) {
        assert!(slice.placement.is_some(), "{}", slice.profile);
    }
    let farm = all("render-farm");
    assert_eq!(farm.licences.len(), 2);
    assert!(farm.partition("desk").unwrap().tier > farm.partition("night").unwrap().tier);
}
