//! Who uses cards: the processes with a compute context on them, and how much of their memory any process has. Never says whether they may.

use crate::nvml::{MIB, Nvml, words};
use crate::slices;
use gq_model::{Card, CardHealth, MiB};
use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use std::collections::BTreeMap;

/// A process with a compute context on a card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// The card's index.
    pub card: u32,
    /// The UUID of the slice that it is on; none when it is on the whole card.
    pub slice: Option<String>,
    /// Its pid as the driver's host sees it; a process of another pid namespace has another number there.
    pub pid: u32,
}

/// The processes on a card and its slices, each once on each. What cannot list them fails: nobody can say then that it is free.
pub(crate) fn of(device: &Device<'_>, card: &mut Card) -> Vec<User> {
    let mut users = Vec::new();
    let mut add = |slice: Option<&String>, pids: Vec<u32>| {
        users.extend(pids.into_iter().map(|pid| User { card: card.index, slice: slice.cloned(), pid }));
    };
    let failing = |e: &NvmlError| CardHealth::Failed(format!("cannot list its processes: {}", words(e)));
    if !card.mig {
        match pids(device) {
            Ok(pids) => add(None, pids),
            Err(e) => card.health = failing(&e),
        }
    } else {
        // In MIG mode the card itself tells of its slices' processes only to the privileged.
        match slices::devices(device) {
            Ok(instances) => {
                let named = instances.iter().filter_map(|instance| Some((instance.uuid().ok()?, instance)));
                for (uuid, instance) in named {
                    let Some(slice) = card.slices.iter_mut().find(|it| it.uuid.as_ref() == Some(&uuid))
                    else {
                        continue;
                    };
                    match pids(instance) {
                        Ok(pids) => add(slice.uuid.as_ref(), pids),
                        Err(e) if slices::vanished(&e) => {}
                        Err(e) => slice.health = failing(&e),
                    }
                }
            }
            Err(e) => card.health = failing(&e),
        }
    }
    users.sort();
    users.dedup();
    users
}

/// What a process has of the memory of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The card's UUID.
    pub uuid: String,
    /// Its pid, as [`User::pid`].
    pub pid: u32,
    /// How much it has, its contexts themselves included.
    pub memory: MiB,
}

impl Nvml {
    /// How much of the memory of these cards each process has that computes or draws there, as far as the driver tells it.
    pub fn used<'a>(&self, uuids: impl Iterator<Item = &'a str>) -> Vec<Used> {
        let mut all = Vec::new();
        for uuid in uuids {
            let Ok(device) = self.library.device_by_uuid(uuid) else { continue };
            let lists = [device.running_compute_processes(), device.running_graphics_processes()];
            let mut by_pid: BTreeMap<u32, u64> = BTreeMap::new();
            for process in lists.into_iter().flatten().flatten() {
                if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
                    // Whoever both computes and draws is in both lists, with all that he has.
                    let most = by_pid.entry(process.pid).or_default();
                    *most = bytes.max(*most);
                }
            }
            let of_card = by_pid.into_iter().map(|(pid, bytes)| Used {
                uuid: uuid.to_owned(),
                pid,
                memory: MiB(bytes.div_ceil(MIB)),
            });
            all.extend(of_card);
        }
        all
    }
}

/// The pids of one device; none where it has no such list.
fn pids(device: &Device<'_>) -> Result<Vec<u32>, NvmlError> {
    match device.running_compute_processes() {
        Ok(found) => Ok(found.into_iter().map(|process| process.pid).collect()),
        Err(NvmlError::NoPermission | NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => {
            Ok(Vec::new())
        }
        Err(e) => Err(e),
    }
}
