//! Tables of what is shown of fixed jobs and nodes, and `gqstat` against a socket that answers as `gqd` does.

mod life;
mod shares;

use super::*;
use crate::tests as scripted;
use gq_model::{Card, CardHealth, JobId, MiB, NodeName, Reason, Seconds, Slice, Timestamp, Uid};
use gq_proto::{CardView, GpuView, NodeView, PartitionView, Refusal, RefusalKind, SliceView};
use std::fs;

fn clock() -> Clock {
    Clock { now: Timestamp::from_secs(1_000_000), zone: jiff::tz::TimeZone::UTC }
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// A job that waits.
pub(super) fn waiting() -> JobView {
    JobView {
        id: JobId(17),
        array_job_id: None,
        array_task_id: None,
        array_tasks: None,
        name: "train".into(),
        uid: Uid(1000),
        user: "ann".into(),
        account: None,
        qos: None,
        reservation: None,
        licences: vec![],
        partition: "main".into(),
        state: "PENDING".into(),
        reason: Reason::Resources,
        reason_detail: None,
        priority: 42,
        submit_time: Timestamp(990_000_500_000),
        begin_time: None,
        start_time: None,
        end_time: None,
        expected_start: Some(Timestamp::from_secs(1_003_600)),
        expected_node: None,
        first_promise: None,
        last_promise: None,
        time_limit: Some(Seconds(7200)),
        nodes: vec![],
        cpus: 4,
        memory_mib: MiB(16 << 10),
        gpu_count: 2,
        gpu_profile: None,
        gpu_model: None,
        gpu_memory_mib: None,
        gpu_share_mib: None,
        gpus: vec![],
        exit_code: None,
        signal: None,
        used: None,
        run: 0,
        restarts: 0,
        stage: None,
        suspended: None,
        suspended_before: 0,
        idle_since: None,
        idle_until: None,
        idle_ok: None,
        dependency: None,
        deadline: None,
        time_min: None,
        array_throttle: None,
        stdout: "/home/ann/gq-17.out".into(),
        stderr: "/home/ann/gq-17.out".into(),
        work_dir: "/home/ann".into(),
        command: Some("train.sh".into()),
        comment: None,
        features: vec![],
        exclusive: false,
    }
}

pub(super) fn running() -> JobView {
    let gpu = |index, slice: Option<&str>| GpuView {
        node: node("ws1"),
        index,
        uuid: None,
        slice: slice.map(str::to_owned),
        share_mib: None,
    };
    JobView {
        id: JobId(18),
        array_job_id: Some(JobId(18)),
        array_task_id: Some(3),
        state: "RUNNING".into(),
        reason: Reason::None,
        start_time: Some(Timestamp::from_secs(1_000_000 - 3_725)),
        nodes: vec![node("ws1")],
        gpus: vec![gpu(0, None), gpu(1, Some("1g.10gb")), gpu(1, Some("1g.10gb"))],
        run: 1,
        ..waiting()
    }
}

fn failed() -> JobView {
    JobView {
        id: JobId(19),
        state: "FAILED".into(),
        reason: Reason::NonZeroExitCode,
        start_time: Some(Timestamp::from_secs(900_000)),
        end_time: Some(Timestamp::from_secs(990_061)),
        time_limit: None,
        nodes: vec![node("ws1"), node("ws2")],
        exit_code: Some(3),
        ..waiting()
    }
}

fn shown_as(format: &str, job: &JobView) -> String {
    let Format::Letters(pieces) = Format::read(format).unwrap() else { panic!("no letters") };
    let mut line = String::new();
    let clock = clock();
    format::write_line(&pieces, &mut line, |field, cell| field.write(job, &clock, cell));
    line.pop();
    line
}

#[test]
fn slurms_letters_say_what_slurm_says() {
    let (waiting, running, failed) = (waiting(), running(), failed());
    let rest = JobView {
        array_job_id: Some(JobId(17)),
        array_tasks: Some("4-9%2".into()),
        gpu_count: 0,
        features: vec!["nvlink".into(), "big".into()],
        ..waiting.clone()
    };
    for (format, job, line) in [
        ("%i|%A|%F|%K", &waiting, "17|17|17|N/A"),
        ("%i|%A|%F|%K", &running, "18_3|18|18|3"),
        ("%i|%A|%F|%K", &rest, "17_[4-9%2]|17|17|4-9%2"),
        ("%t %T %r %R", &waiting, "PD PENDING Resources (Resources)"),
        ("%t %T %r %R", &running, "R RUNNING None ws1"),
        ("%t %T %r %R", &failed, "F FAILED NonZeroExitCode (NonZeroExitCode)"),
        ("%M %L %l", &waiting, "0:00 2:00:00 2:00:00"),
        ("%M %L %l", &running, "1:02:05 57:55 2:00:00"),
        ("%M %L %l", &failed, "1-01:01:01 UNLIMITED UNLIMITED"),
        ("%S %e", &waiting, "1970-01-12T14:46:40 1970-01-12T16:46:40"),
        ("%V %e", &failed, "1970-01-12T11:00:00 1970-01-12T11:01:01"),
        ("%b %D %N %B", &waiting, "gpu:2 1  N/A"),
        ("%b %D %N %B", &running, "gpu:1,gpu:1g.10gb:2 1 ws1 ws1"),
        ("%b %D %N %B", &failed, "gpu:2 2 ws[1-2] ws1"),
        ("%b %f %h", &rest, "N/A nvlink&big OK"),
        ("%C %m %Q %p", &waiting, "4 16G 42 0.00000000977889"),
        ("%a %k %q %x %o %Z", &waiting, "(null) (null) (null) (null) train.sh /home/ann"),
        ("%u %U %P %j", &waiting, "ann 1000 main train"),
        ("%.7i|%7j|%.3j|%3j|", &waiting, "     17|train  |tra|tra|"),
    ] {
        assert_eq!(shown_as(format, job), line, "{format}");
    }
}

#[test]
fn what_a_user_typed_never_reaches_the_terminal_raw() {
    let job = JobView { name: "x\x1b[2J\u{202e}\ny".into(), comment: Some("\u{9b}1m".into()), ..waiting() };
    assert_eq!(shown_as("%j|%k", &job), "x\\x1b[2J\\u{202e}\\ny|\\x9b1m");
    let mut text = String::new();
    why::tell(&job, None, &clock(), &mut text);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
    let mut bytes = Vec::new();
    json::write(&mut bytes, &json::job(&job)).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.contains(r#""name":"x\u001b[2J\u202e\ny""#) && text.contains(r#""comment":"\u009b1m""#),
        "{text}"
    );
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["name"], job.name);
}

