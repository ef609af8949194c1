//! The exported functions about GPU instances and compute instances: profiles, placements, making and destroying. Safety as in
//! `calls`. A compute instance takes its whole GPU instance or a part of it; a second one in the same GPU instance is not made.

use crate::calls::{about, chars, machine, put};
use crate::code::{self, Code};
use crate::handle::{Handle, Subject};
use crate::machine::{Bare, Card, Machine, Place, Profile, Slice};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::c_uint;
use std::ptr;
use sys::{nvmlComputeInstance_t, nvmlDevice_t, nvmlGpuInstance_t, nvmlReturn_t};

/// Room for the instances of one card in the number of a handle.
const INSTANCES: usize = 0x1000;

/// Which GPU instance: index of its card, its id.
#[derive(Clone, Copy)]
struct Gi(usize, u32);

impl Gi {
    fn pack(self) -> nvmlGpuInstance_t {
        ptr::without_provenance_mut((self.0 + 1) * INSTANCES + self.1 as usize)
    }
    fn unpack(instance: nvmlGpuInstance_t) -> Result<Self, Code> {
        Self::of(instance.addr())
    }
    /// A GPU instance has one compute instance at most, so the same number stands for it.
    fn of(number: usize) -> Result<Self, Code> {
        let card = (number / INSTANCES).checked_sub(1).ok_or(Code::InvalidArgument)?;
        Ok(Self(card, (number % INSTANCES) as u32))
    }
}

/// What there is of a GPU instance.
struct Found {
    id: u32,
    profile: Option<u32>,
    placement: Option<Place>,
}

/// All GPU instances of a card, with compute instances and without.
fn instances(card: &Card) -> Vec<Found> {
    let cut = card.slices.iter().flatten().map(|slice| {
        let is = |profile: &&Profile| profile.slices == slice.gpu_slices && same_name(profile, slice);
        let profile = card.profiles.iter().find(is).map(|profile| profile.id);
        Found { id: slice.gpu_instance, profile, placement: slice.placement }
    });
    let bare = card.bare.iter().map(|it| Found {
        id: it.id,
        profile: Some(it.profile),
        placement: Some(it.placement),
    });
    cut.chain(bare).collect()
}

/// Whether a slice is of a profile, by its name or else by its size.
fn same_name(profile: &Profile, slice: &Slice) -> bool {
    match (&profile.name, &slice.profile) {
        (Some(name), Some(of)) => name == of,
        _ => slice.placement.is_none_or(|place| place.size == profile.size),
    }
}

/// The card of a subject, if it is cut or can be.
fn in_mig_mode<'a>(subject: &Subject<'a>) -> Result<&'a Card, Code> {
    match (subject.slice, subject.card.mig) {
        (None, Some(true)) => Ok(subject.card),
        _ => Err(Code::NotSupported),
    }
}

fn profile_of_kind<'a>(subject: &Subject<'a>, kind: c_uint) -> Result<&'a Profile, Code> {
    if subject.slice.is_some() || subject.card.mig.is_none() || subject.card.profiles.is_empty() {
        return Err(Code::NotSupported);
    }
    if kind >= sys::NVML_GPU_INSTANCE_PROFILE_COUNT {
        return Err(Code::InvalidArgument);
    }
    subject.card.profiles.iter().find(|profile| profile.kind == kind).ok_or(Code::NotSupported)
}

fn profile_of_id(card: &Card, id: c_uint) -> Result<&Profile, Code> {
    card.profiles.iter().find(|profile| profile.id == id).ok_or(Code::InvalidArgument)
}

/// Figures of a profile of GPU instances, by the number of its kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceProfileInfo(
    device: nvmlDevice_t,
    profile: c_uint,
    info: *mut sys::nvmlGpuInstanceProfileInfo_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGpuInstanceProfileInfo", device, |_, s| {
        let profile = profile_of_kind(&s, profile)?;
        let answer = sys::nvmlGpuInstanceProfileInfo_t {
            id: profile.id,
            isP2pSupported: 0,
            sliceCount: profile.slices,
            instanceCount: profile.most,
            multiprocessorCount: profile.slices.saturating_mul(14),
            copyEngineCount: profile.slices,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: profile.memory_mib,
        };
        // SAFETY: the rule of `calls`.
        unsafe { put(info, answer) }
    })
}

