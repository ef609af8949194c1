//! Dice whose seed is told, so that a storm can be had again.

/// Xorshift: the same seed gives the same storm.
pub struct Dice(u64);

impl Dice {
    /// Dice with the seed of `GQ_SEED`, or of this process; it is printed.
    pub fn new() -> Self {
        let given = std::env::var("GQ_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 + 1);
        eprintln!("GQ_SEED={seed}");
        Self(seed)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}
