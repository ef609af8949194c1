//! Bounds: whatever one user sends, leaves or holds open, in whatever numbers, others are answered and their jobs run meanwhile. How soon is told by
//! `at_full_size_nobody_waits_a_second`, which is run by hand; here it is told that nothing of his had to end first.

use crate::{
    attacks::{drop_path, honest, installation, named, put, submit},
    lab::{
        Lab, Owner, Plan, accounts, answer, as_user, ask, asked, cards, finish, frame, kind, socket, until,
    },
};
use gq_model::{End, Token};
use gq_proto::JobFile;
use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{ControlMessage, MsgFlags, sendmsg},
    },
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{IoSlice, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

/// Most memory that `gqd` has used, in KiB.
fn peak(lab: &Lab) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", lab.gqd.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn is_answered(lab: &Lab, user: &Owner) {
    assert!(finish(lab.client_of(user, "gqctl").arg("ping")).ok().contains("lab"));
    assert_eq!(submit(lab, user, &["--wrap", "true"]).ended(), End::Completed);
}

/// Sends a frame of this and waits for nothing.
fn say(lab: &Lab, text: &str) -> UnixStream {
    crate::lab::say(lab, text.len() as u32, text.as_bytes())
}

fn drop_box(lab: &Lab) -> PathBuf {
    lab.dir().join("spool/drop")
}

/// How many job files of this user were left and not looked at yet.
fn left(lab: &Lab, user: &Owner) -> usize {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(drop_box(lab)).unwrap().flatten();
    entries.filter(|e| e.metadata().is_ok_and(|meta| meta.uid() == user.uid)).count()
}

#[test]
fn a_heap_of_one_users_files_hides_nobodys_job_and_fills_no_log() {
    let Some((lab, ann, ben)) = installation() else { return };
    let many = 1200;
    as_user(&ann, || {
        for n in 0..many {
            put(&drop_box(&lab).join(format!("{n:032x}.job")), 0o640, b"GQJOB1\r\nnonsense");
        }
    });
    let left_behind =
        lab.client_of(&ben, "gqsub").args(["--offline", "--wrap", "echo late"]).output().unwrap();
    assert!(left_behind.status.success());
    is_answered(&lab, &ben);
    let jobs = || lab.list("-t all");
    until("the job that was left is done", || {
        let done = |job: &Value| job["state"] == "COMPLETED" && job["user"] == ben.name.as_str();
        (jobs().iter().filter(|job| done(job)).count() == 2).then_some(())
    });
    assert!(left(&lab, &ann) > many / 2, "hers were not all looked at first: {}", left(&lab, &ann));
    let told = lab.gqd.said().lines().filter(|line| line.contains("set aside")).count();
    assert!((1..=10).contains(&told), "{told} lines");
}

