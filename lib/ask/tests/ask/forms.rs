//! Forms that are taken, and what they mean.

use crate::{Try, lines, words};
use gq_model::{CardAsk, LicenceAsk, MemoryAsk, MiB, OpenMode, Seconds, TestRun, TimeAsk};
use std::ffi::OsString;

fn slices(count: u32, profile: &str) -> CardAsk {
    CardAsk { count, profile: Some(profile.into()), ..CardAsk::default() }
}

fn cards(count: u32, model: Option<&str>, memory: Option<u64>) -> CardAsk {
    CardAsk { count, model: model.map(Into::into), memory: memory.map(MiB), profile: None, share: None }
}

fn share(model: Option<&str>, memory: u64) -> CardAsk {
    CardAsk { share: Some(MiB(memory)), ..cards(1, model, None) }
}

fn licence(name: &str, count: u32) -> LicenceAsk {
    LicenceAsk { name: name.into(), count }
}

#[test]
fn a_bare_script_gets_the_defaults() {
    let job = words(&[]).unwrap();
    assert_eq!(job.spec.name, "train.sh");
    assert_eq!(job.spec.command.as_deref(), Some("train.sh"));
    assert_eq!((job.spec.work_dir.as_str(), job.spec.submit_dir.as_str()), ("/home/ann", "/home/ann"));
    assert_eq!((job.spec.umask, job.spec.submit_host.as_str()), (0o027, "ws1"));
    assert_eq!((job.spec.memory, &job.spec.cards), (MemoryAsk::Default, &CardAsk::default()));
    assert!(job.export.all && job.export.set.is_empty());
    assert!(!job.parsable && !job.json && !job.wait && !job.quiet && !job.test_only && !job.offline);
    assert_eq!((job.script.as_slice(), job.args.len()), (b"#!/bin/sh\n".as_slice(), 0));
}

#[test]
fn words_behind_the_script_are_its_own() {
    let argv = ["-J", "n", "train.sh", "--time=x", "-q", "--", "a b", ""].map(OsString::from).to_vec();
    let job = Try { argv, ..Try::default() }.submit().unwrap();
    assert_eq!(job.args, ["--time=x", "-q", "--", "a b", ""]);
    let argv = ["-", "--mem", "x"].map(OsString::from).to_vec();
    let job = Try { argv, ..Try::default() }.submit().unwrap();
    assert_eq!((job.args.len(), job.spec.name.as_str(), job.spec.command), (2, "gqsub", None));
    let argv = vec!["/dev/stdin".into()];
    let spec = Try { argv, ..Try::default() }.submit().unwrap().spec;
    assert_eq!((spec.name.as_str(), spec.command), ("gqsub", None));
    let argv = ["--", "--odd.sh"].map(OsString::from).to_vec();
    assert_eq!(Try { argv, ..Try::default() }.submit().unwrap().spec.name, "--odd.sh");
}

