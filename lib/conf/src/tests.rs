//! Tests of the conf as a whole: what is read, what is refused and where, and that the manual tells what the code knows.

mod around;
mod budgets;
mod hardware;
mod rights;

use super::*;
use gq_model::{JobState, MiB, NodeName, Reason, Seconds};
use std::collections::BTreeSet;

fn good(text: &str) -> Config {
    parse(text, Path::new("gq.conf")).unwrap_or_else(|e| panic!("{e}"))
}

/// All mistakes as `(line, column, text, hint)`.
fn bad(text: &str) -> Vec<(usize, usize, String, String)> {
    let errors = parse(text, Path::new("gq.conf")).expect_err("it has mistakes");
    errors
        .all()
        .iter()
        .map(|m| (m.line, m.column, m.text.clone(), m.hint.clone().unwrap_or_default()))
        .collect()
}

fn names(list: &[NodeName]) -> Vec<&str> {
    list.iter().map(NodeName::as_str).collect()
}

const CONTRACT: &str = r#"
[cluster]
name = "lab"
spool_dir = "/var/spool/gq"
state_dir = "/var/lib/gq"
run_dir = "/run/gq"            # gqd.sock
admins = ["alice"]             # besides root and gqd's own user
user = "gq"
node_dir = "/var/lib/gq-node"

[scheduler]
backfill = "easy"              # easy | conservative | a number of reservations

[[partition]]                  # none at all: one partition "main" of every node
name = "main"
nodes = ["ws[1-4]"]            # default: every node
default = true
max_time = "2d"
default_time = "1h"

[[node]]
name = "ws[1-4]"
cpus = 32
memory = "256G"
features = ["nvlink"]

[[node.gpu]]
model = "A100-SXM4-80GB"
count = 2
memory = "80G"
slices = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]   # absent: whole card
[[node.gpu]]
model = "H100"
memory = "80G"
"#;

#[test]
fn the_conf_of_the_contract_is_read() {
    let conf = good(CONTRACT);
    assert_eq!(
        (conf.cluster.name.as_str(), conf.cluster.admins.as_slice()),
        ("lab", &["alice".to_string()][..])
    );
    assert_eq!(conf.scheduler.backfill, Backfill::Easy);
    let main = conf.default_partition();
    assert_eq!(names(main.nodes.as_deref().unwrap()), ["ws1", "ws2", "ws3", "ws4"]);
    assert_eq!((main.max_time, main.default_time), (Some(Seconds(172_800)), Some(Seconds(3600))));
    assert_eq!(conf.nodes.len(), 4);
    for node in &conf.nodes {
        assert_eq!((node.cpus, node.memory), (Some(32), Some(MiB(256 << 10))));
        let shape: Vec<_> = node.cards.iter().map(|c| (c.index, c.mig, c.slices.len())).collect();
        assert_eq!(shape, [(0, true, 4), (1, true, 4), (2, false, 0)]);
        let cut: Vec<u64> = node.cards[0].slices.iter().map(|s| s.memory.0 >> 10).collect();
        assert_eq!(cut, [40, 20, 10, 10]);
    }
}

#[test]
fn an_empty_conf_is_a_whole_cluster() {
    let conf = good("");
    let Cluster { name, spool_dir, state_dir, run_dir, admins, user, .. } = &conf.cluster;
    assert_eq!((name.as_str(), user.as_str(), admins.len()), ("gq", "gq", 0));
    assert_eq!(
        [spool_dir, state_dir, run_dir].map(|p| p.to_str().unwrap()),
        ["/var/spool/gq", "/var/lib/gq", "/run/gq"]
    );
    assert_eq!(conf.sock(), Path::new("/run/gq/gqd.sock"));
    assert_eq!(conf.cluster.node_dir(false), Path::new("/var/lib/gq-node"));
    assert_eq!(conf.cluster.node_dir(true), Path::new("/var/lib/gq/node"));
    assert_eq!((conf.cluster.job_file_keep, conf.cluster.lost_after), (Seconds(2_592_000), Seconds(120)));
    assert!(!conf.cluster.allow_test_run && conf.fence.cgroups);
    assert_eq!((conf.scheduler.kill_wait, conf.scheduler.max_array_size), (Seconds(30), 1_000_000));
    assert_eq!(conf.partitions, [Partition::of_every_node()]);
    assert_eq!(conf.default_partition().name, "main");
    assert!(conf.nodes.is_empty());
}

