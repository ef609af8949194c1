//! A job's environment: what its user chose arrives byte for byte, and nothing else does.

use crate::lab::{Lab, Plan, cards, finish};
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

/// B106: the umask and the limits of the submitting shell are the job's, and no variable tells of them.
#[test]
fn umask_and_limits_are_those_of_the_submitting_shell() {
    let lab = Lab::with_cards(0);
    let gqsub = lab.client("gqsub");
    let mut shell = Command::new("/bin/sh");
    for (name, value) in gqsub.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .current_dir(lab.work(""))
        .arg("-c")
        .arg("umask 027; ulimit -S -n 321; ulimit -S -c 0; exec \"$@\"")
        .arg("sh");
    shell.arg(gqsub.get_program()).args([
        "--parsable",
        "--wrap",
        "umask; ulimit -n; ulimit -c; touch made; env | grep -ci umask",
    ]);
    let job = lab.job(&finish(&mut shell).ok());
    assert_eq!(job.ended(), End::Failed, "grep finds nothing");
    assert_eq!(job.out(), "0027\n321\n0\n0\n");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(lab.work("made")), mode(job.out_path())), (0o640, 0o640));
}
