//! How arrays live: never more at a time than was said, each task by itself, whole through every crash, one record however many tasks.

use crate::{
    hooks::Site,
    lab::{Dice, Lab, Plan, cards, said, until},
};
use gq_model::{End, JobState};
use std::{
    fs,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// How many tasks of the only array are alive.
fn alive(lab: &Lab) -> usize {
    lab.list("").iter().filter(|task| task["state"] != "PENDING").count()
}

/// A task that tells when it begins and ends, and ends when it is told to.
const TOLD: &str = "echo + $GQ_ARRAY_TASK_ID >>log; until [ -e go.$GQ_ARRAY_TASK_ID ] || [ -e go ]; do sleep 0.02; done; \
                    echo - $GQ_ARRAY_TASK_ID >>log";

/// The most tasks that were alive together, as they told it themselves.
fn most_together(lab: &Lab) -> usize {
    let (mut now, mut most) = (0, 0);
    for line in lab.read("log").lines() {
        if line.starts_with('+') {
            now += 1;
        } else {
            now -= 1;
        }
        most = most.max(now);
    }
    most
}

/// B079: the limit of how many tasks run at a time was ignored.
#[test]
fn never_more_tasks_run_at_a_time_than_was_said() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("--array=0-59%5 -o /dev/null", "echo + >>log; sleep 0.03; echo - >>log");
    let mut seen = 0;
    until("nothing is left to do", || {
        let now = alive(&lab);
        assert!(now <= 5, "{now}");
        seen = seen.max(now);
        lab.list("").is_empty().then_some(())
    });
    assert_eq!(job.over()["ended"]["COMPLETED"], 60);
    assert!((2..=5).contains(&most_together(&lab)), "{}", lab.read("log"));
    assert!(seen > 1, "they ran side by side");
}

/// B079: also when the limit is changed while tasks run.
#[test]
fn how_many_tasks_run_at_a_time_changes_while_they_run() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("--array=0-19%4 -o /dev/null", TOLD);
    let begun = |count: usize| {
        until(&format!("{count} have begun"), || {
            let begun = lab.read("log").lines().filter(|line| line.starts_with('+')).count();
            assert!(begun <= count, "{}", lab.read("log"));
            (begun == count).then_some(())
        });
    };
    begun(4);
    assert!(lab.lines("").contains(&format!("{}_[4-19%4] PENDING", job.id)), "{:?}", lab.lines(""));
    lab.ctl(&format!("update {} --array-throttle=2", job.id));
    for task in [0, 1] {
        lab.file(&format!("go.{task}"), "");
    }
    until("two have ended", || (job.look()?["state"] == "COMPLETED" && alive(&lab) == 2).then_some(()));
    lab.file("go.2", "");
    begun(5);
    assert_eq!(alive(&lab), 2);
    lab.ctl(&format!("update {} --array-throttle=6", job.id));
    begun(9);
    assert_eq!(most_together(&lab), 6);
    lab.ctl(&format!("update {} --array-throttle=0", job.id));
    begun(19);
    lab.file("go", "");
    assert_eq!(job.over()["ended"]["COMPLETED"], 20);
    assert_eq!(most_together(&lab), 16, "as many as there are cpus");
    let plain = lab.submit("-H", "true");
    let said = lab.say(&format!("gqctl update {} --array-throttle=2", plain.id)).refused(1);
    assert!(said.contains("is no array"), "{said}");
}

/// B075: the task of index 0 was not listed.
#[test]
fn index_0_is_a_task_like_others() {
    let lab = Lab::with_cards(0);
    let one = lab.submit("-H --array=0 -o %A_%a", "echo $GQ_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT");
    let four = lab.submit("-H --array=0-3 -o %A_%a", "echo $GQ_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT");
    let (a, b) = (one.id, four.id);
    assert_eq!(lab.lines(""), [format!("{a}_[0] PENDING"), format!("{b}_[0-3] PENDING")]);
    assert_eq!(lab.lines(&format!("-r -j {b}"))[0], format!("{b}_0 PENDING"));
    lab.ctl("release --me");
    assert_eq!(
        (&one.over()["ended"]["COMPLETED"], &four.over()["ended"]["COMPLETED"]),
        (&1.into(), &4.into())
    );
    assert_eq!(lab.lines(&format!("-j {b}_0")), [format!("{b}_0 COMPLETED")]);
    assert_eq!(
        (lab.read(&format!("{a}_0")), lab.read(&format!("{b}_0"))),
        ("0 of 1\n".into(), "0 of 4\n".into())
    );
}

