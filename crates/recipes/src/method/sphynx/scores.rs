//! Operation scores: how much each operation of each edge is worth, and the cells that follow from it.
//!
//! A cell under search has an edge from every node to every later one. Each edge has seven scores: that of no operation,
//! then those of [`CellOperation::SEARCHED`]. Their softmax weighs the operations (Sphynx equation A.3).

use std::ops::Range;

use network::zoo::genotype::{CellEdge, CellKind, CellOperation, CellWiring, Genotype, GenotypeError};
use serde::{Deserialize, Serialize};

use super::Rank;

/// Edges that a node keeps.
pub const EDGES_PER_NODE: usize = 2;

/// Scores of an edge: no operation, and six of them.
const SCORES: usize = 1 + CellOperation::SEARCHED.len();

/// The edges of a cell with so many nodes beside its inputs: target and source, in the order of their scores.
pub fn edges(nodes: usize) -> Vec<(usize, usize)> {
    (2..2 + nodes).flat_map(|target| (0..target).map(move |source| (target, source))).collect()
}

/// How many there are.
pub fn edge_count(nodes: usize) -> usize {
    (2..2 + nodes).sum()
}

/// The scores of both cells, as plain numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellScores {
    /// For each edge of the normal cell seven scores.
    pub normal: Vec<[f64; SCORES]>,
    /// The same of the reduce cell.
    pub reduce: Vec<[f64; SCORES]>,
    /// For each edge how it weighs among those of its node, before a softmax (PC-DARTS); empty elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub normal_edges: Vec<f64>,
    /// The same of the reduce cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reduce_edges: Vec<f64>,
}

impl CellScores {
    fn of(&self, kind: CellKind) -> (&[[f64; SCORES]], &[f64]) {
        match kind {
            CellKind::Normal => (&self.normal, &self.normal_edges),
            CellKind::Reduce => (&self.reduce, &self.reduce_edges),
        }
    }

    /// The weights of one edge's operations: the softmax of its scores, that of no operation first.
    pub fn weights(&self, kind: CellKind, edge: usize) -> [f64; SCORES] {
        let mut weights = self.of(kind).0[edge];
        softmax(&mut weights);
        weights
    }

    /// The weights of the edges that lead to a node: the softmax of their own scores, where edges have any (PC-DARTS).
    pub fn edge_weights(&self, kind: CellKind, edges: Range<usize>) -> Option<Vec<f64>> {
        let mut weights = self.of(kind).1.get(edges)?.to_vec();
        softmax(&mut weights);
        Some(weights)
    }

    /// The cells that the scores stand for: of each edge its best operation, of each node its two strongest edges.
    ///
    /// # Errors
    /// When there are no scores for whole nodes.
    pub fn genotype(&self, rank: Rank) -> Result<Genotype, GenotypeError> {
        Genotype::new(self.wiring(CellKind::Normal, rank), self.wiring(CellKind::Reduce, rank))
    }

    fn wiring(&self, kind: CellKind, rank: Rank) -> CellWiring {
        let scores = self.of(kind).0;
        let mut wiring = CellWiring::new();
        let mut start = 0;
        for target in 2.. {
            let range = start..start + target;
            if scores.len() < range.end {
                break;
            }
            let edge_weights = self.edge_weights(kind, range.clone());
            let mut ranked: Vec<(f64, CellEdge)> = range
                .enumerate()
                .map(|(from, edge)| {
                    let (operation, strength) = self.best(kind, edge, rank);
                    let weight = edge_weights.as_ref().map_or(1.0, |weights| weights[from]);
                    (strength * weight, CellEdge { operation, from })
                })
                .collect();
            ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.from.cmp(&other.1.from)));
            let mut kept = [ranked[0].1, ranked[1].1];
            kept.sort_by_key(|edge| edge.from);
            wiring.push(kept);
            start += target;
        }
        wiring
    }

    /// The best operation of an edge, and how strong it is.
    fn best(&self, kind: CellKind, edge: usize, rank: Rank) -> (CellOperation, f64) {
        let values = match rank {
            Rank::Softmax => self.weights(kind, edge),
            Rank::Raw => self.of(kind).0[edge],
        };
        let ranked = CellOperation::SEARCHED.into_iter().zip(values.into_iter().skip(1));
        ranked.fold(
            (CellOperation::Average, f64::NEG_INFINITY),
            |best, next| if next.1 > best.1 { next } else { best },
        )
    }
}

/// Replaces numbers by their softmax.
pub(super) fn softmax(values: &mut [f64]) {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|value| *value = (*value - largest).exp());
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(nodes: usize) -> CellScores {
        let scores = vec![[0.0; SCORES]; edge_count(nodes)];
        CellScores {
            normal: scores.clone(),
            reduce: scores,
            normal_edges: Vec::new(),
            reduce_edges: Vec::new(),
        }
    }

    #[test]
    fn edges_come_in_the_order_of_targets_and_sources() {
        assert_eq!(edges(2), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]);
        assert_eq!((edges(4).len(), edge_count(4), edge_count(2)), (14, 14, 5));
    }

    #[test]
    fn the_best_operations_of_the_strongest_edges_stay_and_none_never_does() {
        let mut scores = even(2);
        // Node 3 has the edges 2, 3 and 4. No operation is best on edge 3, so its others are weak.
        scores.normal[2][1 + 3] = 1.0;
        scores.normal[3][0] = 5.0;
        scores.normal[3][1 + 1] = 0.9;
        scores.normal[4][1 + 5] = 0.5;
        let word = |rank| scores.genotype(rank).unwrap().to_word();
        assert!(word(Rank::Softmax).contains(".conv5@0+dilated5@2/"), "{}", word(Rank::Softmax));
        // By raw scores the middle edge wins over the last.
        assert!(word(Rank::Raw).contains(".conv5@0+skip@1/"), "{}", word(Rank::Raw));
    }

    #[test]
    fn weights_of_edges_count_where_there_are_some() {
        let mut scores = even(2);
        for edge in 2..5 {
            scores.reduce[edge][1 + 2] = 1.0;
        }
        scores.reduce_edges = vec![0.0, 0.0, 0.0, 2.0, 1.0];
        let word = scores.genotype(Rank::Softmax).unwrap().to_word();
        assert!(word.ends_with(".conv3@1+conv3@2"), "{word}");
    }

    #[test]
    fn weights_are_shares() {
        let mut scores = even(1);
        scores.normal[0] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let weights = scores.weights(CellKind::Normal, 0);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((weights[6] / weights[5] - std::f64::consts::E).abs() < 1e-9);
        assert!(CellScores { normal: Vec::new(), ..even(1) }.genotype(Rank::Raw).is_err());
    }
}
