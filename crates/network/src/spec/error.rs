//! What can be wrong with a spec, and where.

use std::path::PathBuf;

use super::MAX_VALUES_PER_SIGN;
use crate::shape::{MAX_CHANNELS, MAX_SIDE, Shape};

/// A spec whose shapes do not fit: the place and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct SpecError {
    /// For example `stage 2, block 1, body, layer 3 (conv)`.
    pub place: String,
    /// What is wrong there.
    pub fault: SpecFault,
}

/// The reasons a spec is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// A dimension is zero or beyond the limits.
    #[error(
        "a feature map of {shape} is not allowed; channels go from 1 to {MAX_CHANNELS}, sides from 1 to {MAX_SIDE}"
    )]
    Size {
        /// The size that came out.
        shape: Shape,
    },
    /// A filter, window, stride, dilation or padding makes no sense.
    #[error("{what} is {value}; expected {expected}")]
    Parameter {
        /// Which one.
        what: &'static str,
        /// What came.
        value: usize,
        /// What is allowed.
        expected: &'static str,
    },
    /// The window is larger than the padded map.
    #[error("a window that spans {span} pixels does not fit a map of {input} with padding {padding}")]
    Window {
        /// Pixels from the first to the last tap.
        span: usize,
        /// The input.
        input: Shape,
        /// Zeros on each side.
        padding: usize,
    },
    /// Groups do not divide the channels.
    #[error(
        "{groups} groups divide neither evenly {input} input channels nor {output} output channels; both must be multiples"
    )]
    Groups {
        /// How many groups.
        groups: usize,
        /// Input channels.
        input: usize,
        /// Output channels.
        output: usize,
    },
    /// Branches end at different sizes.
    #[error(
        "the branches end at {first} and {other}, which cannot be {joined}; give the shortcut a layer that fits"
    )]
    Branches {
        /// Where the first one ends.
        first: Shape,
        /// Where another one ends.
        other: Shape,
        /// "added" or "concatenated".
        joined: &'static str,
    },
    /// Something that needs members has none.
    #[error("{what} is empty")]
    Empty {
        /// What.
        what: &'static str,
    },
    /// The groups of a split do not hold all channels.
    #[error("the groups hold {groups} channels, the input has {input}")]
    Split {
        /// Sum over the groups.
        groups: usize,
        /// Channels there are.
        input: usize,
    },
    /// Groups of shared signs that leave channels over.
    #[error("{channels} channels cannot be divided into groups of {values_per_sign}, one for each sign")]
    SignGroups {
        /// Channels there are.
        channels: usize,
        /// Channels of a group.
        values_per_sign: usize,
    },
    /// A sign for more channels than can share one.
    #[error("a group has {came} channels; at most {MAX_VALUES_PER_SIGN} share a sign, make more groups")]
    SignGroupSize {
        /// Channels of the group.
        came: usize,
    },
    /// A group of shared signs names a channel that is not there.
    #[error("a group names channel {channel}; the input has channels 0 to {last}")]
    NoSuchChannel {
        /// The channel.
        channel: usize,
        /// The last one there is.
        last: usize,
    },
    /// A channel in no group of shared signs, or in several.
    #[error("channel {channel} stands in {groups} groups; every channel of 0 to {last} must stand in one")]
    ChannelGroups {
        /// The channel.
        channel: usize,
        /// In how many it stands.
        groups: usize,
        /// The last channel.
        last: usize,
    },
    /// An edge or a concatenation names a node that does not exist yet.
    #[error("node {node} is read where only nodes 0 to {last} come before it")]
    Node {
        /// The node asked for.
        node: usize,
        /// The last one there is.
        last: usize,
    },
    /// The first group of a split has nothing to carry from.
    #[error("the first group has no group before it to carry from")]
    Carry,
    /// A factorized reduce needs an even map.
    #[error(
        "a factorized reduce halves the map, so {input} must have even sides, and at least two outputs are needed"
    )]
    OddReduce {
        /// The input.
        input: Shape,
    },
    /// The network ends at another size than its classes.
    #[error("the network ends at {end}; expected {classes}x1x1, made by `classifier` as the last layer")]
    End {
        /// Where it ends.
        end: Shape,
        /// How many classes the spec promises.
        classes: usize,
    },
    /// Lists nested too deeply.
    #[error("layers are nested more than {limit} deep")]
    Depth {
        /// How deep they may be.
        limit: usize,
    },
    /// Too many operations.
    #[error("the network has more than {limit} operations")]
    Steps {
        /// How many there may be.
        limit: usize,
    },
    /// A name that would command the terminal it is printed on.
    #[error("the name holds a control character; use letters, digits, punctuation and spaces")]
    ControlCharacter,
    /// Too much arithmetic to count.
    #[error("the layer needs more multiply-adds than can be counted (2^53)")]
    Work,
}

/// A file that holds no spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecFileError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large to be a spec.
    #[error("{} has more than {limit} bytes, too many for a network spec", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most there may be.
        limit: u64,
    },
    /// It is no TOML, or TOML of another kind.
    #[error("this is no network spec in TOML")]
    Syntax(#[source] Box<toml::de::Error>),
    /// Its shapes do not fit.
    #[error(transparent)]
    Shapes(#[from] SpecError),
}
