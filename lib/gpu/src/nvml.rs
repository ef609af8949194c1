//! The driver's library: opens it, lists the cards with their health, and lists the processes on one. What a node declares
//! is in `declared`.

use crate::{grid, links, slices};
use gq_model::{Card, CardHealth, Grid, MiB, Placement, Slice};
use log::warn;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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
    known: Mutex<Vec<Card>>,
}

/// Why the processes of a card cannot be told.
#[derive(Debug, thiserror::Error)]
#[error("card {index}: cannot list its processes: {}", words(.source))]
pub struct CardError {
    /// The card's index.
    pub index: u32,
    /// What NVML said.
    pub source: NvmlError,
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
            Found::Cards(Nvml { library: Box::new(library), driver_version, known: Mutex::new(Vec::new()) })
        }
        Err(NvmlError::LibloadingError(e)) => Found::None { why: format!("no NVIDIA driver library: {e}") },
        Err(e) => Found::None { why: format!("the NVIDIA driver does not answer: {}", words(&e)) },
    }
}

impl Nvml {
    /// Takes over what was known of the cards when the driver was open before, so that one that fails now is known by its name.
    pub fn recall(&self, cards: &[Card]) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = cards.to_vec();
    }

    /// Lists the cards in the order of their indices, as they are now.
    ///
    /// A card that fails a query it must answer (name, UUID, memory, MIG mode, slices) is [`CardHealth::Failed`], listed as it
    /// was last known: with its index alone if it never answered. The others stay as they are. If the driver itself is
    /// gone, all cards known are failed. Optional facts (minor number, NVLink) are left out where a card does not tell them.
    pub fn inventory(&self) -> Vec<Card> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match self.library.device_count() {
            Ok(count) => count.min(MAX_CARDS),
            Err(e) => {
                let why = format!("the NVIDIA driver does not answer: {}", words(&e));
                return known.iter().map(|card| failed(card.clone(), why.clone())).collect();
            }
        };
        let asked: Vec<_> = (0..count).map(|index| (index, self.ask(index))).collect();
        let mut cards: Vec<Card> = Vec::new();
        let mut answering = Vec::new();
        for (index, outcome) in asked {
            cards.push(match outcome {
                Ok((device, card)) => {
                    answering.push((index, device));
                    card
                }
                Err(why) => {
                    let before = known.iter().find(|card| card.index == index).cloned();
                    failed(before.unwrap_or_else(|| nameless(index)), why)
                }
            });
        }
        for (index, peers) in links::peers(&answering) {
            if let Some(card) = cards.iter_mut().find(|card| card.index == index) {
                card.nvlink = peers;
            }
        }
        let gone = known.iter().filter(|card| card.index >= count).cloned();
        cards.extend(gone.map(|card| failed(card, "the driver no longer lists it".to_string())));
        known.clone_from(&cards);
        cards
    }

    /// Lists the pids that have a compute context on the card of this index or on one of its slices, each once, in order.
    ///
    /// They are pids as the driver's host sees them; a process of another pid namespace has another number there.
    ///
    /// # Errors
    /// The card does not answer: then nobody can say that it is free.
    pub fn processes(&self, index: u32) -> Result<Vec<u32>, CardError> {
        let named = |source| CardError { index, source };
        let device = self.library.device_by_index(index).map_err(named)?;
        let slices = slices::devices(&device).map_err(named)?;
        // In MIG mode the card tells of its slices' processes only to the privileged: ask each slice as well.
        let mut found = match device.running_compute_processes() {
            Ok(found) => found,
            Err(NvmlError::NoPermission | NvmlError::NotSupported) if !slices.is_empty() => Vec::new(),
            Err(e) => return Err(named(e)),
        };
        for slice in slices {
            match slice.running_compute_processes() {
                Ok(more) => found.extend(more),
                Err(e) if slices::vanished(&e) => {}
                Err(e) => return Err(named(e)),
            }
        }
        let mut pids: Vec<u32> = found.into_iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Asks one card for everything but its links; says in words what it refused.
    fn ask(&self, index: u32) -> Result<(Device<'_>, Card), String> {
        let said = |what: &'static str| move |e: NvmlError| format!("{what}: {}", words(&e));
        let device = self.library.device_by_index(index).map_err(said("no handle"))?;
        let model = device.name().map_err(said("no name"))?;
        let uuid = device.uuid().map_err(said("no UUID"))?;
        let memory = MiB(device.memory_info().map_err(said("no memory size"))?.total / MIB);
        let mig = slices::mig_mode(&device).map_err(said("no MIG mode"))?;
        let (mut slices, mut grid) = (Vec::new(), None);
        if mig {
            slices = slices::list(&device, memory).map_err(said("no list of slices"))?;
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

/// A card of which nothing was ever known.
fn nameless(index: u32) -> Card {
    Card {
        index,
        uuid: None,
        model: String::new(),
        memory: MiB(0),
        minor: None,
        nvlink: Vec::new(),
        mig: false,
        slices: Vec::new(),
        grid: None,
        fixed: false,
        health: CardHealth::Good,
    }
}

fn failed(card: Card, why: String) -> Card {
    Card { health: CardHealth::Failed(why), ..card }
}

/// Whether an error says that the card as a whole is in trouble, whatever was asked.
fn is_grave(error: &NvmlError) -> bool {
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
