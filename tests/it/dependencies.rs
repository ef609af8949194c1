//! Dependencies, as users see them: what each kind waits for, on jobs, arrays and tasks that live or have ended, through crashes; what can no
//! longer come is said.

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::{End, JobState, Reason};
use std::{fs, process::Stdio};

/// A job that ends well, or with 1, when it is told to.
fn gated<'a>(lab: &'a Lab, gate: &str) -> Job<'a> {
    lab.submit("-o /dev/null", &format!("until [ -e {gate} ]; do sleep 0.02; done; exit $(cat {gate})"))
}

/// A job that notes its name when it runs.
fn after<'a>(lab: &'a Lab, dependency: &str) -> Job<'a> {
    lab.submit(&format!("-o /dev/null --dependency={dependency}"), "echo $GQ_JOB_ID >>order")
}

#[track_caller]
fn waits(job: Job<'_>, reason: Reason) {
    let view = job.when("waits", |view| view["reason"] == reason.to_string());
    assert_eq!(view["state"], "PENDING", "{view}");
}

#[test]
fn each_kind_waits_for_its_own_condition() {
    let lab = Lab::with_cards(0);
    let (good, bad) = (gated(&lab, "good"), gated(&lab, "bad"));
    let on = |kind: &str, job: Job<'_>| after(&lab, &format!("{kind}:{}", job.id));
    let begun = on("after", good);
    let later = on("after", bad);
    let [ok_good, not_good, any_good] = ["afterok", "afternotok", "afterany"].map(|kind| on(kind, good));
    let [ok_bad, not_bad, any_bad] = ["afterok", "afternotok", "afterany"].map(|kind| on(kind, bad));
    // It has begun, and that is enough.
    assert_eq!((begun.ended(), later.ended()), (End::Completed, End::Completed));
    for job in [ok_good, not_good, any_good, ok_bad, not_bad, any_bad] {
        waits(job, Reason::Dependency);
    }
    assert_eq!(ok_good.word("dependency"), format!("afterok:{}", good.id));
    lab.file("good", "0");
    lab.file("bad", "1");
    for job in [ok_good, any_good, not_bad, any_bad] {
        assert_eq!(job.ended(), End::Completed);
    }
    for job in [not_good, ok_bad] {
        waits(job, Reason::DependencyNeverSatisfied);
    }
    let why = lab.say(&format!("gqstat --why {}", ok_bad.id)).ok();
    assert!(why.contains("DependencyNeverSatisfied"), "{why}");
    assert!(lab.say(&format!("gqstat -j {}", ok_bad.id)).ok().contains("(DependencyNeverSatisfied)"));

    // What has ended counts as it did then, also for a gqd that was not there.
    lab.gqd.kill9();
    lab.gqd.start();
    for (kind, job) in [("afterok", good), ("afterany", bad), ("afternotok", bad), ("after", good)] {
        assert_eq!(on(kind, job).ended(), End::Completed, "{kind}");
    }
    waits(on("afterok", bad), Reason::DependencyNeverSatisfied);
    waits(on("afternotok", good), Reason::DependencyNeverSatisfied);
    // What waits for nothing any more runs.
    lab.ctl(&format!("update {} --dependency=none", ok_bad.id));
    lab.ctl(&format!("update {} --dependency=afterany:{}", not_good.id, bad.id));
    assert_eq!((ok_bad.ended(), not_good.ended()), (End::Completed, End::Completed));
}

