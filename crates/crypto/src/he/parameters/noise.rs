//! How far an answer's noise may betray the weights, and how much of it decryption bears.
//!
//! Before the flood, one useful coefficient of an answer holds, beside the plaintext, the noise
//!
//! ```text
//! delta = sum over taps of w (e + eps)  +  u e_pk + e_2 s  +  eps'
//! ```
//!
//! with e, e_pk, e_2 centered binomial (variance 10.5, at most 21), u and s uniform ternary, eps and eps' the
//! rounding of the encodings. Adding a flood of density f with Fisher information I leaves the sent coefficient at
//! Hellinger distance H^2 <= delta^2 I / 8 from one that holds no delta. Squares add over independent floods, and
//! the statistical distance is at most sqrt(2) H: over the whole inference at most
//! sqrt(sum of E[delta^2]) sqrt(I) / 2. For the sum of three uniforms on [0, 2^b), I = 4.5622 / 2^(2b).

/// Limit on the whole inference's statistical distance.
pub(super) const DISTANCE_LIMIT_LOG2: i32 = -40;
/// The widest flood that one draw of three words and a half can make.
pub(in crate::he) const FLOOD_BITS_MAX: u32 = 85;
/// Fisher information of three uniforms on the unit interval, rounded up, in ten-thousandths.
const FISHER_TEN_THOUSANDTHS: u128 = 45_622;
/// Twelve times the variance of e + eps: 12 (10.5 + 1/12).
const INPUT_VARIANCE_TWELFTHS: u128 = 127;
/// Twelve times the variance, per coefficient of the ring, of u e_pk + e_2 s: 12 * 2 * 2/3 * 10.5.
const ZERO_VARIANCE_TWELFTHS: u128 = 168;
/// Largest error of an encryption.
const ERROR_BOUND: u128 = 21;

/// The noise of all answers of an inference, before the flood.
#[derive(Clone, Debug)]
pub(in crate::he) struct AnswerNoise {
    weight_bound: u128,
    max_taps: u64,
    coefficients: u128,
    /// Sum over coefficients of their taps.
    tap_coefficients: u128,
}

impl AnswerNoise {
    pub(super) fn new(weight_bound: u32) -> Self {
        Self { weight_bound: u128::from(weight_bound), max_taps: 0, coefficients: 0, tap_coefficients: 0 }
    }

    /// Adds answers in which this many weights meet.
    pub(super) fn count(&mut self, taps: u64, coefficients: u64) {
        self.max_taps = self.max_taps.max(taps);
        self.coefficients = self.coefficients.saturating_add(u128::from(coefficients));
        let product = u128::from(taps) * u128::from(coefficients);
        self.tap_coefficients = self.tap_coefficients.saturating_add(product);
    }

    pub(super) fn max_taps(&self) -> u64 {
        self.max_taps
    }

    /// Twelve times the sum over all coefficients of E[delta^2], for the worst weights.
    fn energy_twelfths(&self, degree: usize) -> u128 {
        let input = self.tap_coefficients.saturating_mul(self.weight_bound * self.weight_bound);
        let zero = ZERO_VARIANCE_TWELFTHS * degree as u128 + 1;
        input.saturating_mul(INPUT_VARIANCE_TWELFTHS).saturating_add(self.coefficients.saturating_mul(zero))
    }

    /// Whether the distance is at most 2^-40, or its part when several sets share that: decided in integers,
    /// sets energy I / 4 <= 2^(2b - 80).
    pub(super) fn is_within_limit(&self, degree: usize, flood_bits: u32, sets: u32) -> bool {
        let Some(limit_bits) = (2 * flood_bits).checked_sub(2 * DISTANCE_LIMIT_LOG2.unsigned_abs()) else {
            return false;
        };
        let energy = self.energy_twelfths(degree).checked_mul(u128::from(sets));
        let left = energy.and_then(|energy| energy.checked_mul(FISHER_TEN_THOUSANDTHS));
        let right = (12_u128 * 4 * 10_000).checked_mul(1_u128.checked_shl(limit_bits).unwrap_or(u128::MAX));
        left.is_some_and(|left| left <= right.unwrap_or(u128::MAX))
    }

