//! The submit hook: a program of the site that sees each request before it is taken, and may change or refuse it. It runs in the thread of
//! whoever brings the request, so many at a time; what goes wrong with it refuses the request. What it changed is checked as if the user
//! had asked for it.

use crate::program::{Program, Surroundings};
use gq_conf::Hooks;
use gq_model::{JobSpec, MAX_REQUEST, Uid};
use gq_proto::{Refusal, RefusalKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Most that run at a time,
const MOST: usize = 8;
/// and of those for one user, so that nobody keeps others out.
const MOST_EACH: usize = 4;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest refusal that is handed on, in characters.
const MAX_REFUSAL: usize = 2000;
/// What may be changed: what `gqd` decides by, and a node does not read for itself.
pub(crate) const CHANGEABLE: [&str; 17] = [
    "account",
    "cards",
    "comment",
    "deadline",
    "exclude",
    "features",
    "hold",
    "licences",
    "memory",
    "nice",
    "nodelist",
    "partition",
    "qos",
    "requeue",
    "reservation",
    "time_limit",
    "time_min",
];

/// A request as the hook is told of it.
pub(crate) struct Request<'a> {
    pub(crate) uid: Uid,
    pub(crate) user: &'a str,
    pub(crate) admin: bool,
    /// The script; none when it is only asked whether a request would be taken.
    pub(crate) script: Option<&'a [u8]>,
}

/// Why a request does not pass.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The hook says so.
    Said(Refusal),
    /// It failed: the next one may pass.
    Failed(Refusal),
}

impl Refused {
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Said(refusal) | Self::Failed(refusal) => refusal,
        }
    }
}

/// What the hook answers; nothing at all is as good as `{}`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    refuse: Option<String>,
    #[serde(default)]
    change: Map<String, Value>,
}

/// The hook of the conf, if there is one, and who is at it.
#[derive(Default)]
pub(crate) struct SubmitHook {
    program: Mutex<Option<Arc<Program>>>,
    at_it: Mutex<BTreeMap<Uid, usize>>,
    left: Condvar,
}

impl SubmitHook {
    pub(crate) fn new(hooks: &Hooks, around: &Surroundings) -> Self {
        let hook = Self::default();
        hook.change(hooks, around);
        hook
    }

    /// Takes what the conf says now.
    pub(crate) fn change(&self, hooks: &Hooks, around: &Surroundings) {
        let program = Program::new(&hooks.submit, hooks.submit_time, around).map(Arc::new);
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = program;
    }

    /// The request as it is to be taken, or why it is not.
    ///
    /// # Errors
    /// [`Refused`]: by the hook, or because it failed.
    pub(crate) fn pass(&self, request: &Request<'_>, spec: JobSpec) -> Result<JobSpec, Refused> {
        let program = self.program.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(program) = program else { return Ok(spec) };
        let failed = |why: String| {
            log::error!("submit hook {}: a request of {} is refused: {why}", program.name(), request.user);
            Refused::Failed(Refusal {
                kind: RefusalKind::Policy,
                text: "the site's submit hook failed, so that no job is taken".into(),
                hint: Some("tell an admin: the log of gqd says what is wrong".into()),
            })
        };
        let Some(_turn) = Turn::wait(self, request.uid) else {
            return Err(failed(format!("the hook was busy for {} s", PATIENCE.as_secs())));
        };
        let asked = serde_json::to_value(&spec).map_err(|e| failed(e.to_string()))?;
        let said = program.run(&tell(request, &asked)).map_err(|e| failed(e.to_string()))?;
        let answer = read(&said).map_err(failed)?;
        if let Some(text) = answer.refuse {
            log::info!("submit hook: a request of {} is refused: {}", request.user, for_people(&text));
            return Err(Refused::Said(Refusal {
                kind: RefusalKind::Policy,
                text: for_people(&text),
                hint: None,
            }));
        }
        if answer.change.is_empty() {
            return Ok(spec);
        }
        let names = answer.change.keys().cloned().collect::<Vec<_>>().join(", ");
        let changed = change(asked, answer.change).map_err(failed)?;
        if serde_json::to_vec(&changed).map_or(true, |bytes| bytes.len() > MAX_REQUEST) {
            return Err(failed(format!("it made the request larger than {MAX_REQUEST} bytes")));
        }
        log::info!("submit hook: a request of {} is changed: {names}", request.user);
        Ok(changed)
    }
}

