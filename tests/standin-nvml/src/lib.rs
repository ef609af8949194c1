//! A stand-in for the NVML library.
