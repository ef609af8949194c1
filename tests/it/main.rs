//! Story tests over the real daemons.
