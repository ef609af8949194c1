//! Programs that a site puts into a folder to be run around its jobs: which of them may be run, and starting one. They run as
//! this process's own user, so nobody but root and that user may have a hand in them.

use crate::{
    identity::{die_with, own_uid},
    inbox::reset_signals,
    launch::{execute_program, fork, own_session},
    stdio::{detach_stdio, install_stdio, set_umask},
};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};
use std::{
    fs::{self, File, Metadata},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Most programs of one folder.
const MAX_PROGRAMS: usize = 256;
/// How names end that editors and package managers leave behind.
const LEFT_BEHIND: &[&str] = &["~", ".bak", ".orig", ".swp", ".rpmsave", ".rpmnew", ".rpmorig"];
/// Exit code of a child that did not become the program; its output says why.
const NOT_EXECUTED: u8 = 126;

/// Lists the programs of a folder in the order of their names: its executable regular files whose names are made of letters,
/// digits, `_`, `-` and `.`, and are not those of backups.
///
/// # Errors
/// In words for people: when the folder cannot be read, or when others than root and this process's user could have put
/// something into it or into one of the programs.
pub fn hook_programs(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let real = dir.canonicalize().map_err(|e| at(dir, &e))?;
    for (above, folder) in real.ancestors().enumerate() {
        let seen = folder.symlink_metadata().map_err(|e| at(folder, &e))?;
        if above == 0 && !seen.is_dir() {
            return Err(format!("{}: is not a folder", folder.display()));
        }
        // A sticky folder of root's, such as /tmp, lets nobody rename what is another's.
        if above == 0 || seen.uid() != 0 || seen.mode() & 0o1000 == 0 {
            is_safe(folder, &seen)?;
        }
    }
    let mut programs = Vec::new();
    for entry in fs::read_dir(&real).map_err(|e| at(&real, &e))? {
        let path = entry.map_err(|e| at(&real, &e))?.path();
        if !path.file_name().is_some_and(|name| is_program_name(name.as_bytes())) {
            continue;
        }
        let seen = path.symlink_metadata().map_err(|e| at(&path, &e))?;
        if seen.is_symlink() {
            return Err(format!("{}: is a symbolic link; put the program itself there", path.display()));
        }
        if seen.is_file() && seen.mode() & 0o111 != 0 {
            is_safe(&path, &seen)?;
            programs.push(path);
        }
    }
    if programs.len() > MAX_PROGRAMS {
        return Err(format!("{}: more than {MAX_PROGRAMS} programs", real.display()));
    }
    programs.sort();
    Ok(programs)
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", path.display(), crate::machine::words(error))
}

/// Nobody but root and this process's user owns it or may write to it.
fn is_safe(path: &Path, seen: &Metadata) -> Result<(), String> {
    let uid = seen.uid();
    if uid != 0 && uid != own_uid().0 {
        let words = "who could have it run what he likes; chown it";
        return Err(format!("{}: belongs to uid {uid}, {words}", path.display()));
    }
    let mode = seen.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        let words = format!("others than its owner may write to it (mode {mode:04o}); chmod go-w it");
        return Err(format!("{}: {words}", path.display()));
    }
    Ok(())
}

fn is_program_name(name: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let Ok(text) = std::str::from_utf8(name) else { return false };
    name.iter().all(plain)
        && !text.starts_with('.')
        && !text.contains(".dpkg-")
        && !LEFT_BEHIND.iter().any(|end| text.ends_with(end))
}

/// Makes a pipe for the output of a program: the end that is read does not wait.
///
/// # Errors
/// When there are no descriptors left.
pub fn output_pipe() -> io::Result<(File, File)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader.into(), writer.into()))
}

/// Starts a program as this process's user, in a session of its own: without arguments, in `/`, with this environment and no
/// other, no input, and both outputs in `output`. It dies with this process. Returns its pid.
///
/// # Errors
/// When there is no process or memory left. A program that cannot be executed exits 126 and says why.
pub fn run_hook(program: &Path, env: &[Vec<u8>], output: &File) -> io::Result<u32> {
    let parent = std::process::id();
    fork(|| {
        let failed = become_hook(program, env, output, parent);
        let _ = writeln!(&*output, "it cannot be executed: {}", crate::machine::words(&failed));
        NOT_EXECUTED
    })
}

/// Returns only when it fails.
fn become_hook(program: &Path, env: &[Vec<u8>], output: &File, parent: u32) -> io::Error {
    let ready = || -> io::Result<()> {
        own_session()?;
        detach_stdio()?;
        install_stdio(None, output, output)?;
        std::env::set_current_dir("/")?;
        set_umask(0o022);
        die_with(parent)?;
        reset_signals()
    };
    match ready() {
        Ok(()) => execute_program(program, &[], env),
        Err(e) => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn programs_are_found_in_order_and_what_is_left_behind_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        for name in ["20-b", "10-a.sh", "30_C"] {
            put(dir, name, 0o755);
        }
        for name in ["10-a.sh~", "x.bak", "y.dpkg-old", ".hidden", "a b", "z.rpmsave"] {
            put(dir, name, 0o755);
        }
        put(dir, "README", 0o644);
        fs::create_dir(dir.join("folder")).unwrap();
        let real = dir.canonicalize().unwrap();
        let found = hook_programs(dir).unwrap();
        assert_eq!(found, ["10-a.sh", "20-b", "30_C"].map(|name| real.join(name)));
    }

    #[test]
    fn what_others_could_have_changed_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("prolog.d");
        fs::create_dir(&dir).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let program = put(&dir, "10-a", 0o775);
        assert!(hook_programs(&dir).unwrap_err().contains("10-a: others than its owner may write"));
        mode(&program, 0o755);
        assert_eq!(hook_programs(&dir).unwrap().len(), 1);
        mode(&dir, 0o777);
        assert!(hook_programs(&dir).unwrap_err().contains("prolog.d: others"));
        mode(&dir, 0o755);
        mode(temp.path(), 0o777);
        assert!(hook_programs(&dir).is_err(), "a folder above it");
        mode(temp.path(), 0o755);
        std::os::unix::fs::symlink(&program, dir.join("20-b")).unwrap();
        assert!(hook_programs(&dir).unwrap_err().contains("symbolic link"));
        fs::remove_file(dir.join("20-b")).unwrap();
        if own_uid().0 == 0 {
            std::os::unix::fs::chown(&program, Some(65_534), None).unwrap();
            assert!(hook_programs(&dir).unwrap_err().contains("belongs to uid 65534"));
        }
        assert!(hook_programs(&temp.path().join("none")).is_err());
        assert!(hook_programs(&program).is_err());
    }
}
