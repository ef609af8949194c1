//! What a job sees: its user, its files, its environment, its limits.

use crate::lab::{Lab, uids, wait_dead};
use gq_model::{CardUse, End, JobId, MemoryAsk, MiB, OpenMode, ResourceLimit, RunNumber, TaskIndex, Uid};
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

fn environment(lab: &Lab) -> BTreeMap<Vec<u8>, Vec<u8>> {
    fs::read(lab.work("env"))
        .unwrap()
        .split(|b| *b == 0)
        .filter(|e| !e.is_empty())
        .map(|e| {
            let at = e.iter().position(|b| *b == b'=').unwrap();
            (e[..at].to_vec(), e[at + 1..].to_vec())
        })
        .collect()
}

#[test]
fn a_job_runs_as_its_user_with_its_groups_and_no_way_back() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let out = lab.output(
            "id -u; id -ru; umask; pwd; grep ^Cap /proc/self/status | sort -u; cat /proc/self/oom_score_adj",
        );
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines[..2], [uid.to_string(), uid.to_string()]);
        assert_eq!(lines[2], "0022");
        assert_eq!(lines[3], lab.work("").to_str().unwrap().trim_end_matches('/'));
        if uid != Uid(0) {
            assert!(
                lines.iter().any(|l| l.starts_with("CapEff") && l.ends_with("\t0000000000000000")),
                "{out}"
            );
        }
        let ids = lab.output("id -G");
        let mut expected = std::process::Command::new("id");
        expected.arg("-G");
        // Who is the user already keeps the groups he has.
        if uid != gq_host::own_uid() {
            expected.arg(lab.uid.to_string());
        }
        assert_eq!(ids.as_bytes(), expected.output().unwrap().stdout);
    }
}

#[test]
fn a_job_of_another_user_has_all_the_groups_that_were_found_for_him_and_no_other() {
    let Some(uid) = uids().into_iter().find(|uid| *uid != gq_host::own_uid()) else { return };
    let mut lab = Lab::of(uid);
    lab.account = |account| account.groups.extend([60_001, 60_002]);
    let gid = gq_host::Account::of(uid).unwrap().unwrap().gid;
    assert_eq!(lab.output("id -G").trim(), format!("{gid} 60001 60002"));
    assert_eq!(lab.output("id -g; id -rg"), format!("{gid}\n{gid}\n"));
}

