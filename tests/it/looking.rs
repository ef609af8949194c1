//! Looking: what `gqstat` says of jobs that wait, run and have ended, to people and to programs.

use crate::lab::{Lab, finish, until};
use gq_model::End;
use serde_json::Value;
use std::{collections::BTreeSet, fs::File, process::Command, process::Stdio};

const KEYS: &[&str] = &[
    "id",
    "array_job_id",
    "array_task_id",
    "name",
    "user",
    "account",
    "partition",
    "state",
    "reason",
    "priority",
    "submit_time",
    "start_time",
    "end_time",
    "expected_start",
    "time_limit",
    "nodes",
    "cpus",
    "memory_mib",
    "gpus",
    "exit_code",
    "signal",
    "run",
    "stdout",
    "stderr",
    "work_dir",
];

#[test]
fn json_has_the_keys_of_the_contract_in_every_state() {
    let lab = Lab::with_cards(1);
    let ended = lab.submit("--gpus=1 -J done -A acct", "exit 3");
    ended.ended();
    let running = lab.submit("--gpus=1 -J runs -t 60", "sleep 600").running();
    let waiting = lab.submit("--gpus=1 -J waits", "true");
    let held = lab.submit("-H", "true");
    for job in [ended, running, waiting, held] {
        let view = job.view();
        for key in KEYS {
            assert!(view.get(key).is_some(), "{key} is missing: {view}");
        }
        assert!(view["array_task_id"].is_null() && view["array_job_id"].is_null());
        assert!(view["submit_time"].as_f64().unwrap() > 1.6e9);
    }
    let view = ended.view();
    assert_eq!(
        (&view["state"], &view["exit_code"], &view["reason"]),
        (&"FAILED".into(), &3.into(), &"NonZeroExitCode".into())
    );
    assert_eq!(
        (&view["account"], &view["run"], &view["nodes"][0]),
        (&"acct".into(), &1.into(), &"n1".into())
    );
    assert!(view["end_time"].as_f64() >= view["start_time"].as_f64());
    assert_eq!(running.view()["gpus"][0]["index"], 0);
    let view = waiting.view();
    assert!(view["start_time"].is_null() && view["gpus"].as_array().unwrap().is_empty(), "{view}");
    let expected = view["expected_start"].as_f64().unwrap() - running.view()["start_time"].as_f64().unwrap();
    assert!((3590.0..3700.0).contains(&expected), "after an hour: {expected}");
    let listed: BTreeSet<u64> = lab.list("").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(listed, BTreeSet::from([running.id, waiting.id, held.id]), "what has ended is not listed");
    let ids = |words: &str| lab.list(words).iter().map(|job| job["id"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids("-t FAILED"), [ended.id]);
    assert_eq!(ids("-t PD,R -n waits,runs").len(), 2);
    assert_eq!(ids("-t all --me").len(), 4);
    assert_eq!(ids("-n nobody"), Vec::<u64>::new());
    assert_eq!(ids(&format!("-j {},{}", ended.id, held.id)), [ended.id, held.id]);
    let why = lab.say(&format!("gqstat --why {}", waiting.id)).ok();
    assert!(why.contains("Resources") && why.contains("expected start: 2"), "{why}");
    assert!(lab.say("gqstat --start").ok().contains("waits"));
    assert!(lab.say("gqstat --partitions").ok().contains("main"));
}

#[test]
fn formats_are_those_of_slurm() {
    let lab = Lab::with_cards(1);
    let job =
        lab.submit("-J name -t 1:30:00 -c2 --mem=3G --gpus=1 -A acct --comment=words", "sleep 600").running();
    let id = job.id;
    let line = |format: &str| lab.run("gqstat", &["-h", "-o", format]).ok();
    assert_eq!(
        line("%i|%j|%t|%T|%P|%C|%m|%D|%N|%a|%k|%l"),
        format!("{id}|name|R|RUNNING|main|2|3G|1|n1|acct|words|1:30:00\n")
    );
    assert_eq!(line("%.8i|%6t|%5j|%.10j"), format!("{id:>8}|R     |name |      name\n"));
    assert_eq!(line("%i %R"), format!("{id} n1\n"));
    let named = line("jobid,name:10,state");
    assert_eq!(named.split_whitespace().collect::<Vec<_>>(), [&id.to_string(), "name", "RUNNING"]);
    assert!(line("%M").trim_end().contains(':'));
    assert!(lab.run("gqstat", &["-o", "%i %T"]).ok().starts_with("JOBID STATE\n"));
    lab.run("gqstat", &["-o", "nonsense"]).refused(2);
    let table = lab.say("gqstat").ok();
    assert!(table.lines().next().unwrap().contains("JOBID") && !table.contains('\x1b'), "{table}");
}

/// B184: "cannot reach" is not "no such job"; and an ended job stays known.
#[test]
fn exit_codes_tell_an_unknown_job_from_an_absent_daemon() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", "true");
    job.ended();
    let words = lab.say("gqstat -h -j 999").refused(4);
    assert!(words.contains("999"), "{words}");
    assert_eq!(lab.say("gqstat --json -j 999").code, 4);
    // Of an array that waits, and of one that has ended.
    let array = lab.submit("-H --array=0-3", "true");
    for _ in 0..2 {
        let words = lab.say(&format!("gqstat -h -j {}_[4-5]", array.id)).refused(4);
        assert!(words.contains(&format!("no such job: {}_[4-5]", array.id)), "{words}");
        lab.say(&format!("gqstat --why {}_9", array.id)).refused(4);
        lab.say(&format!("gqcancel {}", array.id)).ok();
    }
    lab.say("gqcancel 999").refused(4);
    lab.say("gqctl hold 999").refused(4);
    lab.say("gqstat -j nonsense").refused(2);
    lab.say("gqcancel").refused(2);
    lab.say(&format!("gqctl hold {}", job.id)).refused(1);
    assert!(lab.ctl("ping").contains("answers"));
    assert_eq!(lab.gqd.stop(), Some(0));
    for line in [
        "gqstat",
        "gqstat -j 1",
        "gqstat -j 999",
        "gqcancel 1",
        "gqctl ping",
        "gqctl drain n1 --reason fan",
        "gqsub --wrap true",
    ] {
        let words = lab.say(line).refused(3);
        assert!(words.contains("gqd"), "{line}: {words}");
    }
    assert_eq!(std::fs::read_dir(lab.dir().join("spool/drop")).unwrap().count(), 0, "no file is left behind");
    lab.gqd.start();
    assert_eq!(job.ended(), End::Completed, "known after a restart");
}

