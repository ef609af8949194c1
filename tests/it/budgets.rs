//! Budgets: card-hours of accounts and users, told when they are nearly and all used up, and what follows then; and what cards cost.

use crate::{
    lab::{Job, Lab, Owner, Plan, accounts, cards, finish, until},
    nodes::{is_root, kill_all_of},
};
use gq_model::{End, Reason};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt};

/// A site with one card, `tables` in its conf, and a notify program that writes down what it is told.
fn lab(tables: &str) -> Lab {
    let lab = Plan::new().node("n1", &cards(1)).tables(tables).ready();
    let program = lab.dir().join("notify");
    fs::write(&program, format!("#!/bin/sh\ncat >>{}\n", told(&lab).display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let hooks = format!("[hooks]\nnotify = [\"{}\"]\n", program.display());
    let conf = fs::read_to_string(lab.conf()).unwrap();
    fs::write(lab.conf(), format!("{conf}\n{hooks}")).unwrap();
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").start();
    lab.node_is_there("n1");
    lab
}

fn told(lab: &Lab) -> std::path::PathBuf {
    lab.dir().join("told")
}

/// What the notify program was told so far.
fn notices(lab: &Lab) -> Vec<Value> {
    let text = fs::read_to_string(told(lab)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Events of budgets among that.
fn of_budgets(lab: &Lab) -> Vec<String> {
    let all = notices(lab).into_iter().filter(|notice| notice["budget"].is_object());
    all.map(|notice| notice["event"].as_str().unwrap().to_owned()).collect()
}

fn until_event(lab: &Lab, what: &str, holds: impl Fn(&Value) -> bool) {
    until(what, || notices(lab).iter().any(&holds).then_some(()));
}

/// How a budget stands.
fn budget(lab: &Lab, name: &str) -> Value {
    let all: Value = serde_json::from_str(&lab.say("gqacct budgets --json").ok()).unwrap();
    let found = all["budgets"].as_array().unwrap().iter().find(|budget| budget["budget"] == name).cloned();
    found.unwrap_or_else(|| panic!("no budget {name}: {all}"))
}

fn used(lab: &Lab, name: &str) -> f64 {
    budget(lab, name)["used"].as_f64().unwrap()
}

/// A job on an account that holds the card until it finds a file.
fn holder<'a>(lab: &'a Lab, account: &str, file: &str) -> Job<'a> {
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", lab.work(file).display());
    lab.submit(&format!("--gpus=1 {account}"), &script).running()
}

#[test]
fn eighty_and_hundred_percent_are_told_once_also_over_a_restart() {
    let lab = lab("[[budget]]\nname = \"mine\"\nevery_user = true\ncard_hours = 0.0005\nperiod = \"year\"\n");
    let job = holder(&lab, "", "go");
    until_event(&lab, "all of it is used", |notice| notice["event"] == "budget_100");
    // Who is late looks when all of it is used, and tells of that alone.
    let events = of_budgets(&lab);
    assert!(
        ["budget_80", "budget_100"].ends_with(&events.iter().map(String::as_str).collect::<Vec<_>>()),
        "{events:?}"
    );
    let notice = notices(&lab).into_iter().find(|notice| notice["event"] == "budget_100").unwrap();
    assert_eq!(
        (&notice["budget"]["name"], &notice["budget"]["card_hours"]),
        (&"mine".into(), &0.0005.into())
    );
    assert!(notice["budget"]["used"].as_f64().unwrap() >= 0.0005, "{notice}");
    let said = lab.say("gqstat");
    assert!(
        said.err.contains("budget mine of user") && said.err.contains("0.0005 card-hours until"),
        "{said:?}"
    );
    assert!(lab.say("gqstat -h").ok().lines().count() == 1, "it is no line of the table");
    assert!(lab.gqd.said().contains("budget mine of user"), "the log has it");

    lab.gqd.kill9();
    lab.gqd.start();
    lab.node_is_there("n1");
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed, "what runs goes on");
    let last = lab.submit("--gpus=1", "true");
    assert_eq!(last.ended(), End::Completed, "it is told, and nothing else");
    until_event(&lab, "the end of the last", |notice| {
        notice["event"] == "end" && notice["job"]["id"] == last.id
    });
    assert_eq!(of_budgets(&lab), events, "nothing is told again");
    assert!(used(&lab, "mine") >= 0.0005);
    let table = lab.say("gqacct budgets").ok();
    assert!(table.contains("mine") && table.contains("-01-01") && table.contains("report"), "{table}");
    assert!(
        lab.say("gqacct budgets --csv").ok().starts_with("budget,account,user,period,from,until,card_hours,")
    );
}

const TWO_ACCOUNTS: &str = "[[account]]\nname = \"top\"\n[[account]]\nname = \"a\"\nparent = \"top\"\nusers = [\"ME\"]\n\
    [[account]]\nname = \"b\"\nusers = [\"ME\"]\n";

fn two_accounts(budget: &str) -> String {
    let me = nix::unistd::getuid().to_string();
    format!("{}{budget}", TWO_ACCOUNTS.replace("ME", &me))
}

#[test]
fn a_budget_that_is_used_up_has_the_jobs_of_its_account_stand_behind_all_others() {
    let lab = lab(&two_accounts(
        "[[budget]]\nname = \"tops\"\naccount = \"top\"\ncard_hours = 0.0002\nwhen_used_up = \"low_priority\"\n",
    ));
    let job = holder(&lab, "-A a", "go");
    let first = lab.submit("--gpus=1 -A a", "true");
    until_event(&lab, "all of it is used", |notice| notice["event"] == "budget_100");
    // Of an account below the one whose budget it is; the other came later.
    let other = holder_later(&lab, "-A b", "gone");
    let why = lab.say(&format!("gqstat --why {}", first.id)).ok();
    assert!(why.contains("card-hours of budget tops are used") && why.contains("behind all others"), "{why}");
    let places: Value = serde_json::from_str(&lab.say("gqctl priority --json").ok()).unwrap();
    let ids: Vec<u64> =
        places["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [other.id, first.id]);
    assert!(places["jobs"][1]["budget"].as_i64().unwrap() < 0, "{places}");
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed);
    let other = other.running();
    assert_eq!(first.reason(), Reason::Resources, "it is the next");
    lab.file("gone", "");
    assert_eq!((other.ended(), first.ended()), (End::Completed, End::Completed), "nobody else wants it");
}

/// The same as [`holder`], of a job that waits first.
fn holder_later<'a>(lab: &'a Lab, account: &str, file: &str) -> Job<'a> {
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", lab.work(file).display());
    lab.submit(&format!("--gpus=1 {account}"), &script)
}

