//! What is asked of a job's life: arrays, dependencies, times, warnings, retries, messages, and a job once more.

use crate::{NOW, Try, limits, lines, words};
use gq_ask::{Failed, read_change, read_signal};
use gq_model::{
    ArrayAsk, Change, IndexSet, JobSpec, MailOn, MaxWait, MemoryAsk, MiB, Requeue, RetryAsk, Seconds,
    SignalAsk, TimeAsk, Timestamp, WaitEnd,
};
use jiff::tz::TimeZone;
use std::ffi::OsString;

const PREP: &[u8] = b"#!/bin/sh\nfetch\n";

#[test]
fn every_option_of_a_jobs_life_reaches_its_place_from_all_three_places() {
    let text = "-a 1-9:2%3 -d afterok:17:18_[0-3],singleton --kill-on-invalid-dep=no --prep=get.sh --time-min=5 -t 1:00:00 \
                --deadline=now+2hours --signal=B:USR1@90 --max-wait=4:00:00:Boost --no-requeue --retry=3:75,1,75 \
                --checkpoint=ck/%A --get-user-env=30L --propagate=NOFILE --container=pytorch.sif \
                --mail-type=end,TIME_LIMIT_90,array_tasks --mail-user=ann@lab.example --idle-ok=licence";
    let files = || vec![("get.sh", PREP)];
    let argv = text.split_whitespace().chain(["s.sh"]).map(OsString::from).collect();
    let typed = Try { argv, files: files(), ..Try::default() }.submit().unwrap();
    let spec = &typed.spec;
    let array = spec.array.as_ref().unwrap();
    assert_eq!((array.to_string().as_str(), array.tasks.len(), array.at_once), ("1-9:2%3", 5, Some(3)));
    assert_eq!(
        spec.dependency.as_ref().unwrap().to_string(),
        "afterok:17,afterok:18_[0-3],singleton",
        "one term for each job"
    );
    assert_eq!((spec.kill_on_invalid_dep, spec.requeue), (Some(false), Some(Requeue::Never)));
    assert_eq!((typed.prep.as_slice(), spec.prep), (PREP, true));
    assert_eq!((spec.time_min, spec.time_limit), (Some(Seconds(300)), Some(TimeAsk::Limit(Seconds(3600)))));
    assert_eq!(spec.deadline, Some(Timestamp::from_secs(NOW + 7200)));
    assert_eq!(spec.signal, Some(SignalAsk { signal: 10, before: Seconds(90), batch: true }));
    assert_eq!(spec.max_wait, Some(MaxWait { after: Seconds(14_400), then: WaitEnd::Boost }));
    assert_eq!(spec.retry, Some(RetryAsk { times: 3, exits: vec![1, 75] }));
    assert_eq!((spec.checkpoint.as_deref(), spec.get_user_env), (Some("ck/%A"), Some(Seconds(30))));
    assert_eq!(spec.limits, &limits()[1..]);
    assert_eq!(spec.container.as_deref(), Some("pytorch.sif"));
    let mail = spec.mail.as_ref().unwrap();
    assert_eq!(mail.on, [MailOn::End, MailOn::Ninety, MailOn::EachTask]);
    assert_eq!((mail.to.as_deref(), spec.idle_ok.as_deref()), (Some("ann@lab.example"), Some("licence")));

    let argv = || vec![OsString::from("s.sh")];
    let script = format!("#!/bin/sh\n#SBATCH {text}\n").into_bytes();
    let written = Try { argv: argv(), script, files: files(), ..Try::default() }.submit().unwrap();
    assert_eq!((&written.spec, &written.prep), (spec, &typed.prep));

    let variables = vec![
        ("GQSUB_ARRAY", "1-9:2%3"),
        ("GQSUB_DEPENDENCY", "afterok:17:18_[0-3],singleton"),
        ("GQSUB_KILL_ON_INVALID_DEP", "no"),
        ("GQSUB_PREP", "get.sh"),
        ("GQSUB_TIME_MIN", "5"),
        ("GQSUB_TIME", "60"),
        ("GQSUB_DEADLINE", "now+2hours"),
        ("GQSUB_SIGNAL", "B:USR1@90"),
        ("GQSUB_MAX_WAIT", "4h:boost"),
        ("GQSUB_NO_REQUEUE", "1"),
        ("GQSUB_RETRY", "3:1,75"),
        ("GQSUB_CHECKPOINT", "ck/%A"),
        ("GQSUB_GET_USER_ENV", "30"),
        ("GQSUB_PROPAGATE", "RLIMIT_NOFILE"),
        ("GQSUB_CONTAINER", "pytorch.sif"),
        ("GQSUB_MAIL_TYPE", "END,TIME_LIMIT_90,ARRAY_TASKS"),
        ("GQSUB_MAIL_USER", "ann@lab.example"),
        ("GQSUB_IDLE_OK", "licence"),
    ];
    let set = Try { argv: argv(), variables, files: files(), ..Try::default() }.submit().unwrap();
    assert_eq!((&set.spec, &set.prep), (spec, &typed.prep));
}