#[test]
fn a_supervisor_asks_no_directory_of_users() {
    if gq_host::own_uid() != Uid(0) {
        // Only root sees what a supervisor has loaded.
        return;
    }
    for uid in uids() {
        let mut lab = Lab::of(uid);
        nix::unistd::mkfifo(&lab.work("gate"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::chown(lab.work("gate"), Some(uid.0), None).unwrap();
        let job = lab.job("read line < gate");
        let supervisor = lab.start(&job);
        let key = job.assignment.key;
        let (pid, _) = lab.up(key);
        lab.started(key);
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(maps.contains("libc.so") && !maps.contains("libnss"), "{maps}");
        fs::write(lab.work("gate"), "go\n").unwrap();
        assert_eq!(lab.ended(key).0.end, End::Completed);
        wait_dead(&supervisor);
    }
}

#[test]
fn a_job_has_three_open_files_and_default_signals_and_a_session() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        assert_eq!(lab.output("exec ls /proc/self/fd").lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
        // Looked at by a program that takes the shell's place: a shell has ways of its own with signals.
        let out = lab.output("exec grep -E '^Sig(Blk|Ign)' /proc/self/status");
        let masks: Vec<_> =
            out.lines().filter_map(|l| u64::from_str_radix(l.split('\t').nth(1)?, 16).ok()).collect();
        // 32 and 33 are the C library's own, which it lets nobody set.
        assert_eq!(masks.iter().map(|m| m & !0x1_8000_0000).collect::<Vec<_>>(), [0, 0], "{out}");
        let out = lab.output("cut -d' ' -f1,5,6 /proc/$$/stat; readlink /proc/$$/fd/0");
        let lines: Vec<_> = out.lines().collect();
        let ids: Vec<_> = lines[0].split(' ').collect();
        assert!(ids[0] == ids[1] && ids[1] == ids[2], "{out}");
        assert_eq!(lines[1], "/dev/null");
    }
}

#[test]
fn the_chosen_environment_arrives_byte_for_byte() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("cat /proc/$$/environ > env");
    let odd: Vec<(&[u8], Vec<u8>)> = vec![
        (b"A", b"1\n\\,\"'$(id);*\t ".to_vec()),
        (b"EMPTY", vec![]),
        (b"BYTES", b"\xff\xfe=x".to_vec()),
        (b"LONG", vec![b'y'; 100_000]),
        (b"BASH_FUNC_f%%", b"() { :; }".to_vec()),
        (b"HOME", b"/my/home".to_vec()),
        (b"GQ_CONF", b"/my/conf".to_vec()),
        (b"SLURM_HINT", b"mine".to_vec()),
    ];
    job.file.env.extend(odd.iter().map(|(name, value)| [*name, b"=", value].concat()));
    for stale in
        ["SLURM_JOB_ID=1", "SLURM_ARRAY_TASK_ID=4", "SLURM_STEP_ID=0", "SLURM_CPUS_PER_TASK=9", "GQ_RUN=8"]
    {
        job.file.env.push(stale.into());
    }
    assert_eq!(lab.run(&job).end, End::Completed);
    let env = environment(&lab);
    for (name, value) in odd {
        assert_eq!(env.get(name), Some(&value), "{}", String::from_utf8_lossy(name));
    }
    let get = |name: &str| env.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned());
    assert_eq!(get("SLURM_JOB_ID").as_deref(), Some("1"));
    for absent in [
        "SLURM_ARRAY_TASK_ID",
        "SLURM_STEP_ID",
        "SLURM_CPUS_PER_TASK",
        "SLURM_UMASK",
        "GQSTEP_ASSIGNMENT",
        "GQSTEP_BECOMING",
        "GQSTEP_SPOOL",
    ] {
        assert_eq!(get(absent), None, "{absent}");
    }
    assert_eq!(get("GQ_RUN").as_deref(), Some("1"));
    assert_eq!(get("CUDA_VISIBLE_DEVICES").as_deref(), Some(""));
    assert!(get("USER").is_some() && get("LOGNAME").is_some() && get("SHELL").is_some());
}

#[test]
fn a_job_knows_what_it_is_and_what_it_holds() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("env -0 > env; [ \"$SLURM_TASK_PID\" = $$ ] && [ \"$1\" = 'a b' ] && echo \"$0\"");
    job.file.args = vec![b"a b".to_vec()];
    job.file.spec.ntasks = Some(2);
    job.file.spec.cpus_per_task = Some(3);
    job.file.spec.memory = MemoryAsk::PerCpu(MiB(70));
    job.file.spec.account = Some("physics".into());
    job.file.spec.gpus_per_node = Some(2);
    job.assignment.key.task = TaskIndex(5);
    job.assignment.key.run = RunNumber(3);
    job.assignment.array = Some((JobId(1), TaskIndex(5)));
    let card = |index, uuid: Option<&str>| CardUse::whole(index, uuid.map(Into::into));
    job.assignment.cards = vec![card(3, Some("GPU-x")), card(5, None)];
    assert_eq!(lab.run(&job).end, End::Completed);
    assert_eq!(lab.read("out").trim(), lab.folder(job.assignment.key).join("script").to_str().unwrap());
    let env = environment(&lab);
    for (name, value) in [
        ("GQ_JOB_ID", "1"),
        ("GQ_ARRAY_JOB_ID", "1"),
        ("GQ_ARRAY_TASK_ID", "5"),
        ("GQ_RUN", "3"),
        ("GQ_NODELIST", "ws1"),
        ("GQ_GPUS", "3,5"),
        ("GQ_JOB_NAME", "a/b"),
        ("CUDA_VISIBLE_DEVICES", "GPU-x,5"),
        ("SLURM_ARRAY_TASK_ID", "5"),
        ("SLURM_RESTART_COUNT", "2"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_NPROCS", "2"),
        ("SLURM_CPUS_PER_TASK", "3"),
        ("SLURM_CPUS_ON_NODE", "2"),
        ("SLURM_MEM_PER_CPU", "70"),
        ("SLURM_JOB_ACCOUNT", "physics"),
        ("SLURM_GPUS_ON_NODE", "2"),
        ("SLURM_GPUS_PER_NODE", "2"),
        ("SLURM_JOB_GPUS", "3,5"),
        ("SLURM_SUBMIT_HOST", "login"),
        ("SLURMD_NODENAME", "ws1"),
    ] {
        assert_eq!(
            env.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v)).as_deref(),
            Some(value),
            "{name}"
        );
    }
}

