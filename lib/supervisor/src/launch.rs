//! From fork to exec: the child that becomes the job's user and then the job's script. Whatever the user named is opened
//! here, as that user; what goes wrong is told to the supervisor through a pipe that the exec closes.

use crate::{
    container::{self, Contained},
    trouble::Trouble,
    variables::{Source, environment},
};
use gq_host::{Account, ContainerCommand, ExecTrouble, JobFileTrouble};
use gq_model::{Assignment, JobSpec, MAX_JOB_FILE, OpenMode, PatternFields, Reason, TestRun, output_path};
use gq_proto::{JobFile, sha256_hex};
use std::{
    fs::File,
    io::{self, PipeWriter, Write},
    os::fd::BorrowedFd,
    path::Path,
    time::Duration,
};

/// Exit code of a child that did not become the script. Seen by the supervisor alone.
const NOT_STARTED: u8 = 71;

/// What the child is told.
#[derive(Debug)]
pub struct Launch<'a> {
    pub assignment: &'a Assignment,
    pub account: &'a Account,
    /// Whether this process is protected from being killed when memory runs out, as no job is.
    pub oom_protected: bool,
    pub spool: &'a Path,
    /// The run's folder.
    pub folder: BorrowedFd<'a>,
    /// The supervisor's pid.
    pub supervisor: u32,
    /// How the site runs a script in an image.
    pub container: Option<&'a ContainerCommand>,
}

/// What the child ends as.
enum Become {
    Sleeper(TestRun),
}

/// Lives the child's life. Returns its exit code when it does not become the script.
pub fn child(launch: &Launch<'_>, mut pipe: PipeWriter) -> u8 {
    match become_script(launch) {
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

fn become_script(launch: &Launch<'_>) -> Result<Become, Trouble> {
    let Launch { assignment, account, .. } = launch;
    gq_host::own_session().map_err(Trouble::kernel("a session"))?;
    if launch.oom_protected {
        gq_host::give_up_oom_protection().map_err(Trouble::kernel("/proc/self/oom_score_adj"))?;
    }
    let (path, script) = gq_host::make_script(launch.folder, account)
        .map_err(Trouble::kernel("the script's file in the node's folder"))?;
    gq_host::detach_stdio().map_err(Trouble::kernel("/dev/null"))?;
    gq_host::become_user(account)
        .map_err(|e| Trouble::site(format!("becoming {}: {}", account.name, gq_host::words(&e))))?;
    gq_host::die_with(launch.supervisor).map_err(Trouble::kernel("the supervisor"))?;

    let job = read_job(launch)?;
    write_script(script, &job.script)?;
    let spec = &job.spec;
    gq_host::set_umask(spec.umask);
    if !spec.work_dir.starts_with('/') {
        return Err(Trouble::user(Reason::WorkDir, format!("{}: not an absolute path", spec.work_dir)));
    }
    std::env::set_current_dir(&spec.work_dir).map_err(|e| at_path(Reason::WorkDir, &spec.work_dir, &e))?;
    open_stdio(assignment, account, spec)?;
    let env = environment(&Source {
        assignment,
        spec,
        account,
        chosen: &job.env,
        pid: std::process::id(),
        now: gq_host::now(),
    });
    gq_host::apply_limits(&spec.limits).map_err(Trouble::kernel("the limits"))?;
    gq_host::reset_signals().map_err(Trouble::kernel("the signals"))?;
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
    Ok(job)
}

/// Writes the script and closes the only descriptor that can write it: nobody executes a file that is open for writing.
fn write_script(mut file: File, script: &[u8]) -> Result<(), Trouble> {
    file.write_all(script).map_err(Trouble::kernel("writing the script to the node's disk"))
}

fn open_stdio(assignment: &Assignment, account: &Account, spec: &JobSpec) -> Result<(), Trouble> {
    let fields = PatternFields {
        key: assignment.key,
        array: assignment.array,
        name: &spec.name,
        user: &account.name,
        node: Some(&assignment.node),
    };
    let path = |pattern: Option<&str>| output_path(pattern, &spec.work_dir, &fields);
    let input_path = spec.stdin.as_deref().map(|p| path(Some(p)));
    let open_input =
        |path: &str| gq_host::open_input(Path::new(path)).map_err(|e| at_path(Reason::InputFile, path, &e));
    // Without one it stays the /dev/null that it is already.
    let input = input_path.as_deref().map(open_input).transpose()?;
    let append = spec.open_mode == OpenMode::Append;
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
