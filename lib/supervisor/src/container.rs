//! Running a script in an image: the site's command with what is of the job in place of its words, executed by the job's user instead of
//! the script. No shell, and no runtime of its own.

use crate::{
    launch::Launch,
    trouble::Trouble,
    variables::{device, visible},
};
use gq_host::ContainerCommand;
use gq_model::{CardUse, JobSpec, PatternFields, Reason, output_path};
use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where the site's program is looked for; never where a user says.
const PROGRAMS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Variables that describe the host, and are left out of `{env}`.
const OF_THE_HOST: &[&str] = &["PATH", "HOME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "MANPATH"];
/// Families of such variables.
const FAMILIES: &[&str] = &["LD_", "XDG_"];
/// The folders of a job beside its working directory, below the one of [`OWN_FOLDER`].
const OUTPUT: &str = "output";
const LOG: &str = "log";
/// The one that a job without a folder of its own on the node's disk has for what it throws away.
const TMP: &str = "tmp";
/// A job's own folder in its working directory, outside an array and in one.
const OWN_FOLDER: (&str, &str) = ("gq-%j.d", "gq-%A_%a.d");

/// A script that is to run in an image, and all that it would have got outside of one.
pub struct Contained<'a> {
    pub launch: &'a Launch<'a>,
    pub spec: &'a JobSpec,
    /// The file of the script.
    pub script: &'a Path,
    pub args: &'a [Vec<u8>],
    pub env: Vec<Vec<u8>>,
}

/// Becomes the site's command. Returns only when that fails.
pub fn enter(job: &Contained<'_>) -> Trouble {
    match prepare(job) {
        Ok((program, args, env)) => {
            let error = gq_host::execute_program(&program, &args, &env);
            let words = gq_host::words(&error);
            match error.kind() {
                ErrorKind::ArgumentListTooLong => {
                    let detail = format!("its arguments and environment: {words}");
                    Trouble::user(Reason::Container, detail)
                }
                ErrorKind::WouldBlock => {
                    Trouble::user(Reason::Container, "this user has too many processes on this machine")
                }
                _ => site(format!("{}: {words}; see [container] of the conf", program.display())),
            }
        }
        Err(trouble) => trouble,
    }
}

fn site(detail: String) -> Trouble {
    Trouble::away(Reason::Container, detail)
}

