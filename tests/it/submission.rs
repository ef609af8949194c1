//! Submission: where scripts come from, what counts, what is refused before anything is stored, and what is answered.

use crate::lab::{Lab, finish};
use gq_model::End;
use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt};

/// B225: directives on standard input count as in a file.
#[test]
fn a_script_comes_from_a_file_from_standard_input_or_from_the_command_line() {
    let lab = Lab::with_cards(1);
    let script = b"#!/bin/bash\n#SBATCH --job-name=piped -o %x.txt\necho \"$SLURM_JOB_NAME $1\"";
    for words in [&["--parsable"][..], &["--parsable", "-"], &["--parsable", "/dev/stdin"]] {
        let job = lab.job(&lab.feed("gqsub", words, script).ok());
        assert_eq!(job.output(), "piped \n");
        assert_eq!(job.out_path(), lab.work("piped.txt"));
        fs::remove_file(lab.work("piped.txt")).unwrap();
    }
    let job = lab.job(&lab.feed("gqsub", &["--parsable", "-", "word"], script).ok());
    assert_eq!(job.output(), "piped word\n");
    let unnamed = lab.job(&lab.feed("gqsub", &["--parsable", "-H"], b"#!/bin/sh\n").ok());
    assert_eq!(unnamed.word("name"), "gqsub");
    assert_eq!(lab.submit("-H", "true").word("name"), "wrap");
    let file = lab.script("-H", "#!/bin/sh\n");
    assert_eq!(file.word("name"), "job.sh");
    assert_eq!(file.word("command"), lab.work("job.sh").to_str().unwrap());
}

/// B092: arguments arrive byte for byte; B096: also very many of them, and in a very deep folder.
#[test]
fn arguments_arrive_byte_for_byte() {
    let lab = Lab::with_cards(0);
    let words: Vec<OsString> = [
        &b"a b"[..],
        b"quote'\"",
        b"$(id)",
        b"`id`",
        b"two\nlines",
        b"",
        b"back\\slash",
        b"--time=1",
        b"-q",
        b"\xc3\xa9",
        b"\xff\xfe",
        b"*",
        b"--",
    ]
    .iter()
    .map(|word| OsString::from_vec(word.to_vec()))
    .chain([OsString::from("x".repeat(100_000))])
    .collect();
    let script = lab.file("job.sh", "#!/bin/bash\nprintf '%s\\0' \"$@\" >arguments\n");
    let mut all = vec![script.into_os_string()];
    all.extend(words.iter().cloned());
    let job = lab.gqsub(&all);
    assert_eq!(job.ended(), End::Completed);
    let expected: Vec<u8> = words.into_iter().flat_map(|word| [word.into_vec(), vec![0]].concat()).collect();
    assert!(fs::read(lab.work("arguments")).unwrap() == expected);

    let deep = lab.work((0..14).map(|_| "d".repeat(200)).collect::<Vec<_>>().join("/"));
    fs::create_dir_all(&deep).unwrap();
    let mut command = lab.client("gqsub");
    let said = finish(command.current_dir(&deep).args(["--parsable", "--wrap", "pwd"]));
    assert_eq!(lab.job(&said.ok()).output(), format!("{}\n", deep.display()));
}

/// B094: a last line without its end runs; what no shell could read is refused.
#[test]
fn odd_scripts_run_or_are_refused_with_a_word() {
    let lab = Lab::with_cards(0);
    assert_eq!(lab.script("", "#!/bin/sh\nprintf one\nprintf two").output(), "onetwo");
    assert_eq!(lab.script("", "#!/bin/sh").ended(), End::Completed);
    let long = format!("#!/bin/sh\n: {}\necho done\n", "x".repeat(1 << 20));
    assert_eq!(lab.script("", &long).output(), "done\n");
    let before = lab.list("-t all").len();
    let too_long = format!("#!/bin/sh\n#{}\n", "x".repeat(4 << 20));
    let refused = [
        ("", "empty"),
        ("echo hello\n", "#!"),
        ("#!\necho\n", "#!"),
        ("#!/bin/sh\necho one\r\necho two\r\n", "CR LF"),
        ("#!/bin/sh\necho \0\n", "NUL"),
        (&too_long, "at most"),
    ];
    for (text, word) in refused {
        let script = lab.file("bad.sh", text);
        let words = lab.run("gqsub", &[&script]).refused(2);
        assert!(words.contains("bad.sh") && words.contains(word), "{words}");
        let words = lab.feed("gqsub", &["-"], text.as_bytes()).refused(2);
        assert!(words.contains(word), "{words}");
    }
    assert!(lab.say("gqsub nowhere.sh").refused(2).contains("nowhere.sh"));
    assert_eq!(lab.list("-t all").len(), before, "nothing was stored");
    let drop_box = fs::read_dir(lab.dir().join("spool/drop")).unwrap().count();
    assert_eq!(drop_box, 0, "and nothing left");
}

