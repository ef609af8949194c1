//! A job's environment: what its user chose arrives byte for byte, and nothing else does.

use crate::lab::{Lab, Plan, cards, finish, until};
use gq_model::End;
use std::{collections::BTreeMap, ffi::OsString, fs, os::unix::ffi::OsStringExt, process::Command};

type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// Submits `env -0` with these options and variables, and returns what the job saw.
#[track_caller]
fn seen(lab: &Lab, options: &[&str], variables: &[(&str, &[u8])]) -> Variables {
    let mut command = lab.client("gqsub");
    command.args(["--parsable"]).args(options).args(["--wrap", "/usr/bin/env -0 >seen"]);
    for (name, value) in variables {
        command.env(name, OsString::from_vec(value.to_vec()));
    }
    let job = lab.job(&finish(&mut command).ok());
    assert_eq!(job.ended(), End::Completed, "{}", job.view());
    let bytes = fs::read(lab.work("seen")).unwrap();
    let entries = bytes.split(|b| *b == 0).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let at = entry.iter().position(|b| *b == b'=').unwrap();
            (entry[..at].to_vec(), entry[at + 1..].to_vec())
        })
        .collect()
}

/// B100: the job sees the bytes that the submitting shell had.
#[test]
fn odd_bytes_arrive_as_they_were() {
    let lab = Lab::with_cards(0);
    let large = vec![b'x'; 100_000];
    let odd: [(&str, &[u8]); 8] = [
        ("BACKSLASH", b"a\\b\\\\c"),
        ("LINES", b"one\ntwo\n"),
        ("COMMA", b"a,b=c,"),
        ("QUOTES", b"'\"`$(id)"),
        ("EMPTY", b""),
        ("LARGE", &large),
        ("NOT_UTF8", b"\xff\xfe\x80"),
        ("WIDE", "\u{1f600} \u{202e}".as_bytes()),
    ];
    for options in
        [&[][..], &["--export=ALL"], &["--export", "BACKSLASH,LINES,COMMA,QUOTES,EMPTY,LARGE,NOT_UTF8,WIDE"]]
    {
        let job = seen(&lab, options, &odd);
        for (name, value) in &odd {
            assert!(job.get(name.as_bytes()).is_some_and(|seen| seen == value), "{options:?} {name}");
        }
    }
}

#[test]
fn what_is_exported_is_what_was_asked() {
    let lab = Lab::with_cards(0);
    let mine: [(&str, &[u8]); 2] = [("MINE", b"1"), ("OTHER", b"2")];
    let get = |job: &Variables, name: &str| {
        job.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    let all = seen(&lab, &["--export=ALL,K=a b,MINE=3"], &mine);
    assert_eq!(get(&all, "K").as_deref(), Some("a b"));
    assert_eq!((get(&all, "MINE").as_deref(), get(&all, "OTHER").as_deref()), (Some("3"), Some("2")));
    let none = seen(&lab, &["--export=NONE"], &mine);
    assert_eq!((get(&none, "MINE"), get(&none, "OTHER")), (None, None));
    for name in ["PATH", "HOME", "USER", "SHELL", "GQ_JOB_ID", "SLURM_JOB_ID"] {
        assert!(get(&none, name).is_some(), "{name}");
    }
    let some = seen(&lab, &["--export=K=v,OTHER,ABSENT"], &mine);
    assert_eq!((get(&some, "K").as_deref(), get(&some, "OTHER").as_deref()), (Some("v"), Some("2")));
    assert_eq!((get(&some, "MINE"), get(&some, "ABSENT")), (None, None));
    // What came last counts, and a job's own variables are nobody's to set.
    let last = seen(&lab, &["--export=NONE", "--export=ALL,GQ_JOB_ID=7,SLURM_JOB_ID=7"], &mine);
    assert_eq!(get(&last, "MINE").as_deref(), Some("1"));
    assert!(get(&last, "GQ_JOB_ID").is_some_and(|id| id == get(&last, "SLURM_JOB_ID").unwrap() && id != "7"));
    let of_variable = {
        let mut command = lab.client("gqsub");
        command.env("GQSUB_EXPORT", "NONE").env("MINE", "1");
        command.args(["--parsable", "--wrap", "echo ${MINE-none}"]);
        lab.job(&finish(&mut command).ok()).output()
    };
    assert_eq!(of_variable, "none\n");
    for bad in ["--export==v", "--export=A B=c", "--export=NONE,A=b"] {
        lab.run("gqsub", &[bad, "--wrap", "true"]).refused(2);
    }
}

/// What a login shell of this account says of itself; none when it has none that does.
fn login() -> Option<(String, String)> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap();
    let mut shell = Command::new(&user.shell);
    shell
        .env_clear()
        .env("HOME", &user.dir)
        .env("USER", &user.name)
        .env("LOGNAME", &user.name)
        .current_dir("/");
    let said = finish(shell.env("SHELL", &user.shell).args(["-l", "-c", "echo $PATH; echo $HOME"]));
    let mut lines = said.out.lines().rev().map(str::to_owned);
    let home = lines.next()?;
    Some((lines.next()?, home))
}

