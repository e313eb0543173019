//! How far a decrypted share may be off, and how short requests and answers may be written.
//!
//! Beside the plaintext, one useful coefficient of an answer holds the noise
//!
//! ```text
//! delta = sum over taps of w (e + eps + rho)  +  u e_pk + e_2 s  +  D (eps_0 + eps_1 s)  +  D (rho_0 + rho_1 s)
//! ```
//!
//! with e, e_pk, e_2 centered binomial (variance 10.5), u and s uniform ternary, eps the rounding of the encoding, eps_0 and
//! eps_1 that of the rescaling by D, and rho, rho_0, rho_1 what is left out of requests and of both halves of an answer. With
//! eta = t delta / q the two shares add up to W r plus eta, rounded to one of its two neighbors.
//!
//! A layer's reader drops low bits later: with a *tolerance* of tau bits the unit that counts is 2^tau last places. The
//! standard deviation of eta stays within an eighth of that unit, for the worst weights that the outline allows; weights
//! that are uniform in their range have 0.58 of it. What the noise of the encryption leaves of this room is spent on leaving
//! out bits. All of the choice is made in integers, so that both parties come to the same.

/// Twelve times the variance of e + eps.
const INPUT_VARIANCE: u128 = 126 + 1;
/// Twelve times the variance, per coefficient of the ring, of u e_pk + e_2 s.
const ZERO_VARIANCE: u128 = 168;
/// The unit that counts over the deviation that is allowed, as bits.
const GUARD_BITS: u32 = 3;
/// Units beyond this many bits are taken for it, so that their squares fit a word. There is room enough then.
const MAX_UNIT_BITS: u32 = 58;
/// No sum of so many small independent terms comes so many deviations away from its mean: 2^-71.
const DEVIATIONS: f64 = 10.0;

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

    /// The sum of the squares of the worst weights that meet in one coefficient.
    fn energy(&self) -> Option<u128> {
        u128::from(self.max_taps).checked_mul(self.weight_bound * self.weight_bound)
    }

    /// Twelve times the variance of what encryption itself adds.
    fn variance(&self, degree: usize) -> Option<u128> {
        let input = self.energy()?.checked_mul(INPUT_VARIANCE)?;
        input.checked_add(degree as u128 * ZERO_VARIANCE)
    }
}

/// How many numbers of each sort the layers of an outline send for one inference of a session of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Coefficients of requests.
    pub(super) inputs: u64,
    /// Coefficients of second halves of answers, divided among the inferences of a session.
    pub(super) uniform: u64,
    /// Useful coefficients of first halves.
    pub(super) values: u64,
}

/// How requests and answers are written: which primes an answer keeps, and how many low bits are left out.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::he) struct Format {
    /// The answer is rescaled to the product of this many first primes.
    pub(in crate::he) kept_primes: usize,
    /// That product.
    pub(in crate::he) kept_modulus: u128,
    /// Low bits left out of a request.
    pub(in crate::he) input_dropped: u32,
    /// Low bits left out of the useful coefficients of the first half of an answer.
    pub(in crate::he) value_dropped: u32,
    /// Low bits left out of the second half.
    pub(in crate::he) uniform_dropped: u32,
    /// Bits sent per coefficient of a request.
    pub(in crate::he) input_bits: u32,
    /// Bits sent per coefficient of the first half.
    pub(in crate::he) value_bits: u32,
    /// Bits sent per coefficient of the second half.
    pub(in crate::he) uniform_bits: u32,
    /// The standard deviation of eta for the worst weights, in last places of a share.
    pub(super) deviation: f64,
}

