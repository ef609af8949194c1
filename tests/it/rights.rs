//! Rights: who may do what to whose jobs, said raw by everybody and with the clients; and what of others is seen by whom. On installations
//! of root's, with an account for each part.

use crate::lab::{Job, Lab, Owner, Plan, accounts, as_user, ask, cards, finish, until};
use gq_model::{Change, End, JobId, JobRef, JobSpec, JobState, SignalTo, Timestamp, Token};
use gq_proto::{Ask, Head, ListAsk, PastAsk, ReserveAsk, Selection, UsageAsk, UsageBy};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, process::Stdio};

/// Who there is: whose the jobs are, whose they are not, who coordinates an account above theirs, who another one, an operator, an admin.
const PARTS: [&str; 6] = ["nobody", "games", "bin", "sys", "man", "lp"];

/// A cluster, and [`PARTS`]. `more`: lines of `[cluster]`.
fn installation(more: &str) -> Option<(Lab, [Owner; 6])> {
    let [gq] = accounts(["daemon"])?;
    let parts = accounts(PARTS)?;
    let [owner, other, coordinator, stranger, operator, admin] = &parts;
    let tables = format!(
        "[[account]]\nname = \"lab\"\ncoordinators = [\"{}\"]\n[[account]]\nname = \"optics\"\nparent = \"lab\"\nusers = [\"{}\"]\n\
         [[account]]\nname = \"other\"\nusers = [\"{}\"]\ncoordinators = [\"{}\"]\n",
        // A uid will do as well as a name.
        coordinator.uid,
        owner.name,
        other.name,
        stranger.name,
    );
    let roles = format!("operators = [\"{}\"]\nadmins = [\"{}\"]\n{more}", operator.name, admin.name);
    let lab =
        Plan::new().node("n1", &cards(1)).cluster(&roles).tables(&tables).installed_for(&gq.name).start();
    // Homes are made.
    parts.iter().for_each(|user| drop(lab.client_of(user, "gqstat")));
    Some((lab, parts))
}

/// What nobody else is ever told of a job, and what is.
const SECRETS: [&str; 3] = ["SCRIPT-SECRET", "ENV-SECRET", "ARGUMENT-SECRET"];

/// A job with secrets, and these options more.
fn submit<'a>(lab: &'a Lab, user: &Owner, options: &[&str], command: &str) -> Job<'a> {
    let script = lab.work(&user.name).join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n# {}\n{command}\n", SECRETS[0])).unwrap();
    let mut gqsub = lab.client_of(user, "gqsub");
    gqsub.env("PASSWORD", SECRETS[1]).arg("--parsable").args(options).arg(script).arg(SECRETS[2]);
    lab.job(&finish(&mut gqsub).ok())
}

/// A job that waits whatever is said to it.
fn waiting<'a>(lab: &'a Lab, user: &Owner) -> Job<'a> {
    submit(lab, user, &["--hold", "--begin=now+1days"], "true")
}

fn only(job: u64) -> Selection {
    Selection { jobs: vec![JobRef { job: JobId(job), tasks: None }], ..Selection::default() }
}

