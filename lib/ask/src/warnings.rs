//! Warnings: what is taken though it changes nothing, or is hardly what was meant. Refuses nothing.

use crate::{cards::with_place, said::Wishes, shown};
use gq_model::{JobSpec, OpenMode, tells_tasks_apart};

/// What changes nothing.
pub(crate) fn idle(wishes: &Wishes) -> Vec<String> {
    let idle = [(&wishes.wckey, "there are no workload keys here"), (&wishes.hint, "so it is anyway")];
    let idle = idle.into_iter().filter_map(|(said, why)| {
        said.as_ref().map(|said| format!("{} changes nothing: {why}", with_place(&said.shown, &said.place)))
    });
    idle.collect()
}

/// Output files that all tasks of an array would share. Who writes to a device means to.
pub(crate) fn shared_files(spec: &JobSpec) -> Vec<String> {
    if spec.array.as_ref().is_none_or(|array| array.tasks.len() < 2) {
        return Vec::new();
    }
    let what = match spec.open_mode {
        OpenMode::Truncate => "each of them empties it when it starts",
        OpenMode::Append => "what they write is mixed in it",
    };
    let files = [("--output", &spec.stdout), ("--error", &spec.stderr)].into_iter();
    let files = files.filter_map(|(option, pattern)| pattern.as_deref().map(|pattern| (option, pattern)));
    files
        .filter(|(_, pattern)| !pattern.starts_with("/dev/") && !tells_tasks_apart(pattern))
        .map(|(option, pattern)| {
            let number = if pattern.contains("%j") { "%j is the number of the whole array, " } else { "" };
            let file = shown(pattern);
            format!("{option}={file} is one file for all tasks of the array: {what} ({number}%A_%a tells them apart)")
        })
        .collect()
}
