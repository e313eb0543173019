//! A spec with its float weights in plain f32: the source of calibration, and the oracle of the trainer.

use super::kernels;
use crate::mask::{ActivationMask, SiteMask};
use crate::shape::Shape;
use crate::walk::{Network, Operation, Step, ValueId, Walk};
use crate::weights::{BATCH_NORM_EPSILON, FloatWeights, LayerWeights, WeightsError};

/// Every value of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatTrace {
    /// By [`ValueId`]; the image comes first.
    pub values: Vec<Vec<f32>>,
}

impl FloatTrace {
    /// The last value.
    pub fn logits(&self) -> &[f32] {
        self.values.last().map_or(&[], Vec::as_slice)
    }

    /// The largest magnitude of each value.
    pub fn maxima(&self) -> Vec<f32> {
        self.values.iter().map(|value| largest(value)).collect()
    }
}

/// The largest magnitude among some numbers.
pub(crate) fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// Runs a network on a normalized image; without a mask every ReLU is kept.
///
/// # Errors
/// When image, weights or mask are another network's.
pub fn run(
    network: &dyn Network,
    weights: &FloatWeights,
    mask: Option<&ActivationMask>,
    image: &[f32],
) -> Result<FloatTrace, FloatError> {
    let walk = network.walk();
    let expected = walk.shape(ValueId::IMAGE);
    if image.len() as u64 != expected.scalars() {
        return Err(FloatError::Image { expected, came: image.len() });
    }
    if mask.is_some_and(|mask| !mask.fits(network)) {
        return Err(FloatError::Mask);
    }
    weights.check(network)?;
    let mut values = vec![image.to_vec()];
    for step in walk.steps() {
        values.push(apply(walk, step, &values, weights.layer(&step.name), mask));
    }
    Ok(FloatTrace { values })
}

/// One step, on values whose sizes and weights were checked.
pub(crate) fn apply(
    walk: &Walk,
    step: &Step,
    values: &[Vec<f32>],
    layer: Option<&LayerWeights>,
    mask: Option<&ActivationMask>,
) -> Vec<f32> {
    let input = &values[step.inputs[0].0];
    let size = walk.shape(step.inputs[0]);
    let output = walk.shape(step.output);
    match &step.operation {
        Operation::Conv(_) | Operation::FullyConnected { .. } | Operation::BatchNorm { .. } => {
            weighted(&step.operation, (input, size), output, layer.expect("weights were checked"))
        }
        Operation::Relu { site, ceiling } => {
            let mask = mask.map_or(&SiteMask::KeepAll, |mask| mask.site(*site));
            activate(input, output, mask, *ceiling)
        }
        Operation::SharedSigns { site, signs } => {
            let slopes = match layer {
                Some(LayerWeights::Slopes { slopes }) => slopes.clone(),
                _ => vec![0.0; output.channels],
            };
            let mask = mask.map_or(&SiteMask::KeepAll, |mask| mask.site(*site));
            let groups = signs.grouping.groups(size.channels);
            activate_groups((input, size), &groups, &slopes, mask)
        }
        Operation::AveragePool(pool) => {
            let counts = kernels::average_counts(pool, size, output);
            divide(kernels::sum_pool(pool, (input, size), output), &counts)
        }
        Operation::MaxPool(pool) => kernels::max_pool(pool, (input, size), output),
        Operation::GlobalAveragePool => divide(kernels::global_sum(input, size), &[size.pixels() as u32]),
        Operation::Add => add(step.inputs.iter().map(|value| values[value.0].as_slice())),
        Operation::Concat => step.inputs.iter().flat_map(|value| values[value.0].iter().copied()).collect(),
        Operation::Slice { start, channels } => kernels::slice(input, size, *start, *channels),
        Operation::DropFirstRowAndColumn => kernels::drop_first_row_and_column(input, size),
    }
}

