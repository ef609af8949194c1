//! Making and opening a spool, and what is refused.

use super::*;
use crate::{DropError, SpoolError, read_cluster_id};
use gq_model::ClusterId;

fn refused(dir: &Path) -> String {
    match Spool::open(dir) {
        Err(why @ SpoolError::Unsafe { .. }) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_spool_has_the_folders_and_modes_it_must_have() {
    let site = Site::new();
    for (name, wanted) in
        [(".", 0o755), ("drop", 0o3733), ("jobs", 0o711), ("nodes", 0o755), ("quarantine", 0o700)]
    {
        assert_eq!(mode(&site.dir.join(name)), wanted, "{name}");
    }
    Spool::init(&site.dir, None).unwrap();
    Spool::open(&site.dir).unwrap();
}

#[test]
fn a_spool_given_to_a_user_is_his() {
    if !is_root() {
        return;
    }
    use std::os::unix::fs::MetadataExt as _;
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("deep/spool");
    Spool::init(&dir, Some((12345, 12346))).unwrap();
    let drop = std::fs::metadata(dir.join("drop")).unwrap();
    assert_eq!((drop.uid(), drop.gid(), drop.mode() & 0o7777), (12345, 12346, 0o3733));
    assert!(refused(&dir).contains("uid 12345"));
}

#[test]
fn folders_that_others_may_write_or_exchange_are_refused_with_what_to_do() {
    let site = Site::new();
    let above = site.dir.parent().unwrap();
    chmod(above, 0o777);
    assert!(refused(&site.dir).contains("chmod go-w"));
    chmod(above, 0o755);
    for name in [".", "jobs", "nodes", "quarantine"] {
        let path = site.dir.join(name);
        let good = mode(&path);
        chmod(&path, good | 0o002);
        assert!(refused(&site.dir).contains("chmod go-w"), "{name}");
        chmod(&path, good);
    }
    for wrong in [0o733, 0o2733, 0o1733, 0o3777, 0o3700] {
        chmod(&site.drop(""), wrong);
        assert!(refused(&site.dir).contains("chmod 3733"), "{wrong:o}");
    }
    chmod(&site.drop(""), 0o3733);
    Spool::open(&site.dir).unwrap();
}

#[test]
fn a_folder_of_another_user_on_the_way_is_refused() {
    if !is_root() {
        return;
    }
    let site = Site::new();
    let above = site.dir.parent().unwrap();
    std::os::unix::fs::chown(above, Some(12345), None).unwrap();
    assert!(refused(&site.dir).contains("belongs to uid 12345"));
    std::os::unix::fs::chown(above, Some(0), None).unwrap();
    let link = above.join("link");
    std::os::unix::fs::symlink(above, &link).unwrap();
    Spool::open(&link.join("spool")).unwrap();
    std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
    assert!(refused(&link.join("spool")).contains("symbolic link made by uid 12345"));
}

#[test]
fn symbolic_links_in_place_of_the_folders_are_refused() {
    let site = Site::new();
    let link = site.dir.with_file_name("link");
    std::os::unix::fs::symlink(&site.dir, &link).unwrap();
    refused(&link);
    for name in ["drop", "jobs", "quarantine", "nodes"] {
        let (path, aside) = (site.dir.join(name), site.dir.join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &path).unwrap();
        refused(&site.dir);
        assert!(Spool::init(&site.dir, None).is_err(), "{name}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
}

#[test]
fn the_door_shuts_when_the_drop_box_changes_while_gqd_runs() {
    let site = Site::new();
    site.put("a.job", b"x");
    chmod(&site.drop(""), 0o777);
    assert!(site.spool.ready().is_err());
    assert!(matches!(site.spool.read_drop("a.job"), Err(DropError::Shut(_))));
    chmod(&site.drop(""), 0o3733);
    assert_eq!(site.ready(), ["a.job"]);
    std::fs::rename(site.drop(""), site.dir.join("aside")).unwrap();
    std::fs::create_dir(site.drop("")).unwrap();
    chmod(&site.drop(""), 0o3733);
    assert!(site.spool.ready().unwrap_err().to_string().contains("taken the place"));
}

#[test]
fn a_spool_belongs_to_one_cluster_for_ever() {
    let site = Site::new();
    let (ours, other) = (ClusterId([1; 16]), ClusterId([2; 16]));
    assert_eq!(site.client().cluster_id().unwrap(), None);
    site.spool.write_cluster_id(ours).unwrap();
    site.spool.write_cluster_id(ours).unwrap();
    assert!(site.spool.write_cluster_id(other).is_err());
    assert_eq!(read_cluster_id(&site.dir).unwrap(), Some(ours));
    assert_eq!(mode(&site.dir.join("cluster.uuid")), 0o644);
    std::fs::write(site.dir.join("cluster.uuid"), "nonsense\n").unwrap();
    assert!(read_cluster_id(&site.dir).is_err());
}
