//! The link to `gqd`: finds its socket through the conf file, asks, and takes the answers. Knows no command.

use crate::trouble::{REFUSED, Trouble, UNREACHABLE, USAGE};
use gq_conf::Config;
use gq_ipc::{Conn, IpcError, Peer};
use gq_model::Uid;
use gq_proto::{ASK_VERSION, Ask, Asked, MAX_FRAME, MAX_LIST_FRAME, Reply};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a client waits for an answer, unless it is told to wait otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Reads the conf file that `option` (`--conf`), `$GQ_CONF` or the default place names.
///
/// # Errors
/// All mistakes of the file, as they are told (exit code 2).
pub fn conf(option: Option<&Path>) -> Result<Config, Trouble> {
    gq_conf::read(&gq_conf::find_conf(option)).map_err(|e| Trouble::new(USAGE, e.to_string()))
}

/// The option `--conf` of every program.
pub fn conf_option() -> clap::Arg {
    clap::Arg::new("conf")
        .long("conf")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .value_hint(clap::ValueHint::FilePath)
        .global(true)
        .help("Read this conf file instead of $GQ_CONF or /etc/gq/gq.conf")
}

/// Reads what `--conf` said.
pub fn conf_of(words: &clap::ArgMatches) -> Option<&Path> {
    words.get_one::<PathBuf>("conf").map(PathBuf::as_path)
}

/// Whether a process of this user may be `gqd`: root's, the caller's own, or its account's, which the spool belongs to. Accounts are looked
/// up last, since that can take long.
fn may_be_gqd(uid: Uid, conf: &Config) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    uid.0 == 0
        || uid.0 == own
        || std::fs::metadata(&conf.cluster.spool_dir).is_ok_and(|spool| spool.uid() == uid.0)
        || nix::unistd::User::from_name(&conf.cluster.user)
            .is_ok_and(|account| account.is_some_and(|account| account.uid.as_raw() == uid.0))
}

/// A connection to `gqd`.
#[derive(Debug)]
pub struct Link {
    conn: Conn,
    sock: PathBuf,
}

impl Link {
    /// Connects to the `gqd` of the conf file that `option` names; see [`conf`].
    ///
    /// # Errors
    /// Exit code 2 when the conf cannot be read, 3 when nobody answers.
    pub fn open(option: Option<&Path>) -> Result<Self, Trouble> {
        Self::open_to(&conf(option)?)
    }

    /// Connects to the `gqd` of this conf.
    ///
    /// # Errors
    /// Exit code 3 when nobody answers, or somebody who is not `gqd`.
    pub fn open_to(conf: &Config) -> Result<Self, Trouble> {
        let sock = conf.sock();
        let conn = Conn::connect(&sock).map_err(|e| unreachable(&sock, &e))?;
        let Peer { uid, pid, .. } = conn.peer().map_err(|e| unreachable(&sock, &e))?;
        if !may_be_gqd(uid, conf) {
            let (sock, user) = (sock.display(), &conf.cluster.user);
            let text = format!(
                "at {sock} answers process {pid} of uid {uid}, who is not gqd (account {user}): it is told nothing"
            );
            return Err(
                Trouble::new(UNREACHABLE, text).with_hint("have an admin look who put that socket there")
            );
        }
        let link = Self { conn, sock };
        link.wait_for(Some(PATIENCE))?;
        Ok(link)
    }

    /// Sets how long an answer may take; none means for ever. It is [`PATIENCE`] at first.
    ///
    /// # Errors
    /// Exit code 3 when the connection cannot be set so.
    pub fn wait_for(&self, answer: Option<Duration>) -> Result<(), Trouble> {
        self.conn.set_timeouts(answer, Some(PATIENCE)).map_err(|e| unreachable(&self.sock, &e))
    }

    /// Asks, and takes the (first) answer.
    ///
    /// # Errors
    /// The refusal with its own exit code, when it is refused; exit code 3 when no answer comes, 2 when the question is
    /// too long.
    pub fn ask(&self, ask: Ask) -> Result<Reply, Trouble> {
        let question = serde_json::to_vec(&Asked { v: ASK_VERSION, ask })
            .map_err(|e| Trouble::new(REFUSED, format!("cannot write the question: {e}")))?;
        if question.len() > MAX_FRAME {
            return Err(Trouble::usage("too many words for one question").with_hint("ask in several parts"));
        }
        let sent = self.conn.send(&question);
        match self.next() {
            Ok(reply) => Ok(reply),
            // Who refuses a connection says so and closes it, perhaps before the question arrives.
            Err(trouble) => Err(sent.map_or_else(|e| unreachable(&self.sock, &e), |()| trouble)),
        }
        .and_then(|reply| match reply {
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Ok(other),
        })
    }

    /// Takes the next answer to a question that has several.
    ///
    /// # Errors
    /// Exit code 3 when it does not come, or is none of this version.
    pub fn next(&self) -> Result<Reply, Trouble> {
        let frame = self
            .conn
            .recv(MAX_LIST_FRAME)
            .and_then(|frame| frame.ok_or(IpcError::Closed))
            .map_err(|e| unreachable(&self.sock, &e))?;
        serde_json::from_slice(&frame).map_err(|e| {
            Trouble::new(
                UNREACHABLE,
                format!("gqd at {} gives an answer that is not understood: {e}", self.sock.display()),
            )
            .with_hint("use the gqd and the clients of one version")
        })
    }

    /// Asks what is answered in parts, and hands over each; `take` says whether there are more.
    ///
    /// # Errors
    /// As [`Link::ask`] and [`Link::next`], and what `take` says.
    pub fn ask_in_parts(
        &self,
        ask: Ask,
        mut take: impl FnMut(Reply) -> Result<bool, Trouble>,
    ) -> Result<(), Trouble> {
        let mut reply = self.ask(ask)?;
        loop {
            let more = match reply {
                Reply::Refused(refusal) => return Err(refusal.into()),
                part => take(part)?,
            };
            if !more {
                return Ok(());
            }
            reply = self.next()?;
        }
    }

    /// The trouble of an answer of another kind than the question's.
    pub fn astray(&self) -> Trouble {
        Trouble::new(UNREACHABLE, format!("gqd at {} answers another question", self.sock.display()))
            .with_hint("use the gqd and the clients of one version")
    }
}

fn unreachable(sock: &Path, error: &IpcError) -> Trouble {
    let (why, hint) = match error {
        IpcError::NotThere { source, .. } => (
            source.to_string(),
            "start gqd, name its conf file with --conf or $GQ_CONF, or go to the host where it runs",
        ),
        IpcError::Closed => ("it closed the connection".to_owned(), "gqctl ping, and the log of gqd"),
        IpcError::Timeout => (error.to_string(), "gqctl ping, and the log of gqd"),
        IpcError::Squatted { .. } | IpcError::TooLarge { .. } => (error.to_string(), "the log of gqd"),
        IpcError::Io { source, .. } => (source.to_string(), "the permissions of the socket and its folder"),
    };
    Trouble::new(UNREACHABLE, format!("gqd does not answer at {}: {why}", sock.display())).with_hint(hint)
}