/// B186: a job leaves the list only when its end is known.
#[test]
fn a_job_leaves_the_list_when_its_end_is_recorded() {
    let lab = Lab::with_cards(0);
    for _ in 0..5 {
        let job = lab.submit("", "echo result");
        until("it leaves the list", || {
            (!lab.say("gqstat -h -o %i").ok().contains(&job.id.to_string())).then_some(())
        });
        let view = job.view();
        assert_eq!((&view["state"], &view["exit_code"]), (&"COMPLETED".into(), &0.into()), "{view}");
        assert_eq!(job.out(), "result\n");
    }
}

/// B182: words came out as numbers, and numbers in a form that no reader took.
#[test]
fn in_json_words_are_words_and_numbers_are_whole() {
    let lab = Lab::with_cards(0);
    for name in ["17", "007", "1e5", "NaN", "-Infinity", "null", "true", "0x10", "1_000"] {
        let said = format!("--job-name={name}");
        let job = lab.gqsub(&["-H", &said, "-A", name, "--comment", name, "--wrap", "true"]);
        let view = job.view();
        for key in ["name", "account", "comment"] {
            assert_eq!(view[key], name, "{key}");
        }
    }
    // More than any machine has is said in words, not in a number that breaks.
    for size in ["1000000000000000000", "999999999999G", "8388608T"] {
        let words = lab.run("gqsub", &["--mem", size, "--wrap", "true"]);
        assert!([1, 2].contains(&words.code) && !words.err.contains("panic"), "{size}: {words:?}");
    }
    let text = lab.say("gqstat --json -t all").ok() + &lab.say("gqstat --json --nodes").ok();
    for key in ["memory_mib", "cpus", "id", "time_limit", "priority"] {
        for (_, rest) in
            text.match_indices(&format!("\"{key}\":")).map(|(at, word)| text[at..].split_at(word.len()))
        {
            let value = rest.trim_start().split([',', '}', '\n']).next().unwrap().trim_end();
            let is_whole = value.strip_prefix('-').unwrap_or(value).bytes().all(|b| b.is_ascii_digit());
            assert!(value == "null" || is_whole, "{key}: {value}");
        }
    }
}

