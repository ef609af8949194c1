//! A node's disk and a spool in a folder, and real supervisors on them.

use gq_host::{Supervisor, lock_folder, spawn_supervisor};
use gq_model::{
    Assignment, BootId, ClusterId, JobId, JobSpec, MiB, Outcome, RunKey, RunNumber, Seconds, TaskIndex,
    Timestamp, Token, Uid,
};
use gq_nodelog::{Log, Record, Watch};
use gq_proto::{JobFile, sha256_hex};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest that anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Lab {
    dir: TempDir,
    pub log: Log,
    watch: Watch,
    pub records: Vec<Record>,
    pub uid: Uid,
    /// Changes the account that a supervisor is told.
    pub account: fn(&mut gq_host::Account),
    /// The home that a supervisor is told, with `/bin/sh` as the shell; none leaves both as they are.
    pub home: Option<PathBuf>,
    jobs: u64,
    /// What the site does around the runs.
    pub around: gq_host::Around,
    pub lease: Option<Seconds>,
}

/// A job before it is started; fields may be changed.
pub struct Job {
    pub file: JobFile,
    pub assignment: Assignment,
    pub mode: u32,
    /// Changes the job file's bytes after its hash was taken.
    pub tamper: fn(&mut Vec<u8>),
}

/// Users that jobs can be run as here.
pub fn uids() -> Vec<Uid> {
    let own = gq_host::own_uid();
    if own == Uid(0) { vec![own, Uid(65_534)] } else { vec![own] }
}

