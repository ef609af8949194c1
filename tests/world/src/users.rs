//! Users and admins: what they ask for, and how long they ask again when nobody answers.

use crate::{
    dice::Dice,
    gqd::Gqd,
    spool::{JobFile, Spool},
    truth::Truth,
};
use gq_cluster::Role;
use gq_engine::{Actor, Answer, ClientId, Input, NodeVerb, Past, Selection, Submission, Verb};
use gq_model::{Change, JobId, JobRef, JobSpec, Seconds, SignalTo, TimeAsk, Token, Uid};

const ROOT: Uid = Uid(0);
/// How often somebody names his token again before he gives up.
const TRIES: u32 = 6;

/// What jobs ask for, beside what every job says.
const KINDS: [&str; 34] = [
    "",
    r#""cpus_per_task":4"#,
    r#""cards":{"count":1}"#,
    r#""cards":{"count":2},"cpus_per_task":2,"time_limit":60"#,
    r#""exclusive":true"#,
    r#""hold":true"#,
    r#""cards":{"count":1,"profile":"1g.10gb"}"#,
    r#""cards":{"count":1,"profile":"3g.40gb"},"time_limit":100"#,
    r#""cards":{"count":1,"memory":20480}"#,
    r#""partition":"high","cpus_per_task":3"#,
    r#""array":"0-3%2""#,
    r#""array":"0-9%3","cards":{"count":1}"#,
    r#""array":"1,4-6","retry":{"times":2}"#,
    r#""array":"0-5","hold":true"#,
    r#""array":"0-3","dependency":"aftercorr:1""#,
    r#""dependency":"afterok:1""#,
    r#""dependency":"afterok:1:2","kill_on_invalid_dep":true"#,
    r#""dependency":"afternotok:1?afternotok:3""#,
    r#""dependency":"afterany:2""#,
    r#""dependency":"singleton""#,
    r#""prep":true,"cards":{"count":1}"#,
    r#""prep":true,"array":"2-4%1","cards":{"count":1},"retry":{"times":1,"exits":[1]}"#,
    r#""max_wait":{"after":60,"then":"Cancel"},"cpus_per_task":4"#,
    r#""requeue":true"#,
    r#""requeue":true,"retry":{"times":3}"#,
    r#""requeue":true,"cards":{"count":1}"#,
    r#""requeue":true,"array":"0-4","cards":{"count":1}"#,
    r#""requeue":"on-lost""#,
    r#""requeue":"on-lost","cards":{"count":1}"#,
    r#""requeue":"on-lost","array":"0-5","cards":{"count":1}"#,
    r#""requeue":"on-lost","prep":true,"cpus_per_task":2"#,
    r#""requeue":false"#,
    r#""requeue":false,"cards":{"count":1}"#,
    r#""time_limit":600,"time_min":60"#,
];

/// What jobs ask for where everybody's work is to go on when a node is lost.
const LEASED: [&str; 3] = [
    r#""requeue":"on-lost""#,
    r#""requeue":"on-lost","cards":{"count":1}"#,
    r#""requeue":"on-lost","array":"0-3""#,
];

/// Somebody who submitted a job and waits for its id.
#[derive(Debug)]
struct Asker {
    token: Token,
    uid: Uid,
    drop_name: String,
    tries: u32,
    /// His connection, while there is one.
    client: Option<ClientId>,
}

/// Everybody who asks.
#[derive(Debug, Default)]
pub(crate) struct Users {
    askers: Vec<Asker>,
    /// Whether most of what they submit has a lease.
    want_leases: bool,
    tokens: u32,
    clients: u64,
}

