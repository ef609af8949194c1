//! Ending: cancels, signals and suspensions of jobs as they are, however their processes hide, whatever they do just then,
//! and wherever their node is. One end each, and cards that are free once.

use crate::lab::{Dice, Job, Lab, Plan, cards, is_frozen, living_parent, program_path, until};
use gq_model::{End, JobState, Reason};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    time::{Duration, Instant},
};

/// How many cards of `n1` are held.
fn held(lab: &Lab) -> usize {
    let view = lab.node_view("n1").unwrap();
    view["gpus"].as_array().unwrap().iter().filter(|card| !card["job"].is_null()).count()
}

#[track_caller]
fn cancel(lab: &Lab, job: Job<'_>) {
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
}

#[track_caller]
fn until_made(lab: &Lab, file: &str) {
    until(file, || lab.work(file).exists().then_some(()));
}

/// The numbers in a file, one a line.
fn pids(lab: &Lab, file: &str) -> Vec<i32> {
    let text = fs::read_to_string(lab.work(file)).unwrap_or_default();
    text.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// The state letter of a process; none when it is gone or a zombie.
fn process(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next().filter(|state| *state != 'Z' && *state != 'X')
}

/// Whether a process is in a group that stands still, or is stopped, or waits in its vfork for a child that is.
fn stands_still(lab: &Lab, pid: i32) -> bool {
    if is_frozen(pid) {
        return true;
    }
    let is_stopped_child = |child: i32| living_parent(child) == Some(pid) && process(child) == Some('T');
    match process(pid) {
        Some('T') => true,
        // Its first thread has ended.
        None => threads(pid) == ['T'],
        Some('D') => lab.processes().into_iter().any(is_stopped_child),
        _ => false,
    }
}

fn living(pids: &[i32]) -> Vec<i32> {
    pids.iter().copied().filter(|pid| process(*pid).is_some()).collect()
}

/// How often somebody wrote his word to `heard`.
fn heard(lab: &Lab, word: &str) -> usize {
    let text = fs::read_to_string(lab.work("heard")).unwrap_or_default();
    text.lines().filter(|line| *line == word).count()
}

/// B029: a cancel left the children of the shell, and began the job anew. B031: who had lost his parent was not found.
/// B035: among many processes, with one that dumps its core while it is killed, the supervisor took itself for one of them.
#[test]
fn a_cancelled_job_leaves_no_process_however_it_hid() {
    let lab = Lab::with_cards(1);
    let script = "#!/bin/bash\n\
        echo $GQ_RUN >>starts\n\
        sleep 1001 & echo $! >>pids\n\
        (setsid sh -c 'echo $$ >>pids; exec sleep 1002' &)\n\
        setsid -f bash -c 'trap \"\" TERM HUP INT; echo $$ >>pids; sleep 1003; sleep 1003'\n\
        env -i setsid -f sh -c 'echo $$ >>pids; cd /; exec sleep 1004'\n\
        (trap 'ulimit -c unlimited; kill -SEGV $BASHPID' TERM; echo $BASHPID >>pids; while :; do sleep 0.1; done) &\n\
        for i in $(seq 100); do sleep 1005 & echo $! >>pids; done\n\
        until [ $(wc -l <pids) = 105 ]; do sleep 0.01; done\n\
        touch ready; wait\n";
    let job = lab.script("--gpus=1 --requeue --retry=3", script);
    let next = lab.submit("--gpus=1", "echo mine");
    until_made(&lab, "ready");
    let pids = pids(&lab, "pids");
    assert_eq!(living(&pids).len(), 105);
    cancel(&lab, job);
    assert_eq!((job.ended(), job.reason()), (End::Cancelled, Reason::Cancelled), "{}", job.view());
    assert_eq!(living(&pids), Vec::<i32>::new());
    assert_eq!(next.output(), "mine\n");
    assert_eq!(fs::read_to_string(lab.work("starts")).unwrap(), "1\n", "nothing was begun anew");
    assert_eq!(job.view()["run"], 1);
}

/// SIGTERM would wait for ever at one that is stopped; so SIGCONT comes behind it.
#[test]
fn a_job_that_stopped_itself_hears_of_its_end() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", "trap 'echo told; exit 0' TERM; echo $$ >pid; kill -STOP $$; sleep 1000");
    let stopped = until("it stands still", || {
        let pid = *pids(&lab, "pid").first()?;
        (process(pid) == Some('T')).then_some(pid)
    });
    cancel(&lab, job);
    assert_eq!((job.ended(), job.out().as_str()), (End::Cancelled, "told\n"));
    assert_eq!(process(stopped), None);
}

