//! How `gqd` starts: conf, folders, account, lock, state, threads; and how it stops.

use crate::{
    archive::{self, Archive},
    board::{Board, Wall},
    courier::Couriers,
    door::{self, Door},
    filer::Filer,
    forecast::Forecaster,
    gate::Gate,
    guests::{self, Guests},
    hub::{Hub, MAX_WORDS, Word},
    intake::Intake,
    keeper::StoreKeeper,
    links::TurnedAway,
    mail::{self, Mail},
    messages::{Counts, Herald, Setting},
    meters::Meters,
    policy::policy_of,
    post::Post,
    program::Surroundings,
    refusals::Refusals,
    silence::Silence,
    snapshot::Snapshots,
    standing::Standings,
    submit_hook::SubmitHook,
    upkeep::{self, Upkeep},
};
use clap::{Arg, ArgAction, value_parser};
use crossbeam_channel::{Sender, bounded};
use gq_cluster::Serves;
use gq_conf::Config;
use gq_failpoint::{Step, step};
use gq_ipc::Listener;
use gq_model::{ClusterId, Epoch, Uid};
use gq_sched::Planner;
use gq_spool::Spool;
use gq_store::Place;
use nix::unistd::{Gid, User, chown, geteuid, initgroups, setgid, setuid};
use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs,
    io::Read,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize},
    },
    thread,
    time::Instant,
};

/// Where the kernel says whether users may link to files of others.
const PROTECTED_HARDLINKS: &str = "/proc/sys/fs/protected_hardlinks";

