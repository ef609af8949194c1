//! What goes wrong.

use crate::world::World;
use gq_engine::NodeVerb;

/// A fault happens, of those that can.
pub(crate) fn strike(world: &mut World) {
    let at = world.dice.below(world.machines.len());
    match world.dice.roll(27) {
        0..=2 => world.kill_gqd(),
        3 | 4 => {
            let steps = world.dice.roll(12);
            if let Some(gqd) = &world.gqd {
                gqd.fuse.light(steps);
            }
        }
        5 => world.lose_power_of_gqd(),
        6 | 7 => world.kill_gqnode(at),
        8 | 9 => {
            let steps = world.dice.roll(8);
            if let Some(life) = &world.lives[at] {
                life.fuse.light(steps);
            }
        }
        10..=12 => world.kill_a_supervisor(at),
        13 => {
            let is_wiped = world.dice.one_in(3);
            world.lose_power_of_node(at, is_wiped);
        }
        14..=16 => world.cut(at),
        17 => world.is_full = !world.is_full,
        18 => world.machines[at].is_full = !world.machines[at].is_full,
        19 => world.blind(at),
        20 => {
            let jump = i64::try_from(world.dice.roll(7_200)).unwrap_or(0) - 3_600;
            world.skew += jump * 1_000_000;
        }
        21 => world.pass(200),
        22 => world.steer(at, NodeVerb::Drain("fan".into())),
        23 => world.fence(at),
        24 => world.lose_log(at),
        25 => world.lose_sight(at),
        _ => world.steer(at, NodeVerb::Resume),
    }
}
