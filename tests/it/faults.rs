//! Faults: the real programs are killed just before and just after every durable step that they know, and at random, while users do all that users
//! do. The laws: what was acknowledged is there, nothing runs twice, no card has two holders, every job has one end that somebody asked for, and
//! what is kept of it is what it wrote of itself.

mod check;
mod history;
mod nurse;
mod points;
mod stories;

use crate::lab::{Dice, Lab, Plan, cards, until};
use check::Tally;
pub use check::check;
pub use history::History;
use nix::sys::signal::Signal;
use nurse::{Deaths, Killer, tend};
use points::Points;
use std::{
    cell::{Cell, RefCell},
    fs::{self, File, OpenOptions},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};
use stories::Users;
pub use stories::{Kind, settle};

/// Rounds of stories without a new kill after which a failpoint counts as not reached.
const IN_VAIN: usize = 5;
/// Rounds without a new kill after which a later pass is over.
const ENOUGH: usize = 3;
/// Longest pause from one murder at random to the next.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a daemon that was killed at random stays dead at most.
const DEATH: Duration = Duration::from_millis(200);
/// The programs that have failpoints.
const PROGRAMS: [&str; 4] = ["gqd", "gqnode", "gqstep", "gqsub"];
/// Length at which a node begins a new segment of its log, and of a line that is none.
const LONG_LOG: usize = 16 << 20;
const LONG_LINE: usize = 1 << 20;

/// Two nodes, one by the socket and one by files; nothing is started yet. With `hooks`, a site that would have programs run around its jobs, and
/// has none.
fn lab(hooks: bool) -> Lab {
    let plan = Plan::new().cluster("job_file_keep = \"1s\"").cluster("history_keep = \"1s\"");
    let lab = plan.node("n1", &cards(2)).node("n2", &cards(2)).by_files().ready();
    if hooks {
        let dir = lab.dir().join("hooks.d");
        fs::create_dir(&dir).unwrap();
        let mut conf = OpenOptions::new().append(true).open(lab.conf()).unwrap();
        write!(conf, "[hooks]\nprolog_dir = \"{0}\"\nepilog_dir = \"{0}\"\n", dir.display()).unwrap();
    }
    lab
}