fn tell(request: &Request<'_>, spec: &Value) -> Vec<u8> {
    let script = request.script.map(String::from_utf8_lossy);
    let told = json!({
        "v": 1,
        "uid": request.uid,
        "user": request.user,
        "admin": request.admin,
        "test_only": script.is_none(),
        "spec": spec,
        "script": script,
    });
    format!("{told}\n").into_bytes()
}

fn read(said: &[u8]) -> Result<Answer, String> {
    if said.iter().all(u8::is_ascii_whitespace) {
        return Ok(Answer::default());
    }
    let all: Result<Map<String, Value>, _> = serde_json::from_slice(said);
    let answer = all.and_then(|all| serde_json::from_value(Value::Object(all)));
    answer.map_err(|e| format!("its answer is not understood: {e}"))
}

/// The request with these fields in place of its own; null takes one away.
fn change(mut spec: Value, fields: Map<String, Value>) -> Result<JobSpec, String> {
    for (name, value) in fields {
        if !CHANGEABLE.contains(&name.as_str()) {
            return Err(format!("it may not change {name:?}, but {}", CHANGEABLE.join(", ")));
        }
        let Some(all) = spec.as_object_mut() else { return Err("the request is no object".into()) };
        if value.is_null() {
            all.remove(&name);
        } else {
            all.insert(name, value);
        }
    }
    serde_json::from_value(spec).map_err(|e| format!("what it changed is not understood: {e}"))
}

/// Text of a program, without what could play with a terminal.
fn for_people(text: &str) -> String {
    let text: String =
        text.trim().chars().filter(|c| !c.is_control() || *c == '\n').take(MAX_REFUSAL).collect();
    if text.is_empty() { "the site's submit hook refuses it".into() } else { text }
}

/// One of so many that are at it.
struct Turn<'a> {
    hook: &'a SubmitHook,
    uid: Uid,
}

impl<'a> Turn<'a> {
    fn wait(hook: &'a SubmitHook, uid: Uid) -> Option<Self> {
        let end = Instant::now() + PATIENCE;
        let mut at_it = hook.at_it.lock().unwrap_or_else(PoisonError::into_inner);
        while at_it.values().sum::<usize>() >= MOST || at_it.get(&uid).is_some_and(|own| *own >= MOST_EACH) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            at_it = hook.left.wait_timeout(at_it, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *at_it.entry(uid).or_default() += 1;
        Some(Self { hook, uid })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut at_it = self.hook.at_it.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = at_it.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                at_it.remove(&self.uid);
            }
        }
        drop(at_it);
        self.hook.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{MemoryAsk, MiB, Seconds, TimeAsk};
    use std::path::Path;

    fn hook(script: &str) -> SubmitHook {
        let conf =
            gq_conf::parse("[hooks]\nsubmit = [\"/bin/sh\", \"-c\", \"\"]\n", Path::new("gq.conf")).unwrap();
        let mut hooks = conf.hooks;
        hooks.submit[2] = script.to_owned();
        SubmitHook::new(&hooks, &Surroundings::new(Path::new("/gq.conf"), "lab"))
    }

    fn spec() -> JobSpec {
        JobSpec {
            name: "train".into(),
            work_dir: "/w".into(),
            partition: Some("main".into()),
            memory: MemoryAsk::PerNode(MiB(7)),
            ..JobSpec::default()
        }
    }

    fn pass(script: &str) -> Result<JobSpec, Refused> {
        let script_of_job = b"#!/bin/sh\n\xff\n";
        let request = Request { uid: Uid(7), user: "ann", admin: false, script: Some(script_of_job) };
        hook(script).pass(&request, spec())
    }

