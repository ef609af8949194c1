//! The exported functions: each checks its pointers, finds what its handle stands for, and writes one answer.
//!
//! Safety of them all, as in NVML: a pointer is null or points to what its type says, writable where it is written to, and a
//! buffer has the length given with it. Null is refused. A handle is never followed, so any number will do.

use crate::code::{self, Code};
use crate::handle::{Handle, Subject};
use crate::machine::{Link, Machine};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::{CStr, c_char, c_uint};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use sys::{nvmlDevice_t, nvmlReturn_t};

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;

/// Calls of init that no shutdown has matched yet; a global because the C interface has no object to keep it in.
static INITS: AtomicUsize = AtomicUsize::new(0);

/// Writes an answer.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null, and writable as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a text with its closing zero into a buffer of `length` bytes.
///
/// # Safety
/// `to` is null or writable for `length` bytes.
unsafe fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Result<(), Code> {
    if to.is_null() {
        return Err(Code::InvalidArgument);
    }
    if text.len() >= length as usize {
        return Err(Code::InsufficientSize);
    }
    // SAFETY: the text and its zero fit into the buffer, which is writable as the caller promises.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// The machine, for a call that wants init first.
pub(crate) fn machine() -> Result<Machine, Code> {
    if INITS.load(SeqCst) == 0 { Err(Code::Uninitialized) } else { Machine::now() }
}

/// Answers a call about a device.
pub(crate) fn about(
    call: &str,
    device: nvmlDevice_t,
    answer: impl FnOnce(&Machine, Subject<'_>) -> Result<(), Code>,
) -> nvmlReturn_t {
    code::number(machine().and_then(|machine| {
        let subject = Subject::find(&machine, Handle::unpack(device)?, call)?;
        answer(&machine, subject)
    }))
}

/// Declares a query of one value about a device.
macro_rules! query {
    ($(#[doc = $doc:literal] $name:ident($out:ty) = |$machine:pat_param, $subject:ident| $value:expr;)*) => {$(
        #[doc = $doc]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: nvmlDevice_t, out: *mut $out) -> nvmlReturn_t {
            about(stringify!($name), device, |$machine, $subject| {
                let value: Result<$out, Code> = $value;
                // SAFETY: the rule of this file.
                unsafe { put(out, value?) }
            })
        }
    )*};
}

query! {
    /// Index of a card, or of a slice on its card.
    nvmlDeviceGetIndex(c_uint) = |_, s| match s.handle {
        Handle::Card(index) | Handle::Slice(_, index) => Ok(index as c_uint),
    };
    /// Number of the device file of a card.
    nvmlDeviceGetMinorNumber(c_uint) = |_, s| s.card.minor.filter(|_| s.slice.is_none()).ok_or(Code::NotSupported);
    /// Where a card sits on the bus.
    nvmlDeviceGetPciInfo_v3(sys::nvmlPciInfo_t) = |_, s| Ok(pci(s.card.bus));
    /// Memory, in the shape of old drivers.
    nvmlDeviceGetMemoryInfo(sys::nvmlMemory_t) = |_, s| {
        let total = memory(s);
        Ok(sys::nvmlMemory_t { total, free: total, used: 0 })
    };
    /// Use of a card in percent; a slice has none. It is counted how often that is asked, so that a test can wait for it.
    nvmlDeviceGetUtilizationRates(sys::nvmlUtilization_t) = |_, s| {
        Machine::count_look();
        match s.slice {
            Some(_) => Err(Code::NotSupported),
            None => Ok(sys::nvmlUtilization_t { gpu: s.card.utilization, memory: s.card.utilization }),
        }
    };
    /// The energy that a card has taken; a slice does not tell.
    nvmlDeviceGetTotalEnergyConsumption(u64) = |_, s| s.card.energy_mj.filter(|_| s.slice.is_none()).ok_or(Code::NotSupported);
    /// The largest number of slices the card can have.
    nvmlDeviceGetMaxMigDeviceCount(c_uint) = |_, s| Ok(if s.card.mig.is_some() { 7 } else { 0 });
    /// Whether the handle is a slice's.
    nvmlDeviceIsMigDeviceHandle(c_uint) = |_, s| Ok(c_uint::from(s.slice.is_some()));
    /// The card of a slice.
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t) = |_, s| match s.slice {
        Some(_) => Ok(Handle::Card(s.index).pack()),
        None => Err(Code::InvalidArgument),
    };
    /// Id of a slice's GPU instance.
    nvmlDeviceGetGpuInstanceId(c_uint) = |_, s| s.slice.map(|it| it.gpu_instance).ok_or(Code::NotSupported);
    /// Id of a slice's compute instance.
    nvmlDeviceGetComputeInstanceId(c_uint) = |_, s| s.slice.map(|it| it.compute_instance).ok_or(Code::NotSupported);
    /// Slice counts and memory of a slice.
    nvmlDeviceGetAttributes_v2(sys::nvmlDeviceAttributes_t) = |_, s| {
        let slice = s.slice.ok_or(Code::NotSupported)?;
        Ok(sys::nvmlDeviceAttributes_t {
            multiprocessorCount: slice.compute_slices.saturating_mul(14),
            sharedCopyEngineCount: slice.compute_slices,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: slice.gpu_slices,
            computeInstanceSliceCount: slice.compute_slices,
            memorySizeMB: slice.memory_mib,
        })
    };
}

