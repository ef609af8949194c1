//! The past as a whole: which runs fit, a page at a time in the order in which they ended, and how much they held and used, summed up by whatever
//! they have in common. All of it is read of the index `run_sums`; a page of runs, of their rows too, which are checked then.

use crate::{EndedRun, History, StoreError, commit::signed, history::run, load::unsigned, years::first_end};
use gq_model::{JobId, NodeName, RunNumber, TaskIndex, Timestamp, Uid};
use rusqlite::{Row, params_from_iter, types::Value};
use std::collections::HashMap;

/// Most words that one question may have.
pub const MAX_WORDS: usize = 4096;
/// Most rows of sums.
pub const MAX_SUMS: usize = 100_000;

/// Which runs are meant: those that fit every list that is not empty.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    /// Ended at that time or later.
    pub from: Option<Timestamp>,
    /// And before that.
    pub until: Option<Timestamp>,
    /// Of these jobs.
    pub jobs: Vec<JobId>,
    /// Of these users.
    pub users: Vec<Uid>,
    /// Charged to one of these accounts, or labelled so.
    pub accounts: Vec<String>,
    /// In one of these partitions.
    pub partitions: Vec<String>,
    /// On one of these nodes.
    pub nodes: Vec<NodeName>,
    /// Ended in one of these states, by name.
    pub states: Vec<&'static str>,
    /// With one of these names.
    pub names: Vec<String>,
    /// Also those after which their task went on.
    pub again: bool,
    /// Only those of this user, or charged to one of these accounts: all that somebody may see.
    pub seen: Option<(Uid, Vec<String>)>,
}

impl Fits {
    /// How many words it has.
    pub fn words(&self) -> usize {
        let lists = [self.jobs.len(), self.users.len(), self.accounts.len(), self.partitions.len()];
        let seen = self.seen.as_ref().map_or(0, |(_, accounts)| accounts.len());
        lists.iter().sum::<usize>() + self.nodes.len() + self.states.len() + self.names.len() + seen
    }

    /// It as a condition, and what stands for its marks.
    fn condition(&self) -> (String, Vec<Value>) {
        let mut all = vec![if self.again { "1" } else { "again = 0" }.to_owned()];
        let mut values: Vec<Value> = Vec::new();
        for (at, sign) in [(self.from, ">="), (self.until, "<")] {
            if let Some(at) = at {
                all.push(format!("ended {sign} ?"));
                values.push(at.0.into());
            }
        }
        let text = |words: &[String]| words.iter().cloned().map(Value::from).collect::<Vec<_>>();
        let lists = [
            ("job", self.jobs.iter().map(|job| signed(job.0).into()).collect()),
            ("uid", self.users.iter().map(|uid| i64::from(uid.0).into()).collect()),
            ("account", text(&self.accounts)),
            ("partition", text(&self.partitions)),
            ("node", self.nodes.iter().map(|node| node.as_str().to_owned().into()).collect()),
            ("state", self.states.iter().map(|state| (*state).to_owned().into()).collect()),
            ("name", text(&self.names)),
        ];
        let marks = |list: &[Value]| vec!["?"; list.len()].join(",");
        for (column, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            all.push(format!("{column} IN ({})", marks(&list)));
            values.extend(list);
        }
        if let Some((uid, accounts)) = &self.seen {
            let accounts = text(accounts);
            all.push(format!("(uid = ? OR account IN ({}))", marks(&accounts)));
            values.push(i64::from(uid.0).into());
            values.extend(accounts);
        }
        (all.join(" AND "), values)
    }
}

/// Where a page ended: the time, the job, the task and the attempt of its last run.
pub type Mark = (Timestamp, JobId, TaskIndex, RunNumber);

/// A run that ended, or tasks that never started, with what is known of their job beside it.
#[derive(Clone, Debug)]
pub struct PastRun {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub uid: Uid,
    /// Its account, or label for accounting.
    pub account: Option<String>,
    /// Its partition.
    pub partition: String,
    /// Its QOS.
    pub qos: Option<String>,
    /// Its name; none when nobody knows it any more.
    pub name: Option<String>,
    /// Whether it is an array.
    pub array: bool,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// What ended.
    pub run: EndedRun,
}