#[test]
fn output_goes_where_the_pattern_says() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let mut job = lab.job("echo out; echo err >&2");
        job.file.spec.stdout = Some("%x $(id);* é-%j-%N.o".into());
        job.file.spec.stderr = Some("err.%u".into());
        job.file.spec.umask = 0o027;
        assert_eq!(lab.run(&job).end, End::Completed);
        let name = "a_b $(id);* é-1-ws1.o";
        assert_eq!(lab.read(name), "out\n");
        let meta = fs::metadata(lab.work(name)).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (uid.0, 0o640));
        let user = gq_host::Account::of(uid).unwrap().map_or(uid.to_string(), |a| a.name);
        assert_eq!(lab.read(&format!("err.{user}")), "err\n");

        let mut job = lab.job("echo out; echo err >&2");
        job.file.spec.stdout = None;
        assert_eq!(lab.run(&job).end, End::Completed);
        assert_eq!(lab.read("gq-2.out"), "out\nerr\n");
    }
}

#[test]
fn two_names_of_one_file_share_it_and_old_content_goes_or_stays_as_asked() {
    let mut lab = Lab::of(uids()[0]);
    fs::write(lab.work("out"), "a long old content\n").unwrap();
    std::os::unix::fs::chown(lab.work("out"), Some(lab.uid.0), None).unwrap();
    std::os::unix::fs::symlink("out", lab.work("err")).unwrap();
    let mut job = lab.job("echo 1; echo 2 >&2; echo 3");
    job.file.spec.stderr = Some("err".into());
    assert_eq!(lab.run(&job).end, End::Completed);
    assert_eq!(lab.read("out"), "1\n2\n3\n");
    let mut job = lab.job("cat; echo 4");
    job.file.spec.open_mode = OpenMode::Append;
    job.file.spec.stdin = Some("out".into());
    job.file.spec.stdout = Some("copy".into());
    lab.run(&job);
    let mut job = lab.job("echo 5");
    job.file.spec.open_mode = OpenMode::Append;
    job.file.spec.stdout = Some("copy".into());
    lab.run(&job);
    assert_eq!(lab.read("copy"), "1\n2\n3\n4\n5\n");
}

#[test]
fn soft_limits_arrive_and_hard_ones_stay() {
    let mut lab = Lab::of(uids()[0]);
    let limit = |name: &str, soft| ResourceLimit { name: name.into(), soft };
    let mut job = lab.job("ulimit -Sn; ulimit -Sc; ulimit -Hn; ulimit -Ss");
    job.file.spec.limits =
        vec![limit("nofile", Some(77)), limit("core", Some(0)), limit("moon", Some(1)), limit("stack", None)];
    assert_eq!(lab.run(&job).end, End::Completed);
    let (_, hard_files) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let out = lab.read("out");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[..3], ["77", "0", hard_files.to_string().as_str()]);
}
