//! A stolen controller: somebody who is `gqd`'s user writes orders by hand, to the folder of a node or over its link. Whatever they say, nothing runs
//! as a user but what that user has handed in, and nothing as root or as `gqd`'s user.

use super::{drop_path, honest, put, submit};
use crate::lab::{Lab, Owner, Plan, accounts, as_user, cards, until, until_told};
use gq_ipc::Listener;
use gq_model::{Beat, ClusterId, Epoch, Seq, Token, Uid};
use gq_proto::{
    Ask, Asked, Head, JobFile, Letter, Letters, MAX_FRAME, OrderBody, Reply, Report, ReportBody, seal,
    sha256_hex, unseal,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

/// An installation whose `gqd` is gone, and whose user's hands are the thief's.
struct Stolen {
    lab: Lab,
    gq: Owner,
    ann: Owner,
    ben: Owner,
    /// The job file that ann handed in.
    file: PathBuf,
    /// The job it belongs to.
    job: u64,
}

impl Stolen {
    fn new(by_files: bool) -> Option<Self> {
        let [gq, ann, ben] = accounts(["daemon", "nobody", "games"])?;
        let plan = Plan::new().node("n1", &cards(1));
        let plan = if by_files { plan.by_files() } else { plan };
        let lab = plan.installed_for(&gq.name).start();
        lab.client_of(&ben, "gqstat");
        let job = submit(&lab, &ann, &["-H", "-o", "out-%x", "--wrap", "id -u; env"]).id;
        let spool = lab.dir().join("spool");
        let file = until("its file", || {
            let shards = fs::read_dir(spool.join("jobs")).unwrap();
            let mut paths = shards.map(|shard| shard.unwrap().path().join(format!("{job}.job")));
            paths.find(|path| path.exists())
        });
        lab.gqd.kill9();
        Some(Self { lab, gq, ann, ben, file, job })
    }

    fn spool(&self, path: &str) -> PathBuf {
        self.lab.dir().join("spool").join(path)
    }

    /// A start of ann's job as `gqd` would order it, but for what the thief changes.
    fn start(&self, run: u64, head: &Head, change: &Value) -> Value {
        let bytes = fs::read(&self.file).unwrap();
        let mut start = json!({
            "key": {"job": self.job, "task": 0, "run": run}, "boot": head.boot, "node": "n1", "uid": self.ann.uid,
            "job_file": self.file.strip_prefix(self.spool("")).unwrap(), "sha256": sha256_hex(&bytes),
            "partition": "main", "cluster": "lab", "cpus": 1, "memory": 64, "cards": [], "time_limit": 60,
            "kill_wait": 1, "array": null, "allow_test_run": false, "user": self.ann.name,
        });
        start.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        start
    }

    /// A job file that the thief makes, in the place of an accepted one.
    fn forged(&self, number: u64, uid: u32) -> (String, String) {
        let script = b"#!/bin/sh\nid >was-here\n".to_vec();
        let file = JobFile { uid: Uid(uid), script, ..honest(&self.lab, &self.ann, Token([5; 16])) };
        self.laid(number, &file.to_bytes().unwrap())
    }

    /// Lays bytes into the place of an accepted file, as the thief.
    fn laid(&self, number: u64, bytes: &[u8]) -> (String, String) {
        let name = format!("jobs/00/{number}.job");
        as_user(&self.gq, || put(&self.spool(&name), 0o640, bytes));
        fs::set_permissions(self.spool(&name), fs::Permissions::from_mode(0o644)).unwrap();
        (name, sha256_hex(bytes))
    }

    /// What the thief orders, in words, and by what words it has to be refused.
    fn orders(&self) -> Vec<(&'static str, Value, &'static str)> {
        fs::create_dir_all(self.spool("jobs/00")).unwrap();
        chown(self.spool("jobs/00"), Some(self.gq.uid), Some(self.gq.gid)).unwrap();
        let place = |number: u64, (name, hash): (String, String)| json!({"key": {"job": number, "task": 0, "run": 1}, "job_file": name, "sha256": hash});
        let with = |mut start: Value, more: Value| {
            start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            start
        };
        let (gq, ben) = (self.gq.uid, self.ben.uid);
        // What ann made for other ends: for another cluster, not handed in, at home.
        let other = JobFile { cluster: ClusterId([9; 16]), ..honest(&self.lab, &self.ann, Token([6; 16])) };
        let other = self.laid(60, &other.to_bytes().unwrap());
        chown(self.spool(&other.0), Some(self.ann.uid), None).unwrap();
        let kept = honest(&self.lab, &self.ann, Token([7; 16])).to_bytes().unwrap();
        let home = self.lab.work(&self.ann.name).join("kept");
        let open = drop_path(&self.lab, Token([7; 16]));
        as_user(&self.ann, || {
            put(&home, 0o644, &kept);
            put(&open, 0o644, &kept);
        });
        as_user(&self.gq, || symlink(&home, self.spool("jobs/00/61.job")).unwrap());
        fs::hard_link(&home, self.spool("jobs/00/62.job")).unwrap();
        let hash = sha256_hex(&kept);
        let at = |number, path: &str| place(number, (path.to_owned(), hash.clone()));
        vec![
            (
                "other content than was handed in",
                json!({"sha256": sha256_hex(b"other")}),
                "not what was accepted",
            ),
            ("another user", json!({"uid": ben, "user": self.ben.name}), "may not read it"),
            ("root", json!({"uid": 0, "user": "root"}), "jobs of root are refused"),
            (
                "root, by a file of the thief's",
                with(place(50, self.forged(50, 0)), json!({"uid": 0})),
                "jobs of root are refused",
            ),
            (
                "ann, by a file of the thief's",
                place(51, self.forged(51, self.ann.uid)),
                "belongs to another user",
            ),
            (
                "the thief",
                with(place(52, self.forged(52, gq)), json!({"uid": gq, "user": self.gq.name})),
                "gqd's own account",
            ),
            ("a file for another cluster", place(60, other), "made for another cluster"),
            ("a link to a file of hers", at(61, "jobs/00/61.job"), "symbolic link"),
            ("another name of a file of hers", at(62, "jobs/00/62.job"), "another name"),
            (
                "a file that she has not handed in",
                at(63, open.strip_prefix(self.spool("")).unwrap().to_str().unwrap()),
                "no place of an accepted",
            ),
            (
                "a way out of the spool",
                at(64, "jobs/00/../../../work/nobody/kept"),
                "no place of an accepted",
            ),
            ("an absolute path", at(65, home.to_str().unwrap()), "no place of an accepted"),
            ("an account that has another name now", json!({"user": "somebody"}), "was somebody when"),
            ("another node", json!({"node": "n2"}), "meant for the node n2"),
            ("another boot", json!({"boot": "00000000000000000000000000000003"}), "was booted again"),
        ]
    }

    /// What is to run: her job, whatever else the order says.
    fn embellished(&self) -> Value {
        json!({
            "name": "../../../x", "env": ["EVIL=1"], "script": "#!/bin/sh\nid >was-here\n", "args": ["evil"],
            "prolog": {"dir": "/tmp", "time": 1}, "container": {"command": ["/bin/sh", "-c", "id >was-here"]},
            "groups": [0], "gid": 0, "account": "a\nLD_PRELOAD=/tmp/x", "umask": 0, "work_dir": "/",
        })
    }

    /// That nothing of what was ordered was done beside her job, which was done once as she wished.
    fn check(&self) {
        let hers = self.lab.work(&self.ann.name);
        let said = fs::read_to_string(hers.join("out-.._.._.._x")).unwrap();
        assert!(said.starts_with(&format!("{}\n", self.ann.uid)), "{said}");
        assert!(!said.lines().any(|line| line.starts_with("EVIL=")), "{said}");
        let names: Vec<_> = fs::read_dir(&hers).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "her output, and what she keeps: {names:?}");
        for place in ["/", "/tmp", "/root"] {
            assert!(!Path::new(place).join("was-here").exists(), "{place}");
        }
    }
}

