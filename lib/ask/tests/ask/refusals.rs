//! What is refused, and in which words.

use crate::{Try, lines, words};
use std::ffi::OsString;

fn refused(text: &str) -> String {
    match words(&text.split(' ').collect::<Vec<_>>()) {
        Ok(job) => panic!("{text} was taken: {:?}", job.spec),
        Err(error) => error,
    }
}

#[test]
fn what_is_not_built_is_refused_by_name_everywhere() {
    for (text, name) in [
        ("--clusters=all", "--clusters"),
        ("-M all", "-M (--clusters)"),
        ("-Mall", "-M (--clusters)"),
        ("-HM all", "-M (--clusters)"),
        ("--cpu-bind=cores", "--cpu-bind"),
        ("--export-file=env", "--export-file"),
        ("--hint=compute_bound", "--hint with anything but nomultithread"),
        ("--signal=R:USR1@60", "--signal=R: (leave to overlap a reservation)"),
        ("--mail-type=END,INVALID_DEPEND", "--mail-type=INVALID_DEPEND"),
        ("--get-user-env=10S", "--get-user-env with mode S (a shell that is no login)"),
        ("--nodes=2", "--nodes=2 (a job on more than one node)"),
        ("-N 2-4", "--nodes=2 (a job on more than one node)"),
        ("-n 4 --ntasks-per-node=2", "--ntasks=4 with --ntasks-per-node=2 (a job on more than one node)"),
        ("--constraint=a|b", "--constraint with anything but features joined by &"),
        ("-C [a*2]", "--constraint with anything but features joined by &"),
        ("--gres=gpu:1g.10gb:1,gpu:2g.20gb:1", "--gres with more than one resource"),
        ("--slice=1g.10gb,2g.20gb", "--slice with more than one profile"),
        ("--licenses=a|b", "--licenses with alternatives joined by |"),
        ("-L a:2|b", "--licenses with alternatives joined by |"),
        ("-q high,low", "--qos with more than one name"),
        ("--reservation=a,b", "--reservation with more than one name"),
        ("--exclusive=user", "--exclusive=user"),
        ("-p a,b", "--partition with more than one name"),
        ("--gpus=a100:1,h100:1", "a request for cards of more than one model"),
    ] {
        // What to do instead follows for some.
        let without_hint =
            |error: String| error.split("; try ").next().map(ToOwned::to_owned).unwrap_or_default();
        let words = format!("{name} is not built yet in this version of gq");
        assert_eq!(without_hint(refused(text)), words, "{text}");
        let error = lines(&format!("#SBATCH -J x\n#SBATCH {text}")).unwrap_err();
        assert_eq!(without_hint(error), format!("train.sh:3: {words}"), "{text}");
    }
    assert!(refused("--cpus-per-gpu=4").ends_with("; try --cpus-per-task"));
    let variables = vec![("GQSUB_CLUSTERS", "all")];
    let error = Try { variables, ..Try::default() }.submit().unwrap_err();
    assert!(error.starts_with("--clusters is not built yet in this version of gq"), "{error}");
    assert!(lines("#SBATCH hetjob").unwrap_err().contains("hetjob is not built yet"));
}

#[test]
fn an_unknown_option_is_told_with_the_nearest_known_one() {
    for (text, want) in [
        ("--tme=5", "--tme: no such option; try --time"),
        ("--job-nam=5", "--job-nam: no such option; try --job-name"),
        ("--workdir=/x", "--workdir: no such option; try --chdir"),
        ("--arry=1", "--arry: no such option; try --array"),
        ("--depend=1", "--depend: no such option; try --dependency"),
        ("--xyzzy", "--xyzzy: no such option"),
        ("-Z", "-Z: no such option"),
    ] {
        assert_eq!(refused(text), want);
        assert_eq!(lines(&format!("#GQ {text}")).unwrap_err(), format!("train.sh:2: {want}"));
    }
    for (name, want) in [
        ("GQSUB_TIMELIMIT", "GQSUB_TIMELIMIT: no such option; try GQSUB_TIME"),
        ("GQSUB_time", "GQSUB_time: no such option; try GQSUB_TIME"),
        ("GQSUB_", "GQSUB_: no such option; try unset GQSUB_"),
        ("GQSUB_CPUS-PER-TASK", "GQSUB_CPUS-PER-TASK: no such option; try GQSUB_CPUS_PER_TASK"),
        ("GQSUB_CONF", "GQSUB_CONF=v: only possible on the command line"),
        ("GQSUB_WRAP", "GQSUB_WRAP=v: only possible on the command line"),
        ("GQSUB_RERUN_FAILED", "GQSUB_RERUN_FAILED=v: only possible on the command line"),
    ] {
        let variables = vec![(name, "v")];
        assert_eq!(Try { variables, ..Try::default() }.submit().unwrap_err(), want);
    }
}

