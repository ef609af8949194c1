//! The way of an honest job file: made, read, accepted, given back, removed; and of what was left behind.

use super::*;
use crate::{MAX_READY_PER_USER, STALE, SpoolError};
use gq_model::{JobId, Seconds, Timestamp, Uid};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_micros()).unwrap())
}

#[test]
fn a_job_file_goes_from_its_user_to_its_shard_and_back() {
    let site = Site::new();
    let client = site.client();
    client.write(TOKEN, b"content").unwrap();
    assert_eq!(client.name(TOKEN), NAME);
    assert_eq!(mode(&site.drop(NAME)), 0o640);
    assert!(client.write(TOKEN, b"again").is_err());
    let me = Uid(nix::unistd::Uid::effective().as_raw());
    let dropped = site.spool.read_drop(NAME).unwrap();
    assert_eq!((dropped.bytes.as_slice(), dropped.uid), (b"content".as_slice(), me));

    let job_file = site.spool.job_path(0x0f, JobId(17));
    assert_eq!(job_file, "jobs/0f/17.job");
    site.spool.accept(NAME, &job_file).unwrap();
    site.spool.sync_shard(0x0f).unwrap();
    assert_eq!(mode(&site.dir.join("jobs/0f")), 0o711);
    assert!(!site.drop(NAME).exists());
    assert_eq!(site.spool.list_jobs().unwrap(), [(0x0f, JobId(17))]);
    assert_eq!(site.spool.read_job(&job_file).unwrap(), dropped);
    assert_eq!(client.read_job(&job_file).unwrap(), b"content", "its user reads it again");
    for name in ["jobs/0f/../0f/17.job", "/etc/passwd", "drop/17.job", "jobs//17.job", "jobs/0f/18.job"] {
        assert!(client.read_job(name).is_err(), "{name}");
    }

    site.spool.give_back(&job_file, NAME).unwrap();
    assert_eq!(site.spool.read_drop(NAME).unwrap(), dropped);
    assert!(site.spool.list_jobs().unwrap().is_empty());
    client.remove(TOKEN).unwrap();
    client.remove(TOKEN).unwrap();
    assert!(site.spool.accept(NAME, &job_file).is_err());
    site.spool.remove_job(&job_file).unwrap();
}

#[test]
fn accepting_twice_is_accepting_once_and_no_id_has_two_files() {
    let site = Site::new();
    let job_file = site.spool.job_path(0, JobId(1));
    site.put("a.job", b"a");
    site.put("b.job", b"b");
    site.spool.accept("a.job", &job_file).unwrap();
    site.spool.accept("a.job", &job_file).unwrap();
    assert!(matches!(site.spool.accept("b.job", &job_file), Err(SpoolError::Name { .. })));
    assert_eq!(site.spool.read_job(&job_file).unwrap().bytes, b"a");
    assert!(site.drop("b.job").exists());
    site.spool.remove_job(&job_file).unwrap();
    assert!(site.spool.list_jobs().unwrap().is_empty());
}

#[test]
fn a_job_file_is_named_in_one_way_only() {
    let site = Site::new();
    site.put("a.job", b"a");
    for bad in [
        "jobs/0f/17",
        "jobs/f/17.job",
        "jobs/0F/17.job",
        "jobs/0f/017.job",
        "jobs/0f/+17.job",
        "jobs/0f/../1.job",
        "../jobs/0f/17.job",
        "/jobs/0f/17.job",
        "jobs/0f/17.job\0",
        "jobs/100/17.job",
    ] {
        assert!(matches!(site.spool.accept("a.job", bad), Err(SpoolError::Name { .. })), "{bad}");
        assert!(site.spool.remove_job(bad).is_err() && site.spool.read_job(bad).is_err(), "{bad}");
    }
    assert!(site.drop("a.job").exists());
}

#[test]
fn a_job_left_offline_is_found_by_the_next_look() {
    let site = Site::new();
    let client = site.client();
    client.write(TOKEN, b"later").unwrap();
    assert!(site.spool.ready().unwrap().is_empty());
    client.offline(TOKEN).unwrap();
    client.offline(TOKEN).unwrap();
    let ready = site.ready();
    assert_eq!(ready, ["abababababababababababababababab.job"]);
    assert_eq!(site.spool.read_drop(&ready[0]).unwrap().bytes, b"later");
}

