//! The household of `gqnode`: its event loop and what it hands to whom. It decides nothing that `gq-nodecore` decides,
//! and runs no job itself: that is `gqstep`'s.
//!
//! One thread decides and acts (`household`). Others wait for it: `watcher` for the log and for supervisors, `link` (or
//! `files`) for `gqd`, `broom` for what takes long, `cards` for the driver (and to cut cards), `accounts` for
//! the directory of users. `fitting` says which runs wait for their cards, `health` how those are, `meter` what is used of them, `idle` whether that is nothing.

mod accounts;
mod ballast;
mod begin;
mod border;
mod broom;
mod cards;
mod event;
mod files;
mod fitting;
mod folders;
mod ground;
mod heads;
mod health;
mod household;
mod idle;
mod launch;
mod life;
mod link;
mod meter;
mod runs;
mod sharing;
mod site;
mod spares;
mod trouble;
mod watcher;

// How the node's mind is written and said: the simulator of the whole uses it as it is.
pub use border::{from_disk, from_head, from_order, to_disk, to_letter};
pub use life::Life;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use crossbeam_channel::{Receiver, bounded};
use gq_daemon::Signal;
use household::{Household, Loose, Stop};
use site::{Site, StartError};
use spares::Spares;
use std::{ffi::OsString, path::PathBuf};

/// Exit code when the words or the conf are wrong.
const USAGE: u8 = 2;

/// The options of `gqnode`.
pub fn command() -> Command {
    Command::new("gqnode")
        .about("Runs jobs on this machine as gqd orders, and reports how they end")
        .long_about(
            "Runs on every node, as root, or as an ordinary user for that user alone. It finds the node's cpus, memory \
             and cards, starts a supervisor (gqstep) for every run, and reports to gqd. It runs in the foreground and \
             logs to standard error. SIGTERM stops it and leaves jobs running; the next gqnode takes them over. SIGHUP \
             makes it read the conf again.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .arg(
            Arg::new("conf")
                .long("conf")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The conf file [default: $GQ_CONF, else /etc/gq/gq.conf]"),
        )
        .arg(Arg::new("name").long("name").value_name("NAME").help("This node's name [default: the host name]"))
        .arg(
            Arg::new("files")
                .long("files")
                .action(ArgAction::SetTrue)
                .help("Exchange letters with gqd as files in the spool instead of over its socket"),
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("NODE_DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The folder on this node's own disk [default: node_dir of the conf]"),
        )
        .arg(Arg::new("accept-loss").long("accept-loss").action(ArgAction::SetTrue).help(
            "Begin though the log is damaged: lines that are not what was written are given up and kept aside; runs whose \
             supervisors live are found again",
        ))
}

/// Fewest open files: what a node without runs holds, and some runs.
const LEAST_FILES: usize = 24;

/// Runs `gqnode` with its arguments, the program's name first; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    if gq_failpoint::begin("gqnode", argv.get(1..).unwrap_or_default()) {
        return 0;
    }
    let options = match command().try_get_matches_from(argv) {
        Ok(options) => options,
        Err(e) => {
            // Where nobody reads, nothing can be said.
            let _ = e.print();
            return if e.use_stderr() { USAGE } else { 0 };
        }
    };
    gq_daemon::init_log("gqnode");
    match serve(&options) {
        Ok(()) => 0,
        Err(e) => {
            log::error!("{e}");
            match e {
                StartError::Conf(_) | StartError::Name { .. } => USAGE,
                _ => 1,
            }
        }
    }
}

fn serve(options: &ArgMatches) -> Result<(), StartError> {
    let system = |what| move |e| StartError::System(what, e);
    // Before any thread is started, so that all threads and supervisors inherit it.
    gq_host::block_control_signal().map_err(system("a signal cannot be blocked"))?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    gq_daemon::raise_nofile(LEAST_FILES).map_err(StartError::Limit)?;
    let signals = gq_daemon::signals().map_err(system("signals cannot be caught"))?;
    let Some(site) = Site::find(options, &signals)? else { return Ok(()) };
    live(site, signals)
}

/// One life of the node.
fn live(mut site: Site, signals: Receiver<Signal>) -> Result<(), StartError> {
    let system = |what| move |e| StartError::System(what, e);
    let mut ballast = ballast::Ballast::of(&site.folder);
    let site::Begun { log, mut node, runs, life } = site.begin(&mut ballast)?;
    site.take_ground()?;
    node.expect_epilog(site.around().epilog.is_some());
    log::info!("node {} of cluster {}: life {}", site.parties.node, site.config.cluster.name, life.epoch);
    site.look_at_hooks();
    let (tell, events) = bounded(event::MAX_EVENTS);
    let watcher = watcher::Watcher::start(log.watch()?, tell.clone())
        .map_err(system("supervisors cannot be watched"))?;
    let broom = broom::start(tell.clone()).map_err(system("a thread cannot be started"))?;
    let cards = cards::start(site.declared(), tell.clone()).map_err(system("a thread cannot be started"))?;
    let fitting = fitting::Fitting::asking(cards);
    let accounts = accounts::start(tell.clone()).map_err(system("a thread cannot be started"))?;
    let mut household = Household {
        site,
        node,
        log,
        runs,
        life,
        watcher,
        broom,
        fitting,
        health: health::Health::default(),
        accounts,
        events,
        signals,
        ballast,
        trouble: trouble::Trouble::default(),
        spares: Spares::default(),
        link: None,
        loose: Loose::default(),
    };
    let stop = match household.begin() {
        Ok(()) => {
            let site = &household.site;
            let parties = site.parties.clone();
            let started = if site.files {
                files::start(&site.config.cluster, site.gqd, parties, tell)
            } else {
                link::start(site.config.sock(), parties, tell)
            };
            started.map_err(system("a thread cannot be started"))?;
            household.serve()
        }
        Err(stop) => stop,
    };
    gq_daemon::stopping();
    household.site.leave_ground();
    match stop {
        Stop::Asked => {
            log::info!("stopped; jobs go on");
            Ok(())
        }
        Stop::Broken(e) => Err(e),
    }
}