/// B190: a job that had ended was not found, since others that were submitted before it ended after it.
#[test]
fn an_ended_job_is_found_in_whatever_order_jobs_ended() {
    let lab = Lab::with_cards(0);
    let long = lab.submit("", "until [ -e go ]; do sleep 0.02; done");
    let early: Vec<_> = (0..3).map(|n| lab.submit("", &format!("exit {n}"))).collect();
    early.iter().for_each(|job| {
        job.ended();
    });
    lab.file("go", "");
    assert_eq!(long.ended(), End::Completed);
    let last = lab.submit("", "exit 9");
    last.ended();
    for _ in 0..2 {
        for (job, code) in [(&long, 0), (&early[2], 2), (&last, 9), (&early[0], 0), (&early[1], 1)] {
            assert_eq!(job.view()["exit_code"], code);
        }
        assert_eq!(lab.list("-t all").len(), 5);
        lab.gqd.kill9();
        lab.gqd.start();
    }
}

/// B188: who reads no further ends a client quietly; what cannot be written is an error.
#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    let lab = Lab::with_cards(0);
    let comment = format!("--comment={}", "c".repeat(1000));
    for _ in 0..80 {
        lab.gqsub(&["-H", &comment, "--wrap", "true"]);
    }
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for words in [&[][..], &["--json"], &["--nodes"]] {
        let said = finish(lab.client("gqstat").args(words).stdout(full()));
        assert_eq!(said.code, 1, "{words:?} {said:?}");
        assert!(said.err.contains("cannot write"), "{said:?}");
    }
    let mut shell = Command::new("/bin/bash");
    // More than a pipe holds.
    shell.env("GQ_CONF", lab.conf()).arg("-c").arg("\"$0\" --json | head -c 1; echo \" ${PIPESTATUS[0]}\"");
    let said = finish(shell.arg(crate::lab::program_path("gqstat")));
    assert!(said.out == "{ 0\n" || said.out == "{ 141\n", "{said:?}");
    assert_eq!(said.err, "");
    let submitted = finish(lab.client("gqsub").args(["--wrap", "true"]).stdout(full()));
    assert_eq!(submitted.code, 1, "{submitted:?}");
    assert!(submitted.err.contains("is submitted, but"), "{submitted:?}");
}

#[test]
fn what_users_typed_is_escaped_where_it_is_shown() {
    let lab = Lab::with_cards(0);
    let job = lab.gqsub(&["-H", "-o", "out\x1b[31m\n\u{202e}", "--wrap", "true"]);
    for words in [&["-o", "stdout"][..], &["--json", "-t", "all"], &["-o", "%o %Z %j"]] {
        let out = lab.run("gqstat", words).ok();
        assert!(!out.contains(['\x1b', '\u{202e}']), "{out:?}");
    }
    assert!(job.word("stdout").ends_with("out\x1b[31m\n\u{202e}"), "JSON says it exactly");
    let list: Vec<Value> = lab.list("-t all");
    assert_eq!(list.len(), 1);
}

/// A terminal of so many columns, by `script`; none where there is no such program.
fn on_terminal(lab: &Lab, columns: u32, variables: &[(&str, &str)]) -> Option<String> {
    let mut script = Command::new("script");
    let gqstat = crate::lab::program_path("gqstat");
    script
        .arg("-qec")
        .arg(format!("stty cols {columns} rows 24; {} -t all", gqstat.display()))
        .arg("/dev/null");
    script
        .env("GQ_CONF", lab.conf())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied());
    let output = script.stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_table_fits_the_terminal_and_has_colours_there_only() {
    let lab = Lab::with_cards(0);
    let name = "n".repeat(120);
    lab.submit(&format!("-H -J {name}"), "true");
    let Some(shown) = on_terminal(&lab, 70, &[]) else {
        eprintln!("left out: there is no program `script` here");
        return;
    };
    assert!(shown.contains("\x1b[33m") && shown.contains("JOBID"), "{shown:?}");
    let plain = on_terminal(&lab, 70, &[("NO_COLOR", "1")]).unwrap();
    assert!(!plain.contains('\x1b'), "{plain:?}");
    for line in plain.lines() {
        assert!(line.trim_end().chars().count() <= 70, "{line:?}");
    }
    assert!(lab.say("gqstat -t all").ok().contains(&name), "elsewhere nothing is cut");
}

