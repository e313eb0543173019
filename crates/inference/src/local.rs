//! Linear steps on one party's shares: the same code for both, since sharing is additive.
//!
//! A share of an input lives in a ring at least as wide as that of the output, and is narrowed first, which is free.

use crypto::ring::geometry::Extent;
use crypto::ring::{RingVector, RingWidth, SumPool};
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::shape::Shape;
use network::spec::Pool;

use crate::InferenceError;

/// The share of a linear step's output, for every operation but those with secret weights.
pub(crate) fn apply(
    outline: &ModelOutline,
    step: &ModelStep,
    inputs: &[&RingVector],
) -> Result<RingVector, InferenceError> {
    let width = RingWidth::new(step.ring_bits)?;
    let shape = outline.shape(step.inputs[0]);
    match &step.operation {
        ModelOperation::Add { shifts } => {
            let mut sum = RingVector::zeros(width, step.shape.scalars() as usize);
            for (input, shift) in inputs.iter().zip(shifts) {
                sum.add(&shifted(input, width, *shift)?)?;
            }
            Ok(sum)
        }
        ModelOperation::Concat { shifts } => {
            let parts: Vec<_> = inputs
                .iter()
                .zip(shifts)
                .map(|(input, shift)| shifted(input, width, *shift))
                .collect::<Result<_, _>>()?;
            Ok(RingVector::concatenate(width, &parts)?)
        }
        ModelOperation::Slice { start, channels } => {
            let plane = shape.height * shape.width;
            let values: Vec<u64> = inputs[0].iter().skip(start * plane).take(channels * plane).collect();
            Ok(RingVector::from_unsigned(width, &values))
        }
        ModelOperation::DropFirstRowAndColumn => {
            Ok(RingVector::from_unsigned(width, &cropped(inputs[0], shape)))
        }
        ModelOperation::SumPool(pool) => Ok(sum_pool(shape, pool)?.apply(&inputs[0].narrowed(width)?)?),
        ModelOperation::GlobalSum => {
            let pool = SumPool::global(shape.channels, extent(shape))?;
            Ok(pool.apply(&inputs[0].narrowed(width)?)?)
        }
        ModelOperation::ScalePixels { factors } => {
            let scaled = |(value, factor): (u64, &u32)| value.wrapping_mul(u64::from(*factor));
            let values: Vec<u64> = inputs[0].iter().zip(factors.iter().cycle()).map(scaled).collect();
            Ok(RingVector::from_unsigned(width, &values))
        }
        ModelOperation::Linear { .. } | ModelOperation::Activate { .. } | ModelOperation::Maximum { .. } => {
            unreachable!("the caller applies steps with weights or messages itself")
        }
    }
}

/// Whether [`apply`] handles a step.
pub(crate) fn is_local(operation: &ModelOperation) -> bool {
    !matches!(
        operation,
        ModelOperation::Linear { .. } | ModelOperation::Activate { .. } | ModelOperation::Maximum { .. }
    )
}

/// Shifts each channel of a linear layer's output to the common scale.
pub(crate) fn shift_channels(
    values: RingVector,
    channel_shifts: &[u8],
    shape: Shape,
) -> Result<RingVector, InferenceError> {
    match channel_shifts.iter().all(|shift| *shift == channel_shifts[0]) {
        true if channel_shifts[0] == 0 => Ok(values),
        true => {
            let mut values = values;
            values.scale(u32::from(channel_shifts[0]))?;
            Ok(values)
        }
        false => {
            let plane = shape.height * shape.width;
            let shifted: Vec<u64> = values
                .iter()
                .enumerate()
                .map(|(index, value)| value << channel_shifts[index / plane])
                .collect();
            Ok(RingVector::from_unsigned(values.width(), &shifted))
        }
    }
}

fn shifted(input: &RingVector, width: RingWidth, shift: u8) -> Result<RingVector, InferenceError> {
    let mut value = input.narrowed(width)?;
    if shift > 0 {
        value.scale(u32::from(shift))?;
    }
    Ok(value)
}

fn cropped(input: &RingVector, shape: Shape) -> Vec<u64> {
    let is_first = |index: usize, length: usize| index.is_multiple_of(length);
    let kept = |index: &usize| !is_first(index / shape.width, shape.height) && !is_first(*index, shape.width);
    input.iter().enumerate().filter(|(index, _)| kept(index)).map(|(_, value)| value).collect()
}

fn extent(shape: Shape) -> Extent {
    Extent { height: shape.height, width: shape.width }
}

fn sum_pool(shape: Shape, pool: &Pool) -> Result<SumPool, InferenceError> {
    let square = Extent::square;
    Ok(SumPool::new(
        shape.channels,
        extent(shape),
        square(pool.window),
        square(pool.stride),
        square(pool.padding),
    )?)
}