#[test]
fn odd_names_in_the_drop_box_are_told_of_once_and_go_after_their_time() {
    let Some((lab, ann, ben)) = installation() else { return };
    lab.gqd.stop();
    let old = SystemTime::now() - Duration::from_secs(2 * 86_400);
    let names: [&[u8]; 5] = [b"a\nERROR forged", b"\x1b[2J", b"\xff\xfe.job", &[b'y'; 255], b"plain"];
    as_user(&ann, || {
        for (n, name) in names.iter().enumerate() {
            let path = drop_box(&lab).join(OsStr::from_bytes(name));
            File::create_new(&path).unwrap();
            if n % 2 == 0 {
                File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        (0..200).for_each(|n| drop(File::create_new(drop_box(&lab).join(format!("more{n}"))).unwrap()));
        fs::create_dir(drop_box(&lab).join("folder")).unwrap();
    });
    lab.gqd.start();
    is_answered(&lab, &ben);
    let lines = |word: &str| lab.gqd.said_now().lines().filter(|line| line.contains(word)).count();
    until("it is told", || (lines("are no job files (") > 0).then_some(()));
    assert_eq!(left(&lab, &ann), 203, "the three old ones are gone");
    assert_eq!(lines("are no job files ("), 1, "{}", lab.gqd.said_now());
    assert!(
        lines(&format!("203 of uid {}", ann.uid)) == 1
            && lines(&format!("3 of uid {} were no", ann.uid)) == 1
    );
    let said = lab.gqd.said_now();
    assert!(
        !said.contains('\x1b') && !said.contains('\u{fffd}') && !said.lines().any(|l| l.starts_with("ERROR"))
    );
}

/// Each is refused by a word, also as many of them at once as come in, and takes no more memory than a few do.
#[test]
fn no_json_is_a_bomb() {
    let Some((lab, ann, ben)) = installation() else { return };
    let of =
        |front: &str, middle: &str, count: usize, back: &str| [front, &middle.repeat(count), back].concat();
    let keys: String = (0..60_000).map(|n| format!("\"k{n}\":0,")).collect();
    let bombs = [
        of(r#"{"v":1,"ask":{"List":{"select":{"jobs":"#, "[", 1_000_000, ""),
        of(r#"{"v":1,"x":"#, r#"{"a":"#, 200_000, ""),
        format!(r#"{{"v":1,"v":1,"ask":"Ping"{keys}"z":0}}"#),
        r#"{"v":1,"v":1,"ask":"Ping"}"#.into(),
        r#"{"v":1,"ask":{"Wait":{"job":1,"job":2}}}"#.into(),
        r#"{"v":1,"ask":{"Ping":null,"Shutdown":null}}"#.into(),
        r#"{"v":1e999,"ask":"Ping"}"#.into(),
        r#"{"v":1,"ask":{"Wait":{"job":18446744073709551616}}}"#.into(),
        r#"{"v":1,"ask":{"Wait":{"job":-1}}}"#.into(),
        r#"{"v":1,"ask":{"Cancel":{"select":{"jobs":[{"job":1,"tasks":[[5,3]]}]}}}}"#.into(),
        r#"{"v":1,"ask":{"Cancel":{"select":{"jobs":[{"job":1,"tasks":[[0,4294967295],[0,4294967295]]}]}}}}"#
            .into(),
    ];
    let names = of(r#"{"v":1,"ask":{"Cancel":{"select":{"names":["#, r#""","#, 340_000, r#"""]}}}}"#);
    let before = peak(&lab);
    as_user(&ann, || {
        for bomb in &bombs {
            let told = frame(&lab, bomb.len() as u32, bomb.as_bytes());
            assert_eq!(told.as_ref().map(kind), Some("Usage"), "{:.80}: {told:?}", bomb);
        }
        assert!(frame(&lab, 64 << 20, &[b'"'; 1000]).is_none(), "sixty-four megabytes are not even read");
        std::thread::scope(|threads| {
            for _ in 0..30 {
                threads
                    .spawn(|| assert_eq!(answer(&mut say(&lab, &names)).as_ref().map(kind), Some("Usage")));
            }
        });
    });
    let more = peak(&lab) - before;
    assert!(more < 200 << 10, "{more} KiB more");
    is_answered(&lab, &ben);
}

/// A file of eight million empty strings was two hundred megabytes.
#[test]
fn a_job_file_of_many_short_strings_takes_no_more_than_its_size() {
    let Some((lab, ann, _)) = installation() else { return };
    let tokens: Vec<Token> = (0..2).map(|n| Token([n; 16])).collect();
    let before = peak(&lab);
    as_user(&ann, || {
        for token in &tokens {
            let mut file = JobFile { args: vec![vec![b'x'; (8 << 20) - 4096]], ..honest(&lab, &ann, *token) };
            file.spec.hold = true;
            let mut bytes = file.to_bytes().unwrap();
            bytes.iter_mut().skip(400).filter(|byte| **byte == b'x').for_each(|byte| *byte = 0);
            let crc = crc32fast::hash(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            put(&drop_path(&lab, *token), 0o640, &bytes);
        }
        let mut open: Vec<_> =
            tokens.iter().map(|token| say(&lab, &asked(&json!({"Submit": {"token": token}})))).collect();
        assert!(open.iter_mut().all(|stream| answer(stream).is_some_and(|told| kind(&told) == "taken")));
    });
    let more = peak(&lab) - before;
    assert!(more < 150 << 10, "{more} KiB more");
}

/// Over the socket, and in job files that no client of ours wrote.
#[test]
fn numbers_and_counts_of_any_size_are_refused_or_borne() {
    let Some((lab, ann, ben)) = installation() else { return };
    let (most, least) = (u64::MAX, i64::MIN);
    let requests = [
        json!({"time_limit": most}),
        json!({"time_limit": 9_223_372_036_854_775_807u64, "time_min": most, "deadline": i64::MAX}),
        json!({"begin": least}),
        json!({"begin": i64::MAX, "deadline": least}),
        json!({"memory": {"PerNode": most}}),
        json!({"memory": {"PerCpu": most}, "ntasks": u32::MAX, "cpus_per_task": u32::MAX}),
        json!({"memory": {"PerCard": most}, "cards": {"count": u32::MAX, "memory": most}}),
        json!({"memory": {"PerNode": 16u64 << 40}}),
        json!({"nice": i32::MIN}),
        json!({"nice": i32::MAX}),
        json!({"signal": {"signal": 255, "before": most}}),
        json!({"signal": {"signal": 10, "before": most}}),
        json!({"max_wait": {"after": most, "then": "Boost"}}),
        json!({"max_wait": {"after": most, "then": "Cancel"}}),
        json!({"retry": {"times": u32::MAX}}),
        json!({"get_user_env": most}),
        json!({"test_run": {"micros": most, "exit": 0}}),
        json!({"licences": [{"name": "x", "count": u32::MAX}]}),
        json!({"array": "0-4294967295"}),
        json!({"array": "0-9:0"}),
        json!({"array": "0-3999999"}),
        json!({"array": "4294967294-4294967295"}),
        json!({"array": "0-4294967295:4294967295", "memory": {"PerCpu": most}}),
        json!({"array": "0,".repeat(30_000) + "0"}),
        json!({"array": (0..20_000).map(|n| (2 * n).to_string()).collect::<Vec<_>>().join(",")}),
        json!({"dependency": "afterok".to_owned() + &":1".repeat(50_000)}),
        json!({"dependency": format!("after:{}+{}", most, u32::MAX)}),
        json!({"dependency": "afterok:1_[0-4294967295]"}),
        json!({"nodelist": vec!["n1"; 20_000]}),
        json!({"features": vec!["f"; 30_000]}),
        json!({"name": "n".repeat(100_000)}),
        json!({"umask": u32::MAX, "stdout": "%x".repeat(30_000)}),
        json!({"stdout": "%x".repeat(20_000), "name": "n".repeat(1024)}),
    ];
    let pid = lab.gqd.pid();
    as_user(&ann, || {
        let plain = json!({"name": "n", "work_dir": lab.work(&ann.name), "umask": 18, "hold": true});
        for (n, more) in requests.iter().enumerate() {
            let mut spec = plain.clone();
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let shown = format!("{:.120}", more.to_string());
            let text = asked(&json!({"TestOnly": {"spec": spec}}));
            let told = frame(&lab, text.len() as u32, text.as_bytes())
                .unwrap_or_else(|| panic!("no answer to {shown}"));
            assert!(
                ["Usage", "Policy", "NotPermitted", "NoSuchJob", "taken"].contains(&kind(&told)),
                "{shown}: {told}"
            );
            // What is no request at all makes no job file of ours.
            let Ok(read) = serde_json::from_value(spec) else { continue };
            let token = Token([n as u8 + 1; 16]);
            let file = JobFile { spec: read, ..honest(&lab, &ann, token) };
            let Ok(bytes) = file.to_bytes() else { continue };
            put(&drop_path(&lab, token), 0o640, &bytes);
            let told = named(&lab, token);
            assert!(
                ["Usage", "Policy", "NotPermitted", "NoSuchJob", "taken"].contains(&kind(&told)),
                "{shown}: {told}"
            );
        }
        for change in [
            json!({"TimeLimitBy": least}),
            json!({"TimeLimitBy": i64::MAX}),
            json!({"TimeLimit": most}),
            json!({"Priority": least}),
            json!({"Begin": i64::MAX}),
            json!({"Begin": least}),
            json!({"Deadline": i64::MAX}),
            json!({"Nice": i32::MAX}),
            json!({"AtOnce": 0}),
        ] {
            let told = ask(&lab, &json!({"Update": {"select": {"users": [ann.uid]}, "changes": [change]}}));
            assert!(["taken", "Usage", "Policy", "NotPermitted"].contains(&kind(&told)), "{told}");
        }
        let release = ask(&lab, &json!({"Release": {"select": {"users": [ann.uid]}}}));
        assert_eq!(kind(&release), "taken", "{release}");
    });
    // Whatever was taken can be shown, too.
    lab.list("--start");
    assert!(lab.list("-t all").len() > 3);
    let cancelled = as_user(&ann, || ask(&lab, &json!({"Cancel": {"select": {"users": [ann.uid]}}})));
    assert_eq!(kind(&cancelled), "taken", "{cancelled}");
    is_answered(&lab, &ben);
    assert!(lab.gqd.pid() == pid && !lab.gqd.said().contains("panicked"), "{}", lab.gqd.said());
}

/// Jobs that wait for each other in a ring, as far as that can be said, and arrays of many ranges whose tasks another array waits for.
#[test]
fn rings_of_dependencies_are_refused() {
    let lab = Plan::new().node("n1", &cards(0)).start();
    let ids: Vec<String> = (0..5).map(|_| lab.gqsub(&["-H", "--wrap", "true"]).id.to_string()).collect();
    let all: Vec<_> = ids.iter().zip(ids.iter().cycle().skip(1)).collect();
    let update = |(one, next): &(&String, &String)| {
        lab.run("gqctl", &["update", one.as_str(), &format!("--dependency=afterok:{next}")])
    };
    let codes: Vec<i32> = all.iter().map(|pair| update(pair).code).collect();
    assert_eq!(codes, [0, 0, 0, 0, 1], "the one that would close the ring is refused");
    assert_ne!(update(&(&ids[2], &ids[2])).code, 0, "nor does a job wait for itself");
}

/// Half a head, half a frame, an answer that nobody reads, a connection that says nothing; and the greatest number of each.
#[test]
fn whoever_says_half_and_reads_nothing_keeps_nobody_waiting() {
    let Some((lab, ann, ben)) = installation() else { return };
    let open: Vec<UnixStream> = as_user(&ann, || {
        let mut spec = honest(&lab, &ann, Token([0; 16])).spec;
        (spec.hold, spec.comment) = (true, Some("c".repeat(4096)));
        for n in 0..120 {
            let token = Token([n; 16]);
            let file = JobFile { spec: spec.clone(), ..honest(&lab, &ann, token) };
            put(&drop_path(&lab, token), 0o640, &file.to_bytes().unwrap());
            assert_eq!(kind(&named(&lab, token)), "taken");
        }
        let begun = |n: usize| {
            let mut stream = socket(&lab);
            let part: &[u8] = match n % 4 {
                0 => b"",
                1 => &[0, 4],
                2 => &[0, 4, 0, 0, b'{'],
                // Half a mebibyte of answer, more than a socket holds.
                _ => return say(&lab, &asked(&json!({"List": {"select": {}}}))),
            };
            let _ = stream.write_all(part);
            stream
        };
        let open: Vec<_> = (0..1000).map(begun).collect();
        // She herself is answered, too, as long as she has connections left; only her listings wait for each other.
        assert_eq!(kind(&ask(&lab, &json!("Ping"))), "taken");
        open
    });
    is_answered(&lab, &ben);
    assert!(!lab.list("-t all").is_empty());
    drop(open);
    until("her connections are gone", || {
        let threads = fs::read_dir(format!("/proc/{}/task", lab.gqd.pid())).unwrap().count();
        (threads < 100).then_some(())
    });
}

/// A range for each of these tasks.
fn each(tasks: impl Iterator<Item = u32>) -> Vec<[u32; 2]> {
    tasks.map(|task| [task, task]).collect()
}

/// However the tasks of an array come to lie apart, what is asked of it is done in no long time, and what became of it can be read.
#[test]
fn scattered_tasks_are_borne_or_refused() {
    let lab = Plan::new().node("n1", &cards(0)).start();
    let job = lab.submit("--array=0-199999 -H", "true");
    let asked = |verb: &str, tasks: Vec<[u32; 2]>| {
        let select = json!({"jobs": [{"job": job.id, "tasks": tasks}]});
        ask(&lab, &json!({verb: {"select": select, "signal": null, "to": "Batch", "hold": false}}))
    };
    let refusal = |answer: Value| {
        let of_one = &answer["Done"]["failures"][0]["refusal"]["text"];
        of_one.as_str().or(answer["Refused"]["text"].as_str()).unwrap_or_default().to_owned()
    };
    let said = refusal(asked("Hold", each((0..40_000).step_by(2))));
    assert!(said.contains("separate ranges of tasks at once"), "{said}");
    for verb in ["Hold", "Cancel"] {
        let (mut done, mut said) = (0, String::new());
        while said.is_empty() {
            let first = done * 32_000;
            said = refusal(asked(verb, each((first..first + 32_000).step_by(2))));
            done += 1;
        }
        assert!(done == 5 && said.contains("more than 65536 separate ranges"), "{verb}: {said}");
    }
    for _ in 0..2 {
        lab.say(&format!("gqcancel {}", job.id));
        let view = until("it has ended", || {
            let all = lab.list(&format!("-j {}", job.id));
            all.iter().all(|view| view["state"] == "CANCELLED").then_some(all)
        });
        assert!(!view.is_empty());
        lab.gqd.stop();
        lab.gqd.start();
    }
}

/// What its user makes of the time after his script has ended is short, and his card is somebody else's then.
#[test]
fn a_private_folder_that_will_not_be_emptied_keeps_no_card() {
    let Some((lab, ann, ben)) = installation() else { return };
    let words = ["--gpus=1", "--wrap", "cd $GQ_TMPDIR; seq 40000 | xargs touch; mkdir deep"];
    let job = submit(&lab, &ann, &words);
    let errand = until("somebody empties it", || {
        lab.processes().into_iter().find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.starts_with("Name:\tgqstep")
                && status.contains(&format!("\nUid:\t{}\t", ann.uid))
                && ended(&job)
        })
    });
    as_user(&ann, || kill(Pid::from_raw(errand), Signal::SIGSTOP)).unwrap();
    assert_eq!(submit(&lab, &ben, &["--gpus=1", "--wrap", "true"]).ended(), End::Completed);
    assert_eq!(job.ended(), End::Completed);
    let runs = lab.dir().join("node");
    until("what is left of it is gone", || {
        let found = std::process::Command::new("find").arg(&runs).args(["-name", "deep"]).output().unwrap();
        found.stdout.is_empty().then_some(())
    });
}

fn ended(job: &crate::lab::Job<'_>) -> bool {
    job.view()["state"] == "COMPLETING"
}

/// Of what was begun the rest is due at once; whoever has said nothing yet may take his time.
#[test]
fn half_a_question_is_not_waited_for_as_long_as_none() {
    let lab = Plan::new().start();
    let (mut half, mut silent) = (socket(&lab), socket(&lab));
    half.write_all(&[0, 0, 0]).unwrap();
    let begun = Instant::now();
    assert_eq!(half.read(&mut [0; 1]).unwrap(), 0, "the connection is closed");
    assert!(begun.elapsed() > Duration::from_secs(1), "but not before there was time to say it");
    let words = asked(&json!("Ping"));
    silent.write_all(&(words.len() as u32).to_le_bytes()).unwrap();
    silent.write_all(words.as_bytes()).unwrap();
    assert_eq!(kind(&answer(&mut silent).unwrap()), "taken");
}

/// Files that are passed along with what is asked do not stay open, in a connection that lives on.
#[test]
fn files_passed_along_do_not_pile_up() {
    let Some((lab, ann, ben)) = installation() else { return };
    let open_files = || fs::read_dir(format!("/proc/{}/fd", lab.gqd.pid())).unwrap().count();
    let before = open_files();
    let text = asked(&json!("Ping"));
    let stream = as_user(&ann, || {
        let (mut stream, null) = (socket(&lab), File::open("/dev/null").unwrap());
        let fds = [null.as_raw_fd(); 200];
        let (head, along) = ((text.len() as u32).to_le_bytes(), [ControlMessage::ScmRights(&fds)]);
        for _ in 0..50 {
            let whole = [IoSlice::new(&head), IoSlice::new(text.as_bytes())];
            sendmsg::<()>(stream.as_raw_fd(), &whole, &along, MsgFlags::empty(), None).unwrap();
            assert_eq!(answer(&mut stream).as_ref().map(kind), Some("taken"));
        }
        stream
    });
    assert!(open_files() < before + 20, "{} files, {before} before", open_files());
    drop(stream);
    is_answered(&lab, &ben);
}

/// Where there are few files, and users enough to hold every place, whoever has most gives one up.
#[test]
fn users_who_hold_every_place_give_one_up_to_who_has_none() {
    let Some((lab, ..)) = installation() else { return };
    let Some(users) = accounts(["bin", "sys", "man", "lp", "mail"]) else { return };
    lab.gqd.stop();
    lab.gqd.launch_under(&["sh", "-c", "ulimit -n 96; exec \"$@\"", "sh"], &[]);
    lab.gqd.wait_for_answer();
    let [last, rest @ ..] = &users;
    let connect = |user| as_user(user, || [socket(&lab), socket(&lab)]);
    // Each is answered, so that it is inside and no longer at the door.
    let mut open: Vec<UnixStream> = rest.iter().flat_map(connect).collect();
    let ping = asked(&json!("Ping"));
    let inside = |stream: &mut UnixStream| {
        let sent = stream
            .write_all(&(ping.len() as u32).to_le_bytes())
            .and_then(|()| stream.write_all(ping.as_bytes()));
        sent.is_ok() && answer(stream).is_some_and(|told| kind(&told) == "taken")
    };
    assert!(open.iter_mut().all(inside), "eight places, two for each");
    assert_eq!(kind(&as_user(&rest[0], || ask(&lab, &json!("Ping")))), "Unreachable", "and no third");
    is_answered(&lab, last);
    assert!(open.iter_mut().filter_map(|stream| inside(stream).then_some(())).count() >= 5);
}

/// The longest that somebody waits while another one does his worst, in full size. By hand: it takes a minute, and is told in time.
#[test]
#[ignore = "takes a minute, and tells times: cargo test --test it -- --ignored --nocapture at_full_size"]
fn at_full_size_nobody_waits_a_second() {
    let Some((lab, ann, ben)) = installation() else { return };
    let time = |what: &str| {
        let mut worst = Duration::ZERO;
        for _ in 0..20 {
            let begin = Instant::now();
            submit(&lab, &ben, &["--wrap", "true"]);
            worst = worst.max(begin.elapsed());
        }
        println!("{what}: {worst:?} for the slowest of 20 submissions");
        assert!(worst < Duration::from_secs(1), "{what}: {worst:?}");
    };
    time("alone");
    as_user(&ann, || {
        for n in 0..100_000u32 {
            let name = if n % 2 == 0 { format!("{n:032x}.job") } else { format!("junk\n{n}") };
            fs::write(drop_box(&lab).join(name), b"junk").unwrap();
        }
    });
    time("beside 100,000 files");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                as_user(&ann, || {
                    let mut held = Vec::new();
                    for n in 0..10_000 {
                        if stop.load(std::sync::atomic::Ordering::Relaxed) {
                            return;
                        }
                        let Ok(mut stream) = UnixStream::connect(lab.dir().join("run/gqd.sock")) else {
                            continue;
                        };
                        let _ = stream.write_all(&[0, 0, 1, 0, b'x']);
                        if n % 40 == 0 {
                            held.push(stream);
                        }
                    }
                });
            });
        }
        time("while 10,000 connections come and go, and 1,000 stay");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Where nothing bounds how many processes a run has, this would be the end of the machine.
    let unbound = lab.node_view("n1").unwrap()["unbound"].clone();
    assert!(!unbound.as_array().unwrap().contains(&json!("processes")), "{unbound}");
    let bomb = submit(&lab, &ann, &["--wrap", "f() { f | f & }; f; sleep 600"]).running();
    for _ in 0..5 {
        time("beside a fork bomb");
    }
    as_user(&ann, || ask(&lab, &json!({"Cancel": {"select": {"users": [ann.uid]}}})));
    assert_eq!(bomb.ended(), End::Cancelled);
}
