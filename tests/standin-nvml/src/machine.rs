//! The description of a machine: the shape of the JSON file, and where the library finds it. It answers no call.

use crate::code::Code;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How often a call that hangs looks whether it still is to.
const HANGING: std::time::Duration = std::time::Duration::from_millis(20);

/// A machine with its cards, as the stand-in library shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the driver, such as `550.90.07`.
    pub driver_version: String,
    /// Every call fails so: the driver is gone, or was never there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<Code>,
    /// Calls do not return as long as this is so: the driver hangs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hangs: bool,
    /// The cards in the order of their indices.
    pub cards: Vec<Card>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Product name, such as `NVIDIA A100-SXM4-80GB`.
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// Number of its `/dev/nvidia<minor>`; none where the driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Its bus in PCI domain 0 (device 0).
    pub bus: u32,
    /// Its memory in mebibytes.
    pub memory_mib: u64,
    /// Every call about this card or its slices fails so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<Code>,
    /// Calls about this card or its slices that fail, by the name of the C function.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fails_at: BTreeMap<String, Code>,
    /// MIG mode; none for a card that has no such mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// Its slices by index; null is a hole, as after an instance was destroyed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Option<Slice>>,
    /// The GPU instances it can be cut into; none at all: the driver does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// GPU instances that have no compute instance (yet).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<Bare>,
    /// What each of its NVLink links leads to; null is an inactive link. None at all: a card without NVLink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Option<Link>>,
    /// Processes with a compute context on the whole card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// Processes with a graphics context on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawing: Vec<u32>,
    /// How much memory of the card processes have, in mebibytes, by their pids; one that is not here has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_mib: BTreeMap<u32, u64>,
    /// Use of the card in percent.
    #[serde(default)]
    pub utilization: u32,
    /// Who may compute on it: `NVML_COMPUTEMODE_…`.
    #[serde(default)]
    pub compute_mode: u32,
    /// What its clocks were set to.
    #[serde(default, skip_serializing_if = "Clocks::are_free")]
    pub clocks: Clocks,
    /// The energy that it has taken, in millijoules; none for a card that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_mj: Option<u64>,
}

/// Clocks that were set, in megahertz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// For programs.
    pub programs: Option<u32>,
    /// The upper bound of the card's.
    pub locked: Option<u32>,
    /// The upper bound of its memory's.
    pub memory: Option<u32>,
}

impl Clocks {
    fn are_free(&self) -> bool {
        *self == Self::default()
    }
}

/// The far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// The card of this index.
    Card(u32),
    /// An NVSwitch.
    Switch,
}

/// One MIG instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// The profile that its name ends with, such as `1g.10gb`; none for a driver that gives it no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `MIG-…`.
    pub uuid: String,
    /// Its memory in mebibytes.
    pub memory_mib: u64,
    /// Compute slices of its GPU instance.
    pub gpu_slices: u32,
    /// Compute slices of its compute instance.
    pub compute_slices: u32,
    /// Id of the GPU instance on its card.
    pub gpu_instance: u32,
    /// Id of the compute instance in its GPU instance.
    #[serde(default)]
    pub compute_instance: u32,
    /// Where its GPU instance lies; none for an instance that the driver tells nothing more of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Place>,
    /// Processes with a compute context on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// Every call about it fails so, but for those that tell its handle and its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<Code>,
    /// Somebody else, such as a monitor, holds it open: it cannot be destroyed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_use: bool,
}

/// Where a GPU instance lies on its card's memory axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The first unit.
    pub start: u32,
    /// How many.
    pub size: u32,
}

impl Place {
    /// Whether two share a unit.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.start.saturating_add(other.size)
            && other.start < self.start.saturating_add(self.size)
    }
}

/// A profile of GPU instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// NVML's number of the kind: `NVML_GPU_INSTANCE_PROFILE_…`.
    pub kind: u32,
    /// The id on this product.
    pub id: u32,
    /// Its name, such as `1g.10gb`; none for a driver that tells only figures (the plain call).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Compute slices.
    pub slices: u32,
    /// Most instances of it.
    pub most: u32,
    /// Memory of an instance in mebibytes.
    pub memory_mib: u64,
    /// Units of an instance.
    pub size: u32,
    /// Where it may begin.
    pub starts: Vec<u32>,
}

/// A GPU instance without compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bare {
    /// Its id on the card.
    pub id: u32,
    /// The id of its profile.
    pub profile: u32,
    /// Where it lies.
    pub placement: Place,
}

impl Machine {
    /// The name of the description beside the library.
    pub(crate) const FILE: &'static str = "machine.json";
    /// The name of the file beside it whose length is how often it was asked how busy a card or slice is.
    pub(crate) const LOOKS: &'static str = "looks";

    /// Reads a description.
    ///
    /// # Errors
    /// The file cannot be read, or is no description; the error names the file.
    pub fn read(file: &Path) -> std::io::Result<Self> {
        let named = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", file.display()));
        let text = std::fs::read_to_string(file).map_err(named)?;
        serde_json::from_str(&text).map_err(|e| named(e.into()))
    }

    /// The machine as it is now. It is read anew at each call: a test that changes the file need not wait for a clock tick.
    pub(crate) fn now() -> Result<Self, Code> {
        let machine = loop {
            match Self::read(&Self::path()) {
                Ok(machine) if machine.hangs => std::thread::sleep(HANGING),
                Ok(machine) => break machine,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(Code::DriverNotLoaded),
                Err(e) => {
                    eprintln!("standin-nvml: {e}");
                    return Err(Code::Unknown);
                }
            }
        };
        match machine.fails {
            Some(code) => Err(code),
            None => Ok(machine),
        }
    }

    /// Changes the machine, for all processes that look at it. A lock beside the description keeps other writers out; readers see
    /// the old machine or the new one, whole.
    pub(crate) fn change<T>(file: &Path, how: impl FnOnce(&mut Self) -> T) -> std::io::Result<T> {
        let lock = std::fs::OpenOptions::new().create(true).append(true).open(file.with_extension("lock"))?;
        lock.lock()?;
        let mut machine = Self::read(file)?;
        let told = how(&mut machine);
        machine.write(file)?;
        Ok(told)
    }

    /// Puts the description in the place of an older one, whole.
    pub(crate) fn write(&self, file: &Path) -> std::io::Result<()> {
        let new = file.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(new, file)
    }

    /// Adds a byte to the file [`Machine::LOOKS`] beside the description.
    pub(crate) fn count_look() {
        let file = Self::path().with_file_name(Self::LOOKS);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, b"."));
    }

    pub(crate) fn path() -> PathBuf {
        match std::env::var_os("GQ_STANDIN_NVML") {
            Some(path) => PathBuf::from(path),
            None => loaded_from().with_file_name(Self::FILE),
        }
    }
}

/// The file that this code was loaded from; empty if the kernel does not tell.
///
/// So two copies of the library in one process, each loaded from its own folder, show two machines.
fn loaded_from() -> PathBuf {
    let here = loaded_from as fn() -> PathBuf as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().find_map(|line| covers(line, here)).unwrap_or_default()
}

/// The file of a line of `/proc/self/maps` if its range covers `address`.
fn covers(line: &str, address: usize) -> Option<PathBuf> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |hex| usize::from_str_radix(hex, 16).ok();
    let inside = (number(from)?..number(to)?).contains(&address);
    inside.then(|| rest.find('/').and_then(|at| rest.get(at..)).map(PathBuf::from)).flatten()
}
