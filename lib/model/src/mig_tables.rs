//! Shipped MIG tables: what cards known by name can be cut into, for planning without a card. The documents are `conf/mig/*.toml`, which
//! give each row its source; a test of `gq-gpu` compares the two. Where a driver answers, its answer stands, not this.

use crate::{Grid, MiB, Profile, cards::names_model};
use alloc::{string::ToString, vec::Vec};

/// Mebibytes of a gibibyte.
const GIB: u64 = 1024;

/// Where instances of a kind may lie; alike on all cards of a family.
struct Shape {
    size: u8,
    starts: &'static [u8],
    most: u8,
    compute: u8,
}

const fn shape(size: u8, starts: &'static [u8], most: u8, compute: u8) -> Shape {
    Shape { size, starts, most, compute }
}

/// A card: the parts of a model's name it is known by, its memory in gibibytes (from, below), and its profiles in the order of
/// the shapes, each with its memory in mebibytes.
struct Known {
    models: &'static [&'static str],
    from: u64,
    below: u64,
    units: u8,
    shapes: &'static [Shape],
    profiles: &'static [(&'static str, u64)],
}

/// Cards of seven compute slices: 1g, 1g+me, 1g of double memory, 2g, 3g, 4g, 7g.
const SEVEN: &[Shape] = &[
    shape(1, &[0, 1, 2, 3, 4, 5, 6], 7, 1),
    shape(1, &[0, 1, 2, 3, 4, 5, 6], 1, 1),
    shape(2, &[0, 2, 4, 6], 4, 1),
    shape(2, &[0, 2, 4], 3, 2),
    shape(4, &[0, 4], 2, 3),
    shape(4, &[0], 1, 4),
    shape(8, &[0], 1, 7),
];
/// A30: 1g, 1g+me, 2g, 2g+me, 4g.
const FOUR: &[Shape] = &[
    shape(1, &[0, 1, 2, 3], 4, 1),
    shape(1, &[0, 1, 2, 3], 1, 1),
    shape(2, &[0, 2], 2, 2),
    shape(2, &[0, 2], 1, 2),
    shape(4, &[0], 1, 4),
];
/// RTX PRO 6000: 1g (plain, +me, +gfx, +me.all, -me), 2g (plain, +gfx, +me.all, -me), 4g (plain, +gfx).
const TWELVE: &[Shape] = &[
    shape(3, &[0, 3, 6, 9], 4, 1),
    shape(3, &[0, 3, 6, 9], 1, 1),
    shape(3, &[0, 3, 6, 9], 4, 1),
    shape(3, &[0, 3, 6, 9], 1, 1),
    shape(3, &[0, 3, 6, 9], 4, 1),
    shape(6, &[0, 6], 2, 2),
    shape(6, &[0, 6], 2, 2),
    shape(6, &[0, 6], 1, 2),
    shape(6, &[0, 6], 2, 2),
    shape(12, &[0], 1, 4),
    shape(12, &[0], 1, 4),
];

const fn seven(
    models: &'static [&'static str],
    (from, below): (u64, u64),
    profiles: &'static [(&'static str, u64)],
) -> Known {
    Known { models, from, below, units: 8, shapes: SEVEN, profiles }
}

