//! For tests: a socket at which somebody gives set answers in the words of `gqd`, below a conf file of its own.

use gq_ipc::Listener;
use gq_proto::{ASK_VERSION, Ask, Asked, MAX_FRAME, Reply};
use std::{fs, path::PathBuf, thread};

/// A folder with a conf file, gone when dropped.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gq-client-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("run")).unwrap();
        let dirs =
            ["spool", "state", "run"].map(|d| format!("{d}_dir = \"{}/{d}\"\n", folder.display())).concat();
        fs::write(folder.join("gq.conf"), format!("[cluster]\nname = \"lab\"\n{dirs}")).unwrap();
        Self { folder }
    }

    pub(crate) fn conf(&self) -> String {
        self.folder.join("gq.conf").to_str().unwrap().to_owned()
    }

    fn sock(&self) -> PathBuf {
        self.folder.join("run/gqd.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a client whose one question gets these answers; returns what the client gave, and the question.
pub(crate) fn answered<T>(name: &str, replies: &[Reply], client: impl FnOnce(&Place) -> T) -> (T, Ask) {
    let place = Place::new(name);
    let listener = Listener::bind(&place.sock(), 0o600).unwrap();
    thread::scope(|s| {
        let gqd = s.spawn(|| answer(&listener, replies));
        let given = client(&place);
        (given, gqd.join().unwrap())
    })
}

fn answer(listener: &Listener, replies: &[Reply]) -> Ask {
    let conn = listener.accept().unwrap();
    let asked: Asked = serde_json::from_slice(&conn.recv(MAX_FRAME).unwrap().unwrap()).unwrap();
    assert_eq!(asked.v, ASK_VERSION);
    for reply in replies {
        conn.send(&serde_json::to_vec(reply).unwrap()).unwrap();
    }
    asked.ask
}
