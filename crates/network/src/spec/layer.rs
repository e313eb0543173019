//! The layers a spec may name.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::SharedSigns;

/// One operation, or a small group of them with one input and one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A convolution.
    Conv(Conv),
    /// Batch normalization with learned scale and shift.
    BatchNorm,
    /// Batch normalization without them.
    PlainBatchNorm,
    /// A ReLU for every scalar.
    Relu,
    /// A ReLU clipped at 6.
    Relu6,
    /// Comparisons that decide for several channels each.
    SharedSigns(SharedSigns),
    /// Average pooling.
    AveragePool(Pool),
    /// Maximum pooling: not linear, so it costs a circuit too.
    MaxPool(Pool),
    /// The mean of each channel.
    GlobalAveragePool,
    /// Halves the resolution by two strided 1x1 convolutions, one shifted by a pixel, side by side.
    FactorizedReduce(FactorizedReduce),
    /// A fully connected layer over all scalars of its input.
    FullyConnected(FullyConnected),
    /// The last fully connected layer: as many outputs as there are classes.
    Classifier,
    /// Several paths from one value, added or concatenated.
    Branches(Branches),
    /// Groups of channels that go separate ways and are concatenated again.
    Split(Split),
}

impl Layer {
    /// The name in TOML.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Conv(_) => "conv",
            Self::BatchNorm => "batch_norm",
            Self::PlainBatchNorm => "plain_batch_norm",
            Self::Relu => "relu",
            Self::Relu6 => "relu6",
            Self::SharedSigns(_) => "shared_signs",
            Self::AveragePool(_) => "average_pool",
            Self::MaxPool(_) => "max_pool",
            Self::GlobalAveragePool => "global_average_pool",
            Self::FactorizedReduce(_) => "factorized_reduce",
            Self::FullyConnected(_) => "fully_connected",
            Self::Classifier => "classifier",
            Self::Branches(_) => "branches",
            Self::Split(_) => "split",
        }
    }

    /// Whether this compares: a ReLU, clipped or not, or one with shared signs.
    pub fn is_relu(&self) -> bool {
        matches!(self, Self::Relu | Self::Relu6 | Self::SharedSigns(_))
    }

    /// The lists of layers nested inside this one.
    pub(crate) fn nested_mut(&mut self) -> Vec<&mut Vec<Layer>> {
        match self {
            Self::Branches(branches) => branches.branches.iter_mut().collect(),
            Self::Split(split) => {
                let mut lists = Vec::new();
                for group in &mut split.groups {
                    lists.extend(group.carry.as_mut());
                    lists.push(&mut group.layers);
                }
                lists
            }
            _ => Vec::new(),
        }
    }
}

/// A convolution with a square filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv {
    /// Output channels.
    pub out: usize,
    /// Side of the filter.
    pub filter: usize,
    /// Step between outputs.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub stride: usize,
    /// Zeros on each side; when absent, as many as keep the resolution at stride 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<usize>,
    /// Distance between taps.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub dilation: usize,
    /// Which inputs an output sees.
    #[serde(default, skip_serializing_if = "Groups::is_dense")]
    pub groups: Groups,
    /// Whether a learned constant is added.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
}

impl Conv {
    /// A dense convolution that keeps the resolution.
    pub const fn new(out: usize, filter: usize) -> Self {
        Self { out, filter, stride: 1, padding: None, dilation: 1, groups: Groups::DENSE, bias: false }
    }

    /// With this stride.
    #[must_use]
    pub const fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// With this distance between taps.
    #[must_use]
    pub const fn dilation(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    /// Each channel on its own.
    #[must_use]
    pub const fn depthwise(self) -> Self {
        Self { groups: Groups::Depthwise, ..self }
    }

    /// The zeros on each side.
    pub fn resolved_padding(&self) -> usize {
        self.padding.unwrap_or_else(|| self.dilation.saturating_mul(self.filter.saturating_sub(1)) / 2)
    }
}

/// How a convolution's channels are grouped: a number, or `"depthwise"` in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// This many independent groups; 1 is a dense convolution.
    Count(usize),
    /// One group per input channel.
    Depthwise,
}

impl Groups {
    /// Every output sees every input.
    pub const DENSE: Self = Self::Count(1);

    fn is_dense(&self) -> bool {
        *self == Self::DENSE
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::DENSE
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count as u64),
            Self::Depthwise => serializer.serialize_str("depthwise"),
        }
    }
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GroupsVisitor;

        impl de::Visitor<'_> for GroupsVisitor {
            type Value = Groups;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a number of groups or \"depthwise\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Groups, E> {
                match text {
                    "depthwise" => Ok(Groups::Depthwise),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Groups, E> {
                usize::try_from(count)
                    .map(Groups::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Groups, E> {
                usize::try_from(count)
                    .map(Groups::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(count), &self))
            }
        }

        deserializer.deserialize_any(GroupsVisitor)
    }
}

/// A pooling window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Side of the window.
    pub window: usize,
    /// Step between windows.
    pub stride: usize,
    /// Zeros (or, for the maximum, nothing) on each side.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub padding: usize,
    /// Whether an average divides by the whole window at the border, padding included.
    #[serde(default, skip_serializing_if = "is_false")]
    pub count_padding: bool,
}

impl Pool {
    /// A window without padding.
    pub const fn new(window: usize, stride: usize) -> Self {
        Self { window, stride, padding: 0, count_padding: false }
    }

    /// With this padding on each side.
    #[must_use]
    pub const fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }
}

/// Two strided 1x1 convolutions side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorizedReduce {
    /// Output channels of both together; the first makes half of them, rounded down.
    pub out: usize,
}

/// A hidden fully connected layer, with bias.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullyConnected {
    /// Outputs.
    pub out: usize,
}

/// Several paths from one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branches {
    /// How their ends meet.
    pub join: Join,
    /// The paths; an empty one passes the value on.
    pub branches: Vec<Vec<Layer>>,
}

/// How the ends of branches meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// They are added.
    Sum,
    /// Their channels are put side by side.
    Concat,
}

/// Contiguous groups of channels that go separate ways and are concatenated again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// In the order of the channels; together they hold all of them.
    pub groups: Vec<Group>,
}

/// One group of a [`Split`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Channels of the group.
    pub channels: usize,
    /// When present, the output of the group before, after these layers, is added to this group's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carry: Option<Vec<Layer>>,
    /// What the group goes through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

/// One edge of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The node it starts from.
    pub from: usize,
    /// Whether it reads that node through a ReLU, computed once for all edges that ask (Sphynx appendix E.1).
    #[serde(default, skip_serializing_if = "is_false")]
    pub activated: bool,
    /// What it does; nothing is the identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

const fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &usize) -> bool {
    *value == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