impl Lab {
    pub fn of(uid: Uid) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open = |p: &Path, mode| fs::set_permissions(p, fs::Permissions::from_mode(mode)).unwrap();
        open(dir.path(), 0o711);
        for folder in ["runs", "spool", "spool/jobs", "spool/jobs/00", "work"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            open(&dir.path().join(folder), 0o711);
        }
        chown(dir.path().join("work"), Some(uid.0), None).unwrap();
        let (log, _) = Log::open(&dir.path().join("log")).unwrap();
        let watch = log.watch().unwrap();
        Self {
            dir,
            log,
            watch,
            records: Vec::new(),
            uid,
            account: |_| {},
            home: None,
            jobs: 0,
            around: gq_host::Around::default(),
            lease: None,
        }
    }

    pub fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }
    pub fn spool(&self, name: &str) -> PathBuf {
        self.dir.path().join("spool").join(name)
    }
    pub fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.work(name)).unwrap()).unwrap()
    }

    pub fn job(&mut self, script: &str) -> Job {
        self.jobs += 1;
        let spec: JobSpec = serde_json::from_value(serde_json::json!({
            "name": "a/b", "work_dir": self.dir.path().join("work"), "umask": 0o022, "stdout": "out", "submit_host": "login", "submit_dir": "/"
        }))
        .unwrap();
        let file = JobFile {
            cluster: ClusterId([1; 16]),
            uid: self.uid,
            token: Token([2; 16]),
            left: false,
            spec,
            env: vec![b"PATH=/usr/bin:/bin".to_vec()],
            args: vec![],
            script: format!("#!/bin/sh\n{script}\n").into_bytes(),
            prep: Vec::new(),
            items: Vec::new(),
        };
        let assignment = Assignment {
            key: RunKey { job: JobId(self.jobs), task: TaskIndex(0), run: RunNumber(1) },
            boot: BootId([3; 16]),
            node: "ws1".parse().unwrap(),
            uid: self.uid,
            job_file: format!("jobs/00/{}.job", self.jobs),
            sha256: String::new(),
            partition: "main".into(),
            cluster: "lab".into(),
            cpus: 2,
            memory: MiB(100),
            cards: vec![],
            time_limit: Some(Seconds(60)),
            kill_wait: Seconds(20),
            array: None,
            allow_test_run: false,
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
        };
        Job { file, assignment, mode: 0o640, tamper: |_| {} }
    }

    /// Starts a supervisor for the job.
    pub fn start(&mut self, job: &Job) -> Supervisor {
        let mut bytes = job.file.to_bytes().unwrap();
        let mut assignment = job.assignment.clone();
        assignment.sha256 = sha256_hex(&bytes);
        (job.tamper)(&mut bytes);
        let path = self.dir.path().join("spool").join(&assignment.job_file);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(job.mode)).unwrap();
        chown(&path, Some(self.uid.0), None).unwrap();
        self.spawn(&assignment, self.uid == Uid(0))
    }

    pub fn spawn(&mut self, assignment: &Assignment, serves_root: bool) -> Supervisor {
        let folder = self.folder(assignment.key);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).unwrap();
        let mut account = gq_host::Account::of(assignment.uid).unwrap();
        if let Some(account) = &mut account {
            (self.account)(account);
            if let Some(home) = &self.home {
                (account.home, account.shell) = (home.clone(), "/bin/sh".into());
            }
        }
        // Beside the test program's folder `deps`.
        let exe =
            std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/supervisor");
        spawn_supervisor(gq_host::SpawnRequest {
            exe: &exe,
            key: assignment.key,
            assignment_json: &serde_json::to_string(assignment).unwrap(),
            becoming: &gq_host::Becoming { account, oom_protected: false, cluster: None },
            spool_dir: &self.dir.path().join("spool"),
            run_folder: lock_folder(&folder).unwrap().unwrap(),
            log: self.log.hand_out(assignment.key).unwrap(),
            serves_root,
            lease: self.lease,
            around: &self.around,
        })
        .unwrap()
        .unwrap()
    }

    pub fn folder(&self, key: RunKey) -> PathBuf {
        self.dir.path().join("runs").join(key.to_string())
    }

    /// Waits until a record satisfies `wanted`, and returns what it makes of it.
    pub fn wait<T>(&mut self, wanted: impl Fn(&Record) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            self.records.extend(self.log.tail().unwrap());
            if let Some(found) = self.records.iter().find_map(&wanted) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing came: {:?}", self.records);
            let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(&self.watch), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::try_from(left).unwrap()).unwrap() > 0 {
                self.watch.wait().unwrap();
            }
        }
    }

    /// The pid and start time of a job's supervisor, when it is ready to be spoken to.
    pub fn up(&mut self, key: RunKey) -> (u32, u64) {
        self.wait(|r| match r {
            Record::Up { key: k, pid, pid_start } if *k == key => Some((*pid, *pid_start)),
            _ => None,
        })
    }

    /// How many records there are of a kind by now.
    pub fn count(&mut self, is_one: impl Fn(&Record) -> bool) -> usize {
        self.records.extend(self.log.tail().unwrap());
        self.records.iter().filter(|record| is_one(record)).count()
    }

    /// Whether a run has ended by now.
    pub fn has_ended(&mut self, key: RunKey) -> bool {
        self.count(|r| matches!(r, Record::Ended { key: k, .. } if *k == key)) > 0
    }

    pub fn started(&mut self, key: RunKey) -> u32 {
        self.wait(|r| match r {
            Record::Started { key: k, session, .. } if *k == key => Some(*session),
            _ => None,
        })
    }

    /// The outcome of a job, and when it was started.
    pub fn ended(&mut self, key: RunKey) -> (Outcome, Option<Timestamp>) {
        self.wait(|r| match r {
            Record::Ended { key: k, outcome, started, .. } if *k == key => Some((outcome.clone(), *started)),
            _ => None,
        })
    }

    /// Runs a job to its end.
    pub fn run(&mut self, job: &Job) -> Outcome {
        let supervisor = self.start(job);
        let outcome = self.ended(job.assignment.key).0;
        wait_dead(&supervisor);
        outcome
    }

    /// Runs a script to its end and returns what it wrote.
    pub fn output(&mut self, script: &str) -> String {
        let job = self.job(script);
        let outcome = self.run(&job);
        assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
        self.read("out")
    }
}

pub fn wait_dead(supervisor: &Supervisor) {
    let mut fds = [PollFd::new(supervisor.pidfd(), PollFlags::POLLIN)];
    assert_eq!(
        poll(&mut fds, PollTimeout::try_from(PATIENCE).unwrap()).unwrap(),
        1,
        "the supervisor lives on"
    );
    assert!(supervisor.reap().unwrap());
}

/// Waits until the file is there and has a line; returns it.
pub fn line_of(path: &Path) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(text) = fs::read_to_string(path)
            && let Some(line) = text.strip_suffix('\n')
        {
            return line.to_owned();
        }
        assert!(Instant::now() < end, "{} was not written", path.display());
        std::thread::yield_now();
    }
}

/// Waits until `is_so`; for what the file system shows without an event.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// How many lines of a file are this word; none when there is no file.
pub fn count_of(path: &Path, word: &str) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().filter(|line| *line == word).count())
}
