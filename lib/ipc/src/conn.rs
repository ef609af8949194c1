//! Connections: frames of a little-endian 32-bit length and that many bytes, and who is on the other side.

use crate::{IpcError, address::Address};
use gq_model::Uid;
use nix::sys::socket::{MsgFlags, getsockopt, sendmsg, sockopt::PeerCredentials};
use std::{
    io::{self, IoSlice, Read},
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

/// Bytes of a frame's head.
const HEAD: usize = 4;

/// Who is on the other side of a connection, as the kernel saw it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub uid: Uid,
    /// The group.
    pub gid: u32,
    /// The process. It may be gone, and its number in other hands: for the log only.
    pub pid: i32,
}

/// A connection. One thread may read from it while another writes to it; two that write (or read) at once would mix
/// their frames.
#[derive(Debug)]
pub struct Conn {
    stream: UnixStream,
}

impl Conn {
    pub(crate) fn of(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// Connects to whoever listens at `path`.
    ///
    /// # Errors
    /// [`IpcError::NotThere`] when nobody listens there, [`IpcError::Io`] when it may not be reached.
    pub fn connect(path: &Path) -> Result<Self, IpcError> {
        let connected = Address::of(path).and_then(|address| UnixStream::connect(address.name()));
        connected.map(Self::of).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                IpcError::NotThere { path: path.to_owned(), source }
            }
            _ => IpcError::io(format!("cannot connect to {}", path.display()), source),
        })
    }

    /// Makes two connections that are the ends of one another.
    ///
    /// # Errors
    /// [`IpcError::Io`] when the system has no more room for sockets.
    pub fn pair() -> Result<(Self, Self), IpcError> {
        let (a, b) = UnixStream::pair().map_err(|e| IpcError::io("cannot make a pair of sockets", e))?;
        Ok((Self::of(a), Self::of(b)))
    }

    /// Says who is on the other side.
    ///
    /// # Errors
    /// [`IpcError::Io`] when the kernel does not tell.
    pub fn peer(&self) -> Result<Peer, IpcError> {
        let seen = getsockopt(&self.stream, PeerCredentials)
            .map_err(|e| IpcError::io("cannot see who is on the other side", e))?;
        Ok(Peer { uid: Uid(seen.uid()), gid: seen.gid(), pid: seen.pid() })
    }

    /// Sends one frame, in one call to the system if the socket has room for it.
    ///
    /// # Errors
    /// [`IpcError::Closed`] when the other side is gone, [`IpcError::Timeout`] when it does not read,
    /// [`IpcError::TooLarge`] when the length does not fit into a frame's head. A frame may have been sent in part.
    pub fn send(&self, payload: &[u8]) -> Result<(), IpcError> {
        let len = u32::try_from(payload.len())
            .map_err(|_| IpcError::TooLarge { len: payload.len(), max: u32::MAX as usize })?;
        let head = len.to_le_bytes();
        let mut sent = 0;
        while sent < HEAD + payload.len() {
            let rest = [
                IoSlice::new(head.get(sent..).unwrap_or_default()),
                IoSlice::new(payload.get(sent.saturating_sub(HEAD)..).unwrap_or_default()),
            ];
            match sendmsg::<()>(self.stream.as_raw_fd(), &rest, &[], MsgFlags::MSG_NOSIGNAL, None) {
                Ok(n) => sent += n,
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(IpcError::sorted("cannot send", e.into())),
            }
        }
        Ok(())
    }

    /// Waits for one frame of at most `max` bytes. `None`: the other side closed the connection between two frames.
    ///
    /// # Errors
    /// [`IpcError::TooLarge`] before anything is kept of a larger frame, [`IpcError::Closed`] when the connection ends
    /// inside a frame, [`IpcError::Timeout`] when none came in time.
    pub fn recv(&self, max: usize) -> Result<Option<Vec<u8>>, IpcError> {
        let mut head = [0; HEAD];
        let mut have = 0;
        while have < HEAD {
            match (&self.stream).read(head.get_mut(have..).unwrap_or_default()) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(IpcError::Closed),
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset && have == 0 => return Ok(None),
                Err(e) => return Err(IpcError::sorted("cannot receive", e)),
            }
        }
        let len = u32::from_le_bytes(head) as usize;
        if len > max {
            return Err(IpcError::TooLarge { len, max });
        }
        let mut payload = Vec::with_capacity(len);
        (&self.stream)
            .take(len as u64)
            .read_to_end(&mut payload)
            .map_err(|e| IpcError::sorted("cannot receive", e))?;
        if payload.len() < len { Err(IpcError::Closed) } else { Ok(Some(payload)) }
    }

    /// Makes another handle of the same connection.
    ///
    /// # Errors
    /// [`IpcError::Io`] when the process has no more file descriptors.
    pub fn try_clone(&self) -> Result<Self, IpcError> {
        self.stream.try_clone().map(Self::of).map_err(|e| IpcError::io("cannot clone a connection", e))
    }

    /// Sets how long one read and one write may wait; none means for ever.
    ///
    /// # Errors
    /// [`IpcError::Io`] when a time is zero.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> Result<(), IpcError> {
        self.stream
            .set_read_timeout(read)
            .and_then(|()| self.stream.set_write_timeout(write))
            .map_err(|e| IpcError::io("cannot set a time limit on a connection", e))
    }

    /// Ends the connection for all its handles, on both sides: whoever waits in it wakes.
    pub fn shutdown(&self) {
        // An error says that it has ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_of_every_size_arrive_as_they_were_sent() {
        let (a, b) = Conn::pair().unwrap();
        let sizes = [0, 1, 3, 4, 5, 4095, 4096, 65_536, 300_000, 3_000_000];
        std::thread::scope(|s| {
            s.spawn(|| {
                for size in sizes {
                    let payload: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
                    a.send(&payload).unwrap();
                }
                a.shutdown();
            });
            for size in sizes {
                let got = b.recv(3_000_000).unwrap().unwrap();
                assert_eq!(got.len(), size);
                assert!(got.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
            }
            assert_eq!(b.recv(10).unwrap(), None);
        });
    }

    #[test]
    fn one_thread_may_read_while_another_writes() {
        let (a, b) = Conn::pair().unwrap();
        std::thread::scope(|s| {
            s.spawn(|| (0..1000u32).for_each(|i| a.send(&i.to_le_bytes()).unwrap()));
            s.spawn(|| (0..1000u32).for_each(|i| b.send(&i.to_be_bytes()).unwrap()));
            s.spawn(|| {
                (0..1000u32).for_each(|i| assert_eq!(b.recv(4).unwrap().unwrap(), i.to_le_bytes()));
            });
            (0..1000u32).for_each(|i| assert_eq!(a.recv(4).unwrap().unwrap(), i.to_be_bytes()));
        });
    }

    #[test]
    fn a_torn_frame_is_an_error_and_a_clean_end_is_none() {
        let whole = [5, 0, 0, 0, 1, 2, 3, 4, 5];
        for cut in 0..=whole.len() {
            let (mut raw, other) = UnixStream::pair().unwrap();
            raw.write_all(&whole[..cut]).unwrap();
            drop(raw);
            let got = Conn::of(other).recv(100);
            match cut {
                0 => assert_eq!(got.unwrap(), None),
                9 => assert_eq!(got.unwrap().unwrap(), [1, 2, 3, 4, 5]),
                _ => assert!(matches!(got, Err(IpcError::Closed)), "cut at {cut}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_frame_above_the_bound_is_refused_by_its_head_alone() {
        let (mut raw, other) = UnixStream::pair().unwrap();
        raw.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let got = Conn::of(other).recv(1 << 20);
        assert!(
            matches!(got, Err(IpcError::TooLarge { len, max }) if len == u32::MAX as usize && max == 1 << 20),
            "{got:?}"
        );
    }

    #[test]
    fn a_silent_side_is_a_timeout_and_a_gone_side_is_closed() {
        let (a, b) = Conn::pair().unwrap();
        a.set_timeouts(Some(Duration::from_millis(20)), Some(Duration::from_millis(20))).unwrap();
        assert!(matches!(a.recv(10), Err(IpcError::Timeout)));
        assert!(matches!(a.send(&vec![0; 8 << 20]), Err(IpcError::Timeout)));
        drop(b);
        assert!(matches!(a.send(b"x"), Err(IpcError::Closed)));
    }

    #[test]
    fn the_other_side_is_whom_the_kernel_says() {
        let (a, _b) = Conn::pair().unwrap();
        let peer = a.peer().unwrap();
        assert_eq!(peer.uid.0, nix::unistd::getuid().as_raw());
        assert_eq!(peer.gid, nix::unistd::getgid().as_raw());
        assert_eq!(peer.pid, std::process::id().cast_signed());
    }
}