#[test]
fn keys_mean_what_they_say() {
    let conf = good(
        r#"
        cluster = { name = "x", allow_test_run = true, user = "root", lost_after = "3s", beat = "1s", suspect_after = "2s" }
        scheduler = { lease = "3s", backfill = 12, default_mem_per_cpu = "2G", kill_wait = "0s" }
        partition = [{ name = "a", max_time = "UNLIMITED", state = "Down", priority = -5 }, { name = "b" }]
        "#,
    );
    assert!(conf.cluster.allow_test_run);
    assert_eq!((conf.cluster.user.as_str(), conf.cluster.lost_after), ("root", Seconds(3)));
    assert_eq!((conf.cluster.beat, conf.cluster.suspect_after), (Seconds(1), Seconds(2)));
    assert_eq!((conf.scheduler.lease, conf.scheduler.backfill), (Seconds(3), Backfill::Depth(12)));
    assert_eq!((conf.scheduler.default_mem_per_cpu, conf.scheduler.kill_wait), (Some(MiB(2048)), Seconds(0)));
    let a = conf.partition("a").unwrap();
    assert_eq!((a.max_time, a.state, a.priority, a.default), (None, PartitionState::Down, -5, true));
    assert!(a.state.takes_jobs() && !a.state.starts_jobs());
    assert_eq!(conf.default_partition().name, "a", "the first one, when none is named as the default");
}

#[test]
fn programs_are_argument_vectors_with_a_path_in_front() {
    let hooks = good("").hooks;
    assert_eq!(hooks.mail, ["/usr/sbin/sendmail", "-t", "-i"]);
    assert_eq!((hooks.submit.len(), hooks.notify.len(), hooks.mail_from.as_str()), (0, 0, "gq"));
    assert_eq!((hooks.submit_time, hooks.mail_domain), (Seconds(5), None));
    let hooks = good(
        "[hooks]\nsubmit = [\"/x y/hook\", \"a b\", \"\"]\nmail = []\nnotify_time = \"2s\"\nmail_domain = \"x.org\"\n",
    )
    .hooks;
    assert_eq!(hooks.submit, ["/x y/hook", "a b", ""]);
    assert_eq!((hooks.mail.len(), hooks.notify_time), (0, Seconds(2)));
    for (wrong, words) in [
        ("submit = \"/x\"", "expected a list of words"),
        ("submit = [\"hook\"]", "expected the absolute path of a program, found `hook`"),
        ("notify = [\"/x\", 3]", "expected a word in quotes"),
        ("submit_time = \"0s\"", "longer than 0"),
        ("submit_time = \"1h\"", "expected 10 minutes at most"),
        ("mail_from = \"gq\\nBcc: x\"", "expected an address"),
        ("mail_from = \"a,b\"", "expected an address"),
        ("mail_domain = \"@x\"", "expected a domain"),
    ] {
        let found = bad(&format!("[hooks]\n{wrong}\n"));
        assert!(found.len() == 1 && found[0].2.contains(words), "{wrong}: {found:?}");
    }
}

