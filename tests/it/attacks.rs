//! Attacks of ordinary users on an installation of root's: what they forge in the drop box and on the socket, what they hold
//! open, whom they try to reach. Each is really done. How much of anything they may have is told in `bounds`; fuzzing is `tests/fuzz`.
#![expect(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "leases have no safe calls")]

mod files;
mod openings;
mod start;
mod stolen;
mod units;

use crate::lab::{
    Job, Lab, Owner, Plan, accounts, as_user, ask, asked, cards, finish, frame, kind, program_path, say,
    socket, until,
};
use gq_model::{ClusterId, End, JobState, Reason, Token, Uid};
use gq_proto::JobFile;
use nix::libc;
use serde_json::{Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{OpenOptionsExt, PermissionsExt, symlink},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Of `fcntl`: which signal tells the holder of a lease that somebody waits. One that ends nobody, here.
const F_SETSIG: i32 = 10;

pub fn installation() -> Option<(Lab, Owner, Owner)> {
    let [gq, ann, ben] = accounts(["daemon", "nobody", "games"])?;
    let lab = Plan::new().node("n1", &cards(1)).installed_for(&gq.name).start();
    // Homes are made.
    for user in [&ann, &ben] {
        lab.client_of(user, "gqstat");
    }
    Some((lab, ann, ben))
}

fn cluster(lab: &Lab) -> ClusterId {
    fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap().trim().parse().unwrap()
}

pub fn honest(lab: &Lab, user: &Owner, token: Token) -> JobFile {
    let spec = json!({"name": "n", "work_dir": lab.work(&user.name), "umask": 18});
    JobFile {
        cluster: cluster(lab),
        uid: Uid(user.uid),
        token,
        left: false,
        spec: serde_json::from_value(spec).unwrap(),
        env: Vec::new(),
        args: Vec::new(),
        script: b"#!/bin/sh\nid -u\n".to_vec(),
        prep: Vec::new(),
        items: Vec::new(),
    }
}

pub fn drop_path(lab: &Lab, token: Token) -> PathBuf {
    lab.dir().join(format!("spool/drop/.s.{token}"))
}

pub fn put(path: &Path, mode: u32, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
    file.write_all(bytes).unwrap();
}

pub fn submit<'a>(lab: &'a Lab, user: &Owner, words: &[&str]) -> Job<'a> {
    lab.job(&finish(lab.client_of(user, "gqsub").arg("--parsable").args(words)).ok())
}

pub fn named(lab: &Lab, token: Token) -> Value {
    ask(lab, &json!({"Submit": {"token": token}}))
}

/// Keeps every other opener of a file waiting, or away, for as long as the returned file lives.
fn lease(path: &Path) -> File {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let done = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG)
            | libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    file
}

