//! Cards in MIG mode as the real `nvml-wrapper` sees and cuts them, through the stand-in library.
#![expect(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use gq_gpu::{CutError, Found, Nvml, open};
use gq_model::{Card, CardHealth, CardUse, Grid, MiB, Placement, Reason, Slice, known_grid};
use standin_nvml::{Code, Machine, edit, place, shipped};
use std::collections::BTreeSet;
use tempfile::TempDir;

/// A machine in a folder of its own, with its library opened.
struct Bench {
    folder: TempDir,
    nvml: Nvml,
}

impl Bench {
    fn of(machine: &Machine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = place(folder.path(), machine).unwrap();
        match open(Some(&library)) {
            Found::Cards(nvml) => Self { folder, nvml },
            Found::None { why } => panic!("{why}"),
        }
    }

    fn shipped(name: &str) -> Self {
        Self::of(&shipped(name).unwrap())
    }

    fn edit(&self, how: impl FnOnce(&mut Machine)) {
        edit(self.folder.path(), how).unwrap();
    }

    fn card(&self, index: usize) -> Card {
        self.nvml.look().cards.remove(index)
    }

    fn cut(&self, profile: &str, start: u8, size: u8, held: &[CardUse]) -> Result<Slice, CutError> {
        self.nvml.cut(0, profile, Placement { start, size }, held)
    }
}

fn holds(uuid: Option<&Slice>, place: Option<(u8, u8)>) -> CardUse {
    CardUse {
        index: 0,
        uuid: uuid.and_then(|slice| slice.uuid.clone()),
        slice: Some("any".to_string()),
        placement: place.map(|(start, size)| Placement { start, size }),
        share: None,
    }
}

fn places(card: &Card) -> BTreeSet<(String, u8)> {
    card.slices.iter().map(|slice| (slice.profile.clone(), slice.placement.unwrap().start)).collect()
}

/// The profiles by name, without regard to their order.
fn sorted(mut grid: Grid) -> Grid {
    grid.profiles.sort();
    grid
}

#[test]
fn what_a_driver_tells_is_what_the_tables_say() {
    for (machine, units, profiles) in [("a100-empty", 8, 7), ("a30-empty", 4, 5), ("rtx-pro-empty", 12, 11)] {
        let card = Bench::shipped(machine).card(0);
        let grid = card.grid.unwrap();
        assert_eq!((grid.units, grid.profiles.len()), (units, profiles), "{machine}");
        assert_eq!(sorted(grid), sorted(known_grid(&card.model, card.memory).unwrap()), "{machine}");
        assert!(card.mig && card.slices.is_empty() && card.health == CardHealth::Good);
    }
    assert_eq!(Bench::shipped("eight-whole").card(0).grid, None, "a whole card is not cut");
}

#[test]
fn a_driver_without_names_is_read_by_its_figures() {
    for name in ["a100-empty", "a30-empty", "rtx-pro-empty"] {
        let mut machine = shipped(name).unwrap();
        machine.cards[0].profiles.iter_mut().for_each(|profile| profile.name = None);
        let told = Bench::shipped(name).card(0).grid;
        assert_eq!(Bench::of(&machine).card(0).grid, told, "{name}");
    }
}

