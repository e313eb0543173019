//! The graph in floating point: how large its values become.

use super::graph::{FloatLinear, FloatOperation, Graph, Window};
use super::merge;
use crate::inference_model::LinearGeometry;
use crate::reference::{float, kernels};
use crate::shape::Shape;
use crate::walk::StepId;

/// All values of the graph for one normalized image.
pub(super) fn run(graph: &Graph, image: Vec<f32>) -> Vec<Vec<f32>> {
    let mut values = vec![image];
    for id in graph.ids() {
        values.push(apply(graph, id, &values));
    }
    values
}

/// The largest magnitude of each value over some images.
pub(super) fn maxima(graph: &Graph, images: impl IntoIterator<Item = Vec<f32>>) -> Vec<f32> {
    let mut maxima = vec![0.0; graph.output().0 + 1];
    for image in images {
        for (maximum, value) in maxima.iter_mut().zip(run(graph, image)) {
            *maximum = f32::max(*maximum, float::largest(&value));
        }
    }
    maxima
}

fn apply(graph: &Graph, id: StepId, values: &[Vec<f32>]) -> Vec<f32> {
    let node = &graph[id];
    let input = &values[node.inputs[0].0];
    let size = graph.shape(node.inputs[0]);
    match &node.operation {
        FloatOperation::Linear(linear) => apply_linear(linear, (input, size), node.shape),
        FloatOperation::Add => float::add(node.inputs.iter().map(|value| values[value.0].as_slice())),
        FloatOperation::Concat => {
            node.inputs.iter().flat_map(|value| values[value.0].iter().copied()).collect()
        }
        FloatOperation::Slice { start, channels } => kernels::slice(input, size, *start, *channels),
        FloatOperation::DropFirstRowAndColumn => kernels::drop_first_row_and_column(input, size),
        FloatOperation::Sum(window) => sum(window, (input, size), node.shape),
        FloatOperation::Average(window) => {
            let counts = merge::average_counts(graph, id, window);
            float::divide(sum(window, (input, size), node.shape), &counts)
        }
        FloatOperation::Activate { mask, ceiling } => float::activate(input, node.shape, mask, *ceiling),
        FloatOperation::Gate(gate) => {
            float::activate_groups((input, size), &gate.groups, &gate.float_slopes(), &gate.mask)
        }
        FloatOperation::Maximum(pool) => kernels::max_pool(pool, (input, size), node.shape),
    }
}

fn sum(window: &Window, (input, size): (&[f32], Shape), output: Shape) -> Vec<f32> {
    match merge::pool_of(window) {
        Some(pool) => kernels::sum_pool(pool, (input, size), output),
        None => kernels::global_sum(input, size),
    }
}

fn apply_linear(linear: &FloatLinear, (input, size): (&[f32], Shape), output: Shape) -> Vec<f32> {
    let weight = |index: usize| linear.weights[index];
    let sums = match &linear.geometry {
        LinearGeometry::Conv(conv) => kernels::convolve(conv, (input, size), output, weight),
        LinearGeometry::FullyConnected { outputs, .. } => kernels::fully_connect(*outputs, input, weight),
    };
    float::add_biases(sums, &linear.biases)
}
