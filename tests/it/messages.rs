//! Messages, notices and the submit hook: programs of the site, which stand-ins are here: scripts that write down what they read.

use crate::lab::{Job, Lab, Owner, Plan, accounts, cards, finish, until};
use gq_model::{End, Token, Uid};
use gq_proto::JobFile;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A folder with a program of the site, and what it writes down.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("gq-site-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a program, and returns its line in the conf.
    fn program(&self, key: &str, script: &str) -> String {
        let path = self.path(key);
        let here = self.0.path().display();
        fs::write(&path, format!("#!/bin/sh\ncd {here} || exit 9\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        format!("{key} = [\"{}\", \"-t\", \"$HOME `id`\"]", path.display())
    }

    /// A program that keeps each message as a file.
    fn mailer(&self) -> String {
        self.program("mail", "cat >.$$ && mv .$$ $$.mail")
    }

    /// The messages so far, oldest first.
    fn mails(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let mails = entries.filter(|path| path.extension().is_some_and(|ending| ending == "mail"));
        let mut mails: Vec<_> =
            mails.map(|path| (fs::metadata(&path).unwrap().modified().unwrap(), path)).collect();
        mails.sort();
        mails.into_iter().map(|(_, path)| fs::read_to_string(path).unwrap()).collect()
    }

    /// Waits for so many messages: their subjects.
    #[track_caller]
    fn subjects(&self, count: usize) -> Vec<String> {
        let mails =
            until(&format!("{count} messages"), || Some(self.mails()).filter(|all| all.len() >= count));
        mails.iter().map(|mail| subject(mail)).collect()
    }

    /// Waits until the lines of a file, each of them JSON, hold this, and returns them.
    #[track_caller]
    fn lines(&self, file: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
        until(what, || {
            let text = fs::read_to_string(self.path(file)).ok()?;
            let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            lines.iter().any(&holds).then_some(lines)
        })
    }
}

fn subject(mail: &str) -> String {
    let (_, rest) = mail.split_once("\nSubject: ").unwrap_or_else(|| panic!("no subject: {mail}"));
    let (subject, _) = rest.split_once("\nDate: ").unwrap();
    subject.replace('\n', "")
}

fn lab(hooks: &[String]) -> Lab {
    Plan::new().node("n1", &cards(1)).tables(&format!("[hooks]\n{}", hooks.join("\n"))).start()
}

fn ask(lab: &Lab, what: &Value) -> Value {
    let text = json!({"v": 1, "ask": what}).to_string();
    let mut stream = UnixStream::connect(lab.dir().join("run/gqd.sock")).unwrap();
    stream.write_all(&(text.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut answer = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut answer).unwrap();
    serde_json::from_slice(&answer).unwrap()
}

/// Submits a request with fields that need no option.
#[track_caller]
fn submit<'a>(lab: &'a Lab, number: u8, fields: Value, script: &str) -> Result<Job<'a>, String> {
    let mut spec = json!({"name": "train", "work_dir": lab.work(""), "umask": 18});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let token = Token([number; 16]);
    let file = JobFile {
        cluster: fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap().trim().parse().unwrap(),
        uid: Uid(nix::unistd::getuid().as_raw()),
        token,
        left: false,
        spec: serde_json::from_value(spec).unwrap(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        args: Vec::new(),
        script: format!("#!/bin/sh\n{script}\n").into_bytes(),
        prep: Vec::new(),
        items: Vec::new(),
    };
    put(&lab.dir().join(format!("spool/drop/.s.{token}")), &file.to_bytes().unwrap());
    let answer = ask(lab, &json!({"Submit": {"token": token}}));
    match &answer["Submitted"]["job"] {
        Value::Null => Err(answer["Refused"]["text"].as_str().unwrap().to_owned()),
        job => Ok(lab.job(&job.to_string())),
    }
}

fn put(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn users_are_told_of_begin_end_failure_and_requeue_as_they_wish() {
    let site = Site::new();
    let lab = lab(&[site.mailer(), "mail_from = \"queue@lab.example\"".into()]);
    let good = submit(&lab, 1, json!({"mail": {"on": ["Fail"], "to": "ben@x.org"}}), "true").unwrap();
    assert_eq!(good.ended(), End::Completed);
    let fields =
        json!({"name": "Größe $(id) `id`", "mail": {"on": ["Begin", "End"], "to": "ann@x.org,ben@x.org"}});
    let named = submit(&lab, 2, fields, "true").unwrap();
    assert_eq!(named.ended(), End::Completed);
    let words = json!({"mail": {"on": ["Begin", "Fail", "Requeue"], "to": "ann@x.org"}});
    let tried =
        submit(&lab, 3, words, "test -e again && exit 3; touch again; exec sleep 600").unwrap().running();
    until("it has come so far", || lab.work("again").exists().then_some(()));
    lab.ctl(&format!("requeue {}", tried.id));
    assert_eq!(tried.ended(), End::Failed);
    let subjects = site.subjects(5);
    let mails = site.mails();
    assert!(
        mails[0].contains("To: ann@x.org, ben@x.org\n") && mails[0].contains("<queue@lab.example>\n"),
        "{}",
        mails[0]
    );
    for (mail, event) in
        [(&mails[0], "started on n1 after "), (&mails[1], "COMPLETED, ran 0:00, exit code 0")]
    {
        assert!(subject(mail).starts_with("=?UTF-8?B?"), "{mail}");
        let (head, text) = mail.split_once("\n\n").unwrap();
        assert!(head.is_ascii() && text.contains("Name:             Größe $(id) `id`\n"), "{mail}");
        assert!(text.starts_with(&format!("Job {} of lab: {event}", named.id)), "{mail}");
    }
    let of = |event: &str| format!("gq job {} (train) of lab: {event}", tried.id);
    assert!(subjects[2].starts_with(&of("started on n1 after ")), "{subjects:?}");
    assert_eq!(
        subjects[3..],
        [of("waits again, after it ended: CANCELLED, Requeued"), of("FAILED, ran 0:00, exit code 3")]
    );
    assert_eq!(mails.len(), 5, "nothing of what went well and was only to be told otherwise");
}

#[test]
fn a_recipient_that_could_be_more_than_one_is_refused_and_so_is_a_name_of_several_lines() {
    let lab = Lab::with_cards(0);
    for (at, to) in ["-oQ/tmp", "a b", "a\nBcc: c", "|/bin/sh", "a,b,c,d,e,f,g,h,i"].into_iter().enumerate() {
        let fields = json!({"mail": {"on": ["End"], "to": to}});
        let words = submit(&lab, at as u8, fields, "true").err().unwrap_or_else(|| panic!("{to:?} is taken"));
        assert!(words.starts_with("--mail-user: "), "{words}");
    }
    let fields = json!({"name": "a\r\nBcc: eve@x.org", "mail": {"on": ["End"]}});
    assert!(submit(&lab, 100, fields, "true").err().unwrap().contains("control characters"));
}

#[test]
fn half_of_a_time_limit_is_told_when_it_is_over() {
    let site = Site::new();
    let lab = lab(&[site.mailer()]);
    let fields = json!({"time_limit": 3, "mail": {"on": ["Half"], "to": "ann"}});
    let job = submit(&lab, 1, fields, "exec sleep 600").unwrap();
    assert_eq!(
        site.subjects(1),
        [format!("gq job {} (train) of lab: 50 % of its time limit are over", job.id)]
    );
    assert_eq!(job.view()["state"], "RUNNING");
}

#[test]
fn a_mail_program_that_hangs_holds_nobody_up_and_is_tried_again() {
    let site = Site::new();
    let slow = site.program("mail", "mkdir once 2>/dev/null && exec sleep 600\ncat >.$$ && mv .$$ $$.mail");
    let lab = lab(&[slow, "mail_time = \"1s\"".into()]);
    let first = submit(&lab, 1, json!({"mail": {"on": ["End"], "to": "ann"}}), "true").unwrap();
    assert_eq!(first.ended(), End::Completed);
    until("the mail program is at it", || site.path("once").exists().then_some(()));
    assert_eq!(lab.submit("", "true").ended(), End::Completed);
    assert_eq!(site.mails().len(), 0, "the job did not wait for the message");
    assert_eq!(
        site.subjects(1),
        [format!("gq job {} (train) of lab: COMPLETED, ran 0:00, exit code 0", first.id)]
    );
    assert!(lab.gqd.said().contains("had not ended after 1 s, and was killed; it is tried again in 1 s"));
    assert!(!lab.ctl("ping").contains("dropped"));
}

#[test]
fn what_no_try_would_send_is_dropped_and_counted() {
    let site = Site::new();
    let lab = lab(&[site.program("mail", "echo no such user >&2; exit 67")]);
    let job = submit(&lab, 1, json!({"mail": {"on": ["End"], "to": "nobody-here"}}), "true").unwrap();
    assert_eq!(job.ended(), End::Completed);
    until("it is counted", || lab.ctl("ping").contains("1 messages and notices were dropped").then_some(()));
    assert!(lab.gqd.said().contains("no such user; it is dropped"));
}

#[test]
fn the_notify_program_hears_of_everything_in_order_and_after_a_restart() {
    let site = Site::new();
    let script = "env | grep -v '^PWD\\|^OLDPWD\\|^SHLVL\\|^_=' | cut -d= -f1 | sort >env; echo \"$2\" >word; ls -l /proc/self/fd >fds; cat >>told";
    let lab = lab(&[site.program("notify", script)]);
    let job = lab.submit("--gpus=1 -J a\"b", "exit 3");
    assert_eq!(job.ended(), End::Failed);
    lab.ctl("drain n1 --reason fan");
    let told = site.lines("told", "the drain is told", |line| line["event"] == "node_drained");
    let of_job: Vec<&Value> = told.iter().filter(|line| line["job"]["id"] == job.id).collect();
    let events: Vec<&str> = of_job.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["submitted", "begin", "end"]);
    let end = of_job[2];
    assert_eq!((&end["v"], &end["cluster"], &end["job"]["name"]), (&json!(1), &json!("lab"), &json!("a\"b")));
    assert_eq!((&end["job"]["state"], &end["job"]["exit_code"]), (&json!("FAILED"), &json!(3)));
    assert_eq!(end["job"]["gpus"], json!([{"node": "n1", "index": 0, "uuid": null, "slice": null}]));
    assert_eq!(end["job"]["stdout"], json!(job.out_path()));
    assert!(end["job"]["end_time"].as_f64().unwrap() >= end["job"]["start_time"].as_f64().unwrap());
    let env = fs::read_to_string(site.path("env")).unwrap();
    assert_eq!(env, "GQ_CLUSTER_NAME\nGQ_CONF\nHOME\nLC_ALL\nPATH\n", "nothing of gqd's own environment");
    assert_eq!(fs::read_to_string(site.path("word")).unwrap(), "$HOME `id`\n", "no shell reads the words");
    let fds = fs::read_to_string(site.path("fds")).unwrap();
    let own = lab.dir().to_str().unwrap();
    assert!(!fds.contains("socket:") && !fds.contains(own), "nothing of gqd's is open: {fds}");
    // A gqd that is stopped tells what it has to tell first.
    lab.ctl("resume n1");
    assert_eq!(lab.gqd.stop(), Some(0));
    assert!(fs::read_to_string(site.path("told")).unwrap().contains("node_resumed"));
    lab.gqd.start();
    let told = site.lines("told", "the node is back", |line| {
        line["event"] == "node_up" && line["id"].as_str().unwrap().starts_with("2-")
    });
    let mut ids: Vec<&str> = told.iter().map(|line| line["id"].as_str().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each has a number of its own");
}

/// A hook that goes by the job's name.
const HOOK: &str = r#"asked=$(cat); printf '%s\n' "$asked" >>asked
case $asked in
*'"name":"bad"'*) printf '%s' '{"refuse": "no bad jobs here"}' ;;
*'"name":"move"'*) echo '{"change": {"partition": "other", "comment": "moved", "time_limit": 60}}' ;;
*'"name":"crash"'*) echo oops >&2; exit 3 ;;
*'"name":"slow"'*) exec sleep 600 ;;
*'"name":"rename"'*) echo '{"change": {"name": "x"}}' ;;
*'"name":"nowhere"'*) echo '{"change": {"partition": "nowhere"}}' ;;
*'"name":"first"'*) echo '{"change": {"nice": -5}}' ;;
esac"#;
const PARTITIONS: &str =
    "[[partition]]\nname = \"main\"\n[[partition]]\nname = \"other\"\nmax_time = \"1h\"\n";

