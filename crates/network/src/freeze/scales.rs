//! How many fraction bits weights and values get, and how many bits that makes.

use super::graph::FloatLinear;
use crate::inference_model::WeightBits;

/// A layer's common scale is at most this much finer than its coarsest channel: finer steps for tiny weights would
/// only widen the ring.
const MAX_SPREAD: i32 = 6;
/// Weights so small that they need more fraction bits are as good as zero.
const MAX_SCALE: i32 = 40;
/// Divisors are rounded to at least this many fraction bits, and until each is this accurate.
const MIN_DIVISOR_BITS: u32 = 8;
const DIVISOR_ERROR: f64 = 1.0 / 256.0;

/// The fraction bits of a layer's weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayerScale {
    /// Of the outputs, beyond those of the input.
    pub(super) common: i32,
    /// Of each channel's weights; what is missing to the common scale is shifted up afterwards.
    pub(super) channels: Vec<i32>,
}

impl LayerScale {
    /// The median channel uses all bits, or as many as it takes where its weights are exact with fewer.
    pub(super) fn of(linear: &FloatLinear, bits: WeightBits) -> Self {
        let bound = f64::from(bits.bound());
        let finest = |row: &[f32]| {
            let largest = row.iter().fold(0.0_f32, |largest, weight| weight.abs().max(largest));
            (largest > 0.0).then(|| coarsen(row, floor_log2(bound / f64::from(largest)).min(MAX_SCALE)))
        };
        let rows: Vec<Option<i32>> =
            linear.weights.chunks_exact(linear.geometry.taps()).map(finest).collect();
        let mut sorted: Vec<i32> = rows.iter().copied().flatten().collect();
        sorted.sort_unstable();
        // Rows of exact powers of two would round to nothing at a coarser scale than theirs.
        let is_exact = rows.iter().zip(linear.weights.chunks_exact(linear.geometry.taps()));
        let is_exact = is_exact.clone().all(|(scale, row)| scale.is_none_or(|scale| are_whole(row, scale)));
        let usual = if is_exact { sorted.last() } else { sorted.get(sorted.len() / 2) };
        let usual = usual.copied().unwrap_or(0);
        let common = sorted.first().map_or(0, |coarsest| usual.min(coarsest + MAX_SPREAD));
        let channels = rows.into_iter().map(|row| row.map_or(common, |scale| scale.min(common))).collect();
        Self { common, channels }
    }

    /// The scale of the coarsest channel for all of them, so that no channel tells its own.
    pub(super) fn evened(&self) -> Self {
        self.capped(self.channels.iter().copied().min().unwrap_or(self.common))
    }

    /// At most this common scale.
    pub(super) fn capped(&self, common: i32) -> Self {
        let channels = self.channels.iter().map(|scale| (*scale).min(common)).collect();
        Self { common, channels }
    }

    /// How far each channel is shifted up; nothing where a shift is too large to be one.
    pub(super) fn shifts(&self) -> Vec<u8> {
        let shift = |scale: &i32| u8::try_from(self.common - scale).unwrap_or(u8::MAX);
        self.channels.iter().map(shift).collect()
    }
}

/// Whether weights are whole numbers at a scale.
fn are_whole(row: &[f32], scale: i32) -> bool {
    row.iter().all(|weight| (f64::from(*weight) * power(scale)).fract() == 0.0)
}

/// The coarsest scale at which a row of weights is as exact as at the given one, if that is exact at all.
fn coarsen(row: &[f32], mut scale: i32) -> i32 {
    while are_whole(row, scale) && are_whole(row, scale - 1) {
        scale -= 1;
    }
    scale
}

/// The exponent of a positive number.
pub(super) fn floor_log2(number: f64) -> i32 {
    debug_assert!(number > 0.0);
    ((number.to_bits() >> 52 & 0x7ff) as i32) - 1023
}

/// 2 to a power.
pub(super) fn power(exponent: i32) -> f64 {
    2.0_f64.powi(exponent)
}

/// A magnitude rounded up to a power of 16.
pub(super) fn coarse_magnitude(magnitude: f32) -> f32 {
    if magnitude <= 0.0 {
        return magnitude;
    }
    let exponent = floor_log2(f64::from(magnitude)) + 1;
    power(4 * (exponent + 3).div_euclid(4)) as f32
}

