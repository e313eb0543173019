//! Gates: values that pass by a sign which they share.

use super::ModelOperation;
use crate::cost::gated_values;
use crate::mask::SiteMask;
use crate::shape::Shape;

/// `([leader >= 0] + slope) x` for every channel x of a group, where the mask keeps the sign, `(1 + slope) x` elsewhere; `shift`
/// fraction bits are dropped with rounding, and as many added as slopes have. In private the value is rounded by the client's
/// share in every mode, and the sign is that of the rounded leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// All values that it reads fit this many bits, sign included, even with the largest rounding constant, 2^shift - 1. At
    /// least two are left of them after the shift.
    pub width: u32,
    /// Fraction bits dropped.
    pub shift: u32,
    /// The channels of each group, the leader first; every channel is in one group.
    pub groups: Vec<Vec<usize>>,
    /// Fraction bits of the slopes.
    pub slope_bits: u32,
    /// One per channel, or none at all.
    pub slopes: Vec<i8>,
    /// Which signs are computed: of a map with a channel for each group.
    pub mask: SiteMask,
}

impl Gate {
    /// The most fraction bits of slopes.
    pub const MOST_SLOPE_BITS: u32 = 4;

    /// The map of the signs of values of this shape.
    pub fn comparisons(&self, values: Shape) -> Shape {
        values.with_channels(self.groups.len())
    }

    /// How many signs are computed.
    pub fn comparison_count(&self, values: Shape) -> u64 {
        self.mask.relu_count(self.comparisons(values))
    }

    /// How many values follow the signs of others.
    pub fn gated_value_count(&self, values: Shape) -> u64 {
        gated_values(&self.groups, self.comparisons(values), &self.mask)
    }

    /// Whether a sign is computed at a pixel.
    pub fn keeps(&self, values: Shape, sign: usize, pixel: usize) -> bool {
        self.mask.keeps(self.comparisons(values), sign, pixel / values.width, pixel % values.width)
    }

    /// What a channel is multiplied by, with [`Gate::slope_bits`] fraction bits, if it passes or not.
    pub fn factor(&self, channel: usize, passes: bool) -> i64 {
        i64::from(self.slopes.get(channel).copied().unwrap_or(0)) + (i64::from(passes) << self.slope_bits)
    }

    /// The ring that it needs of what it reads: its values are truncated whatever their sign.
    pub fn ring(&self) -> u32 {
        ModelOperation::truncation_ring(self.width)
    }
}