fn memory(subject: Subject<'_>) -> u64 {
    subject.slice.map_or(subject.card.memory_mib, |slice| slice.memory_mib).saturating_mul(MIB)
}

/// The PCI facts of the device on a bus of domain 0.
fn pci(bus: u32) -> sys::nvmlPciInfo_t {
    sys::nvmlPciInfo_t {
        busIdLegacy: chars(&format!("0000:{bus:02X}:00.0")),
        domain: 0,
        bus,
        device: 0,
        pciDeviceId: 0x20b2_10de,
        pciSubSystemId: 0,
        busId: chars(&format!("00000000:{bus:02X}:00.0")),
    }
}

/// A text in a C array, cut so that its closing zero fits.
pub(crate) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    array
}

/// Takes the library into use; fails as the machine does.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    code::number(Machine::now().map(|_| {
        INITS.fetch_add(1, SeqCst);
    }))
}

/// Takes the library into use, as `nvmlInit_v2` whatever the flags.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    nvmlInit_v2()
}

/// Matches one init.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    let less = INITS.fetch_update(SeqCst, SeqCst, |inits| inits.checked_sub(1));
    code::number(less.map(|_| ()).map_err(|_| Code::Uninitialized))
}

/// The words for a return code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    code::words(result).as_ptr()
}

/// Version of the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> nvmlReturn_t {
    // SAFETY: the rule of this file.
    code::number(machine().and_then(|it| unsafe { put_text(version, length, &it.driver_version) }))
}

/// How many cards there are, failed ones too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: the rule of this file.
    code::number(machine().and_then(|it| unsafe { put(count, it.cards.len() as c_uint) }))
}

/// The card of an index; a lost card has no handle, as with the real library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    let card = Handle::Card(index as usize).pack();
    about("nvmlDeviceGetHandleByIndex_v2", card, |_, subject| {
        // SAFETY: the rule of this file.
        unsafe { put(device, subject.handle.pack()) }
    })
}