impl PastRun {
    /// Where a page that ends with it ends.
    pub fn mark(&self) -> Mark {
        (self.run.ended, self.job, self.run.task, self.run.run)
    }

    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let job = JobId(unsigned(row.get(0)?));
        Ok(Self {
            job,
            uid: Uid(row.get("uid")?),
            account: row.get("account")?,
            partition: row.get("partition")?,
            qos: row.get("qos")?,
            name: row.get("name")?,
            array: row.get::<_, Option<bool>>("array")?.unwrap_or(false),
            submitted: Timestamp(row.get("submitted")?),
            run: run(row, job)?,
        })
    }
}

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The user.
    User,
    /// The account.
    Account,
    /// The partition.
    Partition,
    /// The node.
    Node,
    /// The state.
    State,
    /// The name.
    Name,
    /// The span of time in which it ended.
    Period,
}

/// What runs that have something in common held and used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// What they have in common, in the order that was asked for; none where they have nothing there. A user is his uid, a period the number of its
    /// begin among those that were given.
    pub keys: Vec<Option<String>>,
    /// How many runs.
    pub runs: u64,
    /// How many of them were not the last of their task.
    pub again: u64,
    /// Thousandths of a card times microseconds.
    pub cards: u128,
    /// Cpus times microseconds.
    pub cpus: u128,
    /// Mebibytes times microseconds.
    pub memory: u128,
    /// Of the cards what was measured.
    pub cards_measured: u128,
    /// Of that, what was in use.
    pub cards_used: u128,
    /// Of the cpus what was measured.
    pub cpus_measured: u128,
    /// Cpu time in microseconds.
    pub cpus_used: u128,
    /// Of the runs, those whose cards were found idle.
    pub idle: u64,
    /// Of these, those that were ended or put back for it.
    pub reclaimed: u64,
    /// What was left of their time limits, in thousandths of a card times seconds.
    pub given_back: u128,
    /// What the cards cost that had a price, in millionths; none when none had one.
    pub cost: Option<u128>,
}

const SUMMED: &str = "SELECT ended, uid, account, partition, node, state, name, again, coalesce(allocated, started), \
     cpus, memory, worth, cpu_used, gpu_used, idle_times, given_back, cost FROM run INDEXED BY run_sums WHERE node IS NOT NULL AND ";

impl History {
    /// The runs that fit, behind a mark, in the order in which they ended; at most `most`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn past(&self, fits: &Fits, behind: Option<Mark>, most: usize) -> Result<Vec<PastRun>, StoreError> {
        let (mut condition, mut values) = fits.condition();
        if let Some((ended, job, task, run)) = behind {
            condition.push_str(" AND (ended, job, task, run) > (?, ?, ?, ?)");
            values.extend([ended.0, signed(job.0), i64::from(task.0), i64::from(run.0)].map(Value::from));
        }
        let index = match (fits.jobs.is_empty(), fits.users.len()) {
            (false, _) => "",
            (true, 1) => "INDEXED BY run_user",
            (true, _) => "INDEXED BY run_sums",
        };
        let mut runs: Vec<PastRun> = Vec::new();
        let from = fits.from.max(behind.map(|(ended, ..)| ended));
        self.years.each(&self.conn, (from, fits.until), |conn, counts| {
            let last = runs.last().map(|run| run.run.ended).filter(|_| runs.len() >= most);
            if let Some(last) = last
                && first_end(conn)? > last
            {
                return Ok(true);
            }
            let query = format!(
                "SELECT * FROM run {index} WHERE {condition}{counts} ORDER BY ended, job, task, run LIMIT {most}"
            );
            let mut select = conn.prepare(&query)?;
            let mut rows = select.query(params_from_iter(values.clone()))?;
            while let Some(row) = rows.next()? {
                runs.push(PastRun::read(row)?);
            }
            // A job of one year may have runs that ended in the year before.
            runs.sort_by_key(PastRun::mark);
            runs.truncate(most);
            Ok(true)
        })?;
        Ok(runs)
    }

    /// What the runs that fit held and used, by what they have in common. A run counts as a whole where it ended. `periods`: begins of spans of
    /// time, in order. None when there would be more than [`MAX_SUMS`] sums.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sums(
        &self,
        fits: &Fits,
        by: &[By],
        periods: &[Timestamp],
    ) -> Result<Option<Vec<Sums>>, StoreError> {
        let sums = |keys| Sums { keys, ..Sums::default() };
        self.folded(SUMMED, fits, (by, periods), sums, Sums::add)
    }

    /// Puts the runs that fit together by what they have in common; `selected` begins with the columns that keys are made of. None when there would be
    /// more than [`MAX_SUMS`].
    pub(crate) fn folded<T>(
        &self,
        selected: &str,
        fits: &Fits,
        (by, periods): (&[By], &[Timestamp]),
        begin: impl Fn(Vec<Option<String>>) -> T,
        add: impl Fn(&mut T, &Row<'_>) -> Result<(), StoreError>,
    ) -> Result<Option<Vec<T>>, StoreError> {
        let (condition, values) = fits.condition();
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut all, mut key): (Vec<T>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut fit = true;
        self.years.each(&self.conn, (fits.from, fits.until), |conn, counts| {
            let mut select = conn.prepare(&format!("{selected}{condition}{counts}"))?;
            let mut rows = select.query(params_from_iter(values.clone()))?;
            while let Some(row) = rows.next()? {
                key.clear();
                by.iter().try_for_each(|by| add_key(&mut key, row, *by, periods))?;
                let at = match places.get(key.as_slice()) {
                    Some(at) => *at,
                    None if all.len() >= MAX_SUMS => {
                        fit = false;
                        return Ok(false);
                    }
                    None => {
                        places.insert(key.clone(), all.len());
                        let keys = by.iter().map(|by| key_of(row, *by, periods)).collect::<Result<_, _>>()?;
                        all.push(begin(keys));
                        all.len() - 1
                    }
                };
                if let Some(one) = all.get_mut(at) {
                    add(one, row)?;
                }
            }
            Ok(true)
        })?;
        Ok(fit.then_some(all))
    }
}

