//! Cards as the real `nvml-wrapper` finds them on described machines, through the stand-in library.
#![expect(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use gq_gpu::{Found, Look, Nvml, User, open};
use gq_model::{Card, CardHealth, MiB};
use standin_nvml::{Code, Machine, place, rewrite, shipped};
use std::path::Path;
use tempfile::TempDir;

/// A machine in a folder of its own, with its library opened.
struct Bench {
    folder: TempDir,
    machine: Machine,
    nvml: Nvml,
}

impl Bench {
    fn of(machine: Machine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = place(folder.path(), &machine).unwrap();
        match open(Some(&library)) {
            Found::Cards(nvml) => Self { folder, machine, nvml },
            Found::None { why } => panic!("{why}"),
        }
    }

    fn shipped(name: &str) -> Self {
        Self::of(shipped(name).unwrap())
    }

    /// Changes the machine while the library is in use.
    fn change(&mut self, how: impl FnOnce(&mut Machine)) {
        how(&mut self.machine);
        rewrite(self.folder.path(), &self.machine).unwrap();
    }
}

fn words(card: &Card) -> &str {
    card.health.trouble().unwrap_or_default()
}

#[test]
fn eight_whole_cards_reach_each_other_through_the_switches() {
    let bench = Bench::shipped("eight-whole");
    assert_eq!(bench.nvml.driver_version, "550.90.07");
    let cards = bench.nvml.look().cards;
    assert_eq!(cards.len(), 8);
    for (card, at) in cards.iter().zip(0..) {
        assert_eq!((card.index, card.memory, card.mig), (at, MiB(81_559), false));
        assert!(card.is_model("h100"), "{}", card.model);
        assert_eq!(card.health, CardHealth::Good);
        assert!(card.slices.is_empty());
        let others: Vec<(u32, u32)> = (0..8).filter(|other| *other != at).map(|other| (other, 18)).collect();
        assert_eq!(card.nvlink, others);
    }
    assert_eq!(cards.iter().map(|card| card.minor.unwrap()).collect::<Vec<_>>(), [2, 3, 0, 1, 6, 7, 4, 5]);
    let told: Vec<_> = bench.machine.cards.iter().map(|card| Some(card.uuid.clone())).collect();
    assert_eq!(cards.into_iter().map(|card| card.uuid).collect::<Vec<_>>(), told);
}

#[test]
fn a_cut_card_lists_its_slices_past_the_holes() {
    let bench = Bench::shipped("two-one-cut");
    let cards = bench.nvml.look().cards;
    let [whole, cut] = cards.as_slice() else { panic!("{cards:?}") };
    assert!(!whole.mig && whole.slices.is_empty());
    assert_eq!(
        (whole.nvlink.as_slice(), cut.nvlink.as_slice()),
        ([(1, 12)].as_slice(), [(0, 12)].as_slice())
    );
    assert!(cut.mig);
    let facts: Vec<_> = cut
        .slices
        .iter()
        .map(|it| (it.profile.as_str(), it.memory.0, it.gpu_instance, it.compute_instance))
        .collect();
    let expected = [
        ("3g.40gb", 40_192, Some(2), Some(0)),
        ("2g.20gb", 19_968, Some(3), Some(0)),
        ("1g.10gb", 9_728, Some(9), Some(0)),
        ("1g.10gb", 9_728, Some(10), Some(0)),
    ];
    assert_eq!(facts, expected);
    let told: Vec<_> =
        bench.machine.cards[1].slices.iter().flatten().map(|it| Some(it.uuid.clone())).collect();
    assert_eq!(cut.slices.iter().map(|it| it.uuid.clone()).collect::<Vec<_>>(), told);
}

#[test]
fn a_profile_that_is_not_in_the_name_comes_from_the_figures() {
    let mut machine = shipped("two-one-cut").unwrap();
    machine.cards[1].slices.iter_mut().flatten().for_each(|slice| slice.profile = None);
    let cards = Bench::of(machine).nvml.look().cards;
    let names: Vec<_> = cards[1].slices.iter().map(|it| it.profile.as_str()).collect();
    assert_eq!(names, ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]);
}