#[test]
fn the_submit_hook_takes_changes_refuses_and_when_it_fails_nothing_is_taken() {
    let site = Site::new();
    let hooks = format!("{PARTITIONS}[hooks]\n{}\nsubmit_time = \"1s\"", site.program("submit", HOOK));
    let lab = Plan::new().node("n1", &cards(1)).tables(&hooks).start();
    assert_eq!(lab.submit("-J good -p main", "echo as it was").output(), "as it was\n");
    let moved = lab.submit("-J move -p main -t 30", "echo in $SLURM_JOB_PARTITION");
    assert_eq!(moved.output(), "in other\n");
    let view = moved.view();
    assert_eq!(
        (&view["partition"], &view["comment"], &view["time_limit"]),
        (&json!("other"), &json!("moved"), &json!(60))
    );
    assert!(lab.gqd.said().contains("is changed: comment, partition, time_limit"));
    let say = |name: &str, code: i32| lab.run("gqsub", &["-J", name, "--wrap", "true"]).refused(code);
    assert!(say("bad", 1).contains("no bad jobs here"));
    assert!(say("nowhere", 1).contains("no such partition"), "what it changed is checked");
    for name in ["crash", "slow", "rename"] {
        let words = say(name, 1);
        assert!(words.contains("submit hook failed") && words.contains("log of gqd"), "{words}");
    }
    for word in ["exit status: 3: oops", "had not ended after 1 s", "may not change \"name\""] {
        assert!(lab.gqd.said().contains(word), "{word}");
    }
    let tested = lab.run("gqsub", &["--test-only", "-J", "bad", "--wrap", "true"]);
    assert!(tested.code == 1 && tested.err.contains("no bad jobs here"), "{tested:?}");
    assert_eq!(lab.list("-t all").len(), 2);
    // Without it, as the conf says from now on.
    let conf = fs::read_to_string(lab.conf()).unwrap();
    fs::write(lab.conf(), conf.replace("submit = [", "submit = []\nnotify = [")).unwrap();
    lab.ctl("reload");
    assert_eq!(lab.submit("-J bad", "true").ended(), End::Completed);
}

