//! Two thousand worlds, in eight parts that run side by side. A broken law names its seed: `cargo run -p gq-world SEED 1` plays it again.

/// Plays the seeds of one part.
fn part(number: u64) {
    for seed in number * 250..(number + 1) * 250 {
        let played = std::panic::catch_unwind(|| gq_world::play(seed));
        assert!(played.is_ok(), "seed {seed}: a law is broken; again: cargo run -p gq-world {seed} 1");
    }
}

macro_rules! parts {
    ($($name:ident: $number:literal),*) => {
        $(#[test]
        fn $name() {
            part($number);
        })*
    };
}

parts!(
    first_part: 0, second_part: 1, third_part: 2, fourth_part: 3,
    fifth_part: 4, sixth_part: 5, seventh_part: 6, eighth_part: 7
);

#[test]
fn a_seed_is_played_the_same_way_every_time() {
    let play = || format!("{:?}", (0..5).map(gq_world::play).collect::<Vec<_>>());
    assert_eq!(play(), play());
}
