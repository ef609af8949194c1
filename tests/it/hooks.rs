//! Prolog and epilog: what the site's programs see, what becomes of a run and its node when they fail, and that cards wait for them.

use crate::lab::{Lab, Plan, accounts, cards, finish, until};
use gq_model::{End, JobState, Reason};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A site with programs around its jobs, and a folder in which they leave their traces.
pub struct Site {
    dir: TempDir,
}

impl Site {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("gq-hooks-").tempdir_in("/tmp").unwrap();
        for folder in ["", "prolog.d", "epilog.d"] {
            let path = dir.path().join(folder);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a program, such as `prolog.d/10-check`; `$D` is the folder of traces.
    pub fn put(&self, name: &str, text: &str) -> &Self {
        let text = format!("#!/bin/sh\nD={}\n{text}\n", self.dir.path().display());
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn conf(&self, more: &str) -> String {
        let dir = self.dir.path().display();
        format!("[hooks]\nprolog_dir = \"{dir}/prolog.d\"\nepilog_dir = \"{dir}/epilog.d\"\n{more}")
    }

    pub fn lab(&self, count: u32, more: &str) -> Lab {
        Plan::new().node("n1", &cards(count)).tables(&self.conf(more)).start()
    }

    /// What was written to a trace so far.
    fn trace(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A trace of environments as variables.
    fn environment(&self, name: &str) -> BTreeMap<String, String> {
        let text = self.trace(name);
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().filter_map(pair).collect()
    }

    #[track_caller]
    fn until(&self, name: &str) {
        until(&format!("the trace {name}"), || self.path(name).exists().then_some(()));
    }
}

/// The environment that a program was executed with, not what its shell adds.
const ENVIRON: &str = "tr '\\0' '\\n' </proc/$$/environ";

/// Why the node is drained, when it is.
#[track_caller]
fn drained(lab: &Lab) -> String {
    until("n1 is drained", || {
        let view = lab.node_view("n1")?;
        view["reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned)
    })
}

fn is_drained(lab: &Lab) -> bool {
    lab.node_view("n1").unwrap()["reason"].is_string()
}

/// The names that the manual's section promises to prolog and epilog.
fn promised() -> BTreeSet<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("man/gq.7")).unwrap();
    let (_, section) = page.split_once(".SH PROLOG AND EPILOG\n").unwrap();
    let (_, section) = section.split_once(".SS Their environment\n").unwrap();
    let section = section.split("\n.S").next().unwrap();
    let is_name = |word: &&str| {
        ["GQ_", "SLURM", "CUDA_"].iter().any(|family| word.starts_with(family))
            || ["PATH", "HOME", "LANG"].contains(word)
    };
    let words = section.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn a_prolog_runs_before_the_script_and_an_epilog_after_it_and_they_see_nothing_of_the_users() {
    let site = Site::new();
    let look = format!("echo $0 $# $(id -u) $(umask) $(pwd) >>$D/order; {ENVIRON} >$D/env-$GQ_HOOK; cat");
    site.put("prolog.d/10-look", &look).put("epilog.d/10-look", &look);
    site.put("prolog.d/20-second", "echo second >>$D/order; setsid sleep 1000 & echo $! >$D/left");
    site.put("prolog.d/20-second~", "echo backup >>$D/order");
    fs::write(site.path("prolog.d/README"), "not a program").unwrap();
    // As on an installation, when the test may.
    let Some([gq, ann]) = accounts(["daemon", "nobody"]) else { return };
    let plan = Plan::new().node("n1", &cards(2)).tables(&site.conf(""));
    let lab = plan.installed_for(&gq.name).start();
    fs::set_permissions(site.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script =
        format!("test -e /proc/$(cat {}/left)/exe && echo it lives; id -u", site.dir.path().display());
    let mut client = lab.client_of(&ann, "gqsub");
    client.args(["--parsable", "--gpus=1", "-J", "x$(touch /tmp/x)", "-A", "a b;c", "--wrap", &script]);
    client.env("LD_PRELOAD_", "evil").env("PYTHONPATH", "/evil").env("IFS", ":").env("SPANK_x", "evil");
    let job = lab.job(&finish(&mut client).ok());
    assert_eq!(job.output(), format!("{}\n", ann.uid), "what a prolog leaves running is gone");

    let dir = site.dir.path().display();
    let order = format!("{dir}/prolog.d/10-look 0 0 0022 /\nsecond\n{dir}/epilog.d/10-look 0 0 0022 /\n");
    assert_eq!(site.trace("order"), order);
    let (before, after) = (site.environment("env-prolog"), site.environment("env-epilog"));
    for env in [&before, &after] {
        for (name, value) in [
            ("HOME", "/"),
            ("LANG", "C"),
            ("GQ_JOB_ID", job.id.to_string().as_str()),
            ("SLURM_JOB_ID", job.id.to_string().as_str()),
            ("GQ_RUN", "1"),
            ("GQ_STAGE", "main"),
            ("GQ_UID", ann.uid.to_string().as_str()),
            ("GQ_USER", ann.name.as_str()),
            ("GQ_GPUS", "0"),
            ("SLURM_JOB_GPUS", "0"),
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("GQ_PARTITION", "main"),
            ("GQ_NODE", "n1"),
            ("GQ_CLUSTER_NAME", "lab"),
            ("GQ_ACCOUNT", ""),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}: {env:?}");
        }
    }
    assert_eq!(before["GQ_HOOK"], "prolog");
    let end = ["GQ_STATE", "GQ_EXIT_CODE", "GQ_SIGNAL", "GQ_END_REASON"].map(|name| after[name].as_str());
    assert_eq!(end, ["COMPLETED", "0", "", ""]);
    let in_arrays = ["GQ_ARRAY_JOB_ID", "GQ_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"];
    let found: BTreeSet<String> = after.keys().cloned().chain(in_arrays.map(str::to_owned)).collect();
    assert_eq!(found, promised());
    assert!(before.keys().all(|name| after.contains_key(name)));
}

/// B202: a job whose prolog failed was queued twice.
#[test]
fn a_failing_prolog_drains_its_node_once_and_the_job_waits() {
    let site = Site::new();
    site.put("prolog.d/10-card", "echo run >>$D/runs; test -e $D/good && exit; echo card 0 is gone; exit 3");
    site.put("epilog.d/10-clean", "echo $GQ_JOB_ID $GQ_UID $GQ_STATE >>$D/epilogs");
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "echo it ran");
    assert_eq!(drained(&lab), "prolog 10-card ended with exit code 3: card 0 is gone");
    assert_eq!(job.state(), JobState::Pending);
    assert_eq!(site.trace("runs"), "run\n", "once");
    let epilog = format!("{} {} LAUNCH_FAILED\n", job.id, nix::unistd::getuid());
    assert_eq!(site.trace("epilogs"), epilog);
    assert!(lab.node("n1").said_now().contains("prolog 10-card: card 0 is gone"));
    fs::write(site.path("good"), "").unwrap();
    lab.ctl("resume n1");
    assert_eq!(job.output(), "it ran\n");
    assert_eq!(site.trace("runs"), "run\nrun\n");
    assert!(!is_drained(&lab));
}

#[test]
fn a_prolog_that_blames_the_job_fails_it_and_nothing_else() {
    let site = Site::new();
    site.put("prolog.d/10-quota", "test $GQ_JOB_ID != 1 && exit; echo no quota is left; exit 100");
    site.put("prolog.d/20-not-then", "echo $GQ_JOB_ID >>$D/second");
    let lab = site.lab(1, "");
    let (job, next) = (lab.submit("--gpus=1", "true"), lab.submit("--gpus=1", "true"));
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::Prolog));
    assert_eq!(next.ended(), End::Completed);
    assert_eq!(site.trace("second"), format!("{}\n", next.id));
    assert!(!is_drained(&lab) && lab.node("n1").said_now().contains("no quota is left"));
}