#[test]
fn what_is_not_said_is_left_to_the_conf() {
    let spec = words(&[]).unwrap().spec;
    assert_eq!(spec.limits, limits());
    let said = JobSpec {
        name: spec.name.clone(),
        work_dir: spec.work_dir.clone(),
        submit_dir: spec.submit_dir.clone(),
        submit_host: spec.submit_host.clone(),
        command: spec.command.clone(),
        umask: spec.umask,
        limits: limits(),
        ..JobSpec::default()
    };
    assert_eq!(spec, said);
}

#[test]
fn short_forms_mean_what_slurm_means_by_them() {
    let spec = |words: &[&str]| crate::words(words).unwrap().spec;
    for (text, signal, before, batch) in [
        ("USR1", 10, 60, false),
        ("SIGUSR1@0", 10, 0, false),
        ("15@180", 15, 180, false),
        ("B:term@60", 15, 60, true),
        ("B:SIGUSR1@15", 10, 15, true),
        ("64@65535", 64, 65_535, false),
    ] {
        let want = SignalAsk { signal, before: Seconds(before), batch };
        assert_eq!(spec(&["--signal", text]).signal, Some(want), "{text}");
    }
    for (text, after, then) in [
        ("90s", 90, WaitEnd::Notify),
        ("2-0", 172_800, WaitEnd::Notify),
        ("5:30", 330, WaitEnd::Notify),
        ("5:30:cancel", 330, WaitEnd::Cancel),
        ("2d:NOTIFY", 172_800, WaitEnd::Notify),
    ] {
        assert_eq!(
            spec(&["--max-wait", text]).max_wait,
            Some(MaxWait { after: Seconds(after), then }),
            "{text}"
        );
    }
    let on = |list: &str| spec(&["--mail-type", list]).mail.map(|mail| mail.on);
    let all = [MailOn::Begin, MailOn::End, MailOn::Fail, MailOn::Requeue, MailOn::Idle];
    assert_eq!(on("ALL").as_deref(), Some(&all[..]));
    assert_eq!(on("fail,all,END").as_deref(), Some(&all[..]));
    assert_eq!(on("TIME_LIMIT,TIME_LIMIT_50"), Some(vec![MailOn::End, MailOn::Half]));
    assert_eq!((on("NONE"), on("none")), (None, None));
    assert_eq!(spec(&["--mail-user=ann"]).mail, None, "nothing is sent unless it is said about what");
    assert_eq!(spec(&["--checkpoint"]).checkpoint.as_deref(), Some(""));
    assert_eq!(spec(&["--get-user-env"]).get_user_env, Some(Seconds(10)));
    assert_eq!(spec(&["--get-user-env=L"]).get_user_env, Some(Seconds(10)));
    assert_eq!(spec(&["--retry=0"]).retry, None);
    assert_eq!(spec(&["--retry=2"]).retry, Some(RetryAsk { times: 2, exits: vec![] }));
    for (text, count) in
        [("--propagate", 2), ("--propagate=ALL", 2), ("--propagate=none", 0), ("--propagate=Core,STACK", 1)]
    {
        assert_eq!(spec(&[text]).limits.len(), count, "{text}");
    }
    assert_eq!(spec(&["--requeue"]).requeue, Some(Requeue::Dead));
    assert_eq!(spec(&["--requeue", "--no-requeue"]).requeue, Some(Requeue::Never), "the last one counts");
    assert_eq!(spec(&["-a", "[3,4,9]"]).array.unwrap().tasks.to_string(), "3-4,9");
    assert!(words(&["--array=0-99", "--test-run=1s"]).is_ok());
    for (text, number) in [("TERM", 15), ("sigkill", 9), ("31", 31)] {
        assert_eq!(read_signal(text).unwrap(), number);
    }
}