#[test]
fn json_has_every_key_of_the_contract_and_null_for_what_is_absent() {
    let keys = "id array_job_id array_task_id name user account partition state reason priority submit_time start_time \
                end_time expected_start time_limit nodes cpus memory_mib gpus exit_code signal run stdout stderr \
                work_dir array_tasks";
    let of = |job: &JobView| -> serde_json::Value { serde_json::to_value(json::job(job)).unwrap() };
    for job in [waiting(), running(), failed()] {
        let value = of(&job);
        keys.split_whitespace().for_each(|key| assert!(value.get(key).is_some(), "{key} is missing"));
    }
    let value = of(&waiting());
    assert_eq!(value["submit_time"], 990_000.5);
    assert_eq!(value["expected_start"], 1_003_600);
    assert_eq!(value["time_limit"], 7200);
    assert_eq!(value["memory_mib"], 16384);
    assert!(value["start_time"].is_null() && value["exit_code"].is_null() && value["array_tasks"].is_null());
    let value = of(&running());
    assert_eq!(value["array_job_id"], 18);
    assert_eq!(value["gpus"][1]["slice"], "1g.10gb");
    assert!(value["gpus"][0]["uuid"].is_null() && value["gpus"][0]["slice"].is_null());
    assert_eq!(of(&failed())["exit_code"], 3);
}

