//! A cluster in a folder: the real daemons under a made conf, the real clients, and jobs to tell stories about. It knows no
//! more of `gq` than a user does: what it says, it was told by a client.
//!
//! ```ignore
//! let lab = Lab::with_cards(2);
//! let job = lab.submit("--gpus=2", "sleep 2").started();
//! lab.ctl("drain n1 --reason fan");
//! assert_eq!(job.ended(), End::Completed);
//! ```
//!
//! Each lab has a folder, a socket and daemons of its own, so that tests run side by side. Dropping it kills whatever bears
//! its mark and removes the folder; a test that fails first shows the logs.
#![allow(dead_code, clippy::allow_attributes, reason = "each theme uses its own part")]

mod daemon;
mod dice;
mod disk;
mod job;
mod plan;
mod raw;
mod sweep;

pub use daemon::{Daemon, Program};
pub use dice::Dice;
pub use disk::Disk;
pub use job::Job;
pub use plan::{Owner, Plan};
pub use raw::{answer, as_user, ask, asked, frame, kind, say, socket};
pub use sweep::{group_folders, is_frozen, living_parent};

use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest that anything may take before a test gives up. Generous: a machine with two cores may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks again and again until there is something, as long as [`PATIENCE`]; `what` is told when it does not come.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_told(|| what.to_owned(), look)
}

/// The same; what is told is made up when it does not come.
#[track_caller]
pub fn until_told<T>(what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it does not come: {}", what());
        std::thread::sleep(PAUSE);
    }
}

/// What a client said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its exit code; 128 + n when signal n ended it.
    pub code: i32,
    /// Its answer.
    pub out: String,
    /// Its words.
    pub err: String,
}

impl Said {
    /// The answer of a client that did what it was asked.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The words of a client that did not, with this code.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "stdout carries the answer only: {self:?}");
        assert_ne!(self.err, "", "a refusal has words");
        self.err
    }
}

/// A cluster.
pub struct Lab {
    dir: TempDir,
    owner: Option<Owner>,
    /// The controller.
    pub gqd: Daemon,
    nodes: Vec<Daemon>,
    /// Nodes that are declared only.
    absent: Vec<String>,
}

impl Lab {
    /// One node `n1` with so many declared cards.
    pub fn with_cards(count: u32) -> Self {
        Plan::new().node("n1", &cards(count)).start()
    }

    /// The lab's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The conf file.
    pub fn conf(&self) -> PathBuf {
        self.dir().join("gq.conf")
    }

    /// The folder in which clients are run, or a file in it.
    pub fn work(&self, file: impl AsRef<Path>) -> PathBuf {
        self.dir().join("work").join(file)
    }

    /// A node's daemon.
    #[track_caller]
    pub fn node(&self, name: &str) -> &Daemon {
        self.nodes.iter().find(|node| node.name() == name).unwrap_or_else(|| panic!("no node {name}"))
    }

    /// Waits until a node is linked and known to `gqd`, in its present life.
    #[track_caller]
    pub fn node_is_there(&self, name: &str) {
        let daemon = self.node(name);
        // A node tells its life at its start, and gqd that it is linked with that life.
        until(&format!("{name} links up"), || {
            let said = daemon.said_now();
            let (_, life) = said.split_once(&format!("node {name} of cluster lab: life "))?;
            let life = life.split_whitespace().next()?;
            self.gqd.said_now().contains(&format!("{name}: linked (life {life})")).then_some(())
        });
        until(&format!("{name} is known"), || {
            let state = self.node_view(name)?;
            let state = state["state"].as_str()?;
            (!["absent", "suspect", "lost"].contains(&state)).then_some(())
        });
    }

    /// What `gqstat --nodes --json` says of a node.
    pub fn node_view(&self, name: &str) -> Option<Value> {
        let said = self.run("gqstat", &["--nodes", "--json"]);
        let view: Value = serde_json::from_str(&said.out).ok()?;
        view["nodes"].as_array()?.iter().find(|node| node["name"] == name).cloned()
    }

