//! How far the logits of a private inference may be from those of plain rounding: a statistical bound.
//!
//! [`super::run_with`] and [`super::run`] differ in how they round `a / 2^s` at positions without ReLU, at those with one
//! if the coins say so ([`ReluRounding`]), and by the error that encryption adds to a linear layer's value. Call
//! the difference of the two runs' rounding errors at position i, in units of its output, `e_i`; then, to first order,
//!
//! ```text
//! logit difference of class k  =  sum over i of g_ki e_i  +  rounding of the logits
//! ```
//!
//! where the gain `g_ki` is the derivative of the logit by the position's output, along the ReLUs that are active and
//! the maxima that win in the plain run. One backward pass over the frozen weights gives all gains of one logit
//! exactly, with the correlations that convolutions and skip connections make.
//!
//! | position | error of the private run | error of the plain run | variance proxy of `e_i` |
//! | --- | --- | --- | --- |
//! | without ReLU | stochastic rounding: mean 0 given all before it, two values one unit apart, so 1/4 (Hoeffding) | nearest: within half a unit, taken as uniform, so 1/12 | 1/3 |
//! | active ReLU, by shares | the same | the same | 1/3 |
//! | active ReLU, to nearest, that reads a disturbed value | nearest, of another value | nearest | two values one unit apart whose mean is the disturbance, if the place between two integers is uniform: 1/4 |
//! | output of a linear layer | the encryption's noise: mean 0, at most an eighth of what is dropped later in the deviation ([`ModelOutline::tolerances`]); then rounded to a neighbor | exact | 1/64 of that unit's square, and 1/4 of a last place |
//! | all others | the same in both | | 0 |
//!
//! A ReLU by shares is active where `a > 0`, even if plain rounding makes 0 of it: there the private run makes 0 or 1 by a
//! coin whose mean is `a / 2^s`. For `a <= 0` stochastic rounding ends at 0 or below, so that the ReLU is 0 whatever the
//! coin. So the mean over the coin is the ReLU of `a / 2^s`, exactly, and near zero as anywhere else the error has mean 0
//! given all before it. A ReLU to nearest is active where its output is above 0. One with a ceiling rounds to nearest
//! in both runs.
//!
//! The coins of the private run are the client's uniform shares, fresh at every position, so that its errors are
//! martingale differences and the sum is sub-Gaussian with the proxy `sigma_k^2 = sum of g_ki^2 proxy_i`. With
//! probability at least 1 - 2^-20 ([`MISS_PROBABILITY`]) all of n compared logits therefore satisfy
//!
//! ```text
//! |difference|  <=  sigma_k sqrt(2 ln(2 n / 2^-20))  +  2
//! ```
//!
//! The 2 is the logits' own rounding: the plain run errs by (-1, 0], the private one by (-2, 0].
//!
//! Means are held to more ([`largest_mean_difference`]): over N images the mean difference of one logit is sub-Gaussian
//! with the mean of the sigma_k^2 over N as its proxy. Errors that all lean to one side by half a unit hide in a single
//! difference, where gains of both signs cancel; the mean shows them.
//!
//! Where values pass by the sign of another one they jump, and nothing of this holds. The deviation of such a model is measured
//! instead, on the image at hand: the root mean square over sixteen runs with other coins, doubled.
//!
//! What is proved and what is not: the private run's part is exact for given gains. That the plain run's errors behave
//! like uniform ones, and that few ReLUs change sides (first order), are assumptions; the tests compare the bound
//! with hundreds of runs, and a rounding that is biased breaks it (in the mean). Values that overflow are outside of it altogether.

mod adjoint;
mod trials;

use super::integer::{Coins, Trace, add_half, mask_bits, sign_extend};
use crate::image::{Image, ImageError};
use crate::inference_model::{ENCRYPTION_DEVIATION, InferenceModel, ModelOperation, ModelOutline, ModelStep};
use crate::shape::Shape;
use crate::walk::ValueId;

/// How likely it may be that a bound over all comparisons is missed, if the assumptions hold: 2^-20.
pub const MISS_PROBABILITY: f64 = 1.0 / (1 << 20) as f64;
/// What rounding the logits themselves may add.
const LOGIT_ROUNDING: f64 = 2.0;
/// Variance proxies, in squared units of a position's output.
const STOCHASTIC_PROXY: f64 = 1.0 / 4.0 + 1.0 / 12.0;
const DISTURBED_PROXY: f64 = 1.0 / 4.0;
/// The same for rounding a linear layer's noise to a neighbor, before its channels are shifted.
const NEIGHBOR_PROXY: f64 = 1.0 / 4.0;

