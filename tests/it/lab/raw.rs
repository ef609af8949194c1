//! Raw words over the socket, as whoever one is: what no client would say. Knows nothing of what is asked.
#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "becoming a user in one thread has no safe calls"
)]

use super::{Lab, Owner};
use nix::libc;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

/// Does something in a thread that is this user's, for files and sockets alike.
pub fn as_user<T: Send>(user: &Owner, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The calls themselves change one thread; the functions of the C library would change all.
            let (uid, gid) = (user.uid, user.gid);
            let done = unsafe {
                libc::syscall(libc::SYS_setgroups, 0, 0)
                    | libc::syscall(libc::SYS_setresgid, gid, gid, gid)
                    | libc::syscall(libc::SYS_setresuid, uid, uid, uid)
            };
            assert_eq!(done, 0);
            work()
        });
        thread.join().unwrap()
    })
}

/// A connection to `gqd`.
pub fn socket(lab: &Lab) -> UnixStream {
    let stream = UnixStream::connect(lab.dir().join("run/gqd.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends a frame that says it is so long, and waits for nothing.
pub fn say(lab: &Lab, len: u32, bytes: &[u8]) -> UnixStream {
    let mut stream = socket(lab);
    // Who is refused early does not hear all.
    let _ = stream.write_all(&len.to_le_bytes()).and_then(|()| stream.write_all(bytes));
    stream
}

/// As [`say`], with the answer.
pub fn frame(lab: &Lab, len: u32, bytes: &[u8]) -> Option<Value> {
    answer(&mut say(lab, len, bytes))
}

/// The next answer on a connection; none when it was closed.
pub fn answer(stream: &mut UnixStream) -> Option<Value> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut answer = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut answer).ok()?;
    serde_json::from_slice(&answer).ok()
}

/// An ask in words.
pub fn asked(what: &Value) -> String {
    json!({"v": 1, "ask": what}).to_string()
}

/// Asks, and returns the answer; of those that come in parts the first.
#[track_caller]
pub fn ask(lab: &Lab, what: &Value) -> Value {
    let text = asked(what);
    frame(lab, text.len() as u32, text.as_bytes()).unwrap_or_else(|| panic!("no answer to {text}"))
}

/// The kind of a refusal.
pub fn kind(answer: &Value) -> &str {
    answer["Refused"]["kind"].as_str().unwrap_or("taken")
}