/// B196: after a cancel during the prolog an epilog did not know whose job it was.
#[test]
fn a_cancel_ends_a_prolog_and_the_epilog_runs_all_the_same() {
    let site = Site::new();
    site.put("prolog.d/10-long", "echo $$ >$D/pid.new; mv $D/pid.new $D/pid; sleep 1000 & wait");
    site.put("epilog.d/10-clean", &format!("{ENVIRON} >>$D/epilog"));
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "echo >ran");
    site.until("pid");
    assert_eq!(job.state(), JobState::Starting);
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
    assert_eq!((job.ended(), job.reason()), (End::Cancelled, Reason::Cancelled));
    assert!(!lab.work("ran").exists() && !is_drained(&lab));
    assert!(!Path::new(&format!("/proc/{}/exe", site.trace("pid").trim())).exists());
    assert_eq!(site.trace("epilog").matches("GQ_HOOK=epilog").count(), 1);
    let env = site.environment("epilog");
    let uid = nix::unistd::getuid().to_string();
    assert_eq!(
        ["GQ_STATE", "GQ_END_REASON", "GQ_UID", "GQ_GPUS"].map(|name| env[name].as_str()),
        ["CANCELLED", "cancel", &uid, "0"]
    );
}

/// B198: a card was given on while the epilog was at work on it.
#[test]
fn cards_are_not_given_on_before_the_epilog_has_ended_and_nobody_ends_it() {
    let site = Site::new();
    let wait = "echo $GQ_JOB_ID $GQ_END_REASON >>$D/epilogs; until test -e $D/go; do sleep 0.02; done";
    site.put("epilog.d/10-wait", wait);
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "sleep 1000").running();
    let next = lab.submit("--gpus=1", "echo mine");
    for _ in 0..2 {
        assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
        until("the epilog is at work", || site.path("epilogs").exists().then_some(()));
    }
    job.when("is said to have ended but for its epilog", |view| view["state"] == "COMPLETING");
    assert_eq!(next.state(), JobState::Pending);
    assert_eq!(site.trace("epilogs"), format!("{} cancel\n", job.id));
    fs::write(site.path("go"), "").unwrap();
    assert_eq!((job.ended(), next.output().as_str()), (End::Cancelled, "mine\n"));
    assert_eq!(site.trace("epilogs"), format!("{} cancel\n{}\n", job.id, next.id), "once each");
}