    #[test]
    fn it_is_told_of_the_request_and_changes_what_it_may() {
        let took = |script: &str| pass(script).unwrap_or_else(|e| panic!("{script}: {e:?}"));
        assert_eq!(took("cat >/dev/null"), spec());
        assert_eq!(took("echo '{}'"), spec());
        let told = "grep -q '\"uid\":7' && echo '{\"change\": {\"comment\": \"seen\"}}'";
        assert_eq!(took(told).comment.as_deref(), Some("seen"));
        let changed = took(
            r#"echo '{"change": {"partition": null, "time_limit": 60, "memory": {"PerCpu": 3}, "nice": 5, "cards": {"count": 2}}}'"#,
        );
        assert_eq!(
            (changed.partition, changed.time_limit, changed.nice),
            (None, Some(TimeAsk::Limit(Seconds(60))), 5)
        );
        let longest = took(r#"echo '{"change": {"time_limit": "UNLIMITED"}}'"#);
        assert_eq!(longest.time_limit, Some(TimeAsk::Longest));
        assert_eq!((changed.memory, changed.cards.count), (MemoryAsk::PerCpu(MiB(3)), 2));
        assert_eq!((changed.name.as_str(), changed.work_dir.as_str()), ("train", "/w"));
    }

    #[test]
    fn it_refuses_with_its_own_words_and_when_it_fails() {
        let refused = |script: &str| pass(script).unwrap_err().refusal().text;
        assert_eq!(
            refused("printf %s '{\"refuse\": \" use\\u001b[2J fewer\\ncards \"}'"),
            "use[2J fewer\ncards"
        );
        for script in [
            "exit 1",
            "echo no",
            "echo '[]'",
            "echo '{\"refused\": \"x\"}'",
            "echo '{\"change\": {\"name\": \"x\"}}'",
            "echo '{\"change\": {\"work_dir\": null}}'",
            "echo '{\"change\": {\"time_limit\": \"long\"}}'",
            "echo '{} {}'",
            "echo '{}'; exit 2",
        ] {
            assert!(refused(script).contains("hook failed"), "{script}");
        }
        let gone = hook("true");
        *gone.program.lock().unwrap() =
            Program::new(&["/no/such".into()], Seconds(1), &Surroundings::new(Path::new("/gq.conf"), "lab"))
                .map(Arc::new);
        let request = Request { uid: Uid(7), user: "ann", admin: false, script: None };
        assert!(gone.pass(&request, spec()).is_err());
    }

    #[test]
    fn every_field_that_may_be_changed_is_one_of_a_request() {
        let mut full = json!({"name": "n", "work_dir": "/", "umask": 18});
        let values = json!({"account": "a", "cards": {"count": 1}, "comment": "c", "deadline": 5, "exclude": ["n1"],
            "features": ["f"], "hold": true, "licences": [{"name": "l", "count": 1}], "memory": {"PerCard": 1}, "nice": 1,
            "nodelist": ["n2"], "partition": "p", "qos": "q", "requeue": false, "reservation": "r", "time_limit": 9,
            "time_min": 8});
        full.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        let back = serde_json::to_value(serde_json::from_value::<JobSpec>(full).unwrap()).unwrap();
        for name in CHANGEABLE {
            assert_eq!(back[name], values[name], "{name}");
        }
        assert_eq!(values.as_object().unwrap().len(), CHANGEABLE.len());
    }

    #[test]
    fn so_many_are_at_it_and_no_more_for_one_user() {
        let hook = SubmitHook::default();
        let own: Vec<Turn<'_>> = (0..MOST_EACH).map(|_| Turn::wait(&hook, Uid(1)).unwrap()).collect();
        let others: Vec<Turn<'_>> = (2..6).map(|uid| Turn::wait(&hook, Uid(uid)).unwrap()).collect();
        assert_eq!(own.len() + others.len(), MOST);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| Turn::wait(&hook, Uid(9)).is_some());
            drop(own);
            assert!(waits.join().unwrap());
        });
        drop(others);
        assert!(hook.at_it.lock().unwrap().is_empty());
    }
}
