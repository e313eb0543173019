//! ReLUs that round to nearest, or have a ceiling, with the rescaling behind them: one circuit for each.

use std::sync::Arc;

use crypto::garble::clip::ClipShape;
use crypto::garble::layer::Layer;
use crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::mask::SiteMask;
use network::reference::bound::ReluRounding;
use network::shape::Shape;

use super::Part;
use super::garbled::{Encoding, GarbledPart};
use crate::InferenceError;

pub(super) fn plan(
    _: &ModelOutline,
    step: &ModelStep,
    relus: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let ModelOperation::Activate { width, shift, ceiling, mask } = &step.operation else {
        return Ok(Vec::new());
    };
    let kept = positions(step.shape, mask, true);
    let is_gated = relus == ReluRounding::Stochastic && ceiling.is_none();
    if is_gated || kept.is_empty() {
        return Ok(Vec::new());
    }
    let rounding = if *shift == 0 { Rounding::Floor } else { Rounding::Nearest };
    let (circuit, encoding) = match *ceiling {
        None => {
            let shape = ReluShape::new(*width, *shift, step.ring_bits, rounding, ReluForm::Projection)?;
            (shape.circuit(), Encoding::Relu(shape))
        }
        Some(ceiling) => {
            let shape = ClipShape::new(*width, *shift, step.ring_bits, rounding, ceiling)?;
            (shape.circuit(), Encoding::Clip(shape))
        }
    };
    let layer = Layer::new(Arc::new(circuit), kept.len());
    Ok(vec![Arc::new(GarbledPart::new(layer, encoding, kept.clone(), kept))])
}

/// The positions whose ReLU a mask keeps, or drops.
pub(super) fn positions(shape: Shape, mask: &SiteMask, is_kept: bool) -> Vec<u32> {
    let mut positions = Vec::new();
    let mut position = 0;
    for channel in 0..shape.channels {
        for row in 0..shape.height {
            for column in 0..shape.width {
                if mask.keeps(shape, channel, row, column) == is_kept {
                    positions.push(position);
                }
                position += 1;
            }
        }
    }
    positions
}