fn starts(list: &[Value]) -> Vec<f64> {
    list.iter()
        .map(|job| job["expected_start"].as_f64().unwrap_or_else(|| panic!("no start: {job}")))
        .collect()
}

/// Every job that waits has an expected start, also far down the queue; and when jobs run as long as they may, that is when they start.
#[test]
fn what_is_foretold_is_what_happens() {
    let lab = Lab::with_cards(1);
    let first = lab.submit("--gpus=1 -t 0:0:3", "sleep 600").running();
    let queued: Vec<_> = (0..4).map(|_| lab.submit("--gpus=1 -t 0:0:3", "sleep 600")).collect();
    let list = lab.list("--start");
    let foretold = starts(&list);
    let ids: Vec<u64> = list.iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, queued.iter().map(|job| job.id).collect::<Vec<_>>(), "in the order of their starts");
    assert!(list.iter().all(|job| job["expected_node"] == "n1"), "{list:?}");
    let began = first.view()["start_time"].as_f64().unwrap();
    for (at, start) in foretold.iter().enumerate() {
        let due = began + 3.0 * (at + 1) as f64;
        assert!((due - 0.5..due + 2.5).contains(start), "{foretold:?} after {began}");
    }
    let table = lab.say("gqstat --start").ok();
    let heads: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads[..6], ["JOBID", "PARTITION", "NAME", "USER", "ST", "EXPECTED_START"], "{table}");
    for (job, start) in queued.iter().zip(&foretold) {
        assert_eq!(job.ended(), End::Timeout);
        let view = job.view();
        let happened = view["start_time"].as_f64().unwrap();
        // Never before the one in front has used its time; a busy machine may be late.
        assert!((start - 1.0..start + 8.0).contains(&happened), "foretold {start}, started {happened}");
        let (promised, error) =
            (view["first_promise"].as_f64().unwrap(), view["promise_error"].as_f64().unwrap());
        assert!((happened - promised - error).abs() < 0.001, "{view}");
    }
}

/// Who may start first stands first, whatever its place in the queue; jobs nobody can foretell stand last.
#[test]
fn starts_are_listed_in_their_order() {
    let lab = Lab::with_cards(2);
    lab.submit("--gpus=1 -t 20", "sleep 600").running();
    lab.submit("--gpus=1 -t 60", "sleep 600").running();
    let wide = lab.submit("--gpus=2 -t 5", "true");
    let narrow = lab.submit("--gpus=1 -t 30", "true");
    let held = lab.submit("--gpus=1 -H", "true");
    let ids: Vec<u64> = lab.list("--start").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [narrow.id, wide.id, held.id]);
    let plain: Vec<u64> = lab.list("-t PD").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(plain[..2], [wide.id, narrow.id], "without it in the order of the queue");
    assert!(held.view()["expected_start"].is_null());
}

