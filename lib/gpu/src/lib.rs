//! Finds cards through NVML or as declared, and tells their health.