#[test]
fn a_bad_value_is_refused_with_its_place() {
    assert_eq!(
        lines("#SBATCH -J x\n\n#SBATCH --time=abc").unwrap_err(),
        "train.sh:4: --time=abc: expected a duration such as 90s, 30m, 4h, 2d, 30 (minutes), 5:30 (min:s), \
         4:00:00 or 1-12:00"
    );
    let variables = vec![("GQSUB_TIME", "abc")];
    let error = Try { variables, ..Try::default() }.submit().unwrap_err();
    assert!(error.starts_with("GQSUB_TIME=abc: expected a duration"), "{error}");
    for text in [
        "-t abc",
        "-t -1",
        "-t 99999999999",
        "--mem=abc",
        "--mem=-1",
        "--mem=1.5M",
        "--mem-per-cpu=0",
        "--mem-per-gpu=0",
        "--mem-per-gpu=4G",
        "--gpus=-1",
        "--gpus -1",
        "--gpus=1.5",
        "--gpus=a100:-1",
        "--gpus=:2",
        "--gpus=a:b:c",
        "--gpus=99999999999",
        "--gres=gpu:-1",
        "--gres=gpu:",
        "--gres=gpu:a100:x",
        "--gres=scratch:300G",
        "--gres=shard:1",
        "--gres=gpu:1,shard:1",
        "--gpu-mem=0",
        "--gpu-share=0",
        "--gpu-mem=x",
        "-n 0",
        "-n abc",
        "-n -1",
        "-n 1.5",
        "-n 4294967296",
        "-c 0",
        "--ntasks-per-node=0",
        "-N 0",
        "-N 2-1",
        "-N abc",
        "--nice=abc",
        "--nice=2147483646",
        "--nice=-2147483646",
        "--nice=+1",
        "--open-mode=x",
        "--exclusive=x",
        "-w a[",
        "-w /etc/hosts",
        "-x a,,b",
        "-C a&&b",
        "-C &",
        "--export=",
        "--export=NONE,A=1",
        "--export=A='1,2",
        "--export==1",
        "--export=ALL,,A",
        "--hold=1",
        "--begin=soon",
        "--test-run=5",
        "--test-run=1s:256",
        "--test-run=-1s",
        "--gpus-per-task=4294967295 -n 2",
        "--slice=9z.1gb",
        "--slice=2",
        "--slice=a100",
        "--slice=1g.10gb:0",
        "--slice=1g.10gb:-1",
        "--slice=1g.10gb:",
        "--slice=1g.10gb:1:1",
        "--slice=1g",
        "--slice=0g.10gb",
        "--gpus=9z.1gb",
        "--gpus=1g.10gb+:2",
        "--gres=gpu:0g.10gb:1",
        "--gpus-per-task=1g.10gb:4294967295 -n 2",
        "-L a:0",
        "-L a:",
        "-L a:x",
        "-L a:-1",
        "-L a*2",
        "-L a,,b",
        "-L :2",
        "-L a@db:2",
        "-L a:1:2",
        "-L a:4294967295,a:1",
        "-a x",
        "-a 3-1",
        "-a 0-9%x",
        "-a 0-4000000",
        "-a 0-999999:2",
        "--array=",
        "-d afterok:",
        "-d afterok:x",
        "-d afterok:1,afterany:2?after:3",
        "-d afterok:1+5",
        "-d sometime:1",
        "--kill-on-invalid-dep=perhaps",
        "--time-min=soon",
        "--time-min=0",
        "--deadline=never",
        "--signal=NOPE",
        "--signal=65",
        "--signal=0",
        "--signal=B:",
        "--signal=X:USR1",
        "--signal=USR1@",
        "--signal=USR1@65536",
        "--signal=USR1@-1",
        "--max-wait=4h:shout",
        "--max-wait=0",
        "--max-wait=x",
        "--max-wait=:cancel",
        "--retry=x",
        "--retry=1001",
        "--retry=3:0",
        "--retry=3:256",
        "--retry=3:",
        "--retry=3:1,,2",
        "--requeue=maybe",
        "--get-user-env=0",
        "--get-user-env=3601",
        "--get-user-env=x",
        "--propagate=NOFILE,X",
        "--container=",
        "--container=-v",
        "--mail-type=SOMETIMES",
        "--mail-type=NONE,END",
        "--mail-type=",
        "--mail-user=-x",
        "--mail-user=a,,b",
        "--mail-user=a@b@c",
        "--mail-user=",
        "--each=/no/such/file",
        "--prep=/no/such/file",
        "--prep=",
    ] {
        refused(text);
    }
    for (option, value) in [
        ("-J", ""),
        ("-o", ""),
        ("-D", ""),
        ("-p", ""),
        ("-A", ""),
        ("-L", ""),
        ("-q", ""),
        ("--slice", ""),
        ("--reservation", ""),
        ("--export", "ALL, A=1"),
    ] {
        words(&[option, value]).unwrap_err();
    }
    let argv = vec!["--time".into()];
    assert_eq!(Try { argv, ..Try::default() }.submit().unwrap_err(), "--time: expected a value");
}