/// B033: who was left when the leader of the group had gone could not be signalled, and the job hung. And whenever the cancel
/// comes, at its start, in its midst or at its end, it is one of two ends, for good.
#[test]
fn a_cancel_at_any_moment_makes_one_end_and_frees_the_card_once() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(2);
    let command = "for i in 1 2 3 4 5; do (trap '' TERM HUP; sleep 1000) & done; echo $! >>pids; exit 0";
    let other = lab.submit("--gpus=1", "sleep 600").running();
    for round in 0..12 {
        let job = lab.submit("--gpus=1", command);
        if round % 3 == 0 {
            job.started();
        }
        std::thread::sleep(Duration::from_millis(dice.roll(30) as u64));
        cancel(&lab, job);
        let end = job.ended();
        assert!([End::Cancelled, End::Completed].contains(&end), "{}", job.view());
        cancel(&lab, job);
        assert_eq!((job.ended(), held(&lab)), (end, 1), "round {round}");
    }
    assert_eq!(living(&pids(&lab, "pids")), Vec::<i32>::new());
    cancel(&lab, other);
    assert_eq!((other.ended(), held(&lab)), (End::Cancelled, 0));
    assert_eq!(lab.submit("--gpus=2", "echo both").output(), "both\n");
}

/// B049: a cancel that met a start that failed, again and again, brought the controller down.
#[test]
fn a_cancel_during_starts_that_fail_makes_one_end() {
    let lab = Lab::with_cards(1);
    for round in 0..6 {
        fs::create_dir(lab.work("gone")).unwrap();
        let job = lab.submit("--gpus=1 -H -D gone", "touch ran");
        fs::remove_dir(lab.work("gone")).unwrap();
        lab.ctl(&format!("release {}", job.id));
        while !matches!(job.state(), JobState::Ended(_)) {
            cancel(&lab, job);
        }
        assert!([End::Failed, End::Cancelled].contains(&job.ended()), "round {round}: {}", job.view());
    }
    // The site's fault is tried again; a cancel ends that.
    let job = lab.submit("--gpus=1 -H", "touch ran");
    let shard = fs::read_dir(lab.dir().join("spool/jobs")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(shard.join(format!("{}.job", job.id))).unwrap();
    lab.ctl(&format!("release {}", job.id));
    job.when("is tried again", |view| view["state"] == "PENDING" && view["run"] == 1);
    for _ in 0..3 {
        cancel(&lab, job);
    }
    assert_eq!((job.ended(), held(&lab)), (End::Cancelled, 0));
    assert_eq!(lab.submit("--gpus=1", "ls ran; echo free").output().lines().last(), Some("free"));
    assert!(!lab.work("ran").exists() && lab.ctl("ping").contains("answers"));
}

/// B051: a cancelled job had a wrong exit status, and one whose node was away did not say that it was to be cancelled.
#[test]
fn a_cancel_of_a_job_whose_node_is_away_is_kept_and_shown() {
    let lab = Plan::new().node("n1", &cards(1)).cluster("lost_after = \"1s\"").start();
    let job = lab.submit("--gpus=1", "sleep 600 & echo $! >pid; wait").running();
    until_made(&lab, "pid");
    let next = lab.submit("--gpus=1", "echo mine");
    lab.node("n1").kill9();
    job.when("is out of sight", |view| view["state"] == "UNKNOWN");
    for _ in 0..2 {
        cancel(&lab, job);
    }
    let seen = || (job.state(), job.reason(), held(&lab), next.state());
    let kept = (JobState::Unknown, Reason::Cancelled, 1, JobState::Pending);
    assert_eq!(seen(), kept);
    let why = lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(why.contains("cancelled it") && why.contains("node n1 is told when it is back"), "{why}");
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(seen(), kept);
    lab.node("n1").start();
    assert_eq!((job.ended(), job.reason()), (End::Cancelled, Reason::Cancelled));
    assert_eq!((&job.view()["signal"], living(&pids(&lab, "pid"))), (&15.into(), Vec::new()));
    assert_eq!((next.output().as_str(), held(&lab)), ("mine\n", 0));
    // Nothing that is told again changes it.
    let view = job.view();
    for daemon in [&lab.gqd, lab.node("n1")] {
        daemon.kill9();
        daemon.start();
    }
    lab.node_is_there("n1");
    assert_eq!((job.view(), held(&lab)), (view, 0));
}

/// B059: a job that had ended was requeued, and what it had used was taken back twice.
#[test]
fn what_has_ended_is_not_requeued_and_what_it_used_stays() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("--gpus=1 -A physics", "sleep 0.2");
    job.ended();
    let usage = || -> f64 {
        let answer: serde_json::Value = serde_json::from_str(&lab.ctl("shares --json")).unwrap();
        let shares = answer["shares"].as_array().unwrap();
        shares.iter().map(|share| share["card_hours"].as_f64().unwrap()).sum()
    };
    let used = until("it is charged", || Some(usage()).filter(|usage| *usage > 0.0));
    for verb in ["requeue", "requeue --hold", "requeuehold"] {
        let words = lab.say(&format!("gqctl {verb} {}", job.id)).refused(1);
        let instead = format!("gqsub --rerun-failed={}", job.id);
        assert!(words.contains("has ended") && words.contains(&instead), "{words}");
    }
    assert_eq!((job.ended(), job.view()["run"].clone(), held(&lab)), (End::Completed, 1.into(), 0));
    // It grows old, and no more.
    assert!((0.9 * used..=used).contains(&usage()), "{used} {}", usage());
}

