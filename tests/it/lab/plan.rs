//! The plan of a lab: its conf, its nodes, as whom it runs. It makes folders and files and starts the daemons once.

use super::{Daemon, Lab, Program};
use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

/// As whom a lab runs.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The login name.
    pub name: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// The account of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        let user = nix::unistd::User::from_name(name).ok()??;
        Some(Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() })
    }
}

/// A lab to be. Personal mode, `kill_wait` of a second.
#[derive(Default)]
pub struct Plan {
    cluster: String,
    scheduler: String,
    rest: String,
    nodes: Vec<PlannedNode>,
    owner: Option<Owner>,
    account: Option<String>,
    env: Vec<(OsString, OsString)>,
}

struct PlannedNode {
    name: String,
    toml: String,
    words: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    absent: bool,
}

impl Plan {
    /// A plan without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node with these lines of its `[[node]]`; its `gqnode` is started.
    #[must_use]
    pub fn node(mut self, name: &str, toml: &str) -> Self {
        let node = PlannedNode {
            name: name.to_owned(),
            toml: toml.to_owned(),
            words: Vec::new(),
            env: Vec::new(),
            absent: false,
        };
        self.nodes.push(node);
        self
    }

    fn last(&mut self) -> &mut PlannedNode {
        self.nodes.last_mut().unwrap()
    }

    /// The last node exchanges letters as files.
    #[must_use]
    pub fn by_files(mut self) -> Self {
        self.last().words.push("--files".into());
        self
    }

    /// A variable of the last node's `gqnode`.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.last().env.push((name.into(), value.into()));
        self
    }

    /// A variable of `gqd`.
    #[must_use]
    pub fn gqd_env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The last node is declared only: its `gqnode` is not started until a test does.
    #[must_use]
    pub fn absent(mut self) -> Self {
        self.last().absent = true;
        self
    }

    /// More lines of `[cluster]`.
    #[must_use]
    pub fn cluster(mut self, line: &str) -> Self {
        writeln!(self.cluster, "{line}").unwrap();
        self
    }

    /// More lines of `[scheduler]` (`kill_wait` stands there already).
    #[must_use]
    pub fn scheduler(mut self, line: &str) -> Self {
        writeln!(self.scheduler, "{line}").unwrap();
        self
    }

    /// More tables, such as partitions.
    #[must_use]
    pub fn tables(mut self, toml: &str) -> Self {
        writeln!(self.rest, "{toml}").unwrap();
        self
    }

    /// Daemons and clients run as somebody else; the test has to be root.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// No personal queue but an installation: root starts the daemons, `gqd` becomes this account, and everybody else may
    /// submit. The test has to be root.
    #[must_use]
    pub fn installed_for(mut self, account: &str) -> Self {
        self.account = Some(account.to_owned());
        self
    }

    fn conf(&self, dir: &str, user: &str) -> String {
        let mut conf = format!(
            "[cluster]\nname = \"lab\"\nspool_dir = \"{dir}/spool\"\nstate_dir = \"{dir}/state\"\n\
             run_dir = \"{dir}/run\"\nuser = \"{user}\"\nallow_test_run = true\n{}\n\
             [scheduler]\nkill_wait = \"1s\"\n{}\n{}\n",
            self.cluster, self.scheduler, self.rest
        );
        if self.account.is_some() {
            conf = conf.replacen("run_dir", &format!("node_dir = \"{dir}/node\"\nrun_dir"), 1);
        }
        for node in &self.nodes {
            write!(conf, "[[node]]\nname = \"{}\"\n{}\n", node.name, node.toml).unwrap();
        }
        conf
    }

    /// Makes the lab: folders, conf, `gqd --init`, and every node that is not absent, linked.
    #[track_caller]
    pub fn start(self) -> Lab {
        let lab = self.ready();
        lab.gqd.launch(&["--init"]);
        lab.gqd.wait_for_answer();
        for node in lab.nodes.iter().filter(|node| !lab.absent.contains(&node.name().to_owned())) {
            node.start();
        }
        for node in lab.nodes.iter().filter(|node| !lab.absent.contains(&node.name().to_owned())) {
            lab.node_is_there(node.name());
        }
        lab
    }

    /// Makes the folders and the conf; nothing is started.
    #[track_caller]
    pub fn ready(self) -> Lab {
        let dir = tempfile::Builder::new().prefix("gq-").tempdir_in("/tmp").unwrap();
        let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
        let owner = self.owner.as_ref().map(|owner| owner.name.clone());
        let user = self.account.clone().or(owner).unwrap_or(me);
        let text = self.conf(&dir.path().display().to_string(), &user);
        let mode = if self.account.is_some() { 0o755 } else { 0o700 };
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::write(dir.path().join("gq.conf"), text).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        if let Some(owner) = &self.owner {
            for path in ["", "work", "gq.conf"] {
                chown(dir.path().join(path), Some(owner.uid), Some(owner.gid)).unwrap();
            }
        }
        let conf: OsString = dir.path().join("gq.conf").into();
        let daemon = |program, name: &str, more: Vec<OsString>, env| {
            let mut words = vec!["--conf".into(), conf.clone()];
            words.extend(more);
            let how = Program { program, name: name.to_owned(), words, env, owner: self.owner.clone() };
            Daemon::new(dir.path(), how)
        };
        let gqd = daemon("gqd", "gqd", Vec::new(), self.env.clone());
        let mut absent = Vec::new();
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let mut words: Vec<OsString> = vec!["--name".into(), node.name.clone().into()];
            words.extend(node.words.iter().cloned());
            nodes.push(daemon("gqnode", &node.name, words, node.env.clone()));
            if node.absent {
                absent.push(node.name.clone());
            }
        }
        Lab { owner: self.owner.clone(), gqd, nodes, absent, dir }
    }
}