#[test]
fn a_job_runs_again_as_it_is_said() {
    let asked = |words: &[&str]| {
        let argv = words.iter().chain(&["s.sh"]).map(OsString::from).collect();
        Try { argv, ..Try::default() }.submit().map(|job| job.spec.requeue)
    };
    for (words, requeue) in [
        (&[][..], None),
        (&["--requeue"], Some(Requeue::Dead)),
        (&["--requeue=on-lost"], Some(Requeue::OnLost)),
        (&["--requeue=on-lost", "--no-requeue"], Some(Requeue::Never)),
        (&["--no-requeue", "--requeue"], Some(Requeue::Dead)),
    ] {
        assert_eq!(asked(words).unwrap(), requeue, "{words:?}");
    }
    assert!(asked(&["--requeue=whenever"]).is_err());
}

#[test]
fn the_last_of_a_higher_place_counts_for_switches_that_have_two_names() {
    let script = b"#!/bin/sh\n#SBATCH --no-requeue\n#SBATCH --array=0-9\n".to_vec();
    let argv = ["--requeue", "--each=f", "s.sh"].map(OsString::from).to_vec();
    let files = vec![("f", b"a\nb".as_slice())];
    let job = Try { argv, script, files, ..Try::default() }.submit().unwrap();
    assert_eq!(job.spec.requeue, Some(Requeue::Dead));
    assert_eq!(
        job.spec.array,
        Some(ArrayAsk::of(IndexSet::range(0, 1), None)),
        "the command line's, not the script's"
    );
    let script = b"#!/bin/sh\n#GQ --each=f\n".to_vec();
    let argv = ["--array=5", "s.sh"].map(OsString::from).to_vec();
    let job = Try { argv, script, ..Try::default() }.submit().unwrap();
    assert_eq!((job.spec.array.unwrap().to_string().as_str(), job.items.len()), ("5", 0));
}

#[test]
fn each_line_of_a_file_is_a_task() {
    let each = |bytes: &[u8]| {
        let argv = ["--each=frames", "--array=%2", "s.sh"].map(OsString::from).to_vec();
        Try { argv, files: vec![("frames", bytes)], ..Try::default() }.submit()
    };
    for (bytes, items) in [
        (b"a\nb c\n".as_slice(), vec!["a", "b c"]),
        (b"a\nb", vec!["a", "b"]),
        (b"\n\nx\n\n", vec!["", "", "x", ""]),
        (b"one", vec!["one"]),
        (b"\n", vec![""]),
    ] {
        let job = each(bytes).unwrap();
        assert_eq!(job.items, items.iter().map(|item| item.as_bytes()).collect::<Vec<_>>());
        let last = items.len() as u32 - 1;
        assert_eq!(job.spec.array, Some(ArrayAsk::of(IndexSet::range(0, last), Some(2))));
    }
    assert_eq!(each(b"\xff\xfe\n").unwrap().items, [b"\xff\xfe"], "any bytes");
    let long = vec![b'x'; (64 << 10) + 1];
    for (bytes, want) in [
        (b"".as_slice(), "--each=frames: the file is empty: an array has at least one task"),
        (b"a\r\nb\r\n", "frames:1: the line ends in CR LF, as on Windows"),
        (b"a\nb\0\n", "frames:2: a NUL byte: no variable can hold it"),
        (&long, "frames:1: 65537 bytes: 65536 at most"),
    ] {
        assert_eq!(each(bytes).unwrap_err(), want);
    }
    assert!(words(&["--each=nothing"]).unwrap_err().starts_with("--each=nothing: cannot read it: "));
}

