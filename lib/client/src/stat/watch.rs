//! `gqstat --watch`: nodes with their cards, and jobs, on a terminal that is kept up to date. One thread asks `gqd`, so that keys are heard while an
//! answer is waited for.

mod screen;
#[cfg(test)]
mod tests;
mod view;

use crate::{
    link::Link,
    select::fits,
    trouble::{REFUSED, Trouble},
};
use clap::{Arg, ArgMatches, value_parser};
use gq_model::Uid;
use gq_proto::{Ask, JobView, ListAsk, NodeView, Reply, Selection};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};
use view::{Deed, View};

/// How long keys are waited for before news are looked for.
const TICK: Duration = Duration::from_millis(50);
/// Most jobs that are kept: nobody reads more, and they are asked for again and again.
const MOST_JOBS: usize = 10_000;

/// All that is shown, as it was at one moment.
pub(crate) struct Seen {
    cluster: String,
    degraded: Option<String>,
    nodes: Vec<NodeView>,
    jobs: Vec<JobView>,
    /// Jobs beyond [`MOST_JOBS`].
    more: usize,
}

/// The option `--watch`.
pub(crate) fn option() -> Arg {
    Arg::new("watch")
        .long("watch")
        .value_name("SECONDS")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("2")
        .value_parser(value_parser!(u64).range(1..=3600))
        .conflicts_with_all(["json", "format", "long", "start", "nodes", "partitions", "why", "noheader", "array"])
        .help("Show nodes with their cards, and jobs, and keep that up to date (every 2 seconds); ? shows the keys")
}

/// Shows until its user has seen enough; returns the exit code.
///
/// # Errors
/// When this is no terminal, or it cannot be drawn on.
pub(crate) fn watch(words: &ArgMatches, select: Selection, conf: Option<PathBuf>) -> Result<u8, Trouble> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Trouble::usage("--watch draws on a terminal, and this is none")
            .with_hint("gqstat --json, or gqctl metrics, is for programs"));
    }
    let every = Duration::from_secs(words.get_one::<u64>("watch").copied().unwrap_or(2));
    let failed = |e: io::Error| Trouble::new(REFUSED, format!("the terminal: {e}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    // What can be said in words is said before the terminal is taken.
    let first = look(conf.clone(), &select)?;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let mut view = View::new(Uid(nix::unistd::getuid().as_raw()), every, colour);
    view.take(Ok(first));
    let (tell, news) = channel();
    let (ask, asked) = channel();
    thread::spawn(move || keep_looking(conf, &select, every, &asked, &tell));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = show(&mut terminal, &mut view, &news, &ask, &stop);
    ratatui::try_restore().map_err(failed)?;
    shown.map_err(failed)?;
    Ok(0)
}

fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    news: &Receiver<Result<Seen, String>>,
    ask: &Sender<()>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut changed = true;
    while !stop.load(Ordering::Relaxed) {
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| screen::draw(frame, view))?;
        }
        if event::poll(TICK)? {
            changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match view.key(key) {
                    Deed::Leave => return Ok(()),
                    Deed::Look => drop(ask.send(())),
                    Deed::None => {}
                }
            }
        }
        for seen in news.try_iter() {
            changed = true;
            view.take(seen);
        }
    }
    Ok(())
}

/// Looks again and again, sooner when it is asked to, until nobody listens.
fn keep_looking(
    conf: Option<PathBuf>,
    select: &Selection,
    every: Duration,
    asked: &Receiver<()>,
    tell: &Sender<Result<Seen, String>>,
) {
    while let Ok(()) | Err(RecvTimeoutError::Timeout) = asked.recv_timeout(every) {
        let seen = look(conf.clone(), select).map_err(|trouble| trouble.to_string());
        if tell.send(seen).is_err() {
            return;
        }
    }
}

fn look(conf: Option<PathBuf>, select: &Selection) -> Result<Seen, Trouble> {
    let link = Link::open(conf.as_deref())?;
    let Reply::Pong(cluster) = link.ask(Ask::Ping)? else { return Err(link.astray()) };
    let nodes = super::nodes_of(&link, select)?;
    let words = Selection { jobs: Vec::new(), ..select.clone() };
    let ask = ListAsk { select: select.clone(), starts: true, ..ListAsk::default() };
    let (mut kept, mut count) = (Vec::new(), 0);
    link.ask_in_parts(Ask::List(ask), |part| {
        let Reply::Jobs { jobs, more, .. } = part else { return Err(link.astray()) };
        for job in jobs.into_iter().filter(|job| fits(job, &words)) {
            count += 1;
            if kept.len() < MOST_JOBS {
                kept.push(job);
            }
        }
        Ok(more)
    })?;
    let more = count - kept.len();
    Ok(Seen { cluster: cluster.name, degraded: cluster.degraded, nodes, jobs: kept, more })
}