/// B098: what is said on the command line wins.
#[test]
fn the_command_line_wins_over_variables_and_variables_over_the_script() {
    let lab = Lab::with_cards(0);
    let script = lab.file("job.sh", "#!/bin/sh\n#SBATCH --time=1:00 -J script\n#GQ --comment=script\n");
    let submit = |words: &[&str]| {
        let mut command = lab.client("gqsub");
        command.env("GQSUB_TIME", "2:00").env("GQSUB_JOB_NAME", "variable").args(["-H", "--parsable"]);
        lab.job(&finish(command.args(words).arg(&script)).ok()).view()
    };
    let view = submit(&["--time=3:00"]);
    assert_eq!(
        (&view["time_limit"], &view["name"], &view["comment"]),
        (&180.into(), &"variable".into(), &"script".into())
    );
    assert_eq!(submit(&[])["time_limit"], 120);
    let mut command = lab.client("gqsub");
    let words = finish(command.env("GQSUB_CLUSTERS", "all").arg(&script)).refused(2);
    assert!(words.contains("clusters"), "{words}");
}

/// B226: cards that nobody has are refused with what there is; 0 means none.
#[test]
fn an_impossible_request_is_refused_with_what_there_is() {
    let lab = Lab::with_cards(2);
    for options in [
        "--gpus=9",
        "--gpus=3",
        "--gpus=h100:1",
        "--gres=gpu:abc",
        "--gpu-mem=100G",
        "-c 99",
        "--mem=1T",
        "-w n7",
        "-x n1",
        "-C quantum",
    ] {
        let words = lab.say(&format!("gqsub {options} --wrap true")).refused(1);
        assert!(words.contains("16 cpus") && words.contains("2 A100-SXM4-80GB (80G)"), "{options}: {words}");
    }
    for options in ["--gpus=-1", "--gpus=a:b:c", "--gres=gpu:", "-c 0", "-n -3", "--mem=-5"] {
        lab.say(&format!("gqsub {options} --wrap true")).refused(2);
    }
    assert!(lab.say("gqsub -p nowhere --wrap true").refused(1).contains("main"));
    let none = lab.submit("--gpus=0", "echo \"[$CUDA_VISIBLE_DEVICES]\"");
    assert_eq!(none.output(), "[]\n");
    for name in ["a\nb", "a\x1b[31m", "\x07", "a\u{202e}b"] {
        let words = lab.run("gqsub", &["-J", name, "--wrap", "true"]).refused(2);
        assert!(!words.contains(['\x1b', '\x07', '\u{202e}']), "what was typed is escaped: {words:?}");
    }
    assert_eq!(lab.list("-t all").len(), 1);
}