#[test]
fn words_that_contradict_each_other_are_refused() {
    for (text, want) in [
        (
            "--gpus=2 --gres=gpu:3",
            "--gres=gpu:3: contradicts --gpus=2; try say it once: --gpus=3 or --gpus=2 (all cards of the job)",
        ),
        (
            "--gpus=a100:2 --gres=gpu:h100:2",
            "--gres=gpu:h100:2: contradicts --gpus=a100:2; try name one model",
        ),
        ("--gpus=0 --gpu-mem=4G", "--gpu-mem=4G: contradicts --gpus=0"),
        ("--mem=4G --mem-per-cpu=2G", "--mem-per-cpu=2G: contradicts --mem=4G"),
        ("--offline --wait", "--offline: contradicts --wait"),
        (
            "--each=frames --array=0-9",
            "--each=frames: contradicts --array=0-9; try --array=%N beside it says how many run at a time",
        ),
        (
            "--array=%4",
            "--array=%4: which tasks there are is not said; try indices such as 0-99%4, or --each=FILE beside it",
        ),
        ("--time=10 --time-min=20", "--time-min: contradicts --time=10:00, which is less"),
        ("--deadline=2026-11-30", "--deadline: that time has passed"),
        (
            "--begin=now+2hours --deadline=now+1hour",
            "--deadline: contradicts --begin, which is not before it",
        ),
        (
            "--slice=1g.10gb --gpus=1",
            "--slice=1g.10gb: contradicts --gpus=1; try whole cards or slices: one of the two",
        ),
        (
            "--slice=1g.10gb --gres=gpu:a100",
            "--slice=1g.10gb: contradicts --gres=gpu:a100; try whole cards or slices: one of the two",
        ),
        (
            "--gpus=0 --slice=1g.10gb",
            "--slice=1g.10gb: contradicts --gpus=0; try whole cards or slices: one of the two",
        ),
        (
            "--slice=1g.10gb:2 --gpus=2g.20gb:2",
            "--slice=1g.10gb:2: contradicts --gpus=2g.20gb:2; try name one profile",
        ),
        (
            "--slice=1g.10gb:2 --gres=gpu:1g.10gb:3",
            "--slice=1g.10gb:2: contradicts --gres=gpu:1g.10gb:3; try say it once: --slice=1g.10gb:2 or --slice=1g.10gb:3",
        ),
        ("--slice=1g.10gb --gpu-mem=4G", "--gpu-mem=4G: contradicts --slice=1g.10gb; try one of the two"),
        (
            "--gpu-share=4G --slice=1g.10gb",
            "--gpu-share=4G: contradicts --slice=1g.10gb; try a share is some memory of one card",
        ),
        (
            "--gpu-share=4G --gpus=2",
            "--gpu-share=4G: contradicts --gpus=2; try a share is some memory of one card",
        ),
        (
            "--gpu-share=4G --gpus=0",
            "--gpu-share=4G: contradicts --gpus=0; try a share is some memory of one card",
        ),
        (
            "--gpu-share=4G --gpu-mem=4G",
            "--gpu-share=4G: contradicts --gpu-mem=4G; try a share is some memory of one card",
        ),
    ] {
        assert_eq!(refused(text), want);
    }
    let error = lines("#SBATCH --mem=4G\n#SBATCH --mem-per-gpu=2G --gpus=1").unwrap_err();
    assert_eq!(error, "train.sh:3: --mem-per-gpu=2G: contradicts --mem=4G in line 2");
    let error = lines("#SBATCH --gpus=1\n#SBATCH --slice=1g.10gb").unwrap_err();
    assert!(error.starts_with("train.sh:3: --slice=1g.10gb: contradicts --gpus=1 in line 2"), "{error}");
    // A bad directive rejects the script even where the command line says better.
    let script = b"#!/bin/sh\n#GQ --time=x\n".to_vec();
    let argv = ["--time=1", "s.sh"].map(OsString::from).to_vec();
    Try { argv, script, ..Try::default() }.submit().unwrap_err();
}

