//! What a card can be cut into, as its driver tells it; where that is refused, as the shipped table does. Never cuts.

use crate::slices::{profile_of, reads_as_profile};
use gq_model::{Grid, MAX_UNITS, MiB, Placement, Profile, known_grid};
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::{c_char, c_uint};

/// Kinds of profiles that are asked for; NVML knows 17 today and refuses the numbers past its last.
const MAX_KINDS: c_uint = 32;

/// Most places of one profile that are looked at.
const MAX_PLACES: c_uint = 64;

/// A profile and the id by which this card's driver calls it.
pub(crate) struct Kind {
    pub(crate) id: c_uint,
    pub(crate) profile: Profile,
}

/// What a card can be cut into: by its driver, else by the shipped table; none if neither knows it. That a driver does not tell is no
/// trouble of the card: an old one cannot, and a plain user may not ask.
pub(crate) fn of(device: &Device<'_>, model: &str, memory: MiB) -> Option<Grid> {
    match kinds(device, memory) {
        Ok(kinds) => Some(Grid {
            units: kinds.iter().filter_map(|kind| end(&kind.profile)).max()?,
            profiles: kinds.into_iter().map(|kind| kind.profile).collect(),
        }),
        Err(e) => {
            log::debug!("{model}: the driver does not tell what it can be cut into ({e}): by the table");
            known_grid(model, memory)
        }
    }
}

fn end(profile: &Profile) -> Option<u8> {
    profile.placements().filter_map(|place| place.start.checked_add(place.size)).max()
}

/// The profiles of a card, in the order of NVML. `total`: the whole card's memory.
///
/// # Errors
/// The driver refuses, or tells of none.
pub(crate) fn kinds(device: &Device<'_>, total: MiB) -> Result<Vec<Kind>, NvmlError> {
    let mut kinds = Vec::new();
    for number in 0..MAX_KINDS {
        match figures(device, number) {
            Ok(figures) => kinds.extend(kind(device, number, &figures, total)?),
            Err(NvmlError::NotSupported | NvmlError::InvalidArg | NvmlError::NotFound) => {}
            Err(e) => return Err(e),
        }
    }
    if kinds.is_empty() { Err(NvmlError::NotSupported) } else { Ok(kinds) }
}

/// What a driver tells of one kind.
struct Figures {
    id: c_uint,
    slices: c_uint,
    most: c_uint,
    memory: MiB,
    name: Option<String>,
}

/// Asks for one kind with its name, or without where the driver is too old for names.
fn figures(device: &Device<'_>, number: c_uint) -> Result<Figures, NvmlError> {
    let lib = device.nvml().lib();
    let version = size_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>() as c_uint | (2 << 24);
    let mut info = sys::nvmlGpuInstanceProfileInfo_v2_t {
        version,
        id: 0,
        isP2pSupported: 0,
        sliceCount: 0,
        instanceCount: 0,
        multiprocessorCount: 0,
        copyEngineCount: 0,
        decoderCount: 0,
        encoderCount: 0,
        jpegCount: 0,
        ofaCount: 0,
        memorySizeMB: 0,
        name: [0; 96],
    };
    let named = nvml_sym(lib.nvmlDeviceGetGpuInstanceProfileInfoV.as_ref()).and_then(|ask| {
        // SAFETY: the handle came from this very library, which `device` keeps loaded, and the struct says its size.
        nvml_try(unsafe { ask(device.handle(), number, &mut info) })
    });
    match named {
        Ok(()) => Ok(Figures {
            id: info.id,
            slices: info.sliceCount,
            most: info.instanceCount,
            memory: MiB(info.memorySizeMB),
            name: text(&info.name),
        }),
        Err(NvmlError::FailedToLoadSymbol(_)) => plain_figures(device, number),
        Err(NvmlError::UnexpectedVariant(sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH)) => {
            plain_figures(device, number)
        }
        Err(e) => Err(e),
    }
}

fn plain_figures(device: &Device<'_>, number: c_uint) -> Result<Figures, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuInstanceProfileInfo.as_ref())?;
    let mut info = sys::nvmlGpuInstanceProfileInfo_t {
        id: 0,
        isP2pSupported: 0,
        sliceCount: 0,
        instanceCount: 0,
        multiprocessorCount: 0,
        copyEngineCount: 0,
        decoderCount: 0,
        encoderCount: 0,
        jpegCount: 0,
        ofaCount: 0,
        memorySizeMB: 0,
    };
    // SAFETY: the handle came from this very library, which `device` keeps loaded, and the call fills one struct.
    nvml_try(unsafe { ask(device.handle(), number, &mut info) })?;
    Ok(Figures {
        id: info.id,
        slices: info.sliceCount,
        most: info.instanceCount,
        memory: MiB(info.memorySizeMB),
        name: None,
    })
}