/// The bits, sign included, of numbers up to a magnitude with a number of fraction bits; a shift's rounding fits too.
pub(super) fn width(magnitude: f64, fraction: u32, shift: u32) -> u32 {
    let largest = magnitude * power(fraction as i32) + power(shift as i32) + 1.0;
    (floor_log2(largest) + 2).unsigned_abs()
}

/// The most fraction bits with which numbers up to a magnitude fit this many bits without sign.
pub(super) fn fraction(magnitude: f64, bits: u32) -> u32 {
    if magnitude <= 0.0 {
        return bits;
    }
    floor_log2((power(bits as i32) - 1.0) / magnitude).max(0).unsigned_abs()
}

/// The reciprocals of some counts as integers with a common number of fraction bits.
pub(super) fn reciprocals(counts: &[u32]) -> (Vec<u32>, u32) {
    let rounded = |count: u32, bits: u32| (power(bits as i32) / f64::from(count)).round();
    let is_accurate = |bits: u32| {
        let error = |count: u32| (rounded(count, bits) * f64::from(count) / power(bits as i32) - 1.0).abs();
        counts.iter().all(|count| error(*count) <= DIVISOR_ERROR)
    };
    let bits = (MIN_DIVISOR_BITS..31).find(|bits| is_accurate(*bits)).unwrap_or(31);
    (counts.iter().map(|count| rounded(*count, bits) as u32).collect(), bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn coarse_magnitudes_are_powers_of_sixteen_above() {
        for (magnitude, coarse) in
            [(0.0, 0.0), (0.5, 1.0), (1.5, 16.0), (15.9, 16.0), (17.0, 256.0), (0.01, 0.0625)]
        {
            assert_eq!(coarse_magnitude(magnitude), coarse);
        }
    }

    #[test]
    fn logarithms_are_exact_at_powers_of_two() {
        for exponent in -60..60 {
            let number = power(exponent);
            assert_eq!(floor_log2(number), exponent);
            assert_eq!(floor_log2(number * 1.999), exponent);
        }
    }

    #[test]
    fn nine_and_its_borders_divide_within_four_per_mille() {
        let (factors, bits) = reciprocals(&[4, 6, 9]);
        assert_eq!((factors, bits), (vec![128, 85, 57], 9));
    }

    #[test]
    fn the_median_channel_uses_all_bits_and_tiny_ones_do_not_widen_the_ring() {
        let linear = FloatLinear::affine(vec![1.1, 0.01, 0.6, 0.0, 2.1], vec![0.0; 5]);
        let scale = LayerScale::of(&linear, WeightBits::Eight);
        assert_eq!(scale, LayerScale { common: 7, channels: vec![6, 7, 7, 7, 5] });
        assert_eq!(scale.shifts(), [1, 0, 0, 0, 2]);
        assert_eq!(scale.capped(4), LayerScale { common: 4, channels: vec![4; 5] });
    }

    #[test]
    fn powers_of_two_add_no_more_bits_than_channels_differ_by() {
        let linear = FloatLinear::affine(vec![1.0, -0.25, 0.0, 2.0], vec![0.0; 4]);
        let scale = LayerScale::of(&linear, WeightBits::Eight);
        assert_eq!(scale, LayerScale { common: 2, channels: vec![0, 2, 2, -1] });
        assert_eq!(scale.shifts(), [2, 0, 0, 3]);
    }

    proptest! {
        #[test]
        fn widths_hold_what_they_promise(magnitude in 0.0_f64..1e6, fraction in 0_u32..20, shift in 0_u32..20) {
            let width = width(magnitude, fraction, shift);
            let largest = (magnitude * power(fraction as i32)).ceil() as i64 + (1 << shift);
            prop_assert!(largest <= 1_i64 << (width - 1));
        }

        #[test]
        fn fractions_fit_their_bits(magnitude in 1e-3_f64..1e3, bits in 4_u32..16) {
            let fraction = fraction(magnitude, bits);
            prop_assert!(fraction == 0 || magnitude * power(fraction as i32) < power(bits as i32));
        }
    }
}
