//! Cutting: makes a MIG instance at a place, after it destroyed the idle ones in its way, and destroys an idle one. It never decides which
//! card or place, and never touches an instance that a job holds or that does not overlap the wanted place.

use crate::grid::{self, Kind};
use crate::nvml::{MIB, Nvml, words};
use crate::slices;
use gq_model::{CardUse, MiB, Placement, Reason, Slice};
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::c_uint;
use std::ptr;

/// Most instances of one profile; a card has fewer units.
const MAX_INSTANCES: usize = 32;

/// Why a card was not cut, or an instance not destroyed.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The driver refuses something.
    #[error("card {index}: {what}: {}{}", words(.source), permission(.source))]
    Driver {
        /// The card.
        index: u32,
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        source: NvmlError,
    },
    /// The card is not in MIG mode.
    #[error("card {index} is not in MIG mode (try: nvidia-smi -i {index} -mig 1)")]
    Whole {
        /// The card.
        index: u32,
    },
    /// The card has no such profile, or not there.
    #[error("card {index}: {profile} cannot lie at {} (of the size {}); possible here: {here}", .at.start, .at.size)]
    NoPlace {
        /// The card.
        index: u32,
        /// The profile wanted.
        profile: String,
        /// The place wanted.
        at: Placement,
        /// Where its profile may lie, or which profiles there are.
        here: String,
    },
    /// A job holds what is in the way.
    #[error("card {index}: GPU instance {instance} is held by a job")]
    Held {
        /// The card.
        index: u32,
        /// The instance in the way.
        instance: u32,
    },
    /// Somebody else uses what is in the way.
    #[error(
        "card {index}: GPU instance {instance} is in use, though by no job: a monitor such as DCGM or a process that gq did not start \
         has it open (try: lsof /dev/nvidia{index}, nvidia-smi)"
    )]
    InUse {
        /// The card.
        index: u32,
        /// The instance.
        instance: u32,
    },
    /// The driver says that there is no room.
    #[error("card {index}: the driver has no room for {profile} at {}", .at.start)]
    NoRoom {
        /// The card.
        index: u32,
        /// The profile wanted.
        profile: String,
        /// The place wanted.
        at: Placement,
    },
    /// There is no such instance.
    #[error("card {index}: there is no GPU instance {instance}")]
    Gone {
        /// The card.
        index: u32,
        /// The instance.
        instance: u32,
    },
}

impl CutError {
    /// The word for it: whether what was to be had of the card is not (or not now) to be had, which is the trouble of those alone who ask
    /// for it, or the card does not do what it should.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Driver { .. } => Reason::LaunchFailure,
            Self::Whole { .. }
            | Self::InUse { .. }
            | Self::NoPlace { .. }
            | Self::Held { .. }
            | Self::NoRoom { .. }
            | Self::Gone { .. } => Reason::CardGone,
        }
    }
}

fn permission(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::NoPermission => " (cutting cards needs root)",
        _ => "",
    }
}

/// A GPU instance that exists.
struct Instance {
    handle: sys::nvmlGpuInstance_t,
    id: u32,
    profile: c_uint,
    place: Option<Placement>,
}

impl Nvml {
    /// Cuts an instance of `profile` at `at` out of the card `index`, with its compute instance, and returns it. An idle instance that is
    /// just so is taken as it is; idle ones in the way are destroyed, and no others.
    ///
    /// `held`: what the runs on this node hold; it is not touched, by UUID, place, or (a whole card) altogether.
    ///
    /// # Errors
    /// [`CutError`]. Then nothing a job holds was touched, but idle instances in the way may be gone.
    pub fn cut(&self, index: u32, profile: &str, at: Placement, held: &[CardUse]) -> Result<Slice, CutError> {
        let card = Surgery::begin(self, index)?;
        let kind = card.kind(profile, at)?;
        let mut in_the_way = Vec::new();
        for instance in card.instances()? {
            if instance.place.is_none_or(|place| !place.overlaps(at)) {
                continue;
            }
            let slices = card.slices_of(&instance)?;
            if is_held(index, &instance, &slices, held) {
                return Err(CutError::Held { index, instance: instance.id });
            }
            let fits = instance.place == Some(at) && instance.profile == kind.id;
            let just_so = slices.into_iter().find(|slice| slice.profile.eq_ignore_ascii_case(profile));
            if let (true, Some(slice)) = (fits, just_so) {
                return Ok(slice);
            }
            in_the_way.push(instance);
        }
        for instance in &in_the_way {
            card.destroy(instance)?;
        }
        card.make(kind, at)
    }

    /// Destroys the idle instance `instance` of the card `index` with its compute instances. `held` as for [`Nvml::cut`].
    ///
    /// # Errors
    /// [`CutError`].
    pub fn destroy(&self, index: u32, instance: u32, held: &[CardUse]) -> Result<(), CutError> {
        let card = Surgery::begin(self, index)?;
        let found = card.instances()?.into_iter().find(|it| it.id == instance);
        let found = found.ok_or(CutError::Gone { index, instance })?;
        if is_held(index, &found, &card.slices_of(&found)?, held) {
            return Err(CutError::Held { index, instance });
        }
        card.destroy(&found)
    }
}