/// B077: odd ends and steps were taken.
#[test]
fn what_is_no_array_is_refused_and_an_array_has_a_bound() {
    let lab = Plan::new().node("n1", &cards(0)).scheduler("max_array_size = 10\nmax_job_count = 3").start();
    for form in [
        "1-234/5678",
        "1-4:99999999999",
        "0-4294967295",
        "1-4:0",
        "5-1",
        "1-",
        "-1",
        "1,,2",
        ",",
        "",
        "a",
        "0x1",
        "1.5",
        "1-2-3",
        "0-3%",
        "0-3%-1",
        "0-3%x",
        "0-3%2%2",
        "[1-2",
        "1-2]",
        "18446744073709551616",
        "1 2",
    ] {
        let said = lab.run("gqsub", &["--array", form, "--wrap", "true"]).refused(2);
        assert!(said.contains("--array"), "{form}: {said}");
    }
    let said = lab.run("gqsub", &["--array=0-10", "--wrap", "true"]).refused(1);
    assert!(said.contains("11 tasks") && said.contains("10") && said.contains("max_array_size"), "{said}");
    assert_eq!(lab.list("-t all").len(), 0, "nothing was taken");
    for _ in 0..3 {
        lab.submit("-H --array=4294967280-4294967289", "true");
    }
    let said = lab.run("gqsub", &["--wrap", "true"]).refused(1);
    assert!(said.contains("max_job_count"), "an array counts as one: {said}");
}

#[test]
fn a_task_knows_its_array_and_its_files_are_its_own() {
    let lab = Lab::with_cards(0);
    let command = "for name in ARRAY_JOB_ID ARRAY_TASK_ID ARRAY_TASK_COUNT ARRAY_TASK_MIN ARRAY_TASK_MAX ARRAY_TASK_STEP; do \
                   eval echo $name \\$GQ_$name \\$SLURM_$name; done; echo $GQ_JOB_ID; echo err >&2";
    let job = lab.submit("-J x/y --array=3-9:3%2 -o %x.%A_%3a -e err.%j.%a", command);
    let id = job.id;
    assert_eq!(job.over()["ended"]["COMPLETED"], 3);
    let text = |task| {
        format!(
            "ARRAY_JOB_ID {id} {id}\nARRAY_TASK_ID {task} {task}\nARRAY_TASK_COUNT 3 3\nARRAY_TASK_MIN 3 3\nARRAY_TASK_MAX 9 9\n\
             ARRAY_TASK_STEP 3 3\n{id}\n"
        )
    };
    for task in [3, 6, 9] {
        assert_eq!(lab.read(&format!("x_y.{id}_00{task}")), text(task));
        assert_eq!(lab.read(&format!("err.{id}.{task}")), "err\n");
    }
    let plain = lab.submit("", "echo ${GQ_ARRAY_TASK_ID-none} ${SLURM_ARRAY_JOB_ID-none}");
    assert_eq!(plain.output(), "none none\n");
}

/// B055: one task was to be cancelled, and the whole array was. B053: tasks named twice ended the server.
#[test]
fn only_the_tasks_that_are_named_are_cancelled() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("-H --array=0-20", "true");
    let id = job.id;
    assert_eq!(lab.say(&format!("gqcancel {id}_10")).code, 0);
    let seen = lab.lines("");
    assert_eq!(seen, [format!("{id}_[0-9,11-20] PENDING"), format!("{id}_[10] CANCELLED")]);
    assert_eq!(lab.say(&format!("gqcancel {id}_1 {id}_1 {id}_[1-3] {id}_[2,12]")).code, 0);
    assert_eq!(
        lab.lines(""),
        [format!("{id}_[0,4-9,11,13-20] PENDING"), format!("{id}_[1-3,10,12] CANCELLED")]
    );
    let said = lab.say(&format!("gqcancel {id}_[1-4]"));
    assert_eq!(said.code, 0, "some of them waited still: {said:?}");
    let said = lab.say(&format!("gqcancel {id}_99"));
    assert_ne!(said.code, 0, "{said:?}");
    assert_eq!(lab.say(&format!("gqcancel {id}_5 {id}_5 {id}_[5-7] {id}")).code, 0);
    assert_eq!(job.over()["ended"]["CANCELLED"], 21);
    assert!(lab.ctl("ping").contains("answers"));
}