    /// The distance, for people.
    pub(super) fn distance_log2(&self, degree: usize, flood_bits: u32) -> f64 {
        let energy = self.energy_twelfths(degree) as f64 / 12.0;
        let fisher = FISHER_TEN_THOUSANDTHS as f64 / 10_000.0;
        (energy * fisher).log2() / 2.0 - 1.0 - f64::from(flood_bits)
    }

    /// Twice the largest absolute value of delta plus flood.
    fn doubled_bound(&self, degree: usize, flood_bits: u32) -> Option<u128> {
        let input = u128::from(self.max_taps).checked_mul(self.weight_bound * (2 * ERROR_BOUND + 1))?;
        let zero = 2 * 2 * ERROR_BOUND * degree as u128;
        input.checked_add(zero + 1 + (3 << flood_bits))
    }
}

/// How an answer is written: which primes are kept, and how many low bits are left out.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::he) struct AnswerFormat {
    /// The answer is rescaled to the product of this many first primes.
    pub(in crate::he) kept_primes: usize,
    /// That product.
    pub(in crate::he) kept_modulus: u128,
    /// Low bits left out of the useful coefficients of the first half.
    pub(in crate::he) value_dropped: u32,
    /// Low bits left out of the second half.
    pub(in crate::he) uniform_dropped: u32,
    /// Bits sent per coefficient of the first half.
    pub(in crate::he) value_bits: u32,
    /// Bits sent per coefficient of the second half.
    pub(in crate::he) uniform_bits: u32,
    /// The gap between plaintexts over twice the largest noise, in bits.
    pub(super) noise_margin_bits: f64,
}

impl AnswerFormat {
    /// The shortest answer that decrypts whatever the noise does, if there is one.
    pub(super) fn choose(
        primes: &[u64],
        ring_bits: u32,
        degree: usize,
        flood_bits: u32,
        noise: &AnswerNoise,
    ) -> Option<Self> {
        let gap = quotient_by_power_of_two(primes, ring_bits);
        let answer_noise = noise.doubled_bound(degree, flood_bits)?;
        (1..=primes.len().min(2)).find_map(|kept| {
            let room = Room::new(primes, kept, degree, gap, answer_noise)?;
            Some(room.shortest_format())
        })
    }
}

/// What the transport of one answer may still add to its noise.
struct Room {
    kept_primes: usize,
    kept_modulus: u128,
    degree: u128,
    /// Doubled, in units of the kept modulus.
    available: u128,
    /// The gap between two plaintexts, in the same units.
    gap: u128,
}

impl Room {
    /// Decryption needs `2 noise + rounding * dropped <= floor(q / 2^l)`, where rounding counts, doubled and in
    /// units of the kept modulus, all that happens after the flood. All integers, so nothing is left to chance.
    fn new(primes: &[u64], kept_primes: usize, degree: usize, gap: u128, answer_noise: u128) -> Option<Self> {
        let kept_modulus: u128 = primes[..kept_primes].iter().map(|&prime| u128::from(prime)).product();
        let dropped_modulus: u128 = primes[kept_primes..].iter().map(|&prime| u128::from(prime)).product();
        // Rescaling: half a unit on each half of the ciphertext, the second times a ternary key, and a trace more
        // for a second rescaling. Decoding: each fraction is short by less than a prime's worth of 2^-128.
        let rescaling = degree as u128 + 2;
        let decoding = 2 * (1 + kept_primes as u128 * (kept_modulus >> 78));
        let room = gap.checked_sub(answer_noise)? / dropped_modulus;
        let available = room.checked_sub(rescaling + decoding)?;
        Some(Self {
            kept_primes,
            kept_modulus,
            degree: degree as u128,
            available,
            gap: gap / dropped_modulus,
        })
    }

    /// Leaving out k low bits and reading the middle back is off by at most 2^(k-1).
    fn doubled_cost(&self, value_dropped: u32, uniform_dropped: u32) -> u128 {
        let cost = |bits: u32| if bits == 0 { 0 } else { 1_u128 << bits };
        cost(value_dropped) + self.degree * cost(uniform_dropped)
    }

