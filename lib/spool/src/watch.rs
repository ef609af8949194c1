//! Nudges: a word in a channel when something may have changed in a folder of this host. Whoever is nudged looks for
//! himself; whoever is not nudged looks all the same, because changes made on other hosts are not seen here.

use crossbeam_channel::{Receiver, Sender, bounded};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::path::Path;

use crate::letters::UNFINISHED;

/// A watched folder; watched until it is dropped.
#[derive(Debug)]
pub struct Watch {
    nudges: Receiver<()>,
    // Keeps the channel open when nothing can be watched, so that a select over it waits instead of spinning.
    _open: Sender<()>,
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// Where nudges arrive; several changes may be one nudge.
    pub fn nudges(&self) -> &Receiver<()> {
        &self.nudges
    }
}

/// Watches a folder for new names that end in one of `endings`, such as `HEAD`.
///
/// What goes wrong is logged: then there are no nudges.
pub fn watch(folder: &Path, endings: &'static [&'static str]) -> Watch {
    let (tell, nudges) = bounded(1);
    let open = tell.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
        Ok(event) => {
            if is_new(&event.kind) && event.paths.iter().any(|path| ends(path, endings)) {
                // Full: a nudge is waiting already.
                let _ = tell.try_send(());
            }
        }
        Err(why) => log::warn!("a watched folder: {why}"),
    })
    .and_then(|mut watcher| watcher.watch(folder, RecursiveMode::NonRecursive).map(|()| watcher));
    let watcher = match watcher {
        Ok(watcher) => Some(watcher),
        Err(why) => {
            log::warn!("{}: not watched, looked at every second only: {why}", folder.display());
            None
        }
    };
    Watch { nudges, _open: open, _watcher: watcher }
}

fn is_new(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other)
}

fn ends(path: &Path, endings: &[&str]) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| !name.starts_with(UNFINISHED) && endings.iter().any(|end| name.ends_with(end)))
}
