//! Plays seeds, as many as one likes: `gqworld [FIRST] [COUNT]`. A seed whose laws are broken is named, and is played the same way again by
//! `gqworld SEED 1`.

use std::{
    panic::catch_unwind,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (first, count) = match (numbers.next().unwrap_or(Ok(0)), numbers.next().unwrap_or(Ok(1000))) {
        (Ok(first), Ok(count)) => (first, count),
        _ => {
            eprintln!("usage: gqworld [FIRST] [COUNT]");
            return ExitCode::from(2);
        }
    };
    let (next, sum, broken) =
        (AtomicU64::new(first), Mutex::new(gq_world::Played::default()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first.saturating_add(count) {
                return;
            }
            match catch_unwind(|| gq_world::play(seed)) {
                Ok(played) => {
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.events += played.events;
                    sum.kills += played.kills;
                    sum.printed += played.printed;
                    sum.executed += played.executed;
                }
                Err(_) => {
                    eprintln!("seed {seed}: a law is broken; again: gqworld {seed} 1");
                    broken.lock().unwrap_or_else(PoisonError::into_inner).push(seed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{count} seeds from {first}: {} events, {} kills, {} ids printed, {} scripts executed",
        sum.events, sum.kills, sum.printed, sum.executed
    );
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("ids lost: 0, double runs: 0, but for {} seeds with a broken law {broken:?}", broken.len());
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