impl Format {
    /// The shortest messages whose shares are as close as the tolerance asks, if encryption itself leaves half of the room.
    pub(super) fn choose(
        primes: &[u64],
        degree: usize,
        (ring_bits, tolerance): (u32, u32),
        noise: &AnswerNoise,
        counts: &Counts,
    ) -> Option<Self> {
        let modulus = primes.iter().map(|&prime| u128::from(prime)).product::<u128>();
        let unit = (modulus >> (ring_bits - tolerance)).min(1 << MAX_UNIT_BITS);
        let allowed = (12 * unit * unit) >> (2 * GUARD_BITS);
        (1..=primes.len()).find_map(|kept| {
            let account = Account::new(primes, kept, degree, noise, allowed)?;
            let mut format = account.shortest_format(counts)?;
            let gap = modulus as f64 / 2_f64.powi(ring_bits as i32);
            format.deviation = (account.variance(&format)? as f64 / 12.0).sqrt() / gap;
            Some(format)
        })
    }

    /// By how many last places both shares together may miss the layer's value, but for a probability of 2^-71.
    pub(super) fn largest_error(&self) -> u64 {
        (DEVIATIONS * self.deviation).ceil() as u64 + 1
    }
}

/// What goes into the noise of one answer. All variances are those modulo q, twelve times.
struct Account {
    kept_primes: usize,
    kept_modulus: u128,
    modulus_bits: u32,
    degree: u128,
    energy: u128,
    /// The square of what a unit of the kept modulus is modulo q.
    rescaling: u128,
    /// What encryption and rescaling add.
    fixed: u128,
    allowed: u128,
}

impl Account {
    fn new(
        primes: &[u64],
        kept_primes: usize,
        degree: usize,
        noise: &AnswerNoise,
        allowed: u128,
    ) -> Option<Self> {
        let product = |primes: &[u64]| primes.iter().map(|&prime| u128::from(prime)).product::<u128>();
        let (kept_modulus, dropped) = (product(&primes[..kept_primes]), product(&primes[kept_primes..]));
        let mut account = Self {
            kept_primes,
            kept_modulus,
            modulus_bits: primes.iter().map(|prime| prime.ilog2() + 1).sum(),
            degree: degree as u128,
            energy: noise.energy()?,
            rescaling: dropped.checked_mul(dropped)?,
            fixed: noise.variance(degree)?,
            allowed,
        };
        if dropped > 1 {
            let rescaled = account.rescaling.checked_mul(1 + account.key_weight())?;
            account.fixed = account.fixed.checked_add(rescaled)?;
        }
        (account.fixed <= allowed / 2).then_some(account)
    }

    /// The expected square of a ternary key, rounded up.
    fn key_weight(&self) -> u128 {
        (2 * self.degree).div_ceil(3)
    }

    /// Leaving out bits and reading the middle back errs by a number from -(2^(bits - 1) - 1) to 2^(bits - 1), all alike:
    /// (4^bits + 2) / 12 in the square.
    fn dropping(&self, bits: u32, factor: u128) -> Option<u128> {
        match bits {
            0 => Some(0),
            _ => factor.checked_mul(1_u128.checked_shl(2 * bits)? + 2),
        }
    }

    fn inputs(&self, dropped: u32) -> Option<u128> {
        self.dropping(dropped, self.energy)
    }

    fn uniform(&self, dropped: u32) -> Option<u128> {
        self.dropping(dropped, self.rescaling.checked_mul(self.key_weight())?)
    }

    fn values(&self, dropped: u32) -> Option<u128> {
        self.dropping(dropped, self.rescaling)
    }

    fn variance(&self, format: &Format) -> Option<u128> {
        let answer = self.uniform(format.uniform_dropped)?.checked_add(self.values(format.value_dropped)?)?;
        self.fixed.checked_add(self.inputs(format.input_dropped)?)?.checked_add(answer)
    }