/// What is executed: the program, its arguments, its environment.
type Command = (PathBuf, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn prepare(job: &Contained<'_>) -> Result<Command, Trouble> {
    let nothing = || "this node's conf has no [container]; copy gqd's conf to every node".to_owned();
    let template = job.launch.container.ok_or_else(|| site(nothing()))?;
    let image = job.spec.container.as_deref().unwrap_or_default();
    if image.is_empty() || image.starts_with('-') {
        let detail = "--container: the name of an image is not empty, and begins with no dash";
        return Err(Trouble::user(Reason::Container, detail));
    }
    let (name, rest) = template.command.split_first().ok_or_else(|| site(nothing()))?;
    let program = find(name).ok_or_else(|| {
        site(format!("{name}: the program of [container] command is not installed on this node"))
    })?;
    let folders = Folders::of(job);
    folders.make(template)?;
    let env = environment(job, &folders);
    let args = Expander { job, template, folders: &folders, env: &env, image }.arguments(rest)?;
    Ok((program, args, env))
}

fn find(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    PROGRAMS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// The folders that a job finds in its container, by the same names as outside of it.
struct Folders {
    input: String,
    own: String,
    output: String,
    log: String,
    tmp: String,
    /// Whether that lies in the job's own folder.
    tmp_is_own: bool,
}

impl Folders {
    fn of(job: &Contained<'_>) -> Self {
        let assignment = job.launch.assignment;
        let fields = PatternFields {
            key: assignment.key,
            array: assignment.array,
            name: &job.spec.name,
            user: &job.launch.account.name,
            node: Some(&assignment.node),
        };
        let pattern = if assignment.array.is_some() { OWN_FOLDER.1 } else { OWN_FOLDER.0 };
        let own = output_path(Some(pattern), &job.spec.work_dir, &fields);
        let tmp = value_of(&job.env, "GQ_TMPDIR");
        Self {
            input: job.spec.work_dir.clone(),
            output: format!("{own}/{OUTPUT}"),
            log: format!("{own}/{LOG}"),
            tmp_is_own: tmp.is_none(),
            tmp: tmp.unwrap_or_else(|| format!("{own}/{TMP}")),
            own,
        }
    }

    /// Makes those that the site's command names, as the job's user, in his working directory.
    fn make(&self, template: &ContainerCommand) -> Result<(), Trouble> {
        let tmp = Some(("{tmp_dir}", &self.tmp)).filter(|_| self.tmp_is_own);
        for (word, folder) in
            [("{output_dir}", &self.output), ("{log_dir}", &self.log)].into_iter().chain(tmp)
        {
            if !template.command.iter().any(|argument| argument.contains(word)) {
                continue;
            }
            for folder in [&self.own, folder] {
                match fs::create_dir(folder) {
                    Err(e) if e.kind() != ErrorKind::AlreadyExists || !Path::new(folder).is_dir() => {
                        let detail = format!("{folder}: {}", gq_host::words(&e));
                        return Err(if gq_host::is_shortage(&e) {
                            site(detail)
                        } else {
                            Trouble::user(
                                Reason::Container,
                                format!("{detail}; what it makes goes there: use --chdir"),
                            )
                        });
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }
}

fn value_of(env: &[Vec<u8>], name: &str) -> Option<String> {
    let value = env.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// The job's environment with what holds in a container only.
fn environment(job: &Contained<'_>, folders: &Folders) -> Vec<Vec<u8>> {
    let devices = visible(&job.launch.assignment.cards);
    // NVIDIA's word for none, and for no driver either.
    let devices = if devices.is_empty() { "void".to_owned() } else { devices };
    let more = [
        ("NVIDIA_VISIBLE_DEVICES", devices),
        ("GQ_INPUT_DIR", folders.input.clone()),
        ("GQ_OUTPUT_DIR", folders.output.clone()),
        ("GQ_LOG_DIR", folders.log.clone()),
    ];
    let is_ours = |entry: &&Vec<u8>| {
        let name = entry.split(|b| *b == b'=').next().unwrap_or_default();
        more.iter().any(|(ours, _)| ours.as_bytes() == name)
    };
    let mut all: Vec<Vec<u8>> = job.env.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    all.extend(more.iter().map(|(name, value)| format!("{name}={value}").into_bytes()));
    all
}

/// Whether a variable goes into `{env}`.
fn is_handed_on(name: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let Ok(text) = std::str::from_utf8(name) else { return false };
    !name.is_empty()
        && name.iter().all(plain)
        && !name.first().is_some_and(u8::is_ascii_digit)
        && name != b"_"
        && !OF_THE_HOST.contains(&text)
        && !FAMILIES.iter().any(|family| text.starts_with(family))
}

/// Puts what is of the job in place of the words in braces.
struct Expander<'a> {
    job: &'a Contained<'a>,
    template: &'a ContainerCommand,
    folders: &'a Folders,
    env: &'a [Vec<u8>],
    image: &'a str,
}

impl Expander<'_> {
    fn arguments(&self, command: &[String]) -> Result<Vec<Vec<u8>>, Trouble> {
        let cards = &self.job.launch.assignment.cards;
        let mut all = Vec::new();
        for argument in command {
            match argument.as_str() {
                "{gpus}" if cards.is_empty() => {}
                "{gpus}" => {
                    self.group(&self.template.gpus, &[("devices", visible(cards).into())], &mut all)?
                }
                "{each_gpu}" => self.each_card(cards, &mut all)?,
                "{checkpoint}" => self.checkpoint(&mut all)?,
                "{env}" => self.each_variable(&mut all)?,
                "{args}" => all.extend(self.job.args.iter().cloned()),
                other => all.push(self.argument(other, &[])?),
            }
        }
        Ok(all)
    }

    fn group(
        &self,
        group: &[String],
        more: &[(&str, Vec<u8>)],
        all: &mut Vec<Vec<u8>>,
    ) -> Result<(), Trouble> {
        for argument in group {
            all.push(self.argument(argument, more)?);
        }
        Ok(())
    }

    /// Each device once: declared slices may lie on one card.
    fn each_card(&self, cards: &[CardUse], all: &mut Vec<Vec<u8>>) -> Result<(), Trouble> {
        let mut seen = BTreeSet::new();
        for card in cards.iter().filter(|card| seen.insert(device(card))) {
            let words = [("device", device(card).into()), ("index", card.index.to_string().into())];
            self.group(&self.template.each_gpu, &words, all)?;
        }
        Ok(())
    }

    fn checkpoint(&self, all: &mut Vec<Vec<u8>>) -> Result<(), Trouble> {
        match value_of(self.env, "GQ_CHECKPOINT_DIR") {
            Some(folder) => self.group(&self.template.checkpoint, &[("checkpoint_dir", folder.into())], all),
            None => Ok(()),
        }
    }

    fn each_variable(&self, all: &mut Vec<Vec<u8>>) -> Result<(), Trouble> {
        for entry in self.env {
            let mut parts = entry.splitn(2, |b| *b == b'=');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if is_handed_on(name) {
                let words = [("name", name.to_vec()), ("value", value.to_vec())];
                self.group(&self.template.env, &words, all)?;
            }
        }
        Ok(())
    }

    /// One argument; braces around what is no word stay as they are, and nothing is replaced twice.
    fn argument(&self, argument: &str, more: &[(&str, Vec<u8>)]) -> Result<Vec<u8>, Trouble> {
        let mut whole = Vec::with_capacity(argument.len());
        let mut rest = argument;
        while let Some((before, after)) = rest.split_once('{') {
            whole.extend_from_slice(before.as_bytes());
            let found = after.split_once('}').and_then(|(word, behind)| {
                let more = more.iter().find(|(name, _)| *name == word).map(|(_, value)| value.clone());
                Some((word, more.or_else(|| self.word(word))?, behind))
            });
            match found {
                Some((word, value, behind)) => {
                    self.is_whole(word, &value, argument)?;
                    whole.extend_from_slice(&value);
                    rest = behind;
                }
                None => {
                    whole.push(b'{');
                    rest = after;
                }
            }
        }
        whole.extend_from_slice(rest.as_bytes());
        Ok(whole)
    }

    /// A path within an argument must not hold what parts the argument's fields: it would be read as something else.
    fn is_whole(&self, word: &str, value: &[u8], argument: &str) -> Result<(), Trouble> {
        let is_path = word == "script" || word.ends_with("_dir");
        let parts = |b: &u8| matches!(b, b':' | b',' | b'\n');
        if is_path && argument.len() > word.len() + 2 && value.iter().any(parts) {
            let path = String::from_utf8_lossy(value);
            let words =
                "a path with : or , or a line break cannot be handed to the container's runtime; use --chdir";
            return Err(Trouble::user(Reason::Container, format!("{}: {words}", path.escape_debug())));
        }
        Ok(())
    }

    fn word(&self, word: &str) -> Option<Vec<u8>> {
        let (launch, folders) = (self.job.launch, self.folders);
        let (a, account) = (launch.assignment, launch.account);
        Some(match word {
            "image" => self.image.into(),
            "script" => self.job.script.as_os_str().as_bytes().to_vec(),
            "work_dir" => self.job.spec.work_dir.clone().into(),
            "tmp_dir" => folders.tmp.clone().into(),
            "input_dir" => folders.input.clone().into(),
            "output_dir" => folders.output.clone().into(),
            "log_dir" => folders.log.clone().into(),
            "user" => account.name.clone().into(),
            "uid" => a.uid.to_string().into(),
            "gid" => account.gid.to_string().into(),
            "job" => a.key.job.to_string().into(),
            "task" => a.key.task.to_string().into(),
            "cpus" => a.cpus.to_string().into(),
            "memory_mib" => a.memory.0.to_string().into(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_host::Account;
    use gq_model::{Assignment, BootId, JobId, RunKey, RunNumber, TaskIndex, Uid};
    use std::os::fd::AsFd;

    /// What the arguments of a command become for a job with these cards and this environment.
    fn expanded(command: &[&str], cards: &str, env: &[&str]) -> Result<Vec<String>, Trouble> {
        let cards: serde_json::Value = serde_json::from_str(cards).unwrap();
        let key = RunKey { job: JobId(7), task: TaskIndex(2), run: RunNumber(1) };
        let assignment = serde_json::json!({
            "key": key, "boot": BootId([3; 16]), "node": "n1", "uid": 9, "job_file": "", "sha256": "", "partition": "p",
            "cluster": "c", "cpus": 3, "memory": 64, "cards": cards, "kill_wait": 1, "array": (7, 2),
        });
        let assignment: Assignment = serde_json::from_value(assignment).unwrap();
        let spec: JobSpec =
            serde_json::from_str(r#"{"name":"j","work_dir":"/w","umask":0,"container":"img"}"#).unwrap();
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let template = ContainerCommand {
            command: list(command),
            gpus: list(&["-g", "{devices}"]),
            each_gpu: list(&["/dev/{index}={device}"]),
            checkpoint: list(&["-c", "{checkpoint_dir}:{work_dir}"]),
            env: list(&["-e", "{name}={value}"]),
        };
        let stdin = std::io::stdin();
        let account = Account::nameless(Uid(9));
        let launch = Launch {
            assignment: &assignment,
            account: &account,
            group: &gq_host::Group::default(),
            processes: 0,
            devices: &gq_host::Devices::default(),
            private: &[],
            no_new_privs: false,
            oom_protected: false,
            cluster: None,
            spool: Path::new("/"),
            folder: stdin.as_fd(),
            supervisor: 1,
            taken: std::time::Duration::ZERO,
            container: Some(&template),
        };
        let env: Vec<Vec<u8>> = env.iter().map(|entry| entry.as_bytes().to_vec()).collect();
        let args = [b"a b".to_vec(), b"{image}".to_vec()];
        let job =
            Contained { launch: &launch, spec: &spec, script: Path::new("/run/script"), args: &args, env };
        let folders = Folders::of(&job);
        let expander =
            Expander { job: &job, template: &template, folders: &folders, env: &job.env, image: "img" };
        let all = expander.arguments(&template.command)?;
        Ok(all.into_iter().map(|argument| String::from_utf8(argument).unwrap()).collect())
    }

    #[test]
    fn words_stand_for_what_is_of_the_job_and_nothing_is_read_twice() {
        let command = [
            "{image}/usr",
            "{job}.{task}-{cpus}-{memory_mib}",
            "{script}",
            "{args}",
            "{",
            "{}x{X}",
            "{output_dir}",
        ];
        let all = expanded(&command, "[]", &[]).unwrap();
        let own = "/w/gq-7_2.d/output";
        assert_eq!(all, ["img/usr", "7.2-3-64", "/run/script", "a b", "{image}", "{", "{}x{X}", own]);
        assert_eq!(expanded(&["{tmp_dir}"], "[]", &[]).unwrap(), ["/w/gq-7_2.d/tmp"]);
        assert_eq!(expanded(&["{tmp_dir}"], "[]", &["GQ_TMPDIR=/n/t"]).unwrap(), ["/n/t"]);
    }

    #[test]
    fn groups_are_there_when_there_is_something_to_say() {
        let command = ["{gpus}", "{each_gpu}", "{checkpoint}", "{env}", "end"];
        assert_eq!(expanded(&command, "[]", &[]).unwrap(), ["end"]);
        let cards = r#"[{"index":1,"uuid":"MIG-a"},{"index":1,"uuid":"MIG-b"},{"index":4}]"#;
        let env =
            ["GQ_CHECKPOINT_DIR=/k", "A=1=2", "PATH=/x", "LD_PRELOAD=y", "XDG_Z=1", "1B=", "F%%=() {", "_=z"];
        let all = expanded(&command, cards, &env).unwrap();
        let groups = [
            "-g",
            "MIG-a,MIG-b,4",
            "/dev/1=MIG-a",
            "/dev/1=MIG-b",
            "/dev/4=4",
            "-c",
            "/k:/w",
            "-e",
            "GQ_CHECKPOINT_DIR=/k",
            "-e",
            "A=1=2",
            "end",
        ];
        assert_eq!(all, groups);
        let trouble = expanded(&command, "[]", &["GQ_CHECKPOINT_DIR=/a:b"]).unwrap_err();
        assert_eq!((trouble.fault, trouble.reason), (gq_model::Fault::User, Reason::Container));
    }

    #[test]
    fn a_program_is_looked_for_where_the_system_keeps_them() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh").as_deref(), Some(Path::new("/bin/sh")));
        assert!(find("gq-no-such-program").is_none() && find("/no/such").is_none());
    }
}
