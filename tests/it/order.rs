//! Order: who goes first, who slips in, and what those who wait are told.

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::{End, JobState, Reason};

fn start_of(job: &Job<'_>) -> f64 {
    job.view()["start_time"].as_f64().unwrap()
}

#[test]
fn jobs_start_in_the_order_of_partition_priority_nice_and_submission() {
    let partitions =
        "[[partition]]\nname = \"main\"\ndefault = true\n[[partition]]\nname = \"urgent\"\npriority = 100\n";
    let lab = Plan::new().node("n1", &cards(1)).tables(partitions).start();
    let first = lab.submit("--gpus=1", "sleep 600").running();
    let names =
        [("later", "--nice=5"), ("one", ""), ("two", ""), ("urgent", "-p urgent"), ("sooner", "--nice=-5")];
    let jobs: Vec<Job<'_>> = names
        .iter()
        .map(|(name, options)| {
            lab.submit(&format!("--gpus=1 -J {name} {options}"), "echo $SLURM_JOB_NAME >>order")
        })
        .collect();
    assert_eq!(jobs[3].reason(), Reason::Resources, "the first in line");
    assert_eq!(jobs[1].reason(), Reason::Priority);
    let listed: Vec<String> =
        lab.say("gqstat -h -t PD -o %j").ok().split_whitespace().map(str::to_owned).collect();
    assert_eq!(listed, ["urgent", "sooner", "one", "two", "later"], "the list is in the order of the queue");
    lab.say(&format!("gqcancel {}", first.id));
    jobs.iter().for_each(|job| assert_eq!(job.ended(), End::Completed));
    assert_eq!(std::fs::read_to_string(lab.work("order")).unwrap(), "urgent\nsooner\none\ntwo\nlater\n");
}

#[test]
fn a_short_job_slips_in_and_a_long_one_does_not() {
    let lab = Lab::with_cards(2);
    let runs = lab.submit("--gpus=1 -t 10", "sleep 600").running();
    let wide = lab.submit("--gpus=2 -t 10", "true");
    let long = lab.submit("--gpus=1 -t 30", "true");
    let short = lab.submit("--gpus=1 -t 5", "echo slipped in");
    assert_eq!(short.output(), "slipped in\n");
    assert_eq!((wide.state(), wide.reason()), (JobState::Pending, Reason::Resources));
    assert_eq!((long.state(), long.reason()), (JobState::Pending, Reason::Priority));
    let view = wide.view();
    let promised = view["expected_start"].as_f64().unwrap() - start_of(&runs);
    assert!((600.0..640.0).contains(&promised), "when the first has to be over: {promised}");
    lab.say(&format!("gqcancel {}", runs.id));
    assert_eq!((wide.ended(), long.ended()), (End::Completed, End::Completed));
    assert!(start_of(&wide) <= start_of(&long));
}

#[test]
fn who_waits_is_told_why() {
    let partitions = "[[partition]]\nname = \"main\"\ndefault = true\nmax_time = \"2h\"\ndefault_time = \"1h\"\n\
                      [[partition]]\nname = \"down\"\nstate = \"down\"\n[[partition]]\nname = \"drain\"\nstate = \"drain\"\n";
    let lab = Plan::new().node("n1", &cards(1)).node("n2", &cards(2)).absent().tables(partitions).start();
    assert_eq!(lab.submit("-p down", "true").reason(), Reason::PartitionDown);
    assert_eq!(lab.submit("--begin=now+1hour", "true").reason(), Reason::BeginTime);
    assert_eq!(lab.submit("-H", "true").reason(), Reason::JobHeldUser);
    let elsewhere = lab.submit("--gpus=2", "echo $SLURMD_NODENAME");
    assert_eq!(elsewhere.reason(), Reason::NodesUnavailable, "declared, and not there yet");
    lab.say("gqsub -p drain --wrap true").refused(1);
    assert!(lab.say("gqsub -t 3h --wrap true").refused(1).contains("2:00:00"));
    assert_eq!(lab.submit("-H", "true").word("time_limit"), "3600");
    lab.node("n2").start();
    assert_eq!(elsewhere.output(), "n2\n");
}

#[test]
fn a_begin_time_in_the_near_future_is_kept() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("--begin=now+2", "true");
    assert_eq!(job.reason(), Reason::BeginTime);
    let view = job.view();
    assert_eq!(job.ended(), End::Completed);
    let late = start_of(&job) - view["begin_time"].as_f64().unwrap();
    assert!((0.0..5.0).contains(&late), "{late}");
    assert!(start_of(&job) - view["submit_time"].as_f64().unwrap() >= 1.0, "{view}");
}

#[test]
fn jobs_go_to_the_nodes_they_ask_for() {
    let with = |feature: &str| format!("cpus = 4\nmemory = \"8G\"\nfeatures = [\"common\", \"{feature}\"]\n");
    let lab = Plan::new().node("n1", &with("old")).node("n2", &with("new")).by_files().start();
    let where_am_i = "echo $SLURMD_NODENAME";
    assert_eq!(lab.submit("-w n2", where_am_i).output(), "n2\n");
    assert_eq!(lab.submit("-x n2", where_am_i).output(), "n1\n");
    assert_eq!(lab.submit("-C new", where_am_i).output(), "n2\n");
    assert_eq!(lab.submit("-C common&old", where_am_i).output(), "n1\n");
    assert_eq!(lab.submit("-w n[1-2] -x n1", where_am_i).output(), "n2\n");
    // One that wants its node alone waits for the others there, and they for it.
    let small = lab.submit("-w n1 -t 10", "until [ -e go ]; do sleep 0.02; done").running();
    let alone = lab.submit("-w n1 --exclusive -t 10", "until [ -e gone ]; do sleep 0.02; done");
    assert_eq!((alone.state(), alone.reason()), (JobState::Pending, Reason::Resources));
    lab.file("go", "");
    assert_eq!(small.ended(), End::Completed);
    alone.running();
    let other = lab.submit("-w n1", "true");
    assert_eq!((other.state(), other.reason()), (JobState::Pending, Reason::Resources));
    assert_eq!(lab.submit("", where_am_i).output(), "n2\n", "the other node is free");
    lab.file("gone", "");
    assert_eq!((alone.ended(), other.ended()), (End::Completed, End::Completed));
    assert!(start_of(&other) >= alone.view()["end_time"].as_f64().unwrap());
}

#[test]
fn cpus_and_memory_are_counted_too() {
    let lab = Plan::new().node("n1", "cpus = 4\nmemory = \"4G\"\n").start();
    let hold = |options: &str| lab.submit(options, "until [ -e go ]; do sleep 0.02; done");
    let half = hold("-c2").running();
    assert_eq!(
        (half.word("cpus"), half.word("memory_mib")),
        ("2".into(), "2048".into()),
        "its share, not the node"
    );
    let too_much = lab.submit("-c1 --mem=3G -t 10", "true");
    assert_eq!(too_much.reason(), Reason::Resources);
    let whole = lab.submit("--mem=0 -t 10", "echo $SLURM_MEM_PER_NODE");
    assert_eq!(whole.reason(), Reason::Priority);
    lab.file("go", "");
    assert_eq!((half.ended(), too_much.ended()), (End::Completed, End::Completed));
    assert_eq!(whole.output(), "4096\n");
    until("all is free", || (lab.node_view("n1")?["cpus_used"] == 0).then_some(()));
}