fn weighted(
    operation: &Operation,
    (input, size): (&[f32], Shape),
    output: Shape,
    layer: &LayerWeights,
) -> Vec<f32> {
    match (operation, layer) {
        (Operation::Conv(conv), LayerWeights::Linear { weights, biases }) => {
            let sums = kernels::convolve(conv, (input, size), output, |index| weights[index]);
            add_biases(sums, biases)
        }
        (_, LayerWeights::Linear { weights, biases }) => {
            add_biases(kernels::fully_connect(output.channels, input, |index| weights[index]), biases)
        }
        (_, LayerWeights::BatchNorm { scale, shift, mean, variance }) => {
            let pixels = size.pixels() as usize;
            let normalize = |(index, value): (usize, &f32)| {
                let channel = index / pixels;
                let deviation = (variance[channel] + BATCH_NORM_EPSILON).sqrt();
                (value - mean[channel]) / deviation * scale[channel] + shift[channel]
            };
            input.iter().enumerate().map(normalize).collect()
        }
        (_, LayerWeights::Slopes { .. }) => unreachable!("weights were checked"),
    }
}

/// Adds each channel's bias to its map.
pub(crate) fn add_biases(mut sums: Vec<f32>, biases: &[f32]) -> Vec<f32> {
    let pixels = sums.len() / biases.len();
    for (map, bias) in sums.chunks_exact_mut(pixels).zip(biases) {
        map.iter_mut().for_each(|sum| *sum += bias);
    }
    sums
}

/// ReLU where the mask keeps it, clipped at the ceiling; the value itself elsewhere.
pub(crate) fn activate(input: &[f32], shape: Shape, mask: &SiteMask, ceiling: Option<u8>) -> Vec<f32> {
    let pixels = shape.pixels() as usize;
    let ceiling = ceiling.map_or(f32::INFINITY, f32::from);
    let pass = |(index, value): (usize, &f32)| {
        let (channel, pixel) = (index / pixels, index % pixels);
        let keeps = mask.keeps(shape, channel, pixel / shape.width, pixel % shape.width);
        if keeps { value.clamp(0.0, ceiling) } else { *value }
    };
    input.iter().enumerate().map(pass).collect()
}

/// Each value where its leader is not negative or the mask drops the sign, and its slope's share everywhere.
pub(crate) fn activate_groups(
    (input, shape): (&[f32], Shape),
    groups: &[Vec<usize>],
    slopes: &[f32],
    mask: &SiteMask,
) -> Vec<f32> {
    let pixels = shape.pixels() as usize;
    let comparisons = shape.with_channels(groups.len());
    let mut output = vec![0.0; input.len()];
    for (sign, group) in groups.iter().enumerate() {
        for pixel in 0..pixels {
            let keeps = mask.keeps(comparisons, sign, pixel / shape.width, pixel % shape.width);
            let passes = !keeps || input[group[0] * pixels + pixel] >= 0.0;
            for channel in group {
                let value = input[channel * pixels + pixel];
                output[channel * pixels + pixel] =
                    if passes { value } else { 0.0 } + slopes[*channel] * value;
            }
        }
    }
    output
}

/// Divides by the count of each pixel; the counts repeat from channel to channel.
pub(crate) fn divide(mut sums: Vec<f32>, counts: &[u32]) -> Vec<f32> {
    for (sum, count) in sums.iter_mut().zip(counts.iter().cycle()) {
        *sum /= *count as f32;
    }
    sums
}

/// The sum of several maps.
pub(crate) fn add<'a>(mut inputs: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
    let mut sum = inputs.next().unwrap_or_default().to_vec();
    for other in inputs {
        sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
    }
    sum
}

