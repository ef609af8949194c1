//! Names: of jobs, scripts, folders and files, with whatever people put into them. They are kept exactly, shown safely, and
//! never read again by a shell.

use crate::lab::{Lab, finish};
use gq_model::End;
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

/// Names that a shell, a terminal, a pattern or a reader of options could take for something else.
const ODD: &[&str] = &[
    "two  words",
    "quote'\"`",
    "a/../b",
    "gr\u{f6}\u{df}e \u{6f22}\u{5b57} \u{1f642}",
    "\\x1b[31m\\n",
    "%x%j%%",
    "--time=1",
    "-",
    "$(touch pwned);`touch pwned`",
    "|touch pwned&",
    "*?[a-z]{1,2}~",
    "17_[0-4]",
    "null",
];

/// Everything below a folder, by its name.
fn everything(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        names.push(entry.file_name().to_string_lossy().into_owned());
        if entry.path().is_dir() {
            names.extend(everything(&entry.path()));
        }
    }
    names
}

#[test]
fn a_jobs_name_is_kept_exactly_and_shown_as_it_is() {
    let lab = Lab::with_cards(0);
    for name in ODD {
        let said = format!("--job-name={name}");
        let job =
            lab.gqsub(&[&said, "-o", "out", "--wrap", "printf '%s\\n' \"$GQ_JOB_NAME\" \"$SLURM_JOB_NAME\""]);
        assert_eq!(job.output(), format!("{name}\n{name}\n"));
        assert_eq!(job.word("name"), *name);
        let listed = lab.run("gqstat", &["-h", "-t", "all", "-o", "%j", "-j", &job.id.to_string()]).ok();
        assert_eq!(listed, format!("{name}\n"), "nothing in it is harmful, so nothing is escaped");
        if !name.contains(',') {
            let found = lab.run("gqstat", &["-h", "-t", "all", "-o", "%i", &format!("--name={name}")]).ok();
            assert_eq!(found, format!("{}\n", job.id), "{name}");
        }
    }
    // A directive says the same, as a shell would be told.
    let job = lab.script("-H", "#!/bin/sh\n#GQ --job-name='two  words' --comment=\"it's $HOME\"\n");
    assert_eq!((job.word("name"), job.word("comment")), ("two  words".into(), "it's $HOME".into()));
    lab.run("gqctl", &["update", &job.id.to_string(), "--name=$(touch pwned)"]).ok();
    assert_eq!(job.word("name"), "$(touch pwned)");
    assert!(!everything(&lab.work("")).contains(&"pwned".to_owned()));
}

/// B088: a very long name failed somewhere on the way.
#[test]
fn a_name_is_refused_when_it_is_too_long_or_has_controls() {
    let lab = Lab::with_cards(0);
    let longest = "n".repeat(1024);
    assert_eq!(lab.gqsub(&["-J", &longest, "-H", "--wrap", "true"]).word("name"), longest);
    for name in ["n".repeat(1025), "n".repeat(5000)] {
        let words = lab.run("gqsub", &["-J", &name, "--wrap", "true"]).refused(2);
        assert!(words.contains("1024") && words.len() < 1000, "{words}");
    }
    let held = lab.submit("-H -J kept", "true");
    for name in ["a\nb", "a\rb", "\x1b[31m", "\x07", "a\u{85}b", "\u{202e}a"] {
        for words in [
            &["gqsub", "-J", name, "--wrap", "true"][..],
            &["gqctl", "update", &held.id.to_string(), "--name", name],
        ] {
            let said = lab.run(words[0], &words[1..]);
            assert!([1, 2].contains(&said.code), "{name:?} {said:?}");
            assert!(!said.err.trim_end().contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        }
        let script = lab.file("job.sh", format!("#!/bin/sh\n#SBATCH --job-name='x{name}'\n"));
        let words = lab.run("gqsub", &[&script]).refused(2);
        assert!(words.contains("job.sh:2"), "{name:?} {words:?}");
    }
    assert_eq!((held.word("name"), lab.list("-t all").len()), ("kept".into(), 2));
}

/// B090: a name that could not be read made the lines behind it count for nothing.
#[test]
fn an_odd_directive_refuses_the_script_and_never_falls_back() {
    let lab = Lab::with_cards(0);
    for line in ["--job-name=it's", "--job-name='a", "--job-name=a b", "--job-name=", "--job-name \"x\" y"] {
        let text = format!("#!/bin/bash\n#SBATCH {line}\n#SBATCH --mem=3G\n#SBATCH -c 3\ntrue\n");
        let script = lab.file("job.sh", text);
        let words = lab.run("gqsub", &[&script]).refused(2);
        assert!(words.contains("job.sh:2"), "{line}: {words}");
    }
    assert!(lab.list("-t all").is_empty());
    let text = "#!/bin/bash\n#SBATCH --job-name=\"nf-a (b) #1\"\n#SBATCH --mem=3G\n#SBATCH -c 3\ntrue\n";
    let view = lab.script("-H", text).view();
    assert_eq!(
        (&view["name"], &view["memory_mib"], &view["cpus"]),
        (&"nf-a (b) #1".into(), &3072.into(), &3.into())
    );
}

/// B086: numbers in file names were padded wrongly. B084: the file was not where it was said to be.
#[test]
fn numbers_in_file_names_are_padded_as_asked_and_never_absurdly() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("--array=7 -o out.%5j-%05a-%3A-%12j-%99j-%a", "echo padded");
    job.ended();
    let id = job.id;
    let name = format!("out.{id:05}-00007-{id:03}-{id:010}-{id:010}-7");
    assert_eq!(fs::read_to_string(lab.work(&name)).unwrap(), "padded\n", "{:?}", everything(&lab.work("")));
    assert_eq!(lab.list(&format!("-j {id}_7"))[0]["stdout"], lab.work(name).to_str().unwrap());
}

