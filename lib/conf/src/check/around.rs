//! `[fence]`, `[hooks]` (what nodes do of it) and `[container]`: reads them, and checks that every word in braces is known where it stands.

use crate::{
    around::{Container, Fence, NodeHooks},
    config::Cluster,
    keys::{self, Key},
    mistake::{Notes, Span, nearest},
    section::Section,
    value::Arguments,
};

/// Words that stand for something of a job, within an argument of any list.
const WORDS: &[&str] = &[
    "image",
    "script",
    "work_dir",
    "tmp_dir",
    "input_dir",
    "output_dir",
    "log_dir",
    "user",
    "uid",
    "gid",
    "job",
    "task",
    "cpus",
    "memory_mib",
];
/// Words that are a whole argument of the command, and stand for several.
const SEVERAL: &[&str] = &["gpus", "each_gpu", "checkpoint", "env", "args"];

/// `[fence]`. What a run does not see cannot be what it needs.
pub(crate) fn fence(section: &Section<'_>, cluster: &Cluster, notes: &mut Notes<'_>) -> Fence {
    let private = section.read(&keys::PRIVATE, notes);
    for folder in &private.value {
        for (name, dir) in [
            ("spool_dir", cluster.spool_dir.clone()),
            ("state_dir", cluster.state_dir.clone()),
            ("run_dir", cluster.run_dir.clone()),
            ("node_dir", cluster.node_dir(false)),
        ] {
            if dir.starts_with(folder) {
                let at = private.at.as_ref().unwrap_or(&section.at);
                let words = format!("`{name}` is in {}: no run would see it", folder.display());
                notes.add(at, words, Some(format!("another `{name}`")));
            }
        }
    }
    Fence {
        cgroups: section.get(&keys::CGROUPS, notes),
        processes: section.get(&keys::PROCESSES, notes),
        private: private.value,
        no_new_privs: section.get(&keys::NO_NEW_PRIVS, notes),
        set_back_cards: section.get(&keys::SET_BACK_CARDS, notes),
    }
}

/// The part of `[hooks]` that nodes heed.
pub(crate) fn node_hooks(section: &Section<'_>, notes: &mut Notes<'_>) -> NodeHooks {
    NodeHooks {
        prolog_dir: section.get(&keys::PROLOG_DIR, notes),
        prolog_time: section.get(&keys::PROLOG_TIME, notes),
        epilog_dir: section.get(&keys::EPILOG_DIR, notes),
        epilog_time: section.get(&keys::EPILOG_TIME, notes),
    }
}

/// `[container]`; none when it names no command.
pub(crate) fn container(section: &Section<'_>, notes: &mut Notes<'_>) -> Option<Container> {
    let command = section.read(&keys::CONTAINER_COMMAND, notes);
    known_words(&command.value, WORDS, SEVERAL, notes);
    let mut group = |key: &Key<Arguments>, own: &[&str]| {
        let arguments = section.get(key, notes);
        known_words(&arguments, &[WORDS, own].concat(), &[], notes);
        arguments.into_iter().map(|(argument, _)| argument).collect::<Vec<String>>()
    };
    let container = Container {
        command: command.value.iter().map(|(argument, _)| argument.clone()).collect(),
        gpus: group(&keys::CONTAINER_GPUS, &["devices"]),
        each_gpu: group(&keys::CONTAINER_EACH_GPU, &["device", "index"]),
        checkpoint: group(&keys::CONTAINER_CHECKPOINT, &["checkpoint_dir"]),
        env: group(&keys::CONTAINER_ENV, &["name", "value"]),
    };
    let at = command.at.as_ref().unwrap_or(&section.at);
    if command.value.is_empty() {
        if section.entries.iter().next().is_some() {
            let hint = Some("the templates in conf/container".to_string());
            notes.add_missing(at, "[container] needs a `command`, which is not empty", hint);
        }
        return None;
    }
    is_program(&command.value, notes);
    if !container.command.iter().any(|argument| argument.contains("{script}")) {
        notes.add(at, "`{script}` is nowhere in the command: it would not run the job's script", None);
    }
    Some(container)
}

/// The first argument is the site's program, whatever a user says.
fn is_program(command: &Arguments, notes: &mut Notes<'_>) {
    let Some((program, at)) = command.first() else { return };
    if program.is_empty() || program.contains('{') || (program.contains('/') && !program.starts_with('/')) {
        let words =
            "the command begins with a program: its name, or its absolute path, without words in braces";
        notes.add(at, words, Some("\"apptainer\"".to_string()));
    }
}

/// Notes words in braces that are not known: `within` may stand in an argument, `whole` only as an argument.
fn known_words(arguments: &Arguments, within: &[&str], whole: &[&str], notes: &mut Notes<'_>) {
    for (argument, at) in arguments {
        for word in words_in(argument) {
            if within.contains(&word) || (whole.contains(&word) && argument.len() == word.len() + 2) {
                continue;
            }
            if whole.contains(&word) {
                let text = format!("`{{{word}}}` stands for several arguments: it is one by itself");
                notes.add(at, text, Some(format!("\"{{{word}}}\"")));
            } else {
                unknown_word(word, at, &[within, whole].concat(), notes);
            }
        }
    }
}

fn unknown_word(word: &str, at: &Span, known: &[&str], notes: &mut Notes<'_>) {
    let near = nearest(word, known.iter().copied()).map(|near| format!("`{{{near}}}`"));
    let all = || format!("one of {}", known.join(", "));
    notes.add(at, format!("`{{{word}}}` stands for nothing here"), Some(near.unwrap_or_else(all)));
}

/// The words in braces of an argument; braces around anything but letters and `_` are no such words.
fn words_in(argument: &str) -> impl Iterator<Item = &str> {
    argument.split('{').skip(1).filter_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_word.then_some(word)
    })
}