/// In which period something ended.
fn period_of(ended: i64, periods: &[Timestamp]) -> usize {
    periods.partition_point(|begin| begin.0 <= ended).saturating_sub(1)
}

const fn column_of(by: By) -> usize {
    match by {
        By::Period => 0,
        By::User => 1,
        By::Account => 2,
        By::Partition => 3,
        By::Node => 4,
        By::State => 5,
        By::Name => 6,
    }
}

/// Adds what tells runs apart to the bytes of a key, without a copy of it.
fn add_key(key: &mut Vec<u8>, row: &Row<'_>, by: By, periods: &[Timestamp]) -> Result<(), StoreError> {
    match by {
        By::Period => key.extend(period_of(row.get(0)?, periods).to_le_bytes()),
        By::User => key.extend(row.get::<_, i64>(1)?.to_le_bytes()),
        By::Account | By::Partition | By::Node | By::State | By::Name => {
            let text = row
                .get_ref(column_of(by))?
                .as_bytes_or_null()
                .map_err(|e| StoreError::Damaged(e.to_string()))?;
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            key.extend(length.to_le_bytes());
            key.extend(text.unwrap_or_default());
        }
    }
    Ok(())
}

fn key_of(row: &Row<'_>, by: By, periods: &[Timestamp]) -> Result<Option<String>, StoreError> {
    Ok(match by {
        By::Period => Some(period_of(row.get(0)?, periods).to_string()),
        By::User => Some(row.get::<_, i64>(1)?.to_string()),
        By::Account | By::Partition | By::Node | By::State | By::Name => row.get(column_of(by))?,
    })
}

impl Sums {
    fn add(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let number = |at: usize| -> Result<u64, StoreError> { Ok(unsigned(row.get(at)?)) };
        let ended: i64 = row.get(0)?;
        let held = row.get::<_, Option<i64>>(8)?.map_or(0, |since| unsigned(ended.saturating_sub(since)));
        let held = u128::from(held);
        let (cpus, worth) = (held * u128::from(number(9)?), held * u128::from(number(11)?));
        self.runs += 1;
        self.again += u64::from(row.get::<_, bool>(7)?);
        self.cards += worth;
        self.cpus += cpus;
        self.memory += held * u128::from(number(10)?);
        if let Some(used) = row.get::<_, Option<i64>>(12)? {
            self.cpus_measured += cpus;
            self.cpus_used += u128::from(unsigned(used));
        }
        if let Some(used) = row.get::<_, Option<i64>>(13)? {
            self.cards_measured += worth;
            self.cards_used += worth * u128::from(unsigned(used)) / 1000;
        }
        self.idle += u64::from(row.get::<_, Option<u32>>(14)?.is_some_and(|times| times > 0));
        if let Some(given_back) = row.get::<_, Option<i64>>(15)? {
            self.reclaimed += 1;
            self.given_back += u128::from(unsigned(given_back));
        }
        if let Some(cost) = row.get::<_, Option<i64>>(16)? {
            self.cost = Some(self.cost.unwrap_or(0) + u128::from(unsigned(cost)));
        }
        Ok(())
    }
}
