//! Unix sockets: frames, peer credentials, bounds. Knows nothing of what a frame says; who may ask what is decided by
//! those who read it.

mod address;
mod conn;
mod error;
mod listener;

pub use conn::{Conn, Peer};
pub use error::IpcError;
pub use listener::Listener;