/// The card or slice of a UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    if uuid.is_null() {
        return code::number(Err(Code::InvalidArgument));
    }
    // SAFETY: not null, and a C text by the rule of this file.
    let wanted = unsafe { CStr::from_ptr(uuid) }.to_bytes();
    code::number(machine().and_then(|machine| {
        let found = machine.cards.iter().enumerate().find_map(|(index, card)| {
            if card.uuid.as_bytes() == wanted {
                return Some(Handle::Card(index));
            }
            let is =
                |slice: &Option<crate::Slice>| slice.as_ref().is_some_and(|it| it.uuid.as_bytes() == wanted);
            card.slices.iter().position(is).map(|slice| Handle::Slice(index, slice))
        });
        let subject = Subject::find(&machine, found.ok_or(Code::NotFound)?, "nvmlDeviceGetHandleByUUID")?;
        // SAFETY: the rule of this file.
        unsafe { put(device, subject.handle.pack()) }
    }))
}

/// Product name; a slice's ends with ` MIG ` and its profile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: nvmlDevice_t,
    name: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetName", device, |_, s| {
        let text = match s.slice.and_then(|slice| slice.profile.as_ref()) {
            Some(profile) => format!("{} MIG {profile}", s.card.name),
            None => s.card.name.clone(),
        };
        // SAFETY: the rule of this file.
        unsafe { put_text(name, length, &text) }
    })
}

/// UUID of a card or slice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: nvmlDevice_t,
    uuid: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetUUID", device, |_, s| {
        let text = s.slice.map_or(&s.card.uuid, |slice| &slice.uuid);
        // SAFETY: the rule of this file.
        unsafe { put_text(uuid, length, text) }
    })
}

/// Memory; the struct tells its version, and another version is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: nvmlDevice_t,
    memory_out: *mut sys::nvmlMemory_v2_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetMemoryInfo_v2", device, |_, s| {
        let known = size_of::<sys::nvmlMemory_v2_t>() as c_uint | (2 << 24);
        if memory_out.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: not null, and readable by the rule of this file.
        let version = unsafe { (*memory_out).version };
        if version != known {
            return Err(Code::ArgumentVersionMismatch);
        }
        let total = memory(s);
        let answer = sys::nvmlMemory_v2_t { version, total, reserved: 0, free: total, used: 0 };
        // SAFETY: the rule of this file.
        unsafe { put(memory_out, answer) }
    })
}

/// Processes with a compute context: of a card all, its slices' too; of a slice its own.
///
/// A count of 0, or one that is too small, is answered with "insufficient size" and the count that is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut sys::nvmlProcessInfo_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetComputeRunningProcesses_v3", device, |_, s| {
        // SAFETY: the rule of this file.
        unsafe { tell_processes(computing(s), count, infos) }
    })
}

/// Processes with a graphics context on a whole card; asked as for those that compute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut sys::nvmlProcessInfo_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGraphicsRunningProcesses_v3", device, |_, s| {
        let whole = s.slice.is_none().then_some(&s.card.drawing).into_iter().flatten();
        let found = whole.map(|pid| process(s.card, *pid, c_uint::MAX, c_uint::MAX)).collect();
        // SAFETY: the rule of this file.
        unsafe { tell_processes(found, count, infos) }
    })
}

/// Writes a list of processes where the caller has room for it.
unsafe fn tell_processes(
    found: Vec<sys::nvmlProcessInfo_t>,
    count: *mut c_uint,
    infos: *mut sys::nvmlProcessInfo_t,
) -> Result<(), Code> {
    if count.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null, and both readable and writable by the rule of this file.
    let room = unsafe { count.replace(found.len() as c_uint) } as usize;
    if found.len() > room {
        return Err(Code::InsufficientSize);
    }
    if infos.is_null() && !found.is_empty() {
        return Err(Code::InvalidArgument);
    }
    for (at, info) in found.into_iter().enumerate() {
        // SAFETY: not null, and `at` is below the length that the caller gave.
        unsafe { infos.add(at).write(info) };
    }
    Ok(())
}

fn process(card: &crate::Card, pid: u32, gpu: u32, compute: u32) -> sys::nvmlProcessInfo_t {
    sys::nvmlProcessInfo_t {
        pid,
        usedGpuMemory: card.used_mib.get(&pid).copied().unwrap_or(1) * MIB,
        gpuInstanceId: gpu,
        computeInstanceId: compute,
    }
}

