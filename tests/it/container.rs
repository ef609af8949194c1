//! Scripts in images: what the site's command is made of, what a job finds there, and who is at fault when it cannot be run.

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::{End, Reason, Token, Uid};
use gq_proto::JobFile;
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// Puts a job file for a script in an image into the drop box, and names it to `gqd`.
fn ask(lab: &Lab, number: u8, image: &str, more: &Value, script: &str) -> Value {
    let token = Token([number; 16]);
    let work = lab.dir().join("work");
    let mut spec = json!({"name": "n", "work_dir": work, "umask": 18, "container": image});
    more.as_object().unwrap().iter().for_each(|(name, value)| spec[name] = value.clone());
    let cluster = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    let variable = |text: &str| text.as_bytes().to_vec();
    let file = JobFile {
        cluster: cluster.trim().parse().unwrap(),
        uid: Uid(nix::unistd::getuid().as_raw()),
        token,
        left: false,
        spec: serde_json::from_value(spec).unwrap(),
        env: ["PATH=/usr/bin:/bin", "MINE=a b,c", "LD_LIBRARY_PATH=/host", "BASH_FUNC_f%%=() { :; }"]
            .map(variable)
            .to_vec(),
        args: vec![b"one $(two)".to_vec(), Vec::new()],
        script: format!("#!/bin/sh\n{script}\n").into_bytes(),
        prep: Vec::new(),
        items: Vec::new(),
    };
    let path = lab.dir().join(format!("spool/drop/.s.{token}"));
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    out.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    out.write_all(&file.to_bytes().unwrap()).unwrap();
    let text = json!({"v": 1, "ask": {"Submit": {"token": token}}}).to_string();
    let mut stream = UnixStream::connect(lab.dir().join("run/gqd.sock")).unwrap();
    stream.write_all(&u32::try_from(text.len()).unwrap().to_le_bytes()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut answer = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut answer).unwrap();
    serde_json::from_slice(&answer).unwrap()
}

fn submit<'a>(lab: &'a Lab, number: u8, image: &str, more: &Value, script: &str) -> Job<'a> {
    let answer = ask(lab, number, image, more, script);
    lab.job(&answer["Submitted"]["job"].to_string())
}

/// A runtime that notes how it was called, and runs what stands behind `--`.
fn stand_in(lab: &Lab) -> PathBuf {
    let text = "#!/bin/sh\nfor a; do printf '%s\\n' \"$a\"; done >\"$GQ_LOG_DIR/words\"\n\
                while test \"$1\" != --; do shift; done\nshift\nexec \"$@\"\n";
    let path = lab.file("box", text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A lab whose command is the stand-in with these arguments.
fn lab_with(words: &str) -> Lab {
    let lab = Plan::new().node("n1", &cards(3)).ready();
    let runtime = stand_in(&lab);
    let table = format!("[container]\ncommand = [\"{}\", {words}]\n", runtime.display());
    let more =
        "gpus = [\"--cards={devices}\"]\neach_gpu = [\"/dev/nvidia{index}\"]\nenv = [\"-e\", \"{name}\"]\n";
    let conf = fs::read_to_string(lab.conf()).unwrap();
    fs::write(lab.conf(), format!("{conf}\n{table}{more}")).unwrap();
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").start();
    lab.node_is_there("n1");
    lab
}

#[test]
fn a_script_runs_by_the_sites_command_with_what_is_of_the_job() {
    let lab = lab_with(
        "\"{gpus}\", \"{each_gpu}\", \"--in={image}\", \"{input_dir}\", \"{output_dir}\", \"{log_dir}\", \
         \"{uid}/{job}/{task}/{cpus}/{memory_mib}\", \"{X}\", \"{env}\", \"--\", \"{script}\", \"{args}\"",
    );
    let holds = lab.submit("--gpus=1", "sleep 1000").running();
    let script = "echo \"$1|$2|$#\"; echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES $PATH; pwd; \
                  echo made >$GQ_OUTPUT_DIR/result; echo $LD_LIBRARY_PATH";
    let more = json!({"cards": {"count": 2}, "memory": {"PerNode": 100}});
    let job = submit(&lab, 1, "docker://a b:1", &more, script);
    let work = lab.dir().join("work").display().to_string();
    let out = job.output();
    assert_eq!(out, format!("one $(two)||2\n1,2 1,2 /usr/bin:/bin\n{work}\n/host\n"));
    let own = format!("{work}/gq-{}.d", job.id);
    assert_eq!(fs::read_to_string(format!("{own}/output/result")).unwrap(), "made\n");
    let words = fs::read_to_string(format!("{own}/log/words")).unwrap();
    let words: Vec<&str> = words.lines().collect();
    let uid = nix::unistd::getuid();
    let (output, log, numbers) =
        (format!("{own}/output"), format!("{own}/log"), format!("{uid}/{}/0/1/100", job.id));
    let first = [
        "--cards=1,2",
        "/dev/nvidia1",
        "/dev/nvidia2",
        "--in=docker://a b:1",
        &work,
        &output,
        &log,
        &numbers,
        "{X}",
    ];
    assert_eq!(words[..first.len()], first);
    let (variables, rest) =
        words[first.len()..].split_at(words.iter().position(|w| *w == "--").unwrap() - first.len());
    let names: Vec<&str> = variables.chunks(2).map(|pair| pair[1]).collect();
    assert!(variables.chunks(2).all(|pair| pair[0] == "-e"));
    for name in [
        "MINE",
        "GQ_JOB_ID",
        "SLURM_JOB_ID",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "GQ_OUTPUT_DIR",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(
        !names.iter().any(|name| ["PATH", "HOME", "LD_LIBRARY_PATH"].contains(name) || name.contains('%'))
    );
    assert!(rest[1].ends_with("/script") && rest[2..] == ["one $(two)", ""], "{rest:?}");

    // Without cards there is nothing to say of them, and none is to be seen.
    assert_eq!(lab.say(&format!("gqcancel {}", holds.id)).code, 0);
    let job = submit(&lab, 2, "x", &json!({}), "echo $NVIDIA_VISIBLE_DEVICES \"$CUDA_VISIBLE_DEVICES.\"");
    assert_eq!(job.output(), "void .\n");
    let words = fs::read_to_string(format!("{work}/gq-{}.d/log/words", job.id)).unwrap();
    assert!(words.starts_with("--in=x\n"), "{words}");
}

#[test]
fn paths_that_a_runtime_would_take_for_something_else_are_told() {
    let lab = lab_with("\"--bind={input_dir}:/in:ro\", \"--\", \"{script}\"");
    let odd = lab.work("a:b");
    fs::create_dir(&odd).unwrap();
    let job = submit(&lab, 1, "x", &json!({"work_dir": odd}), "true");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::Container));
    let closed = json!({"work_dir": "/proc", "stdout": "/dev/null"});
    let lab = lab_with("\"{output_dir}\", \"--\", \"{script}\"");
    let job = submit(&lab, 1, "x", &closed, "true");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::Container));
    assert!(lab.node_view("n1").unwrap()["reason"].is_null());
}

