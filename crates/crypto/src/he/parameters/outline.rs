//! What the parameters may depend on: shapes, bounds and tolerances, never weights.

use super::AnswerNoise;
use super::noise::Counts;
use crate::he::error::HeError;
use crate::he::packing::{ExpectedBits, LinearShape, PackingPlan, SESSION_INFERENCES};

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
    tolerance: u32,
    weight_bits: WeightBits,
    shapes: Vec<LinearShape>,
    /// Taps of answers whose shape is not listed.
    counted: u64,
}

impl HeOutline {
    /// The outline of these layers. How many weights meet in one coefficient follows from how they are packed.
    pub fn from_layers(ring_bits: u32, weight_bits: WeightBits, shapes: Vec<LinearShape>) -> Self {
        Self { ring_bits, tolerance: 0, weight_bits, shapes, counted: 0 }
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

    /// Says that whoever reads the layers' outputs will drop so many low bits: the shares may be off by an eighth of what is
    /// then the last place, in the standard deviation.
    #[must_use]
    pub fn tolerating(mut self, bits: u32) -> Self {
        self.tolerance = bits;
        self
    }

    pub(super) fn weight_bits(&self) -> WeightBits {
        self.weight_bits
    }

    pub(super) fn ring_bits(&self) -> u32 {
        self.ring_bits
    }

    pub(super) fn checked_ring_bits(&self) -> Result<u32, HeError> {
        match self.ring_bits {
            8..=64 => Ok(self.ring_bits),
            ring_bits => Err(HeError::RingBits { ring_bits }),
        }
    }

    /// Bits that are dropped later; some of the ring are always left.
    pub(super) fn tolerance(&self) -> u32 {
        self.tolerance.min(self.ring_bits.saturating_sub(MIN_KEPT_BITS))
    }

    /// What a packing may expect of the widths that are chosen after it.
    pub(super) fn expected_bits(&self) -> ExpectedBits {
        ExpectedBits::new(self.ring_bits - self.tolerance(), self.weight_bits.bound())
    }

    /// The noise of all answers when ciphertexts have this many coefficients, and what is sent then.
    pub(super) fn noise(&self, degree: usize) -> Result<(AnswerNoise, Counts), HeError> {
        let mut noise = AnswerNoise::new(self.weight_bits.bound());
        let mut counts = Counts::default();
        noise.count(self.counted);
        for shape in &self.shapes {
            let plan = PackingPlan::choose(shape, degree, &self.expected_bits())?;
            noise.count(plan.taps() as u64);
            counts.inputs += (plan.input_ciphertexts() * degree) as u64;
            counts.uniform += (plan.output_ciphertexts() * degree) as u64 / SESSION_INFERENCES;
            counts.values += shape.output_values() as u64;
        }
        if self.shapes.is_empty() {
            counts = Counts { inputs: 2, uniform: 2, values: 1 };
        }
        Ok((noise, counts))
    }
}

/// Bits of a ring that are never taken for dropped.
const MIN_KEPT_BITS: u32 = 4;
