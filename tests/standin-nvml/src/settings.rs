//! The exported functions that set a card's compute mode and clocks, and those that set its clocks back. Safety as in `calls`.

use crate::calls::machine;
use crate::code::{self, Code};
use crate::handle::{Handle, Subject};
use crate::machine::{Card, Machine};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::c_uint;
use sys::{nvmlDevice_t, nvmlReturn_t};

/// Changes a whole card; a slice has no settings.
fn set(call: &str, device: nvmlDevice_t, how: impl FnOnce(&mut Card)) -> nvmlReturn_t {
    code::number(machine().and_then(|machine| {
        let subject = Subject::find(&machine, Handle::unpack(device)?, call)?;
        if subject.slice.is_some() {
            return Err(Code::NotSupported);
        }
        let index = subject.index;
        let changed = Machine::change(&Machine::path(), |machine| machine.cards.get_mut(index).map(how));
        changed.map(drop).map_err(|_| Code::Unknown)
    }))
}

/// Sets who may compute on a card.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceSetComputeMode(
    device: nvmlDevice_t,
    mode: sys::nvmlComputeMode_t,
) -> nvmlReturn_t {
    set("nvmlDeviceSetComputeMode", device, |card| card.compute_mode = mode)
}

/// Gives up the clocks that were set for programs.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceResetApplicationsClocks(device: nvmlDevice_t) -> nvmlReturn_t {
    set("nvmlDeviceResetApplicationsClocks", device, |card| card.clocks.programs = None)
}

/// Gives up the bounds of a card's clocks.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceResetGpuLockedClocks(device: nvmlDevice_t) -> nvmlReturn_t {
    set("nvmlDeviceResetGpuLockedClocks", device, |card| card.clocks.locked = None)
}

/// Gives up the bounds of the clocks of its memory.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceResetMemoryLockedClocks(device: nvmlDevice_t) -> nvmlReturn_t {
    set("nvmlDeviceResetMemoryLockedClocks", device, |card| card.clocks.memory = None)
}

/// Bounds a card's clocks, in megahertz.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceSetGpuLockedClocks(
    device: nvmlDevice_t,
    _least: c_uint,
    most: c_uint,
) -> nvmlReturn_t {
    set("nvmlDeviceSetGpuLockedClocks", device, |card| card.clocks.locked = Some(most))
}