    /// Of all that fit, that with the fewest bits; of equals the one that leaves most out of values, then of requests.
    fn shortest_format(&self, counts: &Counts) -> Option<Format> {
        let kept_bits = 128 - self.kept_modulus.leading_zeros();
        let within = |cost: Option<u128>, room: u128| cost.and_then(|cost| room.checked_sub(cost));
        let mut best: Option<(u64, u32, u32, u32)> = None;
        for input in 0..self.modulus_bits - 1 {
            let Some(room) = within(self.inputs(input), self.allowed - self.fixed) else { break };
            for uniform in 0..kept_bits - 1 {
                let Some(room) = within(self.uniform(uniform), room) else { break };
                let fits = |value: &u32| within(self.values(*value), room).is_some();
                let value = (0..kept_bits - 1).take_while(fits).last().unwrap_or(0);
                let saved = counts.inputs * u64::from(input)
                    + counts.uniform * u64::from(uniform)
                    + counts.values * u64::from(value);
                best = best.max(Some((saved, value, input, uniform)));
            }
        }
        let (_, value_dropped, input_dropped, uniform_dropped) = best?;
        Some(Format {
            kept_primes: self.kept_primes,
            kept_modulus: self.kept_modulus,
            input_dropped,
            value_dropped,
            uniform_dropped,
            input_bits: self.modulus_bits - input_dropped,
            value_bits: kept_bits - value_dropped,
            uniform_bits: kept_bits - uniform_dropped,
            deviation: 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::modulus::ntt_primes;

    const COUNTS: Counts = Counts { inputs: 2, uniform: 2, values: 1 };

    fn noise() -> AnswerNoise {
        let mut noise = AnswerNoise::new(127);
        noise.count(4608);
        noise
    }

    fn one_prime(degree: usize, ring_bits: u32, tolerance: u32) -> Option<Format> {
        Format::choose(&ntt_primes(50, degree, 1), degree, (ring_bits, tolerance), &noise(), &COUNTS)
    }

    #[test]
    fn the_variance_is_that_of_the_worst_weights() {
        assert_eq!(noise().variance(4096), Some(4608 * 127 * 127 * 127 + 4096 * 168));
        let mut huge = AnswerNoise::new(2047);
        huge.count(u64::MAX);
        assert!(huge.variance(4096).is_some_and(|variance| variance > 1 << 90));
        assert!(((noise().variance(4096).unwrap() as f64 / 12.0).sqrt().log2() - 14.8).abs() < 0.1);
    }

    #[test]
    fn bits_that_are_dropped_later_are_not_sent() {
        let exact = one_prime(2048, 31, 0).unwrap();
        for tolerance in 1..=16 {
            let format = one_prime(2048, 31, tolerance).unwrap();
            let off = |bits: u32, whole: u32| (bits + tolerance).abs_diff(whole);
            assert!(off(format.input_bits, exact.input_bits) <= 2, "{format:?}");
            assert!(off(format.uniform_bits, exact.uniform_bits) <= 2, "{format:?}");
            assert!(off(format.value_bits, exact.value_bits) <= 2, "{format:?}");
        }
    }

    #[test]
    fn the_deviation_stays_within_an_eighth_of_the_unit() {
        for (ring_bits, tolerance) in [(16, 0), (31, 0), (31, 10), (40, 9), (40, 20), (25, 24)] {
            let format = one_prime(2048, ring_bits, tolerance).unwrap();
            let unit = 2_f64.powi(tolerance as i32);
            assert!(format.deviation <= unit / 8.0 && format.deviation > unit / 20.0, "{format:?}");
            assert!(format.largest_error() as f64 <= 1.25 * unit + 2.0, "{format:?}");
        }
    }

    #[test]
    fn noise_beyond_half_of_the_room_is_refused() {
        assert!(one_prime(2048, 31, 0).is_some() && one_prime(2048, 40, 9).is_some());
        assert_eq!(one_prime(2048, 33, 0), None);
        assert_eq!(one_prime(2048, 40, 7), None);
    }

    #[test]
    fn a_wide_ring_keeps_two_primes_only_where_it_must() {
        let primes = ntt_primes(50, 4096, 2);
        let kept = |ring_bits, tolerance| {
            Format::choose(&primes, 4096, (ring_bits, tolerance), &noise(), &COUNTS).unwrap().kept_primes
        };
        assert_eq!([kept(40, 0), kept(60, 20), kept(60, 0), kept(64, 0)], [1, 1, 2, 2]);
    }
}
