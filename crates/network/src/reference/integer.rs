//! A frozen model on integers in the clear: what private inference must equal.
//!
//! Values are exact 64-bit integers that wrap; they are reduced where the protocol reduces them: at the width of an
//! `Activate` or `Maximum`, to one bit more at a position without ReLU or in a gate, and in the logits' ring. Every ring on the way is
//! at least as wide as its readers need, so the wrapping in between does not show, nor does a ring that another reader
//! made wider. A value outside of its range gives the same wrong answer here as in private.
//!
//! | place | [`run`] | [`run_with`], b the client's share |
//! | --- | --- | --- |
//! | ReLU kept | round to nearest | the same; stochastic, from b, where [`Coins::rounds_relus`] and there is no ceiling |
//! | ReLU dropped | round to nearest | stochastic: T of known-MSB truncation, from b |
//! | gate | the sign of its leader; round to nearest | the sign of the leader's stochastic rounding, and T, both from b |
//! | linear layer | exact | off by what the encryption added |
//! | logits | floor | floor, or one less when the low bits of b exceed those of the value |

use super::{kernels, narrow};
use crate::image::{Image, ImageError};
use crate::inference_model::{
    Gate, InferenceModel, LinearGeometry, LinearWeights, ModelOperation, ModelOutline, ModelStep,
};
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::walk::{StepId, ValueId};

/// What the protocol's rounding depends on.
pub trait Coins {
    /// The client's share of one scalar of a value that an `Activate` or `Gate` step reads, or of the logits, in that value's ring.
    /// Bits beyond the ring are ignored.
    fn client_share(&self, value: ValueId, scalar: usize) -> u64;

    /// What the encryption of a linear layer added to one scalar of its output, in last places of the product with the
    /// weights. Both parties' secrets together tell it; none, where they are not at hand.
    fn linear_error(&self, _value: ValueId, _scalar: usize) -> i64 {
        0
    }

    /// Whether kept ReLUs without a ceiling round by the client's share, too, instead of to nearest.
    fn rounds_relus(&self) -> bool {
        false
    }
}

/// Every value of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// By [`ValueId`]; the image comes first. Right modulo each value's ring.
    pub values: Vec<Vec<i64>>,
    /// What the client gets, with [`ModelOutline::logit_fraction`] fraction bits.
    pub logits: Vec<i64>,
}

impl Trace {
    /// The first scalar in which two runs of one model differ, each value taken in its ring.
    pub fn first_difference(&self, other: &Self, outline: &ModelOutline) -> Option<Difference> {
        for (index, (mine, theirs)) in self.values.iter().zip(&other.values).enumerate() {
            let value = ValueId(index);
            let bits = outline.ring_bits(value);
            let same = |(a, b): (&i64, &i64)| sign_extend(*a, bits) == sign_extend(*b, bits);
            if let Some(scalar) = mine.iter().zip(theirs).position(|pair| !same(pair)) {
                let step = value.maker().map(|maker| outline.step(maker).name.clone());
                return Some(Difference { value, step, scalar, first: mine[scalar], second: theirs[scalar] });
            }
        }
        None
    }
}

/// A scalar in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The value it belongs to.
    pub value: ValueId,
    /// The name of the step that made it; nothing for the image.
    pub step: Option<String>,
    /// Its place in the value.
    pub scalar: usize,
    /// In the first run.
    pub first: i64,
    /// In the second.
    pub second: i64,
}

/// The logits with plain rounding.
///
/// # Errors
/// When the image has another size than the model takes.
pub fn run(model: &InferenceModel, image: &Image) -> Result<Vec<i64>, ImageError> {
    Ok(trace(model, image, None)?.logits)
}

/// The logits with the protocol's rounding, repeated from the client's shares.
///
/// # Errors
/// When the image has another size than the model takes.
pub fn run_with(model: &InferenceModel, image: &Image, coins: &dyn Coins) -> Result<Vec<i64>, ImageError> {
    Ok(trace(model, image, Some(coins))?.logits)
}

