//! Consecutive linear layers become one where that is exact and cheaper (DeepReDuce section 5.3).
//!
//! | first | second | exact | done |
//! | --- | --- | --- | --- |
//! | convolution | 1x1 convolution | always | when it lowers the multiply-adds |
//! | 1x1 convolution | convolution | unless the first has biases and the second pads with zeros | likewise |
//! | fully connected | fully connected | always | likewise |
//! | scaling of channels | convolution, fully connected | as above | always |
//! | linear layer | scaling of channels | always | always |
//! | scaling of channels | average | unless padding counts | always: fewer pixels to scale |
//! | linear layer of a branch | that of another branch, added | where centers and strides agree | always |
//! | average by an odd count | linear layer | always | always: the division goes into the weights |
//!
//! Only a value with a single reader vanishes; a scaling may also go into several readers, if into all of them.
//! At the borders a padded convolution sees zeros instead of the first layer's biases, which is why two wide
//! convolutions are never merged.

mod parallel;

use super::graph::{FloatLinear, FloatOperation, Graph, Node, Reader, Window};
use crate::inference_model::LinearGeometry;
use crate::reference::kernels;
use crate::shape::Shape;
use crate::spec::Pool;
use crate::walk::{ConvGeometry, StepId};

/// Merges until nothing changes.
pub(super) fn merge(graph: &mut Graph) {
    while parallel::merge_parallel(graph)
        || swap_scaling_and_average(graph)
        || fold_scaling_forward(graph)
        || merge_pair(graph)
        || fold_division(graph)
    {
        graph.remove_unread();
    }
}

/// The linear layer a node is, if it is one.
fn linear(node: &Node) -> Option<&FloatLinear> {
    match &node.operation {
        FloatOperation::Linear(linear) => Some(linear),
        _ => None,
    }
}

/// The conv geometry of a dense linear layer; a fully connected one is a 1x1 convolution of one pixel.
fn dense(linear: &FloatLinear) -> Option<ConvGeometry> {
    match linear.geometry {
        LinearGeometry::Conv(conv) => (conv.groups == 1).then_some(conv),
        LinearGeometry::FullyConnected { inputs, outputs } => Some(ConvGeometry {
            inputs,
            outputs,
            filter: 1,
            stride: 1,
            padding: 0,
            dilation: 1,
            groups: 1,
            bias: true,
        }),
    }
}

fn is_pointwise(conv: &ConvGeometry) -> bool {
    conv.filter == 1 && conv.padding == 0
}

/// One merge of two linear layers, the first read by the second alone.
fn merge_pair(graph: &mut Graph) -> bool {
    let readers = graph.readers();
    for second in graph.ids() {
        let Some(first) = readers.sole_maker(graph[second].inputs[0]) else { continue };
        if let Some(merged) = merged(&graph[first], &graph[second]) {
            let inputs = graph[first].inputs.clone();
            graph[second].operation = FloatOperation::Linear(merged);
            graph[second].inputs = inputs;
            return true;
        }
    }
    false
}

fn merged(first_node: &Node, second_node: &Node) -> Option<FloatLinear> {
    let (first, second) = (linear(first_node)?, linear(second_node)?);
    if second.is_affine() {
        let mut merged = first.clone();
        merged.scale_outputs(&second.weights, &second.biases);
        return Some(merged);
    }
    let both_conv = matches!(first.geometry, LinearGeometry::Conv(_))
        == matches!(second.geometry, LinearGeometry::Conv(_));
    let (one, two) = (dense(first)?, dense(second)?);
    let before =
        one.taps() as u64 * first_node.shape.scalars() + two.taps() as u64 * second_node.shape.scalars();
    let after = |conv: &ConvGeometry| conv.taps() as u64 * second_node.shape.scalars();
    if !both_conv {
        return None;
    }
    if is_pointwise(&two) {
        let stride = one.stride * two.stride;
        let conv = ConvGeometry { outputs: two.outputs, stride, bias: true, ..one };
        return (after(&conv) < before).then(|| then_pointwise(first, second, conv));
    }
    let is_exact = two.padding == 0 || first.biases.iter().all(|bias| *bias == 0.0);
    if is_pointwise(&one) && one.stride == 1 && is_exact {
        let conv = ConvGeometry { inputs: one.inputs, bias: true, ..two };
        return (after(&conv) < before).then(|| pointwise_then(first, second, conv));
    }
    None
}

/// A convolution followed by one that mixes channels: rows of weights are mixed.
fn then_pointwise(first: &FloatLinear, second: &FloatLinear, conv: ConvGeometry) -> FloatLinear {
    let taps = first.geometry.taps();
    let middle = first.geometry.outputs();
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for (mix, bias) in second.weights.chunks_exact(middle).zip(&second.biases) {
        for tap in 0..taps {
            weights.push(dot(mix, |index| first.weights[index * taps + tap]));
        }
        biases.push(bias + dot(mix, |index| first.biases[index]));
    }
    let geometry = match first.geometry {
        LinearGeometry::Conv(_) => LinearGeometry::Conv(conv),
        LinearGeometry::FullyConnected { inputs, .. } => {
            LinearGeometry::FullyConnected { inputs, outputs: conv.outputs }
        }
    };
    FloatLinear { geometry, weights, biases }
}