/// B055: of an array that waited, all was cancelled for one task. B053: a task that is named twice is one. B063: many ids were
/// asked for one by one.
#[test]
fn a_thousand_tasks_are_cancelled_in_one_call_and_none_besides() {
    let lab = Lab::with_cards(0);
    let array = lab.submit("--array=0-999 -c4", "sleep 600");
    let id = array.id;
    until("some run", || (lab.list("-t R -r").len() == 4).then_some(()));
    let state = |task: u32| lab.list(&format!("-j {id}_{task}"))[0]["state"].clone();
    assert_eq!(lab.say(&format!("gqcancel {id}_10 {id}_10")).code, 0);
    assert_eq!((state(9), state(10), state(11)), ("PENDING".into(), "CANCELLED".into(), "PENDING".into()));
    let mut words: Vec<String> = (0..990).map(|task| format!("{id}_{task}")).collect();
    words.extend([format!("{id}_[5-8]"), "99999".to_owned(), format!("{id}_5000")]);
    let begun = Instant::now();
    let said = lab.run("gqcancel", &words);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((said.code, said.out.as_str()), (4, ""), "{said:?}");
    let missed: Vec<&str> = said.err.lines().filter(|line| line.contains("there is no")).collect();
    assert_eq!(missed.len(), 2, "{said:?}");
    until("what ran has ended", || (state(0) == "CANCELLED").then_some(()));
    // Those that were not named go on.
    until("the rest runs", || (lab.list("-t R -r").len() == 4).then_some(()));
    assert_eq!(state(995), "PENDING");
    assert_eq!(lab.say(&format!("gqcancel {id}")).code, 0);
    until("nothing is left", || lab.list("").is_empty().then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {id} {id}_3 {id}_[1-5]")).code, 0, "what has ended is cancelled");
}

/// B039: what the daemons had open was open in jobs.
#[test]
fn a_job_has_nothing_open_but_its_own() {
    let lab = Lab::with_cards(1);
    for command in ["ls /proc/self/fd", "bash -c 'ls /proc/$$/fd; :'"] {
        let open = lab.submit("--gpus=1", command).output();
        let open: Vec<&str> = open.lines().filter(|fd| *fd != "3").collect();
        assert_eq!(open, ["0", "1", "2"], "{command}");
    }
}

/// The script's own shell and a child of it each write down what they hear.
const LISTENERS: &str = "#!/bin/bash\n\
    trap 'echo batch >>heard' USR1\n\
    bash -c 'trap \"echo child >>heard\" USR1; touch child; while :; do sleep 0.02; done' 2>/dev/null &\n\
    touch batch; while :; do sleep 0.02; done 2>/dev/null\n";

#[test]
fn a_signal_goes_to_the_programs_or_to_the_shell_or_to_all() {
    let lab = Lab::with_cards(0);
    let job = lab.script("", LISTENERS).running();
    until_made(&lab, "batch");
    until_made(&lab, "child");
    for (words, batch, child) in [("-b", 1, 0), ("", 1, 1), ("-f", 2, 2), ("--batch", 3, 2)] {
        assert_eq!(lab.say(&format!("gqcancel {words} -s USR1 {}", job.id)).code, 0);
        until(&format!("{words}: who is meant has heard"), || {
            ((heard(&lab, "batch"), heard(&lab, "child")) == (batch, child)).then_some(())
        });
    }
    assert_eq!(job.state(), JobState::Running);
    cancel(&lab, job);
    assert_eq!(job.ended(), End::Cancelled);
}

#[test]
fn a_suspended_job_stands_still_with_all_its_processes_until_it_is_resumed() {
    let lab = Lab::with_cards(1);
    let tick = "while :; do echo x >>ticks; sleep 0.01; done";
    let command = format!(
        "echo $$ >>pids; (setsid sh -c 'echo $$ >>pids; {tick}' &); sleep 1000 & echo $! >>pids; wait"
    );
    let job = lab.submit("--gpus=1", &command).running();
    let waits = lab.submit("--gpus=1", "true");
    let ticks = || fs::read(lab.work("ticks")).unwrap_or_default().len();
    until("it ticks", || (ticks() > 4 && pids(&lab, "pids").len() == 3).then_some(()));
    lab.ctl(&format!("suspend {}", job.id));
    job.when("is suspended", |view| view["state"] == "SUSPENDED");
    assert_eq!(lab.run("gqstat", &["-h", "-t", "S", "-o", "%i %t"]).ok(), format!("{} S\n", job.id));
    // Each takes the signal when it is its turn on a processor.
    until("all stand still", || {
        let pids = pids(&lab, "pids");
        (pids.len() == 3 && pids.into_iter().all(|pid| stands_still(&lab, pid))).then_some(())
    });
    let stood = ticks();
    assert_eq!((held(&lab), waits.state()), (1, JobState::Pending), "it keeps its card");
    lab.say(&format!("gqctl suspend {}", waits.id)).refused(1);
    lab.node("n1").kill9();
    lab.gqd.kill9();
    lab.gqd.start();
    lab.node("n1").start();
    lab.node_is_there("n1");
    assert_eq!((job.state(), ticks()), (JobState::Suspended, stood));
    lab.ctl(&format!("resume {}", job.id));
    job.when("goes on", |view| view["state"] == "RUNNING");
    until("it ticks again", || (ticks() > stood).then_some(()));
    lab.ctl(&format!("suspend {}", job.id));
    job.when("is suspended", |view| view["state"] == "SUSPENDED");
    cancel(&lab, job);
    assert_eq!((job.ended(), waits.ended()), (End::Cancelled, End::Completed));
    assert_eq!(living(&pids(&lab, "pids")), Vec::<i32>::new());
}

/// A process that loses its parents and its session, is deaf to SIGTERM, and whose first thread ends alone; the other counts.
const LEADERLESS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void *count(void *unused) {
    for (;;) { FILE *ticks = fopen("ticks", "a"); fputc('x', ticks); fclose(ticks); usleep(10000); }
}
int main(void) {
    pthread_t thread;
    signal(SIGTERM, SIG_IGN);
    if (fork()) return 0;
    setsid();
    if (fork()) return 0;
    FILE *pids = fopen("pids", "w");
    fprintf(pids, "%d\n", getpid());
    fclose(pids);
    pthread_create(&thread, NULL, count, NULL);
    pthread_exit(NULL);
}
"#;

/// The states of the threads of a process that are not dead.
fn threads(pid: i32) -> Vec<char> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).ok();
    let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    tasks.filter_map(stat).filter_map(state).filter(|state| !"ZX".contains(*state)).collect()
}

