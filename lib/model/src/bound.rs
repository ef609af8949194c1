//! Bound: in what a run can be kept within what it asked for, by the machine it runs on.

use serde::{Deserialize, Serialize};

/// What a run is kept within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Memory.
    Memory,
    /// How many processes and threads there are.
    Processes,
    /// Which cards can be opened.
    Cards,
    /// How much cpu time it gets.
    Cpus,
    /// That it stands still while it is suspended, whoever would have it go on.
    Suspension,
    /// Which folders are its own, of those that everybody has otherwise.
    Folders,
}

impl Bound {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Processes, Self::Cards, Self::Cpus, Self::Suspension, Self::Folders];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cards => "cards",
            Self::Cpus => "cpus",
            Self::Suspension => "suspension",
            Self::Folders => "folders",
        }
    }
}