fn key_of(body: &ReportBody) -> Option<String> {
    let value = serde_json::to_value(body).unwrap();
    let (kind, rest) = value.as_object()?.iter().next()?;
    ["Ended", "Refused"].contains(&kind.as_str()).then(|| rest["key"].to_string())
}

#[test]
fn orders_that_a_stolen_gqd_writes_to_a_nodes_folder_run_nothing_but_what_a_user_handed_in() {
    let Some(stolen) = Stolen::new(true) else { return };
    let (inbox, out) = (stolen.spool("nodes/n1/in"), stolen.spool("nodes/n1/out"));
    let theirs: Head = unseal(&fs::read(out.join("HEAD")).unwrap()).unwrap();
    let ours: Head = unseal(&fs::read(inbox.join("HEAD")).unwrap()).unwrap();
    let mut orders = stolen.orders();
    orders.push(("her own job", stolen.embellished(), "COMPLETED"));
    let first = theirs.ack.0 + 1;
    let epoch = Epoch(ours.epoch.0 + 1);
    let mut wanted = Vec::new();
    as_user(&stolen.gq, || {
        for (n, (what, change, words)) in orders.into_iter().enumerate() {
            let seq = Seq(first + n as u64);
            let start = stolen.start(10 + n as u64, &theirs, &change);
            wanted.push((what, start["key"].to_string(), words));
            let order = json!({"seq": seq, "epoch": epoch, "body": {"Start": start}});
            fs::write(inbox.join(format!("{:016x}.order", seq.0)), seal(&order).unwrap()).unwrap();
        }
        let last = Seq(first + wanted.len() as u64 - 1);
        let head = Head { epoch, beat: ours.beat + 1000, lowest: Seq(first), highest: last, ..ours };
        fs::write(inbox.join(".t.HEAD"), seal(&head).unwrap()).unwrap();
        fs::rename(inbox.join(".t.HEAD"), inbox.join("HEAD")).unwrap();
    });
    for (what, key, words) in wanted {
        let said = until_told(
            || format!("an answer to {what}: {}", stolen.lab.node("n1").said()),
            || {
                let reports =
                    fs::read_dir(&out).unwrap().filter_map(|entry| fs::read(entry.ok()?.path()).ok());
                let mut reports = reports.filter_map(|bytes| unseal::<Report>(&bytes).ok());
                reports.find(|report| key_of(&report.body).as_deref() == Some(&key))
            },
        );
        let said = serde_json::to_string(&said.body).unwrap();
        assert!(said.contains(words), "{what}: {said}");
    }
    stolen.check();
}

