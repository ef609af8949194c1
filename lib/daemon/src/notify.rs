//! Readiness: tells the service manager how far the daemon is, by the socket named in `NOTIFY_SOCKET`. Without one,
//! nothing is said. The protocol is that of sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that the daemon is ready to serve.
pub fn ready() {
    say("READY=1\n");
}

/// Says that the daemon is stopping.
pub fn stopping() {
    say("STOPPING=1\n");
}

fn say(words: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(why) = send(&socket, words) {
        log::warn!("the service manager was not told {:?}: {why}", words.trim_end());
    }
}

fn send(socket: &OsStr, words: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "NOTIFY_SOCKET is no socket of this host",
            ));
        }
    };
    UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hears(listener: &UnixDatagram, named: &OsStr) {
        send(named, "READY=1\n").unwrap();
        let mut heard = [0; 64];
        let length = listener.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\n");
    }

    #[test]
    fn a_service_manager_hears_by_path_and_by_abstract_name() {
        let path = std::env::temp_dir().join(format!("gq-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        hears(&UnixDatagram::bind(&path).unwrap(), path.as_os_str());
        std::fs::remove_file(&path).unwrap();
        let name = format!("gq-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        hears(&UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").as_ref());
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        assert!(send("vsock:2:1234".as_ref(), "READY=1\n").is_err());
        assert!(send("/nowhere/at/all".as_ref(), "READY=1\n").is_err());
    }
}
