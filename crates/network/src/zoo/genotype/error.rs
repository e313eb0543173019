//! Why a genotype cannot be used.

use std::path::PathBuf;

use super::{CellKind, CellOperation, Genotype};

/// A genotype that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenotypeError {
    /// The file.
    #[error("cannot read the cells in {}: {reason}; expected a TOML file as `sordino optimize sphynx` writes it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// What is in a file.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Box<Self>,
    },
    /// The text.
    #[error(
        "these are no cells: {reason}; expected `normal` and `reduce`, each a list of nodes with two edges such as {{ op = \"conv3\", from = 0 }}"
    )]
    Syntax {
        /// What is wrong.
        reason: String,
    },
    /// One of the cells.
    #[error("the {} cell: {fault}", kind.word())]
    Wiring {
        /// Which.
        kind: CellKind,
        /// What is wrong.
        fault: GenotypeFault,
    },
    /// Cells of different size.
    #[error(
        "the normal cell has {normal} nodes and the reduce cell {reduce}; expected the same number in both"
    )]
    Sizes {
        /// Of the normal cell.
        normal: usize,
        /// Of the reduce cell.
        reduce: usize,
    },
}

/// What is wrong with a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenotypeFault {
    /// A node that reads itself or a later one.
    #[error(
        "node {node} reads node {from}, which would be a cycle; expected a node before it, 0 to {}",
        node - 1
    )]
    Cycle {
        /// The node.
        node: usize,
        /// What it reads.
        from: usize,
    },
    /// A node that reads what is none.
    #[error("node {node} reads node {from}; expected 0 to {}", node - 1)]
    Below {
        /// The node.
        node: usize,
        /// What it reads.
        from: i64,
    },
    /// An operation nobody knows.
    #[error("node {node} has the operation {word:?}; expected {}{}", known(), nearest(word))]
    Operation {
        /// The node.
        node: usize,
        /// What came.
        word: String,
    },
    /// A node without two edges.
    #[error("node {node} has {came} edges; expected 2")]
    Edges {
        /// The node.
        node: usize,
        /// What came.
        came: usize,
    },
    /// Too few or too many nodes.
    #[error("there are {came} nodes; expected 1 to {} beside the two inputs", Genotype::MAX_NODES)]
    Nodes {
        /// What came.
        came: usize,
    },
}

fn known() -> String {
    let words = CellOperation::SEARCHED.map(CellOperation::word);
    let (last, others) = words.split_last().expect("there are six");
    format!("{} or {last}", others.join(", "))
}

fn nearest(word: &str) -> String {
    let similarity = |known: &&'static str| strsim::jaro_winkler(known, word);
    let words = CellOperation::SEARCHED.iter().map(|operation| operation.word());
    let best = words.max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    best.filter(|best| similarity(best) > 0.75)
        .map_or_else(String::new, |best| format!("; did you mean {best}?"))
}