/// Has users tell stories until `enough` says so, while daemons are tended; then judges. `killed`: how many supervisors were.
fn live(
    history: &History<'_>,
    dice: &mut Dice,
    killer: Option<Killer>,
    enough: impl Fn() -> bool,
    killed: impl Fn(Deaths) -> usize,
) -> (Tally, Deaths) {
    let lab = history.lab;
    let users = Users::default();
    let stop = AtomicBool::new(false);
    let deaths = thread::scope(|scope| {
        let nurse = scope.spawn(|| tend(lab, &stop, killer));
        let told = catch_unwind(AssertUnwindSafe(|| {
            while !enough() {
                users.round(history, dice);
                settle(history);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let deaths = nurse.join().unwrap_or_else(|panic| resume_unwind(panic));
        told.unwrap_or_else(|panic| {
            // Its state is shown by a gqd that answers.
            lab.gqd.wait_for_answer();
            resume_unwind(panic)
        });
        deaths
    });
    lab.gqd.wait_for_answer();
    settle(history);
    until("only the daemons are left", || (lab.processes().len() == lab.daemons()).then_some(()));
    (check(history, killed(deaths)), deaths)
}

/// What sweeps came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Kills at failpoints.
    points: usize,
    /// Other kills: of daemons, and of supervisors.
    others: usize,
    tally: Tally,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.points += other.points;
        self.others += other.others;
        self.tally += other.tally;
    }
}

/// Kills a program at each of its failpoints: at the first passing of each, and so many times more at a later one. None when this build has no
/// failpoints.
fn sweep(program: &str, again: usize, mut dice: Dice) -> Option<Sum> {
    let points = RefCell::new(Points::armed(program));
    if points.borrow().left().is_empty() {
        eprintln!("left out: built without failpoints; scripts/test builds with them");
        return None;
    }
    let later = RefCell::new(dice.child());
    let lab = lab(program == "gqstep");
    let victims = match program {
        "gqd" => vec![&lab.gqd],
        "gqsub" => Vec::new(),
        _ => vec![lab.node("n1"), lab.node("n2")],
    };
    let history = History::of(&lab);
    let arm = || {
        let variable = points.borrow().variable();
        match program {
            "gqsub" => history.tell_clients(variable),
            _ => victims.iter().for_each(|victim| victim.tell(variable.clone())),
        }
    };
    arm();
    let (kills, passes, rounds, left) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(usize::MAX));
    let enough = || {
        let now = points.borrow().left().len();
        rounds.set(if now < left.replace(now) { 0 } else { rounds.get() + 1 });
        // What is passed once, when a queue is made, does not come a second time.
        let is_over = now == 0 || (passes.get() > 0 && rounds.get() == ENOUGH);
        if is_over {
            kills.set(kills.get() + points.borrow().killed());
            if passes.replace(passes.get() + 1) == again {
                return true;
            }
            points.borrow_mut().arm_again(&mut later.borrow_mut());
            arm();
            left.set(usize::MAX);
            rounds.set(0);
        }
        assert!(rounds.get() < IN_VAIN, "no story reaches {:?}", points.borrow().left());
        litter(&lab, program == "gqnode");
        victims.iter().for_each(|victim| victim.strike(Signal::SIGKILL));
        false
    };
    let supervisors = |_| if program == "gqstep" { kills.get() } else { 0 };
    let (tally, deaths) = live(&history, &mut dice, None, enough, supervisors);
    let points = points.borrow();
    let reached = points.reached_all_the_same();
    assert!(reached.is_empty(), "said to be out of reach: {reached:?}");
    // Of those that a daemon died of, its failpoints are a part.
    let of_daemons = if victims.is_empty() || program == "gqstep" { 0 } else { kills.get() };
    let sum = Sum { points: kills.get(), others: deaths.daemons.saturating_sub(of_daemons), tally };
    eprintln!("{program}: {sum:?}");
    Some(sum)
}

/// Kills daemons, and supervisors, at random for so many rounds of stories.
fn storm(rounds: usize, mut dice: Dice) -> Sum {
    let killer = Killer { dice: dice.child(), pause: PAUSE, death: DEATH };
    let lab = lab(dice.roll(2) == 0);
    let history = History::of(&lab);
    let told = Cell::new(0);
    let enough = || told.replace(told.get() + 1) == rounds;
    let (tally, deaths) = live(&history, &mut dice, Some(killer), enough, |deaths| deaths.supervisors);
    let sum = Sum { points: 0, others: deaths.daemons + deaths.supervisors, tally };
    eprintln!("at random: {sum:?}");
    sum
}

/// Leaves what daemons tidy up when they start: files in the drop box that nobody wants, and a log that is long.
fn litter(lab: &Lab, logs: bool) {
    let Ok(drop_box) = fs::canonicalize(lab.dir().join("spool/drop")) else { return };
    fs::write(drop_box.join("litter.job"), "nothing").unwrap();
    let stale = File::create(drop_box.join(format!(".s.{:032x}", 1))).unwrap();
    stale.set_modified(SystemTime::now() - Duration::from_secs(2 * 86_400)).unwrap();
    for name in ["n1", "n2"].into_iter().filter(|_| logs) {
        let id = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap_or_default();
        let log = lab.dir().join("state/node").join(id.trim()).join(name).join("log");
        let segments = fs::read_dir(log).into_iter().flatten().map(|entry| entry.unwrap().path());
        if let Some(newest) = segments.max() {
            let line = [vec![b'x'; LONG_LINE], vec![b'\n']].concat();
            let mut log = OpenOptions::new().append(true).open(newest).unwrap();
            (0..=LONG_LOG / LONG_LINE).for_each(|_| log.write_all(&line).unwrap());
        }
    }
}

#[test]
fn gqd_is_killed_at_every_step() {
    sweep("gqd", 1, Dice::new());
}

#[test]
fn gqnode_is_killed_at_every_step() {
    sweep("gqnode", 1, Dice::new());
}

#[test]
fn gqstep_is_killed_at_every_step() {
    sweep("gqstep", 1, Dice::new());
}

#[test]
fn gqsub_is_killed_at_every_step() {
    sweep("gqsub", 1, Dice::new());
}

/// `GQ_SEED` gives a storm again.
#[test]
fn nothing_is_lost_and_nothing_runs_twice_whoever_is_killed() {
    storm(6, Dice::new());
}

/// All sweeps and storms over and over, as long as `GQ_SOAK_MINUTES` says.
#[test]
#[ignore = "as long as is wanted: scripts/soak"]
fn soak() {
    let minutes = std::env::var("GQ_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut seeds = Dice::new();
    let (mut sum, mut swept) = (Sum::default(), 0);
    while Instant::now() < end {
        for program in PROGRAMS {
            let done = sweep(program, 2, Dice::of(seeds.seed()));
            sum += done.expect("scripts/soak builds with failpoints");
        }
        sum += storm(12, Dice::of(seeds.seed()));
        swept += 1;
    }
    let all: usize = PROGRAMS.iter().map(|program| points::of(program).len()).sum();
    println!("failpoints           {all}, swept {swept} times, with {} kills", sum.points);
    println!("kills survived       {}", sum.points + sum.others);
    println!("jobs acknowledged    {}", sum.tally.acknowledged);
    println!("runs                 {}", sum.tally.runs);
    println!("lost                 {}", sum.tally.lost);
    println!("double runs          {}", sum.tally.double);
}
