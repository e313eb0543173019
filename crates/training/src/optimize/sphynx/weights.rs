//! Weights of operations and edges, from scores, laid out as the cells read them.
//!
//! Scores lie by source: all edges that leave a node are neighbors, so what one node needs is one piece of memory.

use network::zoo::genotype::CellKind;

use crate::assemble::Parameters;
use crate::tensor::{Device, Kind, Tensor};

/// Columns of the scores: no operation, then those of `CellOperation::SEARCHED`.
const SCORES: i64 = 7;
const AVERAGE: i64 = 1;
const SKIP: i64 = 2;
/// Skip and the four convolutions.
const SCALED: i64 = 5;

/// The edges of a cell (target and source), in the order of the scores.
pub(super) fn edges_by_source(nodes: usize) -> Vec<(usize, usize)> {
    (0..=nodes).flat_map(|source| targets(source, nodes).map(move |target| (target, source))).collect()
}

/// The nodes that read a node.
pub(super) fn targets(source: usize, nodes: usize) -> std::ops::Range<usize> {
    (source + 1).max(2)..nodes + 2
}

/// Where the weights of a forward pass stand among the scores. Made once, so that a recorded step need not.
pub(super) struct Layout {
    /// For normal and reduce cells: of each source, operation by operation, the scores of its edges.
    scaled: [Tensor; 2],
    /// For both kinds: how many of them belong to each source.
    counts: [Vec<i64>; 2],
    /// PC-DARTS: which edge enters which node.
    entering: Option<Tensor>,
    nodes: usize,
    /// Of the maps that average pooling, the identity and whole edges multiply.
    compute: Kind,
}

impl Layout {
    pub(super) fn new(nodes: usize, is_partial: bool, [master, compute]: [Kind; 2], device: Device) -> Self {
        let indices = |kind: CellKind| -> Vec<Vec<i64>> {
            let edges = edges_by_source(nodes);
            let of = |source: usize| {
                let first = if strides(kind, source) { SKIP } else { SKIP + 1 };
                let own = |edge: &usize| edges[*edge].1 == source;
                let edges: Vec<usize> = (0..edges.len()).filter(own).collect();
                (first..SKIP + SCALED)
                    .flat_map(|column| edges.iter().map(move |edge| SCORES * *edge as i64 + column))
                    .collect()
            };
            (0..=nodes).map(of).collect()
        };
        let both = CellKind::BOTH.map(indices);
        Self {
            scaled: both.each_ref().map(|indices| {
                let flat = indices.concat();
                device.integers(&flat, &[flat.len() as i64])
            }),
            counts: both.map(|indices| indices.iter().map(|indices| indices.len() as i64).collect()),
            entering: is_partial.then(|| entering(nodes, master, device)),
            nodes,
            compute,
        }
    }
}

/// Whether edges that leave a node have a stride.
pub(super) fn strides(kind: CellKind, source: usize) -> bool {
    kind == CellKind::Reduce && source < 2
}

/// The weights of all operations of both cells.
pub(super) struct OperationWeights<'a> {
    kinds: [KindWeights; 2],
    layout: &'a Layout,
}

struct KindWeights {
    /// One number for each edge and operation that ends in a batch norm of its own, in the order of the layout.
    scaled: Tensor,
    /// For each source, (targets, 2): of average pooling and the identity.
    linear: Vec<Tensor>,
    /// For each source, (targets): of whole edges. The others already contain them.
    edges: Option<Vec<Tensor>>,
}

/// What one cell reads.
pub(super) struct CellWeights<'a> {
    /// By source: the scales of its batch norm, operation by operation, edge by edge, one number a channel.
    pub(super) scales: Vec<Tensor>,
    /// By source: of average pooling and the identity.
    pub(super) linear: &'a [Tensor],
    /// By source: of whole edges, where they have weights.
    pub(super) edges: Option<&'a [Tensor]>,
}

impl<'a> OperationWeights<'a> {
    pub(super) fn new(scores: &Parameters, layout: &'a Layout) -> Self {
        Self { kinds: CellKind::BOTH.map(|kind| KindWeights::new(scores, kind, layout)), layout }
    }

