//! The failpoints of a sweep: which there are, at which passing each kills, and which have killed. The passings of all processes of a lab, in all
//! their lives, are counted together, in a file for each failpoint.

use crate::lab::{Dice, finish, program_path};
use std::{collections::BTreeMap, ffi::OsString, fmt::Write, fs, path::PathBuf, process::Command};
use tempfile::TempDir;

/// Failpoints that the stories do not reach, and why.
pub const UNREACHED: [(&str, &str); 5] = [
    ("node.unballast", "only a full disk: crash/room.rs"),
    ("state.migrate", "only a state of an older format; its commit is SQLite's"),
    ("state.probe", "only a full disk: crash/room.rs"),
    ("state.tokens", "once a day"),
    ("state.unballast", "only a full disk: crash/room.rs"),
];

/// A failpoint kills so many passings later at most.
const MOST_LATER: usize = 30;

/// The failpoints of a program.
pub struct Points {
    dir: TempDir,
    /// At which passing each kills.
    turns: BTreeMap<String, u64>,
}

/// The failpoints that a program says it has; none when it was built without.
pub fn of(program: &str) -> Vec<String> {
    let said = finish(Command::new(program_path(program)).arg("--list-failpoints"));
    if said.code == 0 { said.out.lines().map(str::to_owned).collect() } else { Vec::new() }
}

fn is_unreached(point: &str) -> bool {
    UNREACHED.iter().any(|(step, _)| point.strip_prefix(step).is_some_and(|side| side.starts_with('.')))
}

impl Points {
    /// Those of `program`; each kills at its first passing.
    pub fn armed(program: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("gq-points-").tempdir_in("/tmp").unwrap();
        Self { dir, turns: of(program).into_iter().map(|point| (point, 1)).collect() }
    }

    /// Each kills once more, at a passing that the dice choose among as many as there were until now.
    pub fn arm_again(&mut self, dice: &mut Dice) {
        let passed: Vec<u64> = self.turns.keys().map(|point| self.passed(point)).collect();
        for (turn, passed) in self.turns.values_mut().zip(passed) {
            let most = usize::try_from(passed).unwrap().clamp(1, MOST_LATER);
            *turn = passed + 1 + dice.roll(most) as u64;
        }
    }

    /// The variable that arms them.
    pub fn variable(&self) -> (OsString, OsString) {
        let mut all = String::new();
        for (point, turn) in &self.turns {
            write!(all, "{point}=return({turn} {});", self.file(point).display()).unwrap();
        }
        ("FAILPOINTS".into(), all.into())
    }

    fn file(&self, point: &str) -> PathBuf {
        self.dir.path().join(point)
    }

    /// How often a failpoint was passed.
    fn passed(&self, point: &str) -> u64 {
        fs::metadata(self.file(point)).map_or(0, |meta| meta.len())
    }

    /// Those that have not killed yet, and should.
    pub fn left(&self) -> Vec<&str> {
        let has_killed = |point: &str, turn: u64| self.passed(point) >= turn;
        let left =
            self.turns.iter().filter(|(point, turn)| !is_unreached(point) && !has_killed(point, **turn));
        left.map(|(point, _)| point.as_str()).collect()
    }

    /// How many have killed since they were armed last.
    pub fn killed(&self) -> usize {
        self.turns.iter().filter(|(point, turn)| self.passed(point) >= **turn).count()
    }

    /// Those that were said not to be reached, and were.
    pub fn reached_all_the_same(&self) -> Vec<&str> {
        let all = self.turns.keys().map(String::as_str);
        all.filter(|point| is_unreached(point) && self.passed(point) > 0).collect()
    }
}