const TABLE: &[Known] = &[
    seven(
        &["A100", "A800", "A100X"],
        (36, 42),
        &[
            ("1g.5gb", 4_864),
            ("1g.5gb+me", 4_864),
            ("1g.10gb", 9_984),
            ("2g.10gb", 9_984),
            ("3g.20gb", 20_096),
            ("4g.20gb", 20_096),
            ("7g.40gb", 40_448),
        ],
    ),
    seven(
        &["A100", "A800", "A100X", "H100", "H800"],
        (72, 86),
        &[
            ("1g.10gb", 9_984),
            ("1g.10gb+me", 9_984),
            ("1g.20gb", 20_096),
            ("2g.20gb", 20_096),
            ("3g.40gb", 40_448),
            ("4g.40gb", 40_448),
            ("7g.80gb", 81_152),
        ],
    ),
    seven(
        &["H100"],
        (90, 95),
        &[
            ("1g.12gb", 11_981),
            ("1g.12gb+me", 11_981),
            ("1g.24gb", 23_962),
            ("2g.24gb", 23_962),
            ("3g.47gb", 47_488),
            ("4g.47gb", 47_488),
            ("7g.94gb", 95_360),
        ],
    ),
    seven(
        &["H100", "GH200", "H20"],
        (95, 100),
        &[
            ("1g.12gb", 11_981),
            ("1g.12gb+me", 11_981),
            ("1g.24gb", 23_962),
            ("2g.24gb", 23_962),
            ("3g.48gb", 47_924),
            ("4g.48gb", 47_924),
            ("7g.96gb", 95_847),
        ],
    ),
    seven(
        &["H200"],
        (130, 150),
        &[
            ("1g.18gb", 17_972),
            ("1g.18gb+me", 17_972),
            ("1g.35gb", 34_944),
            ("2g.35gb", 34_944),
            ("3g.71gb", 70_887),
            ("4g.71gb", 70_887),
            ("7g.141gb", 140_775),
        ],
    ),
    seven(
        &["GH200"],
        (130, 150),
        &[
            ("1g.18gb", 17_972),
            ("1g.18gb+me", 17_972),
            ("1g.36gb", 35_943),
            ("2g.36gb", 35_943),
            ("3g.72gb", 71_885),
            ("4g.72gb", 71_885),
            ("7g.144gb", 143_770),
        ],
    ),
    seven(
        &["B200"],
        (170, 195),
        &[
            ("1g.23gb", 22_964),
            ("1g.23gb+me", 22_964),
            ("1g.45gb", 44_928),
            ("2g.45gb", 44_928),
            ("3g.90gb", 89_856),
            ("4g.90gb", 89_856),
            ("7g.180gb", 179_712),
        ],
    ),
    seven(
        &["GB200"],
        (170, 195),
        &[
            ("1g.23gb", 22_964),
            ("1g.23gb+me", 22_964),
            ("1g.47gb", 46_925),
            ("2g.47gb", 46_925),
            ("3g.93gb", 92_852),
            ("4g.93gb", 92_852),
            ("7g.186gb", 185_703),
        ],
    ),
    seven(
        &["B300"],
        (255, 290),
        &[
            ("1g.34gb", 33_946),
            ("1g.34gb+me", 33_946),
            ("1g.67gb", 66_893),
            ("2g.67gb", 66_893),
            ("3g.135gb", 134_784),
            ("4g.135gb", 134_784),
            ("7g.269gb", 268_570),
        ],
    ),
    seven(
        &["GB300"],
        (255, 290),
        &[
            ("1g.35gb", 34_944),
            ("1g.35gb+me", 34_944),
            ("1g.70gb", 69_888),
            ("2g.70gb", 69_888),
            ("3g.139gb", 138_778),
            ("4g.139gb", 138_778),
            ("7g.278gb", 277_556),
        ],
    ),
    Known {
        models: &["A30"],
        from: 22,
        below: 26,
        units: 4,
        shapes: FOUR,
        profiles: &[
            ("1g.6gb", 5_952),
            ("1g.6gb+me", 5_952),
            ("2g.12gb", 11_968),
            ("2g.12gb+me", 11_968),
            ("4g.24gb", 24_064),
        ],
    },
    Known {
        models: &["RTX PRO 6000"],
        from: 90,
        below: 100,
        units: 12,
        shapes: TWELVE,
        profiles: &[
            ("1g.24gb", 24_192),
            ("1g.24gb+me", 24_192),
            ("1g.24gb+gfx", 24_192),
            ("1g.24gb+me.all", 24_192),
            ("1g.24gb-me", 24_192),
            ("2g.48gb", 48_512),
            ("2g.48gb+gfx", 48_512),
            ("2g.48gb+me.all", 48_512),
            ("2g.48gb-me", 48_512),
            ("4g.96gb", 97_280),
            ("4g.96gb+gfx", 97_280),
        ],
    },
];