#[test]
fn nobodys_heap_of_files_hides_another_users() {
    let site = Site::new();
    for n in 0..500 {
        site.put(&format!("b{n:04}.job"), b"b");
    }
    assert_eq!(site.spool.ready().unwrap().len(), MAX_READY_PER_USER);
    if is_root() {
        site.put("zzz.job", b"a");
        std::os::unix::fs::chown(site.drop("zzz.job"), Some(12345), None).unwrap();
        let ready = site.ready();
        assert_eq!(ready.len(), MAX_READY_PER_USER + 1);
        assert!(ready.iter().take(2).any(|name| name == "zzz.job"), "{ready:?}");
        assert_eq!(site.spool.read_drop("zzz.job").unwrap().uid, Uid(12345));
    }
}

#[test]
fn only_old_unfinished_files_are_cleaned_away() {
    let site = Site::new();
    let old = SystemTime::now() - Duration::from_secs(STALE.0 + 60);
    for name in [".s.old", "old.job", ".s.new", "other"] {
        site.put(name, b"x");
        if name != ".s.new" {
            std::fs::File::open(site.drop(name)).unwrap().set_modified(old).unwrap();
        }
    }
    let removed = |at| {
        let cleaned = site.spool.clean(at).unwrap();
        assert!(cleaned.whole);
        cleaned.users.values().map(|litter| (litter.removed, litter.left)).collect::<Vec<_>>()
    };
    assert_eq!(removed(now()), [(2, 0)]);
    assert!(!site.drop(".s.old").exists() && !site.drop("other").exists());
    assert!(removed(now()).is_empty());
    assert_eq!(removed(now().after(Seconds(STALE.0 + 60))), [(1, 0)]);
    assert!(!site.drop(".s.new").exists());
    assert!(site.drop("old.job").exists(), "what is left to be taken up is for whoever takes it up");
}

#[test]
fn whatever_users_leave_in_the_drop_box_is_counted_and_goes_after_its_time() {
    use std::os::unix::ffi::OsStrExt as _;
    let site = Site::new();
    let names: [&[u8]; 7] =
        [b"a\nb", b"\xff\xfe.job", b"a b.job", b"\x1b[2J", &[b'y'; 255], b"plain", b".s.\n"];
    for name in names {
        std::fs::write(site.dir.join("drop").join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    std::fs::create_dir(site.drop("folder")).unwrap();
    std::fs::create_dir_all(site.drop("full/folder")).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", site.drop("link.job")).unwrap();
    nix::unistd::mkfifo(&site.drop("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    site.put(".s.new", b"being written");
    // A time in the future keeps nothing.
    let future = SystemTime::now() + Duration::from_secs(STALE.0 * 100);
    std::fs::File::open(site.drop("plain")).unwrap().set_modified(future).unwrap();
    let me = Uid(nix::unistd::Uid::effective().as_raw());
    let look = |at| site.spool.clean(at).unwrap().users.remove(&me).unwrap();
    let litter = look(now());
    assert_eq!((litter.removed, litter.left), (0, 11));
    assert!(litter.name.bytes().all(|b| b.is_ascii_graphic() || b == b' ') && litter.name.len() < 300);
    let later = now().after(Seconds(STALE.0 + 60));
    let litter = look(later);
    assert_eq!((litter.removed, litter.left), (11, 1), "and the folder that is not empty stays");
    let left: Vec<_> =
        std::fs::read_dir(site.dir.join("drop")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["full"]);
}

#[test]
fn a_cleaning_stops_after_so_much_and_the_next_one_goes_on() {
    let site = Site::new();
    let many = 10_300;
    (0..many).for_each(|n| site.put(&format!("junk{n}"), b""));
    let later = now().after(Seconds(STALE.0 + 60));
    let (first, second) = (site.spool.clean(later).unwrap(), site.spool.clean(later).unwrap());
    let removed = |cleaned: &crate::Cleaned| cleaned.users.values().map(|litter| litter.removed).sum::<u64>();
    assert_eq!((first.whole, removed(&first), second.whole), (false, 10_000, true));
    assert_eq!(removed(&second), many - 10_000);
}

#[test]
fn what_is_malformed_is_set_aside_and_never_lost() {
    let site = Site::new();
    for text in ["one", "two"] {
        site.put("bad.job", text.as_bytes());
        site.spool.quarantine("bad.job").unwrap();
    }
    let kept = |name: &str| std::fs::read_to_string(site.dir.join("quarantine").join(name)).unwrap();
    assert_eq!((kept("bad.job").as_str(), kept("bad.job.1").as_str()), ("one", "two"));
    assert!(site.spool.quarantine("../jobs").is_err());
    assert!(site.spool.quarantine("missing").is_err());
}
