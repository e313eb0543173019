//! The wiring of the published cells: for each of four nodes two edges, each an operation and a source.
//!
//! Sphynx: the genotype its authors published, identical for every budget (paper appendix B, Figure 7).
//! DARTS: the second-order CIFAR cells of Liu et al. 2019. PC-DARTS: the CIFAR cells of Xu et al. 2020.

/// An operation on an edge. What it becomes depends on the family that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// The identity, or a factorized reduce where the resolution is halved.
    Skip,
    /// A pair of convolutions with this filter: separable in DARTS, vanilla in Sphynx.
    Conv(usize),
    /// One convolution with this filter and dilation 2.
    Dilated(usize),
    /// 3x3 average pooling.
    Average,
    /// 3x3 maximum pooling; Sphynx averages instead.
    Max,
}

pub(super) type CellEdges = [[(Op, usize); 2]; 4];

pub(super) struct Genotype {
    pub(super) normal: CellEdges,
    pub(super) reduce: CellEdges,
}

use Op::{Average, Conv, Dilated, Max, Skip};

pub(super) const SPHYNX: Genotype = Genotype {
    normal: [
        [(Skip, 0), (Skip, 1)],
        [(Skip, 2), (Dilated(5), 0)],
        [(Conv(5), 2), (Dilated(3), 0)],
        [(Conv(3), 1), (Skip, 2)],
    ],
    reduce: [
        [(Conv(3), 0), (Conv(3), 1)],
        [(Skip, 0), (Conv(3), 2)],
        [(Dilated(3), 0), (Skip, 2)],
        [(Conv(5), 0), (Skip, 4)],
    ],
};

pub(super) const DARTS: Genotype = Genotype {
    normal: [
        [(Conv(3), 0), (Conv(3), 1)],
        [(Conv(3), 0), (Conv(3), 1)],
        [(Conv(3), 1), (Skip, 0)],
        [(Skip, 0), (Dilated(3), 2)],
    ],
    reduce: [[(Max, 0), (Max, 1)], [(Skip, 2), (Max, 1)], [(Max, 0), (Skip, 2)], [(Skip, 2), (Max, 1)]],
};

pub(super) const PC_DARTS: Genotype = Genotype {
    normal: [
        [(Conv(3), 1), (Skip, 0)],
        [(Conv(3), 0), (Dilated(3), 1)],
        [(Conv(5), 0), (Conv(3), 1)],
        [(Average, 0), (Dilated(3), 1)],
    ],
    reduce: [
        [(Conv(5), 1), (Max, 0)],
        [(Conv(5), 1), (Conv(5), 2)],
        [(Conv(3), 0), (Conv(3), 3)],
        [(Conv(3), 1), (Conv(3), 2)],
    ],
};

/// Where the two reduce cells stand unless a name says otherwise: at one and two thirds of the depth.
pub(super) fn thirds(depth: usize) -> Vec<usize> {
    vec![depth / 3, 2 * depth / 3]
}
