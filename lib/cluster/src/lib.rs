//! The state of everything and the one function that changes it.
