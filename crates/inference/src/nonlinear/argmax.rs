//! The class alone: one circuit over all logits, whose outcome the client decodes and the server never sees.

use std::sync::Arc;

use crypto::garble::argmax::ArgmaxShape;
use crypto::garble::layer::Layer;
use network::inference_model::ModelOutline;

use super::Part;
use super::garbled::{Encoding, GarbledPart};
use crate::InferenceError;

/// The part that ends an inference of which the client learns the class alone.
pub(crate) fn plan(outline: &ModelOutline) -> Result<Arc<dyn Part>, InferenceError> {
    let width = outline.ring_bits(outline.output());
    let shape = ArgmaxShape::new(outline.classes as u32, width)?;
    let layer = Layer::new(Arc::new(shape.circuit()), 1);
    let logits = (0..outline.classes as u32).collect();
    Ok(Arc::new(GarbledPart::new(layer, Encoding::Reduced(width), logits, vec![0]).that_tells_the_client()))
}