/// Whose first thread had ended was taken for dead: it outlived its job when the supervisor was killed, no cancel reached it, and it went on
/// while its job was suspended.
#[test]
fn a_process_whose_first_thread_has_ended_is_stopped_killed_and_waited_for() {
    for groups in [true, false] {
        let lab = Plan::new().tables(&format!("[fence]\ncgroups = {groups}")).node("n1", &cards(1)).start();
        let source = lab.file("leaderless.c", LEADERLESS);
        let mut cc = std::process::Command::new("cc");
        cc.args(["-pthread", "-o"]).arg(lab.work("leaderless")).arg(source);
        assert!(cc.status().unwrap().success());
        let script = "rm -f ticks pids; ./leaderless; sleep 1000";
        let begin = || {
            let job = lab.submit("--gpus=1", script).running();
            lab.until_file("ticks");
            (job, pids(&lab, "pids")[0])
        };
        let (job, pid) = begin();
        lab.ctl(&format!("suspend {}", job.id));
        job.when("is suspended", |view| view["state"] == "SUSPENDED");
        until("it stands still", || stands_still(&lab, pid).then_some(()));
        lab.ctl(&format!("resume {}", job.id));
        job.when("goes on", |view| view["state"] == "RUNNING");
        cancel(&lab, job);
        assert_eq!((job.ended(), threads(pid)), (End::Cancelled, Vec::new()), "groups: {groups}");
        let (job, pid) = begin();
        crate::crash::kill_the_supervisor(&lab);
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost));
        assert_eq!(threads(pid), Vec::new(), "groups: {groups}");
    }
}

