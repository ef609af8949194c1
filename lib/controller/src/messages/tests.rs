//! Tests of messages and notices: what is told of a turn, to whom, and that nothing users type makes more of it.

use super::{
    News,
    letter::Origin,
    note::{Happened, Note, Subject, Tasks, What},
    notice,
    scribe::{Scribe, Told},
};
use gq_cluster::{Cluster, Event, NewJob, Policy};
use gq_engine::Step;
use gq_model::{CardTime, Epoch, JobId, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

const NOW: i64 = 1_800_000_000_000_000;

fn new_job(id: u64, mail: &[&str], more: Value) -> Value {
    let mut spec = json!({"name": "train", "work_dir": "/home/ann", "umask": 18, "mail": {"on": mail}});
    spec.as_object_mut().unwrap().extend(more["spec"].as_object().cloned().unwrap_or_default());
    let tasks: Value = more.get("tasks").cloned().unwrap_or(json!([[0, 0]]));
    json!({"id": id, "uid": 7, "user": "ann", "token": "07070707070707070707070707070707", "spec": spec,
        "job_file": "jobs/00/1.job", "sha256": "00", "at": NOW, "priority": 0, "array": more.get("tasks").is_some(), "tasks": tasks,
        "payer": {"uid": 7, "partition": "main", "account": "lab"},
        "shape": {"partition": "main", "demand": {"cpus": 1, "memory": {"Amount": 64}, "cards": {"count": 1}}, "time_limit": 3600}})
}

/// A note about a job of its number.
pub(crate) fn note_of(number: u64) -> Arc<Note> {
    static SUBJECT: std::sync::LazyLock<Subject> = std::sync::LazyLock::new(|| subject(json!({})));
    let what = What::Job(Happened::Begin, Box::new(SUBJECT.clone()));
    Arc::new(Note { number, at: Timestamp(NOW), what, mail: true, notify: true })
}

fn subject(spec: Value) -> Subject {
    let new: NewJob = serde_json::from_value(new_job(17, &["End"], json!({"spec": spec}))).unwrap();
    Subject::of_new(&new)
}

/// A cluster, and a turn in the making.
struct World {
    cluster: Cluster,
    scribe: Scribe,
    steps: Vec<Step>,
    notify: bool,
}

impl World {
    fn new() -> Self {
        let mut world =
            Self { cluster: Cluster::default(), scribe: Scribe::default(), steps: Vec::new(), notify: false };
        world.happens(
            json!({"NodeFound": {"node": "n1", "boot": "01010101010101010101010101010101", "cpus": 64,
            "memory": 65536, "features": [], "cards": []}}),
        );
        world.happens(json!({"NodeSeen": {"node": "n1", "link": "Up"}}));
        world
    }

    fn happens(&mut self, event: Value) {
        let event: Event = serde_json::from_value(event.clone()).unwrap_or_else(|e| panic!("{event}: {e}"));
        let ends = matches!(event, Event::RunEnded { .. } | Event::TasksEnded { .. });
        let before = event.job().filter(|_| ends).and_then(|id| self.cluster.job(id)).cloned();
        self.cluster.apply(&event).unwrap();
        self.steps.push(Step { event, before });
    }

    fn submit(&mut self, id: u64, mail: &[&str], more: Value) {
        self.happens(json!({"Submitted": new_job(id, mail, more)}));
    }

    fn start(&mut self, job: u64, task: u32, run: u32) {
        let key = json!({"job": job, "task": task, "run": run});
        self.happens(
            json!({"Allocated": {"key": key, "node": "n1", "boot": "01010101010101010101010101010101",
            "cpus": 1, "memory": 64, "cards": [{"index": 3, "uuid": "GPU-1"}], "at": NOW + 1_000_000}}),
        );
        let at = NOW + 5_000_000;
        self.happens(json!({"Started": {"key": key, "at": at, "counted": at}}));
    }

    fn end(&mut self, job: u64, (task, run): (u32, u32), end: &str, next: Value) {
        let code = u8::from(end != "COMPLETED");
        let card = json!({"index": 3, "looks": 10, "held": 900, "mean": 345, "memory": 9216});
        let used = json!({"cpu": 3_725_000_000_u64, "memory": 12_288, "cards": [card]});
        let outcome = json!({"end": end, "reason": "NonZeroExitCode", "exit_code": code, "used": used});
        self.happens(json!({"RunEnded": {"key": {"job": job, "task": task, "run": run}, "outcome": outcome,
            "started": NOW + 5_000_000, "at": NOW + 3_728_000_000i64, "next": next}}));
    }

    fn turn(&mut self) -> Told {
        let steps = std::mem::take(&mut self.steps);
        self.scribe.read(&self.cluster, &steps, Timestamp(NOW), self.notify)
    }

    /// What of a turn is told by mail: what happened, and to which tasks.
    fn mailed(&mut self) -> Vec<(Happened, String)> {
        let told = self.turn().notes.into_iter().filter(|note| note.mail);
        told.filter_map(|note| match note.what {
            What::Job(happened, subject) => Some((happened, subject.name())),
            What::LeftOut(_) | What::Node(..) | What::Budget(_) => None,
        })
        .collect()
    }
}

fn again() -> Value {
    json!({"Again": {"not_before": null, "site_fault": false, "held": null}})
}

fn mails(expected: &[(Happened, &str)]) -> Vec<(Happened, String)> {
    expected.iter().map(|(happened, name)| (*happened, (*name).to_owned())).collect()
}

#[test]
fn a_job_begins_once_waits_again_and_ends_and_its_user_hears_what_he_wants() {
    use Happened::{Begin, End, Requeue};
    let mut world = World::new();
    let all = ["Begin", "End", "Fail", "Requeue"];
    world.submit(1, &all, json!({}));
    world.submit(2, &["Fail"], json!({}));
    world.submit(3, &[], json!({}));
    assert_eq!(world.mailed(), []);
    (1..=3).for_each(|job| world.start(job, 0, 1));
    assert_eq!(world.mailed(), mails(&[(Begin, "1")]));
    world.end(1, (0, 1), "NODE_FAIL", again());
    world.end(2, (0, 1), "COMPLETED", json!("Over"));
    world.end(3, (0, 1), "FAILED", json!("Over"));
    assert_eq!(world.mailed(), mails(&[(Requeue, "1")]));
    world.start(1, 0, 2);
    assert_eq!(world.mailed(), [], "it has begun before");
    world.end(1, (0, 2), "FAILED", json!("Over"));
    assert_eq!(world.mailed(), mails(&[(End, "1")]), "one message, whichever words ask for it");
    // All of it in one turn.
    world.submit(4, &all, json!({}));
    world.start(4, 0, 1);
    world.end(4, (0, 1), "FAILED", json!("Over"));
    world.submit(5, &["Fail"], json!({}));
    let outcome = json!({"end": "CANCELLED", "reason": "Cancelled"});
    world.happens(json!({"TasksEnded": {"job": 5, "tasks": [[0, 0]], "outcome": outcome, "at": NOW}}));
    assert_eq!(world.mailed(), mails(&[(Begin, "4"), (End, "4"), (End, "5")]));
}

#[test]
fn an_array_is_told_of_as_a_whole_or_task_by_task() {
    use Happened::{End, Requeue};
    let mut world = World::new();
    let (words, each) =
        (["Begin", "End", "Requeue", "Half"], ["Begin", "End", "Requeue", "Half", "EachTask"]);
    world.submit(1, &words, json!({"tasks": [[0, 3]]}));
    world.submit(2, &each, json!({"tasks": [[0, 3]]}));
    for job in [1, 2] {
        world.start(job, 0, 1);
        world.start(job, 1, 1);
    }
    let told = world.turn();
    assert_eq!(
        told.watch.iter().map(|key| (key.job, key.task.0)).collect::<Vec<_>>(),
        [(JobId(2), 0), (JobId(2), 1)]
    );
    let names = |told: &Told| told.notes.iter().filter(|n| n.mail).map(|n| name(&n.what)).collect::<Vec<_>>();
    assert_eq!(names(&told), ["1", "2_0", "2_1"]);
    for job in [1, 2] {
        world.end(job, (0, 1), "COMPLETED", json!("Over"));
        world.end(job, (1, 1), "FAILED", again());
    }
    assert_eq!(world.mailed(), mails(&[(End, "2_0"), (Requeue, "2_1")]));
    for job in [1, 2] {
        world.start(job, 1, 2);
        world.end(job, (1, 2), "FAILED", json!("Over"));
        let outcome = json!({"end": "CANCELLED", "reason": "Cancelled"});
        world.happens(json!({"TasksEnded": {"job": job, "tasks": [[2, 3]], "outcome": outcome, "at": NOW}}));
    }
    world.notify = true;
    let told = world.turn();
    assert_eq!(names(&told), ["1", "2_1", "2_[2-3]"]);
    let whole = told.notes.iter().find(|note| note.mail).unwrap();
    let What::Job(_, subject) = &whole.what else { panic!() };
    assert_eq!(
        subject.tally,
        [(gq_model::End::Completed, 1), (gq_model::End::Failed, 1), (gq_model::End::Cancelled, 2)]
    );
    assert!(matches!(&whole.what, What::Job(End, _)));
    let text = String::from_utf8(origin().message(whole, 0).unwrap()).unwrap();
    assert!(text.contains("all tasks have ended, 1 COMPLETED, 1 FAILED, 2 CANCELLED"), "{text}");
    // The program that is told of everything hears of each task and of the whole.
    let lines = told.notes.iter().filter_map(|note| notice::line(note, "lab", Epoch(4)));
    let ends: Vec<Value> = lines.map(|line| serde_json::from_slice(&line).unwrap()).collect();
    let of_first: Vec<&Value> = ends.iter().filter(|n| n["event"] == "end" && n["job"]["id"] == 1).collect();
    assert_eq!(of_first.len(), 3);
    assert_eq!(of_first[0]["job"]["array_task_id"], 1);
    assert_eq!(of_first[1]["job"]["array_tasks"], "2-3");
    assert_eq!(of_first[2]["job"]["tally"], json!({"COMPLETED": 1, "FAILED": 1, "CANCELLED": 2}));
    assert!(world.scribe.begun.is_empty(), "nothing is kept of jobs that are gone");
}

fn name(what: &What) -> String {
    match what {
        What::Job(_, subject) | What::LeftOut(subject) => subject.name(),
        What::Node(node, _) => node.to_string(),
        What::Budget(news) => news.budget.clone(),
    }
}

#[test]
fn after_a_restart_what_has_begun_is_not_told_again() {
    let mut world = World::new();
    world.submit(1, &["Begin", "Ninety"], json!({}));
    world.submit(2, &["Begin"], json!({"tasks": [[0, 3]]}));
    world.submit(3, &["Begin"], json!({}));
    world.start(1, 0, 1);
    world.start(2, 0, 1);
    world.turn();
    let (scribe, watch) = Scribe::begin(&world.cluster);
    world.scribe = scribe;
    assert_eq!(watch.iter().map(|key| key.job).collect::<Vec<_>>(), [JobId(1)]);
    world.end(1, (0, 1), "NODE_FAIL", again());
    world.start(1, 0, 2);
    world.start(2, 1, 1);
    world.start(3, 0, 1);
    assert_eq!(world.mailed(), mails(&[(Happened::Begin, "3")]));
}

#[test]
fn nodes_are_told_of_to_the_program_alone() {
    let mut world = World::new();
    world.turn();
    let node = json!({"node": "n1", "reason": "fan \"x\""});
    world.happens(json!({"NodeDrained": node}));
    assert!(world.turn().notes.is_empty());
    world.notify = true;
    world.happens(json!({"NodeResumed": {"node": "n1"}}));
    world.happens(json!({"NodeDrained": node}));
    world.happens(json!({"NodeSeen": {"node": "n1", "link": {"Suspect": {"since": NOW}}}}));
    world.happens(json!({"NodeSeen": {"node": "n1", "link": {"Lost": {"since": NOW}}}}));
    let notes = world.turn().notes;
    let line =
        |note: &Note| serde_json::from_slice::<Value>(&notice::line(note, "lab", Epoch(4)).unwrap()).unwrap();
    let events: Vec<Value> = notes.iter().map(|note| line(note)["event"].clone()).collect();
    assert_eq!(events, ["node_resumed", "node_drained", "node_lost"]);
    assert_eq!(line(&notes[1])["node"], json!({"name": "n1", "reason": "fan \"x\""}));
    assert!(notes.iter().all(|note| !note.mail));
    assert_eq!(line(&notes[1])["id"], "4-2");
}

fn origin() -> Origin {
    Origin {
        cluster: "lab".into(),
        from: "gq".into(),
        domain: Some("example.org".into()),
        host: "example.org".into(),
    }
}

#[test]
fn a_message_says_what_people_want_to_know() {
    let mut world = World::new();
    world.submit(17, &["End"], json!({"spec": {"stdout": "out/%j.txt"}}));
    world.start(17, 0, 1);
    world.end(17, (0, 1), "FAILED", json!("Over"));
    let told = world.turn();
    let text = String::from_utf8(origin().message(&told.notes[0], 3).unwrap()).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    for line in [
        "From: \"gq lab\" <gq@example.org>",
        "To: ann@example.org",
        "Subject: gq job 17 (train) of lab: FAILED, ran 1:02:03, exit code 1",
        "Message-ID: <1800003728000000.1@example.org>",
        "Auto-Submitted: auto-generated",
    ] {
        assert!(head.lines().any(|l| l == line), "{line}\n{head}");
    }
    assert!(head.lines().any(|line| line.starts_with("Date: ") && line.contains(" Jan 2027 ")), "{head}");
    for (name, value) in [
        ("Job:", "17"),
        ("State:", "FAILED"),
        ("Reason:", "NonZeroExitCode"),
        ("Exit:", "exit code 1"),
        ("Node:", "n1"),
        ("Cards:", "3 (GPU-1)"),
        ("Ran:", "1:02:03"),
        ("Cpu time used:", "1:02:05"),
        ("Memory used:", "12G at most"),
        ("Cards used:", "34.5 % busy, 9G of one at most"),
        ("Time limit:", "1:00:00"),
        ("Output:", "/home/ann/out/17.txt"),
        ("Account:", "lab"),
    ] {
        assert!(body.lines().any(|l| l == format!("{name:<18}{value}")), "{name} {value}\n{body}");
    }
    assert!(body.ends_with("\n3 messages about your jobs before this one were left out: too many came at a time.\ngqstat tells of all jobs.\n"));
}

#[test]
fn each_thing_that_happens_has_its_words() {
    let mut subject = subject(json!({}));
    (subject.tasks, subject.array) = (Tasks::All, false);
    let mut said = |happened: Happened| {
        let what = What::Job(happened, Box::new(subject.clone()));
        subject.started = Some(Timestamp(NOW + 65_000_000));
        let note = Note { number: 1, at: Timestamp(NOW), what, mail: true, notify: true };
        let text = String::from_utf8(origin().message(&note, 0).unwrap()).unwrap();
        text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned)).unwrap()
    };
    assert_eq!(said(Happened::Submitted), "gq job 17 (train) of lab: was accepted");
    assert_eq!(said(Happened::Begin), "gq job 17 (train) of lab: started after 1:05");
    assert_eq!(said(Happened::TimeLimit(80)), "gq job 17 (train) of lab: 80 % of its time limit are over");
    assert_eq!(said(Happened::Waited), "gq job 17 (train) of lab: still waits");
}