/// A convolution whose inputs were mixed before: its columns of weights are mixed.
fn pointwise_then(first: &FloatLinear, second: &FloatLinear, conv: ConvGeometry) -> FloatLinear {
    let (inputs, middle) = (conv.inputs, first.geometry.outputs());
    let area = conv.filter * conv.filter;
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for (row, bias) in second.weights.chunks_exact(middle * area).zip(&second.biases) {
        for input in 0..inputs {
            let column: Vec<f32> =
                (0..middle).map(|channel| first.weights[channel * inputs + input]).collect();
            weights.extend((0..area).map(|tap| dot(&column, |channel| row[channel * area + tap])));
        }
        let carried = |tap| dot(&first.biases, |channel| row[channel * area + tap]);
        biases.push(bias + (0..area).map(carried).sum::<f32>());
    }
    FloatLinear { geometry: LinearGeometry::Conv(conv), weights, biases }
}

fn dot(left: &[f32], right: impl Fn(usize) -> f32) -> f32 {
    left.iter().enumerate().map(|(index, value)| f64::from(*value) * f64::from(right(index))).sum::<f64>()
        as f32
}

/// A scaling whose readers are all linear layers goes into their weights.
fn fold_scaling_forward(graph: &mut Graph) -> bool {
    let readers = graph.readers();
    for id in graph.ids() {
        let Some(scaling) = linear(&graph[id]).filter(|linear| linear.is_affine()) else { continue };
        let takes = |reader: &Reader| match reader {
            Reader::Node(reader) => takes_scaling(&graph[*reader], scaling).then_some(*reader),
            Reader::Client => None,
        };
        let layers: Option<Vec<_>> = readers.of(id.output()).iter().map(takes).collect();
        let Some(layers) = layers else { continue };
        let scaling = scaling.clone();
        let (input, pixels) = (graph[id].inputs[0], graph[id].shape.pixels() as usize);
        for layer in layers {
            let node = &mut graph[layer];
            node.inputs[0] = input;
            if let FloatOperation::Linear(linear) = &mut node.operation {
                scale_inputs(linear, &scaling, pixels);
            }
        }
        return true;
    }
    false
}

fn takes_scaling(node: &Node, scaling: &FloatLinear) -> bool {
    let pads = |linear: &FloatLinear| match &linear.geometry {
        LinearGeometry::Conv(conv) => conv.padding > 0,
        LinearGeometry::FullyConnected { .. } => false,
    };
    let has_shift = scaling.biases.iter().any(|bias| *bias != 0.0);
    linear(node).is_some_and(|linear| !has_shift || !pads(linear))
}

/// Multiplies each input channel by its scale and adds its shift, within the weights.
pub(super) fn scale_inputs(linear: &mut FloatLinear, scaling: &FloatLinear, pixels: usize) {
    let taps = linear.geometry.taps();
    let outputs = linear.geometry.outputs();
    // Which input channel a weight meets.
    let (area, inputs, per_group) = match &linear.geometry {
        LinearGeometry::Conv(conv) => {
            (conv.filter * conv.filter, conv.inputs / conv.groups, conv.outputs / conv.groups)
        }
        LinearGeometry::FullyConnected { .. } => (pixels, taps / pixels, outputs),
    };
    for (output, row) in linear.weights.chunks_exact_mut(taps).enumerate() {
        let first = output / per_group * inputs;
        for (tap, weight) in row.iter_mut().enumerate() {
            let channel = first + tap / area;
            linear.biases[output] += *weight * scaling.biases[channel];
            *weight *= scaling.weights[channel];
        }
    }
}

/// Averaging first leaves fewer pixels to scale.
fn swap_scaling_and_average(graph: &mut Graph) -> bool {
    let readers = graph.readers();
    for second in graph.ids() {
        let keeps_constants = match &graph[second].operation {
            FloatOperation::Average(Window::Whole) => true,
            FloatOperation::Average(Window::Pool(pool)) => pool.padding == 0 || !pool.count_padding,
            _ => false,
        };
        let Some(first) = readers.sole_maker(graph[second].inputs[0]).filter(|_| keeps_constants) else {
            continue;
        };
        if linear(&graph[first]).is_some_and(FloatLinear::is_affine) {
            let average = graph[second].operation.clone();
            graph[second].operation = std::mem::replace(&mut graph[first].operation, average);
            graph[first].shape = graph[second].shape;
            let name = graph[first].name.clone();
            graph[first].name = std::mem::replace(&mut graph[second].name, name);
            return true;
        }
    }
    false
}

/// An average by a count that is no power of two, read by a linear layer alone, becomes a sum.
fn fold_division(graph: &mut Graph) -> bool {
    let readers = graph.readers();
    for id in graph.ids() {
        let FloatOperation::Average(window) = graph[id].operation.clone() else { continue };
        let counts = average_counts(graph, id, &window);
        let count = counts[0];
        let is_uniform = counts.iter().all(|other| *other == count);
        let Some(reader) = readers.only(id.output()) else { continue };
        if !is_uniform || count.is_power_of_two() {
            continue;
        }
        let FloatOperation::Linear(linear) = &mut graph[reader].operation else { continue };
        linear.weights.iter_mut().for_each(|weight| *weight /= count as f32);
        graph[id].operation = FloatOperation::Sum(window);
        return true;
    }
    false
}

/// By how many an average divides at each pixel it makes.
pub(super) fn average_counts(graph: &Graph, id: StepId, window: &Window) -> Vec<u32> {
    window_counts(window, graph.shape(graph[id].inputs[0]), graph[id].shape)
}

/// How many scalars a window holds at each pixel that it makes.
pub(super) fn window_counts(window: &Window, input: Shape, output: Shape) -> Vec<u32> {
    match window {
        Window::Whole => vec![input.pixels() as u32],
        Window::Pool(pool) => kernels::average_counts(pool, input, output),
    }
}

/// A window over the whole map is a pool of the map's size.
pub(super) fn pool_of(window: &Window) -> Option<&Pool> {
    match window {
        Window::Pool(pool) => Some(pool),
        Window::Whole => None,
    }
}

#[cfg(test)]
mod tests;
