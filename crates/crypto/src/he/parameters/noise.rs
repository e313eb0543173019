//! How far a decrypted share may be off, and how short an answer may be written.
//!
//! Beside the plaintext, one useful coefficient of an answer holds the noise
//!
//! ```text
//! delta = sum over taps of w (e + eps)  +  u e_pk + e_2 s  +  eps'
//! ```
//!
//! with e, e_pk, e_2 centered binomial (variance 10.5, at most 21), u and s uniform ternary, eps and eps' the
//! rounding of the encodings. Rescaling and leaving out low bits add their own. With eta = t delta / q the two shares
//! add up to W r plus eta rounded to one of its two neighbors; here eta stays within half a unit, so that a share is off
//! by one last place at most.

/// Variance of e + eps.
const INPUT_VARIANCE: f64 = 10.5 + 1.0 / 12.0;
/// Variance, per coefficient of the ring, of u e_pk + e_2 s.
const ZERO_VARIANCE: f64 = 2.0 * TERNARY_VARIANCE * 10.5;
/// Variance of a uniform trit.
const TERNARY_VARIANCE: f64 = 2.0 / 3.0;
/// Variance of rounding, in squared units of what is rounded to.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;
/// Largest error of an encryption.
const ERROR_BOUND: u128 = 21;

/// The noise of the answers of an inference.
#[derive(Clone, Debug)]
pub(in crate::he) struct AnswerNoise {
    weight_bound: u128,
    max_taps: u64,
}

impl AnswerNoise {
    pub(super) fn new(weight_bound: u32) -> Self {
        Self { weight_bound: u128::from(weight_bound), max_taps: 0 }
    }

    /// Adds answers in which this many weights meet.
    pub(super) fn count(&mut self, taps: u64) {
        self.max_taps = self.max_taps.max(taps);
    }

    pub(super) fn max_taps(&self) -> u64 {
        self.max_taps
    }

    /// Twice the largest absolute value of delta.
    fn doubled_bound(&self, degree: usize) -> Option<u128> {
        let input = u128::from(self.max_taps).checked_mul(self.weight_bound * (2 * ERROR_BOUND + 1))?;
        input.checked_add(2 * 2 * ERROR_BOUND * degree as u128 + 1)
    }

    /// The variance of delta, for the worst weights.
    fn variance(&self, degree: usize) -> f64 {
        let energy = self.max_taps as f64 * (self.weight_bound * self.weight_bound) as f64;
        energy * INPUT_VARIANCE + degree as f64 * ZERO_VARIANCE
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
    /// The standard deviation of eta for the worst weights, in last places of a share.
    pub(super) deviation: f64,
}

impl AnswerFormat {
    /// The shortest answer whose shares are off by one last place at most, whatever the noise does, if there is one.
    pub(super) fn choose(primes: &[u64], ring_bits: u32, degree: usize, noise: &AnswerNoise) -> Option<Self> {
        let gap = primes.iter().map(|&prime| u128::from(prime)).product::<u128>() >> ring_bits;
        let answer_noise = noise.doubled_bound(degree)?;
        (1..=primes.len()).find_map(|kept| {
            let room = Room::new(primes, kept, degree, gap, answer_noise)?;
            let mut format = room.shortest_format();
            format.deviation = room.deviation(&format, noise);
            Some(format)
        })
    }
}

/// What the transport of one answer may still add to its noise.
struct Room {
    kept_primes: usize,
    kept_modulus: u128,
    dropped_modulus: u128,
    degree: usize,
    /// Doubled, in units of the kept modulus.
    available: u128,
    /// The gap between two plaintexts, in the same units.
    gap: u128,
}

impl Room {
    /// That eta stays within a half needs `2 noise + rounding * dropped <= floor(q / 2^l)`, where rounding counts,
    /// doubled and in units of the kept modulus, all that happens after the mask. All integers, so that both parties
    /// come to the same choice.
    fn new(primes: &[u64], kept_primes: usize, degree: usize, gap: u128, answer_noise: u128) -> Option<Self> {
        let kept_modulus: u128 = primes[..kept_primes].iter().map(|&prime| u128::from(prime)).product();
        let dropped_modulus: u128 = primes[kept_primes..].iter().map(|&prime| u128::from(prime)).product();
        // Rescaling: half a unit on each half of the ciphertext, the second times a ternary key, and a trace more.
        // Reading both shares: each fraction is short by less than a prime's worth of 2^-128.
        let rescaling = degree as u128 + 2;
        let reading = 2 * (2 + 2 * primes.len() as u128 * (kept_modulus >> 78));
        let room = gap.checked_sub(answer_noise)? / dropped_modulus;
        let available = room.checked_sub(rescaling + reading)?;
        let gap = gap / dropped_modulus;
        Some(Self { kept_primes, kept_modulus, dropped_modulus, degree, available, gap })
    }