/// The same with the profile's name; the struct tells its version, and another version is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(
    device: nvmlDevice_t,
    profile: c_uint,
    info: *mut sys::nvmlGpuInstanceProfileInfo_v2_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGpuInstanceProfileInfoV", device, |_, s| {
        let known = size_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>() as c_uint | (2 << 24);
        if info.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: not null, and readable by the rule of `calls`.
        let version = unsafe { (*info).version };
        if version != known {
            return Err(Code::ArgumentVersionMismatch);
        }
        let profile = profile_of_kind(&s, profile)?;
        let name = profile.name.as_deref().ok_or(Code::ArgumentVersionMismatch)?;
        let answer = sys::nvmlGpuInstanceProfileInfo_v2_t {
            version,
            id: profile.id,
            isP2pSupported: 0,
            sliceCount: profile.slices,
            instanceCount: profile.most,
            multiprocessorCount: profile.slices.saturating_mul(14),
            copyEngineCount: profile.slices,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: profile.memory_mib,
            name: chars(name),
        };
        // SAFETY: the rule of `calls`.
        unsafe { put(info, answer) }
    })
}

/// Where instances of a profile (by its id) may lie, taken or not; without a buffer, how many places there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: nvmlDevice_t,
    profile: c_uint,
    placements: *mut sys::nvmlGpuInstancePlacement_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, |_, s| {
        if s.slice.is_some() || s.card.mig.is_none() {
            return Err(Code::NotSupported);
        }
        let profile = profile_of_id(s.card, profile)?;
        let places: Vec<_> = profile
            .starts
            .iter()
            .map(|start| sys::nvmlGpuInstancePlacement_t { start: *start, size: profile.size })
            .collect();
        // SAFETY: the rule of `calls`; a buffer is as long as the count given with it.
        unsafe { put_list(placements, count, &places) }
    })
}

/// Writes a list into a buffer of `count` entries, and how many there are; a null buffer asks only for the count.
///
/// # Safety
/// Both are null or writable, the list for as many entries as the count says.
unsafe fn put_list<T: Copy>(to: *mut T, count: *mut c_uint, list: &[T]) -> Result<(), Code> {
    if count.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null, and readable and writable as the caller promises.
    let room = unsafe { count.replace(list.len() as c_uint) } as usize;
    if to.is_null() {
        return Ok(());
    }
    if room < list.len() {
        return Err(Code::InsufficientSize);
    }
    for (at, entry) in list.iter().enumerate() {
        // SAFETY: not null, and `at` is below the length that the caller gave.
        unsafe { to.add(at).write(*entry) };
    }
    Ok(())
}

/// The GPU instances of a profile (by its id). The caller's buffer has room for as many as the profile allows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstances(
    device: nvmlDevice_t,
    profile: c_uint,
    list: *mut nvmlGpuInstance_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGpuInstances", device, |_, s| {
        let card = in_mig_mode(&s)?;
        profile_of_id(card, profile)?;
        if list.is_null() {
            return Err(Code::InvalidArgument);
        }
        let found: Vec<_> = instances(card)
            .iter()
            .filter(|it| it.profile == Some(profile))
            .map(|it| Gi(s.index, it.id).pack())
            .collect();
        // SAFETY: the rule of `calls`.
        unsafe {
            put(count, found.len() as c_uint)?;
            put_list(list, count, &found)
        }
    })
}

/// The GPU instance of an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceById(
    device: nvmlDevice_t,
    id: c_uint,
    instance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t {
    about("nvmlDeviceGetGpuInstanceById", device, |_, s| {
        let found = instances(in_mig_mode(&s)?).into_iter().find(|it| it.id == id).ok_or(Code::NotFound)?;
        // SAFETY: the rule of `calls`.
        unsafe { put(instance, Gi(s.index, found.id).pack()) }
    })
}

