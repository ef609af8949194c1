//! A daemon of a lab: started, stopped, killed, and what it logged. It never waits for what the daemon does to jobs.

use super::{Owner, program_path, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

/// How a daemon is started.
pub struct Program {
    /// `gqd` or `gqnode`.
    pub program: &'static str,
    /// Its name in the lab: `gqd`, or the node's.
    pub name: String,
    /// Its arguments at every start.
    pub words: Vec<OsString>,
    /// Its environment beside the test's own.
    pub env: Vec<(OsString, OsString)>,
    /// As whom it runs, when not as the test.
    pub owner: Option<Owner>,
}

/// A daemon.
pub struct Daemon {
    how: Program,
    /// Variables of its next lives.
    more: Mutex<Vec<(OsString, OsString)>>,
    dir: PathBuf,
    life: Mutex<Option<Life>>,
}

struct Life {
    child: Child,
    /// Where its words begin in the log.
    since: u64,
}

impl Daemon {
    /// A daemon that does not run yet; `dir` is the lab's folder.
    pub fn new(dir: &Path, how: Program) -> Self {
        Self { how, more: Mutex::default(), dir: dir.to_owned(), life: Mutex::new(None) }
    }

    /// Its name in the lab.
    pub fn name(&self) -> &str {
        &self.how.name
    }

    /// Gives its next lives a variable.
    pub fn tell(&self, (name, value): (OsString, OsString)) {
        let mut more = self.more.lock().unwrap();
        more.retain(|(known, _)| *known != name);
        more.push((name, value));
    }

    fn log(&self) -> PathBuf {
        self.dir.join(&self.how.name).with_extension("log")
    }

    /// Starts it, and waits until `gqd` answers; a node is not waited for: see `Lab::node_is_there`.
    #[track_caller]
    pub fn start(&self) {
        self.launch(&[]);
        if self.how.program == "gqd" {
            self.wait_for_answer();
        }
    }

    /// Starts it with more words, and waits for nothing.
    #[track_caller]
    pub fn launch(&self, more: &[&str]) {
        self.launch_under(&[], more);
    }

    /// Starts it as after a boot of its machine with this id; nothing else is as after a boot. Only root can.
    #[track_caller]
    pub fn start_in_boot(&self, id: &str) {
        let file = self.dir.join(format!("{}.boot", self.how.name));
        fs::write(&file, format!("{id}\n")).unwrap();
        let bind = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        self.launch_under(&["unshare", "--mount", "sh", "-c", bind, file.to_str().unwrap()], &[]);
    }

    /// Starts it by a program that becomes it, such as one that sets limits, and waits for nothing.
    #[track_caller]
    pub fn launch_under(&self, wrapper: &[&str], more: &[&str]) {
        let mut life = self.life.lock().unwrap();
        assert!(life.is_none(), "{} runs already", self.name());
        let log = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let since = log.metadata().unwrap().len();
        let program = program_path(self.how.program);
        let mut command = match wrapper.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.args(&self.how.words).args(more).envs(self.how.env.iter().cloned());
        command.envs(self.more.lock().unwrap().iter().cloned()).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        if let Some(owner) = &self.how.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        *life = Some(Life { child: command.spawn().unwrap(), since });
    }

    /// Waits until `gqd` answers.
    #[track_caller]
    pub fn wait_for_answer(&self) {
        until("gqd answers", || {
            if let Some(status) = self.has_ended() {
                panic!("{} ended ({status}):\n{}", self.name(), self.said());
            }
            let mut ping = Command::new(program_path("gqctl"));
            ping.arg("ping").env("GQ_CONF", self.dir.join("gq.conf"));
            if let Some(owner) = &self.how.owner {
                ping.uid(owner.uid).gid(owner.gid);
            }
            ping.output().unwrap().status.success().then_some(())
        });
    }

    /// The status with which it ended by itself.
    pub fn has_ended(&self) -> Option<std::process::ExitStatus> {
        self.life.lock().unwrap().as_mut().and_then(|life| life.child.try_wait().unwrap())
    }

    /// Sends it a signal, if it runs, and leaves it to others to notice.
    pub fn strike(&self, signal: Signal) {
        if let Some(life) = self.life.lock().unwrap().as_mut()
            && life.child.try_wait().unwrap().is_none()
        {
            kill(Pid::from_raw(life.child.id().cast_signed()), signal).unwrap();
        }
    }

    /// The number of its process.
    #[track_caller]
    pub fn pid(&self) -> i32 {
        match self.life.lock().unwrap().as_ref() {
            Some(life) => life.child.id().cast_signed(),
            None => panic!("{} does not run", self.name()),
        }
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Stops it as an init system does, and returns its exit code.
    #[track_caller]
    pub fn stop(&self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Ends it without a word.
    #[track_caller]
    pub fn kill9(&self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    /// Waits for its end, and returns its exit code.
    #[track_caller]
    pub fn wait(&self) -> Option<i32> {
        let code = until("a daemon stops", || self.has_ended()).code();
        *self.life.lock().unwrap() = None;
        code
    }

    /// Kills it, if it runs.
    pub fn discard(&self) {
        if let Ok(mut life) = self.life.lock()
            && let Some(mut life) = life.take()
        {
            let _ = life.child.kill();
            let _ = life.child.wait();
        }
    }

    /// All it logged in this lab.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    /// What it logged in its present life.
    pub fn said_now(&self) -> String {
        let since = self.life.lock().unwrap().as_ref().map_or(0, |life| life.since);
        let mut text = Vec::new();
        if let Ok(mut log) = fs::File::open(self.log()) {
            log.seek(SeekFrom::Start(since)).unwrap();
            log.read_to_end(&mut text).unwrap();
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
