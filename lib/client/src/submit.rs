//! `gqsub`: submits a script. What is asked for is `gq-ask`'s to read; here it is gathered, stored and handed over.

mod around;
mod hand_over;
pub(crate) mod rerun;
#[cfg(test)]
mod tests;
mod trial;
mod wait;

use crate::{
    acct,
    link::{Link, conf},
    out::Out,
    trouble::{REFUSED, Trouble, UNREACHABLE, USAGE, say},
};
use gq_ask::{CommandLine, Early, Script, Submission};
use gq_conf::{Config, Partition};
use gq_failpoint::{Step, step};
use gq_ipc::Conn;
use gq_model::{JobId, Timestamp, Token, Uid};
use gq_proto::{Ask, JobFile, Reply};
use gq_spool::{DropClient, SpoolError};
use std::ffi::OsString;

const PROGRAM: &str = "gqsub";

/// The option table of `gqsub`.
pub fn command() -> clap::Command {
    gq_ask::command()
}

/// Runs `gqsub`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    if gq_failpoint::begin(PROGRAM, argv.get(1..).unwrap_or_default()) {
        return 0;
    }
    let mut command = command();
    let line = match gq_ask::read_command_line(&mut command, argv) {
        Ok(line) => line,
        Err(Early::Refused(error)) => return Trouble::from(*error).tell(PROGRAM),
        Err(Early::Shown(answer)) => {
            return answer.print().map_or_else(|e| Trouble::of_output(&e).tell(PROGRAM), |()| 0);
        }
    };
    run(&mut command, line).unwrap_or_else(|trouble| trouble.tell(PROGRAM))
}

fn run(command: &mut clap::Command, line: CommandLine) -> Result<u8, Trouble> {
    let chosen = line.conf().map(ToOwned::to_owned);
    let (conf, mut submission, env) = match line.rerun() {
        Some(job) => {
            let conf = conf(chosen.as_deref())?;
            let (submission, env) = rerun::again(&conf, line, job)?;
            (conf, submission, env)
        }
        None => {
            let submission = read(command, line)?;
            let env = submission.export.choose(std::env::vars_os());
            (conf(chosen.as_deref())?, submission, env)
        }
    };
    submission.spoken.iter().chain(&submission.warnings).for_each(|words| say(PROGRAM, words));
    bound(&conf, &mut submission);
    if submission.test_only {
        return test_only(&conf, submission);
    }
    if submission.offline {
        return offline(&conf, submission, env);
    }
    let (parsable, json, quiet, wait) =
        (submission.parsable, submission.json, submission.quiet, submission.wait);
    let shows = !quiet && submission.spec.array.is_some();
    let trial = submission.trial.take();
    let job = submit(&conf, submission, env)?;
    // Of a trial JSON tells when it is over.
    let answer = match (json, parsable, quiet) {
        (true, _, _) if trial.is_some() => None,
        (true, _, _) => Some(format!("{{\"job_id\":{job}}}\n")),
        (false, true, _) => Some(format!("{job}\n")),
        (false, false, false) => Some(format!("Submitted batch job {job}\n")),
        (false, false, true) => None,
    };
    match step(Step::DropAnswer, || answer.map_or(Ok(()), |text| print(&text))) {
        // Whoever reads has read enough; the job is as good as any.
        Ok(()) | Err(Trouble::ReaderGone) => {}
        Err(Trouble::Told { text, .. }) => {
            return Err(Trouble::new(REFUSED, format!("job {job} is submitted, but {text}")));
        }
    }
    if !wait {
        return Ok(0);
    }
    let shown = wait::Shown { bar: wait::Bar::wanted(shows && trial.is_none()), ..wait::Shown::default() };
    let code = wait::wait_for(&conf, job, shown)?;
    match trial {
        Some(asked) => trial::tell(&conf, job, &asked, code, json),
        None => Ok(code),
    }
}

/// Bounds a trial by the longest time that its partition allows.
fn bound(conf: &Config, submission: &mut Submission) {
    let named = submission.spec.partition.as_ref();
    let is_it = |partition: &&Partition| named.map_or(partition.default, |name| partition.name == *name);
    if let Some(most) = conf.partitions.iter().find(is_it).and_then(|partition| partition.max_time) {
        submission.bound_trial(most);
    }
}

/// Makes the submission of what was said and of the script that was named.
fn read(command: &mut clap::Command, line: CommandLine) -> Result<Submission, Trouble> {
    let script = match line.wrap() {
        Some(command) => Script::wrap(command),
        None => around::script(line.script())?,
    };
    let around = around::Around::look()?;
    line.resolve(command, std::env::vars_os(), script, around.context(Timestamp(around.now)))
        .map_err(Trouble::from)
}

fn print(text: &str) -> Result<(), Trouble> {
    let mut out = Out::stdout()?;
    out.put(text)?;
    out.flush()
}

