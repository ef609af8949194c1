//! Where somebody could slip in: folders that others could exchange, names that others took, a kernel without protection. Daemons do not start
//! there and say what to do; a drop box that becomes unsafe is shut until it is mended.

use super::{installation, submit};
use crate::lab::{Daemon, Lab, Owner, Plan, accounts, cards, finish, until, until_told};
use gq_model::End;
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Starts a daemon, which must refuse, in all of these words.
#[track_caller]
fn refuses(daemon: &Daemon, wrapper: &[&str], words: &[&str]) {
    daemon.launch_under(wrapper, &[]);
    assert_eq!(daemon.wait(), Some(1), "{words:?}: {}", daemon.said());
    let said = daemon.said();
    let last = said.rsplit_once("ERROR").map_or(said.as_str(), |(_, last)| last);
    for word in words {
        assert!(last.contains(word), "{word:?} is not in: {last}");
    }
    assert!(last.contains("try: ") || last.contains("choose another"), "what to do: {last}");
}

/// An installation whose folders lie below one of their own, with no daemon at work.
fn at_rest() -> Option<(Lab, Owner, PathBuf)> {
    let [gq, ann] = accounts(["daemon", "nobody"])?;
    let lab = Plan::new().node("n1", &cards(1)).installed_for(&gq.name).start();
    lab.node("n1").stop();
    lab.gqd.stop();
    let below = lab.dir().join("below");
    fs::create_dir(&below).unwrap();
    mode(&below, 0o755);
    let conf = fs::read_to_string(lab.conf()).unwrap();
    let conf = ["spool", "state", "run", "node"].iter().fold(conf, |conf, name| {
        fs::rename(lab.dir().join(name), below.join(name)).unwrap();
        conf.replace(&format!("{}/{name}\"", lab.dir().display()), &format!("{}/{name}\"", below.display()))
    });
    fs::write(lab.conf(), conf).unwrap();
    Some((lab, ann, below))
}

#[test]
fn daemons_do_not_start_below_what_others_could_exchange() {
    let Some((lab, ann, below)) = at_rest() else { return };
    let (gqd, node) = (&lab.gqd, lab.node("n1"));
    let path = below.to_str().unwrap();
    mode(&below, 0o777);
    refuses(gqd, &[], &[path, "others than its owner may write in it (mode 0777)", "chmod go-w"]);
    refuses(node, &[], &[path, "others than its owner may write", "chmod go-w"]);
    mode(&below, 0o755);
    chown(&below, Some(ann.uid), None).unwrap();
    let owner = format!("belongs to uid {}, who could", ann.uid);
    refuses(gqd, &[], &[path, &owner, "chown root"]);
    refuses(node, &[], &[path, &owner]);
    chown(&below, Some(0), None).unwrap();

    // A link of a user's leads wherever he likes; one of root's is as good as the folder.
    let real = lab.dir().join("real");
    fs::rename(&below, &real).unwrap();
    symlink(&real, &below).unwrap();
    std::os::unix::fs::lchown(&below, Some(ann.uid), None).unwrap();
    let link = format!("a symbolic link made by uid {}", ann.uid);
    refuses(gqd, &[], &[path, &link]);
    refuses(node, &[], &[path, &link]);
    std::os::unix::fs::lchown(&below, Some(0), None).unwrap();
    gqd.start();
    node.start();
    lab.node_is_there("n1");
    assert_eq!(submit(&lab, &ann, &["--wrap", "true"]).ended(), End::Completed);
}

#[test]
fn gqd_does_not_begin_in_a_folder_of_another_or_at_a_place_that_is_taken() {
    let Some((lab, ann, below)) = at_rest() else { return };
    for name in ["state", "run", "spool"] {
        let folder = below.join(name);
        let gq = fs::metadata(&folder).map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap();
        chown(&folder, Some(ann.uid), None).unwrap();
        refuses(&lab.gqd, &[], &[folder.to_str().unwrap(), "belongs to uid"]);
        chown(&folder, Some(gq), None).unwrap();
    }
    for folder in ["run", "spool/nodes", "spool/jobs", "spool/quarantine"] {
        let folder = below.join(folder);
        let was = fs::metadata(&folder).unwrap().permissions().mode();
        mode(&folder, 0o777);
        refuses(&lab.gqd, &[], &[folder.to_str().unwrap(), "may write in it (mode 0777)", "chmod go-w"]);
        mode(&folder, was);
    }
    mode(&below.join("spool/drop"), 0o1777);
    refuses(&lab.gqd, &[], &["spool/drop", "must be owner 1 and mode 3733", "chmod 3733"]);
    mode(&below.join("spool/drop"), 0o3733);
    // Its socket's name.
    let sock = below.join("run/gqd.sock");
    let _ = fs::remove_file(&sock);
    symlink("/etc/passwd", &sock).unwrap();
    lab.gqd.launch(&[]);
    assert_eq!(lab.gqd.wait(), Some(1));
    assert!(
        lab.gqd.said().contains("gqd.sock is a symbolic link, not a socket: remove it"),
        "{}",
        lab.gqd.said()
    );
    fs::remove_file(&sock).unwrap();
    // A socket that somebody left there is replaced.
    drop(UnixListener::bind(&sock).unwrap());
    chown(&sock, Some(ann.uid), None).unwrap();
    lab.gqd.start();
}

