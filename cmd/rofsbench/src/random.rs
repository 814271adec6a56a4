//! Random numbers that are the same everywhere for one seed.

/// SplitMix64: a counter, mixed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence that depends on seed and name, so that one more draw for one
    /// purpose changes no other.
    pub fn named(seed: u64, name: &str) -> Self {
        let digest = blake3::hash(name.as_bytes());
        let (head, _) = digest.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
        Self::new(seed ^ u64::from_le_bytes(*head))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// 0 up to, not including, `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// As [`Self::below`].
    pub fn index(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }

    /// In 0.0 .. 1.0.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fisher and Yates' shuffle: every order is as likely as any other.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Fills a buffer with bytes that do not compress.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// First outputs of SplitMix64 for seed 1234567, from its author's reference code.
    #[test]
    fn is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let got: Vec<_> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            got,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_shuffle_keeps_all_and_depends_on_the_seed() {
        let shuffled = |name| {
            let mut items: Vec<u32> = (0..100).collect();
            Random::named(1, name).shuffle(&mut items);
            items
        };
        let (one, two) = (shuffled("one"), shuffled("two"));
        assert_ne!(one, two);
        assert_eq!(one, shuffled("one"));
        let mut sorted = one;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(7);
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.fraction())));
    }
}