impl Known {
    fn grid(&self) -> Grid {
        let profile = |(shape, (name, memory)): (&Shape, &(&str, u64))| Profile {
            name: name.to_string(),
            size: shape.size,
            starts: shape.starts.to_vec(),
            most: shape.most,
            compute: shape.compute,
            memory: MiB(*memory),
        };
        Grid { units: self.units, profiles: self.shapes.iter().zip(self.profiles).map(profile).collect() }
    }

    fn has(&self, memory: MiB) -> bool {
        memory.0 >= self.from * GIB && memory.0 < self.below * GIB
    }
}

/// What a card of this model and memory can be cut into, from the shipped tables; none if it is not in them.
///
/// `model` is the name that a driver or a conf gives it (`NVIDIA A100-SXM4-80GB`, `A100`), matched by its parts as by
/// [`crate::Card::is_model`]. `memory` 0 stands for "not told": then a size in the name decides (`80GB`), or the model
/// if it comes in one size only.
pub fn known_grid(model: &str, memory: MiB) -> Option<Grid> {
    let named: Vec<&Known> =
        TABLE.iter().filter(|known| known.models.iter().any(|part| names_model(model, part))).collect();
    let of = |memory| named.iter().find(|known| known.has(memory)).map(|known| known.grid());
    match (memory, size_in(model), named.as_slice()) {
        (MiB(0), _, [only]) => Some(only.grid()),
        (MiB(0), told, _) => told.and_then(of),
        (memory, ..) => of(memory),
    }
}

/// The memory that a model's name tells, as in `A100-SXM4-80GB` or `GH200 144G HBM3e`; the last one, if there are several.
fn size_in(model: &str) -> Option<MiB> {
    let number = |part: &str| {
        let lower = part.to_ascii_lowercase();
        let digits = lower.strip_suffix("gb").or_else(|| lower.strip_suffix('g'))?;
        digits.parse::<u64>().ok()
    };
    let mut sizes = model.split([' ', '-', '_']).filter_map(number);
    sizes.next_back().and_then(|gib| gib.checked_mul(GIB)).map(MiB)
}

