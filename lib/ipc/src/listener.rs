//! Listening: a socket appears under its name whole, with its mode, or not at all.

use crate::{Conn, IpcError, address::Address};
use nix::sys::{
    socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket},
    stat::{Mode, fchmod},
};
use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

/// Connections that may wait to be accepted; the system cuts it to what it allows (4096 as a rule).
const BACKLOG: i32 = 4096;

/// A socket that others connect to. Its name is removed when it is dropped, unless a successor has taken it.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    id: (u64, u64),
}

impl Listener {
    /// Listens at `path`, with the permission bits `mode`.
    ///
    /// The socket is made under another name in the same folder and renamed, so that nobody ever finds it with other
    /// permissions, and a socket left behind by a killed predecessor is replaced. That the predecessor is gone is
    /// for the caller to know (by its lock).
    ///
    /// # Errors
    /// [`IpcError::Squatted`] when something else than a socket is there (a symbolic link too), [`IpcError::Io`] when
    /// the folder does not take it.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, IpcError> {
        let failed = |e: io::Error| IpcError::io(format!("cannot listen at {}", path.display()), e);
        refuse_squatter(path)?;
        let temp = temp_name(path).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        remove_if_there(&temp).map_err(failed)?;
        let (socket, id) = open(&temp, mode).map_err(failed)?;
        if let Err(e) = fs::rename(&temp, path) {
            let _ = fs::remove_file(&temp);
            return Err(failed(e));
        }
        Ok(Self { socket, path: path.to_owned(), id })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// [`IpcError::Io`], as when the process has no more file descriptors; the listener can be used further.
    pub fn accept(&self) -> Result<Conn, IpcError> {
        loop {
            match self.socket.accept() {
                Ok((stream, _)) => return Ok(Conn::of(stream)),
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => {
                    return Err(IpcError::io(
                        format!("cannot accept a connection at {}", self.path.display()),
                        e,
                    ));
                }
            }
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.id);
        if ours && let Err(e) = fs::remove_file(&self.path) {
            log::warn!("cannot remove {}: {e}", self.path.display());
        }
    }
}

fn refuse_squatter(path: &Path) -> Result<(), IpcError> {
    let there = match fs::symlink_metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(IpcError::io(format!("cannot look at {}", path.display()), e)),
    };
    let what = match () {
        () if there.is_socket() => return Ok(()),
        () if there.is_symlink() => "a symbolic link",
        () if there.is_dir() => "a folder",
        () => "a file of another kind",
    };
    Err(IpcError::Squatted { path: path.to_owned(), what })
}

/// A short name in the same folder, one for each process.
fn temp_name(path: &Path) -> Option<PathBuf> {
    path.file_name()?;
    Some(path.with_file_name(format!(".gq{:x}", std::process::id())))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn open(temp: &Path, mode: u32) -> io::Result<(UnixListener, (u64, u64))> {
    let fd: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Before it has a name, the mode of a socket is the most that the name will get, whatever the umask.
    fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let address = Address::of(temp)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(address.name())?)?;
    let finish = || -> io::Result<(u64, u64)> {
        fs::set_permissions(temp, fs::Permissions::from_mode(mode))?;
        let meta = fs::symlink_metadata(temp)?;
        listen(&fd, Backlog::new(BACKLOG)?)?;
        Ok((meta.dev(), meta.ino()))
    };
    match finish() {
        Ok(id) => Ok((UnixListener::from(fd), id)),
        Err(e) => {
            let _ = fs::remove_file(temp);
            Err(e)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gq-ipc-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn it_listens_under_its_name_with_its_mode_and_takes_the_name_with_it() {
        let folder = folder("listen");
        let path = folder.join("gqd.sock");
        assert!(matches!(Conn::connect(&path), Err(IpcError::NotThere { .. })));
        let listener = Listener::bind(&path, 0o666).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let client = Conn::connect(&path).unwrap();
        let server = listener.accept().unwrap();
        client.send(b"hello").unwrap();
        assert_eq!(server.recv(5).unwrap().unwrap(), b"hello");
        assert_eq!(server.peer().unwrap().uid.0, nix::unistd::getuid().as_raw());
        drop(listener);
        assert!(matches!(Conn::connect(&path), Err(IpcError::NotThere { .. })));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_successor_keeps_its_name() {
        let folder = folder("dead");
        let path = folder.join("gqd.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(Conn::connect(&path), Err(IpcError::NotThere { .. })));
        let first = Listener::bind(&path, 0o600).unwrap();
        let second = Listener::bind(&path, 0o600).unwrap();
        drop(first);
        let _client = Conn::connect(&path).unwrap();
        second.accept().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = folder("squat");
        let path = folder.join("gqd.sock");
        let target = folder.join("precious");
        fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(
            Listener::bind(&path, 0o666),
            Err(IpcError::Squatted { what: "a symbolic link", .. })
        ));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "keep").unwrap();
        assert!(matches!(Listener::bind(&path, 0o666), Err(IpcError::Squatted { .. })));
        assert_eq!(fs::read_to_string(&target).unwrap(), "keep");
        assert_eq!(fs::read_to_string(&path).unwrap(), "keep");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_too_deep_for_an_address_is_reached_all_the_same() {
        let top = folder("deep");
        let deep = top.join("x".repeat(90)).join("y".repeat(90));
        fs::create_dir_all(&deep).unwrap();
        let listener = Listener::bind(&deep.join("gqd.sock"), 0o600).unwrap();
        let _client = Conn::connect(&deep.join("gqd.sock")).unwrap();
        listener.accept().unwrap();
        drop(listener);
        fs::remove_dir_all(top).unwrap();
    }
}