fn computing(subject: Subject<'_>) -> Vec<sys::nvmlProcessInfo_t> {
    let info = |pid, gpu, compute| process(subject.card, pid, gpu, compute);
    let of = |it: &crate::Slice| {
        let (gpu, compute) = (it.gpu_instance, it.compute_instance);
        it.pids.iter().map(|pid| info(*pid, gpu, compute)).collect::<Vec<_>>()
    };
    match subject.slice {
        Some(slice) => of(slice),
        None => {
            let whole = subject.card.pids.iter().map(|pid| info(*pid, c_uint::MAX, c_uint::MAX));
            whole.chain(subject.card.slices.iter().flatten().flat_map(of)).collect()
        }
    }
}

/// Whether a card is in MIG mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetMigMode", device, |_, s| {
        let mode = c_uint::from(s.card.mig.filter(|_| s.slice.is_none()).ok_or(Code::NotSupported)?);
        // SAFETY: the rule of this file.
        unsafe {
            put(current, mode)?;
            put(pending, mode)
        }
    })
}

/// The slice of an index; a hole is not found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: c_uint,
    slice: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetMigDeviceHandleByIndex", device, |machine, s| {
        if s.slice.is_some() || s.card.mig.is_none() {
            return Err(Code::NotSupported);
        }
        let handle = Handle::Slice(s.index, index as usize);
        let found = Subject::find(machine, handle, "nvmlDeviceGetMigDeviceHandleByIndex")?;
        // SAFETY: the rule of this file.
        unsafe { put(slice, found.handle.pack()) }
    })
}

/// How near two cards are: all of a machine hang under one host bridge.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    device: nvmlDevice_t,
    other: nvmlDevice_t,
    level: *mut sys::nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetTopologyCommonAncestor", device, |machine, _| {
        Subject::find(machine, Handle::unpack(other)?, "nvmlDeviceGetTopologyCommonAncestor")?;
        // SAFETY: the rule of this file.
        unsafe { put(level, sys::nvmlGpuLevel_enum_NVML_TOPOLOGY_HOSTBRIDGE) }
    })
}

/// What link `link` of a card leads to; nothing if it is inactive.
fn link_of(subject: Subject<'_>, link: c_uint) -> Result<Option<Link>, Code> {
    if subject.card.links.is_empty() || subject.slice.is_some() {
        return Err(Code::NotSupported);
    }
    subject.card.links.get(link as usize).copied().ok_or(Code::InvalidArgument)
}

/// Whether a link is active.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: nvmlDevice_t,
    link: c_uint,
    active: *mut sys::nvmlEnableState_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetNvLinkState", device, |_, s| {
        let state = c_uint::from(link_of(s, link)?.is_some());
        // SAFETY: the rule of this file.
        unsafe { put(active, state) }
    })
}

/// Where the far end of a link sits on the bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nvmlDevice_t,
    link: c_uint,
    out: *mut sys::nvmlPciInfo_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, |machine, s| {
        let bus = match link_of(s, link)?.ok_or(Code::NotFound)? {
            // The switches sit behind the cards, on buses that no description uses.
            Link::Switch => 0xf0,
            Link::Card(index) => machine.cards.get(index as usize).ok_or(Code::Unknown)?.bus,
        };
        // SAFETY: the rule of this file.
        unsafe { put(out, pci(bus)) }
    })
}

/// What kind of device the far end of a link is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: nvmlDevice_t,
    link: c_uint,
    out: *mut sys::nvmlIntNvLinkDeviceType_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetNvLinkRemoteDeviceType", device, |_, s| {
        let kind = match link_of(s, link)?.ok_or(Code::NotFound)? {
            Link::Card(_) => sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU,
            Link::Switch => sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH,
        };
        // SAFETY: the rule of this file.
        unsafe { put(out, kind) }
    })
}