/// Whatever can be asked, of this job and of one that has ended; what ends `gqd` comes last.
fn asks(lab: &Lab, job: u64, ended: u64) -> Vec<Ask> {
    let (select, node) = (only(job), vec!["n1".parse().unwrap()]);
    let cluster = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    let spec: JobSpec =
        serde_json::from_value(json!({"name": "n", "work_dir": "/tmp", "umask": 18})).unwrap();
    let head = json!({"version": 1, "cluster": cluster.trim(), "node": "n1", "epoch": 99_999_999_999_u64,
        "boot": "00000000000000000000000000000003", "beat": 1, "lowest": 1, "highest": 0, "ack_epoch": 0, "ack": 0});
    let reserve =
        ReserveAsk { name: "r".into(), start: Timestamp(9), end: Timestamp(1), ..ReserveAsk::default() };
    let sums = UsageAsk {
        select: PastAsk { jobs: vec![JobId(ended)], ..PastAsk::default() },
        by: vec![UsageBy::Account, UsageBy::Name],
        periods: Vec::new(),
    };
    let cancel = |signal| Ask::Cancel { select: only(job), signal, to: SignalTo::All };
    vec![
        cancel(Some(10)),
        Ask::Hold { select: select.clone() },
        Ask::Release { select: select.clone() },
        Ask::Requeue { select: select.clone(), hold: false },
        Ask::Suspend { select: select.clone() },
        Ask::Continue { select: select.clone() },
        Ask::Update { select: select.clone(), changes: vec![Change::Nice(7)] },
        Ask::JobFile { job: JobId(job) },
        cancel(None),
        Ask::Ping,
        Ask::Submit { token: Token([77; 16]) },
        Ask::TestOnly { spec: Box::new(spec) },
        Ask::List(ListAsk { select, explain: true, ..ListAsk::default() }),
        Ask::Nodes,
        Ask::Partitions,
        Ask::Wait { job: JobId(ended), progress: true, hopeless: true },
        Ask::Drain { nodes: node.clone(), reason: "fan".into() },
        Ask::Resume { nodes: node.clone() },
        Ask::Fence { nodes: node.clone() },
        Ask::Forget { nodes: node },
        Ask::Reserve(reserve),
        Ask::Unreserve { name: "r".into() },
        Ask::Reservations,
        Ask::Priorities { select: only(job) },
        Ask::Shares,
        Ask::Budgets,
        Ask::Metrics,
        Ask::Past(PastAsk { jobs: vec![JobId(ended)], again: true, ..PastAsk::default() }),
        Ask::Usage(sums.clone()),
        Ask::Waits(sums),
        Ask::Node(serde_json::from_value::<Head>(head).unwrap()),
        Ask::Reload,
        Ask::Shutdown,
    ]
}

/// Who of [`PARTS`] may ask it; whoever adds something that can be asked says so here.
fn may(ask: &Ask) -> [bool; 6] {
    const T: bool = true;
    const F: bool = false;
    match ask {
        Ask::Ping
        | Ask::Submit { .. }
        | Ask::TestOnly { .. }
        | Ask::List(_)
        | Ask::Nodes
        | Ask::Partitions
        | Ask::Wait { .. }
        | Ask::Reservations
        | Ask::Priorities { .. }
        | Ask::Shares
        | Ask::Budgets
        | Ask::Metrics
        | Ask::Past(_)
        | Ask::Usage(_)
        | Ask::Waits(_) => [T; 6],
        Ask::Cancel { .. }
        | Ask::Hold { .. }
        | Ask::Release { .. }
        | Ask::Requeue { .. }
        | Ask::Suspend { .. }
        | Ask::Continue { .. }
        | Ask::Update { .. } => [T, F, T, F, T, T],
        Ask::JobFile { .. } => [T, F, F, F, F, T],
        Ask::Drain { .. } | Ask::Resume { .. } => [F, F, F, F, T, T],
        Ask::Fence { .. }
        | Ask::Forget { .. }
        | Ask::Reserve(_)
        | Ask::Unreserve { .. }
        | Ask::Reload
        | Ask::Shutdown => [F, F, F, F, F, T],
        Ask::Node(_) => [F; 6],
    }
}

/// What a client is told to ask it, where one can be.
fn line(ask: &Ask, job: u64) -> Option<String> {
    Some(match ask {
        Ask::Cancel { signal: Some(signal), .. } => format!("gqcancel -s {signal} {job}"),
        Ask::Cancel { signal: None, .. } => format!("gqcancel {job}"),
        Ask::Hold { .. } => format!("gqctl hold {job}"),
        Ask::Release { .. } => format!("gqctl release {job}"),
        Ask::Requeue { .. } => format!("gqctl requeue {job}"),
        Ask::Suspend { .. } => format!("gqctl suspend {job}"),
        Ask::Continue { .. } => format!("gqctl resume {job}"),
        Ask::Update { .. } => format!("gqctl update {job} --nice=7"),
        Ask::JobFile { .. } => format!("gqsub --rerun-failed={job}"),
        Ask::Drain { .. } => "gqctl drain n1 --reason fan".into(),
        Ask::Resume { .. } => "gqctl resume n1".into(),
        Ask::Fence { .. } => "gqctl node n1 fence".into(),
        Ask::Forget { .. } => "gqctl node n1 forget".into(),
        Ask::Reserve(_) => "gqctl reserve r --start=now --duration=1h --nodes=n1 --users=games".into(),
        Ask::Unreserve { .. } => "gqctl unreserve r".into(),
        Ask::Reload => "gqctl reload".into(),
        Ask::Shutdown => "gqctl shutdown".into(),
        Ask::Ping
        | Ask::Submit { .. }
        | Ask::TestOnly { .. }
        | Ask::List(_)
        | Ask::Nodes
        | Ask::Partitions
        | Ask::Wait { .. }
        | Ask::Reservations
        | Ask::Priorities { .. }
        | Ask::Shares
        | Ask::Budgets
        | Ask::Metrics
        | Ask::Past(_)
        | Ask::Usage(_)
        | Ask::Waits(_)
        | Ask::Node(_) => return None,
    })
}

