//! A job's environment: what its user chose, without what another job left in it, and with what this job is.

use crate::checkpoint::{Checkpoint, restarts};
use gq_host::{Account, ENV_MARKER, run_marker};
use gq_model::{Assignment, CardUse, MemoryAsk, Stage, Timestamp};
use gq_proto::JobFile;
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Variables that describe one job and are not always set: from another job's environment they would lie.
const OF_ONE_JOB: &[&str] = &[
    "GQ_ACCOUNT",
    "GQ_ARRAY_JOB_ID",
    "GQ_ARRAY_TASK_COUNT",
    "GQ_ARRAY_TASK_ID",
    "GQ_ARRAY_TASK_MAX",
    "GQ_ARRAY_TASK_MIN",
    "GQ_ARRAY_TASK_STEP",
    "GQ_CHECKPOINT_DIR",
    "GQ_CPUS_PER_TASK",
    "GQ_END_REASON",
    "GQ_END_REASON_FILE",
    "GQ_GPU_SHARE_MEM",
    "GQ_ITEM",
    "GQ_NTASKS",
    "GQ_QOS",
    "GQ_INPUT_DIR",
    "GQ_LOG_DIR",
    "GQ_OUTPUT_DIR",
    "GQ_SLICES",
    "GQ_SLICE_PROFILES",
    "GQ_STAGE",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_QOS",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_RESTART_COUNT",
    "SLURM_STEPID",
    "SLURM_UMASK",
    "GPU_DEVICE_ORDINAL",
    "NVIDIA_VISIBLE_DEVICES",
];
/// Families of such variables.
const FAMILIES: &[&str] = &["SLURM_ARRAY_TASK_", "SLURM_STEP_", "SLURM_SRUN_"];
/// What a login shell says of itself.
const OF_THE_SHELL: &[&str] = &["_", "OLDPWD", "SHLVL"];
/// Where programs are looked for when nothing says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a job's environment is made from.
#[derive(Debug)]
pub struct Source<'a> {
    pub assignment: &'a Assignment,
    /// The request, and the environment that its user chose.
    pub job: &'a JobFile,
    pub account: &'a Account,
    /// The environment of a login: `NAME=value`; what was chosen goes before it.
    pub login: &'a [Vec<u8>],
    /// The private folder of the run.
    pub scratch: &'a Path,
    pub checkpoint: Option<&'a Checkpoint>,
    /// Process id of the script.
    pub pid: u32,
    pub now: Timestamp,
}

/// The whole environment of a job: `NAME=value`, each name once.
pub fn environment(source: &Source<'_>) -> Vec<Vec<u8>> {
    let ours = variables(source);
    let chosen = &source.job.env;
    let mut all: Vec<Vec<u8>> = Vec::with_capacity(chosen.len() + source.login.len() + ours.len());
    let mut names: BTreeSet<&[u8]> = BTreeSet::new();
    let is_of_shell = |entry: &[u8]| {
        OF_THE_SHELL
            .iter()
            .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|v| v.starts_with(b"=")))
    };
    for entry in chosen.iter().chain(source.login.iter().filter(|entry| !is_of_shell(entry))) {
        let name = entry.split(|b| *b == b'=').next().unwrap_or_default();
        let known = std::str::from_utf8(name).is_ok_and(|name| {
            ours.contains_key(name)
                || OF_ONE_JOB.contains(&name)
                || FAMILIES.iter().any(|family| name.starts_with(family))
        });
        if !known && entry.len() > name.len() && names.insert(name) {
            all.push(entry.clone());
        }
    }
    let account = source.account;
    let defaults: [(&str, &[u8]); 5] = [
        ("HOME", account.home.as_os_str().as_bytes()),
        ("USER", account.name.as_bytes()),
        ("LOGNAME", account.name.as_bytes()),
        ("SHELL", account.shell.as_os_str().as_bytes()),
        ("PATH", PATH.as_bytes()),
    ];
    let missing = defaults.iter().filter(|(name, _)| !names.contains(name.as_bytes()));
    all.extend(missing.map(|(name, value)| entry(name, value)).collect::<Vec<_>>());
    all.extend(ours.iter().map(|(name, value)| entry(name, value.as_bytes())));
    all.extend(item(source).map(|item| entry("GQ_ITEM", item)));
    all
}

