//! Weights of operations and edges, from scores, laid out as the cells read them.
//!
//! Scores lie by source: all edges that leave a node are neighbors, so what one node needs is one piece of memory.

use network::zoo::genotype::CellKind;

use crate::assemble::Parameters;
use crate::tensor::{Device, Kind, Tensor};

/// Columns of the scores: no operation, then those of `CellOperation::SEARCHED`.
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

/// The weights of all operations of both cells.
pub(super) struct OperationWeights {
    kinds: [KindWeights; 2],
}

struct KindWeights {
    /// (edges, 7).
    shares: Tensor,
    /// For each source, (targets, 2): of average pooling and the identity.
    linear: Vec<Tensor>,
    /// For each source, (targets): of whole edges.
    edges: Option<Vec<Tensor>>,
    /// How many edges leave each source.
    counts: Vec<i64>,
}

/// What one cell reads: for each source the scales of its batch norms.
pub(super) struct CellWeights<'a> {
    /// By source: of skip and the four convolutions, one number a channel.
    pub(super) scales: Vec<[Tensor; SCALED as usize]>,
    /// By source: of average pooling and the identity.
    pub(super) linear: &'a [Tensor],
    /// By source: of whole edges, where they have weights.
    pub(super) edges: Option<&'a [Tensor]>,
}

impl OperationWeights {
    /// `entering` says which edge enters which node, where edges have weights of their own ([`entering`]).
    pub(super) fn new(scores: &Parameters, nodes: usize, entering: Option<&Tensor>) -> Self {
        Self { kinds: CellKind::BOTH.map(|kind| KindWeights::new(scores, kind, nodes, entering)) }
    }

    /// For a cell whose operations have so many channels.
    pub(super) fn of(&self, kind: CellKind, channels: i64) -> CellWeights<'_> {
        let weights = &self.kinds[usize::from(kind == CellKind::Reduce)];
        let table = weights.shares.narrow(1, SKIP, SCALED).transpose(0, 1).unsqueeze(2);
        let table = table.expand([-1, -1, channels], false).reshape([-1]);
        // One piece for each operation and source; divided at once, so that the way back is one kernel too.
        let sizes: Vec<i64> =
            (0..SCALED).flat_map(|_| weights.counts.iter().map(|count| count * channels)).collect();
        let pieces = table.split_with_sizes(sizes, 0);
        let sources = weights.counts.len();
        let scales = |source: usize| {
            std::array::from_fn(|operation| pieces[operation * sources + source].shallow_clone())
        };
        CellWeights {
            scales: (0..sources).map(scales).collect(),
            linear: &weights.linear,
            edges: weights.edges.as_deref(),
        }
    }
}

impl KindWeights {
    fn new(scores: &Parameters, kind: CellKind, nodes: usize, entering: Option<&Tensor>) -> Self {
        let leaf =
            |part: &str| scores.find(&format!("{}.{part}", kind.word())).map(|index| scores.leaf(index));
        let operations = leaf("operations").expect("every network under search has scores");
        let shares = operations.softmax(-1, operations.kind());
        let counts: Vec<i64> = (0..=nodes).map(|source| targets(source, nodes).len() as i64).collect();
        let linear = shares.narrow(1, AVERAGE, 2).contiguous().split_with_sizes(counts.clone(), 0);
        let edges = leaf("edges").zip(entering);
        let edges =
            edges.map(|(edges, entering)| edge_shares(edges, entering).split_with_sizes(counts.clone(), 0));
        Self { shares, linear, edges, counts }
    }
}

/// Which edge enters which node: nodes in rows, edges in columns. Made once, so that a recorded step need not.
pub(super) fn entering(nodes: usize, kind: Kind, device: Device) -> Tensor {
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
    use crate::tensor::to_floats;

    #[test]
    fn edges_lie_by_source() {
        assert_eq!(edges_by_source(2), [(2, 0), (3, 0), (2, 1), (3, 1), (3, 2)]);
        assert_eq!(edges_by_source(4).len(), 14);
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