/// B194: as long as nobody took note of its end, an epilog was run again and again.
#[test]
fn an_epilog_runs_once_though_nobody_hears_of_its_end() {
    let site = Site::new();
    site.put(
        "epilog.d/10-count",
        "echo $GQ_JOB_ID >>$D/epilogs; until test -e $D/go; do sleep 0.02; done; touch $D/done",
    );
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "exit 5");
    site.until("epilogs");
    lab.gqd.kill9();
    lab.node("n1").kill9();
    fs::write(site.path("go"), "").unwrap();
    site.until("done");
    // Its end is told again by each life of gqnode until a gqd has taken it.
    for _ in 0..2 {
        lab.node("n1").start();
        until("the node runs", || lab.node("n1").said_now().contains("life").then_some(()));
        lab.node("n1").kill9();
    }
    lab.gqd.start();
    lab.node("n1").start();
    assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 5.into()));
    assert_eq!(site.trace("epilogs"), format!("{}\n", job.id));
    assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
}

/// B057: a task whose prolog failed took its whole array with it.
#[test]
fn a_prolog_that_fails_one_task_leaves_the_others() {
    let site = Site::new();
    site.put("prolog.d/10-task", "test \"$GQ_ARRAY_TASK_ID\" != 1 && exit; exit 100");
    let lab = site.lab(0, "");
    let array = lab.submit("--array=0-3", "true");
    let states = || {
        let list = lab.list(&format!("-r -t all -j {}", array.id));
        let state = |job: &serde_json::Value| {
            Some((job["array_task_id"].as_u64()?, job["state"].as_str()?.to_owned()))
        };
        list.iter().filter_map(state).collect::<BTreeMap<u64, String>>()
    };
    until("all have ended", || lab.list("").is_empty().then_some(()));
    let states = states();
    let of = |task: u64| states[&task].as_str();
    assert_eq!([of(0), of(1), of(2), of(3)], ["COMPLETED", "FAILED", "COMPLETED", "COMPLETED"]);
    assert!(!is_drained(&lab));
}

