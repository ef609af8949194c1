//! Signals as words in a channel. Never stops the process itself.

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;

/// Most signals that wait to be read.
const MAX_WAITING: usize = 16;

/// What a signal asks of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop, and leave the jobs running.
    Stop,
    /// SIGHUP: read the conf again.
    Reload,
}

/// Starts to catch SIGTERM, SIGINT and SIGHUP; from here on they no longer end the process.
///
/// # Errors
/// When the handlers or the thread that waits for them cannot be had.
pub fn signals() -> io::Result<Receiver<Signal>> {
    let mut caught = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (tell, hear) = bounded(MAX_WAITING);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for number in caught.forever() {
            let gone = if number == SIGHUP {
                // With the channel full, a reload is already waiting: another would say nothing new.
                tell.try_send(Signal::Reload).is_err_and(|e| e.is_disconnected())
            } else {
                tell.send(Signal::Stop).is_err()
            };
            if gone {
                return;
            }
        }
    })?;
    Ok(hear)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal as Number, raise};
    use std::time::Duration;

    #[test]
    fn each_signal_arrives_as_its_word() {
        let hear = signals().unwrap();
        for (number, word) in [
            (Number::SIGHUP, Signal::Reload),
            (Number::SIGTERM, Signal::Stop),
            (Number::SIGINT, Signal::Stop),
        ] {
            raise(number).unwrap();
            assert_eq!(hear.recv_timeout(Duration::from_secs(10)).unwrap(), word);
        }
    }
}
