//! The frozen network: integers only. What `serve` loads, and what of it the client may know.
//!
//! An [`InferenceModel`] is a [`ModelOutline`] (public between the parties) and the weights (the server's). The
//! outline is a flat list of integer steps in the manner of [`crate::walk`]: step `i` makes value `i + 1`, value 0 is
//! the image in fixed point. Every value is an integer tensor with a number of fraction bits and lives in a ring
//! Z_2^l that is wide enough for all that read it; arithmetic wraps, in the reference and in the protocol alike.
//!
//! ```text
//! image -> Linear -> Add -> Activate -> Linear ... -> logits
//! ```
//!
//! Between two `Activate` steps everything is linear, so both parties compute it on their own shares; only
//! `Activate`, `Gate` and `Maximum` need messages. [`ModelOutline::schedule`] says which steps share a round trip.

mod check;
mod file;
mod gate;
mod schedule;
mod tolerance;

use crate::cost::Counts;
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::spec::Pool;
use crate::walk::{ConvGeometry, Place, StepId, ValueId};

pub use check::{OutlineFault, StepFault};
pub use file::ModelFileError;
pub use gate::Gate;
pub use schedule::{Flight, OperationRole, Round, Schedule};
pub use tolerance::DEVIATION as ENCRYPTION_DEVIATION;

/// The widest ring.
pub const MAX_RING_BITS: u32 = 62;

/// What the client may know of a model: layers, shapes, masks, scales, widths; no weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOutline {
    /// What to call it.
    pub name: String,
    /// The image it takes.
    pub input: Shape,
    /// How pixels become integers.
    pub image: ImageFormat,
    /// How many classes it tells apart.
    pub classes: usize,
    /// What the classes are called, in the order of the logits; empty where nobody named them.
    pub class_names: Vec<String>,
    /// How large weights may be.
    pub weight_bits: WeightBits,
    /// Bits dropped from the logits before the client sees them.
    pub logit_drop: u32,
    /// The steps, in order; the last one makes the logits.
    pub steps: Vec<ModelStep>,
    /// The ring of the image's shares, in bits.
    pub image_ring_bits: u32,
}

/// How a pixel from 0 to 255 becomes an integer: `round((pixel / 255 - mean) / deviation * 2^fraction)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageFormat {
    /// Fraction bits of the integers.
    pub fraction: u32,
    /// Subtracted from each channel, in the unit interval.
    pub mean: Vec<f32>,
    /// Divides each channel.
    pub deviation: Vec<f32>,
}

/// How large weights may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightBits {
    /// From -127 to 127.
    #[default]
    Eight,
    /// From -2047 to 2047.
    Twelve,
}

impl WeightBits {
    /// The largest magnitude.
    pub const fn bound(self) -> i16 {
        match self {
            Self::Eight => 127,
            Self::Twelve => 2047,
        }
    }
}

/// One integer step.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelStep {
    /// The name of the operation it came from.
    pub name: String,
    /// Where it stands in the network.
    pub place: Place,
    /// What is done.
    pub operation: ModelOperation,
    /// To which values.
    pub inputs: Vec<ValueId>,
    /// The size of the value it makes.
    pub shape: Shape,
    /// Fraction bits of that value.
    pub fraction: u32,
    /// Bits of the ring in which that value is shared: as many as its readers need.
    pub ring_bits: u32,
}

/// What an integer step does. All but `Activate`, `Gate` and `Maximum` are linear in the input values.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelOperation {
    /// A convolution or fully connected layer with secret weights and biases; afterwards channel `c` is shifted up by
    /// `channel_shifts[c]` bits, which brings channels with coarser weights to the common scale.
    Linear {
        /// Its shape.
        geometry: LinearGeometry,
        /// One per output channel.
        channel_shifts: Vec<u8>,
    },
    /// The sum of the inputs, each shifted up by its number of bits.
    Add {
        /// One per input.
        shifts: Vec<u8>,
    },
    /// The channels of the inputs side by side, each input shifted up.
    Concat {
        /// One per input.
        shifts: Vec<u8>,
    },
    /// A contiguous range of channels.
    Slice {
        /// The first.
        start: usize,
        /// How many.
        channels: usize,
    },
    /// The map without its first row and column.
    DropFirstRowAndColumn,
    /// The sum over each window; zeros outside the map.
    SumPool(Pool),
    /// The sum over each channel.
    GlobalSum,
    /// Every pixel of every channel times a public constant: averages whose divisor is no power of two.
    ScalePixels {
        /// One per pixel of the map, row by row.
        factors: Vec<u32>,
    },
    /// ReLU where the mask keeps it, the identity elsewhere; then `shift` fraction bits are dropped with rounding.
    Activate {
        /// The pre-activation fits this many bits, sign included, even with the largest rounding constant, 2^shift - 1.
        /// At least two are left of them after the shift.
        width: u32,
        /// Fraction bits dropped.
        shift: u32,
        /// The largest output, for clipped ReLUs.
        ceiling: Option<u64>,
        /// Which positions keep their ReLU. A rescaling that no ReLU asked for drops all.
        mask: SiteMask,
    },
    /// Values that pass by a sign which they share, and in part whatever it is.
    Gate(Gate),
    /// The maximum over each window.
    Maximum {
        /// The window.
        pool: Pool,
        /// The inputs fit this many bits, sign included.
        width: u32,
    },
}

