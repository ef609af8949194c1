//! Unix sockets: frames, peer credentials, bounds.