/// How the private run rounds kept ReLUs without a ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReluRounding {
    /// To nearest, as plain rounding does.
    #[default]
    Nearest,
    /// By the client's share.
    Stochastic,
}

impl ReluRounding {
    /// What these coins ask for.
    pub fn of(coins: &dyn Coins) -> Self {
        if coins.rounds_relus() { Self::Stochastic } else { Self::Nearest }
    }
}

/// The largest difference to expect of a logit with this deviation, when so many logits are compared.
pub fn largest_difference(deviation: f64, comparisons: u64) -> f64 {
    let trials = 2.0 * comparisons.max(1) as f64 / MISS_PROBABILITY;
    deviation * (2.0 * trials.ln()).sqrt() + LOGIT_ROUNDING
}

/// Whether private logits of an image are as close to those of plain rounding as the bound says, for whoever knows
/// neither party's coins, only how they were used.
///
/// # Errors
/// When the image has another size than the model takes.
pub fn allows(
    model: &InferenceModel,
    image: &Image,
    private: &[i64],
    relus: ReluRounding,
) -> Result<bool, ImageError> {
    let plain = super::trace(model, image, None)?;
    let measured = trials::has_gates(model.outline()).then(|| trials::deviations(model, &plain, relus));
    let deviation = |logit: usize| match &measured {
        Some(deviations) => deviations[logit],
        None => logit_deviation(model, &plain, logit, relus),
    };
    let is_near = |logit: usize| {
        let bound = largest_difference(deviation(logit), private.len() as u64);
        private[logit].abs_diff(plain.logits[logit]) as f64 <= bound
    };
    Ok(private.len() == plain.logits.len() && (0..private.len()).all(is_near))
}

/// The largest mean difference of one logit to expect over images on which it has these deviations, when the means of
/// so many logits are compared.
pub fn largest_mean_difference(deviations: &[f64], comparisons: u64) -> f64 {
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    largest_difference(squares.sqrt() / deviations.len().max(1) as f64, comparisons)
}

/// The deviation sigma of one logit's difference, in units of the logits the client gets. `plain` is the trace of the
/// image with plain rounding.
///
/// # Panics
/// If the trace is another model's, or there is no such logit.
pub fn logit_deviation(model: &InferenceModel, plain: &Trace, logit: usize, relus: ReluRounding) -> f64 {
    let outline = model.outline();
    if trials::has_gates(outline) {
        return trials::deviations(model, plain, relus)[logit];
    }
    let disturbed = disturbed_values(outline, relus);
    let mut gains: Vec<Option<Vec<f32>>> = vec![None; outline.value_count()];
    let mut last = vec![0.0; outline.classes];
    last[logit] = 0.5_f32.powi(outline.logit_drop as i32);
    gains[outline.output().0] = Some(last);
    let mut layers = model.layers().iter().rev();
    let mut tolerances = outline.tolerances().into_iter().rev();
    let mut variance = 0.0;
    for (id, step) in outline.numbered_steps().rev() {
        let is_linear = matches!(step.operation, ModelOperation::Linear { .. });
        let (layer, tolerance) = if is_linear { (layers.next(), tolerances.next()) } else { (None, None) };
        let Some(mut gain) = gains[id.output().0].take() else { continue };
        if let ModelOperation::Activate { .. } = step.operation {
            let input = Activated { step, disturbed: disturbed[step.inputs[0].0], outline, plain, relus };
            variance += input.pass_back(&mut gain);
        }
        if let ModelOperation::Linear { channel_shifts, .. } = &step.operation {
            let maps = gain.chunks_exact(step.shape.pixels() as usize);
            let (_, tolerance) = tolerance.expect("every linear step has one");
            let proxy = encryption_proxy(tolerance);
            variance +=
                maps.zip(channel_shifts).map(|(map, shift)| proxy * shifted_gain(map, *shift)).sum::<f64>();
        }
        let shape = |value: usize| outline.shape(step.inputs[value]);
        for (number, value) in step.inputs.iter().enumerate() {
            let part = adjoint::apply(step, layer, number, &shape, &gain, &plain.values[step.inputs[0].0]);
            match &mut gains[value.0] {
                Some(sum) => sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part),
                none => *none = Some(part),
            }
        }
    }
    variance.sqrt()
}

