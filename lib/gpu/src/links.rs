//! NVLink: which cards reach which, and by how many links. Nothing about PCI nearness.

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::struct_wrappers::device::PciInfo;
use nvml_wrapper_sys::bindings as sys;
use std::collections::BTreeMap;

/// A place on the bus: domain, bus, device. The texts that drivers write for it differ in width and case.
type Place = (u32, u32, u32);

/// What a card's links lead to.
#[derive(Default)]
struct Reach {
    direct: BTreeMap<Place, u32>,
    /// Links into an NVSwitch, which leads to every card that has such links.
    switched: u32,
}

/// Lists for each card the indices it reaches by NVLink, each with the number of links, in order.
///
/// A card or a link that does not answer has no peers: nearness is a wish, and no reason to fail a card.
pub(crate) fn peers(cards: &[(u32, Device<'_>)]) -> Vec<(u32, Vec<(u32, u32)>)> {
    let known: Vec<(u32, Option<Place>, Reach)> = cards
        .iter()
        .map(|(index, device)| (*index, device.pci_info().ok().map(|pci| place(&pci)), reach(device)))
        .collect();
    known
        .iter()
        .map(|(index, _, reach)| {
            let others = known.iter().filter(|(other, ..)| other != index);
            let counted = others.map(|(other, at, far)| {
                let direct = at.and_then(|at| reach.direct.get(&at)).copied().unwrap_or(0);
                (*other, direct.saturating_add(reach.switched.min(far.switched)))
            });
            (*index, counted.filter(|(_, links)| *links > 0).collect())
        })
        .collect()
}

fn place(pci: &PciInfo) -> Place {
    (pci.domain, pci.bus, pci.device)
}

fn reach(device: &Device<'_>) -> Reach {
    let mut reach = Reach::default();
    for number in 0..sys::NVML_NVLINK_MAX_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(true) => {}
            Ok(false) => continue,
            // A card without NVLink, or past its last link.
            Err(_) => break,
        }
        match is_switch(device, number) {
            Ok(true) => reach.switched = reach.switched.saturating_add(1),
            Ok(false) | Err(_) => {
                if let Ok(pci) = link.remote_pci_info() {
                    let links = reach.direct.entry(place(&pci)).or_default();
                    *links = links.saturating_add(1);
                }
            }
        }
    }
    reach
}

/// Whether the far end of a link is a switch. Asked raw, because `NvLink::remote_device_type` of nvml-wrapper 0.13 throws the
/// answer away and always says "unknown".
fn is_switch(device: &Device<'_>, link: u32) -> Result<bool, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
    let mut kind = sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    // SAFETY: the handle came from this very library, which `device` keeps loaded, and the call writes one number.
    nvml_try(unsafe { ask(device.handle(), link, &mut kind) })?;
    Ok(kind == sys::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH)
}