/// What is done as root or as gqd is said by files that nobody else may write.
#[test]
fn a_conf_file_and_programs_of_others_are_not_heeded() {
    let Some((lab, ann, below)) = at_rest() else { return };
    let (gqd, node, conf) = (&lab.gqd, lab.node("n1"), lab.conf());
    let path = conf.to_str().unwrap();
    mode(&conf, 0o666);
    refuses(gqd, &[], &[path, "others than its owner may write", "chmod go-w"]);
    refuses(node, &[], &[path, "others than its owner may write", "chmod go-w"]);
    mode(&conf, 0o644);
    chown(&conf, Some(ann.uid), None).unwrap();
    refuses(gqd, &[], &[path, "belongs to uid"]);
    refuses(node, &[], &[path, "belongs to uid"]);
    chown(&conf, Some(0), None).unwrap();
    let text = fs::read_to_string(&conf).unwrap();
    let theirs = below.join("theirs");
    fs::write(&theirs, "#!/bin/sh\n").unwrap();
    mode(&theirs, 0o755);
    let theirs = theirs.to_str().unwrap();
    let hook = format!("{text}\n[hooks]\nsubmit = [\"{theirs}\"]\n");
    let library = text.replacen("[cluster]", &format!("[cluster]\nnvml_library = \"{theirs}\""), 1);
    chown(theirs, Some(ann.uid), None).unwrap();
    fs::write(&conf, &hook).unwrap();
    refuses(gqd, &[], &[theirs, "belongs to uid"]);
    fs::write(&conf, &library).unwrap();
    refuses(node, &[], &[theirs, "belongs to uid"]);
    // Nor when it is read again.
    fs::write(&conf, &text).unwrap();
    gqd.start();
    fs::write(&conf, &hook).unwrap();
    let said = lab.say("gqctl reload");
    assert!(said.code != 0 && said.err.contains(theirs), "{said:?}");
    chown(theirs, Some(0), None).unwrap();
    lab.ctl("reload");
}

#[test]
fn gqd_serves_nobody_else_where_users_may_link_to_each_others_files() {
    let Some((lab, _, _)) = at_rest() else { return };
    let switch = lab.file("switch", "0\n");
    let bind = "mount --bind \"$0\" /proc/sys/fs/protected_hardlinks && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", bind, switch.to_str().unwrap()];
    refuses(&lab.gqd, &wrapper, &["protected_hardlinks is 0", "sysctl fs.protected_hardlinks=1"]);
    fs::write(&switch, "1\n").unwrap();
    lab.gqd.launch_under(&wrapper, &[]);
    lab.gqd.wait_for_answer();
}

/// CVE-2012-3492 of another queue: the folders that prove who somebody is are looked at as long as they do.
#[test]
fn a_drop_box_that_becomes_unsafe_is_shut_until_it_is_mended() {
    let Some((lab, ann, _)) = installation() else { return };
    let (drop_box, spool) = (lab.dir().join("spool/drop"), lab.dir().join("spool"));
    let ping = || lab.ctl("ping");
    // Left before, and not taken up meanwhile.
    for (path, wrong, right) in
        [(&drop_box, 0o3777, 0o3733), (&spool, 0o777, 0o755), (&lab.dir().to_owned(), 0o777, 0o755)]
    {
        mode(path, wrong);
        until("the door is shut", || ping().contains("DEGRADED: no new jobs are taken: ").then_some(()));
        assert!(ping().contains(path.to_str().unwrap()), "{}", ping());
        let told = lab.say("gqstat");
        assert!(told.err.contains("no new jobs are taken") && told.code == 0, "{told:?}");
        let refused = finish(lab.client_of(&ann, "gqsub").args(["--wrap", "true"]));
        assert!(refused.code != 0 && refused.out.is_empty(), "{refused:?}");
        let token = finish(lab.client_of(&ann, "gqsub").args(["--offline", "--wrap", "true"]));
        mode(path, right);
        until("the door is open", || (!ping().contains("DEGRADED")).then_some(()));
        assert_eq!(submit(&lab, &ann, &["--wrap", "true"]).ended(), End::Completed);
        if token.code == 0 {
            let left = drop_box.join(format!("{}.job", token.out.trim()));
            until("what was left is taken up", || (!left.exists()).then_some(()));
        }
    }
    let said = lab.gqd.said();
    assert_eq!(said.matches("the drop box is shut, and nothing is taken from it").count(), 3, "{said}");
    assert_eq!(said.matches("the drop box is as it must be again").count(), 3);
}

/// A node of another cluster, or whose spool says another one, is not spoken with.
#[test]
fn a_node_of_another_cluster_is_refused() {
    let Some((lab, _, below)) = at_rest() else { return };
    lab.gqd.start();
    let id = below.join("spool/cluster.uuid");
    let own = fs::read_to_string(&id).unwrap();
    fs::write(&id, own.replace(|c: char| c.is_ascii_hexdigit(), "7")).unwrap();
    let node = lab.node("n1");
    node.start();
    until_told(|| node.said_now(), || node.said_now().contains("no link to gqd").then_some(()));
    for words in ["it belongs to another cluster", "see that spool_dir in its gq.conf"] {
        assert!(node.said_now().contains(words), "{}", node.said_now());
    }
    assert!(!lab.gqd.said_now().contains("n1: linked"));
    node.stop();
    fs::write(&id, own).unwrap();
    node.start();
    lab.node_is_there("n1");
}