    /// A client's command: in the work folder, as the lab's owner, without options from the environment.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program_path(program));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["GQ_", "GQSUB_", "SLURM", "SBATCH_", "CUDA_", "NEXTEST", "CARGO"]
                .iter()
                .any(|p| text.starts_with(p))
            {
                command.env_remove(name);
            }
        }
        command.current_dir(self.work("")).env("GQ_CONF", self.conf()).env("TZ", "UTC");
        command.stdin(Stdio::null());
        if let Some(owner) = &self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        command
    }

    /// A client's command as another user, in a folder of his own, `work/NAME`.
    pub fn client_of(&self, user: &Owner, program: &str) -> Command {
        let home = self.work(&user.name);
        if fs::create_dir(&home).is_ok() {
            std::os::unix::fs::chown(&home, Some(user.uid), Some(user.gid)).unwrap();
        }
        let mut command = self.client(program);
        command.current_dir(home).uid(user.uid).gid(user.gid);
        command
    }

    /// Runs a client with these words.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, program: &str, words: &[S]) -> Said {
        finish(self.client(program).args(words))
    }

    /// Runs a client whose words are parted by blanks.
    #[track_caller]
    pub fn say(&self, line: &str) -> Said {
        let mut words = line.split_ascii_whitespace();
        let program = words.next().unwrap_or_else(|| panic!("no program"));
        self.run(program, &words.collect::<Vec<_>>())
    }

    /// Runs `gqctl`, which has to succeed.
    #[track_caller]
    pub fn ctl(&self, line: &str) -> String {
        self.say(&format!("gqctl {line}")).ok()
    }

    /// Runs a client with this on its standard input.
    #[track_caller]
    pub fn feed<S: AsRef<OsStr>>(&self, program: &str, words: &[S], input: &[u8]) -> Said {
        let mut command = self.client(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A client that refuses early does not read to the end.
        let writer = std::thread::spawn(move || drop(to.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        said(&output)
    }

    /// Submits a shell command with options that are parted by blanks.
    #[track_caller]
    pub fn submit(&self, options: &str, command: &str) -> Job<'_> {
        let mut words: Vec<&str> = options.split_ascii_whitespace().collect();
        words.extend(["--wrap", command]);
        self.gqsub(&words)
    }

    /// Submits a script of this text, with options and arguments parted by blanks (`OPTIONS -- ARGS`).
    #[track_caller]
    pub fn script(&self, options: &str, text: &str) -> Job<'_> {
        let (options, arguments) = options.split_once("--\u{20}").unwrap_or((options, ""));
        let file = self.file("job.sh", text);
        let mut words: Vec<OsString> = options.split_ascii_whitespace().map(OsString::from).collect();
        words.push(file.into());
        words.extend(arguments.split_ascii_whitespace().map(OsString::from));
        self.gqsub(&words)
    }

    /// Submits with `gqsub --parsable` and these words; it has to be taken.
    #[track_caller]
    pub fn gqsub<S: AsRef<OsStr>>(&self, words: &[S]) -> Job<'_> {
        let mut command = self.client("gqsub");
        let said = finish(command.arg("--parsable").args(words));
        self.job(&said.ok())
    }

    /// The job of this number.
    #[track_caller]
    pub fn job(&self, id: &str) -> Job<'_> {
        Job::new(self, id.trim().parse().unwrap_or_else(|e| panic!("{id:?}: {e}")))
    }

    /// Waits for a file in the work folder, which a job makes as a sign.
    #[track_caller]
    pub fn until_file(&self, name: &str) {
        until(&format!("the file {name}"), || self.work(name).exists().then_some(()));
    }

    /// What is in a file of the work folder; nothing when there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work(name)).unwrap_or_default()
    }

    /// Writes a file into the work folder, for the lab's owner.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work(name);
        fs::write(&path, text).unwrap();
        self.give(&path);
        path
    }

    /// Makes a path the owner's.
    fn give(&self, path: &Path) {
        if let Some(owner) = &self.owner {
            std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)).unwrap();
        }
    }

    /// What `gqstat --json` lists with these words more.
    #[track_caller]
    pub fn list(&self, words: &str) -> Vec<Value> {
        let answer = self.say(&format!("gqstat --json {words}")).ok();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["jobs"].as_array().unwrap().clone()
    }

    /// What `gqstat` lists, as `TASKS STATE`, in order of tasks; tasks that ended alike or wait for the same are one line.
    #[track_caller]
    pub fn lines(&self, words: &str) -> Vec<String> {
        let said = self.say(&format!("gqstat -h -t all -o jobid,state {words}")).ok();
        let mut lines: Vec<String> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        lines
    }

    /// The numbers of all processes that bear this lab's mark: daemons, supervisors, jobs.
    pub fn processes(&self) -> Vec<i32> {
        sweep::marked(self.dir())
    }

    /// The numbers of the supervisors among them. The child that becomes a job is called as its supervisor is until it executes the script.
    pub fn supervisors(&self) -> Vec<i32> {
        let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let is_step = |pid: i32| name(pid).trim() == "gqstep";
        let is_child = |pid: i32| living_parent(pid).is_none_or(is_step);
        self.processes().into_iter().filter(|pid| is_step(*pid) && !is_child(*pid)).collect()
    }

    /// How many daemons it has when all of them run.
    pub fn daemons(&self) -> usize {
        1 + self.nodes.len()
    }

    fn show(&self) {
        eprintln!("---- gqstat\n{}", self.say("gqstat -t all").out);
        eprintln!("---- gqd\n{}", self.gqd.said());
        for node in &self.nodes {
            eprintln!("---- {}\n{}", node.name(), node.said());
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        for daemon in self.nodes.iter().chain([&self.gqd]) {
            daemon.discard();
        }
        sweep::kill_all(self.dir());
        sweep::remove_groups(self.dir());
    }
}