/// Who waits for a job that waits in vain is told so, once, and goes on waiting: it may be given something else to wait for.
#[test]
fn who_waits_for_a_job_is_told_when_its_dependency_can_no_longer_be_met() {
    let lab = Lab::with_cards(0);
    let other = gated(&lab, "other");
    let mut command = lab.client("gqsub");
    let dependency = format!("--dependency=afterok:{0},afterany:{0}", other.id);
    command.args(["--parsable", "--wait", &dependency, "-o", "/dev/null", "--wrap", "exit 7"]);
    let words = fs::File::create(lab.work("words")).unwrap();
    let mut waiter = command.stdout(Stdio::null()).stderr(words).spawn().unwrap();
    let job = lab.job(&until("it is submitted", || {
        let said = lab.say("gqstat -h -n wrap -t PD -o jobid").ok();
        (!said.trim().is_empty()).then_some(said)
    }));
    waits(job, Reason::Dependency);
    lab.file("other", "1");
    until("it is told", || lab.read("words").contains("  try: ").then_some(()));
    // Another life of gqd tells it anew; that is not said again.
    lab.gqd.kill9();
    lab.gqd.start();
    until("it asks again", || lab.read("words").contains("still waiting").then_some(()));
    lab.ctl(&format!("update {} --dependency=none", job.id));
    assert_eq!(waiter.wait().unwrap().code(), Some(7), "{}", lab.read("words"));
    let told = lab.read("words");
    let line = format!("gqsub: job {} waits for what can no longer happen: afterok:{}\n", job.id, other.id);
    assert_eq!(told.matches(&line).count(), 1, "{told}");
    assert!(told.contains(&format!("gqctl update {0} --dependency=..., or gqcancel {0}", job.id)), "{told}");

    // Who does not want to wait in vain is told why it ended.
    let ended = format!("--dependency=afterok:{}", other.id);
    for words in [vec!["-o", "/dev/null"], vec!["-o", "/dev/null", "--array=0-3", "--quiet"]] {
        let common = ["--wait", "--kill-on-invalid-dep=yes", &ended, "--wrap", "true"];
        let said = lab.run("gqsub", &[&words[..], &common].concat());
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("was cancelled: what it waited for can no longer happen"), "{said:?}");
    }
    // Tasks wait in vain one by one.
    let pair = lab.submit("--array=0-1 -o /dev/null", "exit $GQ_ARRAY_TASK_ID");
    assert_eq!(pair.over()["ended"]["FAILED"], 1);
    let each = format!("--dependency=aftercorr:{}", pair.id);
    let kill =
        ["--wait", "--array=0-1", "--kill-on-invalid-dep=yes", "-o", "/dev/null", &each, "--wrap", "true"];
    let said = lab.run("gqsub", &kill);
    assert_eq!(
        (said.code, said.err.contains("what it waited for can no longer happen")),
        (1, true),
        "{said:?}"
    );
}

/// B065: with mixed separators all was read as OR.
#[test]
fn conditions_are_joined_by_and_or_by_or_and_never_by_both() {
    let lab = Lab::with_cards(0);
    let (a, b) = (gated(&lab, "a"), gated(&lab, "b"));
    let both = after(&lab, &format!("afterok:{}:{}", a.id, b.id));
    let comma = after(&lab, &format!("afterok:{},afternotok:{}", a.id, b.id));
    let one = after(&lab, &format!("afterok:{}?afterok:{}", b.id, a.id));
    let mixed = format!("--dependency=afterany:{0},afterany:{0}?afterany:{1}", a.id, b.id);
    let said = lab.run("gqsub", &[&mixed, "--wrap", "true"]).refused(2);
    assert!(said.contains("--dependency") && said.contains('?'), "{said}");
    lab.file("a", "0");
    assert_eq!(one.ended(), End::Completed);
    waits(both, Reason::Dependency);
    waits(comma, Reason::Dependency);
    lab.file("b", "1");
    assert_eq!(comma.ended(), End::Completed);
    waits(both, Reason::DependencyNeverSatisfied);
    // Of conditions joined by OR one is enough, and none is too few.
    waits(after(&lab, &format!("afterok:{}?afternotok:{}", b.id, a.id)), Reason::DependencyNeverSatisfied);
}

