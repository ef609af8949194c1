//! Runs that follow each other: tasks that failed and are tried again, what is put back into the queue, what stays from run to run, and that
//! no two of them are ever alive together.

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::{End, JobState, Reason};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::fs;

/// Waits until a job waits again, after its run of this number.
#[track_caller]
fn waits_again(job: Job<'_>, run: u32, reason: Reason) -> Value {
    let word = reason.to_string();
    job.when("waits again", |view| view["state"] == "PENDING" && view["run"] == run && view["reason"] == word)
}

#[test]
fn a_job_that_failed_is_tried_again_after_pauses_that_grow() {
    let lab = Lab::with_cards(1);
    let command = "date +%s.%N >>ends; echo run $GQ_RUN ${SLURM_RESTART_COUNT-none}; exit 3";
    let job = lab.submit("--retry=2 --gpus=1 --open-mode=append", command);
    let pause = |run: u32| {
        let view = waits_again(job, run, Reason::Backoff);
        let ends = lab.read("ends");
        let ended: f64 = ends.lines().last().unwrap().parse().unwrap();
        assert_eq!(ends.lines().count(), usize::try_from(run).unwrap());
        view["expected_start"].as_f64().unwrap() - ended
    };
    let first = pause(1);
    // Nothing is held meanwhile.
    assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
    assert!((0.9..2.0).contains(&first), "{first}");
    let second = pause(2);
    assert!((1.9..3.0).contains(&second), "{second}");
    lab.gqd.kill9();
    lab.gqd.start();
    waits_again(job, 2, Reason::Backoff);
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::NonZeroExitCode));
    assert_eq!(job.out(), "run 1 none\nrun 2 1\nrun 3 2\n");
    let view = job.view();
    assert_eq!((&view["run"], &view["exit_code"]), (&3.into(), &3.into()));
}

#[test]
fn only_what_is_wanted_is_tried_again() {
    let lab = Lab::with_cards(0);
    let submit = |options: &str, command: &str| lab.submit(&format!("-o /dev/null {options}"), command);
    let wanted = submit("--retry=1:75,137", "[ $GQ_RUN = 2 ] || exit 75");
    let unwanted = submit("--retry=1:75,137", "exit 5");
    let limited = submit("--retry=3 -t 1s", "sleep 600");
    let cancelled = submit("--retry=3", "touch up; sleep 600");
    let no_folder = lab.submit("--retry=3 -o nowhere/out", "true");
    let tasks = submit("--retry=1 --array=0-3", "echo $GQ_ARRAY_TASK_ID >>ran; [ $GQ_ARRAY_TASK_ID != 2 ]");
    lab.until_file("up");
    assert_eq!(lab.say(&format!("gqcancel {}", cancelled.id)).code, 0);
    for (job, end) in [
        (unwanted, End::Failed),
        (cancelled, End::Cancelled),
        (no_folder, End::Failed),
        (limited, End::Timeout),
    ] {
        assert_eq!(job.ended(), end);
        assert_eq!(job.view()["run"], 1, "{}", job.view());
    }
    assert_eq!(wanted.ended(), End::Completed);
    assert_eq!(wanted.view()["run"], 2);
    let over = tasks.over();
    assert_eq!((&over["ended"]["COMPLETED"], &over["ended"]["FAILED"]), (&3.into(), &1.into()), "{over}");
    let mut ran: Vec<String> = lab.read("ran").lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "2", "3"]);
    // A pause can be cut short, or be the end of it.
    let paused = submit("--retry=5", "exit 1");
    waits_again(paused, 1, Reason::Backoff);
    assert_eq!(lab.say(&format!("gqcancel {}", paused.id)).code, 0);
    assert_eq!(paused.ended(), End::Cancelled);
    for bad in ["", "x", "-1", "1:", "1:x", "1:256", "1:0", "99999999999"] {
        let said = lab.run("gqsub", &["--retry", bad, "--wrap", "true"]).refused(2);
        assert!(said.contains("--retry"), "{bad}: {said}");
    }
}

