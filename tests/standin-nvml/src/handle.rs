//! Device handles: numbers dressed as pointers, the same for the same card or slice as long as the process lives, never
//! followed. Not what is behind them.

use crate::code::Code;
use crate::machine::{Card, Machine, Slice};
use nvml_wrapper_sys::bindings::nvmlDevice_t;
use std::ptr;

/// Calls that a slice answers though it fails.
const TELL_NAMES: [&str; 2] = ["nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetUUID"];
/// Slots of one card: the card itself and its slices.
const SLOTS: usize = 0x1000;

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    /// The card of this index.
    Card(usize),
    /// A slice: index of its card, index of the slice.
    Slice(usize, usize),
}

impl Handle {
    /// The handle as the C interface passes it.
    pub(crate) fn pack(self) -> nvmlDevice_t {
        ptr::without_provenance_mut(match self {
            Self::Card(card) => (card + 1) * SLOTS,
            Self::Slice(card, slice) => (card + 1) * SLOTS + slice + 1,
        })
    }

    /// The handle behind what a caller passed; nothing for null and other numbers that were never given out.
    pub(crate) fn unpack(device: nvmlDevice_t) -> Result<Self, Code> {
        let number = device.addr();
        let card = (number / SLOTS).checked_sub(1).ok_or(Code::InvalidArgument)?;
        Ok(match (number % SLOTS).checked_sub(1) {
            None => Self::Card(card),
            Some(slice) => Self::Slice(card, slice),
        })
    }
}

/// What a call is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) handle: Handle,
    pub(crate) index: usize,
    pub(crate) card: &'a Card,
    /// None for the card itself.
    pub(crate) slice: Option<&'a Slice>,
}

impl<'a> Subject<'a> {
    /// Finds the card or slice of `handle` for the C function `call`, which the description may let fail.
    pub(crate) fn find(machine: &'a Machine, handle: Handle, call: &str) -> Result<Self, Code> {
        let (Handle::Card(index) | Handle::Slice(index, _)) = handle;
        let card = machine.cards.get(index).ok_or(Code::InvalidArgument)?;
        if let Some(code) = card.fails.or_else(|| card.fails_at.get(call).copied()) {
            return Err(code);
        }
        let slice = match handle {
            Handle::Card(_) => None,
            Handle::Slice(_, at) => {
                let here = card.slices.get(at).and_then(Option::as_ref).filter(|_| card.mig == Some(true));
                let here = here.ok_or(Code::NotFound)?;
                match here.fails {
                    Some(code) if !TELL_NAMES.contains(&call) => return Err(code),
                    Some(_) | None => Some(here),
                }
            }
        };
        Ok(Self { handle, index, card, slice })
    }
}
