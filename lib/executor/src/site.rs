//! The start: conf, name, boot, folders, log. What a life of `gqnode` stands on; it decides nothing later.

use crate::{
    ballast::Ballast,
    border,
    folders::{FolderError, make_safe},
    life::Life,
    link::Parties,
    runs::Runs,
};
use clap::ArgMatches;
use crossbeam_channel::Receiver;
use gq_conf::{ConfErrors, Config};
use gq_daemon::Signal;
use gq_failpoint::{Step, step};
use gq_host::{Around, ContainerCommand, Ground, HookFolder, Survivor};
use gq_model::{BootId, Epoch, IdError, MiB, NodeId, NodeName, RunKey, Seq, Uid};
use gq_nodecore::{Identity, Machine, Node, Serves};
use gq_nodelog::{Log, LogError, Record, Taken};
use gq_spool::{SpoolError, read_cluster_id};
use nix::unistd;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use thiserror::Error;

/// How often a spool without a cluster's id is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long, and how often, it is tried to lock the log.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Why `gqnode` does not start, or ends.
#[derive(Debug, Error)]
pub enum StartError {
    /// The conf has mistakes.
    #[error("{0}")]
    Conf(#[from] ConfErrors),
    /// The name is not one.
    #[error("{name:?} cannot be this node's name: {source}\n  try: gqnode --name NAME")]
    Name {
        /// What was given or found.
        name: String,
        /// Why not.
        source: IdError,
    },
    /// A folder is not safe.
    #[error("{0}")]
    Folder(#[from] FolderError),
    /// The log cannot be used.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The spool cannot be read.
    #[error("{0}")]
    Spool(#[from] SpoolError),
    /// The supervisor's program is missing.
    #[error("{0}: not found; gqstep must lie beside gqnode")]
    NoStep(PathBuf),
    /// The controller knows a later life of this node.
    #[error(
        "gqd knows life {0} of this node, and this is {1}: an old copy of the node's folder? start again"
    )]
    LaterLife(Epoch, Epoch),
    /// The controller has heard of a life that the log knows nothing of.
    #[error(
        "gqd knows life {0} of this node, and its log none after {1}: it is an old copy, and nothing is known of what ran since; it goes on as another node of this name: start again"
    )]
    OldCopy(Epoch, Epoch),
    /// It may not have what it needs of the system.
    #[error("{0}")]
    Limit(String),
    /// The system refuses something.
    #[error("{0}: {1}")]
    System(&'static str, #[source] io::Error),
}

/// What a life stands on.
#[derive(Debug)]
pub struct Site {
    /// Where the conf is.
    pub conf_file: PathBuf,
    /// The conf as it was read last.
    pub config: Config,
    /// Who speaks to whom.
    pub parties: Parties,
    /// The user that `gqd` runs as.
    pub gqd: Uid,
    /// This boot.
    pub boot: BootId,
    /// Whose jobs are run.
    pub serves: Serves,
    /// The node's folder.
    pub folder: PathBuf,
    /// The program of the supervisors.
    pub gqstep: PathBuf,
    /// Whether this process is protected from being killed when memory runs out, and so its supervisors.
    pub oom_protected: bool,
    /// The folders of which runs see their own; none before [`Self::take_ground`], or when they cannot.
    pub private: Vec<PathBuf>,
    /// Where control groups of runs are made; nowhere before [`Self::take_ground`].
    pub ground: Ground,
    /// So many processes and threads a run may have at once there.
    pub processes: u32,
    /// Where earlier lives of this node made them.
    pub former: Ground,
    /// Whether letters go as files.
    pub files: bool,
    /// Whether lines of the log that are not what was written are given up.
    pub accept_loss: bool,
}