/// B067: a dependency without an id ended the server. B073: unknown kinds were taken for nothing.
#[test]
fn what_is_no_dependency_is_refused_and_unknown_ids_are_named() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("-H", "true");
    for form in [
        "afterok:",
        "afterok:,",
        "afterok",
        "afterok::",
        "expand:1",
        "afterok:x",
        "afterok:-1",
        "after:1+",
        "after:1+x",
        "afterok:1+5",
        ",",
        ":1",
        "singleton:1",
        "afterok:1;2",
        "afterok:1_",
        "afterok:1_[3-1]",
        "afterok:99999999999999999999",
    ] {
        let said = lab.run("gqsub", &["--dependency", form, "--wrap", "true"]).refused(2);
        assert!(said.contains("--dependency"), "{form}: {said}");
    }
    let next = job.id + 1;
    for form in
        [format!("afterok:{next}"), "afterany:4000000000".to_owned(), format!("afterok:{}:77", job.id)]
    {
        let said = lab.run("gqsub", &["--dependency", &form, "--wrap", "true"]).refused(4);
        assert!(said.contains("no such job"), "{form}: {said}");
    }
    let said = lab.run("gqsub", &["-d", &format!("afterok:{}_7", job.id), "--wrap", "true"]).refused(1);
    assert!(said.contains("no such task"), "{said}");
    lab.say(&format!("gqctl update {} --dependency=afterok:77", job.id)).refused(4);
    lab.say(&format!("gqctl update {} --dependency=expand:1", job.id)).refused(2);
    assert!(lab.ctl("ping").contains("answers"));
    assert_eq!(lab.list("-t all").len(), 1);
}

#[test]
fn a_circle_is_refused() {
    let lab = Lab::with_cards(0);
    let a = lab.submit("-H", "true");
    let b = after(&lab, &format!("afterok:{}", a.id));
    let c = after(&lab, &format!("afterany:{}", b.id));
    for on in [b, c] {
        let said = lab.say(&format!("gqctl update {} --dependency=afterok:{}", a.id, on.id)).refused(1);
        assert!(said.contains("circle"), "{said}");
    }
    let said = lab.say(&format!("gqctl update {0} --dependency=afterok:{0}", a.id)).refused(1);
    assert!(said.contains("itself"), "{said}");
    lab.ctl(&format!("release {}", a.id));
    assert_eq!(c.ended(), End::Completed, "nothing has changed");
}

/// B019: jobs that waited for others were gone after a restart.
#[test]
fn a_chain_outlives_gqd_however_it_ends() {
    let lab = Lab::with_cards(0);
    let a = gated(&lab, "go").running();
    let b = after(&lab, &format!("afterok:{}", a.id));
    let c = after(&lab, &format!("afterany:{}", b.id));
    let d = lab.submit(
        &format!("-o /dev/null --array=0-3 --dependency=afterok:{}", c.id),
        "echo $GQ_JOB_ID >>order",
    );
    let e = after(&lab, &format!("afterok:{}", d.id));
    lab.gqd.kill9();
    lab.gqd.start();
    for job in [b, c, d, e] {
        waits(job, Reason::Dependency);
    }
    assert_eq!(lab.gqd.stop(), Some(0));
    // The end it waits for comes while nobody listens.
    lab.file("go", "0");
    until("the first has ended", || lab.processes().len().eq(&1).then_some(()));
    lab.gqd.start();
    assert_eq!(e.ended(), End::Completed);
    let order = [b.id, c.id, d.id, d.id, d.id, d.id, e.id].map(|id| format!("{id}\n")).concat();
    assert_eq!(lab.read("order"), order);
    assert_eq!(a.ended(), End::Completed);
}

/// B069: what waited for a job to fail was gone when that was cancelled while it waited.
#[test]
fn a_job_that_is_cancelled_before_it_began_did_not_complete() {
    let lab = Lab::with_cards(0);
    let a = lab.submit("-H", "true");
    let [not, any, begun, ok] =
        ["afternotok", "afterany", "after", "afterok"].map(|kind| after(&lab, &format!("{kind}:{}", a.id)));
    assert_eq!(lab.say(&format!("gqcancel {}", a.id)).code, 0);
    for job in [not, any, begun] {
        assert_eq!(job.ended(), End::Completed);
    }
    waits(ok, Reason::DependencyNeverSatisfied);
}

