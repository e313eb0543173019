//! The wiring of cells as data: for each node two edges, each an operation and a source.
//!
//! A search writes a genotype as a TOML file, the zoo builds networks of it (`sphynx:cells=FILE.toml`). Nodes 0 and 1
//! are the outputs of the two cells before; the others are numbered from 2, and all of them are concatenated.
//!
//! Published are: of Sphynx the genotype of its authors, identical for every budget (appendix B, Figure 7); of DARTS
//! the second-order CIFAR cells of Liu et al. 2019; of PC-DARTS the CIFAR cells of Xu et al. 2020.

mod error;
mod published;
mod text;

use serde::Serialize;

pub use error::{GenotypeError, GenotypeFault};

/// An operation on an edge. What it becomes depends on the family that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellOperation {
    /// 3x3 average pooling.
    Average,
    /// The identity, or a factorized reduce where the resolution is halved.
    Skip,
    /// A pair of 3x3 convolutions: separable in DARTS, vanilla in Sphynx.
    Conv3,
    /// A pair of 5x5 convolutions.
    Conv5,
    /// One 3x3 convolution with dilation 2.
    Dilated3,
    /// One 5x5 convolution with dilation 2.
    Dilated5,
    /// 3x3 maximum pooling, in the published cells of DARTS alone; Sphynx averages instead.
    Max,
}

impl CellOperation {
    /// The operations that Sphynx searches among (section 4.1), in the order of a search's scores.
    pub const SEARCHED: [Self; 6] =
        [Self::Average, Self::Skip, Self::Conv3, Self::Conv5, Self::Dilated3, Self::Dilated5];

    /// Its name in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::Skip => "skip",
            Self::Conv3 => "conv3",
            Self::Conv5 => "conv5",
            Self::Dilated3 => "dilated3",
            Self::Dilated5 => "dilated5",
            Self::Max => "max",
        }
    }
}

impl Serialize for CellOperation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// One edge of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CellEdge {
    /// What is done.
    #[serde(rename = "op")]
    pub operation: CellOperation,
    /// To which node.
    pub from: usize,
}

/// The two edges of each node, from node 2 on.
pub type CellWiring = Vec<[CellEdge; 2]>;

/// Which of the two cells of a genotype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellKind {
    /// Keeps the resolution.
    Normal,
    /// Halves it.
    Reduce,
}

impl CellKind {
    /// Both, in the order of files.
    pub const BOTH: [Self; 2] = [Self::Normal, Self::Reduce];

    /// Its name in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Reduce => "reduce",
        }
    }
}

/// The wiring of a normal and a reduce cell, without cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Genotype {
    normal: CellWiring,
    reduce: CellWiring,
}

impl Genotype {
    /// The most nodes beside the two inputs.
    pub const MAX_NODES: usize = 8;

    /// Checks a wiring.
    ///
    /// # Errors
    /// When a node reads itself or a later one, a cell has no or too many nodes, or the two differ in their number.
    pub fn new(normal: CellWiring, reduce: CellWiring) -> Result<Self, GenotypeError> {
        let genotype = Self { normal, reduce };
        for kind in CellKind::BOTH {
            genotype.check(kind).map_err(|fault| GenotypeError::Wiring { kind, fault })?;
        }
        let (normal, reduce) = (genotype.normal.len(), genotype.reduce.len());
        if normal != reduce {
            return Err(GenotypeError::Sizes { normal, reduce });
        }
        Ok(genotype)
    }

    fn check(&self, kind: CellKind) -> Result<(), GenotypeFault> {
        let wiring = self.wiring(kind);
        if !(1..=Self::MAX_NODES).contains(&wiring.len()) {
            return Err(GenotypeFault::Nodes { came: wiring.len() });
        }
        for (node, edges) in (2..).zip(wiring) {
            if let Some(edge) = edges.iter().find(|edge| edge.from >= node) {
                return Err(GenotypeFault::Cycle { node, from: edge.from });
            }
        }
        Ok(())
    }

    /// The edges of one of its cells.
    pub fn wiring(&self, kind: CellKind) -> &CellWiring {
        match kind {
            CellKind::Normal => &self.normal,
            CellKind::Reduce => &self.reduce,
        }
    }

    /// Nodes beside the two inputs.
    pub fn nodes(&self) -> usize {
        self.normal.len()
    }
}

/// Where the two reduce cells stand unless a name says otherwise: at one and two thirds of the depth.
pub(super) fn thirds(depth: usize) -> Vec<usize> {
    vec![depth / 3, 2 * depth / 3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(operation: CellOperation, from: usize) -> CellEdge {
        CellEdge { operation, from }
    }

    #[test]
    fn a_cycle_is_refused() {
        let good = vec![[edge(CellOperation::Skip, 0), edge(CellOperation::Conv3, 1)]];
        for from in [2, 3] {
            let cycle = vec![[edge(CellOperation::Skip, 0), edge(CellOperation::Conv3, from)]];
            let error = Genotype::new(good.clone(), cycle).unwrap_err().to_string();
            let words = format!("reduce cell: node 2 reads node {from}");
            assert!(error.contains(&words) && error.contains("cycle"), "{error}");
        }
        assert_eq!(Genotype::new(good.clone(), good).unwrap().nodes(), 1);
    }

    #[test]
    fn both_cells_have_as_many_nodes() {
        let node = [edge(CellOperation::Skip, 0), edge(CellOperation::Conv3, 1)];
        let error = Genotype::new(vec![node; 2], vec![node; 3]).unwrap_err().to_string();
        assert!(error.contains("2 nodes") && error.contains("3"), "{error}");
        assert!(Genotype::new(Vec::new(), Vec::new()).unwrap_err().to_string().contains("0 nodes"));
        assert!(Genotype::new(vec![node; 9], vec![node; 9]).unwrap_err().to_string().contains("9 nodes"));
    }
}