#[test]
fn a_budget_that_is_used_up_lets_nothing_in_and_what_waits_waits_for_more() {
    let tables = two_accounts(
        "[[budget]]\nname = \"as\"\naccount = \"a\"\ncard_hours = 0.0002\nperiod = \"year\"\nwhen_used_up = \"refuse\"\n",
    );
    let lab = lab(&tables);
    let job = holder(&lab, "-A a", "go");
    let waits = lab.submit("--gpus=1 -A a", "true");
    until_event(&lab, "all of it is used", |notice| notice["event"] == "budget_100");
    let refused = lab.say("gqsub --gpus=1 -A a --wrap true").refused(1);
    for words in [
        "budget as of account a is used up",
        "of 0.0002 card-hours of this year",
        "it begins anew in",
        "gqacct budgets",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    assert!(lab.say("gqsub --test-only --gpus=1 -A a --wrap true").refused(1).contains("is used up"));
    assert_eq!(
        lab.submit("-A a", "true").ended(),
        End::Completed,
        "who asks for no cards is none of its business"
    );
    waits.when("it waits for more", |view| view["reason"] == Reason::Budget.word());
    let why = lab.say(&format!("gqstat --why {}", waits.id)).ok();
    assert!(why.contains("card-hours of budget as are used"), "{why}");
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed, "what runs goes on");
    let other = lab.submit("--gpus=1 -A b", "true");
    assert_eq!(other.ended(), End::Completed, "others are let in");
    assert_eq!(waits.reason(), Reason::Budget, "though there is room");
    let more = fs::read_to_string(lab.conf()).unwrap().replace("card_hours = 0.0002", "card_hours = 1");
    fs::write(lab.conf(), more).unwrap();
    lab.ctl("reload");
    assert_eq!(waits.ended(), End::Completed);
    assert_eq!(budget(&lab, "as")["percent"], 0);
}