/// Every value, with plain rounding or the protocol's.
///
/// # Errors
/// When the image has another size than the model takes.
pub fn trace(model: &InferenceModel, image: &Image, coins: Option<&dyn Coins>) -> Result<Trace, ImageError> {
    let outline = model.outline();
    image.expect_shape(outline.input)?;
    Ok(trace_encoded(model, outline.image.encode(image), coins))
}

/// The same for an image in fixed point, of the model's size.
pub(super) fn trace_encoded(model: &InferenceModel, image: Vec<i64>, coins: Option<&dyn Coins>) -> Trace {
    let outline = model.outline();
    let mut values = vec![image];
    let mut layers = model.layers().iter();
    for (id, step) in outline.numbered_steps() {
        let value = match &step.operation {
            ModelOperation::Linear { geometry, channel_shifts } => {
                let layer = layers.next().expect("a model has weights for each linear step");
                let input = (values[step.inputs[0].0].as_slice(), outline.shape(step.inputs[0]));
                let mut sums = linear(geometry, channel_shifts, layer, input, step.shape);
                if let Some(coins) = coins {
                    let pixels = step.shape.pixels() as usize;
                    for (scalar, sum) in sums.iter_mut().enumerate() {
                        let error =
                            coins.linear_error(id.output(), scalar) << channel_shifts[scalar / pixels];
                        *sum = sum.wrapping_add(error);
                    }
                }
                sums
            }
            ModelOperation::Activate { .. } => activate(step, &values, coins),
            ModelOperation::Gate(gate) => pass_gate(gate, step, &values, coins),
            _ => rearrange(outline, step, &values),
        };
        values.push(value);
    }
    let logits = round_logits(outline, &values[outline.output().0], coins);
    Trace { values, logits }
}

/// What the weights of each linear step make of these inputs: no shifts, no biases, and sums that wrap. For whoever holds
/// shares of both sides of a layer against it.
///
/// # Panics
/// If an input has another size than its layer takes.
pub fn weights_alone<'a>(
    model: &InferenceModel,
    inputs: impl Fn(StepId) -> &'a [i64],
) -> Vec<(StepId, Vec<i64>)> {
    let outline = model.outline();
    let mut layers = model.layers().iter();
    let apply = |(id, step): (StepId, &ModelStep)| {
        let ModelOperation::Linear { geometry, .. } = &step.operation else { return None };
        let layer = layers.next().expect("a model has weights for each linear step");
        let input = (inputs(id), outline.shape(step.inputs[0]));
        assert_eq!(input.0.len() as u64, input.1.scalars(), "an input of the layer's size");
        Some((id, multiply(geometry, input, step.shape, &layer.weights)))
    };
    outline.numbered_steps().filter_map(apply).collect()
}

/// The lowest bits of a number, as a signed one.
pub(crate) fn sign_extend(value: i64, bits: u32) -> i64 {
    let unused = 64 - bits;
    value.wrapping_shl(unused) >> unused
}

fn low_bits(value: u64, bits: u32) -> u64 {
    value & ((1 << bits) - 1)
}

fn linear(
    geometry: &LinearGeometry,
    channel_shifts: &[u8],
    layer: &LinearWeights,
    (input, size): (&[i64], Shape),
    output: Shape,
) -> Vec<i64> {
    let fast = narrow::apply(geometry, (input, size), output, &layer.weights);
    let mut sums = fast.unwrap_or_else(|| multiply(geometry, (input, size), output, &layer.weights));
    let maps = sums.chunks_exact_mut(output.pixels() as usize);
    for ((map, shift), bias) in maps.zip(channel_shifts).zip(&layer.biases) {
        map.iter_mut().for_each(|sum| *sum = (*sum << shift).wrapping_add(*bias));
    }
    sums
}