impl Site {
    /// Reads the conf and finds out who this is; waits until the spool says which cluster it belongs to. None when a
    /// signal to stop came first.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn find(options: &ArgMatches, signals: &Receiver<Signal>) -> Result<Option<Self>, StartError> {
        let conf_file = gq_conf::find_conf(options.get_one::<PathBuf>("conf").map(PathBuf::as_path));
        let config = gq_conf::read(&conf_file)?;
        let node = node_name(options.get_one::<String>("name"))?;
        let boot = gq_host::boot_id().map_err(|e| StartError::System("the boot id cannot be read", e))?;
        let me = Uid(unistd::Uid::effective().as_raw());
        if me.0 == 0 {
            // What it says, and what it names, is done as root.
            gq_spool::check_file_way(&conf_file, me)?;
            config
                .cluster
                .nvml_library
                .iter()
                .try_for_each(|library| gq_spool::check_file_way(library, me))?;
        }
        let gqstep = beside_this_program("gqstep")?;
        let personal = me.0 != 0 || config.cluster.user == "root";
        let gqd = if personal { me } else { account_of(&config.cluster.user).unwrap_or(me) };
        let serves = if personal { Serves::Only(me) } else { Serves::Users { gqd } };
        let Some(cluster) = wait_for_cluster(&config.cluster.spool_dir, signals)? else { return Ok(None) };
        // Job files prove whose they are; that they lie where gqd put them, the way to them does.
        gq_spool::check_way(&config.cluster.spool_dir, gqd)?;
        let above = match options.get_one::<PathBuf>("dir") {
            Some(dir) => std::path::absolute(dir)
                .map_err(|e| StartError::System("--dir: the current folder is gone", e))?,
            None => config.cluster.node_dir(personal),
        };
        let folder = make_safe(&above.join(cluster.to_string()).join(node.as_str()))?;
        make_safe(&folder.join("runs"))?;
        let parties = Parties { cluster, node, trusted: vec![Uid(0), me, gqd] };
        let files = options.get_flag("files");
        let accept_loss = options.get_flag("accept-loss");
        let oom_protected = gq_host::is_oom_protected();
        Ok(Some(Self {
            conf_file,
            config,
            parties,
            gqd,
            boot,
            serves,
            folder,
            gqstep,
            oom_protected,
            private: Vec::new(),
            ground: Ground::default(),
            processes: 0,
            former: Ground::default(),
            files,
            accept_loss,
        }))
    }

    /// Opens the log, which keeps a second `gqnode` out, and begins a new life; on a full disk at the ballast's cost.
    ///
    /// # Errors
    /// [`StartError::Log`]; [`StartError::System`] when a log without an identity gets none.
    pub fn begin(&self, ballast: &mut Ballast) -> Result<Begun, StartError> {
        match self.try_to_begin() {
            Err(StartError::Log(e)) if e.is_disk_full() && ballast.drop() => self.try_to_begin(),
            begun => begun,
        }
    }

    fn try_to_begin(&self) -> Result<Begun, StartError> {
        let (mut log, mut records) = self.open_log()?;
        let survivors = self.survivors(&records)?;
        log.append_all(&survivors)?;
        records.extend(survivors);
        let clock = u64::try_from(gq_daemon::now().0 / 1_000).unwrap_or(0);
        let life = Life::after(&records, clock, new_id)?;
        let mut runs = Runs::default();
        for record in &records {
            runs.note(record);
        }
        let (name, boot, serves) = (self.parties.node.clone(), self.boot, self.serves);
        let me = Identity { node: name, id: life.id, boot, epoch: life.epoch, serves };
        let node = Node::restore(me, records.into_iter().map(border::from_disk));
        step(Step::NodeLife, || log.append(&life.record(self.boot, &node)))?;
        step(Step::NodeLifeSync, || log.sync())?;
        Ok(Begun { log, node, runs, life })
    }

    /// Opens the log. A `gqnode` that was killed while it launched a supervisor holds the lock until that supervisor has
    /// come to its own program, a moment later.
    fn open_log(&self) -> Result<(Log, Vec<Record>), LogError> {
        let until = Instant::now() + LOCK_WAIT;
        loop {
            let folder = self.folder.join("log");
            let opened = if self.accept_loss { Log::open_at_a_loss(&folder) } else { Log::open(&folder) };
            match opened {
                Err(LogError::InUse(_)) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                opened => return opened,
            }
        }
    }

    /// What the log should say, and does not, of supervisors that live: it was damaged, or is gone. Their runs go on.
    fn survivors(&self, records: &[Record]) -> Result<Vec<Record>, StartError> {
        let is_told = |record: &&Record| {
            let is_start = matches!(record, Record::Taken { what: Taken::Start(_), .. });
            is_start || matches!(record, Record::Ended { .. } | Record::Refused { .. } | Record::Acked { .. })
        };
        let known: BTreeSet<RunKey> = records.iter().filter(is_told).filter_map(Record::key).collect();
        let numbers = records.iter().filter_map(|record| match record {
            Record::Life { controller, taken, .. } => Some((*controller, *taken)),
            Record::Taken { controller, seq, .. } => Some((*controller, *seq)),
            _ => None,
        });
        let (controller, seq) = numbers.fold((Epoch(0), Seq(0)), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let living = gq_host::survivors(&self.folder.join("runs"))
            .map_err(|e| StartError::System("living supervisors cannot be looked for", e))?;
        let mut found = Vec::new();
        for Survivor { pid, start, assignment } in living {
            let key = assignment.key;
            if !known.contains(&key) {
                log::warn!(
                    "the log knows nothing of run {key}, whose supervisor (process {pid}) lives: it goes on"
                );
                found.push(Record::Taken { seq, controller, what: Taken::Start(Box::new(assignment)) });
                found.push(Record::Up { key, pid, pid_start: start });
            }
        }
        Ok(found)
    }

    /// What the machine has; what the conf declares wins.
    pub fn machine(&self, cards: Vec<gq_model::Card>) -> Machine {
        let declared = self.config.node(&self.parties.node);
        let found = || {
            gq_host::memory().unwrap_or_else(|e| {
                log::error!("the memory of this machine cannot be read: {e}; declare it in the conf");
                MiB(0)
            })
        };
        Machine {
            cpus: declared.and_then(|n| n.cpus).unwrap_or_else(gq_host::cpu_count),
            memory: declared.and_then(|n| n.memory).unwrap_or_else(found),
            cards,
            unbound: self.unbound(),
        }
    }

    /// What the conf says is to be done around each run.
    pub fn around(&self) -> Around {
        let (hooks, container) = (&self.config.node_hooks, self.config.container.as_ref());
        let folder = |dir: &Option<PathBuf>, time| dir.clone().map(|dir| HookFolder { dir, time });
        Around {
            prolog: folder(&hooks.prolog_dir, hooks.prolog_time),
            epilog: folder(&hooks.epilog_dir, hooks.epilog_time),
            container: container.map(|c| ContainerCommand {
                command: c.command.clone(),
                gpus: c.gpus.clone(),
                each_gpu: c.each_gpu.clone(),
                checkpoint: c.checkpoint.clone(),
                env: c.env.clone(),
            }),
            private: self.private.clone(),
            no_new_privs: self.config.fence.no_new_privs,
            ..Around::default()
        }
    }

    /// Says early what would keep every run from starting: folders of hooks that cannot be used.
    pub fn look_at_hooks(&self) {
        let around = self.around();
        for (what, folder) in [("prolog_dir", &around.prolog), ("epilog_dir", &around.epilog)] {
            if let Some(Err(e)) = folder.as_ref().map(|folder| gq_host::hook_programs(&folder.dir)) {
                log::error!("[hooks] {what}: {e}");
            }
        }
    }

    /// What the conf says of the cards.
    pub fn declared(&self) -> crate::cards::Declared {
        let node = self.config.node(&self.parties.node);
        crate::cards::Declared {
            library: self.config.cluster.nvml_library.clone(),
            cards: node.map(|node| node.cards.clone()).unwrap_or_default(),
            parts: node.map_or(0, |node| node.gpu_share),
            set_back: self.config.fence.set_back_cards,
        }
    }
}

