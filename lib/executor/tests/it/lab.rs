//! A node in a folder, and `gqd`'s end of its socket.

use gq_ipc::{Conn, IpcError, Listener};
use gq_model::{
    Assignment, Beat, BootId, ClusterId, Epoch, JobId, JobSpec, MiB, NodeName, Outcome, RunKey, RunNumber,
    Seconds, Seq, TaskIndex, Token, Uid,
};
use gq_proto::{
    Ask, Asked, Head, JobFile, LETTER_VERSION, Letters, LiveRun, Order, OrderBody, Reply, ReportBody,
    sha256_hex,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::BTreeMap,
    fs,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest that anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Lab {
    pub dir: TempDir,
    driver: Option<TempDir>,
    pub cluster: ClusterId,
    node: Option<Child>,
    listener: Listener,
    conn: Option<Conn>,
    /// Orders ever written; number n is at n - 1.
    pub orders: Vec<OrderBody>,
    /// Reports ever received, by life and number.
    pub reports: BTreeMap<(Epoch, Seq), ReportBody>,
    pub epoch: Epoch,
    /// The head with which the node came last.
    pub head: Option<Head>,
    jobs: u64,
}

pub fn name() -> NodeName {
    "ws1".parse().unwrap()
}

impl Lab {
    /// Makes the folders, for a node with two declared cards; nothing is started.
    pub fn new() -> Self {
        Self::with("", "[[node.gpu]]\nmodel = \"A100\"\ncount = 2\nmemory = \"80G\"\n")
    }

    /// A node that has joined, with the cards of a machine that the stand-in driver describes (see `standin_nvml`). The driver and
    /// the machine lie in the lab's folder.
    pub fn with_driver(machine: &standin_nvml::Machine) -> Self {
        let driver = tempfile::tempdir().unwrap();
        let library = standin_nvml::place(driver.path(), machine).unwrap();
        let mut lab = Self::with(&format!("nvml_library = \"{}\"\n", library.display()), "");
        lab.driver = Some(driver);
        lab.start(&[]);
        lab.link();
        lab
    }

    /// Changes the machine that the driver describes.
    pub fn edit(&self, how: impl FnOnce(&mut standin_nvml::Machine)) {
        standin_nvml::edit(self.driver.as_ref().unwrap().path(), how).unwrap();
    }

    fn with(cluster_keys: &str, cards: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = ClusterId([5; 16]);
        for folder in ["spool", "spool/jobs", "spool/jobs/00", "state", "run", "work"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::set_permissions(dir.path().join(folder), fs::Permissions::from_mode(0o711)).unwrap();
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        fs::write(dir.path().join("spool/cluster.uuid"), format!("{cluster}\n")).unwrap();
        let at = |folder: &str| dir.path().join(folder).display().to_string();
        let conf = format!(
            "[cluster]\nname = \"lab\"\nuser = \"root\"\nallow_test_run = true\nspool_dir = \"{}\"\nstate_dir = \"{}\"\n\
             run_dir = \"{}\"\nnode_dir = \"{}\"\n{cluster_keys}[[node]]\nname = \"ws1\"\ncpus = 3\nmemory = \"4G\"\n{cards}",
            at("spool"),
            at("state"),
            at("run"),
            at("node")
        );
        fs::write(dir.path().join("gq.conf"), conf).unwrap();
        let listener = Listener::bind(&dir.path().join("run/gqd.sock"), 0o600).unwrap();
        Self {
            dir,
            driver: None,
            cluster,
            node: None,
            listener,
            conn: None,
            orders: Vec::new(),
            reports: BTreeMap::new(),
            epoch: Epoch(1),
            head: None,
            jobs: 0,
        }
    }

    /// A node that has joined.
    pub fn joined() -> Self {
        let mut lab = Self::new();
        lab.start(&[]);
        lab.link();
        lab
    }

    pub fn command(&self, options: &[&str]) -> Command {
        // Beside the test program's folder `deps`.
        let deps = std::env::current_exe().unwrap();
        let exe = deps.parent().unwrap().parent().unwrap().join("examples/gqnode");
        let mut command = Command::new(exe);
        command.arg("--conf").arg(self.dir.path().join("gq.conf")).args(["--name", "ws1"]).args(options);
        command
    }

    pub fn start(&mut self, options: &[&str]) {
        assert!(self.node.is_none(), "it runs already");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("gqnode.log"));
        let child = self.command(options).stdin(Stdio::null()).stderr(log.unwrap()).spawn().unwrap();
        self.node = Some(child);
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.node.as_ref().unwrap().id().cast_signed()), signal).unwrap();
    }

    /// Ends the node by a signal and returns its exit code.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.conn = None;
        self.node.take().unwrap().wait().unwrap().code()
    }

    /// Takes the node's connection: heads are exchanged, and orders that were not acknowledged are sent.
    pub fn link(&mut self) {
        let mut waiting = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let count = poll(&mut waiting, PollTimeout::try_from(PATIENCE).unwrap()).unwrap();
        assert_eq!(count, 1, "the node did not come:\n{}", self.said());
        let conn = self.listener.accept().unwrap();
        conn.set_timeouts(Some(PATIENCE), Some(PATIENCE)).unwrap();
        let asked: Asked = serde_json::from_slice(&conn.recv(1 << 20).unwrap().unwrap()).unwrap();
        let Ask::Node(head) = asked.ask else { panic!("not a node: {asked:?}") };
        let answer = Reply::Node(Head {
            version: LETTER_VERSION,
            cluster: self.cluster,
            node: name(),
            epoch: self.epoch,
            boot: None,
            node_id: None,
            beat: 0,
            seen: Beat(0),
            refusal: None,
            cards: None,
            past: Epoch(0),
            lowest: Seq(head.ack.0 + 1),
            highest: Seq(self.orders.len() as u64),
            ack_epoch: head.epoch,
            ack: self.highest(head.epoch),
        });
        conn.send(&serde_json::to_vec(&answer).unwrap()).unwrap();
        let after = head.ack;
        self.head = Some(head);
        self.conn = Some(conn);
        self.send(after);
    }

    /// Closes the connection, as a `gqd` that goes away.
    pub fn unlink(&mut self) {
        self.conn.take().unwrap().shutdown();
    }

    fn highest(&self, life: Epoch) -> Seq {
        self.reports.keys().filter(|(epoch, _)| *epoch == life).map(|(_, seq)| *seq).max().unwrap_or(Seq(0))
    }

    /// Sends the orders after `seq`, and acknowledges all reports of this life.
    pub fn send(&self, seq: Seq) {
        let all = self.orders.iter().cloned().zip(1..);
        let letters = all
            .map(|(body, seq)| Order { seq: Seq(seq), epoch: self.epoch, body })
            .filter(|order| order.seq > seq)
            .collect();
        let ack = self.highest(self.head.as_ref().unwrap().epoch);
        let bytes = serde_json::to_vec(&Letters { ack, beat: Beat(0), cards: None, letters }).unwrap();
        self.conn.as_ref().unwrap().send(&bytes).unwrap();
    }

    pub fn acknowledge(&self) {
        self.send(Seq(self.orders.len() as u64));
    }

    pub fn order(&mut self, body: OrderBody) {
        let before = Seq(self.orders.len() as u64);
        self.orders.push(body);
        self.send(before);
    }

    /// Waits until a report satisfies `wanted`, and returns what it makes of it.
    pub fn wait<T>(&mut self, wanted: impl Fn(&ReportBody) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.reports.values().rev().find_map(&wanted) {
                return found;
            }
            assert!(Instant::now() < end, "nothing came: {:?}\n{}", self.reports, self.said());
            self.receive();
        }
    }

    /// Receives one frame.
    pub fn receive(&mut self) -> Letters<ReportBody> {
        let frame = match self.conn.as_ref().unwrap().recv(1 << 20) {
            Ok(Some(frame)) => frame,
            Ok(None) | Err(IpcError::Closed) => panic!("the node closed the link:\n{}", self.said()),
            Err(e) => panic!("{e}\n{:?}\n{}", self.reports, self.said()),
        };
        let letters: Letters<ReportBody> = serde_json::from_slice(&frame).unwrap();
        for letter in &letters.letters {
            let known = self.reports.insert((letter.epoch, letter.seq), letter.body.clone());
            assert!(known.is_none_or(|body| body == letter.body), "other words under one number: {letter:?}");
        }
        letters
    }

    pub fn runs_joined(&mut self) -> Vec<LiveRun> {
        let life = self.head.as_ref().unwrap().epoch;
        while !self.reports.contains_key(&(life, Seq(1))) {
            self.receive();
        }
        match &self.reports[&(life, Seq(1))] {
            ReportBody::Joined { runs, .. } => runs.clone(),
            other => panic!("the first letter is {other:?}"),
        }
    }

    pub fn started(&mut self, key: RunKey) {
        self.wait(|r| matches!(r, ReportBody::Started { key: k, .. } if *k == key).then_some(()));
    }
    pub fn ended(&mut self, key: RunKey) -> Outcome {
        self.wait(|r| match r {
            ReportBody::Ended { key: k, outcome, .. } if *k == key => Some(outcome.clone()),
            _ => None,
        })
    }

    /// What the node logged.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("gqnode.log")).unwrap_or_default()
    }

    pub fn work(&self, file: &str) -> PathBuf {
        self.dir.path().join("work").join(file)
    }

    pub fn node_folder(&self) -> PathBuf {
        self.dir.path().join("node").join(self.cluster.to_string()).join("ws1")
    }

    /// The accepted job file of a new job, and the assignment of its first run.
    pub fn job(&mut self, script: &str) -> Assignment {
        self.jobs += 1;
        let uid = Uid(nix::unistd::getuid().as_raw());
        let spec: JobSpec = serde_json::from_value(serde_json::json!({
            "name": "j", "work_dir": self.dir.path().join("work"), "umask": 0o022, "stdout": "out-%j"
        }))
        .unwrap();
        let file = JobFile {
            cluster: self.cluster,
            uid,
            token: Token([2; 16]),
            left: false,
            spec,
            env: vec![b"PATH=/usr/bin:/bin".to_vec()],
            args: vec![],
            script: format!("#!/bin/sh\n{script}\n").into_bytes(),
            prep: Vec::new(),
            items: Vec::new(),
        };
        let bytes = file.to_bytes().unwrap();
        let job_file = format!("jobs/00/{}.job", self.jobs);
        let path = self.dir.path().join("spool").join(&job_file);
        fs::write(&path, &bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Assignment {
            key: RunKey { job: JobId(self.jobs), task: TaskIndex(0), run: RunNumber(1) },
            boot: boot(),
            node: name(),
            uid,
            job_file,
            sha256: sha256_hex(&bytes),
            partition: "main".into(),
            cluster: "lab".into(),
            cpus: 1,
            memory: MiB(100),
            cards: vec![],
            time_limit: Some(Seconds(60)),
            kill_wait: Seconds(5),
            array: None,
            allow_test_run: true,
            bounds: None,
            stage: gq_model::Stage::Main,
            restarts: None,
            over_limit: Seconds(0),
            deadline: None,
            signal: None,
            account: None,
            qos: None,
            user: String::new(),
            name: None,
            may_run_again: false,
            node_id: None,
            lease: None,
            idle: None,
        }
    }

    /// Starts a job and returns its run.
    pub fn run(&mut self, script: &str) -> RunKey {
        let assignment = self.job(script);
        let key = assignment.key;
        self.order(OrderBody::Start(Box::new(assignment)));
        key
    }

    /// A script that waits until [`Lab::release`] of `name`, having said that it is there.
    pub fn gate(&self, name: &str) -> String {
        let gate = self.work(name);
        nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        format!("read line < {}", gate.display())
    }
    pub fn release(&self, name: &str) {
        fs::write(self.work(name), "go\n").unwrap();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        if let Ok(folder) = fs::metadata(self.dir.path().join(format!("node/{}/ws1", self.cluster))) {
            let name = format!("gq-{}-ws1-{:x}", self.cluster, folder.ino());
            gq_host::Ground::make(&name).0.leave();
        }
        if std::thread::panicking() {
            eprintln!("gqnode said:\n{}", self.said());
        }
    }
}

pub fn boot() -> BootId {
    gq_host::boot_id().unwrap()
}

/// Waits until `is_so`; for what the file system or the kernel shows without an event.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

pub fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}