#[test]
fn the_submit_hook_knows_who_asks_and_lends_nobody_its_rights() {
    let Some([gq, ann]) = accounts(["daemon", "nobody"]) else { return };
    let site = Site::new();
    let hooks = format!("[hooks]\n{}", site.program("submit", HOOK));
    let lab = Plan::new().node("n1", &cards(1)).tables(&hooks).installed_for(&gq.name).start();
    let gqsub = |user: &Owner, words: &[&str]| finish(lab.client_of(user, "gqsub").args(words));
    let words = gqsub(&ann, &["-J", "first", "--wrap", "true"]).refused(5);
    assert!(words.contains("--nice below 0 is for admins"), "{words}");
    let asked = site.lines("asked", "it was asked", |asked| asked["spec"]["name"] == "first");
    assert_eq!(
        (&asked[0]["v"], &asked[0]["uid"], &asked[0]["admin"]),
        (&json!(1), &json!(ann.uid), &json!(false))
    );
    assert_eq!((&asked[0]["user"], &asked[0]["test_only"]), (&json!(ann.name), &json!(false)));
    assert!(asked[0]["script"].as_str().unwrap().starts_with("#!"), "{}", asked[0]);
    // What was left offline passes it too.
    gqsub(&ann, &["--offline", "-J", "bad", "--wrap", "true"]).ok();
    until("it is set aside", || lab.gqd.said().contains("no bad jobs here; set aside").then_some(()));
    gqsub(&ann, &["--offline", "-J", "good", "--wrap", "true"]).ok();
    until("the good one is taken", || (lab.list("-t all").len() == 1).then_some(()));
}

#[test]
fn the_example_of_a_submit_hook_does_what_it_says() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/examples/submit-hook.py");
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("left out: there is no /usr/bin/python3");
        return;
    }
    let tables = PARTITIONS.replace("other", "short");
    let hooks = format!("{tables}[hooks]\nsubmit = [\"{}\"]\nsubmit_time = \"1m\"", example.display());
    let lab = Plan::new().node("n1", &cards(2)).tables(&hooks).start();
    let words = lab.run("gqsub", &["--gpus=2", "--wrap", "true"]).refused(1);
    assert!(words.contains("jobs of several cards need a time limit: add --time"), "{words}");
    assert_eq!(lab.submit("--gpus=2 -t 20", "true").word("partition"), "short");
    assert_eq!(lab.submit("--gpus=2 -t 40", "true").word("partition"), "main");
}