/// Whether a run holds an instance. One whose place is not known is held by whoever holds a place on the card.
fn is_held(index: u32, instance: &Instance, slices: &[Slice], held: &[CardUse]) -> bool {
    let here = held.iter().filter(|it| it.index == index);
    here.into_iter().any(|it| match (&it.slice, &it.uuid, it.placement) {
        // The whole card, or a slice of which nothing more is known.
        (None, ..) | (Some(_), None, None) => true,
        (Some(_), uuid, place) => {
            let by_place = place.is_some_and(|place| instance.place.is_none_or(|at| at.overlaps(place)));
            by_place || (uuid.is_some() && slices.iter().any(|slice| slice.uuid == *uuid))
        }
    })
}

/// A card that is being cut.
struct Surgery<'a> {
    index: u32,
    device: Device<'a>,
    total: MiB,
    kinds: Vec<Kind>,
}

impl<'a> Surgery<'a> {
    fn begin(nvml: &'a Nvml, index: u32) -> Result<Self, CutError> {
        let said = |what| move |source| CutError::Driver { index, what, source };
        let device = nvml.device(index).map_err(said("no handle"))?;
        if !slices::mig_mode(&device).map_err(said("no MIG mode"))? {
            return Err(CutError::Whole { index });
        }
        let total = MiB(device.memory_info().map_err(said("no memory size"))?.total / MIB);
        let kinds = grid::kinds(&device, total).map_err(said("no list of profiles"))?;
        Ok(Self { index, device, total, kinds })
    }

    fn said(&self, what: &'static str) -> impl Fn(NvmlError) -> CutError + use<> {
        let index = self.index;
        move |source| CutError::Driver { index, what, source }
    }

    /// The profile of this name, if it may lie at `at`.
    fn kind(&self, profile: &str, at: Placement) -> Result<&Kind, CutError> {
        let named = self.kinds.iter().find(|kind| kind.profile.name.eq_ignore_ascii_case(profile));
        let here = match named {
            Some(kind) if kind.profile.placements().any(|place| place == at) => return Ok(kind),
            Some(Kind { profile, .. }) => {
                let starts: Vec<String> = profile.starts.iter().map(u8::to_string).collect();
                format!("{} (of the size {})", starts.join(" "), profile.size)
            }
            None => {
                let names: Vec<&str> = self.kinds.iter().map(|kind| kind.profile.name.as_str()).collect();
                names.join(" ")
            }
        };
        Err(CutError::NoPlace { index: self.index, profile: profile.to_string(), at, here })
    }

    /// The GPU instances of the card.
    fn instances(&self) -> Result<Vec<Instance>, CutError> {
        let said = self.said("no list of GPU instances");
        let lib = self.device.nvml().lib();
        let list = nvml_sym(lib.nvmlDeviceGetGpuInstances.as_ref()).map_err(&said)?;
        let mut found = Vec::new();
        for kind in &self.kinds {
            let mut handles: [sys::nvmlGpuInstance_t; MAX_INSTANCES] = [ptr::null_mut(); MAX_INSTANCES];
            let mut count = MAX_INSTANCES as c_uint;
            // SAFETY: the handle came from this very library, and the list has room for more than a card can hold.
            let listed = unsafe { list(self.device.handle(), kind.id, handles.as_mut_ptr(), &mut count) };
            match nvml_try(listed) {
                Ok(()) => {}
                Err(e) if slices::vanished(&e) => continue,
                Err(e) => return Err(said(e)),
            }
            for handle in handles.iter().take(count as usize) {
                // SAFETY: the driver has just listed it.
                match unsafe { slices::instance_info(&self.device, *handle) } {
                    Ok(info) => found.push(Instance {
                        handle: *handle,
                        id: info.id,
                        profile: kind.id,
                        place: grid::place(&info.placement),
                    }),
                    // Destroyed between the two questions.
                    Err(e) if slices::vanished(&e) => {}
                    Err(e) => return Err(said(e)),
                }
            }
        }
        // A driver may list an instance under two kinds that share an id.
        found.sort_by_key(|instance| instance.id);
        found.dedup_by_key(|instance| instance.id);
        Ok(found)
    }

    /// The slices (compute instances) of a GPU instance.
    fn slices_of(&self, instance: &Instance) -> Result<Vec<Slice>, CutError> {
        let mut all = slices::list(&self.device, self.total, &[]).map_err(self.said("no list of slices"))?;
        all.retain(|slice| slice.gpu_instance == Some(instance.id));
        Ok(all)
    }

