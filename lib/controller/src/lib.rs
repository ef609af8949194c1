//! The household of gqd: its event loop and what it hands to whom.