/// B180: what known libraries read out of the answer.
#[test]
fn the_answer_is_what_tools_parse() {
    let lab = Lab::with_cards(1);
    let said = lab.run("gqsub", &["--wrap", "true"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let id: u64 = said.out.strip_prefix("Submitted batch job ").unwrap().trim_end().parse().unwrap();
    assert_eq!(said.out, format!("Submitted batch job {id}\n"));
    assert_eq!(lab.run("gqsub", &["--parsable", "--wrap", "true"]).ok(), format!("{}\n", id + 1));
    let json: serde_json::Value =
        serde_json::from_str(&lab.run("gqsub", &["--json", "--wrap", "true"]).ok()).unwrap();
    assert_eq!(json["job_id"], id + 2);
    assert_eq!(lab.run("gqsub", &["-Q", "--wrap", "true"]).ok(), "");
    assert_eq!(lab.run("gqsub", &["-Q", "--parsable", "--wrap", "true"]).ok(), format!("{}\n", id + 4));
    let loud = lab.run("gqsub", &["-v", "--parsable", "-c2", "--wrap", "true"]);
    assert_eq!(loud.out, format!("{}\n", id + 5));
    assert!(loud.err.contains("--cpus-per-task=2"), "{}", loud.err);
}

#[test]
fn a_test_submits_nothing_and_says_when_and_where() {
    let lab = Lab::with_cards(1);
    let said = lab.run("gqsub", &["--test-only", "--gpus=1", "-c3", "--wrap", "true"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(
        said.err.contains("Job to start at 20")
            && said.err.contains("using 3 processors on nodes n1 in partition main"),
        "{}",
        said.err
    );
    lab.submit("--gpus=1 -t 60", "sleep 600").running();
    let answer = lab.run("gqsub", &["--test-only", "--json", "--gpus=1", "--wrap", "true"]).ok();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let now = jiff::Timestamp::now().as_second() as f64;
    let start = answer["start_time"].as_f64().unwrap();
    assert!((now + 3000.0..now + 3700.0).contains(&start), "{answer} at {now}");
    lab.run("gqsub", &["--test-only", "--gpus=2", "--wrap", "true"]).refused(1);
    assert_eq!(lab.list("-t all").len(), 1);
}

#[test]
fn waiting_ends_with_the_code_of_the_job() {
    let lab = Lab::with_cards(0);
    for (command, code) in [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let said = lab.run("gqsub", &["--wait", "--parsable", "--wrap", command]);
        assert_eq!(said.code, code, "{command}: {said:?}");
        assert!(said.out.trim_end().parse::<u64>().is_ok(), "{said:?}");
    }
    let mut waiting = lab.client("gqsub");
    let child = waiting.args(["-W", "-J", "doomed", "-H", "--wrap", "true"]).spawn().unwrap();
    crate::lab::until("it is there", || lab.list("-n doomed").pop());
    assert_eq!(lab.say("gqcancel -n doomed").code, 0);
    let status = child.wait_with_output().unwrap().status;
    assert!(!status.success(), "a cancelled job is no success: {status}");
}

#[test]
fn a_script_is_frozen_when_it_is_submitted() {
    let lab = Lab::with_cards(0);
    let job = lab.script("-H", "#!/bin/sh\necho first\n");
    fs::write(lab.work("job.sh"), "#!/bin/sh\necho second\n").unwrap();
    fs::remove_file(lab.work("job.sh")).unwrap();
    lab.ctl(&format!("release {}", job.id));
    assert_eq!(job.output(), "first\n");
}

#[test]
fn a_client_that_waits_goes_on_when_gqd_is_back() {
    let lab = Lab::with_cards(0);
    let mut waiting = lab.client("gqsub");
    waiting.args(["--wait", "-J", "long", "--wrap", "until [ -e go ]; do sleep 0.02; done; exit 5"]);
    let child = waiting.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let job = crate::lab::until("it is there", || lab.list("-n long -t R").pop());
    lab.gqd.kill9();
    lab.file("go", "");
    lab.gqd.start();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lab.job(&job["id"].to_string()).ended(), End::Failed);
}

/// `--test-only` counts with those who run and those who wait, and leaves nothing behind.
#[test]
fn a_test_says_when_and_where_it_would_start_behind_others() {
    let lab = Lab::with_cards(1);
    let trial = |words: &[&str]| -> (f64, String) {
        let words = [&["--test-only", "--json", "--wrap", "true"], words].concat();
        let answer: serde_json::Value = serde_json::from_str(&lab.run("gqsub", &words).ok()).unwrap();
        let node = answer["nodes"][0].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (answer["start_time"].as_f64().unwrap(), node)
    };
    let runs = lab.submit("--gpus=1 -t 20", "sleep 600").running();
    let began = runs.view()["start_time"].as_f64().unwrap();
    let due = |minutes: f64, at: f64| (at - began - minutes * 60.0).abs() < 40.0;
    let (start, node) = trial(&["--gpus=1", "-t", "10"]);
    assert!(due(20.0, start) && node == "n1", "when what runs has to be over: {start} {node}");
    let waits = lab.submit("--gpus=1 -t 30", "true");
    assert_eq!(waits.reason(), gq_model::Reason::Resources);
    let (start, _) = trial(&["--gpus=1", "-t", "10"]);
    assert!(due(50.0, start), "behind what waits: {start}");
    let (start, _) = trial(&["-t", "10"]);
    assert!(due(0.0, start), "without a card at once: {start}");
    assert_eq!(lab.list("").len(), 2, "nothing was submitted");
}