/// The weights' part in 64 bits, straightforwardly.
fn multiply(
    geometry: &LinearGeometry,
    (input, size): (&[i64], Shape),
    output: Shape,
    weights: &[i16],
) -> Vec<i64> {
    let weight = |index: usize| i64::from(weights[index]);
    match geometry {
        LinearGeometry::Conv(conv) => kernels::convolve(conv, (input, size), output, weight),
        LinearGeometry::FullyConnected { outputs, .. } => kernels::fully_connect(*outputs, input, weight),
    }
}

/// All steps without weights and without ReLUs.
fn rearrange(outline: &ModelOutline, step: &ModelStep, values: &[Vec<i64>]) -> Vec<i64> {
    let input = &values[step.inputs[0].0];
    let size = outline.shape(step.inputs[0]);
    let shifted = |(value, shift): (&ValueId, &u8)| {
        let shift = *shift;
        values[value.0].iter().map(move |scalar| scalar << shift)
    };
    match &step.operation {
        ModelOperation::Add { shifts } => {
            let mut sum = vec![0_i64; input.len()];
            for part in step.inputs.iter().zip(shifts).map(shifted) {
                sum.iter_mut().zip(part).for_each(|(sum, scalar)| *sum = sum.wrapping_add(scalar));
            }
            sum
        }
        ModelOperation::Concat { shifts } => step.inputs.iter().zip(shifts).flat_map(shifted).collect(),
        ModelOperation::Slice { start, channels } => kernels::slice(input, size, *start, *channels),
        ModelOperation::DropFirstRowAndColumn => kernels::drop_first_row_and_column(input, size),
        ModelOperation::SumPool(pool) => kernels::sum_pool(pool, (input, size), step.shape),
        ModelOperation::GlobalSum => kernels::global_sum(input, size),
        ModelOperation::ScalePixels { factors } => {
            let scale = |(scalar, factor): (&i64, &u32)| scalar.wrapping_mul(i64::from(*factor));
            input.iter().zip(factors.iter().cycle()).map(scale).collect()
        }
        ModelOperation::Maximum { pool, width } => {
            let narrow: Vec<i64> = input.iter().map(|scalar| sign_extend(*scalar, *width)).collect();
            kernels::max_pool(pool, (&narrow, size), step.shape)
        }
        ModelOperation::Linear { .. } | ModelOperation::Activate { .. } | ModelOperation::Gate(_) => {
            unreachable!("steps with weights or ReLUs are executed by `trace`")
        }
    }
}

fn activate(step: &ModelStep, values: &[Vec<i64>], coins: Option<&dyn Coins>) -> Vec<i64> {
    let ModelOperation::Activate { width, shift, ceiling, mask } = &step.operation else {
        unreachable!("only called for `Activate`")
    };
    let read = step.inputs[0];
    let ring = ModelOperation::truncation_ring(*width);
    let keeps = mask_bits(mask, step.shape);
    let input = values[read.0].iter().enumerate();
    let relu_coins = coins.filter(|coins| ceiling.is_none() && coins.rounds_relus());
    let pass = |(scalar, value): (usize, &i64)| match (keeps(scalar), relu_coins, coins) {
        (true, Some(coins), _) => rounded_relu(*value, coins.client_share(read, scalar), *width, *shift),
        (true, None, _) => {
            let result = sign_extend(add_half(*value, *shift), *width).max(0) >> shift;
            ceiling.map_or(result, |ceiling| result.min(ceiling as i64))
        }
        (false, _, None) => add_half(sign_extend(*value, ring), *shift) >> shift,
        (false, _, Some(coins)) => truncate(*value, coins.client_share(read, scalar), ring, *shift),
    };
    input.map(pass).collect()
}