/// Whether an answer says that the asker may not.
fn is_denied(answer: &Value) -> bool {
    let failures = answer["Done"]["failures"].as_array().into_iter().flatten();
    let kinds = failures.map(|failure| &failure["refusal"]["kind"]).chain([&answer["Refused"]["kind"]]);
    kinds.into_iter().any(|kind| kind == "NotPermitted")
}

fn said_by(lab: &Lab, user: &Owner, asks: &[Ask]) -> Vec<Value> {
    as_user(user, || asks.iter().map(|what| ask(lab, &serde_json::to_value(what).unwrap())).collect())
}

#[test]
fn whatever_can_be_asked_is_refused_to_whom_it_is_not_for_and_logged() {
    let Some((lab, parts)) = installation("") else { return };
    let [owner, other, .., admin] = &parts;
    let ended = submit(&lab, owner, &[], "true");
    assert_eq!(ended.ended(), End::Completed);
    let verbs: BTreeSet<&str> = asks(&lab, 1, 1).iter().map(Ask::verb).collect();
    assert_eq!(verbs, Ask::VERBS.iter().copied().collect(), "each of them is asked");
    let (mut refused, mut last) = (BTreeSet::new(), None);
    for (at, user) in parts.iter().enumerate() {
        let job = waiting(&lab, owner);
        let mut asks = asks(&lab, job.id, ended.id);
        assert!(matches!(asks.pop(), Some(Ask::Shutdown)));
        let before = job.view();
        for (what, answer) in asks.iter().zip(said_by(&lab, user, &asks)) {
            assert_eq!(is_denied(&answer), !may(what)[at], "{}: {}: {answer}", user.name, what.verb());
            let text = answer.to_string();
            assert!(!SECRETS.iter().any(|secret| text.contains(secret)), "{}: {text}", what.verb());
            if !may(what)[at] {
                refused.insert((user.uid, what.verb()));
            }
        }
        let after = job.view();
        if may(&Ask::Hold { select: only(job.id) })[at] {
            assert_eq!(job.ended(), End::Cancelled, "{} may", user.name);
        } else {
            let kept = |view: &Value| ["state", "reason", "time_limit", "name"].map(|key| view[key].clone());
            assert_eq!(kept(&after), kept(&before), "nothing has come of it");
            last = Some(job);
        }
    }
    // As his clients tell it.
    let job = last.unwrap().id;
    let asks = asks(&lab, job, ended.id);
    let lines: Vec<String> =
        asks.iter().filter(|what| !may(what)[1]).filter_map(|what| line(what, job)).collect();
    assert_eq!(lines.len(), 17);
    for said in &lines {
        let mut words = said.split(' ');
        let program = words.next().unwrap();
        finish(lab.client_of(other, program).args(words)).refused(5);
    }
    assert!(is_denied(&said_by(&lab, owner, &[Ask::Shutdown])[0]));
    // Each kind of it stands in the log, but of one user no more than ten.
    let log = lab.gqd.said();
    let verbs: BTreeSet<&str> = refused.iter().map(|(_, verb)| *verb).collect();
    for verb in verbs {
        assert!(log.contains(&format!(": refused: {verb}: ")), "{verb}\n{log}");
    }
    for user in &parts {
        let mine = log.matches(&format!(" uid {}: refused: ", user.uid)).count();
        let all = refused.iter().filter(|(uid, _)| *uid == user.uid).count();
        assert!(mine <= 10 && mine >= all.min(10), "{}: {mine} of {all}", user.name);
    }
    let answer = said_by(&lab, admin, &[Ask::Shutdown]);
    assert_eq!(answer[0]["Done"]["count"], 1);
    until("gqd is gone", || (finish(lab.client_of(admin, "gqctl").arg("ping")).code == 3).then_some(()));
}

