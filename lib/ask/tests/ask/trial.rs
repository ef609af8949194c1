//! Trials (`--trial`): what of a request is left.

use crate::{Try, lines, words};
use gq_model::{CardAsk, MAX_NAME, MiB, Requeue, Seconds, TimeAsk};
use std::ffi::OsString;

#[test]
fn a_trial_is_a_short_run_of_one_task_on_the_smallest_card() {
    let script = "#SBATCH -J train --gpus=h100:4 -t 2:00:00 --array=3-9 --hold --begin=now+1hour --deadline=now+9hours --requeue --retry=2 \
                  --mail-type=ALL --exclusive --checkpoint=/ck --max-wait=1h --time-min=5s -c4 --mem=8G";
    let of = |words: &[&str]| {
        let argv = words.iter().copied().chain(["train.sh"]).map(OsString::from).collect();
        let script = format!("#!/bin/bash\n{script}\n").into_bytes();
        Try { argv, script, ..Try::default() }.submit()
    };
    let asked = of(&[]).unwrap();
    assert!(asked.trial.is_none() && !asked.wait);
    let trial = of(&["--trial"]).unwrap();
    assert_eq!((trial.trial.as_deref(), trial.wait), (Some(&asked.spec), true));
    let spec = &trial.spec;
    assert_eq!((spec.name.as_str(), &spec.time_limit), ("train.trial", &Some(TimeAsk::Limit(Seconds(600)))));
    assert_eq!(spec.cards, CardAsk { count: 1, memory: Some(MiB(1)), ..CardAsk::default() });
    assert_eq!(spec.array.as_ref().map(ToString::to_string).as_deref(), Some("3"));
    let left_out = (
        &spec.begin,
        &spec.deadline,
        spec.hold,
        &spec.retry,
        &spec.mail,
        spec.exclusive,
        &spec.max_wait,
        &spec.time_min,
    );
    assert_eq!(left_out, (&None, &None, false, &None, &None, false, &None, &None));
    assert_eq!((spec.requeue, spec.checkpoint.as_deref()), (Some(Requeue::Never), Some("")));
    assert_eq!((spec.cpus_per_task, &spec.memory), (asked.spec.cpus_per_task, &asked.spec.memory));
    // As long as is said, and never longer than the script asks for.
    for (words, limit) in
        [(&["--trial=1h"][..], 3600), (&["--trial=3h"], 7200), (&["--trial=30s", "-t", "10s"], 10)]
    {
        assert_eq!(of(words).unwrap().spec.time_limit, Some(TimeAsk::Limit(Seconds(limit))), "{words:?}");
    }
    // Cards that are asked for beside it count, and so does no card.
    let beside = of(&["--trial", "--slice=2g.20gb"]).unwrap().spec.cards;
    assert_eq!((beside.count, beside.profile.as_deref()), (1, Some("2g.20gb")));
    assert_eq!(words(&["--trial"]).unwrap().spec.cards.count, 0);
    let long = words(&["--trial", "-J", &"ö".repeat(100)]).unwrap().spec.name;
    assert!(long.len() <= MAX_NAME && long.ends_with("ö.trial"), "{long}");
    for (words, part) in [
        (&["--trial", "--test-only"][..], "--trial: contradicts --test-only"),
        (&["--trial", "--offline"], "--trial: contradicts --offline"),
        (&["--trial=0"], "above 0"),
        (&["--trial=x"], "--trial=x"),
    ] {
        let told = of(words).map(|_| ()).unwrap_err();
        assert!(told.contains(part), "{words:?}: {told}");
    }
    assert!(lines("#SBATCH --trial").map(|_| ()).unwrap_err().contains("--trial"));
}