/// Answers a call about a GPU instance.
fn about_instance(
    call: &str,
    instance: Result<Gi, Code>,
    answer: impl FnOnce(&Subject<'_>, &Found) -> Result<(), Code>,
) -> nvmlReturn_t {
    code::number(machine().and_then(|machine| {
        let Gi(card, id) = instance?;
        let subject = Subject::find(&machine, Handle::Card(card), call)?;
        let found = instances(subject.card).into_iter().find(|it| it.id == id).ok_or(Code::NotFound)?;
        answer(&subject, &found)
    }))
}

/// What a GPU instance is and where it lies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetInfo(
    instance: nvmlGpuInstance_t,
    info: *mut sys::nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t {
    about_instance("nvmlGpuInstanceGetInfo", Gi::unpack(instance), |s, found| {
        let place = found.placement.ok_or(Code::Unknown)?;
        let answer = sys::nvmlGpuInstanceInfo_t {
            device: s.handle.pack(),
            id: found.id,
            profileId: found.profile.unwrap_or(c_uint::MAX),
            placement: sys::nvmlGpuInstancePlacement_t { start: place.start, size: place.size },
        };
        // SAFETY: the rule of `calls`.
        unsafe { put(info, answer) }
    })
}

/// Changes the machine for the call `call` about a card; a change that fails leaves it as it was.
fn change<T>(call: &str, card: usize, how: impl FnOnce(&mut Card) -> Result<T, Code>) -> Result<T, Code> {
    machine()?;
    let changed = Machine::change(&Machine::path(), |machine| {
        Subject::find(machine, Handle::Card(card), call)?;
        how(machine.cards.get_mut(card).ok_or(Code::InvalidArgument)?)
    });
    changed.unwrap_or_else(|e| {
        eprintln!("standin-nvml: {call}: {e}");
        Err(Code::Unknown)
    })
}

/// Makes a GPU instance of a profile (by its id) at a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceCreateGpuInstanceWithPlacement(
    device: nvmlDevice_t,
    profile: c_uint,
    placement: *const sys::nvmlGpuInstancePlacement_t,
    instance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t {
    let call = "nvmlDeviceCreateGpuInstanceWithPlacement";
    code::number((|| {
        let Handle::Card(index) = Handle::unpack(device)? else { return Err(Code::NotSupported) };
        if placement.is_null() || instance.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: not null, and readable by the rule of `calls`.
        let wanted = unsafe { placement.read() };
        let place = Place { start: wanted.start, size: wanted.size };
        let id = change(call, index, |card| make(card, profile, place))?;
        // SAFETY: the rule of `calls`.
        unsafe { put(instance, Gi(index, id).pack()) }
    })())
}

fn make(card: &mut Card, profile: c_uint, placement: Place) -> Result<u32, Code> {
    if card.mig != Some(true) {
        return Err(Code::NotSupported);
    }
    let kind = profile_of_id(card, profile)?;
    if placement.size != kind.size || !kind.starts.contains(&placement.start) {
        return Err(Code::InvalidArgument);
    }
    let there = instances(card);
    let of_it = there.iter().filter(|it| it.profile == Some(profile)).count();
    let taken = there.iter().any(|it| it.placement.is_none_or(|place| place.overlaps(placement)));
    if taken || of_it >= kind.most as usize {
        return Err(Code::InsufficientResources);
    }
    let id = (1..INSTANCES as u32).find(|id| there.iter().all(|it| it.id != *id));
    let id = id.ok_or(Code::InsufficientResources)?;
    card.bare.push(Bare { id, profile, placement });
    Ok(id)
}

/// Destroys a GPU instance that has no compute instance.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceDestroy(instance: nvmlGpuInstance_t) -> nvmlReturn_t {
    code::number(Gi::unpack(instance).and_then(|Gi(card, id)| {
        change("nvmlGpuInstanceDestroy", card, |card| {
            if card.slices.iter().flatten().any(|slice| slice.gpu_instance == id) {
                return Err(Code::InUse);
            }
            let at = card.bare.iter().position(|it| it.id == id).ok_or(Code::NotFound)?;
            card.bare.remove(at);
            Ok(())
        })
    }))
}

/// The number of slices of a kind of compute instances.
fn slices_of_kind(kind: c_uint) -> Option<u32> {
    Some(match kind {
        sys::NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE => 1,
        sys::NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE => 2,
        sys::NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE => 3,
        sys::NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE => 4,
        sys::NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE => 7,
        _ => return None,
    })
}

/// Compute slices of a GPU instance.
fn slices(card: &Card, id: u32) -> Result<u32, Code> {
    if let Some(slice) = card.slices.iter().flatten().find(|slice| slice.gpu_instance == id) {
        return Ok(slice.gpu_slices);
    }
    let bare = card.bare.iter().find(|it| it.id == id).ok_or(Code::NotFound)?;
    profile_of_id(card, bare.profile).map(|profile| profile.slices)
}

