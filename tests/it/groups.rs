//! Control groups: what bounds a run and finds its processes however they hide. Where the machine offers none, the node says so and these tell
//! nothing.

use crate::{
    cards::with_driver,
    crash::kill_the_supervisor,
    lab::{Job, Lab, Plan, cards, group_folders, is_frozen, living_parent, until},
};
use gq_model::{End, Reason};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::json;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Whether runs are bounded here; a node that cannot bound them says why, and gqstat says in what.
fn are_there(lab: &Lab) -> bool {
    let unbound = lab.node_view("n1").unwrap()["unbound"].clone();
    // Version 1 bounds no cpu time.
    let is_bound = unbound == json!([]) || unbound == json!(["cpus"]);
    if !is_bound {
        eprintln!("left out: {unbound}: {}", lab.node("n1").said_now());
    }
    is_bound
}

/// B045, B047: a process was killed for want of memory, and the job was told to have ended well, or to have been killed by somebody.
#[test]
fn who_uses_more_memory_than_he_asked_for_has_run_out_of_it_whatever_his_shell_says() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    let hungry = "head -c 300M /dev/zero | tail >/dev/null";
    let (dies, goes_on) = (
        lab.submit("--mem=64M", &format!("exec {hungry}")),
        lab.submit("--mem=64M", &format!("{hungry}; true")),
    );
    for job in [dies, goes_on] {
        assert_eq!((job.ended(), job.reason()), (End::OutOfMemory, Reason::OutOfMemory), "{}", job.view());
        assert!(job.word("reason_detail").contains("64 MiB"), "{}", job.view());
    }
    let said = lab.say(&format!("gqsub --wait --mem=64M --wrap '{hungry}; true'"));
    assert_ne!(said.code, 0, "who waits is told as well");
    assert_eq!(lab.submit("--mem=1G", &format!("{hungry}; echo $?")).output(), "0\n");
}

/// A run is in a group of its own from its first moment, and the group goes with it.
#[test]
fn a_run_has_a_group_of_its_own_which_goes_with_it() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    let job = lab.submit("", "cat /proc/self/cgroup >seen; until [ -e go ]; do sleep 0.02; done");
    lab.until_file("seen");
    until("it is written", || lab.read("seen").contains("0::").then_some(()));
    let key = format!("{}.0.1", job.id);
    let mut groups = group_folders(&lab.read("seen"));
    groups.retain(|group| group.ends_with(&key));
    assert!(!groups.is_empty(), "{}", lab.read("seen"));
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let most = number("/proc/sys/kernel/pid_max").min(number("/proc/sys/kernel/threads-max")).unwrap() / 3;
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let bound = groups.iter().find_map(|group| number(group.join("pids.max").to_str()?));
    assert_eq!(bound, Some(most.min(512 * cpus)), "it leaves processes for others");
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

/// A job whose script ends only when it is made to, and of which a process cleared its environment, left its session and lost its parents: its
/// number.
fn hidden(lab: &Lab) -> (Job<'_>, i32) {
    let hides = "(env -i setsid sh -c 'sh -c \"echo \\$\\$ >hidden.tmp; mv hidden.tmp hidden; exec sleep 1003\" & exit' &) ; exec sleep 1004";
    let job = lab.submit("--gpus=1", hides).running();
    lab.until_file("hidden");
    let pid = lab.read("hidden").trim().parse().unwrap();
    fs::remove_file(lab.work("hidden")).unwrap();
    (job, pid)
}

/// What hid was not found when the supervisor was killed.
#[test]
fn whoever_hides_from_a_killed_supervisor_is_found_in_the_group() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    for node_is_away in [false, true] {
        let (job, pid) = hidden(&lab);
        if node_is_away {
            lab.node("n1").kill9();
        }
        kill_the_supervisor(&lab);
        if node_is_away {
            lab.node("n1").start();
        }
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost), "{}", job.view());
        assert!(living_parent(pid).is_none(), "process {pid} is alive");
    }
}

