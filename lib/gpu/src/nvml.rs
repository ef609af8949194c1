//! The driver's library: opens it, and looks at the cards: what they are, how they are, who uses them. What a node declares is in `declared`.

use crate::users::{self, User};
use crate::{grid, links, roster::Roster, slices};
use gq_model::{Card, CardHealth, Grid, MiB, Placement, Slice};
use log::warn;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most cards that are looked at; no machine has more.
const MAX_CARDS: u32 = 256;

/// Bytes of a mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

/// What a machine has by way of NVML.
#[derive(Debug)]
pub enum Found {
    /// The driver answers; it may still have no card.
    Cards(Nvml),
    /// There is no driver to ask, so the node has no cards but declared ones.
    None {
        /// Why, in words for the log; a node says it once.
        why: String,
    },
}

/// The driver's library, in use as long as this lives. It may be asked from several threads at once.
#[derive(Debug)]
pub struct Nvml {
    pub(crate) library: Box<Library>,
    /// The version of the driver, such as `550.90.07`; empty if it would not tell.
    pub driver_version: String,
    /// The cards as they last answered, so that one that fails is still known by its name.
    roster: Mutex<Roster>,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The cards, in the order of their indices, which stay as long as the driver is known.
    pub cards: Vec<Card>,
    /// Who uses them.
    pub users: Vec<User>,
}

/// Opens the driver's library: `library`, or `libnvidia-ml.so.1` where the loader finds it.
///
/// A machine without library or without driver is not an error. To take up a driver that was loaded or replaced later,
/// drop what this returned and open again.
pub fn open(library: Option<&Path>) -> Found {
    let mut builder = Library::builder();
    if let Some(path) = library {
        builder.lib_path(path.as_os_str());
    }
    match builder.init() {
        Ok(library) => {
            let driver_version = library.sys_driver_version().unwrap_or_else(|e| {
                warn!("NVML does not tell the driver's version: {}", words(&e));
                String::new()
            });
            Found::Cards(Nvml { library: Box::new(library), driver_version, roster: Mutex::default() })
        }
        Err(NvmlError::LibloadingError(e)) => Found::None { why: format!("no NVIDIA driver library: {e}") },
        Err(e) => Found::None { why: format!("the NVIDIA driver does not answer: {}", words(&e)) },
    }
}

impl Nvml {
    /// Takes over what was known of the cards when the driver was open before, so that one that fails now is known by its name.
    pub fn recall(&self, cards: &[Card]) {
        *self.roster() = Roster::of(cards);
    }

    pub(crate) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the cards as they are now, and at who uses them.
    ///
    /// A card that fails a query it must answer (name, UUID, memory, MIG mode, slices, processes) is [`CardHealth::Failed`], listed as it
    /// was last known: with its index alone if it never answered. The others stay as they are. If the driver itself is
    /// gone, all cards known are failed. Optional facts (minor number, NVLink) are left out where a card does not tell them. Of a slice that
    /// does not answer it is the slice that fails, as long as its card answers.
    pub fn look(&self) -> Look {
        let mut roster = self.roster();
        let count = match self.library.device_count() {
            Ok(count) => count.min(MAX_CARDS),
            Err(e) => {
                roster.fail_all(&format!("the NVIDIA driver does not answer: {}", words(&e)));
                return Look { cards: roster.cards(), users: Vec::new() };
            }
        };
        let mut said = Vec::new();
        let mut answering = Vec::new();
        for place in 0..count {
            said.push(self.ask(place, &roster).map(|(device, card)| {
                answering.push((place, device));
                card
            }));
        }
        roster.take(said);
        let answering: Vec<(u32, Device<'_>)> = answering
            .into_iter()
            .filter_map(|(place, device)| Some((roster.index_at(place)?, device)))
            .collect();
        for (index, peers) in links::peers(&answering) {
            if let Some(card) = roster.card_mut(index) {
                card.nvlink = peers;
            }
        }
        let mut found = Vec::new();
        for (index, device) in &answering {
            if let Some(card) = roster.card_mut(*index) {
                found.extend(users::of(device, card));
            }
        }
        Look { cards: roster.cards(), users: found }
    }

    /// The card of this index, to be asked.
    pub(crate) fn device(&self, index: u32) -> Result<Device<'_>, NvmlError> {
        // Its number is the driver's of the last look, which may have changed since: its name has not.
        let roster = self.roster();
        let place = roster.place_of(index).unwrap_or(index);
        let uuid = roster.card(index).and_then(|card| card.uuid.clone());
        drop(roster);
        match uuid {
            Some(uuid) => self.library.device_by_uuid(uuid),
            None => self.library.device_by_index(place),
        }
    }

    /// Asks the card at a place for everything but its links and its users; says in words what it refused.
    fn ask(&self, index: u32, roster: &Roster) -> Result<(Device<'_>, Card), String> {
        let said = |what: &'static str| move |e: NvmlError| format!("{what}: {}", words(&e));
        let device = self.library.device_by_index(index).map_err(said("no handle"))?;
        let model = device.name().map_err(said("no name"))?;
        let uuid = device.uuid().map_err(said("no UUID"))?;
        let memory = MiB(device.memory_info().map_err(said("no memory size"))?.total / MIB);
        let mig = slices::mig_mode(&device).map_err(said("no MIG mode"))?;
        let (mut slices, mut grid) = (Vec::new(), None);
        if mig {
            let known = roster.named(&uuid).map(|card| card.slices.as_slice()).unwrap_or_default();
            slices = slices::list(&device, memory, known).map_err(said("no list of slices"))?;
            grid = grid::of(&device, &model, memory);
            slices.iter_mut().for_each(|slice| place_by_grid(slice, grid.as_ref()));
        }
        let minor = match device.minor_number() {
            Ok(minor) => Some(minor),
            Err(e) if is_grave(&e) => return Err(said("no minor number")(e)),
            Err(_) => None,
        };
        let card = Card {
            index,
            uuid: Some(uuid),
            model,
            memory,
            minor,
            nvlink: Vec::new(),
            mig,
            slices,
            grid,
            fixed: false,
            parts: 0,
            health: CardHealth::Good,
        };
        Ok((device, card))
    }
}

/// Where a slice lies of which the driver does not tell it, if its profile has one place only.
fn place_by_grid(slice: &mut Slice, grid: Option<&Grid>) {
    let profile = grid.and_then(|grid| grid.profile(&slice.profile));
    if let (None, Some([start]), Some(profile)) =
        (slice.placement, profile.map(|it| it.starts.as_slice()), profile)
    {
        slice.placement = Some(Placement { start: *start, size: profile.size });
    }
}

/// Whether an error says that the card as a whole is in trouble, whatever was asked.
pub(crate) fn is_grave(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::GpuLost
            | NvmlError::ResetRequired
            | NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch
            | NvmlError::IrqIssue
            | NvmlError::InsufficientPower
    )
}

/// What an NVML error means, and what to do where that is known.
pub(crate) fn words(error: &NvmlError) -> String {
    let advice = match error {
        NvmlError::GpuLost => " (XID 79; reboot, or reset the card)",
        NvmlError::ResetRequired => " (try: nvidia-smi --gpu-reset)",
        NvmlError::LibRmVersionMismatch => " (the driver was upgraded: reboot, or reload its kernel module)",
        NvmlError::DriverNotLoaded => " (try: modprobe nvidia)",
        NvmlError::FailedToLoadSymbol(_) => " (the driver is too old: 510 or newer is needed)",
        _ => "",
    };
    format!("{error}{advice}")
}