    /// Destroys an instance and its compute instances.
    fn destroy(&self, instance: &Instance) -> Result<(), CutError> {
        let said = |source| match source {
            NvmlError::InUse => CutError::InUse { index: self.index, instance: instance.id },
            source => {
                CutError::Driver { index: self.index, what: "an idle instance is not destroyed", source }
            }
        };
        let lib = self.device.nvml().lib();
        let list = nvml_sym(lib.nvmlGpuInstanceGetComputeInstances.as_ref()).map_err(said)?;
        let end_part = nvml_sym(lib.nvmlComputeInstanceDestroy.as_ref()).map_err(said)?;
        let end = nvml_sym(lib.nvmlGpuInstanceDestroy.as_ref()).map_err(said)?;
        for (id, _) in self.compute_profiles(instance.handle).map_err(said)? {
            let mut handles: [sys::nvmlComputeInstance_t; MAX_INSTANCES] = [ptr::null_mut(); MAX_INSTANCES];
            let mut count = MAX_INSTANCES as c_uint;
            // SAFETY: the driver listed the instance, and the list has room for more than an instance can hold.
            nvml_try(unsafe { list(instance.handle, id, handles.as_mut_ptr(), &mut count) }).map_err(said)?;
            for handle in handles.iter().take(count as usize) {
                // SAFETY: the driver has just listed it.
                nvml_try(unsafe { end_part(*handle) }).map_err(said)?;
            }
        }
        // SAFETY: the driver listed the instance, and it is forgotten after this.
        nvml_try(unsafe { end(instance.handle) }).map_err(said)?;
        log::info!("card {}: the idle GPU instance {} was destroyed", self.index, instance.id);
        Ok(())
    }

    /// The profiles of compute instances of a GPU instance: id and slices.
    fn compute_profiles(&self, instance: sys::nvmlGpuInstance_t) -> Result<Vec<(c_uint, c_uint)>, NvmlError> {
        let ask = nvml_sym(self.device.nvml().lib().nvmlGpuInstanceGetComputeInstanceProfileInfo.as_ref())?;
        let mut found = Vec::new();
        for kind in 0..sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT {
            let mut info = sys::nvmlComputeInstanceProfileInfo_t {
                id: 0,
                sliceCount: 0,
                instanceCount: 0,
                multiprocessorCount: 0,
                sharedCopyEngineCount: 0,
                sharedDecoderCount: 0,
                sharedEncoderCount: 0,
                sharedJpegCount: 0,
                sharedOfaCount: 0,
            };
            let shared = sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
            // SAFETY: the driver listed or made the instance, and the call fills one struct.
            match nvml_try(unsafe { ask(instance, kind, shared, &mut info) }) {
                Ok(()) => found.push((info.id, info.sliceCount)),
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }

    /// Makes an instance and the compute instance that takes all of it.
    fn make(&self, kind: &Kind, at: Placement) -> Result<Slice, CutError> {
        const NO_ROOM: u32 = sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES;
        let name = &kind.profile.name;
        let said = |source| match source {
            NvmlError::UnexpectedVariant(NO_ROOM) => {
                CutError::NoRoom { index: self.index, profile: name.clone(), at }
            }
            source => CutError::Driver { index: self.index, what: "no instance is made", source },
        };
        let lib = self.device.nvml().lib();
        let make = nvml_sym(lib.nvmlDeviceCreateGpuInstanceWithPlacement.as_ref()).map_err(said)?;
        let make_part = nvml_sym(lib.nvmlGpuInstanceCreateComputeInstance.as_ref()).map_err(said)?;
        let place = sys::nvmlGpuInstancePlacement_t { start: at.start.into(), size: at.size.into() };
        let mut handle = ptr::null_mut();
        // SAFETY: the handle came from this very library; the call reads one struct and writes one handle.
        nvml_try(unsafe { make(self.device.handle(), kind.id, &place, &mut handle) }).map_err(said)?;
        let whole = c_uint::from(kind.profile.compute);
        let part = self.compute_profiles(handle).and_then(|profiles| {
            let part = profiles.into_iter().find(|(_, slices)| *slices == whole);
            part.ok_or(NvmlError::NotSupported)
        });
        let made = part.and_then(|(id, _)| {
            let mut compute = ptr::null_mut();
            // SAFETY: the driver has just made the instance; the call writes one handle.
            nvml_try(unsafe { make_part(handle, id, &mut compute) })
        });
        // SAFETY: the driver has just made it.
        let info = made.and_then(|()| unsafe { slices::instance_info(&self.device, handle) });
        let slice = info.map_err(said).and_then(|info| {
            let all = slices::list(&self.device, self.total, &[]).map_err(self.said("no list of slices"))?;
            let slice = all.into_iter().find(|slice| slice.gpu_instance == Some(info.id));
            slice.ok_or(CutError::Gone { index: self.index, instance: info.id })
        });
        match &slice {
            Ok(slice) => {
                let uuid = slice.uuid.as_deref().unwrap_or_default();
                log::info!("card {}: {name} was cut at {}: {uuid}", self.index, at.start);
            }
            // Half an instance is in the way of the next one. If this fails too, the next cut there destroys it.
            Err(_) => {
                let half = Instance { handle, id: u32::MAX, profile: kind.id, place: Some(at) };
                let _ = self.destroy(&half);
            }
        }
        Ok(Slice { placement: Some(at), ..slice? })
    }
}
