//! Linear layers side by side: `A x + B x = (A + B) x`.
//!
//! The branches of a block that trains with more of them than it needs become one convolution. A smaller filter lies in the
//! middle of a larger one where both keep their centers on the same pixels; a scaling of channels is a filter of one pixel.
//! The body and the shortcut of a block stay two layers even where both are linear, as they are in models already frozen.

use super::super::graph::Readers;
use super::{FloatLinear, FloatOperation, Graph, Node, linear};
use crate::inference_model::LinearGeometry;
use crate::walk::{StepId, ValueId};

/// One merge of two linear layers that read the same value and are added, each read by nothing else.
pub(super) fn merge_parallel(graph: &mut Graph) -> bool {
    let readers = graph.readers();
    for sum in graph.ids() {
        if !matches!(graph[sum].operation, FloatOperation::Add) {
            continue;
        }
        let Some((first, second, merged)) = addable(graph, &readers, &graph[sum].inputs) else { continue };
        graph[first].operation = FloatOperation::Linear(merged);
        graph[sum].inputs.retain(|input| *input != second.output());
        if graph[sum].inputs.len() == 1 {
            graph[sum] = graph[first].clone();
        }
        return true;
    }
    false
}

/// Two nodes among the terms of a sum, and what they are together.
fn addable(graph: &Graph, readers: &Readers, terms: &[ValueId]) -> Option<(StepId, StepId, FloatLinear)> {
    let nodes = terms.iter().filter_map(|value| readers.sole_maker(*value));
    let nodes: Vec<StepId> = nodes.filter(|node| is_linear_branch(&graph[*node])).collect();
    for (position, &first) in nodes.iter().enumerate() {
        for &second in &nodes[position + 1..] {
            let (one, two) = (&graph[first], &graph[second]);
            if one.inputs == two.inputs
                && let Some(merged) = added(linear(one)?, linear(two)?)
            {
                return Some((first, second, merged));
            }
        }
    }
    None
}

/// Whether this is a linear layer of a branch; names are paths, so they say so.
fn is_linear_branch(node: &Node) -> bool {
    linear(node).is_some() && node.name.split('.').any(|part| part.starts_with("branch"))
}

/// The sum of two layers as one.
fn added(first: &FloatLinear, second: &FloatLinear) -> Option<FloatLinear> {
    let (one, two) = match (&first.geometry, &second.geometry) {
        (LinearGeometry::Conv(one), LinearGeometry::Conv(two)) => (one, two),
        (one, two) if one == two => return Some(add_weights(first.clone(), second, |index| index)),
        _ => return None,
    };
    let (wide, narrow) = if one.filter >= two.filter { (first, second) } else { (second, first) };
    let (outer, inner) = if one.filter >= two.filter { (one, two) } else { (two, one) };
    let margin = (outer.filter - inner.filter) / 2;
    let is_aligned = outer.stride == inner.stride
        && (outer.dilation == inner.dilation || inner.filter == 1)
        && (outer.filter - inner.filter).is_multiple_of(2)
        && outer.padding == inner.padding + margin * outer.dilation;
    if !is_aligned {
        return None;
    }
    let tap = |tap: usize| {
        let (row, column) = (tap / inner.filter + margin, tap % inner.filter + margin);
        row * outer.filter + column
    };
    let (inner_area, outer_area) = (inner.filter * inner.filter, outer.filter * outer.filter);
    if outer.groups == inner.groups {
        let place = |index: usize| index / inner_area * outer_area + tap(index % inner_area);
        return Some(add_weights(wide.clone(), narrow, place));
    }
    // A scaling beside a dense convolution of as many channels: each goes to its own channel.
    let row = outer.inputs * outer_area;
    let is_scaling = narrow.is_affine() && outer.groups == 1;
    is_scaling
        .then(|| add_weights(wide.clone(), narrow, |channel| channel * row + channel * outer_area + tap(0)))
}

/// Adds the weights of one layer to those of another, each at the place that is its own there.
fn add_weights(mut wide: FloatLinear, narrow: &FloatLinear, place: impl Fn(usize) -> usize) -> FloatLinear {
    for (index, weight) in narrow.weights.iter().enumerate() {
        wide.weights[place(index)] += weight;
    }
    for (bias, other) in wide.biases.iter_mut().zip(&narrow.biases) {
        *bias += other;
    }
    wide
}