    /// Leaving out k low bits and reading the middle back is off by at most 2^(k-1).
    fn doubled_cost(&self, value_dropped: u32, uniform_dropped: u32) -> u128 {
        let cost = |bits: u32| if bits == 0 { 0 } else { 1_u128 << bits };
        cost(value_dropped) + self.degree as u128 * cost(uniform_dropped)
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
        AnswerFormat {
            kept_primes: self.kept_primes,
            kept_modulus: self.kept_modulus,
            value_dropped,
            uniform_dropped,
            value_bits: modulus_bits - value_dropped,
            uniform_bits: modulus_bits - uniform_dropped,
            deviation: 0.0,
        }
    }

    /// For people: the choice itself is made in integers.
    fn deviation(&self, format: &AnswerFormat, noise: &AnswerNoise) -> f64 {
        let degree = self.degree as f64;
        let dropped = |bits: u32| if bits == 0 { 0.0 } else { ROUNDING_VARIANCE * 4_f64.powi(bits as i32) };
        let rescaled = if self.dropped_modulus == 1 { 0.0 } else { ROUNDING_VARIANCE };
        let sent = noise.variance(self.degree) / (self.dropped_modulus as f64).powi(2);
        let first = rescaled + dropped(format.value_dropped);
        let second = degree * TERNARY_VARIANCE * (rescaled + dropped(format.uniform_dropped));
        (sent + first + second).sqrt() / self.gap as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::modulus::ntt_primes;

    fn noise() -> AnswerNoise {
        let mut noise = AnswerNoise::new(127);
        noise.count(4608);
        noise
    }

    fn primes(first: u32, second: u32) -> [u64; 2] {
        [first, second].map(|bits| ntt_primes(bits, 4096, 1)[0])
    }

    #[test]
    fn the_bound_is_that_of_the_worst_weights() {
        assert_eq!(noise().doubled_bound(4096), Some(4608 * 127 * 43 + 4 * 21 * 4096 + 1));
        let mut huge = AnswerNoise::new(2047);
        huge.count(u64::MAX);
        assert!(huge.doubled_bound(4096).is_some_and(|bound| bound > 1 << 80));
        // The deviation of random weights is far below it: 2^14.6 of 2^23.6.
        assert!((noise().variance(4096).sqrt().log2() - 14.8).abs() < 0.2);
    }

    #[test]
    fn the_usual_answer_is_shorter_than_its_prime() {
        let format = AnswerFormat::choose(&primes(45, 22), 32, 4096, &noise()).unwrap();
        assert_eq!((format.kept_primes, format.uniform_bits, format.value_bits), (1, 45, 34));
        assert!(format.deviation < 0.1, "{format:?}");
    }

    #[test]
    fn shorter_answers_err_more_often() {
        let deviation = |first| AnswerFormat::choose(&primes(first, 22), 32, 4096, &noise()).unwrap();
        let (short, long) = (deviation(45), deviation(50));
        assert!(short.uniform_bits <= long.uniform_bits && short.deviation < 0.5 && long.deviation < 0.5);
    }

    #[test]
    fn noise_beyond_half_a_unit_is_refused() {
        assert_eq!(AnswerFormat::choose(&primes(35, 22), 36, 4096, &noise()), None);
        assert!(AnswerFormat::choose(&ntt_primes(50, 4096, 1), 20, 4096, &noise()).is_some());
        assert_eq!(AnswerFormat::choose(&ntt_primes(50, 4096, 1), 30, 4096, &noise()), None);
    }
}
