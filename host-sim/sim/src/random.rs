//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014). Every decision of a run is
//! drawn from streams that are derived from its seed and from nothing else.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream number `stream` of `seed`: streams are independent, so that one more draw here
    /// shifts nothing there.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.0 = random.draw();
        random
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..end`; zero if that is empty.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: unbiased enough for ends far below 2^64, and without a
        // division.
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `start..=last`.
    pub fn within(&mut self, start: u64, last: u64) -> u64 {
        start + self.below(last.saturating_sub(start) + 1)
    }

    /// Returns true `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Picks one of `choices`, which are not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.draw(), random.draw()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
        assert_ne!(draw(0, 0)[0], draw(0, 0)[1]);
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut random = Random::new(3, 0);
        assert!((0..1000).all(|_| random.below(7) < 7 && (3..=5).contains(&random.within(3, 5))));
        assert_eq!(random.below(0), 0);
        let mut items = [0, 1, 2, 3, 4];
        random.shuffle(&mut items);
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2, 3, 4]);
    }
}