#[test]
fn a_prep_script_is_checked_like_the_other_one() {
    let prep = |bytes: &[u8]| {
        let argv = ["--prep=get.sh", "s.sh"].map(OsString::from).to_vec();
        Try { argv, files: vec![("get.sh", bytes)], ..Try::default() }.submit()
    };
    assert!(prep(PREP).is_ok());
    assert!(prep(b"fetch\n").unwrap_err().starts_with("get.sh:1: the script does not begin with #!"));
    assert!(prep(b"#!/bin/sh\r\n").unwrap_err().starts_with("get.sh:1: the line ends in CR LF"));
    assert!(prep(b"").unwrap_err().starts_with("get.sh: the script is empty"));
}

#[test]
fn what_changes_nothing_is_taken_with_a_word_about_it() {
    let job = lines("#SBATCH --wckey=submitit\n#SBATCH --hint=nomultithread").unwrap();
    assert_eq!(
        job.warnings,
        [
            "--wckey=submitit in line 2 changes nothing: there are no workload keys here",
            "--hint=nomultithread in line 3 changes nothing: so it is anyway"
        ]
    );
    assert_eq!(words(&[]).unwrap().warnings, [""; 0]);
    assert_eq!(words(&["--wckey=submitit", "--quiet"]).unwrap().warnings, [""; 0]);
}

fn failed() -> Failed {
    let old = words(&[
        "-a",
        "10-19%4",
        "-d",
        "afterok:3",
        "-H",
        "--begin=now+1hour",
        "-p",
        "gpu",
        "-t",
        "60",
        "--mem=4G",
    ]);
    let items = (0..20).map(|n| format!("item {n}").into_bytes()).collect();
    Failed {
        spec: old.unwrap().spec,
        script: b"#!/bin/sh\nold\n".to_vec(),
        args: vec!["x y".into()],
        prep: PREP.to_vec(),
        items,
        tasks: "12-13,17".parse::<ArrayAsk>().unwrap().tasks,
        array: true,
    }
}

fn again(words: &[&str], old: Failed) -> Result<gq_ask::Submission, String> {
    let mut command = gq_ask::command();
    let argv = ["gqsub", "--rerun-failed=17"].iter().chain(words).map(OsString::from).collect();
    let line = gq_ask::read_command_line(&mut command, argv).map_err(|early| match early {
        gq_ask::Early::Shown(error) => error.to_string(),
        gq_ask::Early::Refused(error) => error.to_string(),
    })?;
    assert_eq!(line.rerun().map(|id| id.0), Some(17));
    let context = gq_ask::Context {
        now: Timestamp::from_secs(NOW),
        zone: &|| TimeZone::UTC,
        directory: std::path::Path::new("/elsewhere"),
        host: "other",
        umask: 0,
        limits: Vec::new(),
        read: &|_, _| Err(std::io::ErrorKind::NotFound.into()),
    };
    line.again(old, context).map_err(|e| e.to_string())
}

#[test]
fn what_failed_is_asked_for_once_more_as_it_was() {
    let job = again(&[], failed()).unwrap();
    let old = failed();
    let want = JobSpec {
        array: Some(ArrayAsk::of(old.tasks.clone(), Some(4))),
        dependency: None,
        begin: None,
        hold: false,
        ..old.spec.clone()
    };
    assert_eq!(job.spec, want);
    assert_eq!((&job.script, &job.args, &job.prep), (&old.script, &old.args, &old.prep));
    assert_eq!(job.items, old.items, "a task finds its own by its index");
    let plain = Failed { tasks: IndexSet::range(0, 0), array: false, items: vec![], ..failed() };
    let plain = Failed { spec: JobSpec { array: None, ..plain.spec }, ..plain };
    let job = again(&["--parsable", "--wait"], plain).unwrap();
    assert!(job.spec.array.is_none() && job.items.is_empty() && job.parsable && job.wait);
}

