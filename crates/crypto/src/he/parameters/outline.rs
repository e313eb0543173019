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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeOutline {
    ring_bits: u32,
    weight_bits: WeightBits,
    shapes: Vec<LinearShape>,
    /// Taps of answers whose shape is not listed.
    counted: u64,
}

impl HeOutline {
    /// The outline of these layers. How many weights meet in one coefficient follows from how they are packed.
    pub fn from_layers(ring_bits: u32, weight_bits: WeightBits, shapes: Vec<LinearShape>) -> Self {
        Self { ring_bits, weight_bits, shapes, counted: 0 }
    }

    /// The worst case over all layers: at most `taps` weights in one weight polynomial's row.
    pub fn from_taps(ring_bits: u32, weight_bits: WeightBits, taps: u64) -> Self {
        Self::from_layers(ring_bits, weight_bits, Vec::new()).also_bearing(taps)
    }

    /// Makes room for a layer without naming its shape.
    #[must_use]
    pub fn also_bearing(mut self, taps: u64) -> Self {
        self.counted = self.counted.max(taps);
        self
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
        noise.count(self.counted);
        for shape in &self.shapes {
            noise.count(PackingPlan::choose(shape, degree)?.taps() as u64);
        }
        Ok(noise)
    }
}