/// What a life begins with.
pub struct Begun {
    /// The log.
    pub log: Log,
    /// The mind.
    pub node: Node,
    /// The processes.
    pub runs: Runs,
    /// Which life it is.
    pub life: Life,
}

/// The identity of a node that is new.
///
/// # Errors
/// [`StartError::System`].
pub fn new_id() -> Result<NodeId, StartError> {
    gq_host::random_bytes().map(NodeId).map_err(|e| StartError::System("/dev/urandom", e))
}

fn node_name(given: Option<&String>) -> Result<NodeName, StartError> {
    let name = match given {
        Some(name) => name.clone(),
        None => {
            let host = unistd::gethostname()
                .map_err(|e| StartError::System("the host name cannot be read", e.into()))?;
            let host = host.to_string_lossy();
            host.split('.').next().unwrap_or_default().to_owned()
        }
    };
    name.parse().map_err(|source| StartError::Name { name, source })
}

/// The program `name` beside this one, also when this one was replaced since it was started.
fn beside_this_program(name: &str) -> Result<PathBuf, StartError> {
    let own = std::fs::read_link("/proc/self/exe")
        .map_err(|e| StartError::System("this program's own path cannot be read", e))?;
    let path = own.with_file_name(name);
    if path.is_file() { Ok(path) } else { Err(StartError::NoStep(path)) }
}

fn account_of(name: &str) -> Option<Uid> {
    match unistd::User::from_name(name) {
        Ok(Some(user)) => Some(Uid(user.uid.as_raw())),
        Ok(None) => {
            log::warn!("there is no account {name} here; gqd is believed only when it runs as root");
            None
        }
        Err(e) => {
            log::warn!(
                "the account {name} cannot be looked up: {e}; gqd is believed only when it runs as root"
            );
            None
        }
    }
}

fn wait_for_cluster(
    spool_dir: &Path,
    signals: &Receiver<Signal>,
) -> Result<Option<gq_model::ClusterId>, StartError> {
    let mut said = false;
    loop {
        if let Some(cluster) = read_cluster_id(spool_dir)? {
            return Ok(Some(cluster));
        }
        if !said {
            // The service manager need not wait for gqd.
            gq_daemon::ready();
            log::info!("{}: waiting until gqd --init has made it", spool_dir.join("cluster.uuid").display());
            said = true;
        }
        if signals.recv_timeout(LOOK_AGAIN) == Ok(Signal::Stop) {
            return Ok(None);
        }
    }
}
