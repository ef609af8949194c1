//! What ended long ago, in files of its year: every question about it is answered as when it was in the state.

use crate::lab::{Lab, Plan, cards, until};
use gq_model::End;
use std::fs;

/// Jobs of all sorts that have ended; their ids.
fn some_past(lab: &Lab) -> Vec<u64> {
    let good = lab.submit("-J train --gpus=1 -t 5 --mem=1G", "true");
    let failed = lab.submit("-J train", "exit 3");
    let array = lab.submit("-J sweep --array=0-4", "[ $GQ_ARRAY_TASK_ID != 2 ]");
    let again = lab.submit("-J again --retry=1", "exit 4");
    let never = lab.submit("-H -J never", "true");
    lab.say(&format!("gqcancel {}", never.id)).ok();
    let jobs = [good, failed, array, again, never];
    for (at, job) in jobs.iter().enumerate() {
        if at == 2 {
            job.over();
        } else {
            job.ended();
        }
    }
    jobs.map(|job| job.id).to_vec()
}

/// All that can be asked of the past, and what is answered.
fn answers(lab: &Lab, ids: &[u64]) -> Vec<(String, String)> {
    let mut questions: Vec<String> = [
        "gqacct --json --duplicates",
        "gqacct --states=FAILED --format=jobid,state,exitcode",
        "gqacct usage --by=user,state --json",
        "gqacct usage --by=month,name --csv",
        "gqacct waits --json",
        "gqacct advise --json",
        "gqstat -t all --json",
    ]
    .map(str::to_owned)
    .to_vec();
    for id in ids {
        questions.push(format!("gqacct show {id} --json"));
        questions.push(format!("gqacct -j {id} --json --duplicates"));
        questions.push(format!("gqstat -j {id} --json"));
        questions.push(format!("gqstat --why {id}"));
    }
    questions.push(format!("gqstat --array {} --json", ids[2]));
    let ask = |question: String| {
        let said = lab.say(&question);
        (question, format!("{} {}{}", said.code, said.out, said.err))
    };
    questions.into_iter().map(ask).collect()
}

/// How many jobs the state has rows of.
fn in_state(lab: &Lab) -> i64 {
    let state = rusqlite::Connection::open(lab.dir().join("state/gq.db")).unwrap();
    state.query_row("SELECT count(DISTINCT job) FROM event", [], |row| row.get(0)).unwrap()
}

/// From now on what has ended goes to the files of years after a moment.
fn keep_a_moment(lab: &Lab) {
    assert_eq!(lab.gqd.stop(), Some(0));
    let conf = fs::read_to_string(lab.conf()).unwrap();
    fs::write(lab.conf(), conf.replacen("[cluster]\n", "[cluster]\nhistory_keep = \"1s\"\n", 1)).unwrap();
    lab.gqd.start();
}

#[test]
fn what_ended_long_ago_is_found_as_before() {
    let lab = Plan::new().node("n1", &cards(2)).start();
    let ids = some_past(&lab);
    let before = answers(&lab, &ids);
    keep_a_moment(&lab);
    until("it is out of the state", || (in_state(&lab) == 0).then_some(()));
    let files: Vec<_> =
        fs::read_dir(lab.dir().join("state/history")).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&files[0].metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    for ((question, was), (_, is)) in before.iter().zip(answers(&lab, &ids)) {
        assert_eq!(*was, is, "{question}");
    }
    // Who names them finds them.
    let after = lab.submit(&format!("-d afterok:{}", ids[0]), "true");
    assert_eq!(after.ended(), End::Completed);
    let vain = lab.say(&format!("gqsub --kill-on-invalid-dep=yes -W -d afterok:{} --wrap true", ids[1]));
    assert_ne!(vain.code, 0, "{}", vain.err);
    let rerun = lab.job(&lab.say(&format!("gqsub --parsable --rerun-failed={}", ids[2])).ok());
    assert_eq!(rerun.ended(), End::Failed);
    lab.say("gqstat --why 999999").refused(4);
    // And the next life finds them there.
    lab.gqd.kill9();
    lab.gqd.start();
    for ((question, was), (_, is)) in before.iter().zip(answers(&lab, &ids)).skip(7) {
        assert_eq!(*was, is, "{question}");
    }
}

#[test]
fn a_year_that_was_put_away_is_missed_by_name_and_the_queue_goes_on() {
    let lab = Plan::new().node("n1", &cards(1)).start();
    let ids = some_past(&lab);
    keep_a_moment(&lab);
    until("it is out of the state", || (in_state(&lab) == 0).then_some(()));
    let folder = lab.dir().join("state/history");
    let name = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().file_name();
    let name = format!("history/{}", name.to_str().unwrap());
    fs::rename(&folder, lab.dir().join("away")).unwrap();
    for question in ["gqacct", "gqacct usage", &format!("gqstat --why {}", ids[0])] {
        let words = lab.say(question).refused(1);
        assert!(words.contains(&format!("{name}: it is not there")), "{question}: {words}");
        assert!(words.contains("put a copy of it back"), "{question}: {words}");
    }
    let words = lab.say(&format!("gqsub -d afterok:{} --wrap true", ids[0])).refused(1);
    assert!(words.contains(&name), "{words}");
    assert_eq!(lab.submit("", "echo on").output(), "on\n");
    lab.gqd.kill9();
    lab.gqd.start();
    fs::rename(lab.dir().join("away"), &folder).unwrap();
    assert!(lab.say(&format!("gqstat --why {}", ids[0])).ok().contains("COMPLETED"));
}