/// The options of `gqd`.
pub fn command() -> clap::Command {
    clap::Command::new("gqd")
        .about("The controller of gq: owns the queue")
        .long_about(
            "Runs in the foreground, logs to standard error, tells systemd when it is ready. SIGTERM stops it and leaves jobs \
             running; SIGHUP makes it read the conf again. Started by root it becomes the conf's user; started by that user it \
             serves everybody; started by anybody else it serves that user alone (personal mode).",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .arg(
            Arg::new("conf")
                .long("conf")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The conf file [default: $GQ_CONF, else /etc/gq/gq.conf]"),
        )
        .arg(
            Arg::new("init")
                .long("init")
                .action(ArgAction::SetTrue)
                .help("Make a new, empty queue: the spool, state and run folders, given to the conf's user"),
        )
        .arg(Arg::new("accept-loss").long("accept-loss").action(ArgAction::SetTrue).conflicts_with("init").help(
            "Begin though the state is damaged: what cannot be read of it is made anew from what else is known, or given up, and \
             the log names each; the damaged files are kept in state_dir",
        ))
}

/// What is said of a start beside the conf.
#[derive(Clone, Copy)]
struct How {
    /// The queue is new.
    init: bool,
    /// What cannot be read of a damaged state is given up.
    accept_loss: bool,
}

/// Runs `gqd`; returns its exit code: 0 after a stop, 1 when it cannot go on, 2 for wrong options or a bad conf.
pub fn main(argv: Vec<OsString>) -> u8 {
    if gq_failpoint::begin("gqd", argv.get(1..).unwrap_or_default()) {
        return 0;
    }
    let matches = match command().try_get_matches_from(argv) {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    gq_daemon::init_log("gqd");
    let conf = gq_conf::find_conf(matches.get_one::<PathBuf>("conf").map(PathBuf::as_path));
    let config = match gq_conf::read(&conf) {
        Ok(config) => config,
        Err(errors) => {
            log::error!("the conf has mistakes");
            // To people as it is, a line for each.
            eprintln!("{errors}");
            return 2;
        }
    };
    let how = How { init: matches.get_flag("init"), accept_loss: matches.get_flag("accept-loss") };
    match run(conf, &config, how) {
        Ok(()) => {
            log::info!("stopped; jobs go on");
            0
        }
        Err(why) => {
            log::error!("{why}");
            1
        }
    }
}

fn run(conf: PathBuf, config: &Config, How { init, accept_loss }: How) -> Result<(), String> {
    gq_daemon::raise_nofile(guests::LEAST_FILES)?;
    let serves = become_owner(config, init)?;
    let own = Uid(geteuid().as_raw());
    check_ways(&conf, config, own)?;
    if serves == Serves::Everyone {
        hard_links_are_protected(Path::new(PROTECTED_HARDLINKS))?;
    }
    let place = open_place(config, init)?;
    if accept_loss {
        let words = place.accept_loss().map_err(|e| e.to_string())?;
        words.iter().for_each(|words| log::warn!("--accept-loss: {words}"));
        if words.is_empty() {
            log::info!("--accept-loss: nothing is damaged");
        }
    }
    let store = place.store().map_err(|e| e.to_string())?;
    let spool = open_spool(config, &store)?;
    let cluster = store.load().map_err(|e| format!("{}: {e}", place.database().display()))?;
    upkeep::put_in_order(&spool, &store, &cluster)?;
    let ballast = place.fill_ballast();

    let policy = Arc::new(policy_of(config, serves));
    let mut board = Board::of(&cluster, Arc::clone(&policy), store.cluster_id());
    board.degraded = (!ballast).then(|| "there is no room for the reserve of 64 MiB in state_dir".to_owned());
    let degraded = board.degraded.is_some();
    let wall = Wall::new(board);
    let (tell, words) = bounded(MAX_WORDS);
    let letters = store.letters().map_err(|e| e.to_string())?;
    let (epoch, cluster_id) = (store.epoch(), store.cluster_id());
    log::info!("{}: {} live jobs, life {epoch}", config.cluster.state_dir.display(), cluster.job_count());

    let filer = Filer::start(Arc::clone(&spool)).map_err(|e| format!("no thread: {e}"))?;
    let around = Surroundings::new(&conf, &config.cluster.name);
    let hook = Arc::new(SubmitHook::new(&config.hooks, &around));
    let setting = Setting::new(&config.hooks, &config.cluster.name, &around);
    let herald = Herald::start(&cluster, (wall.clone(), place.database()), epoch, setting)
        .map_err(|e| format!("no thread for messages: {e}"))?;
    let (dropped, farewell) = (herald.counts(), herald.farewell());
    let meters = Arc::new(Meters::new().map_err(|e| format!("no meters: {e}"))?);
    let mut hub = Hub {
        cluster,
        policy,
        planner: Planner::default(),
        looked: [None; 2],
        keeper: StoreKeeper::new(store),
        couriers: Couriers {
            wall: wall.clone(),
            filer,
            post: Post::new(epoch, letters),
            herald,
            clients: HashMap::new(),
            waiters: BTreeMap::new(),
            meters: Arc::clone(&meters),
        },
        hook: Arc::clone(&hook),
        conf,
        words,
        silent: Silence::default(),
        turned_away: TurnedAway::default(),
        degraded,
        last_probe: Instant::now(),
        last_tidying: Instant::now(),
        broken: None,
        deferred: Vec::new(),
        place,
    };
    if let Err(why) = hub.begin() {
        hub.fall_silent();
        return Err(why);
    }
    let intake = Arc::new(Intake::new(Arc::clone(&spool), cluster_id, hook));
    open_up(config, &hub.place, (spool, intake), &wall, &tell, (cluster_id, epoch, own), (dropped, meters))?;
    drop(tell);
    gq_daemon::ready();
    log::info!("ready: answers at {}", config.sock().display());
    let end = hub.run();
    if end.is_err() {
        hub.fall_silent();
        return end;
    }
    drop(hub);
    farewell.wait();
    gq_daemon::stopping();
    end
}

/// Starts every thread but the hub's own.
fn open_up(
    config: &Config,
    place: &Place,
    (spool, intake): (Arc<Spool>, Arc<Intake>),
    wall: &Wall,
    tell: &Sender<Word>,
    (cluster, epoch, own): (ClusterId, Epoch, Uid),
    (dropped, meters): (Arc<Counts>, Arc<Meters>),
) -> Result<(), String> {
    let snapshots = Arc::new(Snapshots::new(tell.clone()));
    let forecaster = Forecaster::start(wall.clone(), tell.clone(), Arc::clone(&snapshots))
        .map_err(|e| format!("no thread for forecasts: {e}"))?;
    let door = Arc::new(Door {
        wall: wall.clone(),
        words: tell.clone(),
        intake: Arc::clone(&intake),
        database: place.database(),
        own,
        next: AtomicU64::new(1),
        readers: Mutex::default(),
        guests: Guests::new(own, gq_daemon::open_files()),
        gate: Gate::default(),
        snapshots,
        standings: Standings::default(),
        forecaster,
        meters,
        greeters: AtomicUsize::new(0),
        refusals: Refusals::default(),
        dropped,
    });
    let mail = Mail {
        spool_dir: config.cluster.spool_dir.clone(),
        cluster,
        epoch,
        writer: own,
        wall: wall.clone(),
        words: tell.clone(),
        // The door counts its links from 1.
        next_link: 1 << 63,
    };
    let upkeep = Upkeep {
        spool,
        intake,
        wall: wall.clone(),
        words: tell.clone(),
        database: place.database(),
        refusals: Refusals::default(),
        keep: config.cluster.job_file_keep,
    };
    let archive = config.cluster.history_keep.map(|keep| Archive {
        database: place.database(),
        wall: wall.clone(),
        words: tell.clone(),
        keep,
    });
    let words = tell.clone();
    start("signals", move || signals(&words))?;
    start("upkeep", move || upkeep::run(&upkeep))?;
    start("mail", move || mail::run(mail))?;
    if let Some(archive) = archive {
        start("archive", move || archive::run(&archive))?;
    }
    door::open(&door, listen(config)?).map_err(|e| format!("no thread for the door: {e}"))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(drop)
        .map_err(|e| format!("no thread for {name}: {e}"))
}

fn signals(tell: &Sender<Word>) {
    let signals = match gq_daemon::signals() {
        Ok(signals) => signals,
        Err(error) => return log::error!("signals are not taken: {error}"),
    };
    for signal in signals {
        let word = match signal {
            gq_daemon::Signal::Stop => Word::Stop,
            gq_daemon::Signal::Reload => Word::Reload,
        };
        if tell.send(word).is_err() {
            return;
        }
    }
}

/// Becomes the conf's user when started by root; with `init` its folders are made first.
fn become_owner(config: &Config, init: bool) -> Result<Serves, String> {
    let me = geteuid();
    let named = User::from_name(&config.cluster.user)
        .map_err(|e| format!("account {:?}: {e}", config.cluster.user))?;
    if !me.is_root() {
        let is_owner = named.is_some_and(|user| user.uid == me);
        if init {
            make_places(config, None)?;
        }
        return Ok(if is_owner { Serves::Everyone } else { Serves::Only(Uid(me.as_raw())) });
    }
    let Some(user) = named else {
        return Err(format!(
            "there is no account {:?} for gqd to become\n  try: useradd --system {}, or [cluster] user = \"root\" for a queue of root's own",
            config.cluster.user, config.cluster.user
        ));
    };
    if user.uid.is_root() {
        if init {
            make_places(config, None)?;
        }
        return Ok(Serves::Only(Uid(0)));
    }
    if init {
        make_places(config, Some((user.uid, user.gid)))?;
    }
    let name = std::ffi::CString::new(user.name.clone()).map_err(|e| e.to_string())?;
    let dropped = initgroups(&name, user.gid).and_then(|()| setgid(user.gid)).and_then(|()| setuid(user.uid));
    dropped.map_err(|e| format!("cannot become {}: {e}", user.name))?;
    if setuid(nix::unistd::Uid::from_raw(0)).is_ok() {
        return Err(format!("became {} and can still become root: refused", user.name));
    }
    Ok(Serves::Everyone)
}

/// Makes the folders and the spool: all that a queue needs before it has a state. The state comes last, so that an init that was cut short is
/// said again.
fn make_places(config: &Config, owner: Option<(nix::unistd::Uid, Gid)>) -> Result<(), String> {
    make_folders(config, owner)?;
    let ids = owner.map(|(uid, gid)| (uid.as_raw(), gid.as_raw()));
    Spool::init(&config.cluster.spool_dir, ids).map_err(|e| e.to_string())
}

/// Makes the state and run folders. A parent that others may write is refused unless it is root's and sticky.
fn make_folders(config: &Config, owner: Option<(nix::unistd::Uid, Gid)>) -> Result<(), String> {
    let me = Uid(geteuid().as_raw());
    for (path, mode) in [
        (&config.cluster.state_dir, 0o700),
        (&config.cluster.run_dir, 0o755),
        (&config.cluster.spool_dir, 0o755),
    ] {
        gq_spool::check_way(path, owner.map_or(me, |(uid, _)| Uid(uid.as_raw())))
            .map_err(|e| e.to_string())?;
        if !path.exists() {
            make_folder(path, mode, owner).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// Makes a folder, which appears under its name when it has its mode and its owner: an init that was cut short is said again.
fn make_folder(path: &Path, mode: u32, owner: Option<(nix::unistd::Uid, Gid)>) -> std::io::Result<()> {
    let mut draft = OsString::from(".");
    draft.push(path.file_name().unwrap_or_default());
    draft.push(".new");
    let draft = path.with_file_name(draft);
    if let Some(above) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    let _ = fs::remove_dir(&draft);
    fs::DirBuilder::new().mode(mode).create(&draft)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode))?;
    if let Some((uid, gid)) = owner {
        chown(&draft, Some(uid), Some(gid))?;
    }
    step(Step::FolderName, || fs::rename(&draft, path))
}

/// Refuses folders, a conf file and programs of the site that somebody else could exchange, whenever they came to be so.
pub(crate) fn check_ways(conf: &Path, config: &Config, owner: Uid) -> Result<(), String> {
    let (cluster, hooks) = (&config.cluster, &config.hooks);
    let folders = [&cluster.state_dir, &cluster.spool_dir, &cluster.run_dir].map(PathBuf::as_path);
    let programs = [&hooks.submit, &hooks.notify, &hooks.mail].map(|words| words.first());
    let programs = programs.into_iter().flatten().map(Path::new);
    let ways = folders.into_iter().try_for_each(|folder| gq_spool::check_way(folder, owner));
    let files =
        || [conf].into_iter().chain(programs).try_for_each(|file| gq_spool::check_file_way(file, owner));
    ways.and_then(|()| files()).map_err(|e| e.to_string())
}

/// Refuses a kernel that lets users give another name to files that are not theirs: whoever does so to an accepted job file keeps it from being run.
fn hard_links_are_protected(switch: &Path) -> Result<(), String> {
    match fs::read_to_string(switch) {
        Ok(value) if value.trim() == "0" => Err(format!(
            "{} is 0: users may make hard links to each other's job files\n  try: sysctl fs.protected_hardlinks=1, and a line of it in /etc/sysctl.d",
            switch.display()
        )),
        // Where nothing is known of it, nlink is looked at all the same.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn open_place(config: &Config, init: bool) -> Result<Place, String> {
    let host = nix::unistd::gethostname().map(|h| h.to_string_lossy().into_owned()).unwrap_or_default();
    let myself = format!("host {host} pid {} since {}", std::process::id(), gq_daemon::now().secs_up());
    let dir = &config.cluster.state_dir;
    let place = if init { Place::init(dir, random_id()?, &myself) } else { Place::open(dir, &myself) };
    place.map_err(|e| e.to_string())
}

fn random_id() -> Result<ClusterId, String> {
    let mut bytes = [0u8; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|e| format!("/dev/urandom: {e}"))?;
    Ok(ClusterId(bytes))
}

fn open_spool(config: &Config, store: &gq_store::Store) -> Result<Arc<Spool>, String> {
    let dir = &config.cluster.spool_dir;
    let spool = Spool::open(dir).map_err(|e| e.to_string())?;
    match spool.cluster_id().map_err(|e| e.to_string())? {
        None => spool.write_cluster_id(store.cluster_id()).map_err(|e| e.to_string())?,
        Some(id) if id == store.cluster_id() => {}
        Some(_) => {
            return Err(format!(
                "{}: the spool belongs to another queue than {}\n  try: another spool_dir, or the state_dir that belongs to it",
                dir.display(),
                config.cluster.state_dir.display()
            ));
        }
    }
    Ok(Arc::new(spool))
}

/// Anybody may connect: who it is, the socket says.
fn listen(config: &Config) -> Result<Listener, String> {
    let dir = &config.cluster.run_dir;
    if !dir.exists() {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(|e| {
            format!("{}: {e}\n  try: gqd --init makes it, or a tmpfiles.d entry at boot", dir.display())
        })?;
    }
    let mode = fs::metadata(dir).map_err(|e| format!("{}: {e}", dir.display()))?.mode();
    if mode & 0o022 != 0 {
        return Err(format!(
            "{}: others may write it (mode {:o})\n  try: chmod 755",
            dir.display(),
            mode & 0o7777
        ));
    }
    Listener::bind(&config.sock(), 0o666).map_err(|e| e.to_string())
}