#[test]
fn images_are_refused_where_nothing_runs_them_and_a_missing_runtime_is_the_sites_fault() {
    let lab = Lab::with_cards(0);
    let refused = ask(&lab, 1, "x", &json!({}), "true");
    assert_eq!(refused["Refused"]["kind"], "Policy", "{refused}");
    assert!(refused["Refused"]["hint"].as_str().unwrap().contains("[container]"), "{refused}");

    let table = "[container]\ncommand = [\"gq-no-such-runtime\", \"{script}\"]\n";
    let lab = Plan::new().node("n1", &cards(0)).tables(table).start();
    let refused = ask(&lab, 1, "--privileged", &json!({}), "true");
    assert_eq!(refused["Refused"]["kind"], "Usage", "{refused}");
    for number in [2, 3] {
        submit(&lab, number, "x", &json!({}), "true");
    }
    let why = until("the node is drained", || lab.node_view("n1")?["reason"].as_str().map(str::to_owned));
    assert!(why.contains("gq-no-such-runtime") && why.contains("not installed on this node"), "{why}");
}

/// With the template that is handed out, and the real bubblewrap where it may be used.
#[test]
fn a_script_runs_in_a_root_folder_by_bubblewrap() {
    let works = Command::new("bwrap").args(["--ro-bind", "/", "/", "--unshare-pid", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("left out: bubblewrap is not here, or may not be used");
        return;
    }
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/container/bubblewrap.toml");
    let table = fs::read_to_string(template).unwrap();
    let lab = Plan::new().node("n1", &cards(1)).tables(&table).start();
    fs::write(lab.work("data"), "given\n").unwrap();
    let script = "cat data; echo \"$1\"; touch data2 2>/dev/null || echo to read only\n\
                  echo made >$GQ_OUTPUT_DIR/result && echo x >/tmp/thrown && ls /tmp | grep -c thrown\n\
                  test -e /proc/$PPID/exe && echo $GQ_JOB_ID $(ls /proc | grep -c '^[0-9]')";
    let job = submit(&lab, 1, "/", &json!({}), script);
    let out = job.output();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..4], ["given", "one $(two)", "to read only", "1"], "{out}");
    let processes: u32 = lines[4].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(processes < 10, "only its own: {out}");
    let own = lab.work(format!("gq-{}.d", job.id));
    assert_eq!(fs::read_to_string(own.join("output/result")).unwrap(), "made\n");
    assert!(!lab.work("data2").exists() && !Path::new("/tmp/thrown").exists());

    // A cancel reaches what runs inside, and nothing of it is left.
    let job = submit(&lab, 2, "/", &json!({}), "echo up >$GQ_OUTPUT_DIR/up; sleep 1000");
    until("it runs inside", || lab.work(format!("gq-{}.d/output/up", job.id)).exists().then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
    assert_eq!(job.ended(), End::Cancelled);
    until("nothing of it is left", || {
        let words = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        lab.processes().iter().all(|pid| !words(pid).starts_with("bwrap")).then_some(())
    });
}
