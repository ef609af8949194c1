//! From fork to exec: the child that becomes the job's user and then the job's script. Whatever the user named is opened
//! here, as that user; what goes wrong is told to the supervisor through a pipe that the exec closes.

use crate::{
    checkpoint::Checkpoint,
    container::{self, Contained},
    trouble::Trouble,
    variables::{Source, environment},
};
use gq_host::{
    Account, ContainerCommand, Devices, ENV_MARKER, ExecTrouble, Group, JobFileTrouble, run_marker,
};
use gq_model::{
    Assignment, ClusterId, JobSpec, MAX_JOB_FILE, OpenMode, PatternFields, Reason, Seconds, Stage, TestRun,
    output_path,
};
use gq_proto::{JobFile, sha256_hex};
use std::{
    fs::File,
    io::{self, PipeWriter, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long the emptying of what an earlier run left may take.
const EMPTYING: Duration = Duration::from_secs(60);
/// Stands before the line that says where the folder for checkpoints is.
const CHECKPOINT_LINE: u8 = b'C';
/// Exit code of a child that did not become the script. Seen by the supervisor alone.
const NOT_STARTED: u8 = 71;

/// What the child is told.
#[derive(Debug)]
pub struct Launch<'a> {
    pub assignment: &'a Assignment,
    pub account: &'a Account,
    /// The control group of the run, which the supervisor is outside of.
    pub group: &'a Group,
    /// So many processes and threads it may have at once.
    pub processes: u32,
    /// The devices that are kept from it, and its own.
    pub devices: &'a Devices,
    /// The folders of which it sees its own.
    pub private: &'a [PathBuf],
    /// Whether programs give its processes no other rights.
    pub no_new_privs: bool,
    /// Whether this process is protected from being killed when memory runs out, as no job is.
    pub oom_protected: bool,
    pub spool: &'a Path,
    /// The cluster that the job file must have been made for; none when that is not known.
    pub cluster: Option<ClusterId>,
    /// The run's folder.
    pub folder: BorrowedFd<'a>,
    /// The supervisor's pid.
    pub supervisor: u32,
    /// When the supervisor took the run over, on the boot clock.
    pub taken: Duration,
    /// How the site runs a script in an image.
    pub container: Option<&'a ContainerCommand>,
}

/// What the child says before it becomes the script, or does not.
#[derive(Debug, Default)]
pub struct Said {
    /// Where the folder for checkpoints is.
    pub checkpoint: Option<Checkpoint>,
    /// What kept it from becoming the script.
    pub trouble: Option<Trouble>,
}

impl Said {
    /// Reads all that a child has said.
    pub fn read(bytes: &[u8]) -> Self {
        let (checkpoint, rest) = match bytes.split_first() {
            Some((&CHECKPOINT_LINE, rest)) => {
                let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                let (line, rest) = rest.split_at(end);
                (Checkpoint::from_line(line), rest.get(1..).unwrap_or_default())
            }
            _ => (None, bytes),
        };
        Self { checkpoint, trouble: (!rest.is_empty()).then(|| Trouble::from_bytes(rest)) }
    }
}

/// What the child ends as.
enum Become {
    Sleeper(TestRun),
}

/// Lives the child's life. Returns its exit code when it does not become the script.
pub fn child(launch: &Launch<'_>, mut pipe: PipeWriter) -> u8 {
    match become_script(launch, &mut pipe) {
        Ok(Become::Sleeper(test)) => {
            drop(pipe);
            match gq_host::sleep_exactly(Duration::from_micros(test.micros)) {
                Ok(()) => test.exit,
                Err(_) => NOT_STARTED,
            }
        }
        Err(trouble) => {
            // When even this fails, the supervisor sees a script that exits 71 at once.
            let _ = pipe.write_all(&trouble.to_bytes());
            NOT_STARTED
        }
    }
}

fn become_script(launch: &Launch<'_>, pipe: &mut PipeWriter) -> Result<Become, Trouble> {
    let Launch { assignment, account, .. } = launch;
    gq_host::own_session().map_err(Trouble::kernel("a session"))?;
    launch.group.enter().map_err(Trouble::kernel("the control group"))?;
    if launch.oom_protected {
        gq_host::give_up_oom_protection().map_err(Trouble::kernel("/proc/self/oom_score_adj"))?;
    }
    let (path, script) = gq_host::make_script(launch.folder, account)
        .map_err(Trouble::kernel("the script's file in the node's folder"))?;
    let (scratch, scratch_folder) = gq_host::make_scratch(launch.folder, account)
        .map_err(Trouble::kernel("the private folder in the node's folder"))?;
    gq_host::make_private(launch.private, &scratch).map_err(Trouble::kernel("the private folders"))?;
    gq_host::detach_stdio().map_err(Trouble::kernel("/dev/null"))?;
    gq_host::become_user(account)
        .map_err(|e| Trouble::site(format!("becoming {}: {}", account.name, gq_host::words(&e))))?;
    gq_host::die_with(launch.supervisor).map_err(Trouble::kernel("the supervisor"))?;

    let job = read_job(launch)?;
    write_script(script, script_of(assignment.stage, &job)?)?;
    empty_scratch(scratch_folder);
    let spec = &job.spec;
    gq_host::set_umask(spec.umask);
    if !spec.work_dir.starts_with('/') {
        return Err(Trouble::user(Reason::WorkDir, format!("{}: not an absolute path", spec.work_dir)));
    }
    std::env::set_current_dir(&spec.work_dir).map_err(|e| at_path(Reason::WorkDir, &spec.work_dir, &e))?;
    let fields = pattern_fields(assignment, account, spec);
    open_stdio(&fields, spec, appends(assignment, &job))?;
    let checkpoint = Checkpoint::make(assignment, spec, &fields)?;
    gq_host::reset_signals().map_err(Trouble::kernel("the signals"))?;
    let login = spec.get_user_env.map(|patience| login(launch, patience)).unwrap_or_default();
    let env = environment(&Source {
        assignment,
        job: &job,
        account,
        login: &login,
        scratch: &scratch,
        checkpoint: checkpoint.as_ref(),
        pid: std::process::id(),
        now: gq_host::now(),
    });
    if launch.no_new_privs {
        gq_host::gain_no_rights().map_err(Trouble::kernel("no_new_privs"))?;
    }
    gq_host::apply_limits(&spec.limits).map_err(Trouble::kernel("the limits"))?;
    if let Some(checkpoint) = checkpoint {
        let line = [&[CHECKPOINT_LINE], checkpoint.to_line().as_slice()].concat();
        pipe.write_all(&line).map_err(Trouble::kernel("the pipe to the supervisor"))?;
    }
    match spec.test_run {
        Some(test) if assignment.allow_test_run => Ok(Become::Sleeper(test)),
        Some(_) => Err(Trouble::user(Reason::ExecFailed, "--test-run is not allowed on this cluster")),
        None if spec.container.is_some() => {
            Err(container::enter(&Contained { launch, spec, script: &path, args: &job.args, env }))
        }
        None => Err(match gq_host::execute(&path, &job.args, &env) {
            ExecTrouble::Script(text) => Trouble::user(Reason::ExecFailed, text),
            ExecTrouble::Interpreter(text) => Trouble::away(Reason::ExecFailed, text),
            ExecTrouble::Machine(text) => Trouble::site(text),
        }),
    }
}

/// Reads the job file once, as the user, and believes it only when it is what was accepted.
fn read_job(launch: &Launch<'_>) -> Result<JobFile, Trouble> {
    let assignment = launch.assignment;
    let path = launch.spool.join(&assignment.job_file);
    let changed = |what: &str| Trouble::user(Reason::JobFileChanged, format!("{}: {what}", path.display()));
    if !is_accepted(assignment) {
        return Err(changed("no place of an accepted job file of this job"));
    }
    let bytes =
        gq_host::read_job_file(launch.spool, Path::new(&assignment.job_file), assignment.uid, MAX_JOB_FILE)
            .map_err(|e| match e {
            JobFileTrouble::Changed(what) => changed(what),
            JobFileTrouble::Away(e) => Trouble::site(format!("{}: {}", path.display(), gq_host::words(&e))),
        })?;
    if sha256_hex(&bytes) != assignment.sha256 {
        return Err(changed("its content is not what was accepted"));
    }
    let job = JobFile::from_bytes(&bytes).map_err(|e| changed(&e.to_string()))?;
    if job.uid != assignment.uid {
        return Err(changed("it names another user than its owner"));
    }
    if launch.cluster.is_some_and(|cluster| cluster != job.cluster) {
        return Err(changed("it was made for another cluster"));
    }
    Ok(job)
}

/// Whether the job file lies where `gqd` puts those that it has accepted, under its job's number. Elsewhere in the spool, users make files that
/// they have not handed in yet.
fn is_accepted(assignment: &Assignment) -> bool {
    let name = format!("{}.job", assignment.key.job);
    let shard = assignment
        .job_file
        .strip_prefix("jobs/")
        .and_then(|rest| rest.strip_suffix(&name)?.strip_suffix('/'));
    shard.is_some_and(|shard| shard.len() == 2 && shard.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Writes the script and closes the only descriptor that can write it: nobody executes a file that is open for writing.
fn write_script(mut file: File, script: &[u8]) -> Result<(), Trouble> {
    file.write_all(script).map_err(Trouble::kernel("writing the script to the node's disk"))
}

/// The script that this stage of the job runs.
fn script_of(stage: Stage, job: &JobFile) -> Result<&[u8], Trouble> {
    match stage {
        Stage::Main => Ok(&job.script),
        Stage::Prep if !job.prep.is_empty() => Ok(&job.prep),
        Stage::Prep => {
            Err(Trouble::user(Reason::JobFileChanged, "its job file has no script that is to run first"))
        }
    }
}

/// Empties what a supervisor that was killed left of an earlier run of this user. What cannot be removed is his own, and keeps no job
/// from running. The descriptor goes with it: it leads to where others see this folder, and whatever the user names is opened after.
fn empty_scratch(scratch: OwnedFd) {
    if !gq_host::is_empty_folder(scratch.as_fd()).unwrap_or(false) {
        let _ = gq_host::empty_folder(scratch.as_fd(), Instant::now() + EMPTYING);
    }
}

/// The environment of a login; none of it, and a line in the job's output, when it was not to be had in time.
fn login(launch: &Launch<'_>, patience: Seconds) -> Vec<Vec<u8>> {
    let marker = run_marker(launch.assignment);
    let marks = [(ENV_MARKER, marker.as_str())];
    let had = gq_host::login_environment(launch.account, &marks, Duration::from_secs(patience.0));
    had.unwrap_or_else(|e| {
        eprintln!("gq: --get-user-env: no environment of a login was had: {e}; the job starts without it");
        Vec::new()
    })
}

fn pattern_fields<'a>(
    assignment: &'a Assignment,
    account: &'a Account,
    spec: &'a JobSpec,
) -> PatternFields<'a> {
    PatternFields {
        key: assignment.key,
        array: assignment.array,
        name: assignment.name.as_deref().unwrap_or(&spec.name),
        user: &account.name,
        node: Some(&assignment.node),
    }
}

/// Whether what is written comes behind what is in the output file: what the first script of a job wrote stays.
fn appends(assignment: &Assignment, job: &JobFile) -> bool {
    let follows = assignment.stage == Stage::Main && !job.prep.is_empty();
    follows || job.spec.open_mode == OpenMode::Append
}

fn open_stdio(fields: &PatternFields<'_>, spec: &JobSpec, append: bool) -> Result<(), Trouble> {
    let path = |pattern: Option<&str>| output_path(pattern, &spec.work_dir, fields);
    let input_path = spec.stdin.as_deref().map(|p| path(Some(p)));
    let open_input =
        |path: &str| gq_host::open_input(Path::new(path)).map_err(|e| at_path(Reason::InputFile, path, &e));
    // Without one it stays the /dev/null that it is already.
    let input = input_path.as_deref().map(open_input).transpose()?;
    let open = |path: &str| {
        gq_host::open_output(Path::new(path), append).map_err(|e| match e.raw_os_error() {
            Some(number) if number == gq_host::NO_READER => Trouble::user(
                Reason::OutputFile,
                format!("{path}: a FIFO that nobody reads, or a socket: start its reader first"),
            ),
            _ => at_path(Reason::OutputFile, path, &e),
        })
    };
    let out_path = path(spec.stdout.as_deref());
    let output = open(&out_path)?;
    let error_path = spec.stderr.as_deref().map(|p| path(Some(p))).filter(|p| *p != out_path);
    let error = error_path.as_deref().map(open).transpose()?;
    // Two names of one file share one place in it, so that neither writes over the other.
    let error = error.filter(|error| !gq_host::same_file(error, &output).unwrap_or(false));
    gq_host::install_stdio(input.as_ref(), &output, error.as_ref().unwrap_or(&output))
        .map_err(Trouble::kernel("standard input, output and error"))
}

/// What a user's path had against it. A machine that is out of files or memory is not the user's fault, as far as can be
/// told.
fn at_path(reason: Reason, path: &str, error: &io::Error) -> Trouble {
    let detail = format!("{path}: {}", gq_host::words(error));
    if gq_host::is_shortage(error) { Trouble::away(reason, detail) } else { Trouble::user(reason, detail) }
}