#[test]
fn tasks_are_held_released_and_requeued_by_themselves() {
    let lab = Lab::with_cards(0);
    let job = lab.submit(
        "--array=0-5%2 -o /dev/null",
        "echo $GQ_ARRAY_TASK_ID $GQ_RUN >>runs; [ $GQ_RUN = 2 ] || [ -e go ] || sleep 600",
    );
    let id = job.id;
    until("two run", || (lab.read("runs").lines().count() == 2).then_some(()));
    lab.ctl(&format!("hold {id}_[3-5]"));
    lab.ctl(&format!("release {id}_4"));
    let mut held = lab.lines("");
    held.retain(|line| line.ends_with("PENDING"));
    assert_eq!(held, [format!("{id}_[2,4%2] PENDING"), format!("{id}_[3,5%2] PENDING")]);
    lab.say(&format!("gqctl hold {id}_0")).refused(1);
    lab.file("go", "");
    // One of them runs a second time, and nothing else of the array does.
    lab.ctl(&format!("requeue {id}_1"));
    until("one has run again", || lab.read("runs").contains("1 2\n").then_some(()));
    lab.ctl(&format!("requeue --hold {id}_0"));
    until("it waits, held", || lab.lines("").contains(&format!("{id}_[0,3,5%2] PENDING")).then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {id}_0")).code, 0);
    until("nothing runs", || lab.list("-t RUNNING,STARTING,COMPLETING").is_empty().then_some(()));
    let mut runs: Vec<String> = lab.read("runs").lines().map(str::to_owned).collect();
    runs.sort();
    assert_eq!(runs, ["0 1", "1 1", "1 2", "2 1", "4 1"]);
    lab.ctl(&format!("release {id}"));
    let over = job.over();
    assert_eq!((&over["ended"]["COMPLETED"], &over["ended"]["CANCELLED"]), (&5.into(), &1.into()), "{over}");
    let second = lab.list(&format!("-j {id}_1")).remove(0);
    assert_eq!((&second["run"], &second["restarts"]), (&2.into(), &1.into()), "{second}");
    lab.say(&format!("gqctl requeue {id}_1")).refused(1);
}

/// An array that was held as a whole could be released as a whole only.
#[test]
fn a_held_array_is_released_task_by_task() {
    let lab = Lab::with_cards(0);
    let command = "echo $GQ_ARRAY_TASK_ID >>ran; until [ -e go ]; do sleep 0.02; done";
    let job = lab.submit("-H --array=0-9%3 -o /dev/null", command);
    let id = job.id;
    let each = lab
        .submit(&format!("-H --array=0-9 -o /dev/null -d aftercorr:{id}"), "echo $GQ_ARRAY_TASK_ID >>second");
    lab.ctl(&format!("release {id}_3"));
    lab.ctl(&format!("release {id}_[5-8] {}_[3-4]", each.id));
    let ran = |file: &str| {
        let mut ran: Vec<String> = lab.read(file).lines().map(str::to_owned).collect();
        ran.sort();
        ran
    };
    until("as many run as may", || (ran("ran") == ["3", "5", "6"]).then_some(()));
    let waiting = [format!("{id}_[0-2,4,9%3] PENDING"), format!("{id}_[7-8%3] PENDING")];
    let pending = |id: u64| -> Vec<String> {
        lab.lines(&format!("-j {id}")).into_iter().filter(|line| line.ends_with("PENDING")).collect()
    };
    assert_eq!(pending(id), waiting);
    let reason = |task: String| lab.list(&format!("-j {task}"))[0]["reason"].clone();
    assert_eq!(reason(format!("{id}_4")), "JobHeldUser");
    assert_eq!(
        (reason(format!("{}_3", each.id)), reason(format!("{}_5", each.id))),
        ("Dependency".into(), "JobHeldUser".into())
    );
    // It is kept, and what was held whole again, with some of it running, is released in parts as before.
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(pending(id), waiting);
    lab.ctl(&format!("hold {id}"));
    lab.ctl(&format!("release {id}_[7,9]"));
    lab.file("go", "");
    until("what may has run", || (ran("ran") == ["3", "5", "6", "7", "9"]).then_some(()));
    until("its twin follows", || (ran("second") == ["3"]).then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {id}_[0-2,4] {}", each.id)).code, 0);
    lab.ctl(&format!("release {id}"));
    let over = job.over();
    assert_eq!((&over["ended"]["COMPLETED"], &over["ended"]["CANCELLED"]), (&6.into(), &4.into()), "{over}");
    assert_eq!(ran("ran"), ["3", "5", "6", "7", "8", "9"]);
}

/// B057: a task whose prolog failed took the whole array with it.
#[test]
fn a_task_that_cannot_start_concerns_itself_alone() {
    let site = Site::new();
    site.put("prolog.d/10-check", "[ \"$GQ_ARRAY_TASK_ID\" != 2 ] || exit 100");
    let lab = site.lab(0, "");
    fs::create_dir(lab.work("3")).unwrap();
    let job = lab.submit("--array=0-4 -o out.%a", "echo ran");
    let other = lab.submit("--array=3-4 -o %a/out", "echo ran");
    let over = job.over();
    assert_eq!((&over["ended"]["COMPLETED"], &over["ended"]["FAILED"]), (&4.into(), &1.into()), "{over}");
    let second = lab.list(&format!("-j {}_2", job.id)).remove(0);
    assert_eq!((&second["state"], &second["reason"]), (&"FAILED".into(), &"Prolog".into()), "{second}");
    assert!(!lab.work("out.2").exists());
    let over = other.over();
    assert_eq!((&over["ended"]["COMPLETED"], &over["ended"]["FAILED"]), (&1.into(), &1.into()), "{over}");
    assert_eq!(lab.list(&format!("-j {}_4", other.id))[0]["reason"], "OutputFile");
    assert_eq!(lab.node_view("n1").unwrap()["state"], "idle");
}

/// B017: an array whose submission was cut off by a crash was there in part, and the server stood still.
#[test]
fn an_array_is_wholly_there_or_not_at_all_whenever_gqd_dies() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(0);
    let mut printed = Vec::new();
    for round in 0..6 {
        let mut client = lab.client("gqsub");
        client.args(["--parsable", "-H", "--array=0-9999%7", "--wrap", "true"]);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_micros(dice.roll(20_000) as u64));
        lab.gqd.kill9();
        // The client asks for its answer again from the next life.
        lab.gqd.start();
        let said = said(&client.wait_with_output().unwrap());
        assert!([0, 3].contains(&said.code), "round {round}: {said:?}");
        printed.extend(said.out.trim().parse::<u64>().ok());
    }
    let began = Instant::now();
    let lines = lab.lines("");
    assert!(began.elapsed() < Duration::from_secs(2));
    for line in &lines {
        assert!(line.ends_with("_[0-9999%7] PENDING"), "{line}");
    }
    for id in &printed {
        assert!(lines.contains(&format!("{id}_[0-9999%7] PENDING")), "{id}: {lines:?}");
    }
    let last = lab.submit("-H --array=0-9999", "true");
    assert_eq!(lab.lines("").len(), lines.len() + 1);
    assert_eq!(lab.say(&format!("gqcancel {}", last.id)).code, 0);
}

