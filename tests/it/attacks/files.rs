//! What a user names is opened as that user, whatever it turns into at that moment; what is the daemons' is read by nobody else.

use super::{installation, submit};
use crate::lab::{Lab, Owner, as_user, finish, until};
use gq_model::{End, Reason};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// Says that something has ended when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All that lies below a folder, with its content.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            let mode = entry.metadata().unwrap().permissions().mode();
            let name = format!("{} {mode:o}", entry.path().display());
            found.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    found
}

/// A folder of another's, with something in it.
fn precious(lab: &Lab, name: &str, owner: Option<&Owner>) -> std::path::PathBuf {
    let folder = lab.work(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("kept"), "kept").unwrap();
    if let Some(owner) = owner {
        std::os::unix::fs::chown(&folder, Some(owner.uid), Some(owner.gid)).unwrap();
    }
    folder
}

/// As in CVE-2023-41914: a folder of the user's takes turns with a link into root's and another user's, all the time that jobs begin,
/// write and end in it.
#[test]
fn a_folder_that_is_exchanged_all_the_time_leads_nobody_elsewhere() {
    let Some((lab, ann, ben)) = installation() else { return };
    let (roots, bens) = (precious(&lab, "roots", None), precious(&lab, "bens", Some(&ben)));
    let before = (tree(&roots), tree(&bens));
    let home = lab.work(&ann.name);
    as_user(&ann, || {
        fs::create_dir(home.join("here")).unwrap();
        symlink(&roots, home.join("to.roots")).unwrap();
        symlink(&bens, home.join("to.bens")).unwrap();
    });
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // However this ends, whoever exchanges ends with it.
        let ends = Ends(&ended);
        scope.spawn(|| {
            as_user(&ann, || {
                let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
                let here = home.join("here");
                while !ended.load(Ordering::Relaxed) {
                    for other in ["to.roots", "to.bens"] {
                        let other = home.join(other);
                        for _ in 0..2 {
                            nix::fcntl::renameat2(
                                nix::fcntl::AT_FDCWD,
                                &here,
                                nix::fcntl::AT_FDCWD,
                                &other,
                                flags,
                            )
                            .unwrap();
                        }
                    }
                }
            });
        });
        let here = home.join("here");
        let words = ["-a", "0-119", "-D", here.to_str().unwrap(), "-o", "o.%a", "--wrap"];
        let command = "mkdir $GQ_TMPDIR/x; ln -s / $GQ_TMPDIR/x/l; touch made";
        let tasks = submit(&lab, &ann, &[&words[..], &[command]].concat());
        tasks.over();
        drop(ends);
    });
    assert_eq!((tree(&roots), tree(&bens)), before);
    let state = lab.node_view("n1").unwrap()["state"].clone();
    assert_eq!(state, "idle", "one user's folders take no node out of service");
}

/// What stands in a pattern is text: no shell, no home, no way up by the name of a job.
#[test]
fn a_pattern_is_no_program_and_a_name_no_folder() {
    let Some((lab, ann, _)) = installation() else { return };
    let home = lab.work(&ann.name);
    for (name, pattern, wanted) in [
        ("../../up", "%x.out", ".._.._up.out"),
        ("/etc/passwd", "%x", "_etc_passwd"),
        ("$(touch pwned)", "o.%x", "o.$(touch pwned)"),
        ("plain", "$HOME.`id`.%u", "$HOME.`id`.nobody"),
        ("plain", "~.%j%%", "~.5%"),
    ] {
        let job = submit(&lab, &ann, &["-J", name, "-o", pattern, "--wrap", "echo written"]);
        assert_eq!(job.ended(), End::Completed, "{pattern}: {}", job.view());
        let names =
            fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: Vec<String> = names.collect();
        assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        assert!(!names.iter().any(|name| name == "pwned"));
    }
    let job = submit(&lab, &ann, &["-o", "../../etc/x", "--wrap", "true"]);
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::OutputFile), "what she may not write");
}

/// What a user said in confidence stands in no file that others can read, and in nobody's list of processes.
#[test]
fn what_is_said_in_confidence_is_read_by_nobody_else() {
    let Some((lab, ann, ben)) = installation() else { return };
    let secret = "s3cr3t-of-ann";
    let marks = format!("{secret}=1");
    let script = format!("echo {secret} >/dev/null; touch up; exec sleep 600");
    let words = ["--export", &marks, "--comment", "c", "-o", "/dev/null", "--wrap", &script];
    let job = submit(&lab, &ann, &words).running();
    until("it is up", || lab.work(&ann.name).join("up").exists().then_some(()));
    let seen = as_user(&ben, || {
        let mut find = std::process::Command::new("grep");
        let folders = ["spool", "state", "node", "run"].map(|folder| lab.dir().join(folder));
        let files = finish(find.args(["-rsl", secret]).args(folders)).out;
        let mut processes = String::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["environ", "cmdline"] {
                let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
                if String::from_utf8_lossy(&bytes).contains(secret) {
                    processes.push_str(&format!("{} ", entry.path().join(file).display()));
                }
            }
        }
        (files, processes)
    });
    assert_eq!(seen, (String::new(), String::new()));
    // Nor do daemons and the supervisor have it in what others' tools show.
    for pid in [lab.gqd.pid(), lab.node("n1").pid(), lab.supervisors()[0]] {
        for file in ["environ", "cmdline"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(secret), "/proc/{pid}/{file}");
        }
    }
    finish(lab.client_of(&ann, "gqcancel").arg(job.id.to_string())).ok();
    assert_eq!(job.ended(), End::Cancelled);
}