#[test]
fn every_option_reaches_its_place_from_all_three_places() {
    let text = "-J job -p gpu -t 1-12:30 -N 1 -n 4 -c 2 --ntasks-per-node 4 --mem 32G --gpus=a100:2 --gpu-mem=40G \
         -o logs/%x-%j.out -e err -i in --open-mode=append -D sub --export=NONE -H --begin=now+1hour --nice=7 \
         --comment=hello -A lab -q high --reservation=course -L b:2,a -w ws[1-2],m7 -x ws9 -C nvlink&gen4 --exclusive --parsable --json --wait -v -Q \
         --test-run=1500ms:3";
    let argv = text.split_whitespace().chain(["s.sh"]).map(OsString::from).collect();
    let typed = Try { argv, ..Try::default() }.submit().unwrap();
    let spec = &typed.spec;
    assert_eq!((spec.name.as_str(), spec.partition.as_deref()), ("job", Some("gpu")));
    assert_eq!(spec.time_limit, Some(TimeAsk::Limit(Seconds(131_400))));
    assert_eq!((spec.ntasks, spec.ntasks_per_node, spec.cpus_per_task), (Some(4), Some(4), Some(2)));
    assert_eq!((spec.cpus(), spec.memory), (8, MemoryAsk::PerNode(MiB(32_768))));
    assert_eq!(spec.cards, cards(2, Some("a100"), Some(40_960)));
    assert_eq!(spec.stdout.as_deref(), Some("logs/%x-%j.out"));
    assert_eq!((spec.stderr.as_deref(), spec.stdin.as_deref()), (Some("err"), Some("in")));
    assert_eq!((spec.open_mode, spec.work_dir.as_str()), (OpenMode::Append, "/home/ann/sub"));
    assert_eq!((spec.hold, spec.nice, spec.exclusive), (true, 7, true));
    assert_eq!((spec.comment.as_deref(), spec.account.as_deref()), (Some("hello"), Some("lab")));
    assert_eq!((spec.qos.as_deref(), spec.reservation.as_deref()), (Some("high"), Some("course")));
    assert_eq!(spec.licences, [licence("a", 1), licence("b", 2)]);
    let nodes: Vec<_> = spec.nodelist.iter().map(ToString::to_string).collect();
    assert_eq!((nodes.join(" "), spec.exclude.len()), ("ws1 ws2 m7".into(), 1));
    assert_eq!(spec.features, ["nvlink", "gen4"]);
    assert_eq!(spec.test_run, Some(TestRun { micros: 1_500_000, exit: 3 }));
    assert!(typed.parsable && typed.json && typed.wait && typed.quiet && !typed.export.all);
    assert!(typed.spoken.iter().any(|line| line == "command line: --time=1-12:30"), "{:?}", typed.spoken);

    let argv = vec!["s.sh".into()];
    let script = format!("#!/bin/sh\n#SBATCH {text}\n").into_bytes();
    let written = Try { argv: argv.clone(), script, ..Try::default() }.submit().unwrap();
    assert_eq!(written.spec, typed.spec);

    let variables = vec![
        ("GQSUB_JOB_NAME", "job"),
        ("GQSUB_PARTITION", "gpu"),
        ("GQSUB_TIME", "1-12:30"),
        ("GQSUB_NODES", "1"),
        ("GQSUB_NTASKS", "4"),
        ("GQSUB_CPUS_PER_TASK", "2"),
        ("GQSUB_TASKS_PER_NODE", "4"),
        ("GQSUB_MEM", "32G"),
        ("GQSUB_GPUS", "a100:2"),
        ("GQSUB_GPU_MEM", "40G"),
        ("GQSUB_OUTPUT", "logs/%x-%j.out"),
        ("GQSUB_ERROR", "err"),
        ("GQSUB_INPUT", "in"),
        ("GQSUB_OPEN_MODE", "append"),
        ("GQSUB_CHDIR", "sub"),
        ("GQSUB_EXPORT", "NONE"),
        ("GQSUB_HOLD", "1"),
        ("GQSUB_BEGIN", "now+1hour"),
        ("GQSUB_NICE", "7"),
        ("GQSUB_COMMENT", "hello"),
        ("GQSUB_ACCOUNT", "lab"),
        ("GQSUB_QOS", "high"),
        ("GQSUB_RESERVATION", "course"),
        ("GQSUB_LICENSES", "a,b:2"),
        ("GQSUB_NODELIST", "ws[1-2],m7"),
        ("GQSUB_EXCLUDE", "ws9"),
        ("GQSUB_CONSTRAINT", "nvlink&gen4"),
        ("GQSUB_EXCLUSIVE", "yes"),
        ("GQSUB_TEST_RUN", "1500ms:3"),
        ("GQ_CONF", "/x"),
        ("GQSUBX", "y"),
    ];
    let set = Try { argv, variables, ..Try::default() }.submit().unwrap();
    assert_eq!(set.spec, typed.spec);
}

