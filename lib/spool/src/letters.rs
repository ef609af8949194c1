//! Letters as files: one folder, one writer, any number of readers on other hosts. What is in a letter is not looked at.
//!
//! No lock, no append, no sync, no comparing of clocks: a letter that is lost is written again under its number. A reader
//! asks for no name before a listing has shown it, because a file server's client remembers "missing" for half a minute.

use crate::folder::{self, is_kind, mode_of};
use crate::intake::{open_beneath, read_up_to};
use crate::{SpoolError, root::NODES};
use gq_failpoint::{Step, step};
use gq_model::{NodeName, Seq, Uid};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Largest letter, in bytes.
pub const MAX_LETTER: usize = 1 << 20;
/// Largest `HEAD`, in bytes.
pub const MAX_HEAD: usize = 4096;
/// Most letters that a reader keeps in mind from one listing; the lowest numbers win.
const MAX_LISTED: usize = 100_000;

const HEAD: &str = "HEAD";
pub(crate) const UNFINISHED: &str = ".t.";
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Which way letters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterKind {
    /// From the controller to a node: `nodes/<node>/in`, `<seq>.order`.
    Order,
    /// From a node to the controller: `nodes/<node>/out`, `<seq>.report`.
    Report,
}

impl LetterKind {
    /// The folder of such letters of `node` in the spool at `spool_dir`.
    pub fn folder(self, spool_dir: &Path, node: &NodeName) -> PathBuf {
        let side = match self {
            Self::Order => "in",
            Self::Report => "out",
        };
        spool_dir.join(NODES).join(node.as_str()).join(side)
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Order => ".order",
            Self::Report => ".report",
        }
    }

    fn name(self, seq: u64) -> String {
        format!("{seq:016x}{}", self.suffix())
    }

    fn number(self, name: &str) -> Option<u64> {
        let seq = u64::from_str_radix(name.strip_suffix(self.suffix())?, 16).ok()?;
        (self.name(seq) == name).then_some(seq)
    }
}

/// The one writer of a folder of letters.
#[derive(Debug)]
pub struct LetterWriter {
    path: PathBuf,
    kind: LetterKind,
    folder: OwnedFd,
    /// The letters that stand in the folder.
    kept: BTreeSet<u64>,
}

impl LetterWriter {
    /// Opens the folder at `path` for writing letters of one kind, and removes what an earlier life left unfinished.
    ///
    /// The folder is made when it is missing. The one above it, which is the node's, is the controller's to make.
    ///
    /// # Errors
    /// When the folder cannot be made, belongs to another user, or others may write in it.
    pub fn open(path: &Path, kind: LetterKind) -> Result<Self, SpoolError> {
        let own = nix::unistd::Uid::effective().as_raw();
        let folder = step(Step::LetterFolder, || match kind {
            LetterKind::Order => folder::make_all(path).and_then(|()| folder::open_own(path, own)),
            LetterKind::Report => make_last(path, own),
        })?;
        let mut kept = BTreeSet::new();
        let mut unfinished = Vec::new();
        for entry in folder::listing(&folder).map_err(SpoolError::io("list", path))? {
            let entry = entry.map_err(SpoolError::io("list", path))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if let Some(seq) = kind.number(name) {
                kept.insert(seq);
            } else if name.starts_with(UNFINISHED) {
                unfinished.push(name.to_owned());
            }
        }
        for name in unfinished {
            remove(&folder, path, &name)?;
        }
        Ok(Self { path: path.to_owned(), kind, folder, kept })
    }

    /// Writes letter `seq`. Written again, it stands there as it was written last.
    ///
    /// # Errors
    /// When it is larger than [`MAX_LETTER`] or the system refuses; no reader sees a part of it.
    pub fn write(&mut self, seq: Seq, bytes: &[u8]) -> Result<(), SpoolError> {
        let name = self.kind.name(seq.0);
        self.publish(&name, bytes, MAX_LETTER)?;
        self.kept.insert(seq.0);
        Ok(())
    }

    /// Replaces `HEAD`.
    ///
    /// # Errors
    /// When it is larger than [`MAX_HEAD`] or the system refuses; the old one then stays.
    pub fn put_head(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.publish(HEAD, bytes, MAX_HEAD)
    }