/// A folder or a script may be called as it likes.
#[test]
fn scripts_and_folders_of_any_name_run_where_they_are() {
    let lab = Lab::with_cards(0);
    let names = [
        "new\nline",
        "\x1b[31mred",
        "-rf",
        "--wrap=touch pwned",
        "$(touch pwned)",
        "' ; touch pwned ; '",
        "\u{202e}",
        "a b",
        "#!",
    ];
    let (mut ended, mut deep) = (0, lab.work(""));
    for name in names {
        deep.push(name);
        fs::create_dir(&deep).unwrap();
        let script = deep.join(format!("{name}.sh"));
        fs::write(&script, "#!/bin/sh\n#GQ -J plain\npwd; printf '%s' \"$0\" >name; touch ran\n").unwrap();
        let mut here = lab.client("gqsub");
        here.current_dir(&deep).args(["--parsable", "--", &format!("{name}.sh")]);
        let job = lab.job(&finish(&mut here).ok());
        assert_eq!(job.output(), format!("{}\n", deep.display()), "{name:?}");
        assert_eq!(job.out_path(), deep.join(format!("gq-{}.out", job.id)));
        assert_eq!(
            (job.word("command"), job.word("work_dir")),
            (format!("{name}.sh"), deep.display().to_string())
        );
        // By its path, from elsewhere, with another folder to run in.
        fs::remove_file(deep.join("ran")).unwrap();
        let job = lab.gqsub(&[OsStr::new("-D"), deep.as_os_str(), script.as_os_str()]);
        assert_eq!((job.ended(), deep.join("ran").exists()), (End::Completed, true), "{}", job.view());
        for words in [&["-o", "%o|%Z|%j"][..], &["-o", "command,workdir,stdout"], &[]] {
            let shown =
                lab.run("gqstat", &[&["-h", "-t", "all", "-j", &job.id.to_string()], words].concat()).ok();
            assert_eq!(shown.lines().count(), 1, "{shown:?}");
            assert!(!shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
        }
        let why = lab.say(&format!("gqstat --why {}", job.id)).ok();
        assert!(!why.contains(['\x1b', '\u{202e}']) && !why.contains("new\nline"), "{why:?}");
        ended += 2;
    }
    assert_eq!(lab.list("-t COMPLETED").len(), ended);
    assert!(!everything(&lab.work("")).contains(&"pwned".to_owned()));
    for log in [lab.gqd.said(), lab.node("n1").said()] {
        assert!(!log.contains(['\x1b', '\u{202e}']) && !log.contains("new\nline"), "{log:?}");
    }
}

/// A folder whose name is no text has no name in a request: that is said, and nothing is submitted.
#[test]
fn a_folder_whose_name_is_no_text_is_refused() {
    let lab = Lab::with_cards(0);
    let odd = lab.work("").join(OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir(&odd).unwrap();
    let mut here = lab.client("gqsub");
    let words = finish(here.current_dir(&odd).args(["--wrap", "true"])).refused(2);
    assert!(words.contains("the working directory") && words.contains("not UTF-8 text"), "{words}");
    assert!(lab.list("-t all").is_empty());
}

/// A mistake in a job of an odd name is told in one line, in words that change no terminal.
#[test]
fn what_goes_wrong_with_odd_names_is_told_safely() {
    let lab = Lab::with_cards(0);
    let job = lab.gqsub(&["-o", "no\n\x1b[31m/where", "--wrap", "true"]);
    assert_eq!(job.ended(), End::Failed);
    assert!(job.word("reason_detail").contains("where"), "{}", job.view());
    let why = lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(why.contains("no\\n\\x1b[31m/where") && !why.contains('\x1b'), "{why:?}");
    let log = lab.node("n1").said() + &lab.gqd.said();
    assert!(!log.contains('\x1b') && !log.lines().any(|line| line.starts_with("\x1b[31m")), "{log:?}");
    let words = lab.run("gqsub", &["no\n\x1b[31mscript"]).refused(2);
    assert!(words.contains("no\\n\\x1b[31mscript") && !words.contains('\x1b'), "{words:?}");
    let unnamed = lab.gqsub(&["-H".into(), lab.file("line\n\x1b[m.sh", "#!/bin/sh\n")]);
    assert_eq!(unnamed.word("name"), "line__[m.sh");
    lab.file("bad\nscript", "#!/bin/sh\n#GQ --nonsense\n");
    let words = lab.run("gqsub", &["bad\nscript"]).refused(2);
    assert!(words.contains("bad\\u{a}script:2"), "{words:?}");
}
