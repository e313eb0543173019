//! Maxima of windows. Windows at the border are smaller, so there is one part per size of window.

use std::collections::BTreeMap;
use std::sync::Arc;

use crypto::garble::layer::Layer;
use crypto::garble::maximum::MaximumShape;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::reference::bound::ReluRounding;
use network::shape::Shape;
use network::spec::Pool;

use super::Part;
use super::garbled::{Encoding, GarbledPart};
use crate::InferenceError;

pub(super) fn plan(
    outline: &ModelOutline,
    step: &ModelStep,
    _: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let ModelOperation::Maximum { pool, width } = &step.operation else { return Ok(Vec::new()) };
    let input = outline.shape(step.inputs[0]);
    let mut sizes: BTreeMap<usize, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    let mut position = 0;
    for channel in 0..step.shape.channels {
        for row in 0..step.shape.height {
            for column in 0..step.shape.width {
                let window = window(input, pool, channel, row, column);
                let (inputs, outputs) = sizes.entry(window.len()).or_default();
                inputs.extend(window);
                outputs.push(position);
                position += 1;
            }
        }
    }
    sizes
        .into_iter()
        .map(|(size, (inputs, outputs))| {
            let shape = MaximumShape::new(size as u32, *width, step.ring_bits)?;
            let layer = Layer::new(Arc::new(shape.circuit()), outputs.len());
            let part = GarbledPart::new(layer, Encoding::Reduced(*width), inputs, outputs);
            Ok(Arc::new(part) as Arc<dyn Part>)
        })
        .collect()
}

fn window(input: Shape, pool: &Pool, channel: usize, row: usize, column: usize) -> Vec<u32> {
    let side = |position: usize, length: usize| {
        let start = position * pool.stride;
        (start..start + pool.window)
            .filter_map(move |place| place.checked_sub(pool.padding).filter(|at| *at < length))
    };
    let mut values = Vec::new();
    for y in side(row, input.height) {
        for x in side(column, input.width) {
            values.push(((channel * input.height + y) * input.width + x) as u32);
        }
    }
    values
}
