//! Pipes that are read as far as they are filled, without waiting.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io::{self, PipeReader, Read};

/// Bytes that are read at a time.
const SOME: usize = 16 << 10;

/// Makes a pipe whose reading end never waits.
///
/// # Errors
/// When there are no descriptors left.
pub fn patient_pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader, writer))
}

/// Reads what is there, up to a little more than `most` bytes in all; says whether more may come.
///
/// # Errors
/// When the kernel refuses.
pub fn read_available(pipe: &mut PipeReader, said: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut some = [0; SOME];
    while said.len() <= most {
        match pipe.read(&mut some) {
            Ok(0) => return Ok(false),
            Ok(n) => said.extend_from_slice(some.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