#[test]
fn whatever_a_job_is_called_the_head_has_its_lines_and_no_other() {
    let (long, spaced, blank) = ("x".repeat(1000), "ab cd ".repeat(90), " ".repeat(300));
    let names = [
        "a\r\nBcc: eve@example.org\r\n\r\nbody",
        "a\nTo: eve",
        "Größe ✓ 日本語 \u{1f600}",
        "=?UTF-8?B?AAAA?=",
        "\"quoted\" <x@y>, (z); \\",
        "-oQ/tmp",
        ".",
        "\u{202e}evil\u{2028}",
        "tab\there\0nul\u{7f}",
        long.as_str(),
        spaced.as_str(),
        &blank,
        "",
    ];
    for name in names {
        let subject = subject(json!({"name": name, "work_dir": format!("/{name}")}));
        let what = What::Job(Happened::Submitted, Box::new(subject));
        let note = Note { number: 9, at: Timestamp(NOW), what, mail: true, notify: true };
        let text = String::from_utf8(origin().message(&note, 0).unwrap()).unwrap();
        let (head, body) = text.split_once("\n\n").unwrap();
        assert!(
            head.is_ascii() && !head.contains('\r') && head.lines().all(|line| line.len() <= 78),
            "{head}"
        );
        let fields: Vec<&str> =
            head.lines().filter(|l| !l.starts_with(' ')).map(|l| l.split_once(':').unwrap().0).collect();
        let expected = [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert_eq!(fields, expected, "{name:?}");
        assert_eq!(
            body.lines().filter(|line| line.starts_with("Name:")).count(),
            usize::from(!name.is_empty())
        );
        assert!(body.lines().all(|line| line.chars().count() <= 850) && !body.contains('\r'), "{name:?}");
        assert!(!body.lines().any(|line| line == "."), "no end before the end");
        let subject = unfold(head);
        if !name.contains(|c: char| c.is_control() || c == '\u{202e}') && name.len() < 800 {
            assert_eq!(subject, format!("gq job 17 ({name}) of lab: was accepted"));
        }
    }
}

/// The subject as a mail program shows it.
fn unfold(head: &str) -> String {
    let (_, rest) = head.split_once("\nSubject: ").unwrap();
    let (subject, _) = rest.split_once("\nDate: ").unwrap();
    let Some(_) = subject.strip_prefix("=?UTF-8?B?") else { return subject.replace('\n', "") };
    let mut bytes = Vec::new();
    for word in subject.split("\n ") {
        assert!(word.len() <= 75, "{word}");
        let text = word.strip_prefix("=?UTF-8?B?").unwrap().strip_suffix("?=").unwrap();
        let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits: String =
            text.chars().filter_map(|c| digits.find(c)).map(|value| format!("{value:06b}")).collect();
        let whole =
            bits.as_bytes().chunks_exact(8).map(|b| u8::from_str_radix(std::str::from_utf8(b).unwrap(), 2));
        let word: Vec<u8> = whole.map(Result::unwrap).collect();
        assert!(std::str::from_utf8(&word).is_ok(), "a word holds whole letters");
        bytes.extend(word);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn messages_go_to_whom_the_job_names_or_to_its_user() {
    let to = |mail: Value| {
        let what = What::Job(Happened::Submitted, Box::new(subject(json!({"mail": mail}))));
        let note = Note { number: 9, at: Timestamp(NOW), what, mail: true, notify: true };
        let text = origin().message(&note, 0).map(|text| String::from_utf8(text).unwrap())?;
        Ok::<_, String>(text.lines().find_map(|line| line.strip_prefix("To: ").map(str::to_owned)).unwrap())
    };
    assert_eq!(to(json!({"on": ["End"]})).unwrap(), "ann@example.org");
    assert_eq!(to(json!({"on": ["End"], "to": "ben,c@d.e"})).unwrap(), "ben@example.org, c@d.e");
    assert!(to(json!({"on": ["End"], "to": "ben\nBcc: x@y"})).is_err());
}

#[test]
fn those_whom_a_budget_concerns_are_told_of_it_and_the_notify_program_once() {
    let mut policy = Policy::plain("lab");
    policy.budgets.push(gq_cluster::Budget {
        name: "vision".into(),
        whose: gq_cluster::Whose::Account("lab".into()),
        most: CardTime::HOUR,
        period: gq_model::Period::Day,
        then: gq_cluster::UsedUp::Refuse,
        tell: vec!["ann".into(), "ben".into()],
    });
    let until = policy.calendar.span(gq_model::Period::Day, Timestamp(NOW)).until;
    let event = Event::BudgetReached {
        purse: gq_cluster::Purse { budget: "vision".into(), uid: None },
        percent: 100,
        spent: gq_cluster::Spent::default(),
        used: CardTime(CardTime::HOUR.0 / 4 * 5),
        until,
    };
    let news = News::of(&policy, &Cluster::default(), &[], &event).unwrap();
    let notes = Scribe::default().budget(Timestamp(NOW), news, true);
    let how: Vec<(bool, bool)> = notes.iter().map(|note| (note.mail, note.notify)).collect();
    assert_eq!(how, [(false, true), (true, false), (true, false)]);
    let line: Value = serde_json::from_slice(&notice::line(&notes[0], "lab", Epoch(4)).unwrap()).unwrap();
    assert_eq!((&line["event"], &line["budget"]["account"]), (&json!("budget_100"), &json!("lab")));
    assert_eq!((&line["budget"]["used"], &line["budget"]["card_hours"]), (&json!(1.25), &json!(1.0)));
    let text = String::from_utf8(origin().message(&notes[1], 0).unwrap()).unwrap();
    for line in [
        "To: ann@example.org",
        "Subject: gq of lab: 100 % of budget vision are used",
        "budget vision of account lab: 100 % are used: 1.25 of 1 card-hours of this day.",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}
