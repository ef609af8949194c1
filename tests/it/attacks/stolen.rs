//! A `gqd` that was taken over: whoever has its account writes orders by hand. The node runs what a user submitted, as that user, and nothing else.

use super::{honest, submit};
use crate::lab::{Owner, Plan, accounts, as_user, cards, until};
use gq_model::{Assignment, Seq, Token, Uid};
use gq_proto::{Head, JobFile, Order, OrderBody, seal, sha256_hex, unseal};
use nix::sys::signal::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The orders that wait for a node, by their numbers.
fn orders(folder: &Path) -> Vec<Order> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        names.filter(|path| path.extension().is_some_and(|e| e == "order")).collect();
    paths.sort();
    // One that is being written is not one yet.
    paths.into_iter().filter_map(|path| unseal(&fs::read(path).ok()?).ok()).collect()
}

/// Writes a file that everybody can read: that nobody takes the thief's word has no smaller reason.
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// What a thief would have run, each in the name of a job of its own, which the mark that it would make is named after. `file`: makes a job file as
/// the thief, and returns its name in the spool and its hash.
fn forgeries(
    good: &Assignment,
    ben: &Owner,
    mut file: impl FnMut(Uid, &str) -> (String, String),
) -> Vec<Assignment> {
    let forged = |number: u64, change: &mut dyn FnMut(&mut Assignment, &str)| {
        let mut assignment = good.clone();
        assignment.key.job.0 = 900 + number;
        change(&mut assignment, &format!("touch ran.{number}"));
        assignment
    };
    vec![
        forged(1, &mut |a, _| a.uid = Uid(ben.uid)),
        forged(2, &mut |a, _| a.uid = Uid(0)),
        forged(3, &mut |a, _| a.sha256 = sha256_hex(b"another")),
        forged(4, &mut |a, run| (a.job_file, a.sha256) = file(good.uid, run)),
        forged(5, &mut |a, run| {
            (a.job_file, a.sha256) = file(Uid(0), run);
            a.uid = Uid(0);
        }),
        forged(6, &mut |a, run| {
            let (name, hash) = file(good.uid, run);
            (a.job_file, a.sha256) = (format!("jobs/../{name}"), hash);
        }),
        forged(7, &mut |a, _| a.user = ben.name.clone()),
        // What runs already, again.
        good.clone(),
    ]
}

#[test]
fn whoever_has_the_account_of_gqd_runs_no_code_as_another() {
    let Some([gq, ann, ben]) = accounts(["daemon", "nobody", "games"]) else { return };
    let lab = Plan::new().node("n1", &cards(1)).by_files().installed_for(&gq.name).start();
    lab.client_of(&ben, "gqstat");
    lab.node("n1").signal(Signal::SIGSTOP);
    let command =
        "echo x >>ran.$GQ_JOB_ID; if [ $GQ_JOB_ID = 1 ]; then until [ -e go ]; do sleep 0.02; done; fi";
    let first = submit(&lab, &ann, &["--wrap", command]);
    let last = submit(&lab, &ann, &["--wrap", command]);
    let folder = lab.dir().join("spool/nodes/n1/in");
    let real = until("both are ordered", || Some(orders(&folder)).filter(|orders| orders.len() == 2));
    lab.gqd.kill9();
    let assignment = |order: &Order| match &order.body {
        OrderBody::Start(assignment) => (**assignment).clone(),
        other => panic!("{other:?}"),
    };
    let (first_order, last_order) = (&real[0], &real[1]);
    let mut made = 0;
    let file = |uid: Uid, run: &str| {
        made += 1;
        let name = format!("jobs/{made}.job");
        let job = honest(&lab, &ann, Token([made; 16]));
        let job = JobFile { uid, script: format!("#!/bin/sh\n{run}\n").into_bytes(), ..job };
        let bytes = job.to_bytes().unwrap();
        write(&lab.dir().join("spool").join(&name), &bytes);
        (name, sha256_hex(&bytes))
    };
    let home = lab.work(&ann.name);
    as_user(&gq, || {
        let mut forged = forgeries(&assignment(first_order), &ben, file);
        // The last one is honest: when it has run, all were taken.
        forged.push(assignment(last_order));
        let head_path = folder.join("HEAD");
        let mut head: Head = unseal(&fs::read(&head_path).unwrap()).unwrap();
        for (number, assignment) in (last_order.seq.0..).zip(forged) {
            let body = OrderBody::Start(Box::new(assignment));
            let order = Order { seq: Seq(number), epoch: head.epoch, body };
            write(&folder.join(format!("{number:016x}.order")), &seal(&order).unwrap());
            head.highest = Seq(number);
        }
        head.beat += 1;
        write(&folder.join(".HEAD"), &seal(&head).unwrap());
        fs::rename(folder.join(".HEAD"), head_path).unwrap();
    });
    lab.node("n1").signal(Signal::SIGCONT);
    let ran = |id: String| fs::read_to_string(home.join(format!("ran.{id}"))).unwrap_or_default();
    until("the honest ones run", || {
        (ran(last.id.to_string()) == "x\n" && ran(first.id.to_string()) == "x\n").then_some(())
    });
    fs::write(home.join("go"), "").unwrap();
    until("all have ended", || lab.supervisors().is_empty().then_some(()));
    assert_eq!(
        (ran(first.id.to_string()), ran(last.id.to_string())),
        ("x\n".into(), "x\n".into()),
        "each ran once"
    );
    let marks = |folder: PathBuf| {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut marks: Vec<String> = names.filter(|name| name.starts_with("ran.")).collect();
        marks.sort();
        marks
    };
    assert_eq!(marks(home.clone()), [format!("ran.{}", first.id), format!("ran.{}", last.id)]);
    assert_eq!(marks(lab.work(&ben.name)), Vec::<String>::new());
}
