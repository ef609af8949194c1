//! `gqacct show`: one job with all that is kept of it: what was asked, its script and environment where the asker may see them, every run with
//! its reason, promises and use. The job file is read by the asker himself, with no more rights than he has.

use super::{flag, json::run};
use crate::{
    escape::shown,
    link::{Link, conf, conf_of},
    out::Out,
    select::read_jobs,
    stat::{clock::Clock, json},
    submit::rerun::read_file,
    trouble::{NO_SUCH_JOB, Trouble},
};
use clap::{Arg, ArgMatches, Command};
use gq_model::{JobId, Timestamp};
use gq_proto::{Ask, JobFile, JobView, ListAsk, PastAsk, Reply, RunView, Selection};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The options of `gqacct show`.
pub(super) fn show_command() -> Command {
    Command::new("show")
        .about("Show all that is kept of a job: the request, its script and environment, its runs with reasons, promises and use")
        .disable_help_flag(true)
        .arg(Arg::new("job").value_name("JOB").required(true).help("The job: 17"))
        .arg(flag("json", "Answer in JSON"))
}

/// All that is known of a job.
struct Known {
    jobs: Vec<JobView>,
    runs: Vec<RunView>,
    /// The job file, or why it is not shown.
    file: Result<Box<JobFile>, String>,
}

/// Shows a job; returns the exit code.
pub(super) fn show(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let named = words.get_one::<String>("job").map(String::as_str).unwrap_or_default();
    let jobs = read_jobs(&[named])?;
    let [job] = jobs.as_slice() else {
        return Err(
            Trouble::usage("one job is shown at a time").with_hint("gqacct --jobs lists runs of many")
        );
    };
    let known = look(words, job.job)?;
    if words.get_flag("json") {
        let value = whole(&known);
        json::write(out, &value).map_err(|e| Trouble::of_output(&e))?;
        out.put("\n")?;
    } else {
        let mut text = String::new();
        tell(&known, clock, &mut text);
        out.put(&text)?;
    }
    Ok(0)
}

fn look(words: &ArgMatches, id: JobId) -> Result<Known, Trouble> {
    let conf = conf(conf_of(words))?;
    let link = Link::open_to(&conf)?;
    let select = Selection { jobs: vec![gq_model::JobRef { job: id, tasks: None }], ..Selection::default() };
    let mut jobs = Vec::new();
    link.ask_in_parts(Ask::List(ListAsk { select, starts: true, ..ListAsk::default() }), |part| {
        let Reply::Jobs { jobs: some, more, .. } = part else { return Err(link.astray()) };
        jobs.extend(some);
        Ok(more)
    })?;
    if jobs.is_empty() {
        return Err(Trouble::new(NO_SUCH_JOB, format!("no such job: {id}")));
    }
    let mut runs = Vec::new();
    let past = PastAsk { jobs: vec![id], again: true, ..PastAsk::default() };
    link.ask_in_parts(Ask::Past(past), |part| {
        let Reply::Runs { runs: some, more } = part else { return Err(link.astray()) };
        runs.extend(some);
        Ok(more)
    })?;
    let file = match link.ask(Ask::JobFile { job: id }) {
        Ok(Reply::JobFile { path, sha256, .. }) => read_file(&conf, id, &path, &sha256).map(Box::new),
        Ok(_) => Err(link.astray()),
        Err(trouble) => Err(trouble),
    };
    Ok(Known { jobs, runs, file: file.map_err(|trouble| first_line(&trouble)) })
}

fn first_line(trouble: &Trouble) -> String {
    trouble.to_string().lines().next().unwrap_or_default().to_owned()
}

fn texts(bytes: &[Vec<u8>]) -> Vec<String> {
    bytes.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn whole(known: &Known) -> Value {
    let jobs: Vec<Value> = known.jobs.iter().map(|job| value(&json::job(job))).collect();
    let runs: Vec<Value> = known.runs.iter().map(|one| value(&run(one))).collect();
    let mut all = json!({ "jobs": jobs, "runs": runs });
    if let Some(map) = all.as_object_mut() {
        map.extend(of_file(known));
    }
    all
}

/// The parts of the job file; null where it is not shown.
fn of_file(known: &Known) -> Map<String, Value> {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let parts = match &known.file {
        Ok(file) => json!({
            "request": serde_json::to_value(&file.spec).unwrap_or(Value::Null),
            "arguments": texts(&file.args),
            "script": text(&file.script),
            "prep_script": if file.prep.is_empty() { Value::Null } else { text(&file.prep) },
            "environment": texts(&file.env),
            "job_file_trouble": null,
        }),
        Err(why) => json!({
            "request": null, "arguments": null, "script": null, "prep_script": null, "environment": null,
            "job_file_trouble": why,
        }),
    };
    match parts {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What is written as JSON, as a value.
fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

fn tell(known: &Known, clock: &Clock, text: &mut String) {
    let whole = whole(known);
    let list = |key: &str| whole[key].as_array().cloned().unwrap_or_default();
    for job in list("jobs") {
        heading("job", text);
        lines(&job, clock, text);
    }
    for run in list("runs") {
        heading(&format!("run {}", run["run"]), text);
        lines(&run, clock, text);
    }
    match &known.file {
        Err(why) => {
            heading("script and environment", text);
            text.push_str(&format!("  not shown: {}\n", shown(why)));
        }
        Ok(_) => {
            heading("request", text);
            lines(&whole["request"], clock, text);
            for (key, name) in [("arguments", "arguments"), ("environment", "environment")] {
                let all = list(key);
                if !all.is_empty() {
                    heading(name, text);
                }
                for one in all.iter().filter_map(Value::as_str) {
                    text.push_str(&format!("  {}\n", shown(one)));
                }
            }
            for (key, name) in [("prep_script", "script that runs first"), ("script", "script")] {
                if let Some(script) = whole[key].as_str() {
                    heading(name, text);
                    script.lines().for_each(|line| text.push_str(&format!("  {}\n", shown(line))));
                }
            }
        }
    }
}

fn heading(name: &str, text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("{name}:\n"));
}

/// The keys of an object that say something, one a line. What is a time by its key is shown as one.
fn lines(object: &Value, clock: &Clock, text: &mut String) {
    for (key, value) in object.as_object().into_iter().flatten() {
        let said = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::Array(list) if list.is_empty() => continue,
            Value::String(words) if words.is_empty() => continue,
            Value::String(words) => words.clone(),
            Value::Number(seconds) if is_time(key) => {
                let at = seconds.as_f64().map(|seconds| Timestamp((seconds * 1e6) as i64));
                at.and_then(|at| clock.civil(at)).unwrap_or_else(|| seconds.to_string())
            }
            other => other.to_string(),
        };
        text.push_str(&format!("  {key}: {}\n", shown(&said)));
    }
}

fn is_time(key: &str) -> bool {
    let ends = ["submit_time", "begin_time", "start_time", "end_time", "allocated_time"];
    ends.contains(&key) || matches!(key, "expected_start" | "first_promise" | "last_promise")
}