/// The variance proxy of a linear layer's errors, in squared last places.
fn encryption_proxy(tolerance: u32) -> f64 {
    NEIGHBOR_PROXY + (ENCRYPTION_DEVIATION * 2_f64.powi(tolerance as i32)).powi(2)
}

/// The sum of the squared gains of one channel of a linear layer.
fn shifted_gain(gains: &[f32], shift: u8) -> f64 {
    let squares: f64 = gains.iter().map(|gain| f64::from(*gain).powi(2)).sum();
    squares * 4_f64.powi(i32::from(shift))
}

/// Which values depend on a position whose rounding differs between the runs.
fn disturbed_values(outline: &ModelOutline, relus: ReluRounding) -> Vec<bool> {
    let mut disturbed = vec![false];
    for step in &outline.steps {
        let rounds_otherwise = match &step.operation {
            ModelOperation::Activate { shift, mask, ceiling, .. } => {
                let by_shares = relus == ReluRounding::Stochastic && ceiling.is_none();
                *shift > 0 && (by_shares || mask.relu_count(step.shape) < step.shape.scalars())
            }
            ModelOperation::Linear { .. } => true,
            _ => false,
        };
        disturbed.push(rounds_otherwise || step.inputs.iter().any(|value| disturbed[value.0]));
    }
    disturbed
}

/// An `Activate` step of the plain run.
struct Activated<'a> {
    step: &'a ModelStep,
    /// Whether its input differs between the runs.
    disturbed: bool,
    outline: &'a ModelOutline,
    plain: &'a Trace,
    relus: ReluRounding,
}

impl Activated<'_> {
    /// Turns gains of the output into gains of the input; returns the variance that the output's rounding adds.
    fn pass_back(&self, gains: &mut [f32]) -> f64 {
        let ModelOperation::Activate { width, shift, ceiling, mask } = &self.step.operation else {
            unreachable!("only made for `Activate`")
        };
        let shape: Shape = self.outline.shape(self.step.inputs[0]);
        let keeps = mask_bits(mask, shape);
        let by_shares = self.relus == ReluRounding::Stochastic && ceiling.is_none();
        let unit = 0.5_f32.powi(*shift as i32);
        let mut variance = 0.0;
        let input = &self.plain.values[self.step.inputs[0].0];
        for (scalar, (gain, value)) in gains.iter_mut().zip(input).enumerate() {
            let proxy = if !keeps(scalar) {
                STOCHASTIC_PROXY
            } else if by_shares {
                if sign_extend(*value, *width) <= 0 {
                    *gain = 0.0;
                }
                STOCHASTIC_PROXY
            } else {
                let output = sign_extend(add_half(*value, *shift), *width) >> shift;
                let is_active = output > 0 && ceiling.is_none_or(|ceiling| output < ceiling as i64);
                if !is_active {
                    *gain = 0.0;
                }
                if self.disturbed { DISTURBED_PROXY } else { 0.0 }
            };
            if *shift > 0 {
                variance += proxy * f64::from(*gain).powi(2);
            }
            *gain *= unit;
        }
        variance
    }
}

/// Shares and errors from a seed, for trials in the clear: the same on every machine, and no secret. Shares are uniform; a
/// linear layer's value is off by one last place in a quarter of the cases.
#[derive(Clone, Copy, Debug)]
pub struct TrialShares {
    /// Another one for each trial.
    pub seed: u64,
    /// What kept ReLUs do with them.
    pub relus: ReluRounding,
}

impl Coins for TrialShares {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        // SplitMix64, twice: once over seed and value, once over the scalar.
        mixed(mixed(self.seed.wrapping_shl(20) ^ value.0 as u64).wrapping_add(scalar as u64))
    }

    fn linear_error(&self, value: ValueId, scalar: usize) -> i64 {
        match mixed(self.client_share(value, scalar)) % 8 {
            0 => 1,
            1 => -1,
            _ => 0,
        }
    }

    fn rounds_relus(&self) -> bool {
        self.relus == ReluRounding::Stochastic
    }
}

fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests;
