//! The published cells.

use super::CellOperation::{Average, Conv3, Conv5, Dilated3, Dilated5, Max, Skip};
use super::{CellEdge, CellOperation, CellWiring, Genotype};

type Edges = [[(CellOperation, usize); 2]; 4];

impl Genotype {
    /// The cells that Sphynx's authors found.
    pub fn sphynx() -> Self {
        Self::published(
            [
                [(Skip, 0), (Skip, 1)],
                [(Skip, 2), (Dilated5, 0)],
                [(Conv5, 2), (Dilated3, 0)],
                [(Conv3, 1), (Skip, 2)],
            ],
            [
                [(Conv3, 0), (Conv3, 1)],
                [(Skip, 0), (Conv3, 2)],
                [(Dilated3, 0), (Skip, 2)],
                [(Conv5, 0), (Skip, 4)],
            ],
        )
    }

    /// The second-order cells of DARTS.
    pub fn darts() -> Self {
        Self::published(
            [
                [(Conv3, 0), (Conv3, 1)],
                [(Conv3, 0), (Conv3, 1)],
                [(Conv3, 1), (Skip, 0)],
                [(Skip, 0), (Dilated3, 2)],
            ],
            [[(Max, 0), (Max, 1)], [(Skip, 2), (Max, 1)], [(Max, 0), (Skip, 2)], [(Skip, 2), (Max, 1)]],
        )
    }

    /// The cells of PC-DARTS.
    pub fn pc_darts() -> Self {
        Self::published(
            [
                [(Conv3, 1), (Skip, 0)],
                [(Conv3, 0), (Dilated3, 1)],
                [(Conv5, 0), (Conv3, 1)],
                [(Average, 0), (Dilated3, 1)],
            ],
            [
                [(Conv5, 1), (Max, 0)],
                [(Conv5, 1), (Conv5, 2)],
                [(Conv3, 0), (Conv3, 3)],
                [(Conv3, 1), (Conv3, 2)],
            ],
        )
    }

    fn published(normal: Edges, reduce: Edges) -> Self {
        let wiring = |edges: Edges| -> CellWiring {
            edges.map(|node| node.map(|(operation, from)| CellEdge { operation, from })).to_vec()
        };
        Self::new(wiring(normal), wiring(reduce)).expect("the published cells have no cycles")
    }
}