/// A node that was started from elsewhere, or is to make no groups any more, did not find those that it had made.
#[test]
fn whoever_hides_is_found_in_the_group_that_an_earlier_life_of_the_node_made() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut folders = group_folders(&own);
    folders
        .retain(|folder| folder.join("memory.limit_in_bytes").exists() || folder.join("pids.max").exists());
    let elsewhere: Vec<PathBuf> =
        folders.iter().map(|folder| folder.join(format!("gq-test-{}", std::process::id()))).collect();
    for folder in &elsewhere {
        fs::create_dir(folder).unwrap();
    }
    let enter = elsewhere.iter().map(|folder| format!("echo $$ >{}/cgroup.procs; ", folder.display()));
    let enter = format!("{}exec \"$@\"", enter.collect::<String>());
    for makes_none in [false, true] {
        lab.node("n1").stop();
        lab.node("n1").launch_under(&["sh", "-c", &enter, "sh"], &[]);
        lab.node_is_there("n1");
        let (job, pid) = hidden(&lab);
        lab.node("n1").stop();
        if makes_none {
            let conf = fs::read_to_string(lab.conf()).unwrap();
            fs::write(lab.conf(), format!("{conf}[fence]\ncgroups = false\n")).unwrap();
        }
        lab.node("n1").start();
        lab.node_is_there("n1");
        kill_the_supervisor(&lab);
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost), "{}", job.view());
        assert!(living_parent(pid).is_none(), "process {pid} is alive");
        lab.node("n1").stop();
        for folder in &elsewhere {
            let left = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir());
            assert_eq!(left.map(|entry| entry.path()).collect::<Vec<_>>(), Vec::<PathBuf>::new());
        }
        lab.node("n1").start();
        lab.node_is_there("n1");
    }
    for folder in &elsewhere {
        fs::remove_dir(folder).unwrap();
    }
}

/// B145: what was only hidden from a job could be opened by it. A device file of a card that is not there cannot be
/// opened either, for another reason.
#[test]
fn a_job_opens_its_own_cards_and_no_others_by_whatever_path() {
    let (lab, _driver) = with_driver("eight-whole");
    if !are_there(&lab) {
        return;
    }
    let minors: Vec<u64> = standin_nvml::shipped("eight-whole")
        .unwrap()
        .cards
        .iter()
        .map(|card| card.minor.unwrap().into())
        .collect();
    for minor in minors.iter().chain([&255]) {
        let file = lab.work(format!("card.{minor}"));
        let mode = Mode::from_bits_truncate(0o666);
        mknod(&file, SFlag::S_IFCHR, mode, makedev(195, *minor)).unwrap();
    }
    let open = "for f in card.* /dev/null; do (: <$f) 2>&1 | grep -q permitted || echo $f; done";
    let (two, none) = (lab.submit("--gpus=2", open), lab.submit("", open));
    assert_eq!(none.output(), "/dev/null\n");
    let seen = two.output();
    let mut own: Vec<String> = ["card.255".to_owned(), "/dev/null".to_owned()].into();
    for card in two.view()["gpus"].as_array().unwrap() {
        own.push(format!("card.{}", minors[usize::try_from(card["index"].as_u64().unwrap()).unwrap()]));
    }
    let (seen, own): (BTreeSet<&str>, BTreeSet<&str>) =
        (seen.lines().collect(), own.iter().map(String::as_str).collect());
    assert_eq!(seen, own);
    assert_eq!(own.len(), 4);
}

#[test]
fn who_asked_for_one_cpu_gets_the_time_of_one() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if lab.node_view("n1").unwrap()["unbound"].as_array().unwrap().contains(&json!("cpus")) {
        eprintln!("left out: {}", lab.node("n1").said_now());
        return;
    }
    // Two that each would take one; where the machine is busy they get less anyway.
    let busy = "timeout 1 sh -c 'while :; do :; done'";
    let said = lab.submit("-c 1", &format!("{busy} & {busy}; wait; cat /proc/$$/stat")).output();
    // User and system time of the children that were waited for, in hundredths of a second: see proc(5).
    let fields: Vec<&str> = said.rsplit_once(") ").unwrap().1.split(' ').collect();
    let used: f64 = fields[13..15].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum();
    assert!(used < 1.4, "{used} s in one");
}

/// Its processes went on when its user sent them SIGCONT from another job, and its time stood still.
#[test]
fn a_suspended_job_stands_still_whoever_would_have_it_go_on() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    let tick = "echo $$ >>pids; while :; do echo x >>ticks; sleep 0.01; done";
    let job = lab.submit("", &format!("sh -c '{tick}' & setsid sh -c '{tick}' & wait")).running();
    let pids = || lab.read("pids").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    lab.until_file("pids");
    until("both tick", || (pids().len() == 2).then_some(()));
    let id = job.id;
    for _ in 0..3 {
        lab.ctl(&format!("suspend {id}"));
        job.when("is suspended", |view| view["state"] == "SUSPENDED");
        until("its group stands still", || is_frozen(pids()[0].parse().unwrap()).then_some(()));
        let stood = lab.read("ticks");
        assert_eq!(
            lab.submit("", &format!("kill -CONT {}; sleep 0.2", pids().join(" "))).ended(),
            End::Completed
        );
        assert_eq!(lab.read("ticks"), stood);
        lab.ctl(&format!("resume {id}"));
        until("it ticks", || (lab.read("ticks") != stood).then_some(()));
    }
    // It hears of its end, or does not, and is gone, in whatever state it was.
    lab.ctl(&format!("suspend {id}"));
    job.when("is suspended", |view| view["state"] == "SUSPENDED");
    assert_eq!(lab.say(&format!("gqcancel {id}")).code, 0);
    assert_eq!(job.ended(), End::Cancelled);
    assert!(pids().iter().all(|pid| living_parent(pid.parse().unwrap()).is_none()));
    // Nor does one outlive its supervisor.
    let other = lab.submit("", "echo $$ >other; while :; do sleep 0.02; done").running();
    lab.until_file("other");
    lab.ctl(&format!("suspend {}", other.id));
    other.when("is suspended", |view| view["state"] == "SUSPENDED");
    kill_the_supervisor(&lab);
    assert_eq!((other.ended(), other.reason()), (End::Failed, Reason::SupervisorLost));
    assert!(living_parent(lab.read("other").trim().parse().unwrap()).is_none());
}