/// B200: an epilogue that a user had given ran as root. Only the site has any.
#[test]
fn no_user_brings_a_prolog_or_epilog_of_his_own() {
    let site = Site::new();
    let lab = site.lab(0, "");
    for option in ["--prolog", "--epilog", "--task-prolog", "--task-epilog"] {
        let words = lab.run("gqsub", &[&format!("{option}=/bin/true"), "--wrap", "true"]).refused(2);
        assert!(words.contains(option), "{words}");
        let script = lab.file("job.sh", format!("#!/bin/sh\n#SBATCH {option}=/bin/true\n"));
        assert!(lab.run("gqsub", &[&script]).refused(2).contains("job.sh:2"));
    }
    let job = lab.submit("--export=ALL,GQ_EPILOG=/bin/true,SLURM_EPILOG=/bin/true", "true");
    assert_eq!(job.ended(), End::Completed);
}

#[test]
fn a_failing_epilog_drains_its_node_and_the_job_keeps_its_end() {
    let site = Site::new();
    site.put("epilog.d/10-bad", "exit 9").put("epilog.d/20-next", "echo $GQ_EXIT_CODE >>$D/next; kill -9 $$");
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "exit 7");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::NonZeroExitCode));
    assert_eq!(drained(&lab), "epilog 10-bad ended with exit code 9 (and 1 more)");
    assert_eq!(site.trace("next"), "7\n", "one program's failure keeps no other from its work");
}

#[test]
fn hooks_have_a_deadline_and_nothing_of_them_outlasts_it() {
    let site = Site::new();
    let deaf = "trap '' TERM; setsid sleep 1000 & echo $! >$D/left; sleep 1000";
    site.put("prolog.d/10-hangs", deaf).put("prolog.d/20-never", "echo >$D/never");
    let lab = site.lab(1, "prolog_time = \"1s\"\n");
    let job = lab.submit("--gpus=1", "true");
    let why = drained(&lab);
    assert_eq!(why, "prolog 10-hangs did not end within prolog_time (0:01)");
    assert_eq!(job.state(), JobState::Pending);
    assert!(!Path::new(&format!("/proc/{}/exe", site.trace("left").trim())).exists());
    assert!(!site.path("never").exists());
}

#[test]
fn a_program_that_others_could_have_written_is_not_run() {
    let site = Site::new();
    site.put("prolog.d/10-open", "echo >$D/ran");
    let lab = site.lab(1, "");
    let mode = |mode| fs::set_permissions(site.path("prolog.d/10-open"), fs::Permissions::from_mode(mode));
    mode(0o775).unwrap();
    let job = lab.submit("--gpus=1", "true");
    let why = drained(&lab);
    assert!(why.contains("prolog.d/10-open: others than its owner may write to it (mode 0775)"), "{why}");
    assert!(!site.path("ran").exists());
    mode(0o755).unwrap();
    lab.ctl("resume n1");
    assert_eq!(job.ended(), End::Completed);
    assert!(site.path("ran").exists());
}

#[test]
fn a_node_whose_supervisor_was_killed_is_drained_for_the_epilog_that_was_not_run() {
    let site = Site::new();
    site.put("epilog.d/10-clean", "echo >$D/cleaned");
    let lab = site.lab(1, "");
    let job = lab.submit("--gpus=1", "echo $PPID >pid.new; mv pid.new pid; sleep 1000");
    until("it runs", || lab.work("pid").exists().then_some(()));
    let supervisor: i32 = fs::read_to_string(lab.work("pid")).unwrap().trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::SIGKILL).unwrap();
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost));
    let why = drained(&lab);
    assert!(why.ends_with("was killed: no epilog was run"), "{why}");
    assert!(!site.path("cleaned").exists());
}