/// Makes the job file and hands it to `gqd`. Whatever comes of it, no file stays behind that `gqd` refused.
fn submit(conf: &Config, submission: Submission, env: Vec<Vec<u8>>) -> Result<JobId, Trouble> {
    let sock = conf.sock();
    // First the connection: without gqd there is nothing to clean up.
    let conn = Conn::connect(&sock).map_err(|e| hand_over::no_gqd(&sock, &e))?;
    let drop_box = DropClient::open(&conf.cluster.spool_dir).map_err(|e| of_spool(UNREACHABLE, &e))?;
    let token = store(&drop_box, submission, env, false)?;
    hand_over::hand_over(&sock, conn, &drop_box, token)
}

/// Leaves the job in the drop box, for a `gqd` to find later, and prints its token.
fn offline(conf: &Config, submission: Submission, env: Vec<Vec<u8>>) -> Result<u8, Trouble> {
    let drop_box = DropClient::open(&conf.cluster.spool_dir).map_err(|e| of_spool(UNREACHABLE, &e))?;
    let json = submission.json;
    let token = store(&drop_box, submission, env, true)?;
    drop_box.offline(token).map_err(|e| of_spool(REFUSED, &e))?;
    match print(&if json { format!("{{\"token\":\"{token}\"}}\n") } else { format!("{token}\n") }) {
        Ok(()) | Err(Trouble::ReaderGone) => Ok(0),
        Err(Trouble::Told { text, .. }) => {
            Err(Trouble::new(REFUSED, format!("the job is left with token {token}, but {text}")))
        }
    }
}

/// Writes the job file into the drop box, durably. `left`: for `gqd` to find, while nobody waits.
fn store(
    drop_box: &DropClient,
    submission: Submission,
    env: Vec<Vec<u8>>,
    left: bool,
) -> Result<Token, Trouble> {
    use std::os::unix::ffi::OsStringExt;
    let no_cluster = || {
        Trouble::new(UNREACHABLE, "the spool belongs to no cluster yet")
            .with_hint("gqd --init, once, as the admin")
    };
    let cluster = drop_box.cluster_id().map_err(|e| of_spool(UNREACHABLE, &e))?.ok_or_else(no_cluster)?;
    let mut token = Token::default();
    getrandom::fill(&mut token.0)
        .map_err(|e| Trouble::new(REFUSED, format!("the system gives no random numbers: {e}")))?;
    let file = JobFile {
        cluster,
        uid: Uid(nix::unistd::geteuid().as_raw()),
        token,
        left,
        spec: submission.spec,
        env,
        args: submission.args.into_iter().map(OsStringExt::into_vec).collect(),
        script: submission.script,
        prep: submission.prep,
        items: submission.items,
    };
    let bytes = file.to_bytes().map_err(|e| {
        Trouble::new(USAGE, format!("the job cannot be stored: {e}"))
            .with_hint("--export=NONE, a shorter script, or shorter lines of --each")
    })?;
    drop_box.write(token, &bytes).map_err(|e| of_spool(REFUSED, &e))?;
    Ok(token)
}

fn of_spool(code: u8, error: &SpoolError) -> Trouble {
    match error {
        SpoolError::Unsafe { path, what, remedy } => {
            Trouble::new(code, format!("{}: {what}", path.display())).with_hint(remedy)
        }
        SpoolError::Io { .. } | SpoolError::Name { .. } | SpoolError::TooLarge { .. } => {
            Trouble::new(code, error.to_string())
        }
    }
}

/// Asks when and where the job would start; the answer goes to stderr as sbatch's does, and with `--json` to stdout.
fn test_only(conf: &Config, submission: Submission) -> Result<u8, Trouble> {
    let link = Link::open_to(conf)?;
    let (json, name) = (submission.json, submission.spec.name.clone());
    let reply = link.ask(Ask::TestOnly { spec: Box::new(submission.spec) })?;
    let Reply::Tested { node, partition, start, cpus } = reply else { return Err(link.astray()) };
    let advice = acct::advice_of(&link, &name)?;
    if json {
        let start = start.map(|at| at.0 as f64 / 1e6);
        let answer = serde_json::json!({
            "start_time": start, "nodes": node.iter().collect::<Vec<_>>(), "partition": partition, "cpus": cpus,
            "advice": advice,
        });
        print(&format!("{answer}\n"))?;
        return Ok(0);
    }
    let node = node.map_or_else(String::new, |name| format!(" on nodes {name}"));
    let rest = format!("using {cpus} processors{node} in partition {partition}");
    say(
        PROGRAM,
        &match start.and_then(|at| jiff::Timestamp::from_microsecond(at.0).ok()) {
            Some(at) => {
                let at = at.to_zoned_datetime(jiff::tz::TimeZone::system());
                format!("Job to start at {} {rest}", at.strftime("%Y-%m-%dT%H:%M:%S"))
            }
            None => format!("Job would be taken {rest}; when it would start is not known"),
        },
    );
    if !advice.is_empty() {
        let options = advice.join(" ");
        say(PROGRAM, &format!("What jobs of this name used would fit into {options} (why: gqacct advise)"));
    }
    Ok(0)
}