/// B071: a job that ran was ended because what it had waited for was true no more.
#[test]
fn what_runs_is_left_alone_by_what_others_come_to() {
    let lab = Plan::new().node("n1", &cards(0)).scheduler("kill_on_invalid_dep = true").start();
    let (a, b) = (gated(&lab, "a"), gated(&lab, "b"));
    let either = format!("--dependency=afterok:{}?afterok:{}", a.id, b.id);
    let runs = lab.gqsub(&[&either, "--wrap", "touch up; until [ -e go ]; do sleep 0.02; done"]);
    let part = format!("--dependency=aftercorr:{}", a.id);
    let part =
        lab.gqsub(&["--array=0", &part, "-o", "/dev/null", "--wrap", "until [ -e go ]; do sleep 0.02; done"]);
    lab.file("a", "0");
    lab.until_file("up");
    until("its task runs", || (lab.list(&format!("-j {}", part.id))[0]["state"] == "RUNNING").then_some(()));
    lab.file("b", "1");
    assert_eq!(b.ended(), End::Failed);
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(runs.state(), JobState::Running);
    lab.say(&format!("gqctl update {} --dependency=afterok:{}", runs.id, b.id)).refused(1);
    lab.file("go", "");
    assert_eq!(runs.ended(), End::Completed);
    assert_eq!(part.over()["ended"]["COMPLETED"], 1);
}

/// B073: what waited for an array hung, and offsets were ignored.
#[test]
fn arrays_and_their_tasks_are_waited_for() {
    let lab = Lab::with_cards(0);
    let command = "until [ -e go.$GQ_ARRAY_TASK_ID ]; do sleep 0.02; done; [ $GQ_ARRAY_TASK_ID != 2 ]";
    let array = lab.submit("--array=0-3 -o /dev/null", command);
    let id = array.id;
    let [whole, any, some, failed, first] = [
        format!("afterok:{id}"),
        format!("afterany:{id}"),
        format!("afterok:{id}_[0-1]"),
        format!("afternotok:{id}_2"),
        format!("after:{id}"),
    ]
    .map(|dependency| after(&lab, &dependency));
    let each = format!("--dependency=aftercorr:{id}");
    let each =
        lab.gqsub(&["--array=0-3", &each, "-o", "/dev/null", "--wrap", "echo $GQ_ARRAY_TASK_ID >>second"]);
    let late = after(&lab, &format!("after:{id}+5"));
    assert_eq!(first.ended(), End::Completed, "all its tasks have begun");
    waits(late, Reason::BeginTime);
    let begins = late.view()["expected_start"].as_f64().or(late.view()["begin_time"].as_f64()).unwrap();
    let begun = array.view()["start_time"].as_f64().unwrap();
    assert!((299.0..302.0).contains(&(begins - begun)), "five minutes after its start: {begun} {begins}");
    lab.file("go.1", "");
    until("the second pass of one", || (lab.read("second") == "1\n").then_some(()));
    waits(some, Reason::Dependency);
    lab.file("go.0", "");
    assert_eq!(some.ended(), End::Completed);
    lab.file("go.2", "");
    assert_eq!(failed.ended(), End::Completed);
    waits(whole, Reason::DependencyNeverSatisfied);
    waits(any, Reason::Dependency);
    lab.file("go.3", "");
    assert_eq!(any.ended(), End::Completed);
    until("all that can come has come", || (lab.read("second").lines().count() == 3).then_some(()));
    let wanted = [format!("{}_[0-1,3] COMPLETED", each.id), format!("{}_[2] PENDING", each.id)];
    until("three have ended", || (lab.lines(&format!("-j {}", each.id)) == wanted).then_some(()));
    assert_eq!(lab.list(&format!("-j {}_2", each.id))[0]["reason"], "DependencyNeverSatisfied");
}