/// A run that cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FloatError {
    /// An image of another size.
    #[error("the image has {came} numbers, the network takes {expected}")]
    Image {
        /// What the network takes.
        expected: Shape,
        /// What came.
        came: usize,
    },
    /// A mask of another network.
    #[error("the mask was made for another network")]
    Mask,
    /// Weights of another network.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Bits;
    use crate::spec::NetworkSpec;
    use crate::zoo;
    use std::collections::BTreeMap;

    const PLAIN: &str = r#"
        name = "plain"
        classes = 2
        input = { channels = 1, height = 2, width = 2 }
        head = ["classifier"]
        [stem]
        layers = [{ conv = { out = 1, filter = 3 } }, "batch_norm", "relu6"]
    "#;

    fn plain() -> (NetworkSpec, FloatWeights) {
        let spec = NetworkSpec::from_toml(PLAIN).unwrap();
        let conv = (1..=9).map(|value| value as f32).collect();
        let layers = BTreeMap::from([
            ("stem.conv1".to_owned(), LayerWeights::Linear { weights: conv, biases: vec![0.0] }),
            (
                "stem.norm1".to_owned(),
                LayerWeights::BatchNorm {
                    scale: vec![2.0],
                    shift: vec![-1.0],
                    mean: vec![10.0],
                    variance: vec![4.0 - BATCH_NORM_EPSILON],
                },
            ),
            (
                "head.fc1".to_owned(),
                LayerWeights::Linear {
                    weights: vec![1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0],
                    biases: vec![0.5, 0.0],
                },
            ),
        ]);
        let weights = FloatWeights::new(&spec, layers).unwrap();
        (spec, weights)
    }

    #[test]
    fn a_network_worked_out_by_hand() {
        let (spec, weights) = plain();
        // The image is (1, 0; 0, 1), so each output adds two taps: 5 + 9, 4 + 8, 2 + 6, 1 + 5.
        let trace = run(&spec, &weights, None, &[1.0, 0.0, 0.0, 1.0]).unwrap();
        assert_eq!(trace.values[1], [14.0, 12.0, 8.0, 6.0]);
        assert_eq!(trace.values[2], [3.0, 1.0, -3.0, -5.0]);
        assert_eq!(trace.values[3], [3.0, 1.0, 0.0, 0.0]);
        assert_eq!(trace.logits(), [4.5, 3.0]);
        assert_eq!(trace.maxima()[2], 5.0);
        let clipped = run(&spec, &weights, None, &[9.0, 0.0, 0.0, 9.0]).unwrap();
        assert_eq!(clipped.values[3], [6.0; 4]);
    }

    #[test]
    fn dropped_relus_let_values_through() {
        let (spec, weights) = plain();
        let bits = Bits::collect([true, false, false, true]);
        let mask = ActivationMask::new(&spec, vec![SiteMask::Pixels(bits)]).unwrap();
        let trace = run(&spec, &weights, Some(&mask), &[1.0, 0.0, 0.0, 1.0]).unwrap();
        assert_eq!(trace.values[3], [3.0, 1.0, -3.0, 0.0]);
    }

    #[test]
    fn a_sign_decides_for_its_group() {
        let text = "name = \"signs\"\nclasses = 4\ninput = { channels = 4, height = 1, width = 1 }\n\
                    head = [\"classifier\"]\n[stem]\n\
                    layers = [{ shared_signs = { groups = [[2, 0], [1, 3]], slopes = true } }]\n";
        let spec = NetworkSpec::from_toml(text).unwrap();
        let identity = (0..16).map(|index| f32::from(u8::from(index % 5 == 0))).collect();
        let layers = BTreeMap::from([
            ("stem.signs1".to_owned(), LayerWeights::Slopes { slopes: vec![0.0, 0.25, 0.5, -0.5] }),
            ("head.fc1".to_owned(), LayerWeights::Linear { weights: identity, biases: vec![0.0; 4] }),
        ]);
        let weights = FloatWeights::new(&spec, layers).unwrap();
        let run = |mask: Option<&ActivationMask>, image: [f32; 4]| {
            run(&spec, &weights, mask, &image).unwrap().logits().to_vec()
        };
        // Channel 2 leads channel 0 and lets it pass, channel 1 leads channel 3 and does not.
        assert_eq!(run(None, [-3.0, -4.0, 2.0, 6.0]), [-3.0, -1.0, 3.0, -3.0]);
        // A sign of zero passes.
        assert_eq!(run(None, [-3.0, 0.0, -2.0, 6.0]), [0.0, 0.0, -1.0, 3.0]);
        let mask = vec![SiteMask::Channels(Bits::collect([true, false]))];
        let mask = ActivationMask::new(&spec, mask).unwrap();
        assert_eq!(run(Some(&mask), [-3.0, -4.0, -2.0, 6.0]), [0.0, -5.0, -1.0, 3.0]);
    }

    #[test]
    fn images_masks_and_weights_of_other_networks_are_refused() {
        let (spec, weights) = plain();
        assert!(matches!(run(&spec, &weights, None, &[0.0; 3]), Err(FloatError::Image { came: 3, .. })));
        let other = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let mask = ActivationMask::keep_all(&other);
        assert_eq!(run(&spec, &weights, Some(&mask), &[0.0; 4]), Err(FloatError::Mask));
        let error = run(&other, &weights, None, &[0.0; 192]).unwrap_err();
        assert!(error.to_string().contains("stem.conv1 has 9 weights, the network needs 54"), "{error}");
    }
}