#[test]
fn only_an_honest_file_in_the_drop_box_makes_a_job() {
    let Some((lab, ann, ben)) = installation() else { return };
    type Forge = fn(&Path, JobFile);
    let bytes = |file: &JobFile| file.to_bytes().unwrap();
    let forgeries: [(&str, Forge); 13] = [
        ("a link to a secret", |path, _| symlink("/etc/shadow", path).unwrap()),
        ("a link to what never ends", |path, _| symlink("/dev/zero", path).unwrap()),
        ("a FIFO", |path, _| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("a socket", |path, _| drop(UnixListener::bind(path).unwrap())),
        ("a folder", |path, _| fs::create_dir(path).unwrap()),
        ("a terabyte", |path, _| File::create_new(path).unwrap().set_len(1 << 40).unwrap()),
        ("another's uid", |path, file| {
            put(path, 0o640, &JobFile { uid: Uid(1), ..file }.to_bytes().unwrap())
        }),
        ("root's uid", |path, file| put(path, 0o640, &JobFile { uid: Uid(0), ..file }.to_bytes().unwrap())),
        ("another token", |path, file| {
            put(path, 0o640, &JobFile { token: Token([9; 16]), ..file }.to_bytes().unwrap());
        }),
        ("another cluster", |path, file| {
            put(path, 0o640, &JobFile { cluster: ClusterId([9; 16]), ..file }.to_bytes().unwrap());
        }),
        ("what others may write", |path, file| put(path, 0o666, &file.to_bytes().unwrap())),
        ("two names", |path, file| {
            put(path, 0o640, &file.to_bytes().unwrap());
            fs::hard_link(path, path.with_extension("twin")).unwrap();
        }),
        ("half of it", |path, file| {
            let bytes = file.to_bytes().unwrap();
            put(path, 0o640, &bytes[..bytes.len() / 2]);
        }),
    ];
    as_user(&ann, || {
        for (n, (what, forge)) in forgeries.iter().enumerate() {
            let token = Token([n as u8; 16]);
            forge(&drop_path(&lab, token), honest(&lab, &ann, token));
            let begin = Instant::now();
            let answer = named(&lab, token);
            assert_ne!(kind(&answer), "taken", "{what}: {answer}");
            assert!(!answer.to_string().contains("root:"), "{what} is read: {answer}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{what}: waited for");
        }
    });
    // A file of hers that ben moves in from a folder of both's, and one that she made there.
    let shared = lab.work("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let (moved, good) = (Token([100; 16]), Token([101; 16]));
    as_user(&ann, || {
        put(&shared.join("f"), 0o644, &bytes(&honest(&lab, &ann, moved)));
        put(&drop_path(&lab, good), 0o640, &bytes(&honest(&lab, &ann, good)));
    });
    as_user(&ben, || {
        let path = drop_path(&lab, good);
        assert!(fs::read(&path).is_err() && fs::remove_file(&path).is_err());
        assert!(fs::read_dir(path.parent().unwrap()).is_err(), "he sees no names");
        fs::rename(shared.join("f"), drop_path(&lab, moved)).unwrap();
        assert_eq!(kind(&named(&lab, moved)), "NotPermitted");
        assert_eq!(kind(&named(&lab, good)), "NotPermitted");
    });
    let taken = as_user(&ann, || {
        assert_eq!(kind(&named(&lab, moved)), "NotPermitted");
        named(&lab, good)
    });
    let job = lab.job(&taken["Submitted"]["job"].to_string());
    assert_eq!(job.ended(), End::Completed);
    assert_eq!(job.out().trim(), ann.uid.to_string());
    as_user(&ben, || {
        put(&drop_path(&lab, good), 0o640, &bytes(&honest(&lab, &ben, good)));
        assert_eq!(kind(&named(&lab, good)), "NotPermitted", "a token is its first user's");
    });
    assert_eq!(lab.list("-t all").len(), 1);
}

/// B061: a client that died right after it had asked left its user without a job, or with two.
#[test]
fn a_token_that_is_named_again_is_the_same_job() {
    let Some((lab, ann, _)) = installation() else { return };
    let token = Token([7; 16]);
    let numbers: Vec<Value> = as_user(&ann, || {
        put(&drop_path(&lab, token), 0o640, &honest(&lab, &ann, token).to_bytes().unwrap());
        let text = asked(&json!({"Submit": {"token": token}}));
        for _ in 0..3 {
            // It asks, and is gone before it is answered.
            drop(say(&lab, text.len() as u32, text.as_bytes()));
        }
        (0..3).map(|_| named(&lab, token)["Submitted"]["job"].clone()).collect()
    });
    assert!(numbers[0].is_u64() && numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    assert_eq!(lab.job(&numbers[0].to_string()).ended(), End::Completed);
    assert_eq!(
        as_user(&ann, || named(&lab, token))["Submitted"]["job"],
        numbers[0],
        "also when it has ended"
    );
    assert_eq!(lab.list("-t all").len(), 1);
}

#[test]
fn whatever_comes_over_the_socket_others_are_answered() {
    let Some((lab, ann, ben)) = installation() else { return };
    let ids: Vec<Value> = (0..30_000).map(|job| json!({"job": job})).collect();
    let open = as_user(&ann, || {
        assert!(frame(&lab, u32::MAX, b"x").is_none());
        assert!(frame(&lab, (1 << 20) + 1, &[b' '; 100]).is_none());
        let deep = [&br#"{"v":1,"ask":{"List":{"select":"#[..], &b"[".repeat(500_000)].concat();
        for bytes in [&deep[..], b"\"\xff\xfe\"", b"{\"v\":1e999,\"ask\":\"Ping\"}", b"", b"null"] {
            let answer = frame(&lab, bytes.len() as u32, bytes).unwrap();
            assert_eq!(kind(&answer), "Usage", "{answer}");
        }
        assert_eq!(kind(&ask(&lab, &json!({"List": {"select": {"jobs": ids}}}))), "Usage");
        let head = json!({"version": 1, "cluster": cluster(&lab), "node": "n1", "epoch": 99_999_999_999u64,
            "boot": "00000000000000000000000000000003", "beat": 1, "lowest": 1, "highest": 0, "ack_epoch": 0, "ack": 0});
        assert_eq!(kind(&ask(&lab, &json!({"Node": head}))), "NotPermitted", "she is no node");
        // Half a frame on more connections than one user may have.
        let connect = |_| {
            let mut stream = socket(&lab);
            let _ = stream.write_all(&[0, 0, 1, 0, b'x']);
            stream
        };
        (0..1100).map(connect).collect::<Vec<_>>()
    });
    assert!(finish(lab.client_of(&ben, "gqctl").arg("ping")).ok().contains("lab"));
    assert_eq!(submit(&lab, &ben, &["--wrap", "true"]).ended(), End::Completed);
    drop(open);
}

#[test]
fn a_gqd_that_is_short_of_files_lives_and_hears_others() {
    let Some((lab, ann, ben)) = installation() else { return };
    lab.gqd.stop();
    let mut short = std::process::Command::new("sh");
    short.args(["-c", "ulimit -n 96; exec \"$0\" --conf \"$1\" 2>>gqd.log"]).current_dir(lab.dir());
    let mut short = short.arg(program_path("gqd")).arg(lab.conf()).spawn().unwrap();
    lab.gqd.wait_for_answer();
    let connect = |_| socket(&lab);
    let open: Vec<UnixStream> = as_user(&ann, || (0..100).map(connect).collect());
    // Root's are not counted, so that they do use up the files.
    let more: Vec<UnixStream> = (0..100).map(connect).collect();
    let threads = || fs::read_dir(format!("/proc/{}/task", short.id())).unwrap().count();
    until("no file is left", || lab.gqd.said().contains("connections are not taken").then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    assert!(threads() < 150, "whoever fails to take one leaves no other who fails: {}", threads());
    drop(more);
    until("ben is answered", || {
        let said = finish(lab.client_of(&ben, "gqctl").arg("ping"));
        (said.code == 0).then_some(())
    });
    drop(open);
    short.kill().unwrap();
    short.wait().unwrap();
}

#[test]
fn a_job_reaches_neither_its_supervisor_nor_what_is_anothers() {
    let Some((lab, ann, ben)) = installation() else { return };
    let job = submit(&lab, &ann, &["--export=SECRET=1", "--wrap", "echo $0; exec sleep 600"]).running();
    let script = until("its path", || job.out().lines().next().map(str::to_owned));
    let node = lab.node("n1").pid();
    let attack = format!(
        "kill -9 $PPID || kill -STOP $PPID || kill -9 {node} || kill -9 {gqd} || cat /proc/$PPID/environ || \
         cat /proc/{node}/environ || ls {runs} || cat {script} || cat {file} || ls {dir}/state || \
         echo x >>{dir}/spool/nodes/n1/in/0.order && echo reached || echo kept; ls -A /proc/self/fd | wc -l",
        gqd = lab.gqd.pid(),
        runs = Path::new(&script).parent().unwrap().display(),
        file = lab.dir().join(format!("spool/jobs/00/{}.job", job.id)).display(),
        dir = lab.dir().display(),
    );
    let other = submit(&lab, &ben, &["-e", "/dev/null", "--wrap", &attack]);
    assert_eq!(other.ended(), End::Completed);
    assert_eq!(other.out(), "kept\n4\n", "the fourth is the listing's own");
    assert_eq!(job.state(), JobState::Running);
    // What a user leaves behind, whatever it does not hear, is gone when his job has ended.
    let mark = "(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; (sleep 987654 &); sleep 987654' >/dev/null 2>&1 &)";
    let leaves = submit(&lab, &ben, &["--wrap", mark]);
    assert_eq!(leaves.ended(), End::Completed);
    let alive = finish(std::process::Command::new("pgrep").args(["-f", "^sleep 987654$"]));
    assert_eq!(alive.out, "");
    // What was accepted is what runs.
    let waits = submit(&lab, &ann, &["-H", "--wrap", "echo honest"]);
    let file = until("its file", || {
        let shards = fs::read_dir(lab.dir().join("spool/jobs")).unwrap();
        let mut paths = shards.map(|shard| shard.unwrap().path().join(format!("{}.job", waits.id)));
        paths.find(|path| path.exists())
    });
    as_user(&ann, || {
        let mut bytes = fs::read(&file).unwrap();
        let len = bytes.len();
        bytes[len - 3] ^= 1;
        fs::write(&file, bytes).unwrap();
    });
    finish(lab.client_of(&ann, "gqctl").args(["release", &waits.id.to_string()])).ok();
    assert_eq!((waits.ended(), waits.reason()), (End::Failed, Reason::JobFileChanged));
}

#[test]
fn what_one_user_holds_open_takes_no_node_out_of_service() {
    let Some((lab, ann, ben)) = installation() else { return };
    let drained = || lab.node_view("n1").unwrap()["state"].as_str().unwrap().starts_with("drain");
    // A lease on the file that her jobs write to.
    let file = lab.work(&ann.name).join("leased");
    as_user(&ann, || put(&file, 0o666, b""));
    let held = lease(&file);
    let to = file.to_str().unwrap();
    let tried = |user: &Owner| {
        let job = submit(&lab, user, &["-o", to, "--wrap", "true"]);
        until("it was tried", || (job.word("reason") == "Backoff" || drained()).then_some(()));
        job
    };
    let hers = [tried(&ann), tried(&ann), tried(&ann)];
    assert!(!drained(), "one user may have made it up");
    assert_eq!(submit(&lab, &ben, &["--wrap", "true"]).ended(), End::Completed);
    finish(lab.client_of(&ann, "gqcancel").args(hers.iter().map(|job| job.id.to_string()))).ok();
    drop(held);

    // Her script's file, which her next job would be given again.
    let first = submit(&lab, &ann, &["--wrap", "echo $0; chmod 700 $0; exec sleep 600"]).running();
    let script = until("its path", || first.out().lines().next().map(str::to_owned));
    let busy = until("it may be written", || OpenOptions::new().write(true).open(&script).ok());
    finish(lab.client_of(&ann, "gqcancel").arg(first.id.to_string())).ok();
    assert_eq!(first.ended(), End::Cancelled);
    let next = submit(&lab, &ann, &["--wrap", "true"]);
    // A folder that is not given again does no harm either.
    let (end, reason) = (next.ended(), next.reason());
    assert!([(End::Failed, Reason::ExecFailed), (End::Completed, Reason::None)].contains(&(end, reason)));
    drop(busy);
    assert_eq!(submit(&lab, &ann, &["--wrap", "true"]).ended(), End::Completed);
    assert!(!drained());
}

#[test]
fn a_script_that_does_not_come_to_begin_is_ended_by_its_time_limit() {
    let Some((lab, ann, _)) = installation() else { return };
    let program = lab.work(&ann.name).join("program");
    as_user(&ann, || put(&program, 0o755, &fs::read("/bin/true").unwrap()));
    let held = lease(&program);
    let script = lab.file("job.sh", format!("#!{}\n", program.display()));
    let job = submit(&lab, &ann, &["-t", "0:02", script.to_str().unwrap()]);
    assert_eq!(job.ended(), End::Timeout);
    drop(held);
    assert!(submit(&lab, &ann, &["--gpus=1", script.to_str().unwrap()]).ended() == End::Completed);
}

/// Attack 33: what a request says of its place and its bounds is acted upon by nobody but its user.
#[test]
fn what_a_request_claims_of_folders_umask_and_limits_gives_its_user_no_more() {
    let Some((lab, ann, ben)) = installation() else { return };
    let private = lab.work(&ann.name).join("private");
    as_user(&ann, || {
        fs::create_dir(&private).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    });
    let told = "ulimit -H -n; ulimit -H -c; ulimit -n; touch made; id -u; umask";
    let claim = |n: u8, spec: Value| {
        let token = Token([n; 16]);
        let mut file = honest(&lab, &ben, token);
        let mut said = serde_json::to_value(&file.spec).unwrap();
        said.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        file.spec = serde_json::from_value(said).unwrap();
        file.script = format!("#!/bin/sh\n{told}\n").into_bytes();
        let answer = as_user(&ben, || {
            put(&drop_path(&lab, token), 0o640, &file.to_bytes().unwrap());
            named(&lab, token)
        });
        lab.job(&answer["Submitted"]["job"].to_string())
    };
    let ordinary = claim(1, json!({}));
    assert_eq!(ordinary.ended(), End::Completed);
    // Folders of hers, root's, and one that a path leads to in a roundabout way.
    let home = lab.work(&ben.name);
    let crooked = format!("{}/../{}/private", home.display(), ann.name);
    for (n, place) in [private.to_str().unwrap(), "/root", &crooked].into_iter().enumerate() {
        let inside = claim(10 + n as u8, json!({"work_dir": place, "stdout": home.join("o")}));
        let into = claim(20 + n as u8, json!({"stdout": format!("{place}/taken")}));
        assert_eq!(inside.ended(), End::Failed, "{place}: {}", inside.view());
        assert_eq!((into.ended(), into.reason()), (End::Failed, Reason::OutputFile), "{place}");
    }
    assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
    // Limits are the hard ones of everybody at the most, and a umask bares nothing but what is his.
    let limits = json!([{"name": "nofile", "soft": null}, {"name": "core", "soft": null}]);
    let greedy = claim(30, json!({"umask": 0, "limits": limits}));
    assert_eq!(greedy.ended(), End::Completed);
    let lines = |job: &Job<'_>| job.out().lines().map(str::to_owned).collect::<Vec<_>>();
    let (said, usual) = (lines(&greedy), lines(&ordinary));
    assert_eq!(said[..2], usual[..2], "hard limits stay");
    assert_eq!(said[2], said[0]);
    assert_eq!(said[3..], [ben.uid.to_string(), "0000".to_owned()]);
    let made = fs::metadata(home.join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), ben.uid);
}

/// Attack 34: a token, and the name of a file, is the first user's who brought it, as long as it is known.
#[test]
fn a_token_of_one_user_is_no_token_of_another() {
    let Some((lab, ann, ben)) = installation() else { return };
    let token = Token([5; 16]);
    let path = drop_path(&lab, token);
    let his = |user: &Owner| honest(&lab, user, token).to_bytes().unwrap();
    as_user(&ann, || put(&path, 0o640, &his(&ann)));
    as_user(&ben, || {
        // Her file is there: he cannot put his in its place, and does not get hers by its name.
        assert!(File::create_new(&path).is_err());
        assert_eq!(kind(&named(&lab, token)), "NotPermitted");
    });
    let job = as_user(&ann, || named(&lab, token))["Submitted"]["job"].to_string();
    for _ in ["while it may live", "when it has ended"] {
        as_user(&ben, || {
            assert_ne!(kind(&named(&lab, token)), "taken");
            put(&path, 0o640, &his(&ben));
            assert_eq!(kind(&named(&lab, token)), "NotPermitted");
            fs::remove_file(&path).unwrap();
        });
        assert_eq!(lab.job(&job).ended(), End::Completed);
    }
    assert_eq!(as_user(&ann, || named(&lab, token))["Submitted"]["job"].to_string(), job);
    assert_eq!(lab.list("-t all").len(), 1);
}