/// Both daemons die again and again in the middle of an array.
#[test]
fn every_task_runs_exactly_once_whoever_dies_meanwhile() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(0);
    let job = lab.submit(
        "--array=0-79%12 -o /dev/null",
        "echo $GQ_ARRAY_TASK_ID >>runs; sleep 0.0$((GQ_ARRAY_TASK_ID % 7))",
    );
    let runs = || lab.read("runs").lines().count();
    for (round, at) in [3, 20, 40, 60].into_iter().enumerate() {
        until("some have run", || (runs() >= at).then_some(()));
        thread::sleep(Duration::from_millis(dice.roll(20) as u64));
        let (gqd, node) = (&lab.gqd, lab.node("n1"));
        if round % 2 == 0 {
            gqd.kill9();
            node.kill9();
            node.start();
            gqd.start();
        } else {
            gqd.kill9();
            gqd.start();
        }
    }
    let over = job.over();
    assert_eq!(over["ended"]["COMPLETED"], 80, "{over}");
    let mut ran: Vec<u32> = lab.read("runs").lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..80).collect::<Vec<_>>());
    assert_eq!(lab.lines(""), [format!("{}_[0-79] COMPLETED", job.id)]);
}

/// How much the files below a folder take, in bytes.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_million_tasks_are_one_record_and_go_with_one_word() {
    let lab = Lab::with_cards(0);
    lab.submit("-H", "true");
    let kept = || size(&lab.dir().join("state")) + size(&lab.dir().join("spool"));
    let before = kept();
    // A log of the database that is put away leaves less than there was.
    let more = || kept().saturating_sub(before);
    let job = lab.submit("-H --array=0-999999%64", "true");
    assert!(more() < 2 << 20, "{} bytes", more());
    let id = job.id;
    assert_eq!(lab.lines(&format!("-j {id}")), [format!("{id}_[0-999999%64] PENDING")]);
    let began = Instant::now();
    assert_eq!(lab.say(&format!("gqcancel {id}_[1000-999999]")).code, 0);
    assert_eq!(lab.say(&format!("gqcancel {id}")).code, 0);
    assert_eq!(job.over()["ended"]["CANCELLED"], 1_000_000);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(lab.lines(&format!("-j {id}")), [format!("{id}_[0-999999] CANCELLED")]);
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(job.over()["ended"]["CANCELLED"], 1_000_000);
    assert!(more() < 4 << 20, "{} bytes", more());
}

