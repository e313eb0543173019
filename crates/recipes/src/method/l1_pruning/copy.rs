//! Weights in and out: the norms of filters, and what is left when some go. Arrays are those of a checkpoint.

use network::spec::NetworkSpec;
use network::transform::PrunableChannels;
use network::walk::{Operation, StepId};

use crate::array::Array;
use crate::checkpoint::Arrays;

/// What a checkpoint holds of one channel beside filters.
const PARTS: [&str; 4] = ["weight", "bias", "running_mean", "running_var"];

/// The l1 norm of the filter of each channel; the sum where several convolutions make it.
///
/// # Panics
/// If the arrays are another network's.
pub fn filter_norms(spec: &NetworkSpec, channels: &PrunableChannels, weights: &Arrays) -> Vec<f64> {
    let mut norms = vec![0.0; channels.channels];
    for maker in &channels.makers {
        let name = format!("{}.weight", step_name(spec, *maker));
        let filters = weights.get(&name).and_then(Array::floats).expect("a convolution has float weights");
        let length = filters.len() / channels.channels;
        for (norm, filter) in norms.iter_mut().zip(filters.chunks_exact(length)) {
            *norm += filter.iter().map(|weight| f64::from(weight.abs())).sum::<f64>();
        }
    }
    norms
}

/// The weights of a network that keeps these channels, each a list in order. Nothing is computed: every number is one of before.
///
/// # Panics
/// If the arrays are another network's, or a channel is none of it.
pub fn copy_kept(
    spec: &NetworkSpec,
    prunable: &[PrunableChannels],
    kept: &[Vec<usize>],
    weights: &Arrays,
) -> Arrays {
    let mut copy = weights.clone();
    let mut change = |name: String, dimension: usize, channels: usize, kept: &[usize]| {
        if let Some(array) = copy.get_mut(&name) {
            *array = select(array, dimension, channels, kept);
        }
    };
    for (channels, kept) in prunable.iter().zip(kept) {
        for step in channels.makers.iter().chain(&channels.followers) {
            let name = step_name(spec, *step);
            PARTS.iter().for_each(|part| change(format!("{name}.{part}"), 0, channels.channels, kept));
        }
        for step in &channels.readers {
            change(format!("{}.weight", step_name(spec, *step)), 1, channels.channels, kept);
        }
    }
    copy
}

fn step_name(spec: &NetworkSpec, step: StepId) -> &str {
    let step = &spec.walk().steps()[step.0];
    debug_assert!(matches!(
        step.operation,
        Operation::Conv(_) | Operation::FullyConnected { .. } | Operation::BatchNorm { .. }
    ));
    &step.name
}

/// The same array with some of the channels of a dimension. A fully connected layer has several numbers for each.
fn select(array: &Array, dimension: usize, channels: usize, kept: &[usize]) -> Array {
    let each = array.shape[dimension] / channels;
    assert_eq!(each * channels, array.shape[dimension], "the dimension is one of channels");
    let outer: usize = array.shape[..dimension].iter().product();
    let length = each * array.shape[dimension + 1..].iter().product::<usize>() * array.kind.width();
    let mut shape = array.shape.clone();
    shape[dimension] = each * kept.len();
    let mut bytes = Vec::with_capacity(outer * kept.len() * length);
    for row in 0..outer {
        for channel in kept {
            let start = (row * channels + channel) * length;
            bytes.extend_from_slice(&array.bytes[start..start + length]);
        }
    }
    Array { shape, kind: array.kind, bytes }
}