/// The shipped tables: for each card the parts of a model's name it is known by, its least memory, the memory it lies below,
/// and its grid.
pub fn known_grids() -> impl Iterator<Item = (&'static [&'static str], MiB, MiB, Grid)> {
    TABLE.iter().map(|known| (known.models, MiB(known.from * GIB), MiB(known.below * GIB), known.grid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_UNITS, Placement};
    use alloc::collections::BTreeSet;
    use alloc::string::String;

    /// All sets of placed instances of `profiles` that do not overlap, and how many of them nothing can be added to.
    fn placed_sets(grid: &Grid, profiles: &[&str]) -> (usize, usize) {
        let places: Vec<(u16, &str)> = profiles
            .iter()
            .flat_map(|name| {
                let profile = grid.profile(name).unwrap();
                profile.placements().map(move |place| (place.mask(), *name))
            })
            .collect();
        let mut sets = alloc::vec![(0u16, 0usize)];
        let (mut all, mut maximal) = (0, 0);
        while let Some((used, from)) = sets.pop() {
            all += 1;
            maximal += usize::from(places.iter().all(|(mask, _)| mask & used != 0));
            let more = places.iter().enumerate().skip(from).filter(|(_, (mask, _))| mask & used == 0);
            sets.extend(more.map(|(at, (mask, _))| (used | mask, at + 1)));
        }
        (all, maximal)
    }

    #[test]
    fn the_combinations_are_as_many_as_were_counted_by_hand() {
        let a100 = known_grid("NVIDIA A100-SXM4-80GB", MiB(81_920)).unwrap();
        let plain = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
        assert_eq!(placed_sets(&a100, &plain), (298, 19));
        let double = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
        assert_eq!(placed_sets(&a100, &double), (723, 78));
        let a30 = known_grid("NVIDIA A30", MiB(24_576)).unwrap();
        assert_eq!(placed_sets(&a30, &["1g.6gb", "2g.12gb", "4g.24gb"]), (26, 5));
    }

    #[test]
    fn cards_are_known_by_the_names_drivers_and_people_give_them() {
        // Memory in MiB as NVML reports it, or as a conf declares it.
        for (model, memory, largest) in [
            ("NVIDIA A100-SXM4-80GB", 81_920, "7g.80gb"),
            ("NVIDIA A100-PCIE-40GB", 40_960, "7g.40gb"),
            ("a100", 80 * GIB, "7g.80gb"),
            ("A100-SXM4-80GB", 0, "7g.80gb"),
            ("NVIDIA H100 80GB HBM3", 81_559, "7g.80gb"),
            ("NVIDIA H100 NVL", 95_830, "7g.94gb"),
            ("H100", 94 * GIB, "7g.94gb"),
            ("H100", 96 * GIB, "7g.96gb"),
            ("NVIDIA GH200 480GB", 97_871, "7g.96gb"),
            ("NVIDIA GH200 144G HBM3e", 0, "7g.144gb"),
            ("NVIDIA H20", 97_871, "7g.96gb"),
            ("NVIDIA H200", 143_771, "7g.141gb"),
            ("NVIDIA H200 NVL", 0, "7g.141gb"),
            ("NVIDIA B200", 183_359, "7g.180gb"),
            ("B200", 192 * GIB, "7g.180gb"),
            ("NVIDIA GB200", 189_471, "7g.186gb"),
            ("NVIDIA B300 SXM6 AC", 275_040, "7g.269gb"),
            ("NVIDIA GB300", 284_208, "7g.278gb"),
            ("NVIDIA A30", 24_258, "4g.24gb"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "4g.96gb"),
        ] {
            let grid = known_grid(model, MiB(memory)).unwrap_or_else(|| panic!("{model} {memory}"));
            let plain: Vec<&Profile> = grid.profiles.iter().filter(|it| it.is_plain()).collect();
            assert_eq!(plain.last().unwrap().name, largest, "{model} {memory}");
        }
        for (model, memory) in [
            ("NVIDIA A10", 24_576),
            ("NVIDIA A100-SXM4-80GB", 24_576),
            ("A100", 0),
            ("NVIDIA GH200 480GB", 0),
            ("NVIDIA L40S", 46_068),
            ("", 81_920),
            ("99999999999999999999G A100", 0),
            ("A100 18446744073709551615G", 0),
        ] {
            assert_eq!(known_grid(model, MiB(memory)), None, "{model} {memory}");
        }
    }

    #[test]
    fn every_table_is_sound() {
        for known in TABLE {
            let of = known.models;
            assert_eq!(known.shapes.len(), known.profiles.len(), "{of:?}");
            assert!(known.units <= MAX_UNITS && known.from < known.below, "{of:?}");
            let grid = known.grid();
            let names: BTreeSet<String> = grid.profiles.iter().map(|it| it.name.clone()).collect();
            assert_eq!(names.len(), grid.profiles.len(), "{of:?}");
            for profile in &grid.profiles {
                for place in profile.placements() {
                    assert!(place.start + place.size <= grid.units, "{of:?} {}", profile.name);
                }
                assert!(!profile.starts.is_empty() && profile.most > 0 && profile.compute > 0);
                assert!(usize::from(profile.most) <= profile.starts.len(), "{of:?} {}", profile.name);
                let whole = Placement { start: 0, size: grid.units };
                assert!(profile.placements().all(|place| place.mask() & !whole.mask() == 0));
            }
            // No two cards share a model and a memory.
            let same = TABLE.iter().filter(|it| it.models.iter().any(|name| of.contains(name)));
            assert_eq!(same.filter(|it| it.from < known.below && known.from < it.below).count(), 1, "{of:?}");
        }
    }
}
