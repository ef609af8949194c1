//! MIG instances of a card: lists them, names their profiles and tells where they lie. Never makes or destroys one.

use crate::grid;
use crate::nvml::{is_grave, words};
use gq_model::{CardHealth, MiB, Placement, Slice};
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings as sys;

/// The most instances that are looked for on a card; today's have 7.
const MAX_SLICES: u32 = 64;

/// Whether a card is in MIG mode now; a card that knows no such mode is not.
pub(crate) fn mig_mode(device: &Device<'_>) -> Result<bool, NvmlError> {
    match device.mig_mode() {
        Ok(mode) => Ok(mode.current == 1),
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether an error only says that an instance is not there, or no longer.
pub(crate) fn vanished(error: &NvmlError) -> bool {
    matches!(error, NvmlError::NotFound | NvmlError::InvalidArg)
}

/// The handles of a card's instances; none when it is not in MIG mode.
///
/// The count that NVML tells is the most there can be, and destroyed instances leave holes.
pub(crate) fn devices<'a>(device: &Device<'a>) -> Result<Vec<Device<'a>>, NvmlError> {
    if !mig_mode(device)? {
        return Ok(Vec::new());
    }
    let most = device.mig_device_count()?.min(MAX_SLICES);
    let mut found = Vec::new();
    for index in 0..most {
        match device.mig_device_by_index(index) {
            Ok(slice) => found.push(slice),
            Err(e) if vanished(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// The instances of a card in MIG mode, in the order of NVML. `total`: the whole card's memory; `known`: what it was cut into when it was
/// last looked at, so that an instance that answers to nothing but its name is still known, and fails alone.
pub(crate) fn list(device: &Device<'_>, total: MiB, known: &[Slice]) -> Result<Vec<Slice>, NvmlError> {
    let mut slices = Vec::new();
    for instance in devices(device)? {
        match describe(device, &instance, total) {
            Ok(slice) => slices.push(slice),
            // Destroyed between the two questions.
            Err(e) if vanished(&e) => {}
            Err(e) => slices.push(failing(&instance, known, e)?),
        }
    }
    Ok(slices)
}

/// An instance that does not answer as it should, as it was last known; the error when that cannot be told, or says more than that.
fn failing(instance: &Device<'_>, known: &[Slice], error: NvmlError) -> Result<Slice, NvmlError> {
    let uuid = instance.uuid().ok().filter(|_| !is_grave(&error));
    match known.iter().find(|slice| uuid.is_some() && slice.uuid == uuid) {
        Some(slice) => Ok(Slice { health: CardHealth::Failed(words(&error)), ..slice.clone() }),
        None => Err(error),
    }
}

fn describe(card: &Device<'_>, instance: &Device<'_>, total: MiB) -> Result<Slice, NvmlError> {
    let attributes = instance.attributes()?;
    let memory = MiB(attributes.memory_size_mb);
    let name = instance.name()?;
    let profile = profile_in(&name).unwrap_or_else(|| {
        let (gpu, compute) = (attributes.gpu_instance_slice_count, attributes.compute_instance_slice_count);
        profile_of(gpu, compute, memory, total)
    });
    let lib = instance.nvml().lib();
    let (gpu_id, compute_id) = (
        nvml_sym(lib.nvmlDeviceGetGpuInstanceId.as_ref())?,
        nvml_sym(lib.nvmlDeviceGetComputeInstanceId.as_ref())?,
    );
    let (mut gpu_instance, mut compute_instance) = (0, 0);
    // SAFETY: the handle came from this very library, which `instance` keeps loaded, and each call writes one number.
    unsafe {
        nvml_try(gpu_id(instance.handle(), &mut gpu_instance))?;
        nvml_try(compute_id(instance.handle(), &mut compute_instance))?;
    }
    Ok(Slice {
        profile,
        uuid: Some(instance.uuid()?),
        memory,
        gpu_instance: Some(gpu_instance),
        compute_instance: Some(compute_instance),
        placement: placement(card, gpu_instance),
        health: CardHealth::Good,
    })
}

/// Where a GPU instance lies; none if the driver does not tell, as to a plain user.
fn placement(card: &Device<'_>, id: u32) -> Option<Placement> {
    let find = nvml_sym(card.nvml().lib().nvmlDeviceGetGpuInstanceById.as_ref()).ok()?;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the card's handle came from this very library, which `card` keeps loaded, and the call writes one handle.
    nvml_try(unsafe { find(card.handle(), id, &mut handle) }).ok()?;
    // SAFETY: the driver has just given it out.
    let info = unsafe { instance_info(card, handle) }.ok()?;
    grid::place(&info.placement)
}

/// What the driver tells of a GPU instance of `card`.
///
/// # Safety
/// `instance` came from the library that `card` came from.
pub(crate) unsafe fn instance_info(
    card: &Device<'_>,
    instance: sys::nvmlGpuInstance_t,
) -> Result<sys::nvmlGpuInstanceInfo_t, NvmlError> {
    let ask = nvml_sym(card.nvml().lib().nvmlGpuInstanceGetInfo.as_ref())?;
    let mut info = sys::nvmlGpuInstanceInfo_t {
        device: std::ptr::null_mut(),
        id: 0,
        profileId: 0,
        placement: sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 },
    };
    // SAFETY: the instance came from this very library, as the caller promises, and the call fills one struct.
    nvml_try(unsafe { ask(instance, &mut info) })?;
    Ok(info)
}

/// The profile at the end of an instance's name, as in `NVIDIA A100-SXM4-80GB MIG 1g.10gb`.
fn profile_in(name: &str) -> Option<String> {
    let (_, profile) = name.rsplit_once(" MIG ")?;
    let profile = profile.trim();
    reads_as_profile(profile).then(|| profile.to_string())
}

/// Whether a text looks like the name of a profile.
pub(crate) fn reads_as_profile(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(char::is_whitespace)
}

/// The profile's name by its figures: compute slices where they are fewer than the GPU instance's, slices, memory.
///
/// The memory in a profile's name is the nominal share of the card: eighths of the card's gibibytes, rounded (9,728 MiB of an
/// 80 GiB card are an eighth, so `10gb`).
pub(crate) fn profile_of(gpu: u32, compute: u32, memory: MiB, total: MiB) -> String {
    let eighths = memory.0.saturating_mul(8).div_ceil(total.0.max(1));
    let gb = eighths.saturating_mul(total.0.div_ceil(1024)).saturating_add(4) / 8;
    if compute == gpu || compute == 0 {
        format!("{gpu}g.{gb}gb")
    } else {
        format!("{compute}c.{gpu}g.{gb}gb")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_the_name() {
        let read = |name| profile_in(name);
        assert_eq!(read("NVIDIA A100-SXM4-80GB MIG 1g.10gb").as_deref(), Some("1g.10gb"));
        assert_eq!(read("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me").as_deref(), Some("1g.10gb+me"));
        assert_eq!(read("NVIDIA H100 MIG 1c.3g.40gb").as_deref(), Some("1c.3g.40gb"));
        assert_eq!(read("NVIDIA A100-SXM4-80GB"), None);
        assert_eq!(read("NVIDIA MIG edition card"), None);
        assert_eq!(read("X MIG "), None);
    }

    #[test]
    fn a_profile_is_named_by_its_figures() {
        // (card, slice, slices, name): MiB as the driver tells them, names as NVIDIA's tables list them.
        let table = [
            (81_920, 9_728, 1, "1g.10gb"),
            (81_920, 19_968, 2, "2g.20gb"),
            (81_920, 40_192, 3, "3g.40gb"),
            (81_920, 81_152, 7, "7g.80gb"),
            (40_960, 4_864, 1, "1g.5gb"),
            (40_960, 20_096, 3, "3g.20gb"),
            (24_576, 5_952, 1, "1g.6gb"),
            (24_576, 11_968, 2, "2g.12gb"),
            (95_830, 47_488, 3, "3g.47gb"),
            (143_771, 16_384, 1, "1g.18gb"),
            (143_771, 33_280, 2, "2g.35gb"),
            (97_887, 24_192, 1, "1g.24gb"),
        ];
        for (card, slice, count, name) in table {
            assert_eq!(profile_of(count, count, MiB(slice), MiB(card)), name);
        }
        assert_eq!(profile_of(3, 1, MiB(40_192), MiB(81_920)), "1c.3g.40gb");
        // Figures that no driver should tell break nothing.
        assert_eq!(profile_of(1, 1, MiB(u64::MAX), MiB(0)), "1g.0gb");
    }
}
