//! The life of `gqstep`: one run, from its fence to its result. It outlives `gqnode`, which finds the result in the
//! node's log; it decides nothing that the assignment or `gqnode` does not say.

mod checkpoint;
mod container;
mod errand;
mod fence;
mod hooks;
mod journal;
mod launch;
mod lease;
mod life;
mod limit;
mod outcome;
mod shown;
mod tidying;
mod trouble;
mod variables;

use gq_failpoint::{Step, step};
use gq_host::{
    Account, Around, Becoming, ENV_AROUND, ENV_ASSIGNMENT, ENV_BECOMING, ENV_LEASE, ENV_ROOT, ENV_SPOOL,
    Inbox,
};
use gq_model::{Assignment, MAX_ASSIGNMENT, Reason, RunKey, Seconds, Uid};
use gq_nodelog::{Appender, Record};
use journal::Journal;
use launch::Launch;
// What a lease asks for and when: the simulator of the whole keeps leases by it.
pub use lease::{Due, Lease};
use life::refusal;
use std::{
    ffi::OsString,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
};
use trouble::Trouble;

/// Lives the life of a supervisor.
///
/// `args`: the program's arguments without its name: the run's key, for people who look at `ps`. The assignment, the
/// account and the spool directory come as environment variables, the run's folder (locked) as standard input, the node's log (open for
/// appending) as standard output. See [`gq_host::spawn_supervisor`].
///
/// Exits 0 when the run's result is in the log, whatever it is; 2 when it was not started by `gqnode`.
pub fn main(args: impl Iterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.collect();
    if gq_failpoint::begin("gqstep", &args) {
        return 0;
    }
    let Some(key) = args.first().and_then(|a| a.to_str()?.parse::<RunKey>().ok()) else {
        eprintln!("gqstep: gqnode starts this program, one for each run; to submit a job use gqsub");
        return 2;
    };
    let mut journal = Journal::new(key, Appender::from_fd(gq_host::take_stdout()));
    let stdin = std::io::stdin();
    let folder = stdin.as_fd();
    let mut last =
        supervise(key, folder, &mut journal).unwrap_or_else(|trouble| refusal(key, trouble, gq_host::now()));
    if let Err(e) = step(Step::StepScript, || gq_host::empty_script(folder)) {
        eprintln!("gqstep {key}: its script cannot be emptied: {e}");
    }
    if let Record::Ended { outcome, .. } = &mut last {
        outcome.measured(|used| used.released = Some(gq_host::now()));
    }
    journal.push(last);
    journal.finish();
    0
}

/// From the first act to the last record.
fn supervise(key: RunKey, folder: BorrowedFd<'_>, journal: &mut Journal) -> Result<Record, Trouble> {
    let taken = gq_host::boot_clock().map_err(Trouble::kernel("the boot clock"))?;
    gq_host::settle().map_err(Trouble::kernel("becoming a supervisor"))?;
    let mut inbox = Inbox::open().map_err(Trouble::kernel("a signalfd"))?;
    let pid = std::process::id();
    let pid_start =
        gq_host::process_start(pid).ok_or_else(|| Trouble::site("/proc does not show this process"))?;
    journal.push(Record::Up { key, pid, pid_start });
    if journal.flush().is_some() {
        // Without its first record this run could be started a second time by a gqnode that never heard of it.
        return Err(Trouble::site("the node's log cannot be written"));
    }
    let assignment = assignment(key)?;
    let Becoming { account: found, oom_protected, cluster } = becoming()?;
    let account = account(&assignment, found)?;
    let spool = std::env::var_os(ENV_SPOOL)
        .map(PathBuf::from)
        .ok_or_else(|| Trouble::site(format!("started without {ENV_SPOOL}")))?;
    let site = around()?;
    let lease = lease(&assignment)?;
    let group = site.ground.group(key);
    let launch = Launch {
        assignment: &assignment,
        account: &account,
        group: &group,
        processes: site.processes,
        devices: &site.devices,
        private: &site.private,
        no_new_privs: site.no_new_privs,
        oom_protected,
        spool: &spool,
        cluster,
        folder,
        supervisor: pid,
        taken,
        container: site.container.as_ref(),
    };
    Ok(hooks::around(&launch, &site, lease, &mut inbox, journal))
}