/// A listing of tasks of a job that asks for all that can be told.
fn every_word(id: u64, split: bool) -> Ask {
    let named = JobRef { job: JobId(id), tasks: Some([1, 9].into_iter().collect()) };
    Ask::List(ListAsk {
        select: Selection { jobs: vec![named], ..Selection::default() },
        starts: true,
        by_start: true,
        split,
        split_waiting: split,
        explain: true,
    })
}

/// A text without these numbers, where they stand by themselves.
fn without_ids(text: &str, ids: [u64; 2]) -> String {
    let mut rest = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_id = ids.iter().any(|id| id.to_string() == digits);
        rest.push_str(if is_id { "ID" } else { digits });
        rest.push_str(part.strip_prefix(digits).unwrap_or_default());
    }
    rest
}

/// Attack 25 (others' jobs, guessed ids), CVE-2021-43337, HTCONDOR-2021-0003.
#[test]
fn what_is_private_is_to_others_as_if_it_were_not_there() {
    let private = "private_data = [\"jobs\", \"usage\", \"reservations\"]";
    let Some((lab, parts)) = installation(private) else { return };
    let [owner, other, coordinator, stranger, operator, admin] = &parts;
    let words = ["-J", "NAME-MARK", "--comment=COMMENT-MARK", "-o", "OUT-MARK"];
    let runs = submit(&lab, owner, &[&words[..], &["--gpus=1"]].concat(), "exec sleep 600").running();
    let waits = submit(&lab, owner, &[&words[..], &["--gpus=1"]].concat(), "true");
    let tasks = submit(&lab, owner, &[&words[..], &["--array=0-3", "-H"]].concat(), "true");
    let over = submit(&lab, owner, &words, "true");
    assert_eq!(over.ended(), End::Completed);
    let reserve = "reserve theirs --start=now+1days --duration=1h --nodes=n1 --accounts=optics --ignore-jobs";
    lab.ctl(reserve);
    let own = submit(&lab, other, &["--gpus=1"], "true");
    let never = 4_000_000;
    // Whatever is asked of an id that is his is answered as of one that nobody has.
    for user in [other, stranger] {
        for job in [&runs, &waits, &tasks, &over] {
            let about = |id| {
                let mut all = asks(&lab, id, id);
                all.retain(|what| !matches!(what, Ask::Shutdown | Ask::Node(_)));
                all.extend([false, true].map(|split| every_word(id, split)));
                let answers = said_by(&lab, user, &all);
                let told = |answer: Value| without_ids(&answer.to_string(), [job.id, never]);
                all.iter().map(Ask::verb).zip(answers.into_iter().map(told)).collect::<Vec<_>>()
            };
            for ((verb, found), (_, none)) in about(job.id).iter().zip(&about(never)) {
                let of_all = ["ping", "list shares", "test a request", "list nodes", "read metrics"];
                let is_of_job = !of_all.contains(verb);
                assert!(!is_of_job || found == none, "{}: {verb}: {found}\n{none}", user.name);
                assert!(!found.contains("MARK") && !found.contains(&owner.name), "{verb}: {found}");
                assert!(!SECRETS.iter().any(|secret| found.contains(secret)), "{verb}: {found}");
            }
        }
    }
    // With words, he finds his own alone; what others hold is held by nobody.
    let all = |user: &Owner, words: &[&str]| finish(lab.client_of(user, "gqstat").args(words)).ok();
    let ids = |user: &Owner| -> BTreeSet<u64> {
        let said = all(user, &["-h", "-t", "all", "-o", "%A"]);
        said.lines().map(|line| line.trim().parse().unwrap()).collect()
    };
    assert_eq!(ids(other), BTreeSet::from([own.id]));
    assert_eq!(ids(stranger), BTreeSet::from([own.id]), "he coordinates the account of that");
    let everything = [&runs, &waits, &tasks, &over].map(|job| job.id);
    assert_eq!(ids(coordinator), everything.into(), "and he the one above theirs");
    for user in [operator, admin] {
        assert_eq!(ids(user).len(), 5);
    }
    assert_eq!(all(other, &["-h", "-u", &owner.name, "-t", "all"]), "");
    let said = finish(lab.client_of(other, "gqstat").args(["-h", "-j", &runs.id.to_string()])).refused(4);
    assert!(said.contains(&runs.id.to_string()));
    let said = finish(lab.client_of(other, "gqctl").args(["hold", &waits.id.to_string()])).refused(4);
    assert!(said.contains("there is no job"), "{said}");
    let why = all(other, &["--why", &own.id.to_string()]);
    assert!(why.contains("private") && !why.contains(&format!("job {} ", runs.id)), "{why}");
    let nodes = |user: &Owner| -> Value { serde_json::from_str(&all(user, &["--nodes", "--json"])).unwrap() };
    let holder = |user: &Owner| nodes(user)["nodes"][0]["gpus"][0]["job"].clone();
    assert_eq!(holder(other), "private");
    assert_eq!(holder(owner), runs.id.to_string());
    for (user, sees) in [(other, false), (owner, true), (coordinator, true), (admin, true)] {
        let said = finish(lab.client_of(user, "gqctl").arg("reservations")).ok();
        assert_eq!(said.contains("theirs"), sees, "{}: {said}", user.name);
    }
    // So it is with what has ended and with what was used.
    let acct = |user: &Owner, words: &[&str]| finish(lab.client_of(user, "gqacct").args(words)).ok();
    let ran = |user: &Owner| acct(user, &["-h", "-S", "now-1day", "-o", "jobidraw"]).trim().to_owned();
    let used = |user: &Owner| acct(user, &["usage", "-h", "--by=name,user", "-S", "now-1day"]);
    for (user, sees) in
        [(other, false), (stranger, false), (owner, true), (coordinator, true), (operator, true)]
    {
        assert_eq!(ran(user), if sees { over.id.to_string() } else { String::new() }, "{}", user.name);
        assert_eq!(used(user).contains("MARK"), sees, "{}: {}", user.name, used(user));
        let shown = finish(lab.client_of(user, "gqacct").args(["show", &over.id.to_string()]));
        assert_eq!(shown.code, if sees { 0 } else { 4 }, "{}", user.name);
        // The script and the environment are his own alone.
        assert_eq!(shown.out.contains(SECRETS[0]), user.uid == owner.uid, "{}: {}", user.name, shown.out);
    }
    // To wait for it is not kept from him, but its tasks are.
    let depends =
        |on: String| finish(lab.client_of(other, "gqsub").args(["-H", "-d", &on, "--wrap", "true"])).code;
    assert_eq!([depends(format!("afterok:{}", over.id)), depends(format!("afterok:{}_0", tasks.id))], [0, 1]);
    assert_eq!(depends(format!("afterok:{never}")), 4);
    assert_eq!(runs.state(), JobState::Running);
    let log = lab.gqd.said();
    let line = format!("uid {}: refused: cancel: {}: it is hidden from this user", other.uid, runs.id);
    assert!(log.contains(&line), "it is logged as what it was");
}