/// A profile's name in a C array; none if it holds no such name. Some drivers write it as `MIG 1g.10gb`.
fn text(array: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> =
        array.iter().take_while(|c| **c != 0).map(|c| u8::from_ne_bytes(c.to_ne_bytes())).collect();
    let text = String::from_utf8(bytes).ok()?;
    let name = text.strip_prefix("MIG ").unwrap_or(&text).trim();
    reads_as_profile(name).then(|| name.to_string())
}

/// What nvidia-smi adds to a name whose kind has this number.
const fn suffix(number: c_uint) -> &'static str {
    match number {
        sys::NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 | sys::NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 => "+me",
        sys::NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX
        | sys::NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX
        | sys::NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX => "+gfx",
        sys::NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME | sys::NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME => "-me",
        sys::NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME | sys::NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME => {
            "+me.all"
        }
        _ => "",
    }
}

/// The profile of a kind; none if it has no place within what a grid can hold.
fn kind(
    device: &Device<'_>,
    number: c_uint,
    figures: &Figures,
    total: MiB,
) -> Result<Option<Kind>, NvmlError> {
    let places = placements(device, figures.id)?;
    let Some(first) = places.first() else { return Ok(None) };
    let name = figures.name.clone().unwrap_or_else(|| {
        format!("{}{}", profile_of(figures.slices, figures.slices, figures.memory, total), suffix(number))
    });
    let small = |number: c_uint| u8::try_from(number).unwrap_or(u8::MAX);
    let profile = Profile {
        name,
        size: first.size,
        starts: places.iter().filter(|place| place.size == first.size).map(|place| place.start).collect(),
        most: small(figures.most),
        compute: small(figures.slices),
        memory: figures.memory,
    };
    Ok(Some(Kind { id: figures.id, profile }))
}

/// The places of a profile, lowest first, taken or not. Asked raw, because `possible_placements` of nvml-wrapper 0.13 always
/// returns an empty list.
fn placements(device: &Device<'_>, id: c_uint) -> Result<Vec<Placement>, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetGpuInstancePossiblePlacements_v2.as_ref())?;
    let mut count: c_uint = 0;
    // SAFETY: the handle came from this very library, which `device` keeps loaded; without a buffer the call writes one number.
    nvml_try(unsafe { ask(device.handle(), id, std::ptr::null_mut(), &mut count) })?;
    let mut buffer =
        vec![sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 }; count.min(MAX_PLACES) as usize];
    if buffer.is_empty() {
        return Ok(Vec::new());
    }
    count = buffer.len() as c_uint;
    // SAFETY: as above, and the buffer has as many entries as `count` says.
    nvml_try(unsafe { ask(device.handle(), id, buffer.as_mut_ptr(), &mut count) })?;
    buffer.truncate(count as usize);
    let mut places: Vec<Placement> = buffer.iter().filter_map(place).collect();
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

/// A driver's placement; none if it lies past what a grid can hold.
pub(crate) fn place(raw: &sys::nvmlGpuInstancePlacement_t) -> Option<Placement> {
    let (start, size) = (u8::try_from(raw.start).ok()?, u8::try_from(raw.size).ok()?);
    let fits = size > 0 && start.checked_add(size).is_some_and(|end| end <= MAX_UNITS);
    fits.then_some(Placement { start, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_with_and_without_its_prefix() {
        let array = |text: &str| text.bytes().map(|b| b as c_char).chain([0, 0]).collect::<Vec<_>>();
        assert_eq!(text(&array("1g.10gb")).as_deref(), Some("1g.10gb"));
        assert_eq!(text(&array("MIG 1g.24gb+me.all")).as_deref(), Some("1g.24gb+me.all"));
        assert_eq!((text(&array("")), text(&array("MIG")), text(&[])), (None, None, None));
        assert_eq!(text(&[-1; 96]), None);
    }

    #[test]
    fn a_place_past_the_grid_is_none() {
        let at = |start, size| place(&sys::nvmlGpuInstancePlacement_t { start, size });
        assert_eq!(at(9, 3), Some(Placement { start: 9, size: 3 }));
        assert_eq!((at(15, 2), at(0, 0), at(300, 1), at(250, 250)), (None, None, None, None));
    }
}
