//! Random numbers that are the same everywhere for one seed.

/// SplitMix64: a counter, mixed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6d69_6372_6f66_7321)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// 0 up to, not including, `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    pub fn index(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }

    /// Once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Beta-distributed in 0 up to `limit`: the a-th smallest of a + b - 1
    /// uniform numbers is distributed so.
    pub fn beta(&mut self, a: usize, b: usize, limit: u64) -> u64 {
        let mut numbers: Vec<u64> = (1..a + b).map(|_| self.below(limit)).collect();
        numbers.sort_unstable();
        numbers[a - 1]
    }

    /// Splits a budget into so many parts whose sum is exactly the budget.
    pub fn split(&mut self, budget: u64, parts: usize) -> Vec<u64> {
        let mut cuts: Vec<u64> = (1..parts).map(|_| self.below(budget + 1)).collect();
        cuts.extend([0, budget]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}