/// Values by the sign of their leader, which in private is that of its rounded quotient.
fn pass_gate(gate: &Gate, step: &ModelStep, values: &[Vec<i64>], coins: Option<&dyn Coins>) -> Vec<i64> {
    let (read, pixels, shift) = (step.inputs[0], step.shape.pixels() as usize, gate.shift);
    let input = &values[read.0];
    let share = |scalar: usize| coins.map(|coins| coins.client_share(read, scalar));
    let is_positive = |leader: usize| match share(leader) {
        None => sign_extend(input[leader], gate.width) >= 0,
        Some(client) => rounded_quotient(input[leader], client, gate.width, shift) >= 0,
    };
    let quotient = |scalar: usize| match share(scalar) {
        None => add_half(sign_extend(input[scalar], gate.ring()), shift) >> shift,
        Some(client) => truncate(input[scalar], client, gate.ring(), shift),
    };
    let mut output = vec![0; input.len()];
    for (sign, group) in gate.groups.iter().enumerate() {
        for pixel in 0..pixels {
            let is_kept = gate.keeps(step.shape, sign, pixel);
            let leader = group[0] * pixels + pixel;
            let passes = !is_kept || is_positive(leader);
            for channel in group {
                let scalar = channel * pixels + pixel;
                output[scalar] = quotient(scalar).wrapping_mul(gate.factor(*channel, passes));
            }
            // Without a slope the leader is a ReLU by shares, in its range and outside of it.
            if let Some(client) = share(leader).filter(|_| is_kept && gate.slopes.is_empty()) {
                output[leader] = rounded_relu(input[leader], client, gate.width, shift);
            }
        }
    }
    output
}

pub(super) fn mask_bits(mask: &SiteMask, shape: Shape) -> impl Fn(usize) -> bool + '_ {
    let pixels = shape.pixels() as usize;
    move |scalar| {
        let (channel, pixel) = (scalar / pixels, scalar % pixels);
        mask.keeps(shape, channel, pixel / shape.width, pixel % shape.width)
    }
}

/// Half a unit more, so that flooring rounds to nearest.
pub(super) fn add_half(value: i64, shift: u32) -> i64 {
    if shift == 0 { value } else { value.wrapping_add(1 << (shift - 1)) }
}

/// Known-MSB truncation as the two parties compute it, on shares `value - client` and `client`: the stochastic
/// rounding of `value / 2^shift` in its range, and outside of it the same wrong answer as theirs.
fn truncate(value: i64, client: u64, ring: u32, shift: u32) -> i64 {
    let client = low_bits(client, ring);
    // With ring bits below 63 nothing here wraps but the sum that is meant to.
    let quarter = 1_u64 << ring >> 2;
    let server = (value as u64).wrapping_sub(client).wrapping_add(quarter + (1 << shift) - 1);
    let server = low_bits(server, ring);
    let wraps = (server | client) >> (ring - 1);
    let sum = (server >> shift) + (client >> shift);
    sum as i64 - ((wraps << ring >> shift) + (quarter >> shift)) as i64
}

/// ReLU and rounding as the two parties compute them, on shares `value - client` and `client` of `width` bits: each drops
/// the low bits of its own, and the sign is that of what is left. In range, with room for the rounding, this is the ReLU of a
/// stochastic rounding of `value / 2^shift`, and outside of it the same wrong answer as theirs.
fn rounded_relu(value: i64, client: u64, width: u32, shift: u32) -> i64 {
    rounded_quotient(value, client, width, shift).max(0)
}

/// The same before the ReLU.
fn rounded_quotient(value: i64, client: u64, width: u32, shift: u32) -> i64 {
    let client = low_bits(client, width);
    let server = low_bits((value as u64).wrapping_sub(client).wrapping_add((1 << shift) - 1), width);
    let sum = (server >> shift).wrapping_add(client >> shift);
    sign_extend(sum as i64, width - shift)
}