/// B108: a login of a job left processes behind. (That one which hangs costs a job nothing is told of the supervisor alone.)
#[test]
fn a_job_may_have_the_environment_of_a_login() {
    let lab = Lab::with_cards(0);
    let Some((path, home)) = login() else { return };
    let get = |job: &Variables, name: &str| {
        job.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    for options in [&["--export=NONE", "--get-user-env"][..], &["--export=NONE", "--get-user-env=20L"]] {
        let job = seen(&lab, options, &[("MINE", b"1")]);
        assert_eq!((get(&job, "PATH"), get(&job, "HOME")), (Some(path.clone()), Some(home.clone())));
        assert_eq!((get(&job, "MINE"), get(&job, "GQ_LOGIN_ENVIRONMENT")), (None, None));
    }
    let job = seen(&lab, &["--export=MINE,PATH=/usr/bin:/bin", "--get-user-env"], &[("MINE", b"1")]);
    assert_eq!(get(&job, "MINE").as_deref(), Some("1"));
    assert_eq!(get(&job, "PATH").as_deref(), Some("/usr/bin:/bin"), "what was chosen goes before it");
    until("its processes are gone", || (lab.processes().len() == 2).then_some(()));
    lab.run("gqsub", &["--get-user-env=soon", "--wrap", "true"]).refused(2);
}

#[test]
fn what_slurm_sets_only_when_it_is_asked_for_is_set_only_then() {
    let lab = Lab::with_cards(2);
    let slurm = |job: &Variables, name: &str| {
        job.get(format!("SLURM_{name}").as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    let asked: &[(&str, &str, &str)] = &[
        ("--ntasks=2", "NTASKS", "2"),
        ("--ntasks=2", "NPROCS", "2"),
        ("--ntasks-per-node=3", "NTASKS_PER_NODE", "3"),
        ("--ntasks-per-node=3", "NTASKS", "3"),
        ("-c2", "CPUS_PER_TASK", "2"),
        ("--gpus=2", "GPUS", "2"),
        ("--gpus=2", "JOB_GPUS", "0,1"),
        ("--gpus-per-node=1", "GPUS_PER_NODE", "1"),
        ("--gpus-per-task=1", "GPUS_PER_TASK", "1"),
        ("--mem=3G", "MEM_PER_NODE", "3072"),
        ("--mem-per-cpu=1G", "MEM_PER_CPU", "1024"),
        ("-A physics", "JOB_ACCOUNT", "physics"),
    ];
    let plain = seen(&lab, &[], &[]);
    for (_, name, _) in asked {
        assert_eq!(slurm(&plain, name), None, "{name}");
    }
    for name in
        ["ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "RESTART_COUNT", "GPUS_ON_NODE", "JOB_QOS"]
    {
        assert_eq!(slurm(&plain, name), None, "{name}");
    }
    let all = "--ntasks=2 -c2 --gpus=2 --mem=3G -A physics";
    for options in [all, "--ntasks-per-node=3 --gpus-per-node=1 --mem-per-cpu=1G", "--gpus-per-task=1 -n1"] {
        let words: Vec<&str> = options.split(' ').collect();
        let job = seen(&lab, &words, &[]);
        for (option, name, value) in asked.iter().filter(|(option, ..)| options.contains(option)) {
            assert_eq!(slurm(&job, name).as_deref(), Some(*value), "{option} {name}");
        }
    }
}

/// Its user's alone while the job lives; and with it goes whatever is in it.
#[test]
fn a_private_folder_is_the_jobs_own_and_is_gone_with_it() {
    let lab = Lab::with_cards(0);
    let command = "[ $GQ_TMPDIR = $SLURM_TMPDIR ] || exit 9; cd $GQ_TMPDIR; ls -A; mkdir -p a/b; echo secret >a/b/file\n\
                   ln -s /etc/passwd link; chmod 0 a; stat -c '%a %u' .; pwd; until [ -e $GQ_SUBMIT_DIR/go ]; do sleep 0.02; done";
    let jobs = [lab.submit("", command), lab.submit("", command)];
    let own = nix::unistd::getuid();
    let folders = jobs.map(|job| {
        let said =
            until("it has said where", || Some(job.running().out()).filter(|said| said.lines().count() == 2));
        let (mode, folder) = said.trim_end().split_once('\n').unwrap();
        assert_eq!(mode, format!("700 {own}"), "and nothing was in it");
        assert!(fs::symlink_metadata(format!("{folder}/link")).is_ok());
        folder.to_owned()
    });
    assert_ne!(folders[0], folders[1]);
    lab.file("go", "");
    for (job, folder) in jobs.iter().zip(&folders) {
        assert_eq!(job.ended(), End::Completed, "{}", job.view());
        let left = fs::read_dir(folder).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{folder}");
    }
    assert!(fs::metadata("/etc/passwd").is_ok(), "no link was followed");
    let next = lab.submit("", "ls -A $GQ_TMPDIR | wc -l");
    assert_eq!(next.output(), "0\n");
}

/// B102: what the daemons have in their environment stays there.
#[test]
fn nothing_of_the_daemons_reaches_a_job() {
    let lab = Plan::new().gqd_env("SECRET", "1").node("n1", &cards(0)).env("SECRET", "2").start();
    for options in [&[][..], &["--export=NONE"]] {
        let job = seen(&lab, options, &[]);
        assert_eq!(job.get(&b"SECRET"[..]), None);
        // What another job left behind does not reach it either.
        let job = seen(
            &lab,
            options,
            &[
                ("SLURM_ARRAY_TASK_ID", b"7"),
                ("SLURM_NTASKS", b"9"),
                ("SLURM_JOB_ID", b"1"),
                ("CUDA_VISIBLE_DEVICES", b"5"),
            ],
        );
        assert_eq!((job.get(&b"SLURM_ARRAY_TASK_ID"[..]), job.get(&b"SLURM_NTASKS"[..])), (None, None));
        assert_ne!(job.get(&b"SLURM_JOB_ID"[..]), Some(&b"1".to_vec()));
        assert_eq!(job.get(&b"CUDA_VISIBLE_DEVICES"[..]), Some(&Vec::new()));
    }
}

/// B104: a client needs no environment at all.
#[test]
fn an_empty_environment_is_enough() {
    let lab = Lab::with_cards(0);
    let conf = lab.conf();
    let mut command = lab.client("gqsub");
    command.env_clear().arg("--conf").arg(conf).args(["--parsable", "--wrap", "true"]);
    assert_eq!(lab.job(&finish(&mut command).ok()).ended(), End::Completed);
    let mut command = lab.client("gqstat");
    assert_eq!(finish(command.env_clear().arg("--conf").arg(lab.conf())).code, 0);
}

/// Submits from a shell that has these limits.
#[track_caller]
fn under_limits<'a>(lab: &'a Lab, set: &str, words: &[&str]) -> crate::lab::Job<'a> {
    let gqsub = lab.client("gqsub");
    let mut shell = Command::new("/bin/sh");
    for (name, value) in gqsub.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(lab.work("")).arg("-c").arg(format!("{set}; exec \"$@\"")).arg("sh");
    shell.arg(gqsub.get_program()).arg("--parsable").args(words);
    lab.job(&finish(&mut shell).ok())
}

/// The soft limit of open files of a process.
fn files_of(pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

#[test]
fn limits_go_with_a_job_as_it_was_asked() {
    let lab = Lab::with_cards(0);
    let of_node = files_of(lab.node("n1").pid());
    for (options, files, core) in [
        (&[][..], "321", "7"),
        (&["--propagate"], "321", "7"),
        (&["--propagate=ALL"], "321", "7"),
        (&["--propagate=NOFILE"], "321", "0"),
        (&["--propagate=core,STACK"], &of_node, "7"),
        (&["--propagate=NONE"], &of_node, "0"),
    ] {
        let words = [options, &["--wrap", "ulimit -n; ulimit -c"]].concat();
        let job = under_limits(&lab, "ulimit -S -n 321; ulimit -S -c 7", &words);
        let said = job.output();
        let (seen_files, seen_core) = said.trim_end().split_once('\n').unwrap();
        assert_eq!(seen_files, files, "{options:?}");
        if core == "7" {
            assert_eq!(seen_core, core, "{options:?}");
        } else {
            assert_ne!(seen_core, "7", "{options:?}");
        }
    }
    lab.run("gqsub", &["--propagate=NONSENSE", "--wrap", "true"]).refused(2);
}

/// B106: the umask and the limits of the submitting shell are the job's, and no variable tells of them.
#[test]
fn umask_and_limits_are_those_of_the_submitting_shell() {
    let lab = Lab::with_cards(0);
    let command = "umask; ulimit -n; ulimit -c; touch made; env | grep -ci umask";
    let job = under_limits(&lab, "umask 027; ulimit -S -n 321; ulimit -S -c 0", &["--wrap", command]);
    assert_eq!(job.ended(), End::Failed, "grep finds nothing");
    assert_eq!(job.out(), "0027\n321\n0\n0\n");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(lab.work("made")), mode(job.out_path())), (0o640, 0o640));
}