fn assignment(key: RunKey) -> Result<Assignment, Trouble> {
    let text = std::env::var(ENV_ASSIGNMENT)
        .map_err(|e| Trouble::site(format!("started without an assignment: {e}")))?;
    if text.len() > MAX_ASSIGNMENT {
        return Err(Trouble::site(format!("an assignment of {} bytes", text.len())));
    }
    let assignment: Assignment = serde_json::from_str(&text)
        .map_err(|e| Trouble::site(format!("an assignment that cannot be read: {e}")))?;
    if assignment.key == key {
        Ok(assignment)
    } else {
        Err(Trouble::site(format!("the assignment of another run, {}", assignment.key)))
    }
}

fn becoming() -> Result<Becoming, Trouble> {
    let text = std::env::var(ENV_BECOMING)
        .map_err(|e| Trouble::site(format!("started without {ENV_BECOMING}: {e}")))?;
    serde_json::from_str(&text).map_err(|e| Trouble::site(format!("{ENV_BECOMING} that cannot be read: {e}")))
}

/// Until when the run may live without a further word.
fn lease(assignment: &Assignment) -> Result<Option<Lease>, Trouble> {
    let Some(span) = assignment.lease else { return Ok(None) };
    let text = std::env::var(ENV_LEASE)
        .map_err(|e| Trouble::site(format!("started without {ENV_LEASE}, though it has a lease: {e}")))?;
    let until =
        text.parse().map_err(|_| Trouble::site(format!("{ENV_LEASE} that is no number: {text:?}")))?;
    Ok(Some(Lease::new(span, Seconds(until), assignment.kill_wait)))
}

/// What the site does around the run.
fn around() -> Result<Around, Trouble> {
    let Some(text) = std::env::var_os(ENV_AROUND) else { return Ok(Around::default()) };
    let text = text.to_string_lossy();
    serde_json::from_str(&text).map_err(|e| Trouble::site(format!("{ENV_AROUND} that cannot be read: {e}")))
}

/// Whose process the script is to be; `found` is what `gqnode` found under the assignment's uid. Nothing is looked up
/// here: that would cost every run more than all else a supervisor does. The last of three refusals of jobs of root; the others are at admission and in
/// the node.
fn account(assignment: &Assignment, found: Option<Account>) -> Result<Account, Trouble> {
    let (own, uid) = (gq_host::own_uid(), assignment.uid);
    let serves_root = own == Uid(0) && std::env::var_os(ENV_ROOT).is_some_and(|v| v == "1");
    if uid == Uid(0) && !serves_root {
        return Err(Trouble::user(Reason::LaunchFailure, "jobs of root are refused"));
    }
    if own != Uid(0) && own != uid {
        return Err(Trouble::site(format!("this node runs jobs of uid {own} only, not of uid {uid}")));
    }
    match found {
        Some(account) if account.uid != uid => {
            Err(Trouble::site(format!("the account of uid {}, not of {uid}", account.uid)))
        }
        // Who had a name has it still: the number may have been given to somebody else since.
        Some(account) if own != uid && is_another(assignment, &account) => Err(Trouble::user(
            Reason::UserGone,
            format!(
                "uid {uid} was {} when the job was submitted, and is {} on {}",
                assignment.user, account.name, assignment.node
            ),
        )),
        Some(account) => Ok(account),
        None if own == uid => Ok(Account::nameless(uid)),
        None => {
            Err(Trouble::user(Reason::UserGone, format!("uid {uid} has no account on {}", assignment.node)))
        }
    }
}

/// Whether an account has another name than the job's user had; who had none then was told by his number.
fn is_another(assignment: &Assignment, account: &Account) -> bool {
    let then = &assignment.user;
    !then.is_empty() && *then != assignment.uid.to_string() && *then != account.name
}
