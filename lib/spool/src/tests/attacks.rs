//! Hostile files in the drop box. None is taken for its owner's word, and none makes the reader wait.

use super::*;
use crate::DropError;
use gq_model::MAX_JOB_FILE;
use nix::sys::stat::Mode;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

impl Site {
    fn not_taken(&self, name: &str) -> String {
        match self.spool.read_drop(name) {
            Err(DropError::NotYours(why)) => why.to_owned(),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn links_pipes_sockets_and_folders_are_not_taken_and_never_waited_for() {
    let site = Site::new();
    nix::unistd::mkfifo(&site.drop("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(site.drop("folder")).unwrap();
    let _socket = UnixListener::bind(site.drop("socket")).unwrap();
    let targets = ["/etc/shadow", "/dev/zero", "/proc/self/mem", "pipe", "/nowhere", "."];
    for (n, target) in targets.iter().enumerate() {
        symlink(target, site.drop(&format!("link{n}"))).unwrap();
        assert_eq!(site.not_taken(&format!("link{n}")), "it is a symbolic link");
    }
    for name in ["pipe", "folder", "socket"] {
        assert_eq!(site.not_taken(name), "it is not a regular file");
    }
    for name in ["pipe", "folder", "socket", "link0"] {
        std::fs::rename(site.drop(name), site.drop(&format!("{name}.job"))).unwrap();
    }
    assert!(site.spool.ready().unwrap().is_empty());
    assert!(matches!(site.spool.read_drop("missing"), Err(DropError::Missing)));
}

/// Between the proof and the move its user may put something else in the place of a file.
#[test]
fn what_a_file_was_exchanged_for_becomes_no_job_file() {
    let site = Site::new();
    nix::unistd::mkfifo(&site.drop("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(site.drop("folder")).unwrap();
    symlink("/etc/passwd", site.drop("link")).unwrap();
    std::fs::write(site.drop("two"), "").unwrap();
    std::fs::hard_link(site.drop("two"), site.drop("names")).unwrap();
    for (n, name) in ["pipe", "folder", "link", "two"].iter().enumerate() {
        let error = site.spool.accept(name, &format!("jobs/00/{n}.job")).unwrap_err().to_string();
        assert!(error.contains("exchanged"), "{name}: {error}");
        assert!(std::fs::symlink_metadata(site.dir.join("quarantine").join(name)).is_ok(), "{name}");
    }
    assert!(site.spool.list_jobs().unwrap().is_empty());
}

#[test]
fn a_device_is_not_taken() {
    use nix::sys::stat::{SFlag, makedev, mknod};
    let site = Site::new();
    // Making one takes root, and a file system that allows it.
    if mknod(&site.drop("device"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).is_ok() {
        assert!(matches!(site.spool.read_drop("device"), Err(DropError::NotYours(_))));
    }
}

#[test]
fn a_file_linked_or_moved_here_from_elsewhere_is_not_its_owners_word() {
    let site = Site::new();
    let elsewhere = site.dir.with_file_name("project");
    std::fs::create_dir(&elsewhere).unwrap();
    let victims = elsewhere.join("file");
    std::fs::write(&victims, "a file of the victim").unwrap();
    chmod(&victims, 0o640);
    std::fs::hard_link(&victims, site.drop("linked")).unwrap();
    assert_eq!(site.not_taken("linked"), "it has another name elsewhere");
    std::fs::remove_file(site.drop("linked")).unwrap();
    if is_root() {
        chown(&victims, Some(12345), Some(12346)).unwrap();
        std::fs::rename(&victims, site.drop("moved")).unwrap();
        assert_eq!(site.not_taken("moved"), "it was not made in the drop box, but moved there");
    }
}

#[test]
fn a_file_that_others_may_write_proves_nothing() {
    let site = Site::new();
    for wrong in [0o660, 0o642, 0o666] {
        site.put("open", b"x");
        chmod(&site.drop("open"), wrong);
        assert_eq!(site.not_taken("open"), "others than its owner may write it");
    }
}

#[test]
fn the_size_is_refused_before_anything_is_read() {
    let site = Site::new();
    for size in [MAX_JOB_FILE as u64 + 1, 1 << 40] {
        site.put("huge", b"");
        let file = std::fs::File::options().write(true).open(site.drop("huge")).unwrap();
        if file.set_len(size).is_ok() {
            match site.spool.read_drop("huge") {
                Err(DropError::TooLarge { size: said }) => assert_eq!(said, size),
                other => panic!("{other:?}"),
            }
        }
    }
    site.put("full", &vec![7; MAX_JOB_FILE]);
    assert_eq!(site.spool.read_drop("full").unwrap().bytes.len(), MAX_JOB_FILE);
    site.put("empty", b"");
    assert!(site.spool.read_drop("empty").unwrap().bytes.is_empty());
}

#[test]
fn odd_names_are_neither_listed_nor_opened() {
    use std::os::unix::ffi::OsStrExt as _;
    let site = Site::new();
    let long = "x".repeat(129);
    for bad in ["", ".", "..", "../cluster.uuid", "a/b", "a\nb", "a b", "\u{1b}[2J", "é", "a\0b", &long] {
        assert!(matches!(site.spool.read_drop(bad), Err(DropError::NotYours(_))), "{bad:?}");
        assert!(site.spool.accept(bad, "jobs/00/1.job").is_err(), "{bad:?}");
    }
    let names: [&[u8]; 5] = [b"a\n.job", b"\xff\xfe.job", b"a b.job", b"\x1b.job", &[b'y'; 250]];
    for name in names {
        std::fs::write(site.dir.join("drop").join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    site.put("good.job", b"x");
    assert_eq!(site.ready(), ["good.job"]);
}

/// A user who replaces his file without pause gets one of his versions taken, or none: never a mix of two.
#[test]
fn a_file_replaced_while_it_is_read_is_one_of_its_versions() {
    let site = Site::new();
    let version = |n: u8| vec![n; 1000 + usize::from(n) * 331];
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in (0..=u8::MAX).cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                site.put("next", &version(n));
                std::fs::rename(site.drop("next"), site.drop("raced.job")).unwrap();
            }
        });
        let mut taken = 0;
        while taken < 2000 {
            match site.spool.read_drop("raced.job") {
                Ok(read) => {
                    let first = read.bytes[0];
                    assert!(read.bytes == version(first), "a mix that begins with {first}");
                    taken += 1;
                }
                Err(DropError::Missing | DropError::Changing) => {}
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Growing, shrinking and rewriting in place: what was read has the size that the file had before and after.
#[test]
fn a_file_that_grows_and_shrinks_is_read_whole_or_not_at_all() {
    let site = Site::new();
    site.put("growing", b"");
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let file = std::fs::File::options().write(true).open(site.drop("growing")).unwrap();
            for size in [0, 10_000_000, 100, 8 << 20].into_iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                file.set_len(size).unwrap();
            }
        });
        for _ in 0..300 {
            match site.spool.read_drop("growing") {
                Ok(read) => assert!([0, 100, 8 << 20].contains(&read.bytes.len())),
                Err(DropError::Changing | DropError::TooLarge { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// What a user who is neither the owner of the box nor of the file can do there: make files of his own, and no more.
#[test]
fn another_user_makes_his_own_files_and_touches_no_others() {
    use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};
    const OTHER: u32 = 54321;
    if !is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    chmod(home.path(), 0o755);
    let dir = home.path().join("spool");
    // A group of its own for the box, so that "made here" can be told from "made elsewhere".
    Spool::init(&dir, Some((0, 12346))).unwrap();
    let spool = Spool::open(&dir).unwrap();
    DropClient::open(&dir).unwrap().write(TOKEN, b"secret").unwrap();
    let as_other = |command: &str| {
        let script = format!("umask 027; cd '{}' && {command}", dir.join("drop").display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).uid(OTHER).gid(OTHER);
        shell.output().unwrap().status.success()
    };
    for forbidden in
        ["ls", "cat NAME", "rm -f NAME", "mv NAME mine", "mv mine NAME", "echo x > NAME", "chmod 666 NAME"]
    {
        as_other("echo content > mine");
        assert!(!as_other(&forbidden.replace("NAME", NAME)), "{forbidden}");
    }
    assert_eq!(spool.read_drop(NAME).unwrap().bytes, b"secret");
    assert_eq!(std::fs::metadata(dir.join("drop/mine")).unwrap().gid(), 12346);
    let his = spool.read_drop("mine").unwrap();
    assert_eq!((his.bytes.as_slice(), his.uid.0), (b"content\n".as_slice(), OTHER));
    spool.accept("mine", "jobs/07/9.job").unwrap();
    // Accepted, it is still his and readable by him, in a folder that nobody can list or write.
    assert!(as_other("cat ../jobs/07/9.job && ! ls ../jobs && ! ls ../jobs/07 && ! rm -f ../jobs/07/9.job"));
    assert_eq!(spool.read_job("jobs/07/9.job").unwrap(), his);
    // A file from elsewhere keeps its group, whoever moves it here.
    assert!(as_other(&format!("cd '{}' && ! touch here", home.path().display())));
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    chown(&project, Some(OTHER), Some(OTHER)).unwrap();
    assert!(as_other("echo x > ../../project/file && mv ../../project/file moved"));
    assert!(matches!(spool.read_drop("moved"), Err(DropError::NotYours(_))));
}