#[test]
fn a_slice_that_goes_and_one_that_comes_are_seen_at_once() {
    let mut bench = Bench::shipped("two-one-cut");
    assert_eq!(bench.nvml.look().cards[1].slices.len(), 4);
    let gone = bench.machine.cards[1].slices[0].clone();
    bench.change(|machine| machine.cards[1].slices[0] = None);
    let cards = bench.nvml.look().cards;
    assert_eq!(cards[1].health, CardHealth::Good);
    assert_eq!(cards[1].slices.len(), 3);
    bench.change(|machine| machine.cards[1].slices[2] = gone);
    assert_eq!(bench.nvml.look().cards[1].slices.len(), 4);
}

#[test]
fn a_lost_card_is_failed_and_the_others_are_good() {
    let bench = Bench::shipped("one-fails");
    let cards = bench.nvml.look().cards;
    assert_eq!(cards.iter().map(|card| card.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for card in &cards {
        assert_eq!(card.health != CardHealth::Good, card.index == 2, "{card:?}");
    }
    assert!(words(&cards[2]).contains("fell off the bus"), "{:?}", cards[2]);
    assert!(words(&cards[2]).contains("XID 79"), "{:?}", cards[2]);
    assert_eq!((cards[2].uuid.as_ref(), cards[2].model.as_str()), (None, ""));
    assert_eq!(
        (cards[0].nvlink.as_slice(), cards[3].nvlink.as_slice()),
        ([(1, 4)].as_slice(), [].as_slice())
    );
}

#[test]
fn a_card_that_fails_later_keeps_its_name_and_may_come_back() {
    let mut bench = Bench::shipped("eight-whole");
    let before = bench.nvml.look().cards;
    bench.change(|machine| machine.cards[5].fails = Some(Code::ResetRequired));
    let during = bench.nvml.look().cards;
    assert_eq!((&during[5].uuid, &during[5].model), (&before[5].uuid, &before[5].model));
    assert!(words(&during[5]).contains("requires a reset"), "{:?}", during[5]);
    assert!(during.iter().filter(|card| card.index != 5).all(|card| card.health == CardHealth::Good));
    assert!(during[0].nvlink.iter().all(|(peer, _)| *peer != 5), "no way to a failed card: {:?}", during[0]);
    bench.change(|machine| machine.cards[5].fails = None);
    assert_eq!(bench.nvml.look().cards, before);
}

#[test]
fn without_its_driver_every_card_is_failed() {
    let mut bench = Bench::shipped("two-one-cut");
    let before = bench.nvml.look().cards;
    bench.change(|machine| machine.fails = Some(Code::LibRmVersionMismatch));
    let after = bench.nvml.look().cards;
    assert_eq!(after.len(), 2);
    for (card, was) in after.iter().zip(&before) {
        assert_eq!(card.uuid, was.uuid);
        assert!(words(card).contains("the driver was upgraded"), "{card:?}");
    }
    std::fs::write(bench.folder.path().join("machine.json"), "{ half of a fi").unwrap();
    assert!(bench.nvml.look().cards.iter().all(|card| card.health != CardHealth::Good));
}

#[test]
fn cards_that_are_no_longer_listed_are_failed() {
    let mut bench = Bench::shipped("eight-whole");
    bench.nvml.look();
    bench.change(|machine| machine.cards.truncate(6));
    let cards = bench.nvml.look().cards;
    assert_eq!(cards.len(), 8);
    assert!(cards.iter().all(|card| (card.health == CardHealth::Good) == (card.index < 6)));
}

/// The law behind the cases above: whatever call of one card fails, and however, the other card is untouched and the failing one
/// is listed at its place.
#[test]
fn no_failing_call_of_one_card_touches_another() {
    let calls = [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetAttributes_v2",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
    ];
    let optional = ["MinorNumber", "PciInfo", "NvLink", "RemoteDeviceType"];
    let codes = [
        Code::Uninitialized,
        Code::InvalidArgument,
        Code::NotSupported,
        Code::NoPermission,
        Code::NotFound,
        Code::GpuIsLost,
        Code::ResetRequired,
        Code::Unknown,
    ];
    let mut bench = Bench::shipped("two-one-cut");
    let well = bench.nvml.look().cards;
    for call in calls {
        for code in codes {
            bench.change(|machine| machine.cards[1].fails_at = [(call.to_string(), code)].into());
            let cards = bench.nvml.look().cards;
            let [first, second] = cards.as_slice() else { panic!("{call} {code:?}: {cards:?}") };
            assert_eq!(first.health, CardHealth::Good, "{call} {code:?}");
            assert_eq!((&first.uuid, first.mig, first.memory), (&well[0].uuid, false, MiB(81_920)));
            assert_eq!((second.index, &second.uuid), (1, &well[1].uuid), "{call} {code:?}");
            if code == Code::Unknown && !optional.iter().any(|name| call.contains(name)) {
                assert!(words(second).contains("internal driver error"), "{call}: {second:?}");
            }
        }
    }
    bench.change(|machine| machine.cards[1].fails_at.clear());
    assert_eq!(bench.nvml.look().cards, well);
}

/// The order in which a driver lists its cards may change when one is gone.
#[test]
fn a_card_is_its_name_and_keeps_its_index() {
    let mut bench = Bench::shipped("eight-whole");
    let before = bench.nvml.look().cards;
    let gone = bench.machine.cards.remove(2);
    bench.machine.cards[6].pids = vec![77];
    bench.change(|_| {});
    let look = bench.nvml.look();
    assert_eq!(look.cards.len(), 8);
    for (card, was) in look.cards.iter().zip(&before) {
        assert_eq!((card.index, &card.uuid), (was.index, &was.uuid));
        assert_eq!(card.health != CardHealth::Good, card.index == 2, "{card:?}");
        assert!(card.nvlink.iter().all(|(peer, _)| *peer != 2), "{card:?}");
    }
    assert_eq!(look.users, [User { card: 7, slice: None, pid: 77 }]);
    bench.change(|machine| {
        machine.cards[6].pids.clear();
        machine.cards.push(gone);
    });
    let back = bench.nvml.look().cards;
    assert_eq!(
        back.iter().map(|card| &card.uuid).collect::<Vec<_>>(),
        before.iter().map(|card| &card.uuid).collect::<Vec<_>>()
    );
    assert!(back.iter().all(|card| card.health == CardHealth::Good));
}

#[test]
fn a_slice_that_does_not_answer_fails_alone() {
    let mut bench = Bench::shipped("two-one-cut");
    let before = bench.nvml.look().cards;
    bench.change(|machine| machine.cards[1].slices[0].as_mut().unwrap().fails = Some(Code::Unknown));
    let cards = bench.nvml.look().cards;
    let slices = &cards[1].slices;
    assert_eq!((cards[1].health.is_good(), slices.len()), (true, 4));
    assert!(
        matches!(&slices[0].health, CardHealth::Failed(words) if words.contains("internal driver error"))
    );
    assert_eq!(
        (&slices[0].uuid, &slices[0].profile),
        (&before[1].slices[0].uuid, &before[1].slices[0].profile)
    );
    assert_eq!(slices[1..], before[1].slices[1..]);
    bench.change(|machine| machine.cards[1].slices[0].as_mut().unwrap().fails = Some(Code::GpuIsLost));
    assert!(words(&bench.nvml.look().cards[1]).contains("XID 79"), "that is no trouble of the slice's");
    bench.change(|machine| machine.cards[1].slices[0].as_mut().unwrap().fails = None);
    assert_eq!(bench.nvml.look().cards, before);
}

#[test]
fn users_of_cards_and_slices_are_told_apart() {
    let mut bench = Bench::shipped("two-one-cut");
    assert_eq!(bench.nvml.look().users, []);
    bench.change(|machine| {
        machine.cards[0].pids = (0..40).rev().map(|n| 4_000 + n).collect();
        let slices = &mut machine.cards[1].slices;
        slices[0].as_mut().unwrap().pids = vec![77, 12];
        slices[4].as_mut().unwrap().pids = vec![12, 500];
    });
    let Look { cards, users } = bench.nvml.look();
    let on = |card: u32, slice: Option<&str>| {
        let on = users.iter().filter(|user| user.card == card && user.slice.as_deref() == slice);
        on.map(|user| user.pid).collect::<Vec<u32>>()
    };
    assert_eq!(on(0, None), (4_000..4_040).collect::<Vec<u32>>());
    let slices = &cards[1].slices;
    assert_eq!((on(1, None), on(1, slices[0].uuid.as_deref())), (vec![], vec![12, 77]));
    assert_eq!(on(1, slices[3].uuid.as_deref()), [12, 500]);
    // What cannot be listed cannot be said to be free; what has no such list is let alone.
    let list = "nvmlDeviceGetComputeRunningProcesses_v3".to_string();
    for (code, is_good) in [(Code::Unknown, false), (Code::NoPermission, true), (Code::NotSupported, true)] {
        bench.change(|machine| machine.cards[0].fails_at = [(list.clone(), code)].into());
        let card = &bench.nvml.look().cards[0];
        assert_eq!(card.health.is_good(), is_good, "{code:?}: {card:?}");
        assert!(is_good || words(card).starts_with("cannot list its processes: "), "{card:?}");
    }
}

#[test]
fn what_processes_have_of_the_memory_of_a_card_is_told_once_whatever_they_do_there() {
    let mut bench = Bench::shipped("eight-whole");
    bench.change(|machine| {
        let card = &mut machine.cards[1];
        (card.pids, card.drawing) = (vec![7, 9], vec![9, 11]);
        card.used_mib = [(7, 300), (9, 2000)].into();
    });
    let cards = bench.nvml.look().cards;
    let used = |at: usize| {
        let uuid = cards[at].uuid.as_deref().unwrap();
        let used = bench.nvml.used([uuid, "GPU-gone"].into_iter());
        assert!(used.iter().all(|one| one.uuid == uuid));
        used.iter().map(|one| (one.pid, one.memory)).collect::<Vec<_>>()
    };
    assert_eq!(used(1), [(7, MiB(300)), (9, MiB(2000)), (11, MiB(1))]);
    assert_eq!(used(0), []);
    assert_eq!(bench.nvml.look().users.len(), 2, "who only draws uses it as anybody may");
}

#[test]
fn several_threads_may_ask_at_once() {
    let bench = Bench::shipped("eight-whole");
    let expected = bench.nvml.look().cards;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(bench.nvml.look().cards, expected));
            scope.spawn(|| assert_eq!(bench.nvml.look().users, []));
        }
    });
}