#[test]
fn some_can_be_said_anew_and_the_rest_is_refused_by_name() {
    let job = again(
        &[
            "-t",
            "2:00:00",
            "--mem-per-cpu=2G",
            "-p",
            "big",
            "--array=%9",
            "--retry=2",
            "-J",
            "once more",
            "-H",
        ],
        failed(),
    )
    .unwrap();
    assert_eq!(
        (job.spec.time_limit, job.spec.memory),
        (Some(TimeAsk::Limit(Seconds(7200))), MemoryAsk::PerCpu(MiB(2048)))
    );
    assert_eq!((job.spec.partition.as_deref(), job.spec.name.as_str()), (Some("big"), "once more"));
    assert_eq!((job.spec.array.unwrap().at_once, job.spec.hold), (Some(9), true));
    for (words, want) in [
        (&["--gpus=2"][..], "--gpus=2: cannot be said anew beside --rerun-failed"),
        (&["--export=NONE"], "--export=NONE: cannot be said anew beside --rerun-failed"),
        (&["--array=1-3"], "--array=1-3: the tasks are those that failed; only %N can be said, of an array"),
        (&["--each=f"], "--each=f: cannot be said anew beside --rerun-failed"),
        (&["--wrap=true"], "--rerun-failed=17: the job has its script: there can be no other"),
        (&["s.sh"], "--rerun-failed=17: the job has its script: there can be no other"),
    ] {
        assert_eq!(again(words, failed()).map(|job| job.spec).unwrap_err(), want);
    }
    assert!(words(&["--rerun-failed=x"]).unwrap_err().contains("expected a job's number"));
}

#[test]
fn changes_are_said_as_a_submission_says_them() {
    let now = Timestamp::from_secs(NOW);
    let read = |option: &str, text: &str| read_change(option, text, now, &|| TimeZone::UTC);
    for (option, text, change) in [
        ("time", "2:00:00", Change::TimeLimit(TimeAsk::Limit(Seconds(7200)))),
        ("time", "UNLIMITED", Change::TimeLimit(TimeAsk::Longest)),
        ("time", "+30", Change::TimeLimitBy(1800)),
        ("time", "-90s", Change::TimeLimitBy(-90)),
        ("priority", "-5", Change::Priority(-5)),
        ("partition", "gpu", Change::Partition("gpu".into())),
        ("array-throttle", "8", Change::AtOnce(Some(8))),
        ("array-throttle", "0", Change::AtOnce(None)),
        ("dependency", "afterok:17", Change::Dependency(Some("afterok:17".parse().unwrap()))),
        ("dependency", "", Change::Dependency(None)),
        ("name", "a b", Change::Name("a b".into())),
        ("comment", "", Change::Comment(String::new())),
        ("idle-ok", "debugging", Change::IdleOk("debugging".into())),
        ("idle-ok", "", Change::IdleOk(String::new())),
        ("nice", "7", Change::Nice(7)),
        ("begin", "now+1hour", Change::Begin(Some(Timestamp::from_secs(NOW + 3600)))),
        ("begin", "none", Change::Begin(None)),
        ("deadline", "now+1hour", Change::Deadline(Some(Timestamp::from_secs(NOW + 3600)))),
        ("requeue", "no", Change::Requeue(Requeue::Never)),
        ("requeue", "on-lost", Change::Requeue(Requeue::OnLost)),
    ] {
        assert_eq!(read(option, text).unwrap(), change, "{option} {text}");
    }
    for (option, text) in [
        ("time", "+"),
        ("time", "-0x"),
        ("priority", "high"),
        ("array-throttle", "-1"),
        ("dependency", "after"),
        ("name", ""),
        ("idle-ok", "a\nb"),
        ("name", "a\nb"),
        ("deadline", "2020-01-01"),
        ("requeue", ""),
        ("requeue", "lost"),
        ("gpus", "2"),
    ] {
        read(option, text).unwrap_err();
    }
}
