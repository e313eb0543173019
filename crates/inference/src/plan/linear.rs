//! The layers with secret weights: their encryption parameters, layouts and flights.

use crypto::he::{ConvolutionShape, HeOutline, HeParameters, Layout, LinearShape, WeightBits};
use network::inference_model::{self, LinearGeometry, ModelOperation, ModelOutline};
use network::shape::Shape;

use crate::InferenceError;

/// The ring degree below which a second parameter set is worth its keys.
const SMALL_DEGREE: usize = 4096;

/// One layer with secret weights.
#[derive(Debug)]
pub struct LinearJob {
    /// Its step in the outline.
    pub step: usize,
    /// Which of the plan's parameters it uses.
    pub group: usize,
    /// How many answers must have come before its request can be made.
    pub flight: usize,
    /// Where its numbers lie in ciphertexts.
    pub layout: Layout,
}

pub(super) fn plan(outline: &ModelOutline) -> Result<(Vec<HeParameters>, Vec<LinearJob>), InferenceError> {
    let flights = flights(outline);
    let layers: Vec<(usize, LinearShape)> = outline
        .linear_steps()
        .map(|(step, geometry)| (step, shape(&geometry, outline.shape(outline.steps[step].inputs[0]))))
        .collect();
    let rings: Vec<u32> = layers.iter().map(|(step, _)| outline.steps[*step].ring_bits).collect();
    let choice = |lowest: u32, highest: u32, sets: u32| {
        let shapes = layers.iter().zip(&rings).filter(|(_, ring)| (lowest..=highest).contains(ring));
        let shapes = shapes.map(|((_, shape), _)| *shape).collect();
        let part = HeOutline::from_layers(highest, weight_bits(outline), shapes).sharing_among(sets);
        HeParameters::from_outline(&part)
    };
    let Some(&widest) = rings.iter().max() else { return Ok((Vec::new(), Vec::new())) };
    let mut parameters = vec![choice(0, widest, 1)?];
    let mut narrow = widest;
    if parameters[0].degree() > SMALL_DEGREE {
        // The widest narrow ring and those below it get a set of their own, listed first.
        let mut candidates = rings.clone();
        candidates.sort_unstable();
        candidates.dedup();
        for ring_bits in candidates.into_iter().rev().skip(1) {
            let below = choice(0, ring_bits, 2)?;
            if below.degree() > SMALL_DEGREE {
                continue;
            }
            // Half of the squared distance may ask too much of the widest ring; then one set serves all layers.
            if let Ok(above) = choice(ring_bits + 1, widest, 2) {
                narrow = ring_bits;
                parameters = vec![below, above];
            }
            break;
        }
    }
    let jobs = layers
        .iter()
        .zip(&rings)
        .map(|((step, shape), ring_bits)| {
            let group = usize::from(parameters.len() > 1 && *ring_bits > narrow);
            let layout = Layout::new(&parameters[group], shape)?;
            Ok(LinearJob { step: *step, group, flight: flights[*step], layout })
        })
        .collect::<Result<_, InferenceError>>()?;
    Ok((parameters, jobs))
}

/// For each linear step, how many linear steps lie before it on the longest path from a fresh blind.
fn flights(outline: &ModelOutline) -> Vec<usize> {
    let mut answers = vec![0; outline.steps.len() + 1];
    let mut flights = vec![0; outline.steps.len()];
    for (index, step) in outline.steps.iter().enumerate() {
        let before = step.inputs.iter().map(|input| answers[input.0]).max().unwrap_or(0);
        flights[index] = before;
        answers[index + 1] = match step.operation {
            ModelOperation::Linear { .. } => before + 1,
            ModelOperation::Activate { .. } | ModelOperation::Maximum { .. } => 0,
            _ => before,
        };
    }
    flights
}

fn weight_bits(outline: &ModelOutline) -> WeightBits {
    match outline.weight_bits {
        inference_model::WeightBits::Eight => WeightBits::Eight,
        inference_model::WeightBits::Twelve => WeightBits::Twelve,
    }
}

fn shape(geometry: &LinearGeometry, input: Shape) -> LinearShape {
    match geometry {
        LinearGeometry::FullyConnected { inputs, outputs } => {
            LinearShape::FullyConnected { inputs: *inputs, outputs: *outputs }
        }
        LinearGeometry::Conv(conv) => LinearShape::Convolution(ConvolutionShape {
            input_channels: conv.inputs,
            output_channels: conv.outputs,
            input_size: [input.height, input.width],
            filter_size: [conv.filter; 2],
            stride: [conv.stride; 2],
            padding: [conv.padding; 2],
            dilation: [conv.dilation; 2],
            groups: conv.groups,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::transform::{cull_stage, drop_stem_relus};
    use network::walk::StageIndex;
    use network::weights::FloatWeights;
    use network::zoo;

    /// A run of layers without ReLU asks for a wide ring, the layers after it for narrow ones.
    fn mixed_rings() -> ModelOutline {
        let spec = zoo::build("resnet18:m=4", 16, 10).unwrap();
        let spec = cull_stage(&drop_stem_relus(&spec).unwrap(), StageIndex(1)).unwrap();
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(&spec, 1);
        freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0.outline().clone()
    }

    #[test]
    fn two_sets_of_parameters_keep_the_distance_together() {
        let outline = mixed_rings();
        let (parameters, jobs) = plan(&outline).unwrap();
        assert_eq!(parameters.iter().map(HeParameters::degree).collect::<Vec<_>>(), [4096, 8192]);
        let joint = HeParameters::joint_distance_log2(&parameters);
        assert!(joint <= -40.0 && parameters.iter().all(|set| set.distance_log2() < joint), "{parameters:?}");
        for job in jobs {
            let ring_bits = outline.steps[job.step].ring_bits;
            assert!(ring_bits <= parameters[job.group].ring_bits());
            assert_eq!(job.group == 0, ring_bits <= parameters[0].ring_bits(), "narrow rings use the first");
        }
    }
}