#[test]
fn a_machine_without_library_or_driver_says_why() {
    let why = |library: &Path| match open(Some(library)) {
        Found::None { why } => why,
        Found::Cards(_) => panic!("{} has cards", library.display()),
    };
    let folder = tempfile::tempdir().unwrap();
    let nowhere = why(&folder.path().join("libnvidia-ml.so.1"));
    assert!(
        nowhere.starts_with("no NVIDIA driver library: ") && nowhere.contains("libnvidia-ml.so.1"),
        "{nowhere}"
    );

    let mut machine = shipped("eight-whole").unwrap();
    machine.fails = Some(Code::DriverNotLoaded);
    let library = place(folder.path(), &machine).unwrap();
    assert_eq!(
        why(&library),
        "the NVIDIA driver does not answer: NVIDIA driver is not loaded (try: modprobe nvidia)"
    );

    machine.fails = None;
    rewrite(folder.path(), &machine).unwrap();
    assert!(matches!(open(Some(&library)), Found::Cards(_)), "the driver was loaded later");

    std::fs::write(folder.path().join("other.so"), "no library at all").unwrap();
    assert!(why(&folder.path().join("other.so")).contains("other.so"));
}

/// The way of a daemon in a test: the loader finds the library by its usual name, and a variable names the machine. The test runs
/// itself again, because both must be set before a program starts.
#[test]
fn a_program_finds_the_library_by_the_loaders_path() {
    if std::env::var_os("GQ_STANDIN_NVML").is_some() {
        match open(None) {
            Found::Cards(nvml) => return assert_eq!(nvml.look().cards.len(), 4),
            Found::None { why } => panic!("{why}"),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    place(folder.path(), &shipped("eight-whole").unwrap()).unwrap();
    let machine = folder.path().join("other.json");
    std::fs::write(&machine, include_str!("../../../tests/standin-nvml/machines/one-fails.json")).unwrap();
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_finds_the_library_by_the_loaders_path"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("GQ_STANDIN_NVML", &machine)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