#[test]
fn directive_lines_with_mistakes_are_refused_not_guessed() {
    for (text, want) in [
        ("#SBATCH --mem=4G stray", "train.sh:2: stray: expected an option"),
        ("#SBATCH --nice 5", "train.sh:2: 5: expected an option"),
        ("#SBATCH--time=5", "train.sh:2: expected a blank behind #GQ or #SBATCH"),
        ("#SBATCH -J 'open", "train.sh:2: a quote is not closed"),
        ("#SBATCH -J", "train.sh:2: --job-name: expected a value"),
        ("#SBATCH --hold=yes", "train.sh:2: --hold: expected no value"),
        ("#SBATCH --wrap=true", "train.sh:2: --wrap=true: only possible on the command line"),
        ("#SBATCH --conf=/x", "train.sh:2: --conf=/x: only possible on the command line"),
        ("#SBATCH --help", "train.sh:2: --help or --version: only possible on the command line"),
        (
            "#SBATCH -J \u{1b}[31m",
            "train.sh:2: --job-name=\\u{1b}[31m: control characters and marks that turn text around are not allowed here",
        ),
    ] {
        assert_eq!(lines(text).unwrap_err(), want);
    }
    assert!(lines("#SBATCH --mem=4G \\").unwrap_err().contains("backslash"));
    let script = b"#!/bin/sh\n#GQ -J \xff\n".to_vec();
    assert_eq!(Try { script, ..Try::default() }.submit().unwrap_err(), "train.sh:2: not UTF-8 text");
}

#[test]
fn scripts_that_could_not_run_are_refused_before_anything_is_stored() {
    let mut large = b"#!/bin/sh\n".to_vec();
    large.resize((4 << 20) + 1, b'x');
    for (script, want) in [
        (b"".to_vec(), "train.sh: the script is empty"),
        (b"echo hi\n".to_vec(), "train.sh:1: the script does not begin with #! and the program that runs it"),
        (b"\n#!/bin/sh\n".to_vec(), "train.sh:1: the script does not begin with #!"),
        (b"#!  \ntrue\n".to_vec(), "train.sh:1: no program behind #!"),
        (b"\xef\xbb\xbf#!/bin/sh\n".to_vec(), "train.sh:1: the script begins with a byte order mark"),
        (b"#!/bin/sh\r\ntrue\r\n".to_vec(), "train.sh:1: the line ends in CR LF"),
        (b"#!/bin/sh\ntrue\r\n".to_vec(), "train.sh:2: the line ends in CR LF"),
        (b"#!/bin/sh\n\ntr\0ue\n".to_vec(), "train.sh:3: a NUL byte"),
        (large, "train.sh: 4194305 bytes: 4194304 at most"),
    ] {
        let error = Try { script, ..Try::default() }.submit().unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }
    let script = b"#!/bin/sh\r\n".to_vec();
    assert!(
        Try { script, ..Try::default() }.submit().unwrap_err().ends_with("; try sed -i 's/\\r$//' train.sh")
    );
}

#[test]
fn names_with_control_characters_are_refused_and_shown_harmless() {
    for bad in ["a\nb", "a\x1bb", "a\x7fb", "a\u{85}b", "a\u{202e}b", "a\u{2066}b", "a\tb", "a\rb"] {
        let error = words(&["-J", bad]).unwrap_err();
        assert!(error.contains("control characters"), "{error}");
        assert!(!error.contains(bad) && !error.chars().any(char::is_control), "{error:?}");
        words(&["--comment", bad]).unwrap_err();
        words(&["-A", bad]).unwrap_err();
    }
    let long = "n".repeat(1025);
    assert!(words(&["-J", &long]).unwrap_err().ends_with("1025 bytes: 1024 at most"));
}

#[test]
fn a_wrapped_command_and_a_script_exclude_each_other() {
    assert_eq!(refused("--wrap=true"), "--wrap: there can be no script beside it");
}

#[test]
fn a_value_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let argv = vec!["-J".into(), OsString::from_vec(vec![0xff]), "s.sh".into()];
    assert!(Try { argv, ..Try::default() }.submit().unwrap_err().ends_with("not UTF-8 text"));
}
