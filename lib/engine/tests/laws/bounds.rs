//! Requests and commands that no client of ours would send are refused, each with the words of the option; those at their bounds are taken.

use crate::world::{ANN, ROOT, World, named, refusal, spec};
use gq_engine::{NodeVerb, RefusalKind, Selection, Verb};
use gq_model::{Change, JobId, SignalTo};

fn refused_words(world: &mut World, client: gq_engine::ClientId) -> Option<String> {
    world.turn();
    let refusal = refusal(world, client)?;
    assert_eq!(refusal.kind, RefusalKind::Usage, "{}", refusal.text);
    Some(refusal.text)
}

#[test]
fn a_request_is_bounded_whoever_wrote_it() {
    let long = "x".repeat(5000);
    let limit = |name: &str| format!(r#"{{"name":"{name}","soft":1}}"#);
    let limits = |names: &[&str]| {
        let all: Vec<String> = names.iter().map(|name| limit(name)).collect();
        format!(r#""limits":[{}]"#, all.join(","))
    };
    let many = vec!["core"; 100_000];
    for (asked, word) in [
        (r#""comment":"a\u0007b""#.to_owned(), "control characters"),
        (format!(r#""comment":"{long}""#), "at most 4096 bytes"),
        (r#""signal":{"signal":0,"before":1,"batch":false}"#.into(), "--signal"),
        (r#""signal":{"signal":65,"before":1,"batch":false}"#.into(), "--signal"),
        (r#""retry":{"times":1001}"#.into(), "--retry"),
        (r#""retry":{"times":1,"exits":[2,1]}"#.into(), "--retry"),
        (r#""retry":{"times":1,"exits":[1,1]}"#.into(), "--retry"),
        (r#""mail":{"on":["End","End"]}"#.into(), "--mail-type"),
        (r#""mail":{"on":["End"],"to":"a\nb"}"#.into(), "--mail-user"),
        (limits(&["core", "core"]), "--propagate"),
        (limits(&["cpus"]), "--propagate"),
        (limits(&many), "--propagate"),
    ] {
        let mut world = World::joined();
        let client = world.submit(1, ANN, spec(&asked));
        let said = refused_words(&mut world, client).unwrap_or_else(|| panic!("{asked:.60} is taken"));
        assert!(said.contains(word), "{asked:.60}: {said}");
    }
    for asked in [
        format!(r#""comment":"{}""#, "x".repeat(4096)),
        r#""signal":{"signal":64,"before":1,"batch":false}"#.into(),
        r#""retry":{"times":1000,"exits":[1,2,255]}"#.into(),
        r#""mail":{"on":["Begin","End","Fail"],"to":"ann,bob@site"}"#.into(),
        limits(&["stack", "core", "as"]),
    ] {
        let mut world = World::joined();
        let client = world.submit(1, ANN, spec(&asked));
        assert_eq!(refused_words(&mut world, client), None, "{asked:.60}");
    }
}

#[test]
fn a_command_is_bounded_whoever_sent_it() {
    let names = |count: usize| Selection { names: vec!["x".into(); count], ..Selection::default() };
    let job = || named(JobId(1));
    let commands = [
        (Verb::Signal(0, SignalTo::All), job(), "signals"),
        (Verb::Signal(65, SignalTo::All), job(), "signals"),
        (Verb::Cancel, names(1025), "1024 at most"),
        (Verb::Update(vec![Change::Name("a".into()), Change::Name("b".into())]), job(), "once"),
        (Verb::Update(vec![Change::Partition("x".repeat(2000))]), job(), "partition"),
        (Verb::Update(vec![Change::AtOnce(Some(0))]), job(), "one task"),
    ];
    for (verb, select, word) in commands {
        let mut world = World::joined();
        world.submit(1, ANN, spec(r#""array":"0-3","hold":true"#));
        world.turn();
        let client = world.command(ANN, verb.clone(), select);
        let said = refused_words(&mut world, client).unwrap_or_else(|| panic!("{verb:?} is done"));
        assert!(said.contains(word), "{said}");
        assert_eq!(world.cluster.job_count(), 1);
    }
    for (reason, is_taken) in
        [("fan", true), (" ", false), ("a\u{1b}[31m", false), (&*"x".repeat(1025), false)]
    {
        let mut world = World::joined();
        let client = world.steer(ROOT, 0, NodeVerb::Drain(reason.into()));
        assert_eq!(refused_words(&mut world, client).is_none(), is_taken, "{reason:.20}");
    }
}
