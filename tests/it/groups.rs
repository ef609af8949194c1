//! Control groups: what bounds a run and finds its processes however they hide. Where the machine offers none, the node says so and these tell
//! nothing.

use crate::{
    cards::with_driver,
    lab::{Lab, Plan, cards, living_parent, until},
};
use gq_model::{End, Reason};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, path::PathBuf};

/// Whether runs are bounded here; a node that cannot bound them says why.
fn are_there(lab: &Lab) -> bool {
    let said = lab.node("n1").said_now();
    let are_lacking = said.contains("more memory than they asked for")
        || said.contains("how many processes")
        || said.contains("not kept from them");
    if are_lacking {
        eprintln!("left out: {said}");
    }
    !are_lacking
}

/// The folders of groups that a script which wrote `/proc/self/cgroup` was in.
fn groups(told: &str, key: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots =
        mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    let paths: Vec<&str> = told.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let all = roots.flat_map(|root| paths.iter().map(move |path| PathBuf::from(format!("{root}{path}"))));
    all.filter(|path| path.ends_with(key) && path.is_dir()).collect()
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
    let groups = groups(&lab.read("seen"), &key);
    assert!(!groups.is_empty(), "{}", lab.read("seen"));
    lab.file("go", "");
    assert_eq!(job.ended(), End::Completed);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

/// A process that cleared its environment, left its session and lost its parents was not found when the supervisor was killed.
#[test]
fn whoever_hides_from_a_killed_supervisor_is_found_in_the_group() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    if !are_there(&lab) {
        return;
    }
    for node_is_away in [false, true] {
        let hides = "(env -i setsid sh -c 'sh -c \"echo \\$\\$ >hidden.tmp; mv hidden.tmp hidden; exec sleep 1003\" & exit' &) ; exec sleep 1004";
        let job = lab.submit("--gpus=1", hides).running();
        lab.until_file("hidden");
        let hidden: i32 = lab.read("hidden").trim().parse().unwrap();
        fs::remove_file(lab.work("hidden")).unwrap();
        if node_is_away {
            lab.node("n1").kill9();
        }
        for pid in lab.supervisors() {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        if node_is_away {
            lab.node("n1").start();
        }
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost), "{}", job.view());
        assert!(living_parent(hidden).is_none(), "process {hidden} is alive");
    }
}

/// B145: what was only hidden from a job could be opened by it. A device file that leads nowhere is not there (6) for whom it is not kept from
/// (1).
#[test]
fn a_job_opens_its_own_cards_and_no_others_by_whatever_path() {
    let (lab, _driver) = with_driver("eight-whole");
    if !are_there(&lab) {
        return;
    }
    for (name, minor) in [("0", 0), ("1", 1), ("ctl", 255)] {
        let file = lab.work(format!("card.{name}"));
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
        nix::sys::stat::mknod(
            &file,
            nix::sys::stat::SFlag::S_IFCHR,
            mode,
            nix::sys::stat::makedev(195, minor),
        )
        .unwrap();
    }
    let open = "for f in card.0 card.1 card.ctl /dev/null; do (: <$f) 2>&1 | grep -o 'such device\\|permitted' || echo open; done | tr '\\n' ' '";
    let (one, none) = (
        lab.submit("--gpus=1 -J one", &format!("echo $GQ_GPUS $CUDA_VISIBLE_DEVICES; {open}")),
        lab.submit("", open),
    );
    let (gone, kept) = ("such device", "permitted");
    assert_eq!(none.output(), format!("{kept} {kept} {kept} open "));
    assert_eq!(one.ended(), End::Completed);
    let index = one.view()["gpus"][0]["index"].clone();
    let own = if index == 0 { [gone, kept] } else { [kept, if index == 1 { gone } else { kept }] };
    let last = one.output().lines().last().unwrap().to_owned();
    assert_eq!(last, format!("{} {} {gone} open ", own[0], own[1]), "card {index}");
}