#[test]
fn every_reason_and_state_is_told_in_words() {
    for reason in Reason::ALL {
        for state in JobState::all() {
            let job = JobView { reason: *reason, state: state.name().into(), ..waiting() };
            let mut text = String::new();
            why::tell(&job, None, &clock(), &mut text);
            let told = text.contains(reason.word()) && text.contains(why::meaning(*reason));
            assert_eq!(told, *reason != Reason::None, "{text}");
        }
    }
}

#[test]
fn a_job_out_of_sight_says_what_an_admin_can_do() {
    let told = |state: JobState| {
        let mut text = String::new();
        why::tell(&JobView { state: state.name().into(), ..running() }, None, &clock(), &mut text);
        text.contains("gqctl node NAME fence")
    };
    assert!(told(JobState::Unknown) && !told(JobState::Running));
}

#[test]
fn what_a_job_asks_for_is_told_whole() {
    let told = |job: &JobView| {
        let mut text = String::new();
        why::tell(job, None, &clock(), &mut text);
        text
    };
    let whole = JobView { memory_mib: MiB(0), cpus: 1, exclusive: true, ..waiting() };
    let text = told(&whole);
    assert!(
        text.contains("it asks for: 1 cpu, all memory of a node, ") && text.contains("the node alone"),
        "{text}"
    );
    let text = told(&JobView { reason: Reason::OutputFile, state: "FAILED".into(), ..waiting() });
    assert!(!text.contains("exit code"), "{text}");
}

/// What `gqstat` prints, and its code, when `gqd` gives these answers to its question; the question too.
fn answered(
    name: &str,
    line: &str,
    width: Option<usize>,
    replies: Vec<Reply>,
) -> (String, Result<u8, Trouble>, Ask) {
    let ((text, result), ask) = scripted::answered(&format!("stat-{name}"), &replies, |place| {
        let answer = place.folder.join("answer");
        let mut out = Out::of_file(fs::File::create(&answer).unwrap(), width);
        let conf = place.conf();
        let words = command().try_get_matches_from(line.split(' ').chain(["--conf", &conf])).unwrap();
        let result = work(&words, &mut out).and_then(|code| out.flush().map(|()| code));
        (fs::read_to_string(&answer).unwrap(), result)
    });
    (text, result, ask)
}

fn jobs(jobs: Vec<JobView>, more: bool) -> Reply {
    Reply::Jobs {
        jobs,
        unknown: vec![],
        degraded: None,
        budgets: vec![],
        explained: vec![],
        arrays: vec![],
        more,
    }
}

#[test]
fn a_listing_comes_in_parts_and_is_one_table() {
    let parts = vec![jobs(vec![waiting(), running()], true), jobs(vec![failed()], true), jobs(vec![], false)];
    let (text, result, ask) =
        answered("parts", "gqstat -o jobid,name:7,st,gpus,where -t all -n train,other", None, parts);
    assert_eq!(result, Ok(0));
    assert_eq!(
        text,
        [
            "  JOBID NAME    ST GPUS        NODELIST(REASON)\n",
            "     17 train   PD 2           (Resources)\n",
            "   18_3 train   R  1,2x1g.10gb ws1\n",
            "     19 train   F  2           (NonZeroExitCode)\n",
        ]
        .concat()
    );
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert_eq!((ask.select.names.len(), ask.select.states.len()), (2, 15));
}

#[test]
fn a_terminal_gets_lines_that_fit_it() {
    let job = JobView { name: "a very long name of a job that says everything".into(), ..waiting() };
    let (text, ..) = answered("narrow", "gqstat", Some(60), vec![jobs(vec![job], false)]);
    assert!(text.lines().all(|line| table::places(line) <= 60), "{text}");
    assert!(text.contains('…'), "{text}");
}

#[test]
fn json_is_one_object_also_when_there_is_nothing() {
    let parts = vec![jobs(vec![waiting()], true), jobs(vec![failed()], false)];
    let (text, ..) = answered("json", "gqstat --json", None, parts);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["jobs"].as_array().unwrap().len(), 2);
    let (text, ..) = answered("empty", "gqstat --json", None, vec![jobs(vec![], false)]);
    assert_eq!(text, "{\"jobs\":[]}\n");
    let (text, ..) = answered("nothing", "gqstat -h", None, vec![jobs(vec![], false)]);
    assert_eq!(text, "");
}

