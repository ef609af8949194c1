//! Handing over: names a stored job file to `gqd` until it is known what became of it.
//!
//! The same token is the same job, however often it is named. So a connection that breaks is no loss: the token is named
//! again. Only when nothing has answered for [`AGAIN`] is the outcome left open.

use crate::{
    link::PATIENCE,
    trouble::{Trouble, UNREACHABLE},
};
use gq_failpoint::{Step, step};
use gq_ipc::{Conn, IpcError};
use gq_model::{JobId, Token};
use gq_proto::{ASK_VERSION, Ask, Asked, MAX_LIST_FRAME, Refusal, Reply};
use gq_spool::DropClient;
use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

/// How long a token is named again after a connection broke.
const AGAIN: Duration = Duration::from_secs(30);
/// Pauses between the tries: they double from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What `gqd` said to a token.
enum Said {
    Job(JobId),
    No(Refusal),
}

/// Why nothing is known.
enum Silence {
    Broken(IpcError),
    Strange(String),
}

/// Names the job file of `token` to `gqd`; removes it when it is refused.
///
/// # Errors
/// The refusal; or exit code 3 with the token, when nothing is known after all tries.
pub(super) fn hand_over(
    sock: &Path,
    conn: Conn,
    drop_box: &DropClient,
    token: Token,
) -> Result<JobId, Trouble> {
    hand_over_within(AGAIN, sock, conn, drop_box, token)
}

pub(super) fn hand_over_within(
    again: Duration,
    sock: &Path,
    conn: Conn,
    drop_box: &DropClient,
    token: Token,
) -> Result<JobId, Trouble> {
    let mut said = ask(&conn, token, PATIENCE);
    let broken = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        let why = match said {
            Ok(Said::Job(job)) => return Ok(job),
            Ok(Said::No(refusal)) => {
                // gqd cleans up what cannot be removed here; the refusal is what matters.
                let _ = drop_box.remove(token);
                return Err(refusal.into());
            }
            Err(Silence::Strange(why)) => return Err(unknown(&why, token)),
            Err(Silence::Broken(error)) => error.to_string(),
        };
        let left = again.saturating_sub(broken.elapsed());
        if left.is_zero() {
            return Err(unknown(&why, token));
        }
        sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES.1);
        said = Conn::connect(sock)
            .map_err(Silence::Broken)
            .and_then(|conn| ask(&conn, token, left.max(PAUSES.1)));
    }
}

fn ask(conn: &Conn, token: Token, patience: Duration) -> Result<Said, Silence> {
    conn.set_timeouts(Some(patience), Some(patience)).map_err(Silence::Broken)?;
    let question = serde_json::to_vec(&Asked { v: ASK_VERSION, ask: Ask::Submit { token } })
        .map_err(|e| Silence::Strange(e.to_string()))?;
    // Who refuses a connection says so and closes it, perhaps before the question arrives: the answer is read anyway.
    let sent = step(Step::DropHandOver, || conn.send(&question));
    let frame = match conn.recv(MAX_LIST_FRAME) {
        Ok(Some(frame)) => frame,
        Ok(None) => return Err(Silence::Broken(sent.err().unwrap_or(IpcError::Closed))),
        Err(error) => return Err(Silence::Broken(sent.err().unwrap_or(error))),
    };
    match serde_json::from_slice(&frame) {
        Ok(Reply::Submitted { job }) => Ok(Said::Job(job)),
        Ok(Reply::Refused(refusal)) => Ok(Said::No(refusal)),
        Ok(_) => Err(Silence::Strange("gqd answers another question".into())),
        Err(error) => Err(Silence::Strange(format!("gqd's answer is not understood: {error}"))),
    }
}

fn unknown(why: &str, token: Token) -> Trouble {
    Trouble::new(UNREACHABLE, format!("outcome unknown: {why}; the submission's token is {token}"))
        .with_hint("gqstat --me, before it is submitted again: gqd may have the job")
}

/// The trouble of a `gqd` that was not there from the first.
pub(super) fn no_gqd(sock: &Path, error: &IpcError) -> Trouble {
    let why = match error {
        IpcError::NotThere { source, .. } | IpcError::Io { source, .. } => source.to_string(),
        IpcError::Squatted { .. } | IpcError::Closed | IpcError::Timeout | IpcError::TooLarge { .. } => {
            error.to_string()
        }
    };
    Trouble::new(
        UNREACHABLE,
        format!("nothing is submitted: gqd does not answer at {}: {why}", sock.display()),
    )
    .with_hint("start gqd; or --offline, to leave the job in the spool for it")
}