/// The node is there again without any word of the run: it was reinstalled, or its disk is new.
#[test]
fn who_wants_it_runs_again_after_the_node_has_failed() {
    let lab = Lab::with_cards(1);
    let command = "touch up.$GQ_JOB_ID.$GQ_RUN; [ $GQ_RUN = 2 ] || exec sleep 600";
    let again = lab.submit("--requeue -o /dev/null", command);
    let never = lab.submit("--no-requeue -o /dev/null", command);
    let unsaid = lab.submit("-o /dev/null", command);
    for job in [again, never, unsaid] {
        lab.until_file(&format!("up.{}.1", job.id));
        job.running();
    }
    lab.node("n1").kill9();
    let gqd = lab.gqd.pid();
    let others = || lab.processes().into_iter().filter(|pid| *pid != gqd).collect::<Vec<_>>();
    until("nothing of it is alive", || {
        for pid in others() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        others().is_empty().then_some(())
    });
    fs::remove_dir_all(lab.dir().join("state/node")).unwrap();
    lab.node("n1").start();
    // It is another node now, which cannot know that nothing lives; an admin can.
    until("they are unknown", || (never.state() == JobState::Unknown).then_some(()));
    lab.ctl("node n1 fence");
    assert_eq!((never.ended(), never.reason()), (End::NodeFail, Reason::NodeFailure));
    assert_eq!(unsaid.ended(), End::NodeFail, "as the conf says");
    assert_eq!(again.ended(), End::Completed, "{}", again.view());
    assert_eq!((&again.view()["run"], &again.view()["restarts"]), (&2.into(), &1.into()));
    assert!(!lab.work(format!("up.{}.2", never.id)).exists());
    // It is said anew of a job that waits.
    let waits = lab.submit("-H", "true");
    lab.ctl(&format!("update {} --requeue=no", waits.id));
    lab.say(&format!("gqctl update {} --requeue=perhaps", waits.id)).refused(2);
}

#[test]
fn a_job_is_put_back_into_the_queue_and_held_there() {
    let lab = Lab::with_cards(1);
    let command = "echo run $GQ_RUN; touch up.$GQ_RUN; [ $GQ_RUN != 1 ] || sleep 600";
    for (word, mode) in [("requeue --hold", "append"), ("requeuehold", "truncate")] {
        let job = lab.submit(&format!("--gpus=1 --open-mode={mode} -o {mode}"), command).running();
        lab.until_file("up.1");
        lab.ctl(&format!("{word} {}", job.id));
        waits_again(job, 1, Reason::JobHeldUser);
        assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
        lab.ctl(&format!("release {}", job.id));
        assert_eq!(job.ended(), End::Completed);
        assert_eq!(job.view()["run"], 2);
        fs::remove_file(lab.work("up.1")).unwrap();
    }
    assert_eq!((lab.read("append"), lab.read("truncate")), ("run 1\nrun 2\n".into(), "run 2\n".into()));
    // What waits already is not put back, and the rest is; but it is held, where that is wanted.
    let begin = "--begin=now+1hour";
    let (waits, runs) =
        (lab.submit(begin, "true"), lab.submit("", "echo $GQ_RUN >>again; sleep 600").running());
    until("it has begun", || (lab.read("again") == "1\n").then_some(()));
    let said = lab.say(&format!("gqctl requeue {} {}", waits.id, runs.id)).refused(1);
    assert!(said.contains(&format!("job {} does not run", waits.id)), "{said}");
    assert!(!said.contains(&format!("{}", runs.id)), "{said}");
    until("the other runs again", || (lab.read("again") == "1\n2\n").then_some(()));
    assert_eq!((waits.state(), waits.reason()), (JobState::Pending, Reason::BeginTime));
    lab.ctl(&format!("requeue --hold {}", waits.id));
    assert_eq!((waits.state(), waits.reason()), (JobState::Pending, Reason::JobHeldUser));
    let array = lab.submit(&format!("{begin} --array=0-3"), "true");
    lab.say(&format!("gqctl requeue {}_[1-2]", array.id)).refused(1);
    let never = lab.submit("--no-requeue", "sleep 600").running();
    let said = lab.say(&format!("gqctl requeue {}", never.id)).refused(1);
    assert!(said.contains("--no-requeue"), "{said}");
    assert_eq!((never.state(), &never.view()["run"]), (JobState::Running, &1.into()));
}

/// A script that saves, waits for its end, and says what it was told then.
const SAVES: &str = "cd $GQ_CHECKPOINT_DIR || exit 1\n\
    echo \"begin $GQ_RUN: $(cat state 2>/dev/null), $(cat $GQ_END_REASON_FILE 2>/dev/null)\" >>../log\n\
    [ $GQ_RUN != ${LAST-2} ] || exit 0\n\
    trap 'echo \"end $GQ_RUN: $(cat $GQ_END_REASON_FILE)\" >>../log; echo of run $GQ_RUN >state; exit 1' TERM\n\
    touch ../up.$GQ_RUN; while :; do sleep 0.02; done";