#[test]
fn all_mistakes_of_all_kinds_are_told_at_once_where_they_are() {
    let text = r#"[cluster]
nmae = "lab"
spool_dir = "spool"
run_dir = "/var/lib/gq/"
admins = "alice"
allow_test_run = "yes"
user = 7
[schedular]
backfill = "easy"
[scheduler]
backfill = "conservativ"
kill_wait = 30
max_array_size = 0
kill_wiat = "é"
[[partition]]
name = "main"
nodes = ["ws[1-4]", "wx1"]
default = true
[[partition]]
name = "main"
default = true
max_time = "1h"
default_time = "2h"
state = "dwon"
[[partition]]
nodes = []
priority = 1.5
[[node]]
name = "ws[1-4]"
memory = "256 gigs"
  [[node.gpu]]
  count = 65
  memroy = "80G"
[[node]]
name = "ws4"
cpus = -1
features = ["é", "a", "a"]
[[node.gpu]]
model = "A100"
memory = "40G"
slices = ["3g.40gb", "3g.40gb"]
[[node]]
name = "ws[9-5]"
gpu = [{ model = "x", memory = "1G", slices = ["9x"] }]
"#;
    let found = bad(text);
    let expected = [
        (2, 1, "unknown key `nmae` in [cluster]", "`name`"),
        (3, 13, "expected an absolute path, found `spool`", ""),
        (4, 11, "`run_dir` and `state_dir` are the same folder", ""),
        (5, 10, "expected a list of account names", "[\"alice\"]"),
        (6, 18, "expected true or false without quotes, found a text", "true"),
        (7, 8, "expected an account's name in quotes, found a whole number", "\"7\""),
        (8, 2, "unknown table `schedular`", "`scheduler`"),
        (
            11,
            12,
            "expected one of \"fcfs\", \"greedy\", \"easy\", \"conservative\" or a number",
            "\"conservative\"",
        ),
        (12, 13, "expected a duration in quotes", ""),
        (13, 18, "expected a whole number from 1 to 4000000, found 0", ""),
        (14, 1, "unknown key `kill_wiat` in [scheduler]", "`kill_wait`"),
        (20, 8, "partition `main` is declared already, in line 16", ""),
        (21, 11, "there is a default partition already, in line 18", ""),
        (23, 16, "`default_time` 2:00:00 is longer than `max_time` 1:00:00", ""),
        (24, 9, "expected one of \"up\", \"drain\", \"down\", \"inactive\", found `dwon`", "\"down\""),
        (25, 1, "this [[partition]] has no `name`", "name = \"main\""),
        (26, 9, "this partition has no nodes", "leave `nodes` out for every node"),
        (27, 12, "expected a whole number from -1000000000 to 1000000000, found a decimal number", ""),
        (30, 10, "expected a size such as 512M, 40G or 1T; found `256 gigs`", ""),
        (31, 3, "this [[node.gpu]] has no `model`", "model = \"A100-SXM4-80GB\""),
        (31, 3, "this [[node.gpu]] has no `memory`", "memory = \"80G\""),
        (32, 11, "expected a whole number from 1 to 64, found 65", ""),
        (33, 3, "unknown key `memroy` in [node.gpu]", "`memory`"),
        (35, 8, "node `ws4` is declared already, in line 29", ""),
        (36, 8, "expected a whole number from 1 to 65536, found -1", ""),
        (37, 13, "expected a name of 1 to 63 letters", ""),
        (41, 10, "the slices take 80G together, and the card has 40G", ""),
        (43, 8, "`ws[9-5]` is no host list", ""),
        (44, 48, "expected a slice's profile such as 1g.10gb", ""),
    ];
    for (at, (line, column, text, hint)) in expected.iter().enumerate() {
        let (l, c, t, h) = found.get(at).unwrap_or_else(|| panic!("{text} is not told"));
        assert!((l, c, h.as_str()) == (line, column, hint) && t.contains(text), "{:?}", (l, c, t, h));
    }
    assert_eq!(found.len(), expected.len(), "{:?}", &found[expected.len()..]);
}

#[test]
fn what_two_lists_say_alone_is_told_too() {
    let found =
        bad("[[node]]\nname = \"a\"\nfeatures = [\"x\", \"x\"]\n[cluster]\nadmins = [\"u\", \"u\"]\n");
    let places: Vec<_> = found.iter().map(|(l, c, ..)| (*l, *c)).collect();
    assert_eq!(places, [(3, 18), (5, 16)], "{found:?}");
    let partition = "[[partition]]\nname = \"p\"\nnodes = [\"ws[1-4]\", \"wx1\"]\n";
    let found = bad(&format!("{partition}[[node]]\nname = \"ws[1-4]\"\n"));
    let expected = "node `wx1` is not declared".to_string();
    assert_eq!(found, [(3, 21, expected, "`ws1`, or a [[node]] of this name".to_string())]);
    // When a node's name cannot be read, it may be the one that is meant.
    let found = bad(&format!("{partition}[[node]]\nname = \"ws[1-\"\n[[node]]\nname = \"x\"\n"));
    assert_eq!((found.len(), found[0].0), (1, 5), "{found:?}");
    good(partition);
}

#[test]
fn lines_that_are_no_toml_do_not_hide_the_others() {
    let found = bad("[cluster]\nname = lab\nname = \"x\"\nuser = \"a\nadminz = []\nname = \"y\"\n");
    let places: Vec<_> = found.iter().map(|(l, c, ..)| (*l, *c)).collect();
    assert_eq!(places, [(2, 8), (4, 10), (5, 1), (6, 1)], "{found:?}");
    assert!(found[3].2.contains("duplicate key"), "{found:?}");
    // A name may stand in the line that is left out: that it is missing is not said.
    assert_eq!(bad("[[partition]]\nname = main\n").len(), 1);
    // What has no end on its line could take the lines behind it along: only it is told.
    for text in ["[[partition\nname = 1\n", "[cluster]\nadmins = [\"a\",\nfoo = 1\n", "a = \"\"\"\nb\nc = ["]
    {
        assert_eq!(bad(text).len(), 1, "{text}");
    }
}

