//! What stands at the beginning: who answers at the socket, and becoming the user.

use super::{installation, submit};
use crate::lab::{Plan, accounts, as_user, can_trace, cards, finish, until};
use std::{fs, io::Read, os::unix::net::UnixListener, time::Duration};

/// CVE-2024-35235 and its like: somebody else listens where `gqd` should.
#[test]
fn a_client_tells_nothing_to_who_is_not_gqd() {
    let Some((lab, ann, ben)) = installation() else { return };
    // The node would be heard too.
    lab.node("n1").stop();
    lab.gqd.stop();
    let run = lab.dir().join("run");
    std::os::unix::fs::chown(&run, Some(ben.uid), Some(ben.gid)).unwrap();
    let socket = run.join("gqd.sock");
    let _ = fs::remove_file(&socket);
    let listener = as_user(&ben, || UnixListener::bind(&socket).unwrap());
    fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut words = Vec::new();
        let _ = stream.read_to_end(&mut words);
        words
    });
    let said = finish(&mut lab.client_of(&ann, "gqstat"));
    assert_eq!(said.code, 3);
    assert!(
        said.err.contains("who is not gqd") && said.err.contains(&format!("uid {}", ben.uid)),
        "{}",
        said.err
    );
    assert_eq!(heard.join().unwrap(), b"");
}

/// CVE-2019-19728: a launch went on as root when root's rights could not be given up. Nor does it where the system only says that they were.
#[test]
fn who_cannot_become_the_user_runs_nothing() {
    let Some([gq, ann]) = accounts(["daemon", "nobody"]) else { return };
    if !can_trace(&["strace", "-qq", "-o", "/dev/null"]) {
        return;
    }
    let lab = Plan::new().node("n1", &cards(1)).installed_for(&gq.name).start();
    let calls = ["setgroups", "setresgid", "setresuid"];
    for (call, how) in calls.iter().flat_map(|call| [(call, "error=EPERM"), (call, "retval=0")]) {
        lab.node("n1").stop();
        let inject = format!("inject={call}:{how}");
        let tracer = ["strace", "-D", "-f", "-qq", "-e", "signal=none", "-e", &inject, "-o", "/dev/null"];
        lab.node("n1").launch_under(&tracer, &[]);
        lab.node_is_there("n1");
        let job = submit(&lab, &ann, &["--wrap", "id -u >>ran"]);
        until(&format!("{call} {how}: it is refused"), || {
            let tried = ["Backoff", "JobLaunchFailure"];
            tried.contains(&job.view()["reason"].as_str()?).then_some(())
        });
        finish(lab.client_of(&ann, "gqcancel").arg(job.id.to_string())).ok();
        job.ended();
        assert!(!lab.work(&ann.name).join("ran").exists(), "{call} {how}");
        // That several jobs fail so drains it.
        lab.say("gqctl resume n1");
    }
}
