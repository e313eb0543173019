//! Dot products of digits with small weights: the register tile of every convolution.
//!
//! A value is cut into digits, and one 32-bit word holds the same digit of four channels (bytes) or of two channels
//! (16-bit words). A panel holds, for each step along the products of an output, one such word of weights for each
//! of 16 output channels:
//!
//! ```text
//! pixel  [step 0: digit 0, digit 1, ..][step 1: ..]..      one word is spread over the 16 lanes
//! panel  [step 0: 16 channels         ][step 1: ..]..      and multiplied with 16 words of weights
//! sums   [panel][pixel][digit][16 channels]                in 32-bit lanes, modulo 2^32
//! ```
//!
//! A tile keeps the sums of a few pixels, all their digits and one or two panels in registers.

use crate::cpu::CpuFeatures;

/// Output channels of a panel: the 32-bit lanes of a 512-bit register.
pub(crate) const LANES: usize = 16;

/// The most panels that one tile holds.
pub(crate) const MAXIMUM_PANELS: usize = 2;

/// The most digits a value has: eight of eight bits.
pub(crate) const MAXIMUM_DIGITS: usize = 8;

/// The most rows of sums that one tile produces.
pub(crate) const MAXIMUM_SUMS: usize = 24;

/// Sums or weights of 16 output channels, aligned to a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub(crate) [u32; LANES]);

impl zeroize::DefaultIsZeroes for Lanes {}

/// What a 32-bit word of digits or weights is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordForm {
    /// Four channels: unsigned 8-bit digits, signed 8-bit weights.
    Bytes,
    /// Two channels: signed 16-bit digits, signed 16-bit weights.
    Halves,
}

impl WordForm {
    /// Channels that one word holds.
    pub(crate) const fn channels(self) -> usize {
        match self {
            Self::Bytes => 4,
            Self::Halves => 2,
        }
    }
}

/// Steps whose words lie one after the other, in the input and in the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Words from a pixel's start to the segment's.
    pub(crate) offset: usize,
    /// How many steps, of one word per digit each.
    pub(crate) steps: usize,
}

/// What one tile multiplies.
pub(crate) struct Tile<'a> {
    /// Digits of the padded image.
    pub(crate) input: &'a [u32],
    /// Where each pixel of the tile starts in `input`.
    pub(crate) pixels: &'a [usize],
    /// Digits per value.
    pub(crate) digits: usize,
    /// Which words of a pixel's neighborhood to take, in the order of the panels' steps.
    pub(crate) segments: &'a [Segment],
    /// Weights, from the segments' first step on.
    pub(crate) panels: &'a [&'a [Lanes]],
}

impl Tile<'_> {
    /// Rows of sums that the tile produces.
    pub(crate) fn sums(&self) -> usize {
        self.panels.len() * self.pixels.len() * self.digits
    }

    /// Panics unless every word that the segments name lies inside the slices: what the kernels' pointers rely on.
    fn assert_in_bounds(&self) {
        let last = self.pixels.iter().copied().max().unwrap_or(0);
        let mut steps = 0_usize;
        for segment in self.segments {
            let end =
                segment.steps.checked_mul(self.digits).and_then(|words| words.checked_add(segment.offset));
            let end = end.and_then(|end| end.checked_add(last)).expect("a segment fits the address space");
            assert!(end <= self.input.len(), "a segment ends at word {end} of {}", self.input.len());
            steps = steps.checked_add(segment.steps).expect("the steps fit the address space");
        }
        for panel in self.panels {
            assert!(steps <= panel.len(), "the segments have {steps} steps, a panel {}", panel.len());
        }
    }
}

/// The routine that computes tiles, chosen by processor and word form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DotKernel {
    form: WordForm,
    level: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl DotKernel {
    /// The fastest kernel for weights that fit eight bits, or else sixteen.
    ///
    /// Only VNNI multiplies bytes without saturating halfway, so the byte form is chosen only there.
    pub(crate) fn choose(features: CpuFeatures, weights_fit_bytes: bool) -> Self {
        let has_byte_products = features.avx512 && features.vnni;
        let form = if has_byte_products && weights_fit_bytes { WordForm::Bytes } else { WordForm::Halves };
        Self::with_form(features, form)
    }

    /// The fastest kernel of one form.
    pub(crate) fn with_form(features: CpuFeatures, form: WordForm) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if features.avx512 && features.vnni {
                return Self { form, level: Level::Vnni };
            }
            if features.avx2 && form == WordForm::Halves {
                return Self { form, level: Level::Avx2 };
            }
        }
        let _ = features;
        Self { form, level: Level::Portable }
    }

    /// The words this kernel multiplies.
    pub(crate) fn form(self) -> WordForm {
        self.form
    }

    /// How many pixels fill the registers; a tile has that many, or one.
    pub(crate) fn pixels_per_tile(self, digits: usize) -> usize {
        match self.level {
            #[cfg(target_arch = "x86_64")]
            Level::Vnni => super::vnni::PIXELS_PER_TILE[digits - 1],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => super::avx2::PIXELS_PER_TILE[digits - 1],
            Level::Portable => 1,
        }
    }

    /// How many panels a tile may have at most.
    pub(crate) fn panels_per_tile(self) -> usize {
        match self.level {
            #[cfg(target_arch = "x86_64")]
            Level::Vnni => MAXIMUM_PANELS,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => 1,
            Level::Portable => 1,
        }
    }

    /// Writes the tile's sums, modulo 2^32, in the order panel, pixel, digit.
    pub(crate) fn run(self, tile: &Tile<'_>, sums: &mut [Lanes]) {
        tile.assert_in_bounds();
        let pixels = tile.pixels.len();
        assert!(pixels == 1 || pixels == self.pixels_per_tile(tile.digits));
        assert!((1..=self.panels_per_tile()).contains(&tile.panels.len()));
        assert_eq!(sums.len(), tile.sums());
        match self.level {
            // SAFETY: the level is `Vnni` only where AVX-512 and VNNI were detected; the tile is in bounds.
            #[cfg(target_arch = "x86_64")]
            Level::Vnni => unsafe { super::vnni::run(self.form, tile, sums) },
            // SAFETY: the level is `Avx2` only where it was detected; the tile is in bounds.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::avx2::run(tile, sums) },
            Level::Portable => run_portable(self.form, tile, sums),
        }
    }
}