/// Lines of any bytes come as they are; what no variable can hold is refused.
#[test]
fn a_line_of_any_bytes_is_a_task() {
    let lab = Lab::with_cards(0);
    let lines: [&[u8]; 7] =
        [b"caf\xe9 \xff", b"\x1b[31m", b"  two  blanks ", b"*", b"-n", b"'\"\\$(id)`id`", b"a\tb=c"];
    lab.file("items", lines.join(&b'\n'));
    let job = lab.submit("--each=items -o /dev/null", "printf %s \"$GQ_ITEM\" >item.$GQ_ARRAY_TASK_ID");
    assert_eq!(job.over()["ended"]["COMPLETED"], 7);
    for (task, line) in lines.iter().enumerate() {
        assert_eq!(fs::read(lab.work(format!("item.{task}"))).unwrap(), *line, "{task}");
    }
    lab.file("nul", b"a\nb\0c\n");
    let said = lab.run("gqsub", &["--each=nul", "--wrap", "true"]).refused(2);
    assert!(said.contains("nul:2"), "{said}");
}

/// The worst task's code, whichever came last; a task that was killed has no code of its own.
#[test]
fn who_waits_for_an_array_gets_the_code_of_its_worst_task() {
    let lab = Lab::with_cards(0);
    let wait = |command: &str| {
        lab.run("gqsub", &["--wait", "--parsable", "--array=0-3%1", "-o", "/dev/null", "--wrap", command])
    };
    assert_eq!(wait("exit $((GQ_ARRAY_TASK_ID == 1 ? 7 : GQ_ARRAY_TASK_ID))").code, 7);
    assert_eq!(wait("[ $GQ_ARRAY_TASK_ID != 2 ] || kill -9 $$").code, 137);
    assert_eq!(wait("true").code, 0);
    let job = lab.submit("-H", "true");
    assert_eq!((job.state(), job.id), (JobState::Pending, 4), "each was one job");
    assert_eq!(lab.say("gqcancel --me").code, 0);
    assert_eq!(job.ended(), End::Cancelled);
}
