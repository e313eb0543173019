//! Linear steps on one party's shares: the same code for both, since sharing is additive.
//!
//! A share of an input lives in a ring at least as wide as that of the output, and is narrowed first, which is free.

use crypto::ring::{RingVector, RingWidth, Share, SumPool};
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::shape::Shape;

use crate::InferenceError;
use crate::geometry::{extent, sum_pool};

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
                sum.add(Share::new(shifted(input, width, *shift)?).expose())?;
            }
            Ok(sum)
        }
        ModelOperation::Concat { shifts } => {
            let parts: Vec<_> = inputs
                .iter()
                .zip(shifts)
                .map(|(input, shift)| shifted(input, width, *shift))
                .collect::<Result<_, _>>()?;
            let joined = RingVector::concatenate(width, &parts)?;
            parts.into_iter().for_each(|part| drop(Share::new(part)));
            Ok(joined)
        }
        ModelOperation::Slice { start, channels } => {
            let plane = shape.height * shape.width;
            let values = inputs[0].iter().skip(start * plane).take(channels * plane);
            Ok(collected(width, values))
        }
        ModelOperation::DropFirstRowAndColumn => Ok(collected(width, cropped(inputs[0], shape))),
        ModelOperation::SumPool(pool) => {
            let input = Share::new(inputs[0].narrowed(width)?);
            Ok(sum_pool(shape, pool)?.apply(input.expose())?)
        }
        ModelOperation::GlobalSum => {
            let pool = SumPool::global(shape.channels, extent(shape))?;
            Ok(pool.apply(Share::new(inputs[0].narrowed(width)?).expose())?)
        }
        ModelOperation::ScalePixels { factors } => {
            let scaled = |(value, factor): (u64, &u32)| value.wrapping_mul(u64::from(*factor));
            Ok(collected(width, inputs[0].iter().zip(factors.iter().cycle()).map(scaled)))
        }
        ModelOperation::Linear { .. }
        | ModelOperation::Activate { .. }
        | ModelOperation::Gate(_)
        | ModelOperation::Maximum { .. } => {
            unreachable!("the caller applies steps with weights or messages itself")
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

fn cropped(input: &RingVector, shape: Shape) -> impl Iterator<Item = u64> {
    let kept = move |index: &usize| {
        let (row, column) = (index / shape.width % shape.height, index % shape.width);
        row > 0 && column > 0
    };
    input.iter().enumerate().filter(move |(index, _)| kept(index)).map(|(_, value)| value)
}

/// A share's values, leaving no copy behind but those of a growing list.
fn collected(width: RingWidth, values: impl Iterator<Item = u64>) -> RingVector {
    let values = Secret::new(values.collect::<Vec<_>>());
    RingVector::from_unsigned(width, values.expose())
}