/// B192: a job was a process of the session that had submitted it, and died with it.
#[test]
fn a_job_belongs_to_gqnode_and_not_to_the_session_of_its_submission() {
    let lab = Lab::with_cards(0);
    let mut shell = std::process::Command::new("setsid");
    shell.args([
        "--wait",
        "sh",
        "-c",
        "echo $$ >session; sleep 1000 & \"$0\" --parsable --wrap \"$1\" >id; wait",
    ]);
    shell.arg(program_path("gqsub")).arg("echo $$ >pid; until [ -e go ]; do sleep 0.02; done; echo went on");
    shell
        .current_dir(lab.work(""))
        .env("GQ_CONF", lab.conf())
        .process_group(0)
        .stderr(std::process::Stdio::null());
    let mut session = shell.spawn().unwrap();
    let id =
        until("it is submitted", || fs::read_to_string(lab.work("id")).ok().filter(|id| id.ends_with('\n')));
    let job = lab.job(&id).running();
    until("it is there", || pids(&lab, "pid").first().copied());
    let leader = pids(&lab, "session")[0];
    nix::sys::signal::killpg(nix::unistd::Pid::from_raw(leader), nix::sys::signal::Signal::SIGKILL).unwrap();
    session.wait().unwrap();
    let pid = pids(&lab, "pid")[0];
    let supervisor = living_parent(pid).unwrap();
    assert_eq!(fs::read_to_string(format!("/proc/{supervisor}/comm")).unwrap(), "gqstep\n");
    assert_eq!(living_parent(supervisor), Some(lab.node("n1").pid()));
    let cgroup = |pid| fs::read_to_string(Path::new("/proc").join(format!("{pid}")).join("cgroup")).unwrap();
    // In a group of its own below that of gqnode, or beside it in version 2, or in the same.
    let own = format!("{}.0.1", job.id);
    let is_there = |(its, of_node): (&str, &str)| {
        let above = of_node.rsplit_once('/').filter(|_| of_node.starts_with("0::")).map(|(above, _)| above);
        let is_below = |group: &str| {
            let below = its.strip_prefix(group).map(|below| below.trim_start_matches('/'));
            below.is_some_and(|below| below.starts_with("gq-") && below.ends_with(&own))
        };
        its == of_node || is_below(of_node) || above.is_some_and(is_below)
    };
    let (its, of_node) = (cgroup(pid), cgroup(lab.node("n1").pid()));
    assert_eq!(its.lines().count(), of_node.lines().count());
    assert!(its.lines().zip(of_node.lines()).all(is_there), "where gqnode is, it is: {its}");
    lab.file("go", "");
    assert_eq!(job.output(), "went on\n");
}