#[test]
fn unknown_ids_are_code_4_and_the_known_are_shown_all_the_same() {
    let unknown = vec!["99".parse().unwrap()];
    let reply = Reply::Jobs {
        jobs: vec![waiting()],
        unknown,
        degraded: Some("full".into()),
        budgets: vec![],
        explained: vec![],
        arrays: vec![],
        more: false,
    };
    let (text, result, ask) = answered("unknown", "gqstat -h -o %i -j 17,99", None, vec![reply]);
    assert_eq!((text.as_str(), result), ("17\n", Ok(NO_SUCH_JOB)));
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert_eq!(ask.select.jobs.len(), 2);
}

#[test]
fn other_words_count_beside_ids() {
    let reply = jobs(vec![waiting(), failed()], false);
    let (text, ..) = answered("words", "gqstat -h -o %i -j 17,19 -t F", None, vec![reply]);
    assert_eq!(text, "19\n");
}

#[test]
fn refusals_and_broken_answers_have_their_codes() {
    let refusal = Refusal { kind: RefusalKind::NotPermitted, text: "no".into(), hint: None };
    let (_, result, _) = answered("refused", "gqstat", None, vec![Reply::Refused(refusal)]);
    assert_eq!(result.unwrap_err().code(), 5);
    let (_, result, _) = answered("torn", "gqstat", None, vec![jobs(vec![waiting()], true)]);
    assert_eq!(result.unwrap_err().code(), 3);
    let (_, result, _) = answered("astray", "gqstat", None, vec![Reply::Nodes(vec![])]);
    assert_eq!(result.unwrap_err().code(), 3);
    let (_, result, _) = answered("silent", "gqstat", None, vec![]);
    assert_eq!(result.unwrap_err().code(), 3);
}

#[test]
fn expected_starts_are_asked_of_jobs_that_wait() {
    let (text, _, ask) = answered("start", "gqstat --start", None, vec![jobs(vec![waiting()], false)]);
    assert!(text.contains("EXPECTED_START") && text.contains("1970-01-1"), "{text}");
    let Ask::List(ask) = ask else { panic!("{ask:?}") };
    assert_eq!((ask.select.states, ask.starts, ask.by_start), (vec![JobState::Pending], true, true));
}

#[test]
fn only_who_looks_at_starts_waits_for_them() {
    for (line, starts) in [
        ("gqstat", false),
        ("gqstat -o %i -u root", false),
        ("gqstat -l", false),
        ("gqstat --json", true),
        ("gqstat -o %S", true),
        ("gqstat -o jobid,expected_start", true),
        ("gqstat -j 17", true),
        ("gqstat --why 17", true),
    ] {
        let name = format!("foretell-{}", line.len());
        let (_, _, ask) = answered(&name, line, None, vec![jobs(vec![waiting()], false)]);
        let Ask::List(ask) = ask else { panic!("{ask:?}") };
        assert_eq!((ask.starts, ask.by_start), (starts, false), "{line}");
        assert_eq!(ask.explain, line.contains("--why"), "{line}");
    }
}