fn spec(kind: &str) -> JobSpec {
    let comma = if kind.is_empty() { "" } else { "," };
    let text = format!(r#"{{"name":"sim","work_dir":"/home","umask":18{comma}{kind}}}"#);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn actor(uid: Uid) -> Actor {
    Actor { uid, role: if uid == ROOT { Role::Admin } else { Role::User } }
}

/// The request in a job file, as the intake makes it.
fn submission(file: &JobFile, drop_name: &str) -> Box<Submission> {
    let spec: JobSpec = serde_json::from_str(&file.spec).unwrap_or_else(|error| panic!("{error}"));
    Box::new(Submission {
        by: actor(file.uid),
        user: format!("user{}", file.uid),
        token: file.token,
        drop_name: drop_name.to_owned(),
        spec: spec.into(),
        sha256: "00".into(),
    })
}

impl Users {
    pub(crate) fn new(want_leases: bool) -> Self {
        Self { want_leases, ..Self::default() }
    }

    fn client(&mut self) -> ClientId {
        self.clients += 1;
        ClientId(self.clients)
    }

    /// Somebody makes a job file; now and then he dies before he asks, or wants no answer.
    pub(crate) fn submit(&mut self, spool: &mut Spool, dice: &mut Dice) {
        let kinds = if self.want_leases && !dice.one_in(4) { &LEASED[..] } else { &KINDS };
        let Some(kind) = dice.pick(kinds) else { return };
        self.tokens += 1;
        let mut token = [0; 16];
        token[..4].copy_from_slice(&self.tokens.to_be_bytes());
        let (token, uid) = (Token(token), Uid(1001 + dice.roll(3) as u32));
        let text = serde_json::to_string(&spec(kind)).unwrap_or_else(|error| panic!("{error}"));
        let is_offline = dice.one_in(10);
        let drop_name = if is_offline { format!("{token}.job") } else { format!(".s.{token}") };
        spool.make_synced(&format!("drop/{drop_name}"), JobFile { uid, token, spec: text });
        if !is_offline && !dice.one_in(20) {
            self.askers.push(Asker { token, uid, drop_name, tries: TRIES, client: None });
        }
    }

    /// Whoever has no connection asks again, and now and then somebody who has one and has lost patience.
    pub(crate) fn ask(&mut self, gqd: &mut Gqd, spool: &mut Spool, truth: &mut Truth, dice: &mut Dice) {
        let mut rest = Vec::new();
        for mut asker in std::mem::take(&mut self.askers) {
            if asker.client.is_some() && !dice.one_in(8) {
                rest.push(asker);
                continue;
            }
            let known = gqd.keeper.store.token(asker.token).unwrap_or_else(|error| panic!("{error}"));
            if let Some((job, uid)) = known {
                assert_eq!(uid, asker.uid);
                tell(truth, job, &asker);
                continue;
            }
            let Some(file) = spool.file(&format!("drop/{}", asker.drop_name)) else {
                // Moved, and not recorded: it comes back with the next life, or is on its way.
                asker.tries = asker.tries.saturating_sub(1);
                if asker.tries > 0 {
                    rest.push(asker);
                }
                continue;
            };
            let submission = submission(file, &asker.drop_name);
            let client = self.client();
            asker.client = Some(client);
            let past = past(gqd, &submission);
            gqd.inputs.push(Input::Submit { client: Some(client), submission, known, past });
            rest.push(asker);
        }
        self.askers = rest;
    }

    /// The scan takes up what was left without a client.
    pub(crate) fn scan(gqd: &mut Gqd, spool: &Spool, tokens: u32) {
        for number in 1..=tokens {
            let mut token = [0; 16];
            token[..4].copy_from_slice(&number.to_be_bytes());
            let drop_name = format!("{}.job", Token(token));
            let Some(file) = spool.file(&format!("drop/{drop_name}")) else { continue };
            let submission = submission(file, &drop_name);
            let known = gqd.keeper.store.token(submission.token).unwrap_or_else(|error| panic!("{error}"));
            let past = past(gqd, &submission);
            gqd.inputs.push(Input::Submit { client: None, submission, known, past });
        }
    }

    /// Whether nobody waits for an id.
    pub(crate) fn is_quiet(&self) -> bool {
        self.askers.is_empty()
    }

    pub(crate) const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Answers reach those who wait for them.
    pub(crate) fn hear(&mut self, answers: Vec<(ClientId, Answer)>, spool: &mut Spool, truth: &mut Truth) {
        for (client, answer) in answers {
            let Some(at) = self.askers.iter().position(|asker| asker.client == Some(client)) else {
                continue;
            };
            let mut asker = self.askers.swap_remove(at);
            match answer {
                Answer::Submitted(job) => tell(truth, job, &asker),
                // For want of room, or while it dies: he may ask again.
                Answer::Refused(_)
                    if asker.tries > 1 && spool.file(&format!("drop/{}", asker.drop_name)).is_some() =>
                {
                    asker.tries -= 2;
                    asker.client = None;
                    self.askers.push(asker);
                }
                Answer::Refused(_) => spool.remove(&format!("drop/{}", asker.drop_name)),
                Answer::Done { .. } | Answer::Tested { .. } => panic!("{answer:?} to a submission"),
            }
        }
    }

    /// The controller is dead: connections are broken.
    pub(crate) fn controller_died(&mut self) {
        self.askers.iter_mut().for_each(|asker| asker.client = None);
    }

    /// Somebody wants something done to jobs.
    pub(crate) fn command(&mut self, gqd: &mut Gqd, dice: &mut Dice) {
        let verb = match dice.roll(16) {
            0..=2 => Verb::Cancel,
            3 => Verb::Hold,
            4 => Verb::Release,
            5 | 6 => Verb::Requeue { hold: false },
            7 => Verb::Requeue { hold: true },
            8 => Verb::Suspend,
            9 => Verb::Continue,
            10 => Verb::Update(vec![Change::AtOnce(Some(1))]),
            11 => Verb::Update(vec![Change::AtOnce(None), Change::Begin(None)]),
            12 => Verb::Update(vec![Change::TimeLimit(TimeAsk::Limit(Seconds(90))), Change::Nice(3)]),
            13 => Verb::Update(vec![Change::Dependency(None)]),
            14 => Verb::Signal(10, SignalTo::All),
            _ => Verb::Release,
        };
        let job = JobId(1 + dice.roll(gqd.cluster.last_job().0 + 1));
        let tasks = dice.one_in(3).then(|| [dice.roll(5) as u32, 2, 3].into_iter().collect());
        let by = if dice.one_in(2) { ROOT } else { Uid(1001 + dice.roll(3) as u32) };
        self.order(gqd, by, verb, Selection { jobs: vec![JobRef { job, tasks }], ..Selection::default() });
    }

    /// Does something to jobs as `by`.
    pub(crate) fn order(&mut self, gqd: &mut Gqd, by: Uid, verb: Verb, select: Selection) {
        let client = self.client();
        let named = select.jobs.iter().map(|named| named.job).filter(|id| gqd.cluster.job(*id).is_none());
        let ended = named.filter_map(|id| gqd.gone(id)).collect();
        gqd.inputs.push(Input::Command { client, by: actor(by), verb, select, ended, past: Vec::new() });
    }

    /// An admin does something to all jobs.
    pub(crate) fn order_all(&mut self, gqd: &mut Gqd, verb: Verb) {
        let partitions = ["main", "high"].map(String::from).to_vec();
        self.order(gqd, ROOT, verb, Selection { partitions, ..Selection::default() });
    }

    /// An admin does something to a node.
    pub(crate) fn steer(&mut self, gqd: &mut Gqd, node: &gq_model::NodeName, verb: NodeVerb) {
        let client = self.client();
        gqd.inputs.push(Input::Nodes { client, by: actor(ROOT), nodes: vec![node.clone()], verb });
    }
}

/// What became of the jobs that a submission waits for.
fn past(gqd: &Gqd, submission: &Submission) -> Vec<Past> {
    let past = gqd.keeper.past(&gqd.cluster, submission.spec.dependency.as_ref(), false);
    past.unwrap_or_else(|error| panic!("{error}"))
}

/// An id is printed.
fn tell(truth: &mut Truth, job: JobId, asker: &Asker) {
    let owner = (asker.token, asker.uid);
    assert_eq!(*truth.told.entry(job).or_insert(owner), owner, "job {job} is two");
}
