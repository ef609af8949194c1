//! A private queue of the real programs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

pub(crate) const GQSUB: &str = env!("CARGO_BIN_EXE_gqsub");
const GQD: &str = env!("CARGO_BIN_EXE_gqd");
const GQNODE: &str = env!("CARGO_BIN_EXE_gqnode");

/// Everything of this run is below one folder, which is removed at the very end: some file systems use no inode again for minutes after its
/// file was removed, and are slow to find another meanwhile.
pub(crate) fn base() -> PathBuf {
    std::env::temp_dir().join(format!("gqb{}", std::process::id()))
}

pub(crate) struct Queue {
    folder: PathBuf,
    conf: PathBuf,
    gqd: Option<Child>,
    gqnode: Option<Child>,
}

impl Queue {
    /// Starts a queue with one node of so many cpus.
    pub(crate) fn start(cpus: u32) -> Self {
        let made = fs::read_dir(base()).map_or(0, Iterator::count);
        let folder = base().join(made.to_string());
        fs::create_dir_all(&folder).unwrap();
        let conf = folder.join("gq.conf");
        let root = folder.display();
        let user = if nix::unistd::geteuid().is_root() { "user = \"root\"\n" } else { "" };
        let text = format!(
            "[cluster]\nname = \"bench\"\nspool_dir = \"{root}/spool\"\nstate_dir = \"{root}/state\"\nrun_dir = \"{root}/run\"\n{user}\
             [[node]]\nname = \"n1\"\ncpus = {cpus}\nmemory = \"64G\"\n[[partition]]\nname = \"main\"\n[[partition]]\nname = \"shut\"\nstate = \"down\"\n"
        );
        fs::write(&conf, text).unwrap();
        let mut queue = Self { folder, conf, gqd: None, gqnode: None };
        queue.start_gqd(true);
        queue.gqnode = Some(queue.daemon(GQNODE, &["--name", "n1"], "gqnode.log"));
        queue.until(|| queue.run("gqstat", &["--nodes"]).contains("idle"));
        queue
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
    pub(crate) fn conf(&self) -> &Path {
        &self.conf
    }
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.gqd.iter().chain(&self.gqnode).map(Child::id)
    }
    pub(crate) fn gqd_pid(&self) -> u32 {
        self.gqd.as_ref().unwrap().id()
    }

    pub(crate) fn start_gqd(&mut self, init: bool) {
        let options: &[&str] = if init { &["--init"] } else { &[] };
        self.gqd = Some(self.daemon(GQD, options, "gqd.log"));
        self.until(|| self.program("gqctl").arg("ping").output().unwrap().status.success());
    }

    pub(crate) fn kill_gqd(&mut self) {
        let mut gqd = self.gqd.take().unwrap();
        gqd.kill().unwrap();
        gqd.wait().unwrap();
    }

    fn daemon(&self, program: &str, options: &[&str], log: &str) -> Child {
        let log = fs::File::create(self.path().join(log)).unwrap();
        let mut command = Command::new(program);
        command.arg("--conf").arg(&self.conf).args(options).stdin(Stdio::null()).stderr(log);
        command.spawn().unwrap()
    }

    /// A client of this queue.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(Path::new(GQSUB).with_file_name(name));
        command.env("GQ_CONF", &self.conf).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// What a client prints; it must do what it is asked.
    pub(crate) fn run(&self, name: &str, options: &[&str]) -> String {
        let output = self.program(name).args(options).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {options:?}: {words}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a script of this name and returns its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Looks again and again until it is so; for things that nobody tells.
    pub(crate) fn until(&self, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            assert!(
                begun.elapsed() < Duration::from_secs(300),
                "it does not come to pass; see {}",
                self.path().display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for daemon in self.gqnode.iter_mut().chain(&mut self.gqd) {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