impl ModelOperation {
    /// The ring in which an `Activate` of this width computes at positions without ReLU: one bit more makes the most
    /// significant one known. The ring of the value that it reads is at least as wide, and wider where another step that
    /// reads it needs that.
    pub fn truncation_ring(width: u32) -> u32 {
        width.saturating_add(1)
    }
}

/// The shape of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearGeometry {
    /// A convolution (its `bias` flag says nothing here: every linear layer has biases).
    Conv(ConvGeometry),
    /// A fully connected layer over all scalars of its input.
    FullyConnected {
        /// Inputs.
        inputs: usize,
        /// Outputs.
        outputs: usize,
    },
}

impl LinearGeometry {
    /// Output channels.
    pub const fn outputs(&self) -> usize {
        match self {
            Self::Conv(conv) => conv.outputs,
            Self::FullyConnected { outputs, .. } => *outputs,
        }
    }

    /// Weights of one output channel.
    pub const fn taps(&self) -> usize {
        match self {
            Self::Conv(conv) => conv.taps(),
            Self::FullyConnected { inputs, .. } => *inputs,
        }
    }
}

/// The secret part of one linear layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearWeights {
    /// Output channel, input channel within the group, row, column.
    pub weights: Vec<i16>,
    /// One per output channel, at the scale of the output value (after the channel shift).
    pub biases: Vec<i64>,
}

/// A frozen network.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceModel {
    outline: ModelOutline,
    layers: Vec<LinearWeights>,
}

impl InferenceModel {
    /// Joins outline and weights.
    ///
    /// # Errors
    /// When the outline makes no sense, or the weights are not those of its linear layers.
    pub fn new(outline: ModelOutline, layers: Vec<LinearWeights>) -> Result<Self, ModelError> {
        outline.check()?;
        let shapes: Vec<_> = outline.linear_steps().map(|(_, geometry)| geometry).collect();
        if shapes.len() != layers.len() {
            return Err(ModelError::Layers { expected: shapes.len(), came: layers.len() });
        }
        let bound = outline.weight_bits.bound();
        for (index, (geometry, layer)) in shapes.iter().zip(&layers).enumerate() {
            let expected = geometry.taps() * geometry.outputs();
            if layer.weights.len() != expected || layer.biases.len() != geometry.outputs() {
                return Err(ModelError::Weights { layer: index, expected, came: layer.weights.len() });
            }
            if let Some(&value) =
                layer.weights.iter().find(|weight| weight.unsigned_abs() > bound.unsigned_abs())
            {
                return Err(ModelError::Range { layer: index, value, bound });
            }
            let largest = 1_u64 << (MAX_RING_BITS - 1);
            if let Some(&value) = layer.biases.iter().find(|bias| bias.unsigned_abs() > largest) {
                return Err(ModelError::Bias { layer: index, value });
            }
        }
        Ok(Self { outline, layers })
    }

    /// The model with names for its classes, in the order of the logits.
    ///
    /// # Errors
    /// When there are more or fewer names than classes, or one is empty, too long or not printable.
    pub fn with_class_names(mut self, names: Vec<String>) -> Result<Self, ModelError> {
        self.outline.class_names = names;
        self.outline.check()?;
        Ok(self)
    }

    /// What the client may know.
    pub fn outline(&self) -> &ModelOutline {
        &self.outline
    }

    /// The weights of the linear steps, in order.
    pub fn layers(&self) -> &[LinearWeights] {
        &self.layers
    }
}

