//! The environment of a login: what a user's login shell makes of his profile. Run by a process that is the user already; what the
//! profile leaves running stays a descendant of the caller.

use crate::{
    pipe::{patient_pipe, read_available},
    process::pidfd_open,
    tree::kill_group,
    user::Account,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeReader},
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use thiserror::Error;

/// Most bytes that a login may say, its environment among them.
const MOST: usize = 4 << 20;
/// Stands before the environment, and behind whatever the profile says.
const MARK: &[u8] = b"GQ_LOGIN_ENVIRONMENT=begins\0";
/// What the login shell is told, of whatever kind it is.
const TASK: &str = "/usr/bin/env -i -0 GQ_LOGIN_ENVIRONMENT=begins; exec /usr/bin/env -0";

/// Why there is no environment of a login.
#[derive(Debug, Error)]
pub enum LoginTrouble {
    /// The shell cannot be run.
    #[error("{0}: {1}")]
    Shell(std::path::PathBuf, #[source] io::Error),
    /// It took too long.
    #[error("it took more than {} s", .0.as_secs())]
    Late(Duration),
    /// It said too much.
    #[error("it said more than {} MiB", MOST >> 20)]
    Long,
    /// It ended without saying it.
    #[error("the shell ended without it")]
    Nothing,
}

/// Has the account's login shell say its environment: `NAME=value`, in no order.
///
/// `marks`: variables that all its processes shall carry; they are among what is returned.
///
/// # Errors
/// [`LoginTrouble`]; after it the shell's process group is dead.
pub fn login_environment(
    account: &Account,
    marks: &[(&str, &str)],
    patience: Duration,
) -> Result<Vec<Vec<u8>>, LoginTrouble> {
    let trouble = |e| LoginTrouble::Shell(account.shell.clone(), e);
    let (reader, writer) = patient_pipe().map_err(trouble)?;
    let mut shell = spawn(account, marks, writer.into()).map_err(trouble)?;
    let said = listen(&mut shell, reader, patience);
    if !matches!(said, Ok(Some(_)))
        && let Err(e) = kill_group(shell.id())
    {
        return Err(trouble(e));
    }
    // It is dead, or dies: its number is not given to another before this.
    shell.wait().map_err(trouble)?;
    let said = said.map_err(trouble)?.ok_or(LoginTrouble::Late(patience))?;
    if said.len() > MOST {
        return Err(LoginTrouble::Long);
    }
    let begin = said.windows(MARK.len()).rposition(|window| window == MARK).ok_or(LoginTrouble::Nothing)?;
    let all = said.get(begin + MARK.len()..).unwrap_or_default();
    let entries: Vec<Vec<u8>> =
        all.split(|b| *b == 0).filter(|entry| entry.contains(&b'=')).map(<[u8]>::to_vec).collect();
    if entries.is_empty() { Err(LoginTrouble::Nothing) } else { Ok(entries) }
}

fn spawn(account: &Account, marks: &[(&str, &str)], output: Stdio) -> io::Result<Child> {
    // As `login` does it: a shell whose name begins with a dash reads its profile.
    let mut name = OsString::from("-");
    name.push(account.shell.file_name().unwrap_or(OsStr::new("sh")));
    let home = if account.home.is_dir() { account.home.as_path() } else { Path::new("/") };
    let mut command = Command::new(&account.shell);
    command
        .arg0(name)
        .args(["-c", TASK])
        .env_clear()
        .envs(marks.iter().copied())
        .env("HOME", &account.home)
        .env("USER", &account.name)
        .env("LOGNAME", &account.name)
        .env("SHELL", &account.shell)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn()
}

/// What the shell says until it ends, whoever else may still hold its output; none when that takes too long. What is longer than
/// [`MOST`] is cut a little behind it.
fn listen(shell: &mut Child, mut output: PipeReader, patience: Duration) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now().checked_add(patience);
    let pidfd = pidfd_open(shell.id())?.ok_or(io::ErrorKind::NotFound)?;
    let (mut said, mut is_open) = (Vec::new(), true);
    loop {
        let left = end.map_or(patience, |end| end.saturating_duration_since(Instant::now()));
        let wait = PollTimeout::try_from(left.as_millis().min(i32::MAX as u128)).unwrap_or(PollTimeout::MAX);
        let mut fds = vec![PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        fds.extend(is_open.then(|| PollFd::new(output.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, wait) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        // Looked at before the reading: what it said before its end is read then.
        let is_dead = fds.first().and_then(PollFd::any) == Some(true);
        is_open &= read_available(&mut output, &mut said, MOST)?;
        if is_dead || said.len() > MOST {
            return Ok(Some(said));
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::own_uid;
    use std::fs;

    fn login(profile: &str, patience: Duration) -> Result<Vec<Vec<u8>>, LoginTrouble> {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".profile"), profile).unwrap();
        let account = Account {
            home: home.path().to_path_buf(),
            shell: "/bin/sh".into(),
            ..Account::nameless(own_uid())
        };
        login_environment(&account, &[("MARK", "1")], patience)
    }

    #[test]
    fn a_profile_speaks_and_its_variables_come_byte_for_byte() {
        let minute = Duration::from_secs(60);
        let said = login("echo hello; A='1\n2 =x'; export A; echo done", minute).unwrap();
        let has = |entry: &[u8]| said.iter().any(|e| e == entry);
        assert!(has(b"A=1\n2 =x") && has(b"MARK=1"), "{said:?}");
        assert!(!said.iter().any(|e| e.starts_with(b"GQ_LOGIN")));
        assert!(matches!(login("exit 3", minute), Err(LoginTrouble::Nothing)));
        let begun = Instant::now();
        let late = login("sleep 60", Duration::from_millis(300));
        assert!(matches!(late, Err(LoginTrouble::Late(_))) && begun.elapsed() < Duration::from_secs(20));
        assert!(matches!(login("exec yes", minute), Err(LoginTrouble::Long)));
    }
}
