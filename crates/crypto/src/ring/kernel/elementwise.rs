//! Loops over ring vectors, one value at a time in the source and a register at a time on the processor.

use super::Vectorized;
use crate::ring::word::Word;

/// What to do with each pair of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairwise {
    /// The sum.
    Add,
    /// The first minus the second.
    Subtract,
}

/// Replaces each value on the left.
pub(crate) struct Combine<'a, W> {
    pub(crate) operation: Pairwise,
    pub(crate) left: &'a mut [W],
    pub(crate) right: &'a [W],
    pub(crate) mask: W,
}

impl<W: Word> Vectorized for Combine<'_, W> {
    #[inline(always)]
    fn run(self) {
        let mask = self.mask;
        let pairs = self.left.iter_mut().zip(self.right);
        match self.operation {
            Pairwise::Add => pairs.for_each(|(left, right)| *left = left.plus(*right) & mask),
            Pairwise::Subtract => pairs.for_each(|(left, right)| *left = left.minus(*right) & mask),
        }
    }
}

/// What to do with each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Zero minus the value.
    Negate,
    /// The value times a power of two.
    ShiftUp(u32),
    /// The signed value divided by a power of two, rounded down.
    ShiftDownSigned(u32),
}

/// Replaces each value of a vector.
pub(crate) struct Replace<'a, W> {
    pub(crate) change: Change,
    pub(crate) values: &'a mut [W],
    pub(crate) mask: W,
    /// Bits of the ring that the values are read in; only the signed shift looks at them.
    pub(crate) bits: u32,
}

impl<W: Word> Vectorized for Replace<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { change, values, mask, bits } = self;
        match change {
            Change::Negate => each(values, |value| W::default().minus(value) & mask),
            Change::ShiftUp(shift) => each(values, |value| value.shift_up(shift) & mask),
            Change::ShiftDownSigned(shift) => {
                // The sign moves to the word's top bit first, so that the shift back spreads it.
                let unused = W::BITS - bits;
                each(values, |value| {
                    value.shift_up(unused).shift_down_signed(unused).shift_down_signed(shift) & mask
                });
            }
        }
    }
}

/// Replaces each value by `2^shift` times it, plus an addend; both are those of its plane.
pub(crate) struct ShiftPlanes<'a, W> {
    pub(crate) values: &'a mut [W],
    /// Shift and addend of each plane; all planes are of one length.
    pub(crate) planes: &'a [(u32, W)],
    pub(crate) mask: W,
}

impl<W: Word> Vectorized for ShiftPlanes<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { values, planes, mask } = self;
        let length = (values.len() / planes.len().max(1)).max(1);
        for (values, (shift, addend)) in values.chunks_exact_mut(length).zip(planes) {
            each(values, |value| value.shift_up(*shift).plus(*addend) & mask);
        }
    }
}

#[inline(always)]
fn each<W: Word>(values: &mut [W], change: impl Fn(W) -> W) {
    for value in values {
        *value = change(*value);
    }
}