#[test]
fn a_site_may_do_without_groups() {
    let lab = Plan::new().tables("[fence]\ncgroups = false").node("n1", &cards(1)).start();
    assert_eq!(
        lab.node_view("n1").unwrap()["unbound"],
        json!(["memory", "processes", "cards", "cpus", "suspension"])
    );
    let job = lab.submit("--mem=64M", "cat /proc/self/cgroup; head -c 100M /dev/zero | tail | wc -c");
    let output = job.output();
    assert!(output.ends_with(&format!("{}\n", 100 << 20)) && !output.contains("/gq-"), "{output}");
}

/// Whatever of its supervisor's a job names as its folder, it does not lead out of what it is to see.
#[test]
fn no_descriptor_leads_out_of_what_is_private() {
    let lab = Plan::new().tables("[fence]\nprivate = [\"/var/tmp\"]").node("n1", &cards(0)).start();
    let unbound = lab.node_view("n1").unwrap()["unbound"].as_array().unwrap().clone();
    if unbound.contains(&json!("folders")) {
        return;
    }
    let mark = tempfile::Builder::new().prefix("gq-seen-").tempfile_in("/var/tmp").unwrap();
    let up = "../".repeat(20);
    let command = format!("pwd; ls -d {up}{}; ls /var/tmp", &mark.path().to_str().unwrap()[1..]);
    let mut jobs = Vec::new();
    for number in 0..16 {
        for place in ["fd", "task/../fd"] {
            jobs.push(lab.submit(
                &format!("-D /proc/self/{place}/{number} -o {}/o.%j", lab.work("").display()),
                &command,
            ));
        }
    }
    for place in ["/proc/self/cwd", "/proc/self/root", "/proc/thread-self/root", "/proc/self/map_files"] {
        jobs.push(lab.submit(&format!("-D {place} -o {}/o.%j", lab.work("").display()), &command));
    }
    let mut began = 0;
    for job in jobs {
        job.ended();
        let said = lab.read(&format!("o.{}", job.id));
        assert!(!said.contains("gq-seen-") || said.contains("No such file"), "{said}");
        began += usize::from(said.contains("No such file"));
    }
    assert!(began >= 2, "the root folder is one that can be gone to");
}

/// A folder of the conf's list is the run's own, as shared memory is, and what is in it goes with the run. Where that cannot be the node says so.
#[test]
fn what_is_private_is_seen_by_its_run_alone_and_goes_with_it() {
    let mark = format!("gq-private-{}", std::process::id());
    let folders = ["/var/tmp", "/dev/shm"];
    let lab = Plan::new()
        .tables(&format!("[fence]\nprivate = {folders:?}\nno_new_privs = true"))
        .node("n1", &cards(1))
        .start();
    let unbound = lab.node_view("n1").unwrap()["unbound"].as_array().unwrap().clone();
    if unbound.contains(&json!("folders")) {
        assert!(lab.node("n1").said_now().contains("runs see the folders that are to be private"));
        return;
    }
    let command = format!(
        "ls -A {0}; readlink /proc/self/ns/ipc; grep NoNewPrivs /proc/self/status; for f in {0}; do touch $f/{mark}; done; ls \"$GQ_TMPDIR\"; \
         touch made; until [ -e go ]; do sleep 0.02; done",
        folders.join(" ")
    );
    let first = lab.submit("", &command).running();
    lab.until_file("made");
    lab.file("go", "");
    let second = lab.submit("", &command);
    for job in [first, second] {
        let said = job.output();
        let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        let ipc = fs::read_link("/proc/self/ns/ipc").unwrap();
        assert!(lines[2].starts_with("ipc:") && lines[2] != ipc.to_str().unwrap(), "{said}");
        assert_eq!(
            [&lines[..2], &lines[3..]].concat(),
            ["/dev/shm:", "/var/tmp:", "NoNewPrivs:\t1", &mark],
            "{said}"
        );
    }
    assert!(folders.iter().all(|folder| !PathBuf::from(folder).join(&mark).exists()));
}