    /// Removes the letters up to and with `seq`: the other side has taken them.
    ///
    /// # Errors
    /// When the system refuses; what was not removed is tried again the next time.
    pub fn forget_up_to(&mut self, seq: Seq) -> Result<(), SpoolError> {
        while let Some(first) = self.kept.first().copied().filter(|first| *first <= seq.0) {
            step(Step::LetterRemove, || remove(&self.folder, &self.path, &self.kind.name(first)))?;
            self.kept.remove(&first);
        }
        Ok(())
    }

    fn publish(&self, name: &str, bytes: &[u8], most: usize) -> Result<(), SpoolError> {
        let path = self.path.join(name);
        if bytes.len() > most {
            return Err(SpoolError::TooLarge { path, size: bytes.len() as u64, most: most as u64 });
        }
        let new = format!("{UNFINISHED}{name}");
        let failed = |doing| {
            let path = path.clone();
            move |source| SpoolError::Io { doing, path, source }
        };
        let (writing, naming) = if name == HEAD {
            (Step::HeadWrite, Step::HeadName)
        } else {
            (Step::LetterWrite, Step::LetterName)
        };
        step(writing, || self.put_down(&new, bytes)).map_err(failed("write"))?;
        match step(naming, || renameat(&self.folder, new.as_str(), &self.folder, name)) {
            Ok(()) => Ok(()),
            // A file server that repeats itself reports an error for what it has just done.
            Err(errno) => match self.stands(name, bytes) {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(failed("replace")(errno.into())),
            },
        }
    }

    fn put_down(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        fchmod(&file, Mode::from_bits_truncate(FILE_MODE))?;
        file.write_all(bytes)?;
        Ok(nix::unistd::close(file)?)
    }

    fn stands(&self, name: &str, bytes: &[u8]) -> std::io::Result<bool> {
        let mut file = File::from(open_beneath(&self.folder, name)?);
        Ok(read_up_to(&mut file, bytes.len() + 1)? == bytes)
    }
}

/// Opens the folder `nodes/<node>/out` of a spool, and makes the last of the three if it is missing. A node may be root, and what is above that one is
/// the controller's: no link there leads anywhere.
fn make_last(path: &Path, own: u32) -> Result<OwnedFd, SpoolError> {
    let missing = || {
        SpoolError::not_safe(
            path,
            "the folder of this node is not there",
            "see that gqd runs and that its conf declares this node ([[node]]): gqd then makes the folder",
        )
    };
    let mut way: Vec<&Path> = path.ancestors().take(4).collect();
    let spool = way.pop().filter(|_| way.len() == 3).ok_or_else(missing)?;
    // Where the spool is, the conf says.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut folder = nix::fcntl::open(spool, flags, Mode::empty()).map_err(SpoolError::io("open", spool))?;
    for next in way.into_iter().rev() {
        let name = next.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
        if next == path {
            match nix::sys::stat::mkdirat(&folder, name, Mode::from_bits_truncate(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(SpoolError::io("make the folder", path)(errno)),
            }
        }
        folder = folder::open_next(&folder, name, next).map_err(|e| match e {
            SpoolError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => missing(),
            other => other,
        })?;
    }
    folder::owned(folder, path, own)
}

fn remove(folder: &OwnedFd, path: &Path, name: &str) -> Result<(), SpoolError> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(_) if matches!(folder::look(folder, name), Ok(None)) => Ok(()),
        Err(errno) => Err(SpoolError::io("remove", path.join(name))(errno)),
    }
}

/// A reader of a folder of letters, which it never changes.
#[derive(Debug)]
pub struct LetterReader {
    path: PathBuf,
    kind: LetterKind,
    writer: u32,
    seen: Option<Listing>,
}

#[derive(Debug)]
struct Listing {
    folder: OwnedFd,
    has_head: bool,
    letters: BTreeSet<u64>,
}

impl LetterReader {
    /// Prepares to read the letters of one kind that `writer` writes to the folder at `path`, now or later.
    pub fn open(path: &Path, kind: LetterKind, writer: Uid) -> Self {
        Self { path: path.to_owned(), kind, writer: writer.0, seen: None }
    }