fn round_logits(outline: &ModelOutline, value: &[i64], coins: Option<&dyn Coins>) -> Vec<i64> {
    let ring = outline.ring_bits(outline.output());
    let drop = outline.logit_drop;
    let round = |(scalar, logit): (usize, &i64)| {
        let borrows = coins.is_some_and(|coins| {
            let client = coins.client_share(outline.output(), scalar);
            low_bits(client, drop) > low_bits(*logit as u64, drop)
        });
        sign_extend((logit >> drop) - i64::from(borrows), ring - drop)
    };
    value.iter().enumerate().map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sign_extension_keeps_the_low_bits() {
        assert_eq!(sign_extend(0b0111, 4), 7);
        assert_eq!(sign_extend(0b1000, 4), -8);
        assert_eq!(sign_extend(0b1_0001, 4), 1);
        assert_eq!(sign_extend(-1, 62), -1);
    }

    #[test]
    fn truncation_is_unbiased_and_off_by_less_than_one_unit_for_every_share() {
        let (ring, shift) = (9, 3);
        for value in -(1 << 7)..=(1 << 7) - (1 << shift) {
            let results: Vec<i64> =
                (0..1 << ring).map(|client| truncate(value, client, ring, shift)).collect();
            for (client, &result) in results.iter().enumerate() {
                assert!(((result << shift) - value).abs() < 1 << shift, "{value} {client}: {result}");
                let padded = value + (1 << shift) - 1;
                let expected = (padded >> shift) - i64::from(client as i64 & 7 > padded & 7);
                assert_eq!(result, expected);
            }
            assert_eq!(results.iter().sum::<i64>(), value << ring >> shift, "{value}");
        }
    }

    #[test]
    fn a_relu_by_shares_is_unbiased_and_never_lets_a_negative_value_through() {
        let (width, shift) = (8, 3);
        for value in -(1 << 7)..=(1 << 7) - (1 << shift) {
            let results: Vec<i64> =
                (0..1 << width).map(|client| rounded_relu(value, client, width, shift)).collect();
            let positive = value.max(0);
            let neighbors = [positive >> shift, (positive + (1 << shift) - 1) >> shift];
            assert!(results.iter().all(|result| neighbors.contains(result)), "{value}: {results:?}");
            assert_eq!(results.iter().sum::<i64>(), positive << width >> shift, "{value}");
        }
    }

    #[test]
    fn a_relu_by_shares_wraps_as_the_parties_do() {
        // The largest values have no room to be rounded up, and fall out at the other end for some shares.
        let (width, shift) = (8, 3);
        let results: Vec<i64> = (0..8).map(|client| rounded_relu(127, client, width, shift)).collect();
        assert_eq!(results, [0, 0, 0, 0, 0, 0, 0, 15]);
        for (value, client) in [(5, 1 << 40), (5 + (1 << 20), 0), (5 - (1 << 20), 3 << 8)] {
            assert_eq!(
                rounded_relu(value, client, width, shift),
                rounded_relu(5, client & 255, width, shift)
            );
        }
    }

    proptest! {
        #[test]
        fn a_relu_by_shares_equals_the_formula_in_wide_rings(
            width in 2_u32..=62, value in any::<i64>(), client in any::<u64>(), shift in any::<u32>(),
        ) {
            let shift = shift % (width - 1);
            let (low, high) = (-(1_i64 << (width - 1)), (1_i64 << (width - 1)) - (1 << shift));
            let value = low + value.rem_euclid(high - low + 1);
            let padded = value + (1 << shift) - 1;
            let borrows = low_bits(client, shift) > low_bits(padded as u64, shift);
            let expected = ((padded >> shift) - i64::from(borrows)).max(0);
            prop_assert_eq!(rounded_relu(value, client, width, shift), expected);
            let elsewhere = value.wrapping_add(7 << width);
            prop_assert_eq!(rounded_relu(elsewhere, client, width, shift), expected);
            prop_assert_eq!(rounded_relu(value, client, width, 0), value.max(0));
        }

        #[test]
        fn truncation_equals_the_formula_in_wide_rings(
            ring in 4_u32..=62, value in any::<i64>(), client in any::<u64>(), shift in any::<u32>(),
        ) {
            let shift = shift % (ring - 2);
            let (low, high) = (-(1_i64 << (ring - 2)), (1_i64 << (ring - 2)) - (1 << shift));
            let value = low + value.rem_euclid(high - low + 1);
            let padded = value + (1 << shift) - 1;
            let borrows = low_bits(client, shift) > low_bits(padded as u64, shift);
            prop_assert_eq!(truncate(value, client, ring, shift), (padded >> shift) - i64::from(borrows));
        }
    }
}