#[test]
fn what_a_node_is_to_blame_for_costs_nothing_and_what_is_put_back_does() {
    if !is_root() {
        return;
    }
    let lab = lab("[[budget]]\nname = \"mine\"\nevery_user = true\ncard_hours = 10\nperiod = \"year\"\n\
         [[price]]\nmodel = \"A100\"\ncard_hour = 1000\ncurrency = \"EUR\"\n");
    let failed = holder(&lab, "", "never");
    until("it counts while it runs", || (used(&lab, "mine") > 0.0).then_some(()));
    kill_all_of(&lab, "n1");
    lab.node("n1").start_in_boot("0123456789abcdef0123456789abcdef");
    assert_eq!(failed.ended(), End::NodeFail);
    assert_eq!(used(&lab, "mine"), 0.0, "what it counted is given back");

    let again = lab.submit(
        "--gpus=1",
        &format!("[ $GQ_RUN = 2 ] || {{ touch {}; sleep 600; }}", lab.work("ran").display()),
    );
    let again = again.running();
    until("it counts", || (used(&lab, "mine") > 0.0).then_some(()));
    lab.ctl(&format!("requeue {}", again.id));
    assert_eq!(again.ended(), End::Completed);
    let sums: Value = serde_json::from_str(&lab.say("gqacct usage --by=state --json").ok()).unwrap();
    let (mut hours, mut cost) = (0.0, 0.0);
    for sum in sums["usage"].as_array().unwrap() {
        assert_eq!(sum["currency"], "EUR");
        match sum["state"].as_str() {
            Some("NODE_FAIL") => assert_eq!(sum["cost"], 0.0, "{sum}"),
            _ => {
                hours += sum["card_hours"].as_f64().unwrap();
                cost += sum["cost"].as_f64().unwrap();
            }
        }
    }
    // Sums tell whole thousandths of a card times seconds, costs millionths.
    assert!((cost - hours * 1000.0).abs() < 0.01, "{sums}");
    assert!((used(&lab, "mine") - hours).abs() < 1e-6, "{sums}");
    let table = lab.say("gqacct usage").ok();
    assert!(table.contains("COST") && table.contains(" EUR"), "{table}");
    assert!(lab.say("gqacct report").ok().contains("COST"));
}

#[test]
fn who_sees_no_use_of_others_sees_no_budgets_of_theirs() {
    let Some([gq, ann, ben]) = accounts(["daemon", "nobody", "games"]) else { return };
    let tables = format!(
        "[[account]]\nname = \"lab\"\nusers = [\"{}\"]\n[[budget]]\nname = \"each\"\nevery_user = true\ncard_hours = 2\n\
         [[budget]]\nname = \"labs\"\naccount = \"lab\"\ncard_hours = 3\n[[budget]]\nname = \"anns\"\nuser = \"{}\"\ncard_hours = 4\n",
        ann.name, ann.name
    );
    let plan = Plan::new().node("n1", &cards(2)).tables(&tables).cluster("private_data = [\"usage\"]");
    let lab = plan.installed_for(&gq.name).start();
    for user in [&ann, &ben] {
        let id = finish(lab.client_of(user, "gqsub").args(["--parsable", "--gpus=1", "--wrap", "true"])).ok();
        assert_eq!(lab.job(&id).ended(), End::Completed);
    }
    let seen = |user: &Owner| -> Vec<(String, Option<String>)> {
        let said = finish(lab.client_of(user, "gqacct").args(["budgets", "--json"])).ok();
        let all: Value = serde_json::from_str(&said).unwrap();
        let name = |value: &Value| value.as_str().map(str::to_owned);
        let all = all["budgets"].as_array().unwrap().iter();
        all.map(|budget| (name(&budget["budget"]).unwrap(), name(&budget["user"]))).collect()
    };
    let named = |budget: &str, user: Option<&Owner>| (budget.to_owned(), user.map(|user| user.name.clone()));
    assert_eq!(seen(&ben), [named("each", Some(&ben))]);
    assert_eq!(seen(&ann), [named("each", Some(&ann)), named("labs", None), named("anns", Some(&ann))]);
    let all: Value = serde_json::from_str(&lab.say("gqacct budgets --json").ok()).unwrap();
    // Root has one of his own, as everybody.
    assert_eq!(all["budgets"].as_array().unwrap().len(), 5, "{all}");
}
