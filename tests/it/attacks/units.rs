//! The units of systemd in `conf`: what they are, and that what they leave the daemons is enough.

use super::{installation, submit};
use crate::lab::{Owner, finish};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The bit of `CAP_SYS_TIME`, by which a process sets the clock.
const SYS_TIME: u64 = 1 << 25;

fn unit_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("conf/{name}.service"))
}

fn unit(name: &str) -> String {
    fs::read_to_string(unit_path(name)).unwrap()
}

fn is_there(program: &str) -> bool {
    let looked = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !looked.status.success() {
        eprintln!("left out: no {program} here");
    }
    looked.status.success()
}

/// The bounding set of capabilities in what `/proc` tells of a process.
fn bound(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn gqd_needs_no_capability_and_gqnode_no_more_than_its_unit_leaves() {
    let Some((lab, ann, _)) = installation() else { return };
    if !is_there("setpriv") {
        return;
    }
    let (gq, gqd) = (Owner::named("daemon").unwrap(), unit("gqd"));
    for line in ["CapabilityBoundingSet=\n", "NoNewPrivileges=yes\n", "User=gq\n", "UMask=0077\n"] {
        assert!(gqd.contains(line), "{line}");
    }
    lab.gqd.stop();
    let (uid, gid) = (gq.uid.to_string(), gq.gid.to_string());
    let without = ["--init-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"];
    let words = ["sh", "-c", "umask 077; exec \"$@\"", "sh", "setpriv", "--reuid", &uid, "--regid", &gid];
    lab.gqd.launch_under(&[&words[..], &without].concat(), &[]);
    lab.gqd.wait_for_answer();
    let status = fs::read_to_string(format!("/proc/{}/status", lab.gqd.pid())).unwrap();
    assert_eq!(bound(&status), 0);

    lab.node("n1").stop();
    let node = unit("gqnode");
    let lines = node.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet=~"));
    let dropped: Vec<String> = lines
        .flat_map(str::split_whitespace)
        .map(|name| format!("-{}", name.strip_prefix("CAP_").unwrap().to_lowercase()))
        .collect();
    assert!(dropped.contains(&"-sys_time".to_owned()), "{dropped:?}");
    let words = ["setpriv", "--bounding-set", &dropped.join(","), "--inh-caps", "-all"];
    lab.node("n1").launch_under(&words, &[]);
    lab.node_is_there("n1");
    let job = submit(&lab, &ann, &["--gpus=1", "--wrap", "id -u; cat /proc/self/status"]);
    let said = job.output();
    assert_eq!(said.lines().next(), Some(ann.uid.to_string().as_str()));
    assert_eq!(bound(&said) & SYS_TIME, 0, "no setuid program of a job sets the clock");
}

/// Every option of the units is one that systemd knows.
#[test]
fn the_units_are_well_formed() {
    if !is_there("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["gqd", "gqnode"] {
        let (text, begins) = (unit(name), format!("ExecStart={name}\n"));
        assert_eq!(text.matches(&begins).count(), 1);
        // The programs and the manual are not installed where this is tested.
        let text = text.replace(&begins, "ExecStart=/bin/true\n");
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("Documentation=")).collect();
        let path = folder.path().join(format!("{name}.service"));
        fs::write(&path, text.join("\n")).unwrap();
        let said = finish(Command::new("systemd-analyze").arg("verify").arg(&path));
        // Which is left out where systemd is older than it.
        let wrong = said.err.lines().find(|line| !line.contains("Unknown key 'DelegateSubgroup'"));
        assert!(said.code == 0 && wrong.is_none(), "{said:?}");
    }
}
