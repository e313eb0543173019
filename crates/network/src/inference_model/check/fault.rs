//! What can be wrong with an outline, and with one of its steps.

use super::{
    MAX_CLASS_NAME_BYTES, MAX_FRACTION, MAX_IMAGE_FRACTION, MAX_NAME_BYTES, MAX_RING_BITS, MAX_STEPS,
};
use crate::inference_model::Gate;
use crate::shape::Shape;
use crate::spec::SpecFault;

/// What can be wrong with an outline as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutlineFault {
    /// A name too long to be one, or with control characters.
    #[error("its name has {bytes} bytes; at most {MAX_NAME_BYTES} are allowed, and no control characters")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// No steps, or too many.
    #[error("it has {count} steps; from 1 to {MAX_STEPS} are allowed")]
    Steps {
        /// How many.
        count: usize,
    },
    /// An image no network takes.
    #[error("it takes images of {shape}")]
    Input {
        /// The size.
        shape: Shape,
    },
    /// Another number of means or deviations than channels.
    #[error("it normalizes {came} channels, the image has {expected}")]
    Normalization {
        /// Channels of the image.
        expected: usize,
        /// Means or deviations.
        came: usize,
    },
    /// Numbers no pixel can be normalized with.
    #[error(
        "its normalization is not usable: means must be finite, deviations positive, and {fraction} fraction \
         bits at most {MAX_IMAGE_FRACTION}"
    )]
    ImageFormat {
        /// Fraction bits of the image.
        fraction: u32,
    },
    /// A ring that does not exist.
    #[error("the image's ring has {bits} bits; from 1 to {MAX_RING_BITS} are possible")]
    ImageRing {
        /// Its bits.
        bits: u32,
    },
    /// Another end than the classes.
    #[error("it ends at {end}, with {classes} classes promised")]
    End {
        /// The last value.
        end: Shape,
        /// The promise.
        classes: usize,
    },
    /// Another number of names than classes.
    #[error("it has {came} class names; expected one for each of {expected} classes, or none")]
    ClassNames {
        /// Classes.
        expected: usize,
        /// Names.
        came: usize,
    },
    /// A name that cannot be shown.
    #[error(
        "the name of class {class} has {bytes} bytes; names have from 1 to {MAX_CLASS_NAME_BYTES} bytes and no \
         control characters"
    )]
    ClassName {
        /// Which class.
        class: usize,
        /// The length of its name.
        bytes: usize,
    },
    /// All bits of the logits dropped.
    #[error("{drop} bits of the logits are dropped, of {ring}")]
    LogitDrop {
        /// Bits dropped.
        drop: u32,
        /// Bits there are.
        ring: u32,
    },
}

/// What can be wrong with one step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepFault {
    /// A name too long to be one, or with control characters.
    #[error("its name has {bytes} bytes; at most {MAX_NAME_BYTES} are allowed, and no control characters")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// A value read before it is made.
    #[error("it reads value {value}; only values 0 to {before} come before it")]
    Input {
        /// The value.
        value: usize,
        /// The last one there is.
        before: usize,
    },
    /// Too many or too few inputs.
    #[error("it has {came} inputs, which this operation cannot take")]
    InputCount {
        /// How many.
        came: usize,
    },
    /// A list of the wrong length.
    #[error("it has {came} {what}, expected are {expected}")]
    Count {
        /// Which list.
        what: &'static str,
        /// How many were expected.
        expected: usize,
        /// How many came.
        came: usize,
    },
    /// Groups of shared signs that do not fit.
    #[error("{0}")]
    Groups(Box<SpecFault>),
    /// Slopes that are too fine, or fraction bits of none.
    #[error(
        "its slopes have {bits} fraction bits; with slopes at most {}, without none",
        Gate::MOST_SLOPE_BITS
    )]
    SlopeBits {
        /// How many.
        bits: u32,
    },
    /// A stated shape that is not the computed one.
    #[error("it states {stated}, its operation makes {expected}")]
    Shape {
        /// What the operation makes.
        expected: Shape,
        /// What is stated.
        stated: Shape,
    },
    /// A value too large or empty.
    #[error("it makes a value of {shape}, which is empty or too large")]
    Size {
        /// The size.
        shape: Shape,
    },
    /// Too much in all.
    #[error("up to here there are {scalars} scalars and {weights} weights, which is too much")]
    TooLarge {
        /// Scalars of all values so far.
        scalars: u64,
        /// Weights of all layers so far.
        weights: u64,
    },
    /// Values that cannot be joined.
    #[error("it joins {first} and {other}")]
    Join {
        /// The first.
        first: Shape,
        /// Another one.
        other: Shape,
    },
    /// Channels that are not there.
    #[error("it takes {channels} channels from {start}, of {input}")]
    Slice {
        /// The first.
        start: usize,
        /// How many.
        channels: usize,
        /// How many there are.
        input: usize,
    },
    /// A window, channel or group count that does not fit.
    #[error("{what} {value} does not fit an input of {input}")]
    Geometry {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The input.
        input: Shape,
    },
    /// Fraction bits that do not follow.
    #[error("it states {stated} fraction bits, its operation makes {expected}")]
    Fraction {
        /// What the operation makes.
        expected: u32,
        /// What is stated.
        stated: u32,
    },
    /// Too many fraction bits.
    #[error("it states {stated} fraction bits; at most {MAX_FRACTION} are allowed")]
    FractionLimit {
        /// What is stated.
        stated: u32,
    },
    /// A ring that does not exist.
    #[error("its ring has {bits} bits; from 1 to {MAX_RING_BITS} are possible")]
    NoRing {
        /// Its bits.
        bits: u32,
    },
    /// An input whose ring is too narrow.
    #[error("value {value} lives in a ring of {ring} bits, this step needs {needed}")]
    NarrowRing {
        /// The value.
        value: usize,
        /// Its ring.
        ring: u32,
        /// What is needed.
        needed: u32,
    },
    /// Values wider than every ring.
    #[error("it compares values of {width} bits; from 1 to {MAX_RING_BITS} are possible")]
    ComparedBits {
        /// The width.
        width: u32,
    },
    /// A shift that leaves too little.
    #[error(
        "a shift of {shift} bits does not fit its input's fraction, or leaves fewer than two of a width of {width}"
    )]
    Shift {
        /// Bits shifted.
        shift: u32,
        /// Bits there are.
        width: u32,
    },
    /// A ceiling above all values.
    #[error("the ceiling {ceiling} does not fit the {bits} bits of the output")]
    Ceiling {
        /// The ceiling.
        ceiling: u64,
        /// Bits of the largest output.
        bits: u32,
    },
}