#[test]
fn what_a_job_waits_for_is_told_with_who_has_it_and_what_would_help() {
    let explained = ExplanationView {
        id: JobId(17),
        reason: Reason::Resources,
        expected: Some((Timestamp::from_secs(1_003_600), node("ws1"))),
        lacks: vec!["2 cards".into(), "8 cpus".into()],
        holders: vec![gq_proto::HolderView {
            job: "12".into(),
            node: node("ws1"),
            holds: "2 cards".into(),
            due: Timestamp::from_secs(1_003_600),
        }],
        ahead: vec![JobId(13), JobId(14)],
        ahead_count: 9,
        instead: vec!["with --gpus=1".into(), "on partition short".into()],
    };
    let reply = || Reply::Jobs {
        jobs: vec![waiting()],
        unknown: vec![],
        degraded: None,
        budgets: vec![],
        explained: vec![explained.clone()],
        arrays: vec![],
        more: false,
    };
    let (text, result, _) = answered("why", "gqstat --why 17", None, vec![reply()]);
    assert_eq!(result, Ok(0));
    for words in [
        "reason: Resources",
        "it waits for: 2 cards, 8 cpus",
        "held by: job 12 on ws1: 2 cards, due by 1970-01-1",
        "before it: 9 jobs: 13 14 \u{2026}",
        "expected start: 1970-01-1",
        " on ws1\n",
        "it would start at once: with --gpus=1\n",
        "or on partition short\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (text, ..) = answered("why-json", "gqstat --why 17 --json", None, vec![reply()]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let why = &value["jobs"][0]["why"];
    assert_eq!((&why["holders"][0]["due"], &why["ahead_count"]), (&1_003_600.into(), &9.into()));
}

#[test]
fn requests_promises_and_terms_have_fields() {
    let job = JobView {
        qos: Some("debug".into()),
        reservation: Some("class".into()),
        licences: vec![
            gq_model::LicenceAsk { name: "matlab".into(), count: 2 },
            gq_model::LicenceAsk { name: "idl".into(), count: 1 },
        ],
        start_time: Some(Timestamp::from_secs(1_000_000)),
        first_promise: Some(Timestamp::from_secs(1_000_090)),
        last_promise: Some(Timestamp::from_secs(999_995)),
        expected_node: Some(node("ws1")),
        ..waiting()
    };
    assert_eq!(shown_as("%q|%v|%W|%Y", &job), "debug|class|matlab:2,idl|ws1");
    let value = serde_json::to_value(json::job(&job)).unwrap();
    assert_eq!((&value["promise_error"], &value["licenses"][0]["count"]), (&(-90).into(), &2.into()));
    let value = serde_json::to_value(json::job(&waiting())).unwrap();
    for key in ["qos", "reservation", "first_promise", "last_promise", "promise_error", "gpu_profile"] {
        assert!(value[key].is_null(), "{key}");
    }
    let mut cell = String::new();
    Field::PromiseError.write(&job, &clock(), &mut cell);
    assert_eq!(cell, "-1:30");
    for (count, profile, model, memory, gpus, gres) in [
        (0, None, None, None, "0", "N/A"),
        (2, Some("1g.10gb"), None, None, "1g.10gb:2", "gpu:1g.10gb:2"),
        (1, None, Some("a100"), None, "a100:1", "gpu:a100:1"),
        (1, None, None, Some(20), "gpu-mem>=20G", "gpu:1"),
        (3, None, None, Some(20), "3,gpu-mem>=20G", "gpu:3"),
        (2, None, Some("a100"), Some(80), "a100:2,gpu-mem>=80G", "gpu:a100:2"),
    ] {
        let job = JobView {
            gpu_count: count,
            gpu_profile: profile.map(str::to_owned),
            gpu_model: model.map(str::to_owned),
            gpu_memory_mib: memory.map(|gib: u64| MiB(gib << 10)),
            ..waiting()
        };
        let mut cell = String::new();
        Field::Gpus.write(&job, &clock(), &mut cell);
        assert_eq!((cell.as_str(), shown_as("%b", &job).as_str()), (gpus, gres));
    }
}

pub(super) fn house() -> NodeView {
    let slice = Slice {
        profile: "3g.40gb".into(),
        uuid: None,
        memory: MiB(40 << 10),
        gpu_instance: None,
        compute_instance: None,
        placement: None,
        health: CardHealth::Good,
    };
    let card = |index, mig, slices: Vec<Slice>, health| Card {
        mig,
        slices,
        health,
        ..Card::whole(index, "A100-SXM4-80GB", MiB(80 << 10))
    };
    let view = |card: Card, job: Option<&str>, slices: Vec<SliceView>| {
        let free = if card.mig { vec!["3g.40gb".into(), "2g.20gb+1g.10gb".into()] } else { vec![] };
        let (parts, free_parts, job) = (Vec::new(), None, job.map(str::to_owned));
        let (busy, memory_taken) = (None, None);
        CardView { card, job, busy, memory_taken, parts, free_parts, slices, free_units: None, free }
    };
    let cut = |job: Option<&str>| SliceView {
        profile: "3g.40gb".into(),
        uuid: None,
        memory_mib: Some(MiB(40 << 10)),
        placement: None,
        trouble: None,
        job: job.map(str::to_owned),
    };
    NodeView {
        name: node("ws1"),
        state: "mixed".into(),
        unbound: Vec::new(),
        reason: None,
        partitions: vec!["main".into()],
        cpus: 32,
        cpus_used: 4,
        memory_mib: MiB(256 << 10),
        memory_used_mib: MiB(16 << 10),
        features: vec![],
        cards: vec![
            view(card(0, false, vec![], CardHealth::Good), Some("17"), vec![]),
            view(
                card(1, true, vec![slice.clone(), slice], CardHealth::Good),
                None,
                vec![cut(Some("18_3")), cut(None)],
            ),
            view(card(2, false, vec![], CardHealth::Failed("fell off the bus".into())), None, vec![]),
        ],
        jobs: vec!["17".into(), "18_3".into()],
    }
}

#[test]
fn nodes_are_shown_with_every_card_and_slice_and_who_holds_it() {
    let (text, result, _) = answered("nodes", "gqstat --nodes", None, vec![Reply::Nodes(vec![house()])]);
    assert_eq!(result, Ok(0));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["ws1", "mixed", "main", "4/32", "16G/256G"];
    for (line, rest) in lines[1..].iter().zip([
        &["0", "A100-SXM4-80GB", "80G", "17"][..],
        &["1", "A100-SXM4-80GB", "80G", "(slices)", "free:", "3g.40gb", "or", "2g.20gb+1g.10gb"],
        &["1:0", "3g.40gb", "40G", "18_3"],
        &["1:1", "3g.40gb", "40G", "-"],
        &["2", "A100-SXM4-80GB", "80G", "-", "fell", "off", "the", "bus"],
    ]) {
        assert_eq!(*line, [&head[..], rest].concat());
    }
    assert_eq!(lines.len(), 6);
    let (text, ..) = answered("nodes-json", "gqstat --nodes --json", None, vec![Reply::Nodes(vec![house()])]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["nodes"][0]["gpus"][1]["slices"][0]["job"], "18_3");
    assert_eq!(value["nodes"][0]["gpus"][1]["free"][1], "2g.20gb+1g.10gb");
    assert_eq!(value["nodes"][0]["gpus"][2]["failed"], "fell off the bus");
}

#[test]
fn a_partition_without_a_usual_time_shows_the_one_that_counts() {
    let of = |max_time, default_time| PartitionView {
        name: "short".into(),
        default: false,
        state: "up".into(),
        nodes: "ws1".into(),
        max_time,
        default_time,
    };
    let (minutes, hour) = (Some(Seconds(1800)), Some(Seconds(3600)));
    for (view, shown) in [
        (of(minutes, None), "30:00 30:00"),
        (of(None, hour), "UNLIMITED 1:00:00"),
        (of(None, None), "UNLIMITED UNLIMITED"),
    ] {
        let (text, ..) =
            answered("partitions", "gqstat --partitions -h", None, vec![Reply::Partitions(vec![view])]);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[2..4].join(" "), shown, "{text}");
    }
}

#[test]
fn nobody_listening_is_code_3_and_wrong_words_are_code_2() {
    let place = scripted::Place::new("stat-dead");
    let conf = place.conf();
    for (line, code) in [
        ("gqstat --conf CONF", 3),
        ("gqstat --conf /no/such/file", 2),
        ("gqstat -o %y --conf CONF", 2),
        ("gqstat -j x --conf CONF", 2),
        ("gqstat --nodes --partitions --conf CONF", 2),
        ("gqstat --nonsense", 2),
        ("gqstat 17", 2),
    ] {
        assert_eq!(
            main(line.replace("CONF", &conf).split(' ').map(OsString::from).collect()),
            code,
            "{line}"
        );
    }
    command().debug_assert();
}