#[test]
fn tables_of_the_wrong_shape_are_told() {
    for (text, line, hint) in [
        ("cluster = 3", 1, "[cluster]"),
        ("[[cluster]]\nname = \"a\"", 1, "[cluster]"),
        ("[partition]\nname = \"a\"", 1, "[[partition]] with two brackets"),
        ("node = [1]", 1, "[[node]] with two brackets"),
        ("[[node]]\nname = \"a\"\n[node.gpu]\nmodel = \"x\"", 3, "[[node.gpu]] with two brackets"),
        ("[cluster.admins]\na = 1", 1, ""),
        ("name = \"lab\"", 1, "`name` belongs in [cluster]"),
        ("[cluster]\nmax_time = \"1h\"", 2, "`max_time` belongs in [partition]"),
        ("[cluster]\nqqqqqqq = 1\n", 2, "one of name, spool_dir, state_dir"),
    ] {
        let found = bad(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].0 == line && found[0].3.starts_with(hint), "{text}: {found:?}");
    }
}

#[test]
fn what_would_hurt_later_is_refused_now() {
    let many = format!(
        "[[node]]\nname = \"n1\"\n{}",
        "[[node.gpu]]\nmodel=\"a\"\nmemory=\"1G\"\ncount=64\n".repeat(5)
    );
    for text in [
        many.as_str(),
        "[cluster]\nstate_dir = \"/var/../etc\"",
        "[cluster]\nspool_dir = \"/a\"\nnode_dir = \"/a\"",
        "[cluster]\nname = \"a b\"",
        "[cluster]\nlost_after = \"0s\"",
        "[cluster]\nbeat = \"0s\"",
        "[cluster]\nbeat = \"30s\"",
        "[cluster]\nbeat = \"2s\"\nsuspect_after = \"2s\"",
        "[scheduler]\nlease = \"29s\"",
        "[cluster]\nadmins = [\"\"]",
        "[scheduler]\nkill_wait = \"2d\"",
        "[scheduler]\ndefault_mem_per_cpu = \"0\"",
        "[scheduler]\nbackfill = -1",
        "[[partition]]\nname = \"p\"\nmax_time = \"0\"",
        "[[partition]]\nname = \"p\"\nnodes = [\"a[1-40000]\", \"b[1-40000]\"]",
        "[[node]]\nname = \"n[1-99999]\"",
        "[[node]]\nname = \"n[1-2]\"\n[[node]]\nname = \"n[2-3]\"",
        "[[node]]\nname = \"n\"\nmemory = \"99999999999999999999G\"",
        "[[node]]\nname = \"n\"\n[[node.gpu]]\nmodel=\"a:b\"\nmemory=\"1G\"",
        "[[node]]\nname = \"n\"\n[[node.gpu]]\nmodel=\"a\"\nmemory=\"1G\"\nslices=[]",
    ] {
        assert_eq!(bad(text).len(), 1, "{text}: {:?}", bad(text));
    }
    for profile in ["1g.10gb", "1g.10gb+me", "1g.10gb-me", "1G.10GB", "1c.3g.40gb", "7g.80gb"] {
        good(&format!(
            "[[node]]\nname = \"n\"\n[[node.gpu]]\nmodel=\"a\"\nmemory=\"80G\"\nslices=[\"{profile}\"]"
        ));
    }
    for profile in ["", "1g", "10gb", "0g.10gb", "1g.10gb+", "x.1g.10gb", "1g.10gb.1g", "1g.99999gb"] {
        let text = format!(
            "[[node]]\nname = \"n\"\n[[node.gpu]]\nmodel=\"a\"\nmemory=\"80G\"\nslices=[\"{profile}\"]"
        );
        assert_eq!(bad(&text).len(), 1, "{profile}");
    }
}

#[test]
fn a_flood_of_mistakes_is_counted_and_no_text_makes_it_panic() {
    let flood: String = (0..1000).map(|n| format!("zzz{n} = 1\n")).collect();
    let found = bad(&flood);
    assert_eq!(found.len(), 201);
    assert_eq!(found[200].2, "800 more mistakes are not told");
    for end in (0..CONTRACT.len()).filter(|i| CONTRACT.is_char_boundary(*i)) {
        let _ = parse(&CONTRACT[..end], Path::new("x"));
        let _ = parse(&CONTRACT[end..], Path::new("x"));
    }
    for text in
        ["é = \"ü", "\u{feff}[cluster]", "\0", "=", "[", "]]", "a.b.c = 1", "[node.gpu]", "\r\n[cluster]\r\n"]
    {
        let _ = parse(text, Path::new("x"));
    }
}