#[test]
fn why_names_what_is_lacking_who_has_it_and_what_would_help() {
    let lab = Lab::with_cards(2);
    let holder = lab.submit("--gpus=1 -t 20", "sleep 600").running();
    let first = lab.submit("--gpus=2 -t 60", "true");
    let second = lab.submit("--gpus=2 -t 60", "true");
    let why = lab.say(&format!("gqstat --why {}", second.id)).ok();
    for words in
        ["reason: Priority", "it waits for: ", &format!("job {} on n1", holder.id), "expected start: 2"]
    {
        assert!(why.contains(words), "{words}: {why}");
    }
    assert!(why.contains(&format!("before it: 1 job: {}", first.id)), "{why}");
    let json = lab.say(&format!("gqstat --why {} --json", first.id)).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    let why = &json["jobs"][0]["why"];
    assert_eq!(why["holders"][0]["job"], holder.id.to_string(), "{json}");
    let due = why["holders"][0]["due"].as_f64().unwrap() - holder.view()["start_time"].as_f64().unwrap();
    assert!((1190.0..1260.0).contains(&due), "{due}");
    assert!(why["lacks"].as_array().is_some_and(|lacks| !lacks.is_empty()), "{json}");
    // One card is free, until the first in line needs both; this one asks for more altogether.
    let narrow = lab.submit("--gpus=1 -t 300", "true");
    let why = lab.say(&format!("gqstat --why {}", narrow.id)).ok();
    let helps = why.lines().find_map(|line| line.split_once("it would start at once: with --time="));
    let (_, limit) = helps.unwrap_or_else(|| panic!("{why}"));
    let limit = limit.split_whitespace().next().unwrap();
    let shorter = lab.submit(&format!("--gpus=1 -t {limit}"), "echo at once");
    assert_eq!(shorter.output(), "at once\n");
    assert_eq!(narrow.state(), gq_model::JobState::Pending);
    assert!(lab.say(&format!("gqstat --why {}", holder.id)).ok().contains("RUNNING"));
}

#[test]
fn terms_of_a_job_are_fields() {
    let tables = "[[qos]]\nname = \"debug\"\npriority = 7\n[[licence]]\nname = \"matlab\"\ncount = 2\n";
    let lab = crate::lab::Plan::new().node("n1", &crate::lab::cards(1)).tables(tables).start();
    let job = lab.submit("-H -q debug -L matlab:2 --gpu-mem=40G", "true");
    let line = lab.run("gqstat", &["-h", "-o", "%q|%W|%v|%b"]).ok();
    assert_eq!(line, "debug|matlab:2|(null)|gpu:1\n");
    let view = job.view();
    assert_eq!((&view["qos"], &view["licenses"][0]["name"]), (&"debug".into(), &"matlab".into()));
    assert_eq!((&view["gpus_asked"], &view["gpu_memory_mib"]), (&"gpu-mem>=40G".into(), &40960.into()));
    assert!(view["reservation"].is_null() && view["first_promise"].is_null());
    lab.ctl(&format!("release {}", job.id));
    assert_eq!(job.ended(), End::Completed);
    let slow = lab.submit("-L matlab", "sleep 600").running();
    let waits = lab.submit("-L matlab:2", "true");
    assert_eq!(waits.reason(), gq_model::Reason::Licences);
    assert!(lab.say(&format!("gqstat --why {}", waits.id)).ok().contains("matlab"));
    lab.say(&format!("gqcancel {}", slow.id));
    assert_eq!(waits.ended(), End::Completed);
}

#[test]
fn priorities_are_told_by_their_parts_and_shares_as_a_tree() {
    let tables = "[[account]]\nname = \"lab\"\nshares = 3\n[[account]]\nname = \"vision\"\nparent = \"lab\"\nusers = [\"root\"]\n\
                  [[partition]]\nname = \"main\"\npriority = 10\n";
    let weights = "priority_age = 1000000\npriority_fair_share = 500\n";
    let lab =
        crate::lab::Plan::new().node("n1", &crate::lab::cards(1)).scheduler(weights).tables(tables).start();
    lab.submit("--gpus=1 -A vision", "sleep 600").running();
    let low = lab.submit("--gpus=1 --nice=50 -A vision", "true");
    let high = lab.submit("--gpus=1 -A vision", "true");
    let answer: Value = serde_json::from_str(&lab.ctl("priority --json")).unwrap();
    let jobs = answer["jobs"].as_array().unwrap();
    assert_eq!((&jobs[0]["id"], &jobs[1]["id"]), (&high.id.into(), &low.id.into()), "{answer}");
    for job in jobs {
        let parts = ["age", "fair_share", "size", "partition_priority", "qos_priority", "nice"];
        let sum: i64 = parts.iter().map(|part| job[part].as_i64().unwrap()).sum();
        assert_eq!(job["total"], sum, "{job}");
        assert_eq!((&job["partition_priority"], &job["account"]), (&100_000.into(), &"vision".into()));
        assert!(job["fair_share"].as_i64().unwrap() > 0, "{job}");
    }
    assert_eq!(jobs[1]["nice"], -50);
    let table = lab.ctl(&format!("priority {}", low.id));
    assert!(table.starts_with("  JOBID USER") && table.lines().count() == 2, "{table}");
    assert_eq!(lab.say("gqctl priority 999").code, 4);
    let answer: Value = serde_json::from_str(&lab.ctl("shares --json")).unwrap();
    let shares = answer["shares"].as_array().unwrap();
    let names: Vec<(&str, bool)> =
        shares.iter().map(|s| (s["account"].as_str().unwrap_or("-"), s["user"].is_null())).collect();
    assert_eq!(names[..3], [("lab", true), ("vision", true), ("vision", false)], "{answer}");
    assert_eq!((&shares[0]["shares"], &shares[1]["parent"]), (&3.into(), &"lab".into()));
    assert!(lab.ctl("shares").lines().any(|line| line.starts_with("  vision")), "{}", lab.ctl("shares"));
}

