//! Tests of hooks and containers as they are read and refused, and of the templates.

use super::{bad, good, of_repository};
use gq_model::Seconds;

#[test]
fn hooks_and_containers_are_read() {
    let conf = good(
        "[hooks]\nprolog_dir = \"/etc/gq/prolog.d/\"\nprolog_time = \"30s\"\nepilog_dir = \"/etc/gq/epilog.d\"\n\
         [container]\ncommand = [\"box\", \"{gpus}\", \"--in={image}\", \"{script}\", \"{args}\"]\n\
         gpus = [\"--cards\", \"{devices}\"]\neach_gpu = [\"/dev/nvidia{index}\"]\nenv = [\"-e\", \"{name}={value}\"]\n",
    );
    let hooks = &conf.node_hooks;
    assert_eq!(hooks.prolog_dir.as_deref().unwrap().to_str(), Some("/etc/gq/prolog.d"));
    assert_eq!((hooks.prolog_time, hooks.epilog_time), (Seconds(30), Seconds(300)));
    let container = conf.container.unwrap();
    assert_eq!(container.command[2], "--in={image}");
    assert_eq!((container.gpus.len(), container.each_gpu.len(), container.env.len()), (2, 1, 2));
    let empty = good("");
    assert!(empty.container.is_none() && empty.node_hooks.prolog_dir.is_none());
}

#[test]
fn mistakes_in_them_are_told() {
    let texts = |text: &str| bad(text).into_iter().map(|(line, _, text, _)| (line, text)).collect::<Vec<_>>();
    let told = texts("[hooks]\nprolog_dir = \"prolog.d\"\nepilog_time = \"0s\"\nprolog_tme = \"1s\"\n");
    assert_eq!(told.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 4], "{told:?}");
    for (command, words) in [
        ("[]", "needs a `command`"),
        ("[\"box\"]", "`{script}` is nowhere"),
        ("[\"{image}\", \"{script}\"]", "begins with a program"),
        ("[\"bin/box\", \"{script}\"]", "begins with a program"),
        ("[\"box\", \"{scrpt}\", \"{script}\"]", "`{scrpt}` stands for nothing"),
        ("[\"box\", \"--env={env}\", \"{script}\"]", "one by itself"),
        ("[\"box\", \"{devices}\", \"{script}\"]", "`{devices}` stands for nothing"),
    ] {
        let told = texts(&format!("[container]\ncommand = {command}\n"));
        assert!(told.len() == 1 && told[0].1.contains(words), "{command}: {told:?}");
    }
    assert!(texts("[container]\ngpus = [\"x\"]\n")[0].1.contains("needs a `command`"));
    let good = "[container]\ncommand = [\"box\", \"{\", \"{}\", \"{A}\", \"${script}\"]\n";
    assert!(crate::parse(good, std::path::Path::new("x")).is_ok(), "other braces are text");
}

#[test]
fn the_templates_of_runtimes_are_good_confs() {
    for (name, program) in
        [("apptainer", "apptainer"), ("podman", "podman"), ("enroot", "enroot"), ("bubblewrap", "bwrap")]
    {
        let container = good(&of_repository(&format!("conf/container/{name}.toml"))).container.unwrap();
        assert_eq!(container.command[0], program);
        for word in ["{checkpoint}", "{image}", "{script}", "{output_dir}", "{log_dir}", "{args}"] {
            assert!(container.command.iter().any(|argument| argument.contains(word)), "{name}: {word}");
        }
    }
}