#[test]
fn mistakes_are_shown_with_file_line_column_and_what_to_do() {
    let errors = parse("[cluster]\nnmae = 1\nuser = 2\n", Path::new("/etc/gq/gq.conf")).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "/etc/gq/gq.conf:2:1: unknown key `nmae` in [cluster]\n  try: `name`\n\
         /etc/gq/gq.conf:3:8: expected an account's name in quotes, found a whole number\n  try: \"2\""
    );
    let errors = read(Path::new("/nonexistent/gq.conf")).unwrap_err();
    assert!(
        errors.to_string().starts_with("/nonexistent/gq.conf: cannot be opened: No such file"),
        "{errors}"
    );
    assert!(read(Path::new("/")).is_err());
}

#[test]
fn the_option_wins_over_the_variable_and_that_over_etc() {
    let (option, variable) = (Path::new("/a"), OsString::from("/b"));
    assert_eq!(choose_conf(Some(option), Some(variable.clone())), option);
    assert_eq!(choose_conf(None, Some(variable)), Path::new("/b"));
    assert_eq!(choose_conf(None, Some(OsString::new())), Path::new(DEFAULT_CONF));
    assert_eq!(choose_conf(None, None), Path::new(DEFAULT_CONF));
}

fn of_repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_examples_are_good_with_and_without_their_optional_lines() {
    for (name, nodes, partitions) in [("workstation", 1, 1), ("lab-mig", 3, 3), ("render-farm", 44, 4)] {
        let text = of_repository(&format!("conf/{name}.conf"));
        let all: String = text
            .lines()
            .map(|l| {
                l.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(l).to_string() + "\n"
            })
            .collect();
        assert_ne!((name, text.as_str()), ("workstation", all.as_str()));
        for text in [text, all] {
            let conf = good(&text);
            assert_eq!((conf.nodes.len(), conf.partitions.len()), (nodes, partitions), "{name}");
        }
    }
}

/// The entries of a man page's section: the line behind each `.TP`.
fn entries_of(page: &str, section: &str) -> BTreeSet<String> {
    let (mut inside, mut tags, mut lines) = (false, BTreeSet::new(), page.lines());
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix(".SH ") {
            inside = heading.trim_matches('"') == section;
        } else if line == ".TP" && inside {
            let tag = lines.next().unwrap_or_default();
            assert!(tags.insert(tag.to_string()), "{tag} is told twice");
        }
    }
    tags
}

#[test]
fn what_runs_need_is_in_no_folder_that_is_private() {
    let conf = "[fence]\nprivate = [\"/tmp\", \"/var\"]\n[cluster]\nspool_dir = \"/tmp/spool\"\nstate_dir = \"/srv/gq\"\n";
    let found = bad(conf);
    let mistake = |name: &str, folder: &str| {
        let text = format!("`{name}` is in {folder}: no run would see it");
        (2, 11, text, format!("another `{name}`"))
    };
    let expected = [mistake("spool_dir", "/tmp"), mistake("node_dir", "/var")];
    assert_eq!(found, expected);
    let private = good("[fence]\nprivate = [\"/tmp\"]\n").fence.private;
    assert_eq!(private, [Path::new("/tmp")]);
}

#[test]
fn the_manual_tells_of_every_key_and_of_no_other() {
    let page = of_repository("man/gq.conf.5");
    let (mut tables, mut told, mut lines) = (Vec::new(), BTreeSet::new(), page.lines());
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix(".SS ") {
            let heading = heading.trim_matches('"').split(", ");
            tables = heading.map(|table| table.trim_matches(['[', ']']).to_string()).collect();
        } else if line == ".TP" {
            let key = lines.next().unwrap_or_default();
            let key = key.split_whitespace().nth(1).unwrap_or_else(|| panic!("no key after .TP: {key}"));
            for table in &tables {
                assert!(told.insert((table.clone(), key.to_string())), "{table}.{key} is told twice");
            }
        } else if line.starts_with(".SH ") {
            tables.clear();
        }
    }
    let known: BTreeSet<_> = known_keys().map(|(t, k, _)| (t.to_string(), k.to_string())).collect();
    assert_eq!(known.difference(&told).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "not told");
    assert_eq!(
        told.difference(&known).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "told, but unknown"
    );
}

#[test]
fn the_manual_tells_of_every_state_and_reason_and_of_no_other() {
    let page = of_repository("man/gq.7");
    let states = JobState::all().map(|s| format!(".BR {} \" ({})\"", s.name(), s.code()));
    assert_eq!(entries_of(&page, "STATES"), states.collect());
    let reasons = Reason::ALL.iter().map(|r| format!(".B {}", r.word()));
    assert_eq!(entries_of(&page, "REASONS"), reasons.collect());
}