/// The safe twin of all tiles.
fn run_portable(form: WordForm, tile: &Tile<'_>, sums: &mut [Lanes]) {
    match form {
        WordForm::Bytes => add_products(tile, sums, byte_product),
        WordForm::Halves => add_products(tile, sums, half_product),
    }
}

/// One sum at a time, so that its lanes stay in registers.
#[inline(always)]
fn add_products(tile: &Tile<'_>, sums: &mut [Lanes], product: impl Fn(u32, u32) -> i32) {
    let mut sums = sums.iter_mut();
    for panel in tile.panels {
        for pixel in tile.pixels {
            for (digit, sum) in (0..tile.digits).zip(&mut sums) {
                let mut lanes = [0; LANES];
                let mut rows = panel.iter();
                for segment in tile.segments {
                    let words = &tile.input[pixel + segment.offset..][..segment.steps * tile.digits];
                    for (step, weights) in words.chunks_exact(tile.digits).zip(&mut rows) {
                        let word = step[digit];
                        for (lane, weights) in lanes.iter_mut().zip(weights.0) {
                            *lane = product(word, weights).wrapping_add(*lane);
                        }
                    }
                }
                *sum = Lanes(lanes.map(i32::cast_unsigned));
            }
        }
    }
}

#[inline(always)]
fn byte_product(digits: u32, weights: u32) -> i32 {
    let digits = digits.to_le_bytes().map(i32::from);
    let weights = weights.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
    digits.iter().zip(weights).map(|(digit, weight)| digit * weight).sum()
}

#[inline(always)]
fn half_product(digits: u32, weights: u32) -> i32 {
    let (low, high) = (i32::from(digits as i16), i32::from((digits >> 16) as i16));
    // The one pair that overflows, (-2^15)^2 + (-2^15)^2, wraps here as it does in the vector kernels.
    (low * i32::from(weights as i16)).wrapping_add(high * i32::from((weights >> 16) as i16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::kernel::levels;
    use proptest::prelude::*;

    fn words(seed: u64, count: usize) -> Vec<u32> {
        let mut generator = crate::random::Seed::from_bytes([seed as u8; 32]).generator();
        // Extreme bytes are frequent, so that a saturating instruction would be caught.
        (0..count)
            .map(|_| generator.next_u64() as u32 | (generator.next_u64() as u32 & 0x8080_8080))
            .collect()
    }

    fn compare_with_twin(
        kernel: DotKernel,
        seed: u64,
        digits: usize,
        panels: usize,
        lengths: &[usize],
        skew: usize,
    ) {
        let mut segments = Vec::new();
        let mut offset = seed as usize % 5;
        for &steps in lengths {
            segments.push(Segment { offset, steps });
            offset += steps * digits + seed as usize % 3;
        }
        let steps: usize = lengths.iter().sum();
        let storage = words(seed, offset + 100 + skew);
        let weights: Vec<Lanes> = words(seed + 1, steps * panels * LANES)
            .chunks(LANES)
            .map(|lanes| Lanes(lanes.try_into().unwrap()))
            .collect();
        let panels: Vec<&[Lanes]> =
            if steps == 0 { vec![&[]; panels] } else { weights.chunks(steps).collect() };
        for pixel_count in [1, kernel.pixels_per_tile(digits)] {
            let pixels: Vec<usize> = (0..pixel_count).map(|pixel| (pixel * 13 + 3) % 90).collect();
            let input = &storage[skew..];
            let tile = Tile { input, pixels: &pixels, digits, segments: &segments, panels: &panels };
            let mut expected = vec![Lanes::default(); tile.sums()];
            let mut found = vec![Lanes([7; LANES]); tile.sums()];
            run_portable(kernel.form(), &tile, &mut expected);
            kernel.run(&tile, &mut found);
            assert!(
                found == expected,
                "{kernel:?}, {digits} digits, {pixel_count} pixels, segments {lengths:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_kernel_equals_its_safe_twin(
            seed in 0_u64..250,
            lengths in prop::collection::vec(0_usize..9, 0..5),
            skew in 0_usize..5,
        ) {
            for features in levels() {
                for form in [WordForm::Bytes, WordForm::Halves] {
                    let kernel = DotKernel::with_form(features, form);
                    for digits in 1..=MAXIMUM_DIGITS {
                        for panels in 1..=kernel.panels_per_tile() {
                            compare_with_twin(kernel, seed, digits, panels, &lengths, skew);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_fit_their_buffers() {
        for features in levels() {
            for form in [WordForm::Bytes, WordForm::Halves] {
                let kernel = DotKernel::with_form(features, form);
                for digits in 1..=MAXIMUM_DIGITS {
                    assert!(
                        kernel.panels_per_tile() * kernel.pixels_per_tile(digits) * digits <= MAXIMUM_SUMS
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a segment ends at word 9 of 8")]
    fn a_tile_that_leaves_its_input_is_refused() {
        let tile = Tile {
            input: &[0; 8],
            pixels: &[0, 1],
            digits: 2,
            segments: &[Segment { offset: 2, steps: 3 }],
            panels: &[&[Lanes([0; LANES]); 3]],
        };
        tile.assert_in_bounds();
    }
}
