//! Handing over and waiting, against somebody at the other end of the socket who answers, refuses, or goes away.

use super::{
    hand_over::hand_over_within,
    rerun, store,
    wait::{Bar, Shown, wait_for},
};
use crate::trouble::Trouble;
use gq_ask::{Context, Script, ScriptName, Submission};
use gq_conf::Config;
use gq_ipc::{Conn, Listener};
use gq_model::{ArrayAsk, End, IndexSet, JobId, Outcome, Reason, Seconds, TimeAsk, Timestamp, Token};
use gq_proto::{
    ArrayView, Ask, Asked, JobFile, MAX_FRAME, Refusal, RefusalKind, Reply, WaitedEnd, sha256_hex,
};
use gq_spool::{DropClient, Spool};
use std::{
    path::{Path, PathBuf},
    thread::scope,
    time::Duration,
};

/// A cluster's folders, gone at the end of the test.
struct Place {
    dir: PathBuf,
    conf: Config,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("gqsub-{name}-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("run")).unwrap();
        Spool::init(&dir.join("spool"), None).unwrap();
        let id = "0123456789abcdef0123456789abcdef".parse().unwrap();
        Spool::open(&dir.join("spool")).unwrap().write_cluster_id(id).unwrap();
        let folder = |name: &str| format!("{name}_dir = {:?}\n", dir.join(name).display().to_string());
        let text =
            ["[cluster]\nname = \"lab\"\n".into(), folder("spool"), folder("state"), folder("run")].concat();
        Self { conf: gq_conf::parse(&text, Path::new("gq.conf")).unwrap(), dir }
    }
    fn stored(&self) -> (DropClient, Token) {
        let drop_box = DropClient::open(&self.dir.join("spool")).unwrap();
        let token = store(&drop_box, submission(), vec![b"A=1".to_vec()], false).unwrap();
        (drop_box, token)
    }
    fn listen(&self) -> Listener {
        Listener::bind(&self.conf.sock(), 0o666).unwrap()
    }
    fn dropped(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.dir.join("spool/drop")).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn submission() -> Submission {
    let mut command = super::command();
    let line =
        gq_ask::read_command_line(&mut command, vec!["gqsub".into(), "a.sh".into(), "x y".into()]).unwrap();
    let script = Script { name: ScriptName::File("a.sh".into()), bytes: b"#!/bin/sh\n".to_vec() };
    let context = Context {
        now: Timestamp(0),
        zone: &|| jiff::tz::TimeZone::UTC,
        directory: Path::new("/"),
        host: "h",
        umask: 0,
        limits: Vec::new(),
        read: &super::around::file,
    };
    line.resolve(&mut command, std::iter::empty(), script, context).unwrap()
}

/// What the next client of `listener` asks.
fn asked(listener: &Listener) -> (Conn, Ask) {
    let conn = listener.accept().unwrap();
    let asked: Asked = serde_json::from_slice(&conn.recv(MAX_FRAME).unwrap().unwrap()).unwrap();
    (conn, asked.ask)
}

fn answer(conn: &Conn, reply: &Reply) {
    conn.send(&serde_json::to_vec(reply).unwrap()).unwrap();
}

#[test]
fn what_is_stored_is_what_was_asked() {
    let place = Place::new("stored");
    let (_, token) = place.stored();
    let bytes = std::fs::read(place.dir.join(format!("spool/drop/.s.{token}"))).unwrap();
    let file = JobFile::from_bytes(&bytes).unwrap();
    assert_eq!((file.token, file.uid.0), (token, nix::unistd::geteuid().as_raw()));
    assert_eq!((file.spec.name.as_str(), file.args), ("a.sh", vec![b"x y".to_vec()]));
    assert_eq!((file.script.as_slice(), file.env), (b"#!/bin/sh\n".as_slice(), vec![b"A=1".to_vec()]));
}

#[test]
fn a_refused_job_leaves_no_file_behind() {
    let place = Place::new("refused");
    let (drop_box, token) = place.stored();
    let listener = place.listen();
    let refusal = Refusal { kind: RefusalKind::Policy, text: "no".into(), hint: Some("less".into()) };
    let got = scope(|s| {
        s.spawn(|| {
            let (conn, ask) = asked(&listener);
            assert_eq!(ask, Ask::Submit { token });
            answer(&conn, &Reply::Refused(refusal.clone()));
        });
        let sock = place.conf.sock();
        let conn = Conn::connect(&sock).unwrap();
        hand_over_within(Duration::ZERO, &sock, conn, &drop_box, token)
    });
    assert_eq!(got, Err(Trouble::from(refusal)));
    assert_eq!(place.dropped(), [""; 0]);
}

#[test]
fn a_token_is_named_again_until_somebody_answers() {
    let place = Place::new("again");
    let (drop_box, token) = place.stored();
    let listener = place.listen();
    let got = scope(|s| {
        s.spawn(|| {
            // Twice gqd is gone before it answers; then another life of it knows the token.
            for _ in 0..2 {
                let (conn, ask) = asked(&listener);
                assert_eq!(ask, Ask::Submit { token });
                conn.shutdown();
            }
            drop(listener);
            let listener = place.listen();
            let (conn, ask) = asked(&listener);
            assert_eq!(ask, Ask::Submit { token });
            answer(&conn, &Reply::Submitted { job: JobId(17) });
        });
        let sock = place.conf.sock();
        let conn = Conn::connect(&sock).unwrap();
        hand_over_within(Duration::from_secs(30), &sock, conn, &drop_box, token)
    });
    assert_eq!(got, Ok(JobId(17)));
}

#[test]
fn an_outcome_that_stays_unknown_is_told_with_the_token() {
    let place = Place::new("unknown");
    let (drop_box, token) = place.stored();
    let listener = place.listen();
    let got = scope(|s| {
        s.spawn(|| asked(&listener).0.shutdown());
        let sock = place.conf.sock();
        let conn = Conn::connect(&sock).unwrap();
        hand_over_within(Duration::ZERO, &sock, conn, &drop_box, token)
    });
    let trouble = got.unwrap_err();
    assert_eq!(trouble.code(), 3);
    assert!(
        trouble.to_string().contains("outcome unknown") && trouble.to_string().contains(&token.to_string())
    );
    assert_eq!(place.dropped(), [format!(".s.{token}")], "gqd may still take it up");
}

#[test]
fn waiting_outlives_gqd_and_ends_with_the_jobs_code() {
    let place = Place::new("wait");
    let listener = place.listen();
    let code = scope(|s| {
        s.spawn(|| {
            asked(&listener).0.shutdown();
            let (conn, ask) = asked(&listener);
            assert_eq!(ask, Ask::Wait { job: JobId(17), progress: false, hopeless: true });
            let outcome = Outcome {
                exit_code: Some(7),
                ..Outcome::without_exit(End::Failed, Reason::None, String::new())
            };
            answer(
                &conn,
                &Reply::Waited(WaitedEnd { job: JobId(17), end: End::Failed, outcome: Some(outcome) }),
            );
        });
        wait_for(&place.conf, JobId(17), Shown::default())
    });
    assert_eq!(code, Ok(7));
}

#[test]
fn progress_is_shown_until_the_end_comes_with_the_worst_code() {
    let place = Place::new("progress");
    let listener = place.listen();
    let code = scope(|s| {
        s.spawn(|| {
            let (conn, ask) = asked(&listener);
            assert_eq!(ask, Ask::Wait { job: JobId(17), progress: true, hopeless: true });
            for done in [1, 2] {
                let ended = vec![("FAILED".to_owned(), done)];
                answer(
                    &conn,
                    &Reply::Progress(ArrayView {
                        id: JobId(17),
                        tasks: 2,
                        waiting: 2 - done,
                        running: 0,
                        ended,
                        at_once: None,
                        started: None,
                        rate: None,
                        expected_end: None,
                    }),
                );
            }
            let outcome = Outcome {
                exit_code: Some(3),
                ..Outcome::without_exit(End::Failed, Reason::None, String::new())
            };
            answer(
                &conn,
                &Reply::Waited(WaitedEnd { job: JobId(17), end: End::Failed, outcome: Some(outcome) }),
            );
        });
        wait_for(&place.conf, JobId(17), Shown { bar: Some(Bar::new()), ..Shown::default() })
    });
    assert_eq!(code, Ok(3));
}

/// The accepted job file of an array of which tasks 1 and 3 failed, and what `--rerun-failed` makes of it.
fn rerun_of(
    place: &Place,
    spoil: impl FnOnce(&mut JobFile, &mut String),
    failed: IndexSet,
) -> Result<(Submission, Vec<Vec<u8>>), Trouble> {
    let mut old = submission();
    old.spec.array = Some(ArrayAsk::of(IndexSet::range(0, 4), Some(2)));
    let drop_box = DropClient::open(&place.dir.join("spool")).unwrap();
    let token = store(&drop_box, old, vec![b"A=1".to_vec()], false).unwrap();
    let accepted = "jobs/00/17.job";
    let stored = place.dir.join(format!("spool/drop/.s.{token}"));
    let mut file = JobFile::from_bytes(&std::fs::read(&stored).unwrap()).unwrap();
    file.items = (0..5).map(|n| vec![b'a' + n]).collect();
    let mut sha256 = String::new();
    spoil(&mut file, &mut sha256);
    let bytes = file.to_bytes().unwrap();
    if sha256.is_empty() {
        sha256 = sha256_hex(&bytes);
    }
    std::fs::create_dir_all(place.dir.join("spool/jobs/00")).unwrap();
    if sha256 != "gone" {
        std::fs::write(place.dir.join("spool").join(accepted), bytes).unwrap();
    }
    let listener = place.listen();
    scope(|s| {
        s.spawn(|| {
            let (conn, ask) = asked(&listener);
            assert_eq!(ask, Ask::JobFile { job: JobId(17) });
            answer(&conn, &Reply::JobFile { path: accepted.into(), sha256, failed, array: true });
        });
        let argv = ["gqsub", "--rerun-failed=17", "-t", "5"].map(Into::into).to_vec();
        let line = gq_ask::read_command_line(&mut super::command(), argv).unwrap();
        rerun::again(&place.conf, line, JobId(17))
    })
}

#[test]
fn what_failed_is_submitted_again_from_the_accepted_job_file() {
    let place = Place::new("rerun");
    let failed: IndexSet = [1, 3].into_iter().collect();
    let (job, env) = rerun_of(&place, |_, _| {}, failed.clone()).unwrap();
    assert_eq!(job.spec.array, Some(ArrayAsk::of(failed, Some(2))));
    assert_eq!(job.spec.time_limit, Some(TimeAsk::Limit(Seconds(300))));
    assert_eq!((job.script.as_slice(), job.args), (b"#!/bin/sh\n".as_slice(), vec!["x y".into()]));
    let items: Vec<Vec<u8>> = (0..5).map(|n| vec![b'a' + n]).collect();
    assert_eq!((job.items, env), (items, vec![b"A=1".to_vec()]), "a task finds its own by its index");
}

#[test]
fn what_cannot_be_submitted_again_is_told_with_its_code() {
    let failed = || IndexSet::range(1, 1);
    let place = Place::new("rerun-none");
    let nothing = rerun_of(&place, |_, _| {}, IndexSet::default()).unwrap_err();
    assert_eq!((nothing.code(), nothing.to_string()), (1, "nothing of job 17 has failed".into()));
    let place = Place::new("rerun-changed");
    let changed = rerun_of(&place, |_, sha256| *sha256 = "00".into(), failed()).unwrap_err();
    assert_eq!(changed.code(), 1);
    assert!(changed.to_string().contains("not the one that was accepted"), "{changed}");
    let place = Place::new("rerun-gone");
    let gone = rerun_of(&place, |_, sha256| *sha256 = "gone".into(), failed()).unwrap_err();
    assert_eq!(gone.code(), 1);
    assert!(gone.to_string().contains("is gone"), "{gone}");
    let place = Place::new("rerun-other");
    let other = rerun_of(&place, |file, _| file.uid.0 += 1, failed()).unwrap_err();
    assert_eq!(other.code(), 5);
}
