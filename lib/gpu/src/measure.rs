//! What cards and slices are doing at a moment: how busy they are, who is on them, what energy they took. Keeps no sums.

use crate::nvml::{MIB, Nvml};
use gq_model::MiB;
use nvml_wrapper::{Device, enums::device::UsedGpuMemory};
use std::collections::BTreeMap;

/// A card or slice at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// How busy it is, in percent; none for a slice, of which no driver tells it.
    pub busy: Option<u8>,
    /// The processes on it, by pid, with what they have of its memory if that is told. None when they cannot be listed.
    pub users: Option<BTreeMap<u32, Option<MiB>>>,
    /// How much of its memory is taken, by whomever.
    pub taken: Option<MiB>,
}

impl Nvml {
    /// What the card or slice of this UUID is doing; none when it does not answer.
    pub fn measure(&self, uuid: &str) -> Option<Measure> {
        let device = self.library.device_by_uuid(uuid).ok()?;
        Some(Measure { busy: busy(&device), users: users(&device), taken: taken(&device) })
    }

    /// How busy the card of this UUID is, in percent, and how much of its memory is taken, as far as it tells.
    pub fn glance(&self, uuid: &str) -> (Option<u8>, Option<MiB>) {
        let Ok(device) = self.library.device_by_uuid(uuid) else { return (None, None) };
        (busy(&device), taken(&device))
    }

    /// The energy that the card of this UUID has taken since its driver was loaded, in millijoules; none where that is not told, as of slices.
    pub fn energy(&self, uuid: &str) -> Option<u64> {
        self.library.device_by_uuid(uuid).ok()?.total_energy_consumption().ok()
    }
}

fn busy(device: &Device<'_>) -> Option<u8> {
    device.utilization_rates().ok().and_then(|rates| u8::try_from(rates.gpu.min(100)).ok())
}

fn taken(device: &Device<'_>) -> Option<MiB> {
    device.memory_info().ok().map(|info| MiB(info.used.div_ceil(MIB)))
}

fn users(device: &Device<'_>) -> Option<BTreeMap<u32, Option<MiB>>> {
    let computing = device.running_compute_processes().ok()?;
    let drawing = device.running_graphics_processes().unwrap_or_default();
    let mut users = BTreeMap::new();
    for process in computing.into_iter().chain(drawing) {
        let memory = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(MiB(bytes.div_ceil(MIB))),
            UsedGpuMemory::Unavailable => None,
        };
        // Whoever both computes and draws is in both lists, with all that he has.
        let most: &mut Option<MiB> = users.entry(process.pid).or_default();
        *most = memory.max(*most);
    }
    Some(users)
}
