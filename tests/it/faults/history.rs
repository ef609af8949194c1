//! What happened in a lab, in one order: every call of a client with its answer, and every line that a job wrote while it ran. All of them append
//! to one file of the lab, so that what stands before was before. It judges nothing; see `check`.

use super::stories::Kind;
use crate::lab::{Lab, Said, finish, until};
use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// The file, in the folder in which clients are run.
const FILE: &str = "history";

/// What jobs begin with: `.` it, `begin`, and `end CODE` at last. A run holds the lock of its task and those of its cards.
const PRELUDE: &str = r#"
say() { echo "job $GQ_JOB_ID ${GQ_ARRAY_TASK_ID:-0} $GQ_RUN $*" >>history; }
begin() {
    exec 9>"alone.$GQ_JOB_ID.${GQ_ARRAY_TASK_ID:-0}"
    flock -n 9 || say overlaps
    fd=8
    IFS=,
    for card in $CUDA_VISIBLE_DEVICES; do
        eval "exec $fd>card.$GQ_NODELIST.$card"
        flock -n $fd || say shares
        fd=$((fd - 1))
    done
    unset IFS
    say begins "$GQ_NODELIST" "${CUDA_VISIBLE_DEVICES:--}"
}
end() { say ends "$1"; exit "$1"; }
"#;

/// What a client was told of its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its id.
    Id(u64),
    /// That it lies in the drop box, for `gqd` to find.
    Left,
    /// That nothing came of it.
    Nothing,
    /// Nothing: `gqd` may have it.
    Unknown,
}

/// A submission.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The job's name, which no other has.
    pub name: String,
    /// What kind of job it is.
    pub kind: Kind,
    pub answer: Answer,
}

/// The history of a lab.
pub struct History<'a> {
    pub lab: &'a Lab,
    /// Variables of the clients that submit.
    env: Mutex<Vec<(OsString, OsString)>>,
    calls: AtomicU64,
    submissions: Mutex<Vec<Submission>>,
}

/// A line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A client is called.
    Call { number: u64, words: String },
    /// It has answered, with this exit code, so many microseconds after 1970.
    Answered { number: u64, code: i32, at: i64 },
    /// A run says something of itself.
    Job { run: RunId, words: String },
}

/// Job, task, number of the run.
pub type RunId = (u64, u32, u32);

impl<'a> History<'a> {
    /// An empty history.
    pub fn of(lab: &'a Lab) -> Self {
        lab.file("story", PRELUDE);
        lab.file(FILE, "");
        Self { lab, env: Mutex::default(), calls: AtomicU64::new(0), submissions: Mutex::default() }
    }

    /// Gives the clients that submit from now on a variable, in place of what they had.
    pub fn tell_clients(&self, variable: (OsString, OsString)) {
        *self.env.lock().unwrap() = vec![variable];
    }

    fn note(&self, line: &str) {
        let mut file = OpenOptions::new().append(true).open(self.lab.work(FILE)).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn call(&self, program: &str, words: &[&str], env: &[(OsString, OsString)]) -> Said {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.note(&format!("call {number} {program} {}", words.join(" ")));
        let said = finish(self.lab.client(program).envs(env.iter().cloned()).args(words));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        self.note(&format!("answer {number} {} {now}", said.code));
        said
    }

    /// Asks a client again and again until `gqd` has answered; its exit code is 0, or 1 for what was not to be done.
    #[track_caller]
    pub fn insist(&self, program: &str, words: &[&str]) -> Said {
        until(&format!("{program} {words:?} is answered"), || {
            let said = self.call(program, words, &[]);
            assert!([0, 1, 3, 4].contains(&said.code), "{program} {words:?}: {said:?}");
            (said.code != 3).then_some(said)
        })
    }

    /// Submits once, and notes what came of it.
    #[track_caller]
    pub fn submit(&self, name: &str, kind: Kind, options: &str, command: &str) -> Answer {
        let mut words = vec!["--parsable", "--mem=64M", "-o", "/dev/null", "-J", name];
        words.extend(options.split_ascii_whitespace());
        words.extend(["--wrap", command]);
        let env = self.env.lock().unwrap().clone();
        let said = self.call("gqsub", &words, &env);
        let is_nothing = said.code == 1 || said.err.contains("nothing is submitted");
        let answer = match said.code {
            0 => said.out.trim().parse().map_or(Answer::Left, Answer::Id),
            1 | 3 if is_nothing => Answer::Nothing,
            // Killed, perhaps after it was told.
            3 | 137 => said.out.trim().parse().map_or(Answer::Unknown, Answer::Id),
            _ => panic!("{words:?}: {said:?}"),
        };
        self.submissions.lock().unwrap().push(Submission { name: name.to_owned(), kind, answer });
        answer
    }

    /// Submits until an id was printed, each time under another name.
    #[track_caller]
    pub fn submitted(&self, name: &str, kind: Kind, options: &str, command: &str) -> u64 {
        let mut tries = 0;
        until(&format!("{name} is submitted"), || {
            let told = match tries {
                0 => self.submit(name, kind, options, command),
                again => self.submit(&format!("{name}-{again}"), kind, options, command),
            };
            tries += 1;
            match told {
                Answer::Id(id) => Some(id),
                Answer::Left | Answer::Nothing | Answer::Unknown => None,
            }
        })
    }

    /// What was submitted so far.
    pub fn submissions(&self) -> Vec<Submission> {
        self.submissions.lock().unwrap().clone()
    }

    /// All that happened so far, in order.
    pub fn lines(&self) -> Vec<Line> {
        self.lab.read(FILE).lines().map(read).collect()
    }
}

#[track_caller]
fn read(line: &str) -> Line {
    let parts: Vec<&str> = line.splitn(3, ' ').collect();
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("no line of a history: {line}"));
    match parts.as_slice() {
        ["call", n, words] => Line::Call { number: number(n), words: (*words).to_owned() },
        ["answer", n, rest] => {
            let (code, at) = rest.split_once(' ').unwrap_or_else(|| panic!("no line of a history: {line}"));
            Line::Answered { number: number(n), code: code.parse().unwrap(), at: at.parse().unwrap() }
        }
        ["job", job, rest] => {
            let rest: Vec<&str> = rest.splitn(3, ' ').collect();
            let [task, run, words] = rest.as_slice() else { panic!("no line of a history: {line}") };
            let run = (number(job), task.parse().unwrap(), run.parse().unwrap());
            Line::Job { run, words: (*words).to_owned() }
        }
        _ => panic!("no line of a history: {line}"),
    }
}
