//! What the families of searched cells share: where the reduce cells stand, and the stages that follow from it.

use super::ZooError;
use super::genotype::{CellEdges, Op};
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
        let mut place = CellPlace { channels: self.channels, reduces: stem_halves, previous_reduced: false };
        for index in 0..self.depth {
            place.previous_reduced = place.reduces;
            place.reduces = self.reduce.contains(&index);
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
}

/// The nodes of a cell: edges from its two inputs are strided where it reduces.
pub(super) fn wire(
    edges: &CellEdges,
    reduces: bool,
    layers: impl Fn(Op, usize) -> Vec<Layer>,
) -> Vec<Vec<Edge>> {
    let edge = |&(op, from): &(Op, usize)| {
        let stride = if reduces && from < 2 { 2 } else { 1 };
        Edge { from, activated: false, layers: layers(op, stride) }
    };
    edges.iter().map(|node| node.iter().map(edge).collect()).collect()
}
