//! Scalings before ReLUs become shifts.
//!
//! Where a batch norm cannot go into the layer before it (a WideResNet's acts on a sum that the skip connection reads
//! too), its 8-bit scales would widen the ReLU behind it by 7 bits. But `relu(s x + t) = m relu(2^k x + t / m)` for
//! `s = 2^k m`, signs aside: the mantissas `m` move behind the ReLU, into the weights of the layers that read it, and
//! the scaling is left with powers of two, which add no bits but what channels differ by. A position without ReLU
//! passes factors on as well.

use super::graph::{FloatLinear, FloatOperation, Graph, Reader, Readers};
use super::merge;
use super::scales::{floor_log2, power};
use crate::walk::{StepId, ValueId};

/// Channels whose scales differ by more bits than this would cost what they should save.
pub(super) const MAX_SPREAD: i32 = 6;

/// Moves the mantissas of all scalings that only a ReLU reads.
pub(super) fn move_mantissas(graph: &mut Graph) {
    let readers = graph.readers();
    for id in graph.ids() {
        let FloatOperation::Linear(scaling) = &graph[id].operation else { continue };
        let Some(relu) = readers.only(id.output()) else { continue };
        let is_unclipped = matches!(graph[relu].operation, FloatOperation::Activate { ceiling: None, .. });
        if !scaling.is_affine() || !is_unclipped {
            continue;
        }
        let mut layers = Vec::new();
        if !collect_layers(graph, &readers, relu.output(), &mut layers) {
            continue;
        }
        let Some((powers, mantissas)) = split(scaling) else { continue };
        graph[id].operation = FloatOperation::Linear(powers);
        for layer in layers {
            let pixels = graph.shape(graph[layer].inputs[0]).pixels() as usize;
            if let FloatOperation::Linear(linear) = &mut graph[layer].operation {
                merge::scale_inputs(linear, &mantissas, pixels);
            }
        }
    }
}

/// The linear layers that read a value, also behind pooling, which passes positive factors on; whether nothing else
/// reads it.
fn collect_layers(graph: &Graph, readers: &Readers, value: ValueId, layers: &mut Vec<StepId>) -> bool {
    readers.of(value).iter().all(|reader| {
        let Reader::Node(id) = *reader else { return false };
        match &graph[id].operation {
            FloatOperation::Linear(_) => {
                layers.push(id);
                true
            }
            FloatOperation::Sum(_) | FloatOperation::Average(_) | FloatOperation::Maximum(_) => {
                collect_layers(graph, readers, id.output(), layers)
            }
            _ => false,
        }
    })
}

/// A scaling by signed powers of two, and the positive factors that are left; nothing if channels differ too much.
fn split(scaling: &FloatLinear) -> Option<(FloatLinear, FloatLinear)> {
    let exponents: Vec<Option<i32>> = scaling
        .weights
        .iter()
        .map(|scale| (*scale != 0.0).then(|| floor_log2(f64::from(scale.abs()))))
        .collect();
    let coarsest = exponents.iter().flatten().max()?;
    let finest = exponents.iter().flatten().min()?;
    if coarsest - finest > MAX_SPREAD {
        return None;
    }
    let (mut powers, mut shifts, mut mantissas) = (Vec::new(), Vec::new(), Vec::new());
    for ((scale, shift), exponent) in scaling.weights.iter().zip(&scaling.biases).zip(&exponents) {
        let unit = exponent.map_or(0.0, |exponent| power(exponent) as f32);
        let mantissa = if unit == 0.0 { 1.0 } else { scale.abs() / unit };
        powers.push(unit.copysign(*scale));
        shifts.push(shift / mantissa);
        mantissas.push(mantissa);
    }
    let zeros = vec![0.0; mantissas.len()];
    Some((FloatLinear::affine(powers, shifts), FloatLinear::affine(mantissas, zeros)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freeze::calibrate;
    use crate::image::Image;
    use crate::inference_model::ImageFormat;
    use crate::reference::float;
    use crate::weights::FloatWeights;
    use crate::zoo;

    #[test]
    fn moving_mantissas_changes_no_logit() {
        for name in ["wrn-10x1", "wrn-16x1:final-relu=no"] {
            let spec = zoo::build(name, 16, 10).unwrap();
            let weights = FloatWeights::random(&spec, 4);
            let image = ImageFormat::usual(3).normalize(&Image::random(spec.draft().input, 9));
            let oracle = float::run(&spec, &weights, None, &image).unwrap();
            let mut graph = Graph::new(&spec, &weights, None);
            merge::merge(&mut graph);
            move_mantissas(&mut graph);
            let is_power =
                |weight: &f32| *weight == power(floor_log2(f64::from(weight.abs()))) as f32 * weight.signum();
            let moved = graph.nodes.iter().filter(|node| match &node.operation {
                FloatOperation::Linear(linear) => linear.is_affine() && linear.weights.iter().all(is_power),
                _ => false,
            });
            assert!(moved.count() >= 2, "{name}");
            let values = calibrate::run(&graph, image);
            for (logit, expected) in values.last().unwrap().iter().zip(oracle.logits()) {
                assert!((logit - expected).abs() < 1e-3, "{name}: {logit} {expected}");
            }
        }
    }

    #[test]
    fn signs_and_zeros_survive() {
        let scaling = FloatLinear::affine(vec![1.5, -0.75, 0.0, 4.0], vec![3.0, 1.5, 2.0, -1.0]);
        let (powers, mantissas) = split(&scaling).unwrap();
        assert_eq!(powers.weights, [1.0, -0.5, 0.0, 4.0]);
        assert_eq!(powers.biases, [2.0, 1.0, 2.0, -1.0]);
        assert_eq!(mantissas.weights, [1.5, 1.5, 1.0, 1.0]);
        assert!(split(&FloatLinear::affine(vec![1.0, 1e-4], vec![0.0; 2])).is_none());
    }
}
