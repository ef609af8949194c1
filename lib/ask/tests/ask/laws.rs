//! Laws that hold for every request. A failing case is printed with its seed.

use crate::{Try, words};
use proptest::prelude::*;
use std::ffi::OsString;

/// Writes a word so that a directive line gives it back.
fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out + "\""
}

proptest! {
    #[test]
    fn no_script_makes_it_panic(script in proptest::collection::vec(any::<u8>(), 0..200)) {
        let script = [b"#!/bin/sh\n#GQ ".as_slice(), &script].concat();
        let _ = Try { script, ..Try::default() }.submit();
    }

    #[test]
    fn no_command_line_makes_it_panic_or_show_control_characters(
        argv in proptest::collection::vec("(-{0,2}[a-z]{0,6}(=\\PC{0,5}|\\x1b)?)|\\PC{0,9}", 0..6)
    ) {
        let argv = argv.into_iter().map(OsString::from).collect();
        if let Err(error) = (Try { argv, ..Try::default() }).submit()
            && !error.starts_with("shown: ")
        {
            prop_assert!(!error.chars().any(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn a_quoted_word_in_a_directive_is_the_word_on_the_command_line(word in "[^\\p{C}\\p{Z}][^\\p{C}\n]{0,30}") {
        let script = format!("#!/bin/sh\n#GQ --comment={} -H # end\n", quoted(&word)).into_bytes();
        let written = Try { script, ..Try::default() }.submit();
        let typed = words(&["--comment", &word, "-H"]);
        match (written, typed) {
            (Ok(written), Ok(typed)) => prop_assert_eq!(written.spec, typed.spec),
            (Err(_), Err(_)) => {}
            (written, typed) => prop_assert!(false, "{:?} but {:?}", written.err(), typed.err()),
        }
    }

    #[test]
    fn a_directive_behind_a_command_never_counts(text in "[^\n\r\0]{0,60}") {
        let script = format!("#!/bin/sh\ntrue\n#SBATCH {text}\n").into_bytes();
        let taken = Try { script, ..Try::default() }.submit();
        prop_assert!(taken.is_ok());
    }

    #[test]
    fn ways_to_ask_for_cards_agree_or_are_refused(a in 0u32..5, b in 0u32..5, tasks in 1u32..4) {
        let (gpus, gres, n) = (format!("--gpus={a}"), format!("--gres=gpu:{b}"), format!("-n{tasks}"));
        match words(&[&gpus, &gres, &n]) {
            Ok(job) => prop_assert!(a == b && job.spec.cards.count == a),
            Err(error) => prop_assert!(a != b, "{error}"),
        }
        let each = format!("--gpus-per-task={b}");
        match words(&[&gpus, &each, &n]) {
            Ok(job) => prop_assert!(a == b * tasks && job.spec.cards.count == a),
            Err(error) => prop_assert!(a != b * tasks, "{error}"),
        }
    }

    #[test]
    fn a_begin_is_never_in_the_past_unless_a_date_was_named(
        now in 0i64..4_000_000_000, hour in 0u8..24, minute in 0u8..60, count in 0u32..100_000,
        zone in prop_oneof![Just("Europe/London"), Just("America/New_York"), Just("Australia/Lord_Howe"), Just("UTC")],
    ) {
        let units = ["seconds", "minutes", "hours"];
        let deltas = units.map(|unit| (format!("now+{count}{unit}"), i64::from(count)));
        for ((text, count), scale) in deltas.into_iter().zip([1, 60, 3600]) {
            let argv = ["--begin", &text, "s.sh"].map(OsString::from).to_vec();
            let begin = Try { argv, now, zone, ..Try::default() }.submit().unwrap().spec.begin.unwrap();
            prop_assert_eq!(begin.0, (now + count * scale) * 1_000_000);
        }
        let argv = ["--begin", &format!("{hour:02}:{minute:02}"), "s.sh"].map(OsString::from).to_vec();
        let begin = Try { argv, now, zone, ..Try::default() }.submit().unwrap().spec.begin.unwrap();
        let ahead = begin.0 - now * 1_000_000;
        prop_assert!(ahead > 0 && ahead <= 25 * 3_600_000_000 + 1, "{ahead}");
    }
}
