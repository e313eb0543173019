//! The one traversal: every elementary operation in order, with shapes, stage and skip connections.
//!
//! Nested blocks, branches, splits and cells become a flat list of [`Step`]s. Each step reads values made before
//! it and makes one new value, so a skip connection is just a value that is read again later:
//!
//! ```text
//! value 0   the image
//! value 1   conv(0)            stem.conv1
//! value 2   relu(1)            stem.relu1        ReLU site 0
//! value 3   conv(2)            stage1.block1.body.conv1
//! value 4   add(3, 2)          stage1.block1.add1
//! ```
//!
//! The trainer assembles from these steps, the counter sums over them, the freezer folds along them and the
//! protocol plans with them. Nothing else in the product interprets a [`Draft`].

pub(crate) mod build;

use std::fmt;

use crate::shape::Shape;
use crate::spec::{Draft, NetworkSpec, Pool, SharedSigns, SpecError};

/// A value in the order of its making; 0 is the image, and step `i` makes value `i + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub usize);

impl ValueId {
    /// The image.
    pub const IMAGE: Self = Self(0);

    /// The step that makes it; none makes the image.
    pub const fn maker(self) -> Option<StepId> {
        match self.0 {
            0 => None,
            value => Some(StepId(value - 1)),
        }
    }
}

/// A step, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub usize);

impl StepId {
    /// The value it makes.
    pub const fn output(self) -> ValueId {
        ValueId(self.0 + 1)
    }
}

/// A stage, numbered from 1 as in the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageIndex(pub usize);

impl fmt::Display for StageIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "S{}", self.0)
    }
}

/// The large part of the network an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Before the first stage.
    Stem,
    /// A stage.
    Stage(StageIndex),
    /// After the last stage.
    Head,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stem => formatter.write_str("stem"),
            Self::Stage(stage) => write!(formatter, "{}", stage.0),
            Self::Head => formatter.write_str("head"),
        }
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Stem, stage or head.
    pub part: Part,
    /// The block within a stage, numbered from 1.
    pub block: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.part, self.block) {
            (Part::Stage(stage), Some(block)) => write!(formatter, "stage {}, block {block}", stage.0),
            (Part::Stage(stage), None) => write!(formatter, "stage {}", stage.0),
            (part, _) => write!(formatter, "the {part}"),
        }
    }
}

/// A convolution with everything resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Side of the filter.
    pub filter: usize,
    /// Step between outputs.
    pub stride: usize,
    /// Zeros on each side.
    pub padding: usize,
    /// Distance between taps.
    pub dilation: usize,
    /// Independent groups of channels.
    pub groups: usize,
    /// Whether a learned constant is added.
    pub bias: bool,
}

impl ConvGeometry {
    /// Weights of one output channel; a walk refuses convolutions where they cannot be counted.
    pub const fn taps(&self) -> usize {
        self.inputs / self.groups * self.filter * self.filter
    }

    /// The same before anybody checked that it can be counted.
    fn checked_taps(&self) -> Option<u64> {
        let side = self.filter as u64;
        let taps = (self.inputs as u64 / self.groups as u64).checked_mul(side)?.checked_mul(side)?;
        usize::try_from(taps).is_ok().then_some(taps)
    }
}

/// One elementary operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A convolution.
    Conv(ConvGeometry),
    /// Batch normalization.
    BatchNorm {
        /// Whether scale and shift are learned.
        affine: bool,
    },
    /// One ReLU per scalar.
    Relu {
        /// The key of masks and reports.
        site: SiteIndex,
        /// The largest value let through, for clipped ReLUs.
        ceiling: Option<u8>,
    },
    /// Comparisons that decide for several channels each.
    SharedSigns {
        /// The key of masks and reports.
        site: SiteIndex,
        /// Which channels share a sign, and whether they have slopes.
        signs: SharedSigns,
    },
    /// Average pooling.
    AveragePool(Pool),
    /// Maximum pooling.
    MaxPool(Pool),
    /// The mean of each channel.
    GlobalAveragePool,
    /// A fully connected layer over all scalars, with bias.
    FullyConnected {
        /// Inputs.
        inputs: usize,
        /// Outputs.
        outputs: usize,
    },
    /// The sum of all inputs.
    Add,
    /// The channels of all inputs, side by side.
    Concat,
    /// A contiguous range of channels.
    Slice {
        /// The first channel.
        start: usize,
        /// How many.
        channels: usize,
    },
    /// The map without its first row and column.
    DropFirstRowAndColumn,
}

impl Operation {
    /// A short name.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Conv(_) => "conv",
            Self::BatchNorm { .. } => "norm",
            Self::Relu { .. } => "relu",
            Self::SharedSigns { .. } => "signs",
            Self::AveragePool(_) => "average",
            Self::MaxPool(_) => "max",
            Self::GlobalAveragePool => "mean",
            Self::FullyConnected { .. } => "fc",
            Self::Add => "add",
            Self::Concat => "concat",
            Self::Slice { .. } => "slice",
            Self::DropFirstRowAndColumn => "crop",
        }
    }

    /// Whether the server can apply it to shares without the client.
    pub const fn is_linear(&self) -> bool {
        !matches!(self, Self::Relu { .. } | Self::SharedSigns { .. } | Self::MaxPool(_))
    }
}