fn entry(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"=", value].concat()
}

/// What this task of the array is for; its bytes are the user's own.
fn item<'a>(source: &Source<'a>) -> Option<&'a [u8]> {
    let (_, task) = source.assignment.array?;
    source.job.items.get(usize::try_from(task.0).ok()?).map(Vec::as_slice)
}

/// What `CUDA_VISIBLE_DEVICES` calls a card or slice: its UUID, the card's index where that is declared.
pub(crate) fn device(card: &CardUse) -> String {
    card.uuid.clone().unwrap_or_else(|| card.index.to_string())
}

/// `CUDA_VISIBLE_DEVICES`: each device once; empty when the job holds none, so that it sees none.
pub(crate) fn visible(cards: &[CardUse]) -> String {
    each_once(cards, device)
}

/// The cards that a job holds, whole or in part.
pub(crate) fn indices(cards: &[CardUse]) -> String {
    each_once(cards, |card| card.index.to_string())
}

/// A comma list in the order of the cards, without what is in it already: slices may lie on one card.
fn each_once(cards: &[CardUse], what: impl Fn(&CardUse) -> String) -> String {
    let mut seen = BTreeSet::new();
    let words: Vec<String> = cards.iter().map(what).filter(|word| seen.insert(word.clone())).collect();
    words.join(",")
}

/// What tells the tasks of a job which slice is whose, where it holds slices: the n-th word is the n-th task's.
fn slices(cards: &[CardUse]) -> Vec<(&'static str, String)> {
    let slices: Vec<&CardUse> = cards.iter().filter(|card| card.slice.is_some()).collect();
    if slices.is_empty() {
        return Vec::new();
    }
    let list = |what: &dyn Fn(&CardUse) -> String| {
        slices.iter().map(|card| what(card)).collect::<Vec<_>>().join(",")
    };
    vec![
        ("GQ_SLICES", list(&device)),
        ("GQ_SLICE_PROFILES", list(&|card| card.slice.clone().unwrap_or_default())),
    ]
}

/// How much memory of its card a job has declared, where it shares one.
fn shared(cards: &[CardUse]) -> Option<(&'static str, String)> {
    let share = cards.iter().find_map(|card| card.share)?;
    Some(("GQ_GPU_SHARE_MEM", share.memory.0.to_string()))
}