#[test]
fn the_command_line_wins_over_variables_and_variables_over_the_script() {
    let script = b"#!/bin/sh\n#GQ --time=1 --job-name=s --mem=1G --hold\n#SBATCH --comment=s\n".to_vec();
    let variables = vec![("GQSUB_TIME", "2"), ("GQSUB_JOB_NAME", "e"), ("GQSUB_HOLD", "0")];
    let argv = ["--time=3", "--mem-per-cpu=2G", "s.sh"].map(OsString::from).to_vec();
    let spec = Try { argv, variables, script, ..Try::default() }.submit().unwrap().spec;
    assert_eq!((spec.time_limit, spec.name.as_str()), (Some(TimeAsk::Limit(Seconds(180))), "e"));
    assert_eq!((spec.memory, spec.comment.as_deref()), (MemoryAsk::PerCpu(MiB(2048)), Some("s")));
    assert!(!spec.hold);
}

#[test]
fn in_a_script_the_last_line_counts_whichever_mark_it_bears() {
    let spec = lines("#SBATCH --time=1\n#GQ --time=2\n#SBATCH --mem=4\n#SBATCH -t 3 -t 4").unwrap().spec;
    assert_eq!(spec.time_limit, Some(TimeAsk::Limit(Seconds(240))));
    let export = lines("#SBATCH --export=ALL\n#SBATCH --export=A=1\n#SBATCH --export=B=2").unwrap().export;
    assert_eq!((export.all, export.set.len()), (false, 1));
}

#[test]
fn header_habits_are_understood() {
    let text = "\
#SBATCH -N1 -n 4 -t 1-0 -p gpu --gres=gpu:2   # several on a line

# a comment
    # an indented one
##SBATCH --array=0-99
  #SBATCH --array=0-99
#SBATCHES --array
#SBATCH
#SBATCH    # nothing but a comment
#SBATCH --job-name              value
#SBATCH --output=\"a b/%j.out\"# touching comment
#SBATCH --error='it is #1' --comment 'x'\"y\"'z'
#SBATCH --mem-per-cpu 4000 # bare MiB
#SBATCH\t--open-mode\tappend
#SBATCH -D a\\ b\\#c
#SBATCH --exclusive
#SBATCH --parsable
set -e
#SBATCH --array=1-10
#GQ --nonsense";
    let job = lines(text).unwrap();
    let spec = job.spec;
    assert_eq!((spec.ntasks, spec.time_limit), (Some(4), Some(TimeAsk::Limit(Seconds(86_400)))));
    assert_eq!((spec.partition.as_deref(), &spec.cards), (Some("gpu"), &cards(2, None, None)));
    assert_eq!((spec.name.as_str(), spec.stdout.as_deref()), ("value", Some("a b/%j.out")));
    assert_eq!((spec.stderr.as_deref(), spec.comment.as_deref()), (Some("it is #1"), Some("xyz")));
    assert_eq!((spec.memory, spec.open_mode), (MemoryAsk::PerCpu(MiB(4000)), OpenMode::Append));
    assert_eq!(spec.work_dir, "/home/ann/a b#c");
    assert!(spec.exclusive && job.parsable);
}

