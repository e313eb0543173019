//! What the families of searched cells share: where the reduce cells stand, and the stages that follow from it.

use super::ZooError;
use super::genotype::{CellEdge, CellKind, CellOperation, CellWiring, Genotype};
use super::name::Name;
use crate::spec::{Block, Cell, Edge, Layer, Stage};

/// A row of cells; channels grow at each reduce cell.
pub(super) struct CellRow {
    channels: usize,
    depth: usize,
    growth: usize,
    reduce: Vec<usize>,
}

impl CellRow {
    pub(super) fn new(
        name: &Name,
        channels: usize,
        depth: usize,
        growth: usize,
        reduce: Vec<usize>,
    ) -> Result<Self, ZooError> {
        if let Some(late) = reduce.iter().find(|cell| **cell >= depth) {
            return Err(name.bad("reduce", late, format_args!("cells from 0 to {}", depth - 1)));
        }
        Ok(Self { channels, depth, growth, reduce })
    }

    /// A stage begins with each reduce cell.
    pub(super) fn stages(&self, stem_halves: bool, cell: impl Fn(CellPlace) -> Cell) -> Vec<Stage> {
        let mut stages: Vec<Stage> = Vec::new();
        let mut place = CellPlace {
            channels: self.channels,
            reduces: stem_halves,
            previous_reduced: false,
            inputs: [None; 2],
        };
        for index in 0..self.depth {
            place.previous_reduced = place.reduces;
            place.reduces = self.reduce.contains(&index);
            if index > 0 {
                place.inputs = [place.inputs[1], Some(place.channels)];
            }
            if place.reduces {
                place.channels = place.channels.saturating_mul(self.growth);
            }
            let block = Block::Cell(cell(place));
            match stages.last_mut() {
                Some(stage) if !place.reduces => stage.blocks.push(block),
                _ => stages.push(Stage { blocks: vec![block] }),
            }
        }
        stages
    }
}

/// What a cell must know of its place in the row.
#[derive(Clone, Copy)]
pub(super) struct CellPlace {
    /// Channels of each node.
    pub(super) channels: usize,
    /// Whether it halves the resolution.
    pub(super) reduces: bool,
    /// Whether the cell before did, so that the older input is twice as large as the newer one.
    pub(super) previous_reduced: bool,
    /// Node channels of the two cells before, the older first; none where it is the stem.
    pub(super) inputs: [Option<usize>; 2],
}

impl CellPlace {
    /// The edges of the cell that stands here.
    pub(super) fn wiring(self, genotype: &Genotype) -> &CellWiring {
        genotype.wiring(if self.reduces { CellKind::Reduce } else { CellKind::Normal })
    }
}

/// The nodes whose channels are joined: all but the two inputs.
pub(super) fn joined(genotype: &Genotype) -> Vec<usize> {
    (2..2 + genotype.nodes()).collect()
}

/// The nodes of a cell: edges from its two inputs are strided where it reduces.
pub(super) fn wire(
    wiring: &CellWiring,
    reduces: bool,
    layers: impl Fn(CellOperation, usize) -> Vec<Layer>,
) -> Vec<Vec<Edge>> {
    let edge = |edge: &CellEdge| {
        let stride = if reduces && edge.from < 2 { 2 } else { 1 };
        Edge { from: edge.from, activated: false, layers: layers(edge.operation, stride) }
    };
    wiring.iter().map(|node| node.iter().map(edge).collect()).collect()
}