#[test]
fn nodes_show_slices_who_holds_them_and_what_is_left() {
    let node = "cpus = 16\nmemory = \"64G\"\n[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\nmemory = \"80G\"\n\
                slices = [\"3g.40gb\", \"2g.20gb\", \"1g.10gb\"]\n";
    let lab = crate::lab::Plan::new().node("n1", node).start();
    let job = lab.submit("--slice=2g.20gb", "sleep 600").running();
    assert_eq!(lab.run("gqstat", &["-h", "-o", "gpus"]).ok(), "1x2g.20gb\n");
    let card = lab.node_view("n1").unwrap()["gpus"][0].clone();
    let slices = card["slices"].as_array().unwrap();
    let held: Vec<&str> =
        slices.iter().filter(|s| !s["job"].is_null()).map(|s| s["profile"].as_str().unwrap()).collect();
    assert_eq!(held, ["2g.20gb"], "{card}");
    assert_eq!(slices.iter().find(|s| s["profile"] == "2g.20gb").unwrap()["job"], job.id.to_string());
    assert_eq!(card["free"], serde_json::json!(["3g.40gb+1g.10gb"]), "only what is there: {card}");
    assert_eq!((&card["units"], &card["free_units"]), (&8.into(), &6.into()), "{card}");
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains("(slices)") && table.contains("free: 3g.40gb+1g.10gb"), "{table}");
    let waits = lab.submit("--slice=2g.20gb", "true");
    assert_eq!(lab.run("gqstat", &["-h", "-t", "PD", "-o", "gpus"]).ok(), "2g.20gb:1\n");
    let why = lab.say(&format!("gqstat --why {}", waits.id)).ok();
    assert!(why.contains("2g.20gb") && why.contains(&format!("job {}", job.id)), "{why}");
}

#[test]
fn a_slice_that_was_cut_for_a_job_is_shown_with_it_and_with_what_could_be_cut_beside_it() {
    let node = "cpus = 16\nmemory = \"64G\"\n[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\nmemory = \"80G\"\nmig = true\n";
    let tables = "[[partition]]\nname = \"main\"\nrecut = true\n";
    let lab = crate::lab::Plan::new().node("n1", node).tables(tables).start();
    let card = || lab.node_view("n1").unwrap()["gpus"][0].clone();
    let empty = card();
    assert_eq!((&empty["free"][0], &empty["free_units"]), (&"7g.80gb".into(), &8.into()), "{empty}");
    let job = lab.submit("--slice=3g.40gb", "sleep 600").running();
    let cut = card();
    let slices = cut["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 1, "{cut}");
    assert_eq!((&slices[0]["profile"], &slices[0]["job"]), (&"3g.40gb".into(), &job.id.to_string().into()));
    assert_eq!((&slices[0]["units"], &cut["free_units"]), (&4.into(), &4.into()), "{cut}");
    let large = cut["free"][0].as_str().unwrap();
    assert!(["3g.40gb", "4g.40gb"].contains(&large), "half a card is left: {cut}");
    assert_eq!(lab.run("gqstat", &["-h", "-o", "%b"]).ok(), "gpu:3g.40gb:1\n");
    lab.say(&format!("gqcancel {}", job.id));
    job.ended();
    until("its units are free", || (card()["free_units"] == 8).then_some(()));
}