#[test]
fn directives_count_on_standard_input_and_on_a_last_line_without_an_end() {
    for script in
        ["#!/bin/sh\n#GQ --time=5", "#!/usr/bin/env python3\n#GQ --time=5\nimport os\n#GQ --time=x\n"]
    {
        let job = Try { argv: Vec::new(), script: script.into(), ..Try::default() }.submit().unwrap();
        assert_eq!(
            (job.spec.time_limit, job.spec.name.as_str()),
            (Some(TimeAsk::Limit(Seconds(300))), "gqsub")
        );
    }
    let long = [b"#!/bin/sh\n: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    assert_eq!(Try { script: long.clone(), ..Try::default() }.submit().unwrap().script, long);
}

#[test]
fn wrap_makes_a_script_of_its_own() {
    let command = "echo \"a b\" '$(id)'\n#SBATCH --array=1";
    let argv = ["--wrap", command].map(OsString::from).to_vec();
    let job = Try { argv, ..Try::default() }.submit().unwrap();
    assert_eq!((job.spec.name.as_str(), job.spec.command), ("wrap", None));
    assert_eq!(job.script, format!("#!/bin/sh\n{command}\n").into_bytes());
}

#[test]
fn cards_can_be_asked_for_in_many_ways() {
    let table: &[(&str, CardAsk)] = &[
        ("--gpus=1", cards(1, None, None)),
        ("--gpus 2", cards(2, None, None)),
        ("-G4", cards(4, None, None)),
        ("--gpus=a100", cards(1, Some("a100"), None)),
        ("--gpus=A100-SXM4-80GB:2", cards(2, Some("A100-SXM4-80GB"), None)),
        ("--gpus=4090:1", cards(1, Some("4090"), None)),
        ("--gpus=0", cards(0, None, None)),
        ("--gpus=a100:0", cards(0, None, None)),
        ("--gres=gpu", cards(1, None, None)),
        ("--gres=gpu:3", cards(3, None, None)),
        ("--gres=gpu:h100", cards(1, Some("h100"), None)),
        ("--gres=gpu:h100:4", cards(4, Some("h100"), None)),
        ("--gres=gpu:0", cards(0, None, None)),
        ("--gres=none", cards(0, None, None)),
        ("--gpus-per-node=h100:4", cards(4, Some("h100"), None)),
        ("--gpus-per-task=2 -n 3", cards(6, None, None)),
        ("--gpus-per-task=1 --ntasks-per-node=4", cards(4, None, None)),
        ("--gpu-mem=40G", cards(1, None, Some(40_960))),
        ("--gpu-mem=40G --gpus=2", cards(2, None, Some(40_960))),
        ("--gpus=2 --gres=gpu:2", cards(2, None, None)),
        ("--gpus=2 --gres=gpu:a100:2 --gpus-per-node=2", cards(2, Some("a100"), None)),
        ("--gpus=a100:2 --gres=gpu:A100:2", cards(2, Some("a100"), None)),
        ("--gpu-share=10G", share(None, 10_240)),
        ("--gpu-share=512M --gpus=1", share(None, 512)),
        ("--gpus=a100 --gpu-share=10G", share(Some("a100"), 10_240)),
        ("--slice=1g.10gb", slices(1, "1g.10gb")),
        ("--slice=1G.10GB:3", slices(3, "1g.10gb")),
        ("--slice 1g.10gb+me", slices(1, "1g.10gb+me")),
        ("--slice=1g.24gb-me:2", slices(2, "1g.24gb-me")),
        ("--gres=gpu:1g.10gb", slices(1, "1g.10gb")),
        ("--gres=gpu:1g.10gb:2", slices(2, "1g.10gb")),
        ("--gres=gpu:1g.10gb:0", cards(0, None, None)),
        ("--gpus=3g.40gb", slices(1, "3g.40gb")),
        ("-G3g.40gb:2", slices(2, "3g.40gb")),
        ("--gpus-per-node=1g.5gb:7", slices(7, "1g.5gb")),
        ("--gpus-per-task=1g.10gb:1 -n 3", slices(3, "1g.10gb")),
        ("--slice=1g.10gb:2 --gres=gpu:1G.10gb:2 --gpus=1g.10gb:2", slices(2, "1g.10gb")),
    ];
    for (text, want) in table {
        let got = words(&text.split(' ').collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(got.spec.cards, *want, "{text}");
    }
    let spec = words(&["--gpus-per-task=2", "-n3", "--gpus-per-node=6"]).unwrap().spec;
    assert_eq!((spec.gpus_per_task, spec.gpus_per_node), (Some(2), Some(6)));
}

#[test]
fn a_request_for_cards_on_the_command_line_replaces_that_of_the_script() {
    let over = |word: &str, script: &str| {
        let script = format!("#!/bin/sh\n#GQ {script}\n").into_bytes();
        let argv = [word, "s.sh"].map(OsString::from).to_vec();
        Try { argv, script, ..Try::default() }.submit().unwrap().spec.cards
    };
    assert_eq!(over("--gpus=3", "--gres=gpu:a100:2"), cards(3, None, None));
    assert_eq!(over("--gpus=0", "--gres=gpu:2 --gpu-mem=4G"), cards(0, None, None));
    assert_eq!(over("--gpu-mem=8G", "--gpus=2"), cards(2, None, Some(8192)));
    assert_eq!(over("--gpu-mem=8G", "--gpus=0"), cards(1, None, Some(8192)));
    assert_eq!(over("--gpus=2", "--gpu-mem=8G"), cards(2, None, Some(8192)));
    assert_eq!(over("--slice=1g.10gb", "--gpus=2"), slices(1, "1g.10gb"));
    assert_eq!(over("--gpus=2", "--slice=1g.10gb"), cards(2, None, None));
    assert_eq!(over("--slice=2g.20gb:2", "--gpu-mem=8G"), slices(2, "2g.20gb"));
    assert_eq!(over("--gpu-mem=8G", "--slice=2g.20gb:2"), cards(2, None, Some(8192)));
    for script in ["--gpus=2", "--gpus=0", "--slice=1g.10gb", "--gpu-mem=20G"] {
        assert_eq!(over("--gpu-share=8G", script), share(None, 8192), "{script}");
    }
    assert_eq!(over("--gpu-share=8G", "--gpus=a100:2"), share(Some("a100"), 8192));
    assert_eq!(over("--gpus=1", "--gpu-share=8G"), cards(1, None, None));
    assert_eq!(over("--gpu-mem=4G", "--gpu-share=8G"), cards(1, None, Some(4096)));
    assert_eq!(over("--slice=1g.10gb", "--gpu-share=8G"), slices(1, "1g.10gb"));
}

#[test]
fn slices_and_licences_can_be_said_in_all_three_places() {
    let argv = || vec![OsString::from("s.sh")];
    let script = b"#!/bin/sh\n#SBATCH --slice=1g.10gb:2 -L a\n".to_vec();
    let written = Try { argv: argv(), script: script.clone(), ..Try::default() }.submit().unwrap().spec;
    assert_eq!((&written.cards, &written.licences), (&slices(2, "1g.10gb"), &vec![licence("a", 1)]));
    let variables = vec![("GQSUB_SLICE", "2g.20gb"), ("GQSUB_LICENCES", "b")];
    let set = Try { argv: argv(), script: script.clone(), variables: variables.clone(), ..Try::default() };
    let set = set.submit().unwrap().spec;
    assert_eq!((&set.cards, &set.licences), (&slices(1, "2g.20gb"), &vec![licence("b", 1)]));
    let argv = ["--slice=3g.40gb", "--licences=c", "s.sh"].map(OsString::from).to_vec();
    let typed = Try { argv, script, variables, ..Try::default() }.submit().unwrap().spec;
    assert_eq!((&typed.cards, &typed.licences), (&slices(1, "3g.40gb"), &vec![licence("c", 1)]));
}

#[test]
fn licences_are_summed_and_sorted() {
    for (text, want) in [
        ("a", vec![licence("a", 1)]),
        ("a:2,b", vec![licence("a", 2), licence("b", 1)]),
        ("z,a:3,z:4", vec![licence("a", 3), licence("z", 5)]),
        ("houdini-fx_20.5:1", vec![licence("houdini-fx_20.5", 1)]),
        ("a:4294967295", vec![licence("a", u32::MAX)]),
    ] {
        assert_eq!(words(&["-L", text]).unwrap().spec.licences, want, "{text}");
    }
    let many = |count: u32| (0..count).map(|n| format!("l{n}")).collect::<Vec<_>>().join(",");
    assert_eq!(words(&["-L", &many(64)]).unwrap().spec.licences.len(), 64);
    assert!(words(&["-L", &many(65)]).unwrap_err().ends_with("a job may name 64 licences at most"));
}

#[test]
fn memory_and_times_come_in_every_form_that_scripts_use() {
    for (text, want) in [
        ("--mem=32G", MemoryAsk::PerNode(MiB(32_768))),
        ("--mem=4000", MemoryAsk::PerNode(MiB(4000))),
        ("--mem=40GB", MemoryAsk::PerNode(MiB(40_960))),
        ("--mem=50gb", MemoryAsk::PerNode(MiB(51_200))),
        ("--mem=8g", MemoryAsk::PerNode(MiB(8192))),
        ("--mem=1885M", MemoryAsk::PerNode(MiB(1885))),
        ("--mem=0", MemoryAsk::WholeNode),
        ("--mem-per-cpu=2000", MemoryAsk::PerCpu(MiB(2000))),
    ] {
        assert_eq!(words(&[text]).unwrap().spec.memory, want, "{text}");
    }
    for word in ["--gpus=2", "--slice=1g.10gb:2"] {
        let spec = words(&["--mem-per-gpu=16G", word]).unwrap().spec;
        assert_eq!((spec.memory, spec.cards.count), (MemoryAsk::PerCard(MiB(16_384)), 2));
    }
    let spec = words(&["--mem-per-gpu=16G", "--gpus=2"]).unwrap().spec;
    assert_eq!(spec.memory, MemoryAsk::PerCard(MiB(16_384)));
    for (text, want) in [
        ("1:30:00", Some(5400)),
        ("1-00:00:00", Some(86_400)),
        ("60", Some(3600)),
        ("10:00", Some(600)),
        ("2-12:00", Some(216_000)),
        ("3-0", Some(259_200)),
        ("365-00", Some(31_536_000)),
        ("90s", Some(90)),
        ("UNLIMITED", None),
        ("INFINITE", None),
        ("0", None),
    ] {
        let want = want.map_or(TimeAsk::Longest, |want| TimeAsk::Limit(Seconds(want)));
        assert_eq!(words(&["-t", text]).unwrap().spec.time_limit, Some(want), "{text}");
    }
    for (text, want) in [("--nice", 100), ("--nice=5", 5), ("--nice=-2147483645", -2_147_483_645)] {
        assert_eq!(words(&[text]).unwrap().spec.nice, want, "{text}");
    }
    for text in ["1", "1-1", "1-4"] {
        words(&["-N", text]).unwrap();
    }
}

#[test]
fn names_and_paths_keep_what_they_are_made_of() {
    for name in ["a b", "größe 漢字", "$(id);*'\"\\", "-foo", "../../x", &"n".repeat(1024)] {
        assert_eq!(words(&["-J", name]).unwrap().spec.name, name);
        assert_eq!(words(&["-o", name]).unwrap().spec.stdout.as_deref(), Some(name));
    }
    let argv = vec!["dir/od\u{7}d\n.sh".into()];
    assert_eq!(Try { argv, ..Try::default() }.submit().unwrap().spec.name, "od_d_.sh");
}

#[test]
fn the_environment_is_chosen_as_said_and_to_the_byte() {
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(b"\xff\n,'\"\\".to_vec());
    let chosen = |list: &str| {
        let has = [("A", odd()), ("B", "".into()), ("C", "3".into())];
        let export = words(&[&format!("--export={list}")]).unwrap().export;
        let list = export.choose(has.into_iter().map(|(n, v)| (OsString::from(n), v)));
        list.into_iter().map(|v| String::from_utf8_lossy(&v).into_owned()).collect::<Vec<_>>()
    };
    let a = "A=\u{fffd}\n,'\"\\";
    assert_eq!(chosen("ALL"), [a, "B=", "C=3"]);
    assert_eq!(chosen("NONE"), [""; 0]);
    assert_eq!(chosen("ALL,C=4,D=x=y"), [a, "B=", "C=4", "D=x=y"]);
    assert_eq!(chosen("A,Z,N="), [a, "N="]);
    assert_eq!(chosen("N=1,N=2,ALL"), [a, "B=", "C=3", "N=2"]);
    assert_eq!(chosen("N='1,2',M=\"a,b\",O=it's"), ["N=1,2", "M=a,b", "O=it's"]);
}
