//! The stages of one block of the extension apart, so that benchmarks can set each beside its roofline.

use crate::cpu::CpuFeatures;
use crate::ot::depth::Depth;
use crate::ot::kernel::{BLOCK, Engine, Workspace};
use crate::ot::values::Labels;
use crate::ot::{ideal, tree};
use crate::random::{Generator, SessionId};

/// Transfers in one block.
pub const TRANSFERS: usize = BLOCK;

/// One block of random material.
pub struct Stages {
    engine: Engine,
    workspace: Box<Workspace>,
    labels: Labels,
}

impl Stages {
    /// Streams keyed at random, on the kernels of the given processor.
    pub fn new(cpu: CpuFeatures, depth: Depth, generator: &mut Generator) -> Self {
        let (keys, _) = ideal::base_transfers(0, generator);
        let (_, leaves) = tree::grow(SessionId([0; 32]), depth, &keys, generator);
        Self { engine: Engine::new(cpu, &leaves), workspace: Workspace::new(), labels: Labels::zeroed(BLOCK) }
    }

    /// Streams to columns.
    pub fn make_columns(&mut self) {
        self.engine.receiver_columns(0, &mut self.workspace);
    }

    /// Columns to labels.
    pub fn transpose(&mut self) -> &[u128] {
        self.engine.transpose_into(&self.workspace, &mut self.labels);
        &self.labels
    }
}