#[test]
fn a_card_whose_driver_does_not_tell_is_read_by_the_table() {
    let calls = ["nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstancePossiblePlacements_v2"];
    let codes = [Code::NoPermission, Code::Unknown, Code::NotSupported];
    for call in calls {
        for code in codes {
            let bench = Bench::shipped("a100-empty");
            bench.edit(|machine| machine.cards[0].fails_at = [(call.to_string(), code)].into());
            let card = bench.card(0);
            assert_eq!(card.health, CardHealth::Good, "{call} {code:?}");
            assert_eq!(card.grid, known_grid(&card.model, card.memory), "{call} {code:?}");
            bench.edit(|machine| machine.cards[0].name = "Nobody knows".to_string());
            assert_eq!((bench.card(0).grid, bench.card(0).health), (None, CardHealth::Good));
        }
    }
    // An older machine without any profiles, cut: the slices have the places the driver tells.
    let cut = Bench::shipped("two-one-cut");
    let card = cut.card(1);
    assert_eq!(card.grid, known_grid("A100", MiB(81_920)));
    let told = [("3g.40gb", 4), ("2g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3)];
    assert_eq!(places(&card), told.map(|(name, start)| (name.to_string(), start)).into());
    let call = "nvmlDeviceGetGpuInstanceById".to_string();
    cut.edit(|machine| machine.cards[1].fails_at = [(call, Code::NoPermission)].into());
    assert!(cut.card(1).slices.iter().all(|slice| slice.placement.is_none()), "each has two places at least");
}

#[test]
fn a_slice_lies_where_it_was_cut_and_is_used_as_it_is_when_it_fits() {
    let bench = Bench::shipped("a100-empty");
    let large = bench.cut("3g.40gb", 4, 4, &[]).unwrap();
    assert!(large.uuid.as_ref().unwrap().starts_with("MIG-"));
    assert_eq!(
        (large.profile.as_str(), large.memory, large.placement),
        ("3g.40gb", MiB(40_448), Some(Placement { start: 4, size: 4 }))
    );
    let small = bench.cut("1g.10gb+me", 1, 1, &[holds(Some(&large), None)]).unwrap();
    assert_eq!(bench.card(0).slices, [large.clone(), small]);
    // Idle and just so: nothing is made.
    assert_eq!(bench.cut("3g.40GB", 4, 4, &[]).unwrap(), large);
}

/// NVIDIA's own example of an order that fails without places.
#[test]
fn places_that_fit_together_are_cut_in_any_order() {
    let wanted = [("1g.10gb", 6, 1), ("1g.10gb", 4, 1), ("2g.20gb", 2, 2), ("1g.20gb", 0, 2)];
    let bench = Bench::shipped("a100-empty");
    let mut held = Vec::new();
    for (profile, start, size) in wanted {
        let slice = bench.cut(profile, start, size, &held).unwrap();
        held.push(holds(Some(&slice), Some((start, size))));
    }
    assert_eq!(places(&bench.card(0)).len(), 4);
    for (profile, start, size) in [("4g.40gb", 0, 4), ("7g.80gb", 0, 8), ("1g.10gb", 2, 1)] {
        assert!(matches!(bench.cut(profile, start, size, &held), Err(CutError::Held { .. })), "{profile}");
    }
    assert_eq!(places(&bench.card(0)).len(), 4, "nothing was destroyed");
}

#[test]
fn only_idle_instances_in_the_way_are_destroyed() {
    let bench = Bench::shipped("a100-empty");
    let kept = bench.cut("2g.20gb", 4, 2, &[]).unwrap();
    for start in [0, 1, 3] {
        bench.cut("1g.10gb", start, 1, &[]).unwrap();
    }
    let idle = bench.cut("1g.10gb", 6, 1, &[]).unwrap();
    let four = bench.cut("4g.40gb", 0, 4, &[holds(Some(&kept), None)]).unwrap();
    let left: Vec<_> = bench.card(0).slices.iter().map(|it| it.uuid.clone().unwrap()).collect();
    let expected: BTreeSet<_> = [&kept, &idle, &four].map(|it| it.uuid.clone().unwrap()).into();
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), expected);

    // Held by place alone, as after a new start of the node, or by a whole card's holder, or in a way nobody can tell.
    let whole = CardUse { slice: None, ..holds(None, None) };
    for held in [holds(None, Some((0, 4))), holds(Some(&four), None), holds(None, None), whole] {
        let refused = bench.cut("1g.10gb", 0, 1, std::slice::from_ref(&held));
        let Err(e @ CutError::Held { .. }) = refused else { panic!("{held:?}: {refused:?}") };
        assert_eq!(e.reason(), Reason::CardGone);
    }
    // What is held on another card is no matter here.
    let elsewhere = CardUse { index: 1, ..holds(None, Some((0, 4))) };
    bench.cut("1g.10gb", 0, 1, &[elsewhere]).unwrap();
    assert!(places(&bench.card(0)).contains(&("1g.10gb".to_string(), 0)));
}

#[test]
fn sizes_that_are_no_power_of_two_are_cut() {
    let bench = Bench::shipped("rtx-pro-empty");
    bench.cut("2g.48gb", 6, 6, &[]).unwrap();
    bench.cut("1g.24gb-me", 3, 3, &[]).unwrap();
    bench.cut("1g.24gb+gfx", 9, 3, &[]).unwrap();
    let told = [("1g.24gb-me", 3), ("1g.24gb+gfx", 9)];
    assert_eq!(places(&bench.card(0)), told.map(|(name, start)| (name.to_string(), start)).into());
    let all = bench.cut("4g.96gb", 0, 12, &[]).unwrap();
    assert_eq!(bench.card(0).slices, [all]);
}

#[test]
fn what_another_client_has_open_is_said_and_stays() {
    let bench = Bench::shipped("a30-empty");
    bench.cut("2g.12gb", 0, 2, &[]).unwrap();
    bench.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().in_use = true);
    let e = bench.cut("4g.24gb", 0, 4, &[]).unwrap_err();
    assert!(matches!(e, CutError::InUse { index: 0, .. }), "{e}");
    assert!(e.to_string().contains("DCGM") && e.reason() == Reason::CardGone, "{e}");
    assert_eq!(bench.card(0).slices.len(), 1);
    bench.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().in_use = false);
    bench.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().pids = vec![77]);
    assert!(matches!(bench.cut("1g.6gb", 0, 1, &[]), Err(CutError::InUse { .. })));
    bench.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().pids.clear());
    bench.cut("4g.24gb", 0, 4, &[]).unwrap();
}

