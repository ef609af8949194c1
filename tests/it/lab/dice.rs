//! Dice whose seed is told, so that a storm can be had again.

/// Xorshift: the same seed gives the same storm.
pub struct Dice(u64);

impl Dice {
    /// Dice with the seed of `GQ_SEED`, or of this process; it is printed.
    pub fn new() -> Self {
        let given = std::env::var("GQ_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 + 1);
        Self::of(seed)
    }

    /// Dice of this seed; it is printed.
    pub fn of(seed: u64) -> Self {
        eprintln!("GQ_SEED={seed}");
        Self(seed.max(1))
    }

    /// Other dice, for somebody else: what he rolls does not change what is rolled here.
    pub fn child(&mut self) -> Self {
        Self(self.seed())
    }

    /// A seed for other dice.
    pub fn seed(&mut self) -> u64 {
        self.roll(usize::MAX) as u64 | 1
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}
