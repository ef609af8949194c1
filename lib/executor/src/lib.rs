//! The household of gqnode: its event loop and what it hands to whom.