fn variables(source: &Source<'_>) -> BTreeMap<&'static str, String> {
    let Source { assignment: a, job: file, account, scratch, pid, now, .. } = source;
    let spec = &file.spec;
    let name = a.name.as_ref().unwrap_or(&spec.name);
    let scratch = scratch.to_string_lossy().into_owned();
    let node = a.node.to_string();
    let job = a.key.job.to_string();
    let tasks = spec.process_count().to_string();
    let mut all = BTreeMap::from([
        (ENV_MARKER, run_marker(a)),
        ("GQ_JOB_ID", job.clone()),
        ("GQ_JOB_NAME", name.clone()),
        ("GQ_RESTARTS", restarts(a).to_string()),
        ("GQ_TMPDIR", scratch.clone()),
        ("GQ_RUN", a.key.run.to_string()),
        ("GQ_CLUSTER_NAME", a.cluster.clone()),
        ("GQ_PARTITION", a.partition.clone()),
        ("GQ_NODELIST", node.clone()),
        ("GQ_CPUS", a.cpus.to_string()),
        ("GQ_MEMORY_MIB", a.memory.0.to_string()),
        ("GQ_GPUS", indices(&a.cards)),
        ("GQ_SUBMIT_DIR", spec.submit_dir.clone()),
        ("GQ_SUBMIT_HOST", spec.submit_host.clone()),
        ("CUDA_VISIBLE_DEVICES", visible(&a.cards)),
        ("PWD", spec.work_dir.clone()),
        ("SLURM_CLUSTER_NAME", a.cluster.clone()),
        ("SLURM_CPUS_ON_NODE", a.cpus.to_string()),
        ("SLURM_GTIDS", "0".into()),
        ("SLURM_JOBID", job.clone()),
        ("SLURM_JOB_CPUS_PER_NODE", a.cpus.to_string()),
        ("SLURM_JOB_GID", account.gid.to_string()),
        ("SLURM_JOB_ID", job),
        ("SLURM_JOB_NAME", name.clone()),
        ("SLURM_JOB_NODELIST", node.clone()),
        ("SLURM_JOB_NUM_NODES", "1".into()),
        ("SLURM_JOB_PARTITION", a.partition.clone()),
        ("SLURM_JOB_START_TIME", seconds(*now)),
        ("SLURM_JOB_UID", a.uid.to_string()),
        ("SLURM_JOB_USER", account.name.clone()),
        ("SLURM_LOCALID", "0".into()),
        ("SLURM_NNODES", "1".into()),
        ("SLURM_NODEID", "0".into()),
        ("SLURM_NODE_ALIASES", "(null)".into()),
        ("SLURM_NODELIST", node.clone()),
        ("SLURM_PRIO_PROCESS", "0".into()),
        ("SLURM_PROCID", "0".into()),
        ("SLURM_SUBMIT_DIR", spec.submit_dir.clone()),
        ("SLURM_SUBMIT_HOST", spec.submit_host.clone()),
        ("SLURM_TASKS_PER_NODE", tasks),
        ("SLURM_TASK_PID", pid.to_string()),
        ("SLURM_TMPDIR", scratch),
        ("SLURMD_NODENAME", node),
    ]);
    all.extend(shared(&a.cards));
    all.extend(of_array(a));
    all.extend(of_stay(source));
    all.extend(when_asked(source));
    all
}

/// What a task is told of its array.
fn of_array(a: &Assignment) -> Vec<(&'static str, String)> {
    let Some((job, task)) = a.array else { return Vec::new() };
    let mut all = vec![
        ("GQ_ARRAY_JOB_ID", job.to_string()),
        ("SLURM_ARRAY_JOB_ID", job.to_string()),
        ("GQ_ARRAY_TASK_ID", task.to_string()),
        ("SLURM_ARRAY_TASK_ID", task.to_string()),
    ];
    if let Some(bounds) = a.bounds {
        all.extend([
            ("GQ_ARRAY_TASK_COUNT", bounds.count.to_string()),
            ("SLURM_ARRAY_TASK_COUNT", bounds.count.to_string()),
            ("GQ_ARRAY_TASK_MIN", bounds.min.to_string()),
            ("SLURM_ARRAY_TASK_MIN", bounds.min.to_string()),
            ("GQ_ARRAY_TASK_MAX", bounds.max.to_string()),
            ("SLURM_ARRAY_TASK_MAX", bounds.max.to_string()),
            ("GQ_ARRAY_TASK_STEP", bounds.step.to_string()),
            ("SLURM_ARRAY_TASK_STEP", bounds.step.to_string()),
        ]);
    }
    all
}

/// What a run is told of the runs before it, and leaves to those after it.
fn of_stay(source: &Source<'_>) -> Vec<(&'static str, String)> {
    let Source { assignment: a, job, checkpoint, .. } = source;
    let mut all = Vec::new();
    if restarts(a) > 0 {
        all.push(("SLURM_RESTART_COUNT", restarts(a).to_string()));
    }
    if !job.prep.is_empty() {
        let stage = match a.stage {
            Stage::Main => "main",
            Stage::Prep => "prep",
        };
        all.push(("GQ_STAGE", stage.to_owned()));
    }
    if let Some(checkpoint) = checkpoint {
        all.push(("GQ_CHECKPOINT_DIR", checkpoint.path().to_owned()));
        all.push(("GQ_END_REASON_FILE", checkpoint.reason_file()));
    }
    all
}

/// What Slurm sets only when it was asked for.
fn when_asked(source: &Source<'_>) -> Vec<(&'static str, String)> {
    let Source { assignment: a, job: file, now, .. } = source;
    let spec = &file.spec;
    let mut all = Vec::new();
    let mut set = |name, value: Option<String>| all.extend(value.map(|value| (name, value)));
    let asked_tasks =
        (spec.ntasks.is_some() || spec.ntasks_per_node.is_some()).then(|| spec.process_count().to_string());
    set("GQ_NTASKS", asked_tasks.clone());
    set("SLURM_NTASKS", asked_tasks.clone());
    set("SLURM_NPROCS", asked_tasks);
    set("SLURM_NTASKS_PER_NODE", spec.ntasks_per_node.map(|n| n.to_string()));
    for name in ["GQ_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"] {
        set(name, spec.cpus_per_task.map(|n| n.to_string()));
    }
    for name in ["GQ_ACCOUNT", "SLURM_JOB_ACCOUNT"] {
        set(name, a.account.clone().or_else(|| spec.account.clone()));
    }
    for name in ["GQ_QOS", "SLURM_JOB_QOS"] {
        set(name, a.qos.clone().or_else(|| spec.qos.clone()));
    }
    set("SLURM_JOB_END_TIME", a.time_limit.map(|limit| seconds(now.after(limit))));
    match spec.memory {
        MemoryAsk::Default => {}
        MemoryAsk::WholeNode => set("SLURM_MEM_PER_NODE", Some(a.memory.0.to_string())),
        MemoryAsk::PerNode(m) => set("SLURM_MEM_PER_NODE", Some(m.0.to_string())),
        MemoryAsk::PerCpu(m) => set("SLURM_MEM_PER_CPU", Some(m.0.to_string())),
        MemoryAsk::PerCard(m) => set("SLURM_MEM_PER_GPU", Some(m.0.to_string())),
    }
    if !a.cards.is_empty() {
        set("SLURM_GPUS_ON_NODE", Some(a.cards.len().to_string()));
        set("SLURM_JOB_GPUS", Some(indices(&a.cards)));
        set("GPU_DEVICE_ORDINAL", Some(indices(&a.cards)));
    }
    for (name, value) in slices(&a.cards) {
        set(name, Some(value));
    }
    set("SLURM_GPUS_PER_NODE", spec.gpus_per_node.map(|n| n.to_string()));
    set("SLURM_GPUS_PER_TASK", spec.gpus_per_task.map(|n| n.to_string()));
    if spec.cards.count > 0 && spec.gpus_per_node.is_none() && spec.gpus_per_task.is_none() {
        set("SLURM_GPUS", Some(spec.cards.count.to_string()));
    }
    all
}

fn seconds(at: Timestamp) -> String {
    at.0.div_euclid(1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{JobId, MiB, RunKey, RunNumber, Seconds, TaskIndex, Uid};

    /// All names that a job may find.
    fn names() -> BTreeSet<String> {
        let spec = serde_json::json!({ "name": "j", "work_dir": "/", "umask": 0 });
        let mut spec: gq_model::JobSpec = serde_json::from_value(spec).unwrap();
        (spec.ntasks, spec.ntasks_per_node, spec.cpus_per_task) = (Some(1), Some(1), Some(1));
        (spec.account, spec.qos) = (Some("physics".into()), Some("long".into()));
        spec.checkpoint = Some(String::new());
        let mut job = JobFile {
            cluster: gq_model::ClusterId([1; 16]),
            uid: Uid(7),
            token: gq_model::Token([2; 16]),
            left: false,
            spec,
            env: vec![],
            args: vec![],
            script: vec![],
            prep: b"#!/bin/sh".to_vec(),
            items: vec![b"item".to_vec()],
        };
        let checkpoint = Checkpoint::from_line(br#"["/c",true]"#);
        let assignment = Assignment {
            key: RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(2) },
            boot: gq_model::BootId([3; 16]),
            node: "ws1".parse().unwrap(),
            uid: Uid(7),
            job_file: String::new(),
            sha256: String::new(),
            partition: "main".into(),
            cluster: "lab".into(),
            cpus: 1,
            memory: MiB(1),
            cards: vec![held(0, None, Some("1g.10gb")), share(1, 1024)],
            time_limit: Some(Seconds(1)),
            kill_wait: Seconds(1),
            array: Some((JobId(1), TaskIndex(0))),
            allow_test_run: false,
            bounds: Some(gq_model::ArrayBounds { count: 1, min: 0, max: 0, step: 1 }),
            stage: Stage::Main,
            restarts: None,
            over_limit: Seconds(0),
            deadline: None,
            signal: None,
            account: None,
            qos: None,
            user: String::new(),
            name: None,
            may_run_again: false,
            node_id: None,
            lease: None,
            idle: None,
        };
        let account = Account::nameless(Uid(7));
        let mut names = BTreeSet::new();
        for memory in [MemoryAsk::PerNode(MiB(1)), MemoryAsk::PerCpu(MiB(1)), MemoryAsk::PerCard(MiB(1))] {
            for per_node in [None, Some(1)] {
                job.spec.memory = memory;
                job.spec.cards.count = 1;
                (job.spec.gpus_per_node, job.spec.gpus_per_task) = (per_node, per_node);
                let source = Source {
                    assignment: &assignment,
                    job: &job,
                    account: &account,
                    login: &[],
                    scratch: Path::new("/t"),
                    checkpoint: checkpoint.as_ref(),
                    pid: 1,
                    now: Timestamp(0),
                };
                names.extend(environment(&source).iter().map(|entry| {
                    String::from_utf8_lossy(entry).split('=').next().unwrap_or_default().to_owned()
                }));
            }
        }
        names
    }

    fn held(index: u32, uuid: Option<&str>, slice: Option<&str>) -> CardUse {
        CardUse { slice: slice.map(Into::into), ..CardUse::whole(index, uuid.map(Into::into)) }
    }

    fn share(index: u32, mib: u64) -> CardUse {
        let share = gq_model::Share { parts: 1, of: 4, memory: MiB(mib) };
        CardUse { share: Some(share), ..held(index, Some("GPU-a"), None) }
    }

    #[test]
    fn a_job_that_shares_a_card_sees_it_and_is_told_what_it_declared() {
        let cards = [share(3, 10_240)];
        assert_eq!((visible(&cards).as_str(), indices(&cards).as_str()), ("GPU-a", "3"));
        assert_eq!(shared(&cards), Some(("GQ_GPU_SHARE_MEM", "10240".to_owned())));
        assert_eq!(shared(&[held(3, Some("GPU-a"), None)]), None);
    }

    #[test]
    fn a_job_sees_its_slices_and_each_task_finds_its_own() {
        let cut = [
            held(1, Some("MIG-a"), Some("1g.10gb")),
            held(1, Some("MIG-b"), Some("2g.20gb")),
            held(3, Some("MIG-c"), Some("1g.10gb")),
        ];
        assert_eq!((visible(&cut).as_str(), indices(&cut).as_str()), ("MIG-a,MIG-b,MIG-c", "1,3"));
        let told = [
            ("GQ_SLICES", "MIG-a,MIG-b,MIG-c".to_owned()),
            ("GQ_SLICE_PROFILES", "1g.10gb,2g.20gb,1g.10gb".to_owned()),
        ];
        assert_eq!(slices(&cut), told);
        // Declared: there is no name but the card's index, and two slices may have the same.
        let declared = [held(0, None, Some("1g.10gb")), held(0, None, Some("1g.10gb"))];
        assert_eq!((visible(&declared).as_str(), indices(&declared).as_str()), ("0", "0"));
        assert_eq!(slices(&declared)[0], ("GQ_SLICES", "0,0".to_owned()));
        // Whole cards.
        let whole = [held(0, Some("GPU-a"), None), held(2, None, None)];
        assert_eq!((visible(&whole).as_str(), indices(&whole).as_str()), ("GPU-a,2", "0,2"));
        assert!(slices(&whole).is_empty() && visible(&[]).is_empty());
    }

    #[test]
    fn the_manual_names_what_a_job_finds_and_nothing_else() {
        let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../man/gq.7");
        let manual = std::fs::read_to_string(manual).unwrap();
        let (_, section) = manual.split_once(".SS Set in the job\n").unwrap();
        let (section, _) = section.split_once(".SH ").unwrap();
        let is_name =
            |word: &&str| word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let words = section.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: BTreeSet<String> = words.filter(is_name).map(str::to_owned).collect();
        assert_eq!(named, names());
    }
}