    fn shortest_format(&self) -> AnswerFormat {
        let modulus_bits = 128 - self.kept_modulus.leading_zeros();
        let fits = |value, uniform| self.doubled_cost(value, uniform) <= self.available;
        let (_, value_dropped, uniform_dropped) = (0..modulus_bits - 1)
            .take_while(|&uniform| fits(0, uniform))
            .map(|uniform| {
                let value =
                    (0..modulus_bits - 1).take_while(|&value| fits(value, uniform)).last().unwrap_or(0);
                // All n coefficients of the second half are sent, and about half as many of the first.
                (2 * uniform + value, value, uniform)
            })
            .max()
            .unwrap_or((0, 0, 0));
        let spare = self.available - self.doubled_cost(value_dropped, uniform_dropped);
        AnswerFormat {
            kept_primes: self.kept_primes,
            kept_modulus: self.kept_modulus,
            value_dropped,
            uniform_dropped,
            value_bits: modulus_bits - value_dropped,
            uniform_bits: modulus_bits - uniform_dropped,
            noise_margin_bits: -(1.0 - spare as f64 / self.gap as f64).log2(),
        }
    }
}

/// `floor(product / 2^bits)`, or the largest number where that does not fit.
fn quotient_by_power_of_two(factors: &[u64], bits: u32) -> u128 {
    let mut limbs = [1_u64, 0, 0, 0];
    for &factor in factors {
        let mut carry = 0;
        for limb in &mut limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
    }
    let (words, shift) = ((bits / 64) as usize, bits % 64);
    let limb = |index: usize| u128::from(limbs.get(index + words).copied().unwrap_or(0));
    let shifted = |index: usize| (limb(index) | limb(index + 1) << 64) >> shift & u128::from(u64::MAX);
    if shifted(2) != 0 || shifted(3) != 0 {
        return u128::MAX;
    }
    shifted(0) | shifted(1) << 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::modulus::ntt_primes;

    #[test]
    fn quotients_agree_with_128_bit_division_and_saturate_above() {
        let primes = ntt_primes(50, 4096, 3);
        let product = u128::from(primes[0]) * u128::from(primes[1]);
        for bits in [0, 1, 31, 32, 63, 64, 65, 99] {
            assert_eq!(quotient_by_power_of_two(&primes[..2], bits), product >> bits);
        }
        assert_eq!(quotient_by_power_of_two(&primes, 8), u128::MAX);
        let wide = quotient_by_power_of_two(&primes, 64);
        let high = (product >> 64) * u128::from(primes[2]);
        let low = (product & u128::from(u64::MAX)) * u128::from(primes[2]);
        assert_eq!(wide, high + (low >> 64));
    }

    #[test]
    fn the_integer_gate_agrees_with_the_printed_distance() {
        for (taps, coefficients) in [(9, 100), (4608, 600_000), (46_080, 3_000_000)] {
            let mut noise = AnswerNoise::new(127);
            noise.count(taps, coefficients);
            for flood_bits in 30..80 {
                let distance = noise.distance_log2(4096, flood_bits);
                assert_eq!(noise.is_within_limit(4096, flood_bits, 1), distance <= -40.0, "{distance}");
                assert_eq!(noise.is_within_limit(4096, flood_bits, 2), distance <= -40.5, "{distance}");
            }
        }
    }

    #[test]
    fn small_layers_count_the_encryption_of_zero() {
        let mut noise = AnswerNoise::new(127);
        noise.count(0, 1);
        // u e_pk + e_2 s alone has a standard deviation of 2^7.9 at n = 4096.
        let deviation = noise.distance_log2(4096, 0) + 1.0 - (4.5622_f64).log2() / 2.0;
        assert!((deviation - 7.9).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn the_working_point_sends_fewer_bits_than_its_prime_has() {
        let mut noise = AnswerNoise::new(127);
        noise.count(4608, 600_000);
        let format = AnswerFormat::choose(&ntt_primes(50, 4096, 2), 32, 4096, 66, &noise).unwrap();
        assert_eq!((format.kept_primes, format.uniform_bits, format.value_bits), (1, 47, 36));
    }

    #[test]
    fn a_flood_as_wide_as_the_gap_is_refused() {
        let mut noise = AnswerNoise::new(127);
        noise.count(4608, 600_000);
        assert_eq!(AnswerFormat::choose(&ntt_primes(50, 4096, 2), 32, 4096, 67, &noise), None);
    }
}
