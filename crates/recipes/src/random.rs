//! Random numbers from a seed, for data sets, splits and the order of images: the same on every machine.
//!
//! A stream is named by its purpose and seed and holds no other state, so whoever resumes a run draws the numbers of
//! an epoch again instead of saving a generator.

/// An endless stream of numbers, fixed by a purpose and a seed.
pub struct Stream {
    reader: blake3::OutputReader,
    buffer: [u8; 4096],
    used: usize,
}

impl Stream {
    /// The stream of one purpose and seed.
    pub fn new(purpose: &str, seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sordino training random numbers v1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self { reader: hasher.finalize_xof(), buffer: [0; 4096], used: 4096 }
    }

    /// 64 uniform bits.
    pub fn word(&mut self) -> u64 {
        if self.used == self.buffer.len() {
            self.reader.fill(&mut self.buffer);
            self.used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.buffer[self.used..self.used + 8]);
        self.used += 8;
        u64::from_le_bytes(bytes)
    }

    /// A number from 0 to `limit - 1`; the bias of 2^-32 or less does not matter here.
    ///
    /// # Panics
    /// If the limit is 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        assert!(limit > 0, "there is no number below 0");
        ((u128::from(self.word()) * u128::from(limit)) >> 64) as u32
    }

    /// A number from 0 up to, but without, 1.
    pub fn unit(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// A number from `low` up to `high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purpose_and_seed_fix_the_stream() {
        let words = |purpose, seed| {
            let mut stream = Stream::new(purpose, seed);
            (0..600).map(|_| stream.word()).collect::<Vec<_>>()
        };
        assert_eq!(words("order", 1), words("order", 1));
        assert_ne!(words("order", 1), words("order", 2));
        assert_ne!(words("order", 1), words("split", 1));
    }

    #[test]
    fn numbers_stay_within_their_limits_and_fill_them() {
        let mut stream = Stream::new("limits", 3);
        let mut counts = [0_u32; 7];
        for _ in 0..7000 {
            counts[stream.below(7) as usize] += 1;
            assert!((0.0..1.0).contains(&stream.unit()));
            assert!((-2.0..=3.0).contains(&stream.between(-2.0, 3.0)));
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn shuffling_keeps_every_item_once() {
        let mut items: Vec<u32> = (0..1000).collect();
        Stream::new("order", 9).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1000));
    }
}