/// The TOML of a node with so many declared cards of 80G, 16 cpus and 64G.
pub fn cards(count: u32) -> String {
    let machine = "cpus = 16\nmemory = \"64G\"\n";
    match count {
        0 => machine.to_owned(),
        _ => {
            format!("{machine}[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\ncount = {count}\nmemory = \"80G\"\n")
        }
    }
}

/// Accounts for a test that has to become them; none, with a word why, when it cannot.
pub fn accounts<const N: usize>(names: [&str; N]) -> Option<[Owner; N]> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("left out: only root can become somebody else");
        return None;
    }
    let found: Vec<Owner> = names.iter().filter_map(|name| Owner::named(name)).collect();
    let reach = |user: &Owner| {
        let mut look = Command::new(program_path("gqsub"));
        look.arg("--version").uid(user.uid).gid(user.gid).current_dir("/").output().is_ok()
    };
    if !found.iter().all(reach) {
        eprintln!("left out: {names:?} cannot reach {}", program_path("gqsub").display());
        return None;
    }
    let found = found.try_into();
    if found.is_err() {
        eprintln!("left out: not all of {names:?} have an account here");
    }
    found.ok()
}

/// Whether this tracer works here; it is told when it does not.
pub fn can_trace(tracer: &[&str]) -> bool {
    let tried = tracer.split_first().map(|(first, rest)| Command::new(first).args(rest).arg("true").output());
    let works = tried.is_some_and(|done| done.is_ok_and(|done| done.status.success()));
    if !works {
        eprintln!("left out: {} is not here, or may not trace", tracer.first().unwrap_or(&"a tracer"));
    }
    works
}

/// Runs a command to its end.
#[track_caller]
pub fn finish(command: &mut Command) -> Said {
    said(&command.output().unwrap_or_else(|e| panic!("{command:?}: {e}")))
}

/// What a client said, of how it ended.
pub fn said(output: &std::process::Output) -> Said {
    use std::os::unix::process::ExitStatusExt;
    let status = output.status;
    Said {
        code: status.code().or_else(|| status.signal().map(|n| 128 + n)).unwrap(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Where a program of ours is.
#[track_caller]
pub fn program_path(program: &str) -> PathBuf {
    PathBuf::from(match program {
        "gqd" => env!("CARGO_BIN_EXE_gqd"),
        "gqnode" => env!("CARGO_BIN_EXE_gqnode"),
        "gqstep" => env!("CARGO_BIN_EXE_gqstep"),
        "gqsub" => env!("CARGO_BIN_EXE_gqsub"),
        "gqstat" => env!("CARGO_BIN_EXE_gqstat"),
        "gqcancel" => env!("CARGO_BIN_EXE_gqcancel"),
        "gqacct" => env!("CARGO_BIN_EXE_gqacct"),
        "gqctl" => env!("CARGO_BIN_EXE_gqctl"),
        other => panic!("no program of ours: {other}"),
    })
}
