//! Random weights for tests and benchmarks: the same for the same seed on every machine.
//!
//! Convolutions are drawn with He's variance. Batch norms take their mean and variance from a few random images that
//! are run through the layers as they are made, so that values neither explode nor vanish, however deep or linear the
//! network is. Their scales are drawn around 0.9 and their shifts around 0.5; one that learns neither (`affine = false`) has
//! exactly 0.9 and 0.5, where a trained one has 1 and 0.

use std::collections::BTreeMap;

use super::{FloatWeights, LayerSize, LayerWeights};
use crate::image::{Image, RandomBytes};
use crate::inference_model::ImageFormat;
use crate::reference::float;
use crate::shape::Shape;
use crate::spec::{NetworkSpec, public_slope};
use crate::walk::{Operation, Step};

/// How many images batch norms take their statistics from.
const IMAGES: u64 = 4;

impl FloatWeights {
    /// Weights from a seed. Batch norms that are not affine have the scale 0.9 and the shift 0.5 here, not 1 and 0.
    pub fn random(spec: &NetworkSpec, seed: u64) -> Self {
        let walk = spec.walk();
        let input = spec.draft().input;
        let format = ImageFormat::usual(input.channels);
        let image = |index| vec![format.normalize(&Image::random(input, seed.wrapping_add(index)))];
        let mut runs: Vec<Vec<Vec<f32>>> = (0..IMAGES).map(image).collect();
        let mut layers = BTreeMap::new();
        for step in walk.steps() {
            let mut stream = RandomBytes::new(&step.name, seed);
            let layer = match LayerSize::of(walk, step) {
                Some(LayerSize::Linear { weights, outputs }) => {
                    Some(linear(&mut stream, step, weights, outputs))
                }
                Some(LayerSize::BatchNorm { .. }) => {
                    let inputs: Vec<&[f32]> =
                        runs.iter().map(|run| run[step.inputs[0].0].as_slice()).collect();
                    Some(batch_norm(&mut stream, &step.operation, &inputs, walk.shape(step.output)))
                }
                Some(LayerSize::Slopes { channels }) => {
                    let slopes = (0..channels).map(|_| public_slope(0.2 * stream.normal())).collect();
                    Some(LayerWeights::Slopes { slopes })
                }
                None => None,
            };
            for run in &mut runs {
                let value = float::apply(walk, step, run, layer.as_ref(), None);
                run.push(value);
            }
            layers.extend(layer.map(|layer| (step.name.clone(), layer)));
        }
        Self { layers }
    }
}

fn linear(stream: &mut RandomBytes, step: &Step, weights: usize, outputs: usize) -> LayerWeights {
    let taps = weights / outputs;
    let deviation = (2.0 / taps as f32).sqrt();
    let has_bias = match &step.operation {
        Operation::Conv(conv) => conv.bias,
        _ => true,
    };
    let weights = (0..weights).map(|_| stream.normal() * deviation).collect();
    let biases = (0..outputs).map(|_| if has_bias { 0.05 * stream.normal() } else { 0.0 }).collect();
    LayerWeights::Linear { weights, biases }
}

fn batch_norm(
    stream: &mut RandomBytes,
    operation: &Operation,
    inputs: &[&[f32]],
    shape: Shape,
) -> LayerWeights {
    let pixels = shape.pixels() as usize;
    let (mut mean, mut variance) = (Vec::new(), Vec::new());
    for channel in 0..shape.channels {
        let maps = inputs.iter().flat_map(|input| &input[channel * pixels..(channel + 1) * pixels]);
        let count = (inputs.len() * pixels) as f32;
        let center = maps.clone().sum::<f32>() / count;
        mean.push(center);
        variance.push(maps.map(|value| (value - center) * (value - center)).sum::<f32>() / count);
    }
    // Few images have few pixels in deep layers, so a channel's variance leans on that of the whole layer.
    let layer = (variance.iter().sum::<f32>() / shape.channels as f32).max(1e-6);
    variance.iter_mut().for_each(|variance| *variance = 0.5 * (*variance + layer));
    let is_learned = *operation == Operation::BatchNorm { affine: true };
    let mut draw = |usual: f32, spread: f32| {
        let values =
            (0..shape.channels).map(|_| usual + if is_learned { spread * stream.normal() } else { 0.0 });
        values.collect()
    };
    // Shifts lean to where ReLUs let values through: random networks are chaotic otherwise, and blow up the rounding of
    // integers as no trained network does.
    LayerWeights::BatchNorm { scale: draw(0.9, 0.15), shift: draw(0.5, 0.2), mean, variance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{self};
    use crate::walk::StageIndex;
    use crate::zoo;

    #[test]
    fn the_same_seed_gives_the_same_weights() {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        assert_eq!(FloatWeights::random(&spec, 5), FloatWeights::random(&spec, 5));
        assert_ne!(FloatWeights::random(&spec, 5), FloatWeights::random(&spec, 6));
        assert_eq!(FloatWeights::random(&spec, 5).check(&spec), Ok(()));
    }

    #[test]
    fn values_neither_explode_nor_vanish() {
        let culled = |spec: NetworkSpec, stages: &[usize]| {
            stages.iter().fold(spec, |spec, stage| transform::cull_stage(&spec, StageIndex(*stage)).unwrap())
        };
        let specs = [
            zoo::build("resnet56:m=4", 16, 10).unwrap(),
            culled(zoo::build("resnet18:m=4", 16, 10).unwrap(), &[1, 2, 3, 4]),
            zoo::build("darts:c=4,d=4", 16, 10).unwrap(),
            zoo::build("wrn-22x1", 16, 10).unwrap(),
        ];
        for spec in specs {
            let weights = FloatWeights::random(&spec, 3);
            let image = Image::random(spec.draft().input, 99);
            let image = ImageFormat::usual(3).normalize(&image);
            let trace = float::run(&spec, &weights, None, &image).unwrap();
            for (step, maximum) in spec.walk().steps().iter().zip(&trace.maxima()[1..]) {
                assert!((1e-3..1e3).contains(maximum), "{} {}: {maximum}", spec.name(), step.name);
            }
        }
    }
}