#[test]
fn what_cannot_be_is_said_in_words() {
    let bench = Bench::shipped("a100-empty");
    for (profile, start, size, words) in [
        ("9g.80gb", 0, 8, "possible here: 1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb 1g.10gb+me 1g.20gb"),
        ("3g.40gb", 2, 4, "possible here: 0 4 (of the size 4)"),
        ("3g.40gb", 0, 8, "cannot lie at 0 (of the size 8)"),
        ("3g.40gb", 200, 255, "cannot lie at 200"),
    ] {
        let e = bench.cut(profile, start, size, &[]).unwrap_err();
        assert!(e.to_string().contains(words), "{e}");
        assert_eq!(e.reason(), Reason::CardGone);
    }
    bench.cut("1g.10gb+me", 0, 1, &[]).unwrap();
    let e = bench.cut("1g.10gb+me", 1, 1, &[]).unwrap_err();
    assert!(matches!(e, CutError::NoRoom { .. }), "one of them on a card: {e}");
    bench.edit(|machine| machine.cards[0].mig = Some(false));
    let e = bench.cut("1g.10gb", 0, 1, &[]).unwrap_err();
    assert!(e.to_string().contains("nvidia-smi -i 0 -mig 1") && e.reason() == Reason::CardGone, "{e}");
    assert!(bench.nvml.cut(5, "1g.10gb", Placement { start: 0, size: 1 }, &[]).is_err());
}

/// Whatever call fails while a card is cut: the words say so, no half instance is left where it can be helped, and the next cut goes.
#[test]
fn a_cut_that_fails_half_way_is_no_harm_to_the_next() {
    for call in [
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
        "nvmlDeviceGetGpuInstances",
        "nvmlGpuInstanceGetInfo",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceGetComputeInstanceProfileInfo",
        "nvmlGpuInstanceCreateComputeInstance",
        "nvmlGpuInstanceGetComputeInstances",
        "nvmlComputeInstanceDestroy",
        "nvmlGpuInstanceDestroy",
        "nvmlDeviceGetMigMode",
    ] {
        let bench = Bench::shipped("a100-empty");
        bench.cut("1g.10gb", 6, 1, &[]).unwrap();
        bench.edit(|machine| machine.cards[0].fails_at = [(call.to_string(), Code::NoPermission)].into());
        let e = bench.cut("3g.40gb", 4, 4, &[]).unwrap_err();
        assert_eq!(e.reason(), Reason::LaunchFailure, "{call}: {e}");
        assert!(e.to_string().contains("needs root") || e.to_string().contains("permission"), "{call}: {e}");
        bench.edit(|machine| machine.cards[0].fails_at.clear());
        let slice = bench.cut("3g.40gb", 4, 4, &[]).unwrap();
        let card = bench.card(0);
        assert_eq!((card.slices, card.health), (vec![slice], CardHealth::Good), "{call}");
        bench.edit(|machine| assert!(machine.cards[0].bare.is_empty(), "{call}: {machine:?}"));
    }
}

#[test]
fn an_idle_instance_is_destroyed_and_a_held_one_is_not() {
    let bench = Bench::shipped("a30-empty");
    let slice = bench.cut("2g.12gb", 2, 2, &[]).unwrap();
    let id = slice.gpu_instance.unwrap();
    let held = [holds(Some(&slice), None)];
    assert!(matches!(bench.nvml.destroy(0, id, &held), Err(CutError::Held { .. })));
    bench.nvml.destroy(0, id, &[]).unwrap();
    assert!(bench.card(0).slices.is_empty());
    assert!(matches!(bench.nvml.destroy(0, id, &[]), Err(CutError::Gone { .. })));
}

/// Two processes that cut the same card leave it in a state that both see, with no overlap. The test runs itself again as the others.
#[test]
fn processes_that_cut_at_once_agree() {
    const CHILD: &str = "GQ_TEST_CUTTER";
    if let Ok(start) = std::env::var(CHILD) {
        let Found::Cards(nvml) = open(None) else { panic!("no cards") };
        let start = start.parse().unwrap();
        nvml.cut(0, "1g.10gb", Placement { start, size: 1 }, &[]).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    place(folder.path(), &shipped("a100-empty").unwrap()).unwrap();
    let start = |start: u8| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "processes_that_cut_at_once_agree"]).env(CHILD, start.to_string());
        child.env("LD_LIBRARY_PATH", folder.path()).spawn().unwrap()
    };
    let children: Vec<_> = (0..7).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let card = edit(folder.path(), |machine| machine.cards[0].clone()).unwrap();
    let starts: BTreeSet<u32> =
        card.slices.iter().flatten().map(|slice| slice.placement.unwrap().start).collect();
    assert_eq!(starts, (0..7).collect());
    assert!(card.bare.is_empty());
}
