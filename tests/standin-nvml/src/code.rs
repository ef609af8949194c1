//! Return codes of NVML by name, as a description writes them. Not the calls that return them.

use nvml_wrapper_sys::bindings as sys;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;

/// A reason why a call fails, named as in NVML without its `NVML_ERROR_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// Called before init.
    Uninitialized,
    /// A null pointer, a handle or an index out of range.
    InvalidArgument,
    /// This kind of device cannot do it.
    NotSupported,
    /// The caller may not.
    NoPermission,
    /// There is no such thing.
    NotFound,
    /// The caller's buffer is too small.
    InsufficientSize,
    /// The kernel module is not loaded.
    DriverNotLoaded,
    /// The card fell off the bus (XID 79).
    GpuIsLost,
    /// The card wants a reset first.
    ResetRequired,
    /// The library is of another version than the kernel module.
    LibRmVersionMismatch,
    /// The struct is of a version that the library does not know.
    ArgumentVersionMismatch,
    /// Somebody holds it open.
    InUse,
    /// There is no room for it on the card.
    InsufficientResources,
    /// Anything else.
    Unknown,
}

impl Code {
    /// The number and the words of the C interface.
    fn c(self) -> (sys::nvmlReturn_t, &'static CStr) {
        match self {
            Self::Uninitialized => (sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, c"Uninitialized"),
            Self::InvalidArgument => (sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, c"Invalid Argument"),
            Self::NotSupported => (sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, c"Not Supported"),
            Self::NoPermission => {
                (sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, c"Insufficient Permissions")
            }
            Self::NotFound => (sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND, c"Not Found"),
            Self::InsufficientSize => {
                (sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, c"Insufficient Size")
            }
            Self::DriverNotLoaded => {
                (sys::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED, c"Driver Not Loaded")
            }
            Self::GpuIsLost => (sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST, c"GPU is lost"),
            Self::ResetRequired => (sys::nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED, c"GPU requires reset"),
            Self::LibRmVersionMismatch => {
                (sys::nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH, c"Driver/library version mismatch")
            }
            Self::ArgumentVersionMismatch => {
                (sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, c"Argument version mismatch")
            }
            Self::InUse => (sys::nvmlReturn_enum_NVML_ERROR_IN_USE, c"In use by another client"),
            Self::InsufficientResources => {
                (sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES, c"Insufficient Resources")
            }
            Self::Unknown => (sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN, c"Unknown Error"),
        }
    }

    const ALL: [Self; 14] = [
        Self::Uninitialized,
        Self::InvalidArgument,
        Self::NotSupported,
        Self::NoPermission,
        Self::NotFound,
        Self::InsufficientSize,
        Self::DriverNotLoaded,
        Self::GpuIsLost,
        Self::ResetRequired,
        Self::LibRmVersionMismatch,
        Self::ArgumentVersionMismatch,
        Self::InUse,
        Self::InsufficientResources,
        Self::Unknown,
    ];
}

/// The number that a call returns for `outcome`.
pub(crate) fn number(outcome: Result<(), Code>) -> sys::nvmlReturn_t {
    match outcome {
        Ok(()) => sys::nvmlReturn_enum_NVML_SUCCESS,
        Err(code) => code.c().0,
    }
}

/// The words for a number, of static life.
pub(crate) fn words(number: sys::nvmlReturn_t) -> &'static CStr {
    if number == sys::nvmlReturn_enum_NVML_SUCCESS {
        return c"Success";
    }
    Code::ALL
        .iter()
        .map(|code| code.c())
        .find(|(n, _)| *n == number)
        .map_or(c"Unknown Error", |(_, words)| words)
}