/// Attack 31: who asks is who connected, whoever writes.
#[test]
fn a_setuid_program_that_writes_into_a_socket_lends_nobody_its_rights() {
    let Some((lab, parts)) = installation("") else { return };
    let [owner, other, ..] = &parts;
    let job = waiting(&lab, owner);
    // Programs that are his whose the job is, whoever runs them: one copies its input to its output, one says who it is.
    let lent = |program: &str| {
        let path = lab.work(format!("lent-{program}"));
        fs::copy(format!("/usr/bin/{program}"), &path).unwrap();
        std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        path
    };
    let (cat, id) = (lent("cat"), lent("id"));
    let as_other = |path| {
        let mut command = std::process::Command::new(path);
        std::os::unix::process::CommandExt::gid(
            std::os::unix::process::CommandExt::uid(&mut command, other.uid),
            other.gid,
        );
        command
    };
    if finish(as_other(&id).arg("-u")).ok().trim() != owner.uid.to_string() {
        eprintln!("left out: programs do not become their owner here");
        return;
    }
    let said = |mut stream: std::os::unix::net::UnixStream| -> Value {
        let text =
            json!({"v": 1, "ask": Ask::Cancel { select: only(job.id), signal: None, to: SignalTo::All }})
                .to_string();
        let frame = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
        let file = lab.work("frame");
        fs::write(&file, frame).unwrap();
        for (out, err) in [(true, false), (false, true)] {
            let to = || Stdio::from(std::os::fd::OwnedFd::from(stream.try_clone().unwrap()));
            let mut command = as_other(&cat);
            command.stdin(fs::File::open(&file).unwrap());
            command.stdout(if out { to() } else { Stdio::null() }).stderr(if err {
                to()
            } else {
                Stdio::null()
            });
            assert!(command.status().unwrap().success());
        }
        crate::lab::answer(&mut stream).unwrap()
    };
    // His connection stays his; the same over one that the other made is the other's, so that it is no lack of words.
    let connect = |user: &Owner| as_user(user, || crate::lab::socket(&lab));
    let denied = said(connect(other));
    assert!(is_denied(&denied), "{denied}");
    assert_eq!(job.state(), JobState::Pending);
    let done = said(connect(owner));
    assert_eq!(done["Done"]["count"], 1, "{done}");
    assert_eq!(job.ended(), End::Cancelled);
}