#[test]
fn orders_that_a_stolen_gqd_gives_over_a_nodes_link_run_nothing_but_what_a_user_handed_in() {
    let Some(stolen) = Stolen::new(false) else { return };
    let mut orders = stolen.orders();
    orders.push(("her own job", stolen.embellished(), "COMPLETED"));
    let path = stolen.lab.dir().join("run/gqd.sock");
    let listener = as_user(&stolen.gq, || Listener::bind(&path, 0o666).unwrap());
    let conn = listener.accept().unwrap();
    let asked: Asked = serde_json::from_slice(&conn.recv(MAX_FRAME).unwrap().unwrap()).unwrap();
    let Ask::Node(theirs) = asked.ask else { panic!("{asked:?}") };
    let (first, epoch) = (theirs.ack.0 + 1, Epoch(theirs.ack_epoch.0 + 1));
    let last = first + orders.len() as u64 - 1;
    let head = Head {
        epoch,
        boot: None,
        beat: 0,
        lowest: Seq(first),
        highest: Seq(last),
        ack_epoch: theirs.epoch,
        past: Epoch(0),
        ack: Seq(0),
        ..theirs.clone()
    };
    conn.send(&serde_json::to_vec(&Reply::Node(head)).unwrap()).unwrap();
    let mut wanted = Vec::new();
    let mut letters = Vec::new();
    for (n, (what, change, words)) in orders.into_iter().enumerate() {
        let start = stolen.start(10 + n as u64, &theirs, &change);
        wanted.push((what, start["key"].to_string(), words));
        let body: OrderBody = serde_json::from_value(json!({"Start": start})).unwrap();
        letters.push(Letter { seq: Seq(first + n as u64), epoch, body });
    }
    conn.send(&serde_json::to_vec(&Letters { ack: Seq(0), beat: Beat(0), cards: None, letters }).unwrap())
        .unwrap();
    conn.set_timeouts(Some(crate::lab::PATIENCE), None).unwrap();
    while !wanted.is_empty() {
        let frame =
            conn.recv(MAX_FRAME).unwrap().unwrap_or_else(|| panic!("{}", stolen.lab.node("n1").said()));
        let letters: Letters<ReportBody> = serde_json::from_slice(&frame).unwrap();
        for report in letters.letters {
            let Some(at) = key_of(&report.body).and_then(|key| wanted.iter().position(|(_, k, _)| *k == key))
            else {
                continue;
            };
            let (what, _, words) = wanted.remove(at);
            let said = serde_json::to_string(&report.body).unwrap();
            assert!(said.contains(words), "{what}: {said}");
        }
    }
    stolen.check();
}

/// A folder that leads elsewhere: what a node writes for `gqd` stays in the spool, whose links are the thief's.
#[test]
fn a_node_writes_its_letters_nowhere_else() {
    let Some([gq]) = accounts(["daemon"]) else { return };
    let lab = Plan::new().node("n1", &cards(0)).by_files().installed_for(&gq.name).start();
    lab.node("n1").stop();
    lab.gqd.kill9();
    let (roots, mine) = (lab.dir().join("roots"), lab.dir().join("spool/nodes/n1"));
    fs::create_dir(&roots).unwrap();
    fs::write(roots.join(".t.kept"), "").unwrap();
    as_user(&gq, || {
        fs::rename(&mine, lab.dir().join("spool/nodes/was")).unwrap();
        symlink(&roots, &mine).unwrap();
    });
    lab.node("n1").start();
    let said = || lab.node("n1").said_now();
    until_told(said, || said().contains("symbolic link").then_some(()));
    assert_eq!(fs::read_dir(&roots).unwrap().count(), 1, "nothing is made there");
    // Nor in a folder of root's that is there already.
    fs::create_dir(roots.join("out")).unwrap();
    fs::write(roots.join("out/.t.kept"), "kept").unwrap();
    lab.node("n1").stop();
    lab.node("n1").start();
    until_told(said, || said().contains("symbolic link").then_some(()));
    assert_eq!(fs::read_dir(roots.join("out")).unwrap().count(), 1);
    assert_eq!(fs::metadata(roots.join("out/.t.kept")).unwrap().size(), 4);
}