/// A plain job waited for the task of index 0 alone.
#[test]
fn who_has_no_twin_is_told_and_a_plain_job_waits_for_the_whole_array() {
    let lab = Lab::with_cards(0);
    let command = "until [ -e go.$GQ_ARRAY_TASK_ID ]; do sleep 0.02; done";
    let array = lab.submit("--array=0-1 -o /dev/null", command);
    let on = format!("aftercorr:{}", array.id);
    let plain = after(&lab, &on);
    let more = lab.submit(&format!("--array=0-3 -o /dev/null -d {on}"), "true");
    lab.file("go.0", "");
    let lines = |wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(|line| format!("{}_{line}", more.id)).collect();
        until(&format!("{wanted:?}"), || (lab.lines(&format!("-j {}", more.id)) == wanted).then_some(()));
    };
    lines(&["0 COMPLETED", "[1] PENDING", "[2-3] PENDING"]);
    let reason = |task: u32| lab.list(&format!("-j {}_{task}", more.id))[0]["reason"].clone();
    assert_eq!((reason(1), reason(3)), ("Dependency".into(), "DependencyNeverSatisfied".into()));
    waits(plain, Reason::Dependency);
    assert_eq!(plain.word("dependency"), on, "it is shown as it was asked");
    lab.gqd.kill9();
    lab.gqd.start();
    waits(plain, Reason::Dependency);
    lab.file("go.1", "");
    assert_eq!(plain.ended(), End::Completed);
    lines(&["[0-1] COMPLETED", "[2-3] PENDING"]);
    let said =
        lab.run("gqsub", &["--array=0-1", "-d", &format!("{on}?afterany:{}", array.id), "--wrap", "true"]);
    assert!(said.clone().refused(1).contains("behind ?"), "{said:?}");
    assert_eq!(lab.say(&format!("gqcancel {}", more.id)).code, 0);
}

#[test]
fn jobs_of_one_name_run_one_after_the_other() {
    let lab = Lab::with_cards(0);
    let gate = |name: &str, gate: &str| {
        lab.submit(
            &format!("-J {name} -d singleton -o /dev/null"),
            &format!("echo {gate} >>order; until [ -e {gate} ]; do sleep 0.02; done"),
        )
    };
    let (one, two, three) = (gate("same", "one"), gate("same", "two"), gate("same", "three"));
    let other = gate("other", "other").running();
    let one = one.running();
    waits(two, Reason::Dependency);
    lab.gqd.kill9();
    lab.gqd.start();
    lab.file("one", "");
    assert_eq!(one.ended(), End::Completed);
    let two = two.running();
    waits(three, Reason::Dependency);
    // Under another name it stands in nobody's way.
    lab.ctl(&format!("update {} --name=renamed", two.id));
    let three = three.running();
    for gate in ["two", "three", "other"] {
        lab.file(gate, "");
    }
    assert_eq!([two, three, other].map(|job| job.ended()), [End::Completed; 3]);
}

#[test]
fn what_can_no_longer_begin_is_ended_where_that_is_wanted() {
    for by_conf in [false, true] {
        let lab =
            Plan::new().node("n1", &cards(0)).scheduler(&format!("kill_on_invalid_dep = {by_conf}")).start();
        let bad = gated(&lab, "bad");
        let submit = |words: &str| lab.submit(&format!("-o /dev/null {words}"), "true");
        let on = format!("-d afterok:{}", bad.id);
        let [plain, no, yes] = ["", "--kill-on-invalid-dep=no", "--kill-on-invalid-dep=yes"]
            .map(|word| submit(&format!("{on} {word}")));
        // What waits for one that is ended for that hears of it.
        let third = submit(&format!("-d afterany:{}", yes.id));
        let fourth = submit(&format!("-d afterok:{} --kill-on-invalid-dep=yes", yes.id));
        lab.file("bad", "1");
        for job in [yes, fourth] {
            assert_eq!((job.ended(), job.reason()), (End::Cancelled, Reason::DependencyNeverSatisfied));
        }
        assert_eq!(third.ended(), End::Completed);
        waits(no, Reason::DependencyNeverSatisfied);
        match by_conf {
            true => assert_eq!(plain.ended(), End::Cancelled),
            false => waits(plain, Reason::DependencyNeverSatisfied),
        }
        // Also what is too late from the beginning.
        let late = submit(&format!("{on} --kill-on-invalid-dep=yes"));
        assert_eq!((late.ended(), late.reason()), (End::Cancelled, Reason::DependencyNeverSatisfied));
    }
}
