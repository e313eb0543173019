//! What the parameters may depend on: shapes and bounds, never weights.

use super::AnswerNoise;
use crate::he::error::HeError;
use crate::he::packing::{LinearShape, PackingPlan};

/// Bound on the weights that the outline declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightBits {
    /// Weights from -127 to 127.
    Eight,
    /// Weights from -2047 to 2047.
    Twelve,
}

impl WeightBits {
    /// Largest absolute value.
    pub fn bound(self) -> u32 {
        match self {
            Self::Eight => 127,
            Self::Twelve => 2047,
        }
    }
}

/// All that both parties know about the linear layers of one inference that share a set of parameters.
///
/// The gate on the distance is for the whole inference. Where other layers have another set, each outline names its
/// own layers and says by [`HeOutline::sharing_among`] how many sets there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeOutline {
    ring_bits: u32,
    weight_bits: WeightBits,
    shapes: Vec<LinearShape>,
    /// Taps and coefficients of answers whose shape is not listed.
    counted: Vec<(u64, u64)>,
    /// Sets of parameters that divide the squared distance of the inference.
    sets: u32,
}

impl HeOutline {
    /// The outline of these layers. How many weights meet in one coefficient follows from how they are packed.
    pub fn from_layers(ring_bits: u32, weight_bits: WeightBits, shapes: Vec<LinearShape>) -> Self {
        Self { ring_bits, weight_bits, shapes, counted: Vec::new(), sets: 1 }
    }

    /// The worst case over all layers: at most `taps` weights in one weight polynomial's row, and this many useful
    /// output coefficients in the whole inference.
    pub fn from_counts(ring_bits: u32, weight_bits: WeightBits, taps: u64, coefficients: u64) -> Self {
        Self::from_layers(ring_bits, weight_bits, Vec::new()).also_counting(taps, coefficients)
    }

    /// Adds answers to the account without naming their shape.
    #[must_use]
    pub fn also_counting(mut self, taps: u64, coefficients: u64) -> Self {
        self.counted.push((taps, coefficients));
        self
    }

    /// One of so many sets of parameters in an inference. Squares of distances add, so each set gets an equal part of
    /// the square of the limit, and all together stay within it.
    #[must_use]
    pub fn sharing_among(mut self, sets: u32) -> Self {
        self.sets = sets.max(1);
        self
    }

    pub(super) fn sets(&self) -> u32 {
        self.sets
    }

    pub(super) fn ring_bits(&self) -> u32 {
        self.ring_bits
    }

    pub(super) fn weight_bits(&self) -> WeightBits {
        self.weight_bits
    }

    pub(super) fn checked_ring_bits(&self) -> Result<u32, HeError> {
        match self.ring_bits {
            8..=64 => Ok(self.ring_bits),
            ring_bits => Err(HeError::RingBits { ring_bits }),
        }
    }

    /// The noise of all answers when ciphertexts have this many coefficients.
    pub(super) fn noise(&self, degree: usize) -> Result<AnswerNoise, HeError> {
        let mut noise = AnswerNoise::new(self.weight_bits.bound());
        for &(taps, coefficients) in &self.counted {
            noise.count(taps, coefficients);
        }
        for shape in &self.shapes {
            let plan = PackingPlan::choose(shape, degree)?;
            noise.count(plan.taps() as u64, shape.output_values() as u64);
        }
        Ok(noise)
    }
}