    /// For a cell whose operations have so many channels.
    pub(super) fn of(&self, kind: CellKind, channels: i64) -> CellWeights<'_> {
        let index = usize::from(kind == CellKind::Reduce);
        let weights = &self.kinds[index];
        let table = weights.scaled.unsqueeze(1).expand([-1, channels], false).reshape([-1]);
        // One piece for each source; divided at once, so that the way back is one kernel too.
        let sizes: Vec<i64> = self.layout.counts[index].iter().map(|count| count * channels).collect();
        CellWeights {
            scales: table.split_with_sizes(sizes, 0),
            linear: &weights.linear,
            edges: weights.edges.as_deref(),
        }
    }
}

impl KindWeights {
    fn new(scores: &Parameters, kind: CellKind, layout: &Layout) -> Self {
        let leaf =
            |part: &str| scores.find(&format!("{}.{part}", kind.word())).map(|index| scores.leaf(index));
        let operations = leaf("operations").expect("every network under search has scores");
        let shares = operations.softmax(-1, operations.kind());
        let edges = leaf("edges").zip(layout.entering.as_ref());
        let edges = edges.map(|(edges, entering)| edge_shares(edges, entering));
        // An edge's weight is in all that it carries.
        let shares =
            edges.as_ref().map_or_else(|| shares.shallow_clone(), |edges| &shares * edges.unsqueeze(1));
        let nodes = layout.nodes;
        let counts: Vec<i64> = (0..=nodes).map(|source| targets(source, nodes).len() as i64).collect();
        let divide = |table: &Tensor| table.to_kind(layout.compute).split_with_sizes(counts.as_slice(), 0);
        let index = usize::from(kind == CellKind::Reduce);
        Self {
            scaled: shares.view([-1]).index_select(0, &layout.scaled[index]),
            linear: divide(&shares.narrow(1, AVERAGE, 2).contiguous()),
            edges: edges.as_ref().map(divide),
        }
    }
}

/// Which edge enters which node: nodes in rows, edges in columns.
fn entering(nodes: usize, kind: Kind, device: Device) -> Tensor {
    let edges = edges_by_source(nodes);
    let enters = |node: usize| edges.iter().map(move |(target, _)| f32::from(u8::from(*target == node + 2)));
    let table: Vec<f32> = (0..nodes).flat_map(enters).collect();
    device.floats(&table, &[nodes as i64, edges.len() as i64]).to_kind(kind)
}

/// The softmax of the edges that enter the same node (PC-DARTS equation 5).
fn edge_shares(scores: &Tensor, entering: &Tensor) -> Tensor {
    let heights = scores.exp();
    let sums = entering.matmul(&heights);
    heights / entering.transpose(0, 1).matmul(&sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{to_floats, to_integers};

    #[test]
    fn edges_lie_by_source() {
        assert_eq!(edges_by_source(2), [(2, 0), (3, 0), (2, 1), (3, 1), (3, 2)]);
        assert_eq!(edges_by_source(4).len(), 14);
    }

    #[test]
    fn scores_of_a_source_lie_operation_by_operation() {
        let layout = Layout::new(1, false, [Kind::Float; 2], Device::Cpu);
        // One node: an edge from each input, convolutions in the columns 3 to 6, and a skip with a stride in column 2.
        assert_eq!(to_integers(&layout.scaled[0]), [3, 4, 5, 6, 10, 11, 12, 13]);
        assert_eq!(to_integers(&layout.scaled[1]), [2, 3, 4, 5, 6, 9, 10, 11, 12, 13]);
        assert_eq!(layout.counts, [vec![4, 4], vec![5, 5]]);
        let layout = Layout::new(2, false, [Kind::Float; 2], Device::Cpu);
        assert_eq!(to_integers(&layout.scaled[0])[..8], [3, 10, 4, 11, 5, 12, 6, 13]);
    }

    #[test]
    fn the_edges_of_a_node_share_one() {
        let scores = Tensor::from_slice(&[0.5_f64, -0.2, 1.0, 0.3, 0.7]);
        let shares = to_floats(&edge_shares(&scores, &entering(2, Kind::Double, Device::Cpu)));
        for target in [2, 3] {
            let edges = edges_by_source(2);
            let sum: f32 =
                edges.iter().zip(&shares).filter(|(edge, _)| edge.0 == target).map(|(_, share)| share).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        assert!((shares[2] / shares[0] - 0.5_f32.exp()).abs() < 1e-5);
    }
}