#[test]
fn what_a_run_saves_is_there_for_the_next_one_which_knows_why() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("--requeue", SAVES);
    lab.until_file("up.1");
    let folder = lab.work(format!("gq-{}.ckpt", job.id));
    assert!(folder.is_dir());
    lab.ctl(&format!("requeue {}", job.id));
    assert_eq!(job.ended(), End::Completed);
    assert_eq!(lab.read("log"), "begin 1: , \nend 1: requeue\nbegin 2: of run 1, requeue\n");
    assert_eq!(fs::read_to_string(folder.join("state")).unwrap(), "of run 1\n", "what is in it stays");

    for (options, end, word) in [
        ("-t 1s", End::Timeout, "time-limit"),
        ("--deadline=now+2seconds", End::Deadline, "deadline"),
        ("-t 1m", End::Cancelled, "cancel"),
    ] {
        fs::remove_file(lab.work("log")).unwrap();
        fs::remove_file(lab.work("up.1")).unwrap();
        let job = lab.submit(&format!("--checkpoint=saved.%j {options}"), SAVES);
        lab.until_file("up.1");
        if word == "cancel" {
            assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
        }
        assert_eq!(job.ended(), end, "{word}");
        assert_eq!(lab.read("log"), format!("begin 1: , \nend 1: {word}\n"));
        assert_eq!(lab.read(&format!("saved.{}/END_REASON", job.id)).trim_end(), word);
    }
    let plain = lab.submit("", "echo ${GQ_CHECKPOINT_DIR-none} ${GQ_END_REASON_FILE-none}");
    assert_eq!(plain.output(), "none none\n");
    // An empty one goes with its job; tasks have one each.
    let tasks = lab.submit(
        "--array=0-1 --checkpoint -o /dev/null",
        "[ $GQ_ARRAY_TASK_ID = 0 ] || touch $GQ_CHECKPOINT_DIR/state",
    );
    assert_eq!(tasks.over()["ended"]["COMPLETED"], 2);
    let is_there = |task: u32| lab.work(format!("gq-{}_{task}.ckpt", tasks.id)).exists();
    assert_eq!((is_there(0), is_there(1)), (false, true));
    // Nor do the tasks of an array that fails leave a folder each.
    let tasks = lab.submit("--array=0-1 --retry=1 -o /dev/null", "exit 1");
    assert_eq!(tasks.over()["ended"]["FAILED"], 2);
    let is_there = |task: u32| lab.work(format!("gq-{}_{task}.ckpt", tasks.id)).exists();
    assert_eq!((is_there(0), is_there(1)), (false, false));
}

#[test]
fn who_makes_room_knows_it_and_goes_on_where_he_was() {
    let tables = "[[partition]]\nname = \"low\"\npreempt = \"requeue\"\ngrace = \"5s\"\n[[partition]]\nname = \"high\"\ntier = 2\n";
    let lab = Plan::new().node("n1", &cards(1)).tables(tables).start();
    let low = lab.submit("-p low --gpus=1 --requeue", SAVES);
    lab.until_file("up.1");
    let high = lab.submit("-p high --gpus=1", "echo >high; until [ -e go ]; do sleep 0.02; done");
    lab.until_file("high");
    waits_again(low, 1, low.reason());
    assert_eq!(lab.read("log"), "begin 1: , \nend 1: preemption\n");
    lab.file("go", "");
    assert_eq!((high.ended(), low.ended()), (End::Completed, End::Completed));
    assert!(lab.read("log").ends_with("begin 2: of run 1, preemption\n"), "{}", lab.read("log"));
}

/// Whoever dies and however deaf a run is: the next one begins when nothing of it is left.
#[test]
fn two_runs_of_a_job_are_never_alive_together() {
    let lab = Plan::new().node("n1", &cards(2)).scheduler("").start();
    let command = "exec 9>lock; flock -n 9 || echo two at once >>bad; trap '' TERM\n\
                   echo $GQ_RUN >>runs; touch up.$GQ_RUN; [ $GQ_RUN != 3 ] || exit 0; sleep 600 & setsid sleep 600 & wait; sleep 600";
    let job = lab.submit("--gpus=1 -o /dev/null", command);
    for run in 1..=2 {
        lab.until_file(&format!("up.{run}"));
        lab.ctl(&format!("requeue {}", job.id));
        let daemon = if run == 1 { &lab.gqd } else { lab.node("n1") };
        daemon.kill9();
        daemon.start();
    }
    assert_eq!(job.ended(), End::Completed);
    assert_eq!((lab.read("runs"), lab.read("bad")), ("1\n2\n3\n".into(), String::new()));
    assert_eq!(job.state(), JobState::Ended(End::Completed));
    assert_eq!(job.view()["restarts"], 2);
}