/// Attack 28: what one user has refused, however often, and whatever is in it, leaves the log legible.
#[test]
fn nobody_fills_the_log_with_what_he_is_refused_or_forges_a_line_of_it() {
    let Some((lab, parts)) = installation("") else { return };
    let [owner, other, ..] = &parts;
    let job = waiting(&lab, owner);
    let begin = lab.gqd.said().lines().count();
    let forged = "x\n2026-01-01T00:00:00.000Z gqd ERROR forged\u{1b}[2J\u{202e}";
    let named = Selection { names: vec![forged.into()], ..only(job.id) };
    let all: Vec<Ask> = (0..400)
        .flat_map(|_| {
            [
                Ask::Cancel { select: only(job.id), signal: None, to: SignalTo::All },
                Ask::Hold { select: named.clone() },
                Ask::Unreserve { name: forged.into() },
                Ask::Drain { nodes: vec!["n1".parse().unwrap()], reason: forged.into() },
            ]
        })
        .collect();
    let answers = said_by(&lab, other, &all);
    assert!(answers.iter().filter(|answer| is_denied(answer)).count() >= 1200);
    let log = lab.gqd.said();
    let lines: Vec<&str> = log.lines().skip(begin).collect();
    let his = lines.iter().filter(|line| line.contains(&format!("uid {}: refused: ", other.uid))).count();
    assert_eq!(his, 10, "{log}");
    assert!(lines.len() < 30, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.contains(" gqd ") && !line.contains(" ERROR forged")), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{202e}']));
    // Nor is the trail of the job longer for it, and others are heard.
    assert_eq!(job.state(), JobState::Pending);
    let cancelled = Ask::Cancel { select: only(job.id), signal: None, to: SignalTo::All };
    assert_eq!(said_by(&lab, owner, &[cancelled])[0]["Done"]["count"], 1);
    let stranger = &parts[3];
    assert!(is_denied(&said_by(&lab, stranger, &[Ask::Reload])[0]));
    assert!(lab.gqd.said().contains(&format!("uid {}: refused: reload: ", stranger.uid)));
    // What he leaves in the drop box is looked at again and again, and told no more often.
    let drop = lab.dir().join("spool/drop");
    let begin = lab.gqd.said().lines().count();
    as_user(other, || {
        for n in 0..40_u8 {
            let path = drop.join(format!("{}.job", Token([n; 16])));
            fs::write(&path, if n % 2 == 0 { "GQJOB1\r\nnonsense" } else { "" }).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
    });
    let told = || {
        let log = lab.gqd.said();
        log.lines().skip(begin).filter(|line| line.contains(" drop/")).count()
    };
    until("it is looked at", || {
        (fs::read_dir(lab.dir().join("spool/quarantine")).unwrap().count() >= 20).then_some(())
    });
    assert!((1..=10).contains(&told()), "{}", lab.gqd.said());
}
