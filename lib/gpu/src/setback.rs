//! Setting a card back: its compute mode and its clocks are as the driver begins with. Whose card it is, is not asked here.

use crate::nvml::{Nvml, words};
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;

impl Nvml {
    /// Sets the compute mode of a whole card to the default one, and its clocks to what they are after the driver was loaded. What the card
    /// cannot set, it has not got.
    ///
    /// # Errors
    /// What the driver refuses, in words; the rest is set all the same.
    pub fn set_back(&self, uuid: &str) -> Result<(), String> {
        let mut device = self.library.device_by_uuid(uuid).map_err(|e| words(&e))?;
        let steps = [
            ("its compute mode", device.set_compute_mode(ComputeMode::Default)),
            ("the clocks of programs", device.reset_applications_clocks()),
            ("its locked clocks", device.reset_gpu_locked_clocks()),
            ("the locked clocks of its memory", device.reset_mem_locked_clocks()),
        ];
        let is_refused =
            |e: &NvmlError| !matches!(e, NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_));
        let refused: Vec<String> = steps
            .into_iter()
            .filter_map(|(what, done)| Some((what, done.err().filter(is_refused)?)))
            .map(|(what, e)| format!("{what}: {}", words(&e)))
            .collect();
        if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
    }
}