impl ModelOutline {
    /// The linear steps with their numbers, in order.
    pub fn linear_steps(&self) -> impl Iterator<Item = (StepId, LinearGeometry)> + '_ {
        self.numbered_steps().filter_map(|(id, step)| match &step.operation {
            ModelOperation::Linear { geometry, .. } => Some((id, *geometry)),
            _ => None,
        })
    }

    /// All steps with their numbers, in order.
    pub fn numbered_steps(
        &self,
    ) -> impl DoubleEndedIterator<Item = (StepId, &ModelStep)> + ExactSizeIterator {
        self.steps.iter().enumerate().map(|(index, step)| (StepId(index), step))
    }

    /// One step.
    ///
    /// # Panics
    /// If it belongs to another outline.
    pub fn step(&self, id: StepId) -> &ModelStep {
        &self.steps[id.0]
    }

    /// How many values there are, the image included.
    pub fn value_count(&self) -> usize {
        self.output().0 + 1
    }

    /// The size of a value.
    ///
    /// # Panics
    /// If the value belongs to another outline.
    pub fn shape(&self, value: ValueId) -> Shape {
        value.maker().map_or(self.input, |maker| self.step(maker).shape)
    }

    /// The ring of a value, in bits.
    ///
    /// # Panics
    /// If the value belongs to another outline.
    pub fn ring_bits(&self, value: ValueId) -> u32 {
        value.maker().map_or(self.image_ring_bits, |maker| self.step(maker).ring_bits)
    }

    /// The fraction bits of a value.
    ///
    /// # Panics
    /// If the value belongs to another outline.
    pub fn fraction(&self, value: ValueId) -> u32 {
        value.maker().map_or(self.image.fraction, |maker| self.step(maker).fraction)
    }

    /// Fraction bits of the logits the client gets.
    pub fn logit_fraction(&self) -> i64 {
        i64::from(self.fraction(self.output())) - i64::from(self.logit_drop)
    }

    /// What a class is called, where it has a name.
    pub fn class_name(&self, class: usize) -> Option<&str> {
        self.class_names.get(class).map(String::as_str)
    }

    /// The logits.
    pub fn output(&self) -> ValueId {
        ValueId(self.steps.len())
    }

    /// How many signs are compared: one for each ReLU that is kept, one for each group of a gate.
    pub fn relu_count(&self) -> u64 {
        let count = |step: &ModelStep| match &step.operation {
            ModelOperation::Activate { mask, .. } => mask.relu_count(step.shape),
            ModelOperation::Gate(gate) => gate.comparison_count(step.shape),
            _ => 0,
        };
        self.steps.iter().map(count).sum()
    }

    /// What it compares and gates.
    pub fn counts(&self) -> Counts {
        Counts { comparisons: self.relu_count(), gated_values: self.gated_value_count() }
    }

    /// How many values follow the signs of others.
    pub fn gated_value_count(&self) -> u64 {
        let count = |step: &ModelStep| match &step.operation {
            ModelOperation::Gate(gate) => gate.gated_value_count(step.shape),
            _ => 0,
        };
        self.steps.iter().map(count).sum()
    }
}

/// A model that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Another number of linear layers.
    #[error("weights for {came} linear layers came, the outline has {expected}")]
    Layers {
        /// What the outline has.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// Another number of weights.
    #[error(
        "linear layer {layer} has {came} weights, the outline needs {expected} (and one bias per output)"
    )]
    Weights {
        /// Which layer.
        layer: usize,
        /// What it needs.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// A weight beyond the bound.
    #[error("linear layer {layer} has the weight {value}; at most {bound} is allowed")]
    Range {
        /// Which layer.
        layer: usize,
        /// The weight.
        value: i16,
        /// The largest magnitude.
        bound: i16,
    },
    /// An outline that makes no sense as a whole.
    #[error("the outline makes no sense: {0}")]
    Outline(#[from] OutlineFault),
    /// A step whose inputs, shape or widths do not fit.
    #[error("step {step} ({name}): {fault}")]
    Step {
        /// Which step.
        step: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        fault: StepFault,
    },
    /// A bias beyond every ring.
    #[error("linear layer {layer} has the bias {value}; it must fit {MAX_RING_BITS} bits")]
    Bias {
        /// Which layer.
        layer: usize,
        /// The bias.
        value: i64,
    },
}