/// Figures of a profile of compute instances, by the number of its kind; its id is that number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    instance: nvmlGpuInstance_t,
    profile: c_uint,
    engines: c_uint,
    info: *mut sys::nvmlComputeInstanceProfileInfo_t,
) -> nvmlReturn_t {
    about_instance("nvmlGpuInstanceGetComputeInstanceProfileInfo", Gi::unpack(instance), |s, found| {
        if profile >= sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT
            || engines >= sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT
        {
            return Err(Code::InvalidArgument);
        }
        let whole = slices(s.card, found.id)?;
        let count = slices_of_kind(profile).filter(|n| *n <= whole).ok_or(Code::NotSupported)?;
        let answer = sys::nvmlComputeInstanceProfileInfo_t {
            id: profile,
            sliceCount: count,
            instanceCount: whole / count,
            multiprocessorCount: count.saturating_mul(14),
            sharedCopyEngineCount: whole,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
        };
        // SAFETY: the rule of `calls`.
        unsafe { put(info, answer) }
    })
}

/// Makes the compute instance of a GPU instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceCreateComputeInstance(
    instance: nvmlGpuInstance_t,
    profile: c_uint,
    compute: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t {
    code::number(Gi::unpack(instance).and_then(|Gi(index, id)| {
        if compute.is_null() {
            return Err(Code::InvalidArgument);
        }
        change("nvmlGpuInstanceCreateComputeInstance", index, |card| make_compute(card, id, profile))?;
        // SAFETY: the rule of `calls`.
        unsafe { put(compute, ptr::without_provenance_mut(Gi(index, id).pack().addr())) }
    }))
}

fn make_compute(card: &mut Card, id: u32, kind: c_uint) -> Result<(), Code> {
    if card.slices.iter().flatten().any(|slice| slice.gpu_instance == id) {
        return Err(Code::InsufficientResources);
    }
    let at = card.bare.iter().position(|it| it.id == id).ok_or(Code::NotFound)?;
    let bare = card.bare.get(at).copied().ok_or(Code::NotFound)?;
    let of = profile_of_id(card, bare.profile)?;
    let count = slices_of_kind(kind).filter(|n| *n <= of.slices).ok_or(Code::InvalidArgument)?;
    let name = of
        .name
        .as_ref()
        .map(|name| if count == of.slices { name.clone() } else { format!("{count}c.{name}") });
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|_| Code::Unknown)?;
    let slice = Slice {
        profile: name,
        uuid: format!("MIG-{}", random.trim()),
        memory_mib: of.memory_mib,
        gpu_slices: of.slices,
        compute_slices: count,
        gpu_instance: id,
        compute_instance: 0,
        placement: Some(bare.placement),
        pids: Vec::new(),
        in_use: false,
        fails: None,
    };
    card.bare.remove(at);
    match card.slices.iter_mut().find(|slot| slot.is_none()) {
        Some(hole) => *hole = Some(slice),
        None => card.slices.push(Some(slice)),
    }
    Ok(())
}

/// The compute instances of a profile (by its id) in a GPU instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpuInstanceGetComputeInstances(
    instance: nvmlGpuInstance_t,
    profile: c_uint,
    list: *mut nvmlComputeInstance_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    about_instance("nvmlGpuInstanceGetComputeInstances", Gi::unpack(instance), |s, found| {
        let wanted = slices_of_kind(profile).ok_or(Code::InvalidArgument)?;
        if list.is_null() {
            return Err(Code::InvalidArgument);
        }
        let of = s.card.slices.iter().flatten();
        let of = of.filter(|it| it.gpu_instance == found.id && it.compute_slices == wanted);
        let found: Vec<nvmlComputeInstance_t> =
            of.map(|_| ptr::without_provenance_mut(Gi(s.index, found.id).pack().addr())).collect();
        // SAFETY: the rule of `calls`.
        unsafe {
            put(count, found.len() as c_uint)?;
            put_list(list, count, &found)
        }
    })
}

/// Destroys a compute instance that nobody uses.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceDestroy(compute: nvmlComputeInstance_t) -> nvmlReturn_t {
    code::number(Gi::of(compute.addr()).and_then(|Gi(index, id)| {
        change("nvmlComputeInstanceDestroy", index, |card| {
            let is = |slot: &&mut Option<Slice>| slot.as_ref().is_some_and(|it| it.gpu_instance == id);
            let found = instances(card).into_iter().find(|it| it.id == id).ok_or(Code::NotFound)?;
            let slot = card.slices.iter_mut().find(is).ok_or(Code::NotFound)?;
            if slot.as_ref().is_some_and(|slice| slice.in_use || !slice.pids.is_empty()) {
                return Err(Code::InUse);
            }
            *slot = None;
            if let (Some(profile), Some(placement)) = (found.profile, found.placement) {
                card.bare.push(Bare { id, profile, placement });
            }
            Ok(())
        })
    }))
}