/// One operation at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub operation: Operation,
    /// To which values.
    pub inputs: Vec<ValueId>,
    /// The value it makes.
    pub output: ValueId,
    /// Where.
    pub place: Place,
    /// A unique name, such as `stage2.block1.body.conv1`; the key of weights. Operations are numbered per list
    /// and kind, so dropping ReLUs renames nothing but later ReLUs of the same list.
    pub name: String,
}

/// A ReLU layer's number, in the order of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteIndex(pub usize);

/// The place of one ReLU layer: the key of masks and reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ReluSite {
    /// Its number.
    pub index: SiteIndex,
    /// The step that applies it.
    pub step: usize,
    /// The same name as the step.
    pub name: String,
    /// Where.
    pub place: Place,
    /// One comparison for every scalar of this map: that of the step's values, or with shared signs one channel for
    /// each group.
    pub shape: Shape,
}

/// A network that can be walked: one that was described stage by stage, or one that was made elsewhere and imported.
pub trait Network {
    /// What to call it.
    fn name(&self) -> &str;

    /// Every elementary operation in order.
    fn walk(&self) -> &Walk;
}

impl Network for NetworkSpec {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn walk(&self) -> &Walk {
        Self::walk(self)
    }
}

/// The flat list of operations of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    steps: Vec<Step>,
    shapes: Vec<Shape>,
    sites: Vec<ReluSite>,
}

impl Walk {
    /// Walks a draft and checks that its shapes fit.
    ///
    /// # Errors
    /// At the first place where they do not.
    pub(crate) fn new(draft: &Draft) -> Result<Self, SpecError> {
        build::walk(draft)
    }

    /// A walk whose parts were checked as they were made.
    pub(crate) fn from_parts(steps: Vec<Step>, shapes: Vec<Shape>, sites: Vec<ReluSite>) -> Self {
        Self { steps, shapes, sites }
    }

    /// The operations, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The ReLU layers, in order.
    pub fn sites(&self) -> &[ReluSite] {
        &self.sites
    }

    /// The size of a value.
    ///
    /// # Panics
    /// If the value belongs to another walk.
    pub fn shape(&self, value: ValueId) -> Shape {
        self.shapes[value.0]
    }

    /// How many values there are, the image included.
    pub fn value_count(&self) -> usize {
        self.shapes.len()
    }

    /// How many classes the network tells apart.
    pub fn classes(&self) -> usize {
        self.shape(self.output()).channels
    }

    /// The logits.
    pub fn output(&self) -> ValueId {
        ValueId(self.shapes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn values_are_read_only_after_they_were_made() {
        for entry in zoo::catalog() {
            let spec = zoo::build(entry.name, entry.input, 10).unwrap();
            for (index, step) in spec.walk().steps().iter().enumerate() {
                assert_eq!(step.output, ValueId(index + 1));
                assert!(
                    step.inputs.iter().all(|input| *input < step.output),
                    "{}: {}",
                    entry.name,
                    step.name
                );
            }
        }
    }

    #[test]
    fn step_names_are_unique() {
        for entry in zoo::catalog() {
            let spec = zoo::build(entry.name, entry.input, 10).unwrap();
            let mut names: Vec<_> = spec.walk().steps().iter().map(|step| &step.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), spec.walk().steps().len(), "{}", entry.name);
        }
    }

    #[test]
    fn dropping_relus_renames_no_weights() {
        use crate::transform::{ThinChoice, cull_stage, thin_stage};
        let weights = |spec: &crate::spec::NetworkSpec| -> Vec<String> {
            let is_other = |step: &&Step| !matches!(step.operation, Operation::Relu { .. });
            spec.walk().steps().iter().filter(is_other).map(|step| step.name.clone()).collect()
        };
        for name in ["resnet18", "wrn-16x8", "vgg11", "mobilenetv2", "darts:c=4,d=4,share=yes"] {
            let spec = zoo::build(name, 32, 10).unwrap();
            for choice in [ThinChoice::AfterSum, ThinChoice::Inner] {
                let thinned = thin_stage(&spec, StageIndex(1), choice).unwrap();
                assert_eq!(weights(&cull_stage(&thinned, StageIndex(2)).unwrap()), weights(&spec), "{name}");
            }
        }
    }

    #[test]
    fn a_skip_connection_is_a_value_read_twice() {
        let spec = zoo::build("resnet18", 32, 10).unwrap();
        let add = spec.walk().steps().iter().find(|step| step.operation == Operation::Add).unwrap();
        assert_eq!(add.name, "stage1.block1.add1");
        let skipped = add.inputs[1];
        let readers = spec.walk().steps().iter().filter(|step| step.inputs.contains(&skipped)).count();
        assert_eq!(readers, 2);
    }
}
