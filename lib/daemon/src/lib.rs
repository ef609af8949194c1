//! Signals, clock, log and readiness of a daemon.
