//! Connections: frames of a little-endian 32-bit length and that many bytes, and who is on the other side.

use crate::{IpcError, address::Address};
use gq_model::Uid;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, getsockopt, sendmsg, sockopt::PeerCredentials},
};
use std::{
    io::{self, IoSlice, Read},
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

/// Bytes of a frame's head.
const HEAD: usize = 4;
/// Bytes that are made room for at a time: a head alone, which may say anything, costs no more.
const PIECE: usize = 64 << 10;

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
    /// How long a frame may take as a whole, read and written.
    whole: (Option<Duration>, Option<Duration>),
}

impl Conn {
    pub(crate) fn of(stream: UnixStream) -> Self {
        Self { stream, whole: (None, None) }
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
        let until = self.whole.1.map(|time| Instant::now() + time);
        let wait = if until.is_some() { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
        let mut sent = 0;
        while sent < HEAD + payload.len() {
            let rest = [
                IoSlice::new(head.get(sent..).unwrap_or_default()),
                IoSlice::new(payload.get(sent.saturating_sub(HEAD)..).unwrap_or_default()),
            ];
            match (
                sendmsg::<()>(self.stream.as_raw_fd(), &rest, &[], MsgFlags::MSG_NOSIGNAL | wait, None),
                until,
            ) {
                (Ok(n), _) => sent += n,
                (Err(Errno::EINTR), _) => {}
                (Err(Errno::EAGAIN), Some(until)) => self.wait_for(PollFlags::POLLOUT, until)?,
                (Err(e), _) => return Err(IpcError::sorted("cannot send", e.into())),
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
        self.recv_when(max, |_| {})
    }

    /// As [`Conn::recv`]; `admit` is told how long the frame is before there is any room for it, and may wait. The frame has its time anew then.
    ///
    /// # Errors
    /// As [`Conn::recv`].
    pub fn recv_when(&self, max: usize, admit: impl FnOnce(usize)) -> Result<Option<Vec<u8>>, IpcError> {
        let deadline = || self.whole.0.map(|time| Instant::now() + time);
        let mut head = [0; HEAD];
        let (mut have, mut until) = (0, None);
        while have < HEAD {
            match self.read(head.get_mut(have..).unwrap_or_default(), until) {
                Ok(0) | Err(IpcError::Closed) if have == 0 => return Ok(None),
                Ok(0) => return Err(IpcError::Closed),
                Ok(n) => have += n,
                Err(e) => return Err(e),
            }
            until = until.or_else(deadline);
        }
        let len = u32::from_le_bytes(head) as usize;
        if len > max {
            return Err(IpcError::TooLarge { len, max });
        }
        admit(len);
        let until = deadline();
        let mut payload = Vec::new();
        while payload.len() < len {
            let have = payload.len();
            payload.resize(len.min(have + PIECE), 0);
            match self.read(payload.get_mut(have..).unwrap_or_default(), until)? {
                0 => return Err(IpcError::Closed),
                more => payload.truncate(have + more),
            }
        }
        Ok(Some(payload))
    }

    /// Reads what is there, or waits for it as long as one read may; not beyond `until`. 0: the other side closed the connection.
    fn read(&self, room: &mut [u8], until: Option<Instant>) -> Result<usize, IpcError> {
        loop {
            if let Some(until) = until {
                self.wait_for(PollFlags::POLLIN, until)?;
            }
            match (&self.stream).read(room) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|e| IpcError::sorted("cannot receive", e)),
            }
        }
    }

    /// Waits until it can be read or written, or its other side is gone.
    fn wait_for(&self, what: PollFlags, until: Instant) -> Result<(), IpcError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(IpcError::Timeout);
            }
            // Whole milliseconds, rounded up, so that the last part of one is not spent looking again and again.
            let left = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.stream.as_fd(), what)], left) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(IpcError::io("cannot wait for a connection", e)),
            }
        }
    }

    /// Makes another handle of the same connection.
    ///
    /// # Errors
    /// [`IpcError::Io`] when the process has no more file descriptors.
    pub fn try_clone(&self) -> Result<Self, IpcError> {
        let stream = self.stream.try_clone().map_err(|e| IpcError::io("cannot clone a connection", e))?;
        Ok(Self { stream, whole: self.whole })
    }

    /// Sets how long a frame may take as a whole: one that is read, from its first byte on; one that is sent. None means as long as some of it
    /// comes, or goes, in time. It is none for both at first.
    pub fn set_frame_times(&mut self, read: Option<Duration>, write: Option<Duration>) {
        self.whole = (read, write);
    }

    /// Sets how long one read and one write may wait; none means for ever. With a time for whole frames no write waits by itself.
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

    /// Writes without pause, a byte at a time: each comes in time, and all of them never do.
    fn drip(raw: &UnixStream, bytes: &[u8]) {
        for byte in bytes {
            if (&*raw).write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_frame_that_comes_in_drops_has_a_time_as_a_whole() {
        for head in [[0xff, 0xff, 0, 0], [200, 0, 0, 0]] {
            let (raw, other) = UnixStream::pair().unwrap();
            let mut conn = Conn::of(other);
            conn.set_timeouts(Some(Duration::from_secs(20)), None).unwrap();
            conn.set_frame_times(Some(Duration::from_millis(150)), None);
            std::thread::scope(|s| {
                s.spawn(|| drip(&raw, &[&head[..], &[0; 2000]].concat()));
                let begin = Instant::now();
                assert!(matches!(conn.recv(1 << 20), Err(IpcError::Timeout)));
                assert!(begin.elapsed() < Duration::from_secs(5));
                conn.shutdown();
            });
        }
        // Before its first byte a frame has no such time, and one that comes whole is taken.
        let (raw, other) = UnixStream::pair().unwrap();
        let mut conn = Conn::of(other);
        conn.set_frame_times(Some(Duration::from_millis(100)), None);
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                (&raw).write_all(&[1, 0, 0, 0, 7]).unwrap();
            });
            assert_eq!(conn.recv(10).unwrap().unwrap(), [7]);
        });
    }

    #[test]
    fn a_frame_that_is_read_in_drops_has_a_time_as_a_whole() {
        let (raw, other) = UnixStream::pair().unwrap();
        let mut conn = Conn::of(other);
        conn.set_frame_times(None, Some(Duration::from_millis(150)));
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut few = [0; 4096];
                while (&raw).read(&mut few).is_ok_and(|n| n > 0) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let begin = Instant::now();
            assert!(matches!(conn.send(&vec![0; 32 << 20]), Err(IpcError::Timeout)));
            assert!(begin.elapsed() < Duration::from_secs(5));
            conn.shutdown();
        });
    }

    #[test]
    fn files_that_are_sent_along_do_not_stay_open_here() {
        use nix::sys::socket::ControlMessage;
        let (raw, other) = UnixStream::pair().unwrap();
        let conn = Conn::of(other);
        let (sent, seen) = UnixStream::pair().unwrap();
        for n in 0..50u8 {
            let fds = [sent.as_raw_fd(); 8];
            let bytes = [1, 0, 0, 0, n];
            let frame = [IoSlice::new(&bytes)];
            let along = [ControlMessage::ScmRights(&fds)];
            sendmsg::<()>(raw.as_raw_fd(), &frame, &along, MsgFlags::empty(), None).unwrap();
            assert_eq!(conn.recv(4).unwrap().unwrap(), [n]);
        }
        // Whoever holds the last of them would keep this from ending.
        drop(sent);
        seen.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!((&seen).read(&mut [0; 1]).unwrap(), 0);
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
