//! Programs of the site: run with an argument vector, a clean environment, what they are to read, and a deadline, at which they are killed
//! with their process group. No shell. What they say means something to whoever asked.

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use std::{
    ffi::OsString,
    io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use thiserror::Error;

/// Most that a program may write to standard output, in bytes.
const MAX_OUT: usize = 1 << 20;
/// What is kept of its words on standard error, in bytes.
const MAX_WORDS: usize = 2 << 10;
/// Where its own programs are found.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Stack of the thread that sees it end.
const STACK: usize = 128 << 10;

/// A program of the conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    argv: Vec<String>,
    /// How long it may take.
    within: Duration,
    env: Arc<[(&'static str, OsString)]>,
}

/// What a program's environment says of this `gqd`.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings(Arc<[(&'static str, OsString)]>);

impl Surroundings {
    /// Everything in it: where programs are, what texts are written in, whose queue it is.
    pub(crate) fn new(conf: &Path, cluster: &str) -> Self {
        let conf = std::path::absolute(conf).unwrap_or_else(|_| conf.to_path_buf());
        Self(Arc::new([
            ("PATH", PATH.into()),
            ("HOME", "/".into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("GQ_CONF", conf.into()),
            ("GQ_CLUSTER_NAME", cluster.into()),
        ]))
    }
}

/// Why a program came to nothing.
#[derive(Debug, Error)]
pub(crate) enum Failed {
    /// It was not started.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// Its time was over.
    #[error("it had not ended after {} s, and was killed", .0.as_secs())]
    Late(Duration),
    /// It said too much.
    #[error("it wrote more than {MAX_OUT} bytes, and was killed")]
    TooMuch,
    /// It ended otherwise than with 0.
    #[error("it ended with {}{}", .0, told(.1))]
    Ended(ExitStatus, String),
    /// It could not be spoken with.
    #[error("it cannot be spoken with: {0}")]
    Talk(io::Error),
}

fn told(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

impl From<nix::errno::Errno> for Failed {
    fn from(errno: nix::errno::Errno) -> Self {
        Self::Talk(errno.into())
    }
}

impl Program {
    /// The program of these words; none when there are none.
    pub(crate) fn new(argv: &[String], within: gq_model::Seconds, around: &Surroundings) -> Option<Self> {
        let within = Duration::from_secs(within.0);
        (!argv.is_empty()).then(|| Self { argv: argv.to_vec(), within, env: Arc::clone(&around.0) })
    }

    /// Its path, for the log.
    pub(crate) fn name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Runs it to its end: what it wrote to standard output, when it exited with 0. Processes that it leaves behind are let be, if it
    /// ended in time: mail systems deliver so.
    pub(crate) fn run(&self, input: &[u8]) -> Result<Vec<u8>, Failed> {
        let end = Instant::now() + self.within;
        let (first, words) = self
            .argv
            .split_first()
            .ok_or_else(|| Failed::Start(io::Error::new(ErrorKind::InvalidInput, "it has no name")))?;
        let mut command = Command::new(first);
        command.args(words).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Failed::Start)?;
        let heard =
            watch(&child).and_then(|gone| Talk::begin(&mut child, input)?.hear(&gone, end, self.within));
        let (out, words) = match heard {
            Ok(heard) => heard,
            Err(failed) => {
                give_up(child);
                return Err(failed);
            }
        };
        let status = child.wait().map_err(Failed::Talk)?;
        let words = String::from_utf8_lossy(&words).trim().replace('\n', "; ");
        if status.success() { Ok(out) } else { Err(Failed::Ended(status, words)) }
    }
}

/// Kills a program and its group, before anybody has taken note of its end, so that the number is still its own. A process that even so
/// does not end is waited for by a thread of its own.
fn give_up(mut child: Child) {
    let killed = i32::try_from(child.id()).map(|pid| killpg(Pid::from_raw(pid), Signal::SIGKILL));
    if !matches!(killed, Ok(Ok(()))) {
        log::warn!("a program could not be killed: {killed:?}");
    }
    let waits =
        thread::Builder::new().name("reaper".into()).stack_size(STACK).spawn(move || drop(child.wait()));
    if let Err(error) = waits {
        log::warn!("no thread waits for a program that was killed: {error}");
    }
}

/// A pipe that is closed when a program has ended. A thread sees to that, without taking note of the end for others.
fn watch(child: &Child) -> Result<PipeReader, Failed> {
    let (gone, alive) = io::pipe().map_err(Failed::Talk)?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
    let sees = move || see(pid, alive);
    thread::Builder::new().name("program".into()).stack_size(STACK).spawn(sees).map_err(Failed::Talk)?;
    Ok(gone)
}

fn see(pid: Pid, alive: PipeWriter) {
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::errno::Errno::EINTR) {
    }
    drop(alive);
}

/// What is said to a program and heard of it.
struct Talk<'a> {
    /// What it has not read yet.
    input: &'a [u8],
    stdin: Option<ChildStdin>,
    out: Ear,
    words: Ear,
}

/// One of its outputs.
struct Ear {
    from: Option<Box<dyn Source>>,
    heard: Vec<u8>,
}

trait Source: Read + AsFd {}
impl<T: Read + AsFd> Source for T {}

impl Ear {
    fn new<T: Source + 'static>(from: Option<T>) -> Result<Self, Failed> {
        if let Some(from) = &from {
            never_wait(from.as_fd())?;
        }
        Ok(Self { from: from.map(|from| Box::new(from) as Box<dyn Source>), heard: Vec::new() })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(|from| from.as_fd())
    }

    /// Takes what is there.
    fn listen(&mut self, most: usize) -> io::Result<()> {
        let mut part = [0; 8192];
        while let Some(from) = &mut self.from {
            match from.read(&mut part) {
                Ok(0) => self.from = None,
                // Once it is more than anybody wants, the rest is only taken off its hands.
                Ok(count) if self.heard.len() <= most => self.heard.extend(part.iter().take(count)),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn never_wait(fd: BorrowedFd<'_>) -> Result<(), Failed> {
    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

impl<'a> Talk<'a> {
    fn begin(child: &mut Child, input: &'a [u8]) -> Result<Self, Failed> {
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            never_wait(stdin.as_fd())?;
        }
        Ok(Self { input, stdin, out: Ear::new(child.stdout.take())?, words: Ear::new(child.stderr.take())? })
    }

    /// Says and hears, until the program has ended: what it wrote to standard output and standard error.
    fn hear(
        mut self,
        gone: &PipeReader,
        end: Instant,
        within: Duration,
    ) -> Result<(Vec<u8>, Vec<u8>), Failed> {
        loop {
            self.speak().map_err(Failed::Talk)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failed::Late(within));
            }
            let ended = self.wait(gone, left)?;
            self.out.listen(MAX_OUT).and_then(|()| self.words.listen(MAX_WORDS)).map_err(Failed::Talk)?;
            if self.out.heard.len() > MAX_OUT {
                return Err(Failed::TooMuch);
            }
            if ended {
                self.words.heard.truncate(MAX_WORDS);
                return Ok((self.out.heard, self.words.heard));
            }
        }
    }

    /// Waits until something can be said or heard, or the program has ended, which is told.
    fn wait(&self, gone: &PipeReader, left: Duration) -> Result<bool, Failed> {
        let ears = [self.out.fd(), self.words.fd()];
        let mut fds = vec![PollFd::new(gone.as_fd(), PollFlags::POLLIN)];
        fds.extend(ears.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(self.stdin.as_ref().map(|stdin| PollFd::new(stdin.as_fd(), PollFlags::POLLOUT)));
        let left = i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let seen = fds.first().and_then(PollFd::revents);
        Ok(seen.is_some_and(|seen| seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)))
    }

    /// Says as much as it takes. A program may end without having read all.
    fn speak(&mut self) -> io::Result<()> {
        while let Some(stdin) = &mut self.stdin {
            if self.input.is_empty() {
                self.stdin = None;
                break;
            }
            match stdin.write(self.input) {
                Ok(count) => self.input = self.input.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stdin = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::Seconds;

    fn shell(script: &str, within: u64) -> Program {
        let argv = ["/bin/sh", "-c", script].map(String::from);
        Program::new(&argv, Seconds(within), &Surroundings::new(Path::new("/x/gq.conf"), "lab")).unwrap()
    }

    #[test]
    fn it_reads_all_says_all_and_knows_nothing_else() {
        let input = vec![b'x'; 3 << 20];
        assert_eq!(shell("wc -c", 20).run(&input).unwrap(), b"3145728\n");
        let env = String::from_utf8(shell("env", 20).run(b"").unwrap()).unwrap();
        let mut names: Vec<&str> =
            env.lines().filter_map(|line| line.split_once('=')).map(|(n, _)| n).collect();
        names.retain(|name| !matches!(*name, "PWD" | "OLDPWD" | "SHLVL" | "_"));
        names.sort_unstable();
        assert_eq!(names, ["GQ_CLUSTER_NAME", "GQ_CONF", "HOME", "LC_ALL", "PATH"]);
        // Who does not read is not waited for, nor is what stays behind with the output open.
        assert_eq!(shell("sleep 5 & echo done", 20).run(&input).unwrap(), b"done\n");
        let words = Program::new(&["/bin/echo".into(), "a b".into(), "$HOME".into()], Seconds(9), &around());
        assert_eq!(words.unwrap().run(b"").unwrap(), b"a b $HOME\n");
    }

    fn around() -> Surroundings {
        Surroundings::new(Path::new("gq.conf"), "lab")
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let failed = |script: &str| shell(script, 20).run(b"").unwrap_err().to_string();
        assert_eq!(failed("echo no >&2; echo way >&2; exit 3"), "it ended with exit status: 3: no; way");
        assert_eq!(failed("kill -9 $$"), "it ended with signal: 9 (SIGKILL)");
        assert!(failed("cat /dev/zero").contains("wrote more than"));
        let none = Program::new(&["/no/such/program".into()], Seconds(9), &around()).unwrap();
        assert!(none.run(b"").unwrap_err().to_string().starts_with("it cannot be started: No such file"));
    }

    #[test]
    fn who_is_late_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 600 & echo $! >{}; trap '' TERM; wait", file.display());
        let begin = Instant::now();
        assert!(matches!(shell(&script, 1).run(b""), Err(Failed::Late(_))));
        assert!(begin.elapsed() < Duration::from_secs(10));
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
        };
        let end = Instant::now() + Duration::from_secs(20);
        while is_gone().is_none() {
            assert!(Instant::now() < end, "{pid} lives");
            thread::yield_now();
        }
    }
}