    /// Reads `HEAD`; none when there is none yet.
    ///
    /// # Errors
    /// When the folder or the file does not belong to its writer, others may write it, it is too large, or the system
    /// refuses. An error says nothing about whether the writer lives.
    pub fn head(&mut self) -> Result<Option<Vec<u8>>, SpoolError> {
        let is_known = self.seen.as_ref().is_some_and(|seen| seen.has_head);
        if !is_known && !self.list()?.is_some_and(|seen| seen.has_head) {
            return Ok(None);
        }
        self.take(HEAD, MAX_HEAD)
    }

    /// Reads letter `seq`; none when it cannot be seen (yet).
    ///
    /// # Errors
    /// As [`LetterReader::head`].
    pub fn read(&mut self, seq: Seq) -> Result<Option<Vec<u8>>, SpoolError> {
        let is_known = self.seen.as_ref().is_some_and(|seen| seen.letters.contains(&seq.0));
        if !is_known && !self.list()?.is_some_and(|seen| seen.letters.contains(&seq.0)) {
            return Ok(None);
        }
        self.take(&self.kind.name(seq.0), MAX_LETTER)
    }

    fn list(&mut self) -> Result<Option<&Listing>, SpoolError> {
        self.seen = None;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = match nix::fcntl::open(&self.path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ENOENT | Errno::ESTALE) => return Ok(None),
            Err(errno) => return Err(SpoolError::io("open", &self.path)(errno)),
        };
        let stat = fstat(&folder).map_err(SpoolError::io("look at", &self.path))?;
        self.check(&self.path, stat.st_uid, mode_of(&stat))?;
        let mut listing = Listing { folder, has_head: false, letters: BTreeSet::new() };
        let failed = |errno| SpoolError::io("list", &self.path)(errno);
        for entry in folder::listing(&listing.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == HEAD {
                listing.has_head = true;
            } else if let Some(seq) = self.kind.number(name) {
                listing.letters.insert(seq);
                if listing.letters.len() > MAX_LISTED {
                    listing.letters.pop_last();
                }
            }
        }
        Ok(Some(self.seen.insert(listing)))
    }

    /// Reads a name that a listing has shown.
    fn take(&mut self, name: &str, most: usize) -> Result<Option<Vec<u8>>, SpoolError> {
        let Some(seen) = &self.seen else { return Ok(None) };
        let path = self.path.join(name);
        let mut file = match open_beneath(&seen.folder, name) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::ESTALE) => {
                self.seen = None;
                return Ok(None);
            }
            Err(errno) => return Err(SpoolError::io("open", path)(errno)),
        };
        let stat = fstat(&file).map_err(SpoolError::io("look at", &path))?;
        self.check(&path, stat.st_uid, mode_of(&stat))?;
        if !is_kind(&stat, nix::libc::S_IFREG) {
            return Err(SpoolError::not_safe(&path, "not a regular file", "remove it"));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > most as u64 {
            return Err(SpoolError::TooLarge { path, size, most: most as u64 });
        }
        match read_up_to(&mut file, usize::try_from(size).unwrap_or(most) + 1) {
            // Shorter or longer than it says it is: its data is still on its way here.
            Ok(bytes) if bytes.len() as u64 != size => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.raw_os_error() == Some(Errno::ESTALE as i32) => {
                self.seen = None;
                Ok(None)
            }
            Err(source) => Err(SpoolError::Io { doing: "read", path, source }),
        }
    }

    fn check(&self, path: &Path, uid: u32, mode: u32) -> Result<(), SpoolError> {
        if uid != self.writer {
            let what = format!("belongs to uid {uid}, and only uid {} writes there", self.writer);
            return Err(SpoolError::not_safe(path, what, "see who made it, and remove it"));
        }
        if mode & 0o022 != 0 {
            let what = format!("others than its owner may write it (mode {mode:04o})");
            return Err(SpoolError::not_safe(path, what, format!("chmod go-w {}", path.display())));
        }
        Ok(())
    }
}
